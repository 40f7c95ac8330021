//! `sci_local_interrupt_t`, `sci_remote_interrupt_t`: a latched, counted signal between programs.

use std::sync::{Arc, Mutex, PoisonError};

use proto::ids::InterruptNo;
use tieline::InterruptOptions;

use crate::callback::{Callback, InterruptFn};
use crate::code::{Code, Result};
use crate::descriptor::Descriptor;
use crate::far;
use crate::flags;
use crate::handle::{Handle, Handled, Kind};
use crate::library::Library;
use crate::signal::{self, Local, Remote};
use crate::time::{INFINITE, Until};

/// An interrupt of this process.
#[derive(Debug)]
pub struct LocalInterrupt {
    local: Local<tieline::Interrupt>,
    /// Triggers that arrived together, and that no wait has taken yet.
    left: Mutex<u32>,
}

impl Handled for LocalInterrupt {
    const KIND: Kind = Kind::LocalInterrupt;
}

impl LocalInterrupt {
    /// Ends waits and callbacks.
    pub fn stop(&self) {
        self.local.stop();
    }

    /// Takes one trigger that arrived earlier.
    fn take_left(&self) -> bool {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = *left > 0;
        *left = left.saturating_sub(1);
        is_there
    }

    fn wait(&self, until: Until) -> Result<()> {
        if self.take_left() {
            return Ok(());
        }
        let came = self.local.one_after_the_other(until, |interrupt, timeout| {
            // Another thread may have left some while this one was kept out.
            if self.take_left() { Ok(0) } else { interrupt.wait(timeout) }
        })?;
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) += came.saturating_sub(1);
        Ok(())
    }
}

/// The arguments of SCICreateInterrupt and SCICreateDataInterrupt.
#[derive(Debug)]
pub struct Wanted<F> {
    /// Through which adapter.
    pub adapter: u32,
    /// The number, with `FIXED_INTNO`.
    pub number: u32,
    /// The callback.
    pub callback: Option<Callback<F>>,
    /// `SCI_FLAG_…`.
    pub flags: u32,
}

impl<F> Wanted<F> {
    pub(crate) fn options(&self) -> InterruptOptions {
        let is_fixed = self.flags & flags::FIXED_INTNO != 0;
        InterruptOptions { number: is_fixed.then_some(InterruptNo(self.number)), ..Default::default() }
    }
}

/// SCICreateInterrupt: the handle, and the number.
pub fn create(
    descriptor: Handle<Descriptor>,
    wanted: &Wanted<InterruptFn>,
) -> Result<(Handle<LocalInterrupt>, u32)> {
    let library = Library::get()?;
    let descriptor = library.descriptors.get(descriptor)?;
    let interrupt = library.node_with(wanted.adapter)?.create_interrupt(&wanted.options())?;
    let number = interrupt.number().0;
    let local = Local::new(descriptor, interrupt);
    let local = Arc::new(LocalInterrupt { local, left: Mutex::new(0) });
    let handle = library.local_interrupts.insert(Arc::clone(&local))?;
    if let Some(callback) = wanted.callback {
        let served = Arc::clone(&local);
        let work = move || {
            while served.wait(Until::after(INFINITE)).is_ok() {
                if !callback.call(handle, Code::OK) {
                    return;
                }
            }
        };
        local
            .local
            .serve("sisci-intr", work)
            .inspect_err(|_| drop(library.local_interrupts.remove(handle)))?;
    }
    Ok((handle, number))
}

/// SCIRemoveInterrupt.
pub fn remove(handle: Handle<LocalInterrupt>) -> Result<()> {
    let removed = Library::get()?.local_interrupts.remove(handle)?;
    removed.stop();
    Ok(())
}

/// SCIWaitForInterrupt.
pub fn wait(handle: Handle<LocalInterrupt>, timeout: u32) -> Result<()> {
    let local = Library::get()?.local_interrupts.get(handle)?;
    local.local.during(|| local.wait(Until::after(timeout)))
}

/// An interrupt of a program on any node.
#[derive(Debug)]
pub struct RemoteInterrupt(Remote<tieline::RemoteInterrupt>);

impl Handled for RemoteInterrupt {
    const KIND: Kind = Kind::RemoteInterrupt;
}

/// SCIConnectInterrupt.
pub fn connect(
    descriptor: Handle<Descriptor>,
    node: u32,
    adapter: u32,
    number: u32,
    timeout: u32,
) -> Result<Handle<RemoteInterrupt>> {
    let (library, address) = (Library::get()?, (node, adapter, number));
    let remote = signal::connect(library, descriptor, address, timeout, tieline::Node::connect_interrupt)?;
    library.remote_interrupts.insert(Arc::new(RemoteInterrupt(remote)))
}

/// SCIDisconnectInterrupt.
pub fn disconnect(handle: Handle<RemoteInterrupt>) -> Result<()> {
    Library::get()?.remote_interrupts.remove(handle).map(drop)
}

/// SCITriggerInterrupt. What this process has copied to segments of that node is there when it is
/// seen.
pub fn trigger(handle: Handle<RemoteInterrupt>) -> Result<()> {
    let remote = Library::get()?.remote_interrupts.get(handle)?;
    // The signal and the bytes of a segment travel apart between hosts.
    far::settle_all(Some(remote.0.interrupt.node().get()))?;
    Ok(remote.0.interrupt.trigger()?)
}

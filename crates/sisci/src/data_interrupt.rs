//! `sci_local_data_interrupt_t`, `sci_remote_data_interrupt_t`: signals that carry a message, from
//! any number of senders.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use shm::sync::plain::{AtomicBool, Ordering};
use tieline::Error;

use crate::callback::{Callback, DataInterruptFn};
use crate::code::{Code, Failure, Result};
use crate::descriptor::Descriptor;
use crate::far;
use crate::handle::{Handle, Handled, Kind};
use crate::interrupt::Wanted;
use crate::library::Library;
use crate::signal::{self, Local, Remote};
use crate::time::{INFINITE, Until};

/// Longest message in bytes. With the word of its slot it fills whole lines.
pub const MESSAGE_BYTES_MAX: usize = 8176;
/// Messages that are kept for a receiver that is busy.
const DEPTH: usize = 64;
/// How long a sender waits for a receiver that has taken all earlier messages, and the pause
/// between two checks. A receiver that took none in this time is not waited for again before it has
/// taken one, so a process whose receiver never takes messages loses this time once.
const FULL_LIMIT: Duration = Duration::from_millis(200);
const FULL_PAUSE: Duration = Duration::from_micros(50);

/// A data interrupt of this process.
#[derive(Debug)]
pub struct LocalDataInterrupt(Local<tieline::DataInterrupt>);

impl Handled for LocalDataInterrupt {
    const KIND: Kind = Kind::LocalDataInterrupt;
}

impl LocalDataInterrupt {
    /// Ends waits and callbacks.
    pub fn stop(&self) {
        self.0.stop();
    }

    fn wait(&self, buffer: &mut [u8], until: Until) -> Result<usize> {
        self.0.one_after_the_other(until, |interrupt, timeout| interrupt.wait(buffer, timeout))
    }
}

/// SCICreateDataInterrupt: the handle, and the number.
pub fn create(
    descriptor: Handle<Descriptor>,
    wanted: &Wanted<DataInterruptFn>,
) -> Result<(Handle<LocalDataInterrupt>, u32)> {
    let library = Library::get()?;
    let descriptor = library.descriptors.get(descriptor)?;
    let node = library.node_with(wanted.adapter)?;
    let interrupt = node.create_data_interrupt(&wanted.options(), MESSAGE_BYTES_MAX, DEPTH)?;
    let number = interrupt.number().0;
    let local = Arc::new(LocalDataInterrupt(Local::new(descriptor, interrupt)));
    let handle = library.local_data_interrupts.insert(Arc::clone(&local))?;
    if let Some(callback) = wanted.callback {
        let served = Arc::clone(&local);
        local
            .0
            .serve("sisci-data-intr", move || serve(&served, handle, &callback))
            .inspect_err(|_| drop(library.local_data_interrupts.remove(handle)))?;
    }
    Ok((handle, number))
}

/// Life of the thread that calls back.
fn serve(
    local: &LocalDataInterrupt,
    handle: Handle<LocalDataInterrupt>,
    callback: &Callback<DataInterruptFn>,
) {
    let mut message = vec![0; MESSAGE_BYTES_MAX];
    while let Ok(len) = local.wait(&mut message, Until::after(INFINITE)) {
        let length = u32::try_from(len).unwrap_or(0);
        if !callback.call(handle, message.as_mut_ptr().cast(), length, Code::OK) {
            return;
        }
    }
}

/// SCIRemoveDataInterrupt.
pub fn remove(handle: Handle<LocalDataInterrupt>) -> Result<()> {
    let removed = Library::get()?.local_data_interrupts.remove(handle)?;
    removed.stop();
    Ok(())
}

/// SCIWaitForDataInterrupt: the message's length. A message that is longer than the buffer stays
/// for the next wait.
pub fn wait(handle: Handle<LocalDataInterrupt>, buffer: &mut [u8], timeout: u32) -> Result<usize> {
    let local = Library::get()?.local_data_interrupts.get(handle)?;
    local.0.during(|| local.wait(buffer, Until::after(timeout)))
}

/// A data interrupt of a program on any node.
#[derive(Debug)]
pub struct RemoteDataInterrupt {
    remote: Remote<tieline::RemoteDataInterrupt>,
    /// A message was refused, and none was accepted since: the receiver is not waited for before it
    /// has taken one.
    is_full: AtomicBool,
}

impl Handled for RemoteDataInterrupt {
    const KIND: Kind = Kind::RemoteDataInterrupt;
}

/// SCIConnectDataInterrupt.
pub fn connect(
    descriptor: Handle<Descriptor>,
    node: u32,
    adapter: u32,
    number: u32,
    timeout: u32,
) -> Result<Handle<RemoteDataInterrupt>> {
    let (library, address) = (Library::get()?, (node, adapter, number));
    let remote =
        signal::connect(library, descriptor, address, timeout, tieline::Node::connect_data_interrupt)?;
    let interrupt = RemoteDataInterrupt { remote, is_full: AtomicBool::new(false) };
    library.remote_data_interrupts.insert(Arc::new(interrupt))
}

/// SCIDisconnectDataInterrupt.
pub fn disconnect(handle: Handle<RemoteDataInterrupt>) -> Result<()> {
    Library::get()?.remote_data_interrupts.remove(handle).map(drop)
}

/// SCITriggerDataInterrupt. A receiver that is behind is waited for; one that takes nothing is an
/// error, after [`FULL_LIMIT`] the first time, at once from then on.
pub fn trigger(handle: Handle<RemoteDataInterrupt>, message: &[u8]) -> Result<()> {
    let interrupt = Library::get()?.remote_data_interrupts.get(handle)?;
    // As for an interrupt without data.
    far::settle_all(Some(interrupt.remote.interrupt.node().get()))?;
    let may_wait = !interrupt.is_full.load(Ordering::Relaxed);
    let mut since = None;
    let sent = loop {
        let sent = interrupt.remote.interrupt.trigger(message);
        let is_full = matches!(sent, Err(Error::Full { .. }));
        if !is_full || !may_wait || since.get_or_insert_with(Instant::now).elapsed() >= FULL_LIMIT {
            break sent;
        }
        thread::sleep(FULL_PAUSE);
    };
    // Other failures, as over a link that is down, are not caused by the receiver.
    if matches!(sent, Ok(()) | Err(Error::Full { .. })) {
        interrupt.is_full.store(sent.is_err(), Ordering::Relaxed);
    }
    sent.map_err(Failure::from)
}

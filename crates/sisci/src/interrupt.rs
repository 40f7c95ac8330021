//! `sci_local_interrupt_t`, `sci_remote_interrupt_t`: a latched, counted signal between programs.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use proto::ids::{InterruptNo, NodeId};
use shm::sync::{AtomicUsize, Ordering};
use tieline::{Error, InterruptOptions, Node};

use crate::callback::{Callback, InterruptFn};
use crate::code::{Code, Failure, Result};
use crate::descriptor::Descriptor;
use crate::flags;
use crate::handle::{Handle, Handled, Kind};
use crate::library::Library;
use crate::time::{INFINITE, Until};
use crate::worker::Worker;

/// How often a second waiter looks whether the first has gone, and a node that is away is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// `SCI_LOCAL_HOST`.
const LOCAL_HOST: u32 = 0;

/// Counts who is inside of a wait, so that a removal can see all of them out.
#[derive(Debug, Default)]
pub(crate) struct Waiters(AtomicUsize);

impl Waiters {
    pub(crate) fn during<R>(&self, wait: impl FnOnce() -> R) -> R {
        self.0.fetch_add(1, Ordering::SeqCst);
        let result = wait();
        self.0.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Wakes them until they have gone.
    pub(crate) fn see_out(&self, wake: impl Fn()) {
        wake();
        while self.0.load(Ordering::SeqCst) > 0 {
            wake();
            thread::sleep(LOOK_AGAIN);
        }
    }
}

/// Waits although another thread of this program may be waiting: one at a time is served.
pub(crate) fn one_after_the_other<R>(
    until: Until,
    mut wait: impl FnMut(Option<Duration>) -> tieline::Result<R>,
) -> Result<R> {
    loop {
        // Not the whole of an endless wait at once, so that the time is looked at again.
        match wait(Some(until.left())) {
            Err(Error::Busy { .. }) if !until.is_over() => thread::sleep(LOOK_AGAIN.min(until.left())),
            Err(Error::TimedOut { .. }) if !until.is_over() => {}
            result => return result.map_err(Failure::from),
        }
    }
}

/// Connects to an interrupt: a number that is not there is an error at once, a node that cannot be reached is waited for.
pub(crate) fn connect_within<R>(timeout: u32, mut connect: impl FnMut() -> tieline::Result<R>) -> Result<R> {
    let until = Until::after(timeout);
    loop {
        match connect().map_err(Failure::of_connecting) {
            Err(failure) if failure.is_away() && !until.is_over() => {
                thread::sleep(LOOK_AGAIN.min(until.left()));
            }
            done => return done,
        }
    }
}

/// The node that a number names, as programs write it.
pub(crate) fn peer(node: &Node, number: u32) -> Result<NodeId> {
    if number == LOCAL_HOST {
        return Ok(node.id());
    }
    NodeId::new(number).map_err(|error| Code::ILLEGAL_NODEID.because(error.to_string()))
}

/// An interrupt of this process.
#[derive(Debug)]
pub struct LocalInterrupt {
    _descriptor: Arc<Descriptor>,
    interrupt: tieline::Interrupt,
    /// Triggers that came together, and were not all waited for yet.
    left: Mutex<u32>,
    waiters: Waiters,
    worker: Worker,
}

impl Handled for LocalInterrupt {
    const KIND: Kind = Kind::LocalInterrupt;
}

impl LocalInterrupt {
    /// Ends waits and callbacks.
    pub fn stop(&self) {
        let wake = || drop(self.interrupt.cancel_waits());
        self.worker.stop(wake);
        self.waiters.see_out(wake);
    }

    /// Takes one trigger of those that came earlier.
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
        let came = one_after_the_other(until, |timeout| {
            // Another thread may have left some while this one was kept out.
            if self.take_left() { Ok(0) } else { self.interrupt.wait(timeout) }
        })?;
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) += came.saturating_sub(1);
        Ok(())
    }
}

/// What SCICreateInterrupt and SCICreateDataInterrupt are asked for.
#[derive(Debug)]
pub struct Wanted<F> {
    /// Through which adapter.
    pub adapter: u32,
    /// The number, with `FIXED_INTNO`.
    pub number: u32,
    /// Who is told.
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
    let (waiters, worker) = (Waiters::default(), Worker::default());
    let local =
        Arc::new(LocalInterrupt { _descriptor: descriptor, interrupt, left: Mutex::new(0), waiters, worker });
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
            .worker
            .start("sisci-intr", work)
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
    if local.worker.is_there() {
        return Err(Code::ILLEGAL_OPERATION.because("it calls back: nobody can wait for it"));
    }
    local.waiters.during(|| local.wait(Until::after(timeout)))
}

/// An interrupt of a program on any node.
#[derive(Debug)]
pub struct RemoteInterrupt {
    _descriptor: Arc<Descriptor>,
    interrupt: tieline::RemoteInterrupt,
}

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
    let library = Library::get()?;
    let descriptor = library.descriptors.get(descriptor)?;
    let own = library.node_with(adapter)?;
    let peer = peer(&own, node)?;
    let connect = || own.connect_interrupt(peer, InterruptNo(number), Duration::ZERO);
    let interrupt = connect_within(timeout, connect)?;
    library.remote_interrupts.insert(Arc::new(RemoteInterrupt { _descriptor: descriptor, interrupt }))
}

/// SCIDisconnectInterrupt.
pub fn disconnect(handle: Handle<RemoteInterrupt>) -> Result<()> {
    Library::get()?.remote_interrupts.remove(handle).map(drop)
}

/// SCITriggerInterrupt.
pub fn trigger(handle: Handle<RemoteInterrupt>) -> Result<()> {
    Ok(Library::get()?.remote_interrupts.get(handle)?.interrupt.trigger()?)
}

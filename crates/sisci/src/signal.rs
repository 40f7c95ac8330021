//! The common part of interrupts with and without data: waiting, callbacks, connecting.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use proto::ids::{InterruptNo, NodeId};
use shm::sync::{AtomicUsize, Ordering};
use tieline::{DataInterrupt, Error, Interrupt, Node};

use crate::code::{Code, Failure, Result};
use crate::descriptor::Descriptor;
use crate::handle::Handle;
use crate::library::Library;
use crate::time::{INFINITE, Pause, Until};
use crate::worker::Worker;

/// How often a second waiter checks whether the first has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(1);
/// `SCI_LOCAL_HOST`.
const LOCAL_HOST: u32 = 0;

/// An object whose waits can be ended.
pub(crate) trait Cancel {
    /// Ends all waits, those of the future too.
    fn cancel_waits(&self) -> tieline::Result<()>;
}

impl Cancel for Interrupt {
    fn cancel_waits(&self) -> tieline::Result<()> {
        Self::cancel_waits(self)
    }
}

impl Cancel for DataInterrupt {
    fn cancel_waits(&self) -> tieline::Result<()> {
        Self::cancel_waits(self)
    }
}

/// One of this process, and the threads that wait for it: of the program, or one of the library
/// that calls it back.
#[derive(Debug)]
pub(crate) struct Local<I> {
    _descriptor: Arc<Descriptor>,
    pub(crate) interrupt: I,
    /// The number of threads in a wait, so that a removal can wait until all have left.
    waiters: AtomicUsize,
    worker: Worker,
}

impl<I: Cancel> Local<I> {
    pub(crate) fn new(descriptor: Arc<Descriptor>, interrupt: I) -> Self {
        Self { _descriptor: descriptor, interrupt, waiters: AtomicUsize::new(0), worker: Worker::default() }
    }

    /// Starts the thread that calls back.
    pub(crate) fn serve(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
        self.worker.start(name, body)
    }

    /// A wait of the program: not while there are callbacks.
    pub(crate) fn during<R>(&self, wait: impl FnOnce() -> Result<R>) -> Result<R> {
        if self.worker.is_there() {
            return Err(Code::ILLEGAL_OPERATION.because("it has a callback: no thread can wait for it"));
        }
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let result = wait();
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Waits although another thread of this program may be waiting: one at a time is served.
    pub(crate) fn one_after_the_other<R>(
        &self,
        until: Until,
        mut wait: impl FnMut(&I, Option<Duration>) -> tieline::Result<R>,
    ) -> Result<R> {
        loop {
            // An endless wait is split, so that the time is checked again.
            match wait(&self.interrupt, Some(until.left())) {
                Err(Error::Busy { .. }) if !until.is_over() => thread::sleep(LOOK_AGAIN.min(until.left())),
                Err(Error::TimedOut { .. }) if !until.is_over() => {}
                result => return result.map_err(Failure::from),
            }
        }
    }

    /// Ends callbacks and waits, and returns when no thread waits.
    pub(crate) fn stop(&self) {
        let wake = || drop(self.interrupt.cancel_waits());
        self.worker.stop(wake);
        wake();
        while self.waiters.load(Ordering::SeqCst) > 0 {
            wake();
            thread::sleep(LOOK_AGAIN);
        }
    }
}

/// One of a program on any node.
#[derive(Debug)]
pub(crate) struct Remote<I> {
    _descriptor: Arc<Descriptor>,
    pub(crate) interrupt: I,
}

/// The target of a connection: node, adapter, number.
pub(crate) type Address = (u32, u32, u32);

/// Connects; waits for a node that cannot be reached. A number that does not exist is an error at
/// once, unless the wait is endless: a loop around it would send requests to the node managers as
/// fast as it can.
pub(crate) fn connect<I>(
    library: &Library,
    descriptor: Handle<Descriptor>,
    (node, adapter, number): Address,
    timeout: u32,
    connect: impl Fn(&Node, NodeId, InterruptNo, Duration) -> tieline::Result<I>,
) -> Result<Remote<I>> {
    let descriptor = library.descriptors.get(descriptor)?;
    let own = library.node_with(adapter)?;
    let peer = peer(&own, node)?;
    let until = Until::after(timeout);
    let pause = Pause::begin();
    loop {
        let connected = connect(&own, peer, InterruptNo(number), Duration::ZERO);
        match connected.map_err(Failure::of_connecting) {
            Err(failure)
                if failure.is_away() && !until.is_over()
                    || failure.code == Code::NO_SUCH_SEGMENT && timeout == INFINITE =>
            {
                // SCITerminate.
                if !library.is_current() {
                    return Err(Code::CANCELLED.into());
                }
                pause.sleep(until);
            }
            Err(failure) => return Err(failure),
            Ok(interrupt) => return Ok(Remote { _descriptor: descriptor, interrupt }),
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

//! `sci_local_data_interrupt_t`, `sci_remote_data_interrupt_t`: signals that carry a message, from any number of senders.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use proto::ids::InterruptNo;
use tieline::Error;

use crate::callback::{Callback, DataInterruptFn};
use crate::code::{Code, Failure, Result};
use crate::descriptor::Descriptor;
use crate::handle::{Handle, Handled, Kind};
use crate::interrupt::{Waiters, Wanted, connect_within, one_after_the_other, peer};
use crate::library::Library;
use crate::time::{INFINITE, Until};
use crate::worker::Worker;

/// Longest message in bytes. With the word of its slot it fills whole lines.
pub const MESSAGE_BYTES_MAX: usize = 8176;
/// Messages that are kept for a receiver who is busy.
const DEPTH: usize = 64;
/// How long a sender waits for a receiver that does not keep up, and how often it looks.
const FULL_LIMIT: Duration = Duration::from_secs(5);
const FULL_PAUSE: Duration = Duration::from_micros(50);

/// A data interrupt of this process.
#[derive(Debug)]
pub struct LocalDataInterrupt {
    _descriptor: Arc<Descriptor>,
    interrupt: tieline::DataInterrupt,
    waiters: Waiters,
    worker: Worker,
}

impl Handled for LocalDataInterrupt {
    const KIND: Kind = Kind::LocalDataInterrupt;
}

impl LocalDataInterrupt {
    /// Ends waits and callbacks.
    pub fn stop(&self) {
        let wake = || drop(self.interrupt.cancel_waits());
        self.worker.stop(wake);
        self.waiters.see_out(wake);
    }

    fn wait(&self, buffer: &mut [u8], until: Until) -> Result<usize> {
        one_after_the_other(until, |timeout| self.interrupt.wait(buffer, timeout))
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
    let (waiters, worker) = (Waiters::default(), Worker::default());
    let local = Arc::new(LocalDataInterrupt { _descriptor: descriptor, interrupt, waiters, worker });
    let handle = library.local_data_interrupts.insert(Arc::clone(&local))?;
    if let Some(callback) = wanted.callback {
        let served = Arc::clone(&local);
        local
            .worker
            .start("sisci-data-intr", move || serve(&served, handle, &callback))
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

/// SCIWaitForDataInterrupt: the message's length. A message that is longer than the buffer stays for the next wait.
pub fn wait(handle: Handle<LocalDataInterrupt>, buffer: &mut [u8], timeout: u32) -> Result<usize> {
    let local = Library::get()?.local_data_interrupts.get(handle)?;
    if local.worker.is_there() {
        return Err(Code::ILLEGAL_OPERATION.because("it calls back: nobody can wait for it"));
    }
    local.waiters.during(|| local.wait(buffer, Until::after(timeout)))
}

/// A data interrupt of a program on any node.
#[derive(Debug)]
pub struct RemoteDataInterrupt {
    _descriptor: Arc<Descriptor>,
    interrupt: tieline::RemoteDataInterrupt,
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
    let library = Library::get()?;
    let descriptor = library.descriptors.get(descriptor)?;
    let own = library.node_with(adapter)?;
    let peer = peer(&own, node)?;
    let connect = || own.connect_data_interrupt(peer, InterruptNo(number), Duration::ZERO);
    let interrupt = connect_within(timeout, connect)?;
    library
        .remote_data_interrupts
        .insert(Arc::new(RemoteDataInterrupt { _descriptor: descriptor, interrupt }))
}

/// SCIDisconnectDataInterrupt.
pub fn disconnect(handle: Handle<RemoteDataInterrupt>) -> Result<()> {
    Library::get()?.remote_data_interrupts.remove(handle).map(drop)
}

/// SCITriggerDataInterrupt. A receiver that does not keep up is waited for, so that no message is lost.
pub fn trigger(handle: Handle<RemoteDataInterrupt>, message: &[u8]) -> Result<()> {
    let remote = Library::get()?.remote_data_interrupts.get(handle)?;
    let mut since = None;
    loop {
        match remote.interrupt.trigger(message) {
            Err(Error::Full { .. }) if since.get_or_insert_with(Instant::now).elapsed() < FULL_LIMIT => {
                thread::sleep(FULL_PAUSE);
            }
            done => return done.map_err(Failure::from),
        }
    }
}

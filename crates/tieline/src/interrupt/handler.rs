//! Callbacks: a library thread that waits, calls, and ends with its handle.

use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use proto::ids::InterruptNo;
use shm::origin::Origin;
use shm::process::SignalsBlocked;
use shm::sync::{AtomicBool, Ordering};

use crate::error::{Error, Result};

/// How soon a thread that has not ended is woken again.
const WAKE_AGAIN: Duration = Duration::from_micros(200);

/// Calls back; a callback that panics has printed so, and the next call comes all the same.
pub(super) fn guarded(call: impl FnOnce()) {
    drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)));
}

/// Returns whether the handler is being dropped.
#[derive(Debug, Clone)]
pub(super) struct Closing(Arc<AtomicBool>);

impl Closing {
    pub(super) fn is_so(&self) -> bool {
        // Acquire: pairs with the Release in `Handler::drop`.
        self.0.load(Ordering::Acquire)
    }
}

/// Keeps a callback running. Dropping it ends the callback's thread, after the call in progress, and removes
/// the interrupt.
pub struct Handler {
    number: InterruptNo,
    origin: Origin,
    closing: Closing,
    wake: Box<dyn Fn() + Send + Sync>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Handler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Handler {
    /// Starts the thread that runs `body`, which must end soon after `wake` once [`Closing`] is set.
    pub(super) fn start(
        number: InterruptNo,
        wake: impl Fn() + Send + Sync + 'static,
        body: impl FnOnce(Closing) + Send + 'static,
    ) -> Result<Self> {
        let closing = Closing(Arc::default());
        let seen = closing.clone();
        let _quiet = SignalsBlocked::here();
        let thread = std::thread::Builder::new()
            .name("tieline-intr".into())
            .spawn(move || body(seen))
            .map_err(|source| Error::Thread { what: "interrupt callback", source })?;
        Ok(Self { number, origin: Origin::here(), closing, wake: Box::new(wake), thread: Some(thread) })
    }

    /// The interrupt's number.
    pub fn number(&self) -> InterruptNo {
        self.number
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        if self.origin != Origin::here() {
            // The thread stayed behind in the parent: waiting for it here would never end.
            return std::mem::forget(self.thread.take());
        }
        // Release: pairs with the Acquire in `Closing::is_so`.
        self.closing.0.store(true, Ordering::Release);
        (self.wake)();
        // A callback that drops its own handler cannot wait for itself: its thread ends when it returns.
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != std::thread::current().id()
        {
            // Again and again: a hostile peer may undo a wake-up between the waiter's last check and its
            // sleep.
            while !thread.is_finished() {
                (self.wake)();
                std::thread::sleep(WAKE_AGAIN);
            }
            drop(thread.join());
        }
    }
}

//! A library thread that calls the program's callback, and ends with the object that it serves.

use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use shm::origin::Origin;
use shm::process::SignalsBlocked;

use crate::code::{Code, Result};

/// The pause before a thread that has not ended is woken again.
const WAKE_AGAIN: Duration = Duration::from_micros(200);

/// At most one thread.
#[derive(Debug, Default)]
pub(crate) struct Worker {
    thread: Mutex<Option<(JoinHandle<()>, Origin)>>,
}

impl Worker {
    /// Starts it. No signal of the program is delivered to it.
    pub(crate) fn start(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<()> {
        let _quiet = SignalsBlocked::here();
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(body)
            .map_err(|error| Code::SYSTEM.because(format!("no thread for callbacks: {error}")))?;
        *self.lock() = Some((thread, Origin::here()));
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(JoinHandle<()>, Origin)>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is one: events then go to the callback, not to the one that waits.
    pub(crate) fn is_there(&self) -> bool {
        self.lock().is_some()
    }

    /// Wakes the thread until it has ended. A callback that ends its own object does not wait for
    /// itself: the thread ends when the callback returns.
    pub(crate) fn stop(&self, wake: impl Fn()) {
        wake();
        let Some((thread, origin)) = self.lock().take() else { return };
        if thread.thread().id() == std::thread::current().id() || origin != Origin::here() {
            return;
        }
        // Repeatedly: a hostile peer may undo a wake-up between the waiter's last check and its
        // sleep.
        while !thread.is_finished() {
            wake();
            std::thread::sleep(WAKE_AGAIN);
        }
        drop(thread.join());
    }
}

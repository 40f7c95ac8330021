//! Numbers that this side's threads take for messages which the owner carries out once.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::numbers::{Open, WINDOW};

/// As many are open at a time as the owner keeps outcomes; who wants one more waits.
#[derive(Debug)]
pub(super) struct NumberPool {
    open: Mutex<Open>,
    has_room: Condvar,
}

impl Default for NumberPool {
    fn default() -> Self {
        Self { open: Mutex::new(Open::new(WINDOW)), has_room: Condvar::new() }
    }
}

impl NumberPool {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether none is open.
    pub(super) fn is_empty(&self) -> bool {
        self.open().is_empty()
    }

    /// The number of a message that begins; `None`: too many were open for all that time.
    pub(super) fn take(&self, limit: Duration) -> Option<u64> {
        let until = Instant::now() + limit;
        let mut open = self.open();
        loop {
            if let Some(number) = open.take() {
                return Some(number);
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return None;
            }
            open = self.has_room.wait_timeout(open, rest).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The message is not sent again.
    pub(super) fn answered(&self, number: u64) {
        self.open().answered(number);
        self.has_room.notify_all();
    }
}

//! A lock that a forked child never waits for.
//!
//! A fork copies a lock as it is at that moment, but of the threads only the one that forks: a lock that the
//! library's thread, or another of the program's, holds just then stays locked in the child forever. So a
//! child gets nothing.

use std::sync::{Mutex, MutexGuard, PoisonError};

use shm::origin::Origin;

/// A [`Mutex`] of one process.
#[derive(Debug)]
pub struct OwnLock<T> {
    origin: Origin,
    inner: Mutex<T>,
}

impl<T> OwnLock<T> {
    /// For threads of this process.
    pub fn new(value: T) -> Self {
        Self { origin: Origin::here(), inner: Mutex::new(value) }
    }

    /// Waits for its turn; nothing in a forked child. A holder that panicked is no obstacle: only values
    /// whose every single change leaves them usable are kept in such a lock.
    pub fn lock(&self) -> Option<MutexGuard<'_, T>> {
        (self.origin == Origin::here()).then(|| self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T: Default> Default for OwnLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_survives_a_holder_that_panics() {
        let lock = OwnLock::new(1);
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let mut held = lock.lock();
            if let Some(value) = held.as_deref_mut() {
                *value = 2;
            }
            panic!("on purpose");
        }));
        assert!(outcome.is_err());
        assert_eq!(lock.lock().as_deref(), Some(&2));
    }
}

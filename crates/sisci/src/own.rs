//! State of this process alone: a forked child does not find what its parent made.
//!
//! A child inherits the values of statics, but neither the threads that use them nor all the memory that they
//! name; a lock among them may be held for ever. What is kept in an [`Own`] begins anew in the child.

use std::ptr::null_mut;

use shm::origin::Origin;
use shm::sync::plain::{AtomicPtr, Ordering};

/// At most one value in each process. It lives as long as the process.
#[derive(Debug)]
pub(crate) struct Own<T: 'static>(AtomicPtr<Entry<T>>);

#[derive(Debug)]
struct Entry<T: 'static> {
    origin: Origin,
    value: T,
    /// The parent's: what nothing points to, leak checkers complain about.
    _previous: Option<&'static Self>,
}

impl<T: Sync> Own<T> {
    /// For a static.
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    fn entry(&self) -> Option<&'static Entry<T>> {
        // Acquire: pairs with the Release in `get_or_make`.
        // SAFETY: null, or made by `Box::into_raw` in `get_or_make` and never freed.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// The value, if this process has made one. May be called in a signal handler.
    pub(crate) fn get(&self) -> Option<&'static T> {
        self.entry().filter(|entry| entry.origin == Origin::here()).map(|entry| &entry.value)
    }

    /// The value, which the first call in a process makes. Of several threads that make one at the same time,
    /// one is kept.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &'static T {
        if let Some(value) = self.get() {
            return value;
        }
        let previous = self.entry();
        let seen = previous.map_or(null_mut(), |entry| std::ptr::from_ref(entry).cast_mut());
        let new =
            Box::into_raw(Box::new(Entry { origin: Origin::here(), value: make(), _previous: previous }));
        // Release: pairs with the Acquire in `entry`. Acquire: the other thread's.
        match self.0.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: made above, and never freed from now on.
            Ok(_) => unsafe { &(*new).value },
            Err(other) => {
                // SAFETY: made above, and seen by nobody else.
                drop(unsafe { Box::from_raw(new) });
                // SAFETY: as in `entry`; only entries of this process are put in the place of `seen`.
                unsafe { &(*other).value }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_value_stays() {
        static VALUE: Own<u32> = Own::new();
        assert_eq!(VALUE.get(), None);
        assert_eq!(VALUE.get_or_make(|| 7), &7);
        assert_eq!(VALUE.get_or_make(|| 8), &7);
        assert_eq!(VALUE.get(), Some(&7));
    }

    #[test]
    fn one_of_an_other_process_is_none() {
        static VALUE: Own<u32> = Own::new();
        VALUE.get_or_make(|| 7);
        // SAFETY: the child only compares values and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_anew = VALUE.get().is_none() && *VALUE.get_or_make(|| 8) == 8;
            // SAFETY: ends the child at once.
            unsafe { libc::_exit(i32::from(!is_anew)) };
        }
        let mut status = -1;
        // SAFETY: the status is written by the call.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!((status, VALUE.get()), (0, Some(&7)));
    }
}

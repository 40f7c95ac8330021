//! The counters of an end point: what arrived and was dropped, and the program's threads that are in a call.

use shm::sync::{AtomicU32, AtomicU64, Ordering};

/// What came in and was dropped, and what was tried again.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Messages that are none.
    pub(crate) garbage: AtomicU64,
    /// Messages of sessions, and about memory or doorbells, that are not known.
    pub(crate) strangers: AtomicU64,
    /// Posts that the provider had no room for.
    pub(crate) again: AtomicU64,
    /// Errors of operations that a provider did not name, of receives and of replies.
    pub(crate) unnamed_errors: AtomicU64,
    /// Replies to addresses to which too many waited.
    pub(crate) replies_dropped: AtomicU64,
}

/// A thread of the program is counted while this is there. Relaxed: it affects speed only.
pub(crate) struct AtWork<'a>(&'a AtomicU32);

impl<'a> AtWork<'a> {
    #[inline]
    pub(crate) fn new(count: &'a AtomicU32) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for AtWork<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

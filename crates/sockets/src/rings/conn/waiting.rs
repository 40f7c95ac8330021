//! Threads that have slept over a connection since before it had a ring, so that only the kernel
//! wakes them.

use super::{Conn, state};
use crate::sync::{Ordering, fence};

impl Conn {
    /// A thread is about to wait for it in the kernel. Whether it has no ring yet: who opens one finds the
    /// thread, or is found here.
    pub(crate) fn waits_unready(&self) -> bool {
        self.sleep.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        !self.is(state::READY)
    }

    /// It waits no more.
    pub(crate) fn has_waited(&self) {
        self.sleep.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

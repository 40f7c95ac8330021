//! Notices that this process is a child of the one that opened a queue: it has no threads of the library, and
//! the parent's rings.

use std::sync::Once;

use shm::sync::{AtomicU64, Ordering};

/// Forks of this process and its ancestors since the library was loaded.
static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// From now on children know that they are.
pub(crate) fn watch() {
    static WATCHED: Once = Once::new();
    // SAFETY: the handler is a function of this library, which is never unloaded.
    WATCHED.call_once(|| unsafe {
        // Without memory for it the children are not told apart: as without this function.
        let _ = libc::pthread_atfork(None, None, Some(in_child));
    });
}

/// The number that tells processes apart.
#[inline]
pub(crate) fn count() -> u64 {
    FORKS.load(Ordering::Relaxed)
}

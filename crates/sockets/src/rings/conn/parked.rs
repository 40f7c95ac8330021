//! Whether this process counts itself in `asleep` until the program next reads: it does with any odd number, another one each time.

use crate::sync::{AtomicU32, Ordering};

/// It does, and has since it found the ring empty: everything comes through the kernel.
pub(crate) const EMPTY: u32 = 2;

static NEXT: AtomicU32 = AtomicU32::new(1);

/// A number for it: who finds out that the ring is empty finds out, too, whether it is still parked for the same time.
pub(crate) fn some() -> u32 {
    NEXT.fetch_add(2, Ordering::Relaxed)
}

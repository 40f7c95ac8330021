//! The words of one end of a `jitter` run: one at the other end, which this one writes, and one which it
//! reads.

use shm::sync::{AtomicU64, Ordering};

use crate::error::Result;

/// Writes the word that the other end reads.
pub(super) trait Out {
    /// Writes it; what this end has written before is there when the other end sees it.
    fn write(&self, value: u64) -> Result<()>;
}

/// Memory that both ends map.
impl Out for &AtomicU64 {
    #[inline(always)]
    fn write(&self, value: u64) -> Result<()> {
        // Release: pairs with the Acquire of the end that waits for the word.
        self.store(value, Ordering::Release);
        Ok(())
    }
}

/// One end.
#[derive(Debug, Clone, Copy)]
pub(super) struct End<'a, O> {
    pub(super) out: O,
    pub(super) input: &'a AtomicU64,
}

impl<O> End<'_, O> {
    /// Sets the word that this end reads to 0, before a run: the other end writes nothing then.
    // Release: pairs with the Acquire of the threads of a run, which start later.
    pub(super) fn clear(&self) {
        self.input.store(0, Ordering::Release);
    }
}

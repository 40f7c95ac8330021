//! Makes short puts, atomic operations and messages wait for the chunks of earlier long blocks, because the
//! owner may take them as the sign that these blocks have arrived.
//!
//! Threads that synchronise with each other rely on that as well. So all chunks count that were begun before,
//! those of blocks that others are still putting too; the rest of such a block is begun afterwards. Meanwhile
//! no chunk is begun: what is short waits for what rails have under way, which is bounded
//! ([`queue`](super::queue)), and has a rail of its own then.

use shm::sync::{AtomicUsize, Ordering};

use super::core::{Core, State};
use crate::error::Result;

/// No chunk is begun while it lives.
#[derive(Debug)]
pub(super) struct NoChunks<'a>(&'a AtomicUsize);

impl<'a> NoChunks<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for NoChunks<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Core {
    pub(super) fn count_others(&self, state: &State) {
        let counted = &state.lanes[self.first_counted()..];
        let others = counted.iter().map(|lane| lane.begun.len()).sum::<usize>() + state.again.len();
        self.others.store(others, Ordering::SeqCst);
    }

    /// The first rail whose chunks what follows has to wait for. What may have to be sent again has nothing
    /// behind it.
    fn first_counted(&self) -> usize {
        usize::from(self.recover.is_none())
    }

    /// For what is no long block: what rails carry of before has arrived, and is not to be sent again. If
    /// that took a while, no chunk goes before it as long as the caller keeps what is returned.
    #[inline]
    pub(super) fn others_are_done(&self) -> Result<Option<NoChunks<'_>>> {
        if self.count == 1 {
            return Ok(None);
        }
        self.check()?;
        if self.others.load(Ordering::SeqCst) == 0 { Ok(None) } else { self.wait_for_others().map(Some) }
    }

    /// Waits for all chunks that were begun: those of blocks that others are still putting count as well, as
    /// far as they were begun, and the rest of them comes later.
    #[cold]
    fn wait_for_others(&self) -> Result<NoChunks<'_>> {
        let no_chunks = NoChunks::new(&self.short_waiting);
        let bound = self.state().next_turn;
        let are_done = || {
            self.check()?;
            let state = self.state();
            let mut counted = state.lanes[self.first_counted()..].iter().flat_map(|lane| &lane.begun);
            let are_confirmed = counted.all(|begun| begun.turn >= bound);
            Ok(are_confirmed && state.again.iter().all(|again| again.turn >= bound))
        };
        if !are_done()? {
            self.wait_for_any(are_done)?;
        }
        Ok(no_chunks)
    }
}

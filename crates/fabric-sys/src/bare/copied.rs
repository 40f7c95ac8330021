//! Writes of blocks that are copied first, as a put must: the caller may change a block at once.

use std::time::Instant;

use super::end_point::{WRITES, kept};
use super::{Bare, BareError, Taken, until_ended};
use crate::constants::{FI_COMPLETION, FI_DELIVERY_COMPLETE};

/// Bytes of a piece, which is copied and written at once.
const PIECE_BYTES: usize = 64 * 1024;

impl Bare {
    /// As [`Bare::stream`], but each block is copied before it is written; the time of one, in ns. The last
    /// piece of a block tells when all of it is there, as the provider keeps their order.
    ///
    /// # Errors
    /// The memory is shorter than a block, a call fails, or the peer is gone.
    pub fn stream_copied(&mut self, len: usize, count: u64) -> Result<f64, BareError> {
        if len > self.end_point.memory_bytes {
            return Err("that is longer than the memory".into());
        }
        let objects = std::sync::Arc::clone(&self.end_point.objects);
        let _taken = Taken::new(&objects);
        let copies = *self.copies.get_or_insert_with(|| kept(WRITES * PIECE_BYTES));
        let started = Instant::now();
        for _ in 0..count {
            for at in (0..len).step_by(PIECE_BYTES) {
                let piece = PIECE_BYTES.min(len - at);
                let nth = self.next_write()?;
                let copy = copies.wrapping_add(nth * PIECE_BYTES);
                // SAFETY: a piece of the source, and a buffer of that length of which nothing is under way:
                // the write that had it before has ended.
                unsafe { copy.copy_from_nonoverlapping(self.source.add(at), piece) };
                let is_last = at + piece == len;
                let end = if is_last { FI_DELIVERY_COMPLETE } else { 0 };
                self.post_write(nth, copy, at as u64, piece, FI_COMPLETION | end)?;
            }
        }
        until_ended(&objects, &objects.ended.writes, self.written)?;
        Ok(started.elapsed().as_nanos() as f64 / count.max(1) as f64)
    }
}

//! A copy of the last message in the cache line of [`Word::Tail`], so that the reader of a small
//! message waits for one line instead of two.
//!
//! The copy is a sequence lock whose sequence is the position of the message ([`Word::InlineAt`]). Positions of published messages never
//! come again, so one that was found before and after the bytes were copied proves that they are that message's. The reader looks
//! behind its look at the tail: at that moment the message at this position was the last one, so all that it may take of the ring is in
//! the copy.
//!
//! H.-J. Boehm, "Can seqlocks get along with programming language memory models?", MSPC 2012, for the fences.

use crate::{Memory, Word};

/// No message has a copy. No position is that high.
pub const NOTHING: u64 = u64::MAX;

/// Makes the copy of a message of `len` bytes at position `at`, which is not published yet; or voids that of the last one.
#[inline(always)]
pub(crate) fn put<M: Memory>(m: &mut M, at: u64, len: u64) -> Result<(), M::Stop> {
    if !m.has_inline(len) {
        // Most messages behind one without a copy have none either: the line is only looked at.
        if m.load(Word::InlineAt)? != NOTHING {
            m.store(Word::InlineAt, NOTHING)?;
        }
        return Ok(());
    }
    m.store(Word::InlineAt, NOTHING)?;
    m.order_stores()?;
    m.put_inline(len)?;
    m.store(Word::InlineAt, at)
}

/// Takes the first `len` unread bytes, from position `from` on, from the copy. False: they are not there.
#[inline(always)]
pub(crate) fn take<M: Memory>(m: &mut M, from: u64, len: u64) -> Result<bool, M::Stop> {
    if !m.has_inline(len) || m.load(Word::InlineAt)? != from {
        return Ok(false);
    }
    m.take_inline(len)?;
    m.order_loads()?;
    Ok(m.load(Word::InlineAt)? == from)
}

//! The number of bytes given to the kernel, which a writer publishes before it ends with bytes in
//! the ring.
//!
//! A connection that both ends have closed and one that was reset look the same to a reader: the kernel tells
//! of a reset once, to whoever asks first, and its counters do not tell a FIN from a byte. With what was
//! given known, all of it has come if just that was received, or that and a FIN; then the bytes of the ring
//! join on, and what follows them is the end. Else bytes are lost, and it is an error.
//!
//! - While the ring is the path, [`Word::SwitchOver`] says it: the kernel was given nothing since the ring
//!   was opened. Whoever takes bytes back changes that, but revokes before, and waits for the reader's lock.
//! - Else [`Word::Given`] does. It is said under the writers' lock. Others who have the writing end may go on
//!   behind it, so whoever gives more takes it back before: with the lock, or counted in [`Word::Plain`]
//!   before the look at it. Who says it looks at that count, and asks the kernel again, behind a fence: one
//!   of the two sees the other.
//! - A reader looks at it behind the kernel's last word, that the connection is closed. What was received by
//!   then was given behind the taking back.

use crate::words::unread;
use crate::{Held, Memory, Shared, Taken, Word, Written, path};

/// What it says when nobody says anything.
const NOTHING: u64 = 0;

/// Before an end: says it, if bytes stay in the ring (of `capacity` bytes).
#[inline]
pub fn say<M: Memory>(m: &mut M, capacity: u64) -> Result<(), M::Stop> {
    m.lock(Word::WriteLock)?;
    if is_left(m, capacity)?
        && let Written::Bytes(given) = m.written()?
    {
        m.store(Word::Given, given.saturating_add(1))?;
        m.fence()?;
        // What goes back goes with the lock alone: whoever is counted then looks at the path, and gives
        // nothing.
        let is_back = path::is_back(m.load(Word::Path)?);
        let is_at_rest = (is_back || m.load(Word::Plain)? == 0) && m.written()? == Written::Bytes(given);
        if !is_at_rest {
            m.store(Word::Given, NOTHING)?;
        }
    }
    m.unlock(Word::WriteLock)
}

/// Whether something is unread, and the switch-over offset does not say what the kernel was given. With the
/// lock.
#[inline]
fn is_left<M: Memory>(m: &mut M, capacity: u64) -> Result<bool, M::Stop> {
    let way = m.load(Word::Path)?;
    if way == path::RING || path::is_back(way) {
        return Ok(way != path::RING);
    }
    let (base, tail, head) = (m.load(Word::Base)?, m.load(Word::Tail)?, m.load(Word::Head)?);
    Ok(unread(head, base, tail, capacity).is_some_and(|unread| !unread.is_empty()))
}

/// The kernel has taken nothing more of what goes back, and may never: it was given so many. With the lock.
#[inline]
pub(crate) fn stays<M: Memory>(m: &mut M, given: u64) -> Result<(), M::Stop> {
    m.store(Word::Given, given.saturating_add(1))
}

/// Before the kernel is given more.
#[inline(always)]
pub(crate) fn take_back<S: Shared>(shared: &mut S) -> Result<(), S::Stop> {
    if shared.load(Word::Given)? != NOTHING {
        shared.store(Word::Given, NOTHING)?;
    }
    Ok(())
}

/// What was given in all, if all of it is among the `received` of a connection that is closed. With the
/// readers' lock.
#[inline]
fn all_of<S: Shared>(shared: &mut S, received: u64) -> Result<Option<u64>, S::Stop> {
    let given = match shared.load(Word::Path)? {
        path::RING if shared.load(Word::Revoke)? != 0 => None,
        path::RING => Some(shared.load(Word::SwitchOver)?),
        _ => shared.load(Word::Given)?.checked_sub(1),
    };
    Ok(given.filter(|given| matches!(received.checked_sub(*given), Some(0 | 1))))
}

/// What was taken from the kernel, as far as that can be told; a FIN was seen if it `is_finished`.
#[inline]
pub(crate) fn taken<M: Memory>(m: &mut M, is_finished: bool) -> Result<Option<u64>, M::Stop> {
    Ok(match m.taken()? {
        Taken::Bytes(taken) => Some(taken),
        Taken::Unknown => None,
        Taken::Closed { received, unread, otherwise } => match all_of(m, received)? {
            Some(given) => given.checked_sub(unread),
            None if is_finished => received.checked_sub(1).and_then(|bytes| bytes.checked_sub(unread)),
            None => otherwise,
        },
    })
}

/// What the kernel holds, as it says, with the readers' lock.
#[inline]
pub(crate) fn held<S: Shared>(shared: &mut S, said: Held) -> Result<Held, S::Stop> {
    Ok(match said {
        Held::Closed { received } if all_of(shared, received)?.is_some() => Held::End,
        Held::Closed { .. } => Held::Error,
        held => held,
    })
}

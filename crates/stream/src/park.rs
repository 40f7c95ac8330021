//! Parking: a reading process counts as asleep for longer than one call.
//!
//! Who is registered in an `epoll`, or has both ends on one processor, would count itself in and out with
//! each read. Parked, it stays counted until it wakes. Once it has found the ring empty behind that count,
//! the ring stays empty ([`EMPTY`]): everything comes through the kernel, and its threads read there without
//! a look at the ring, by [`read`]. So it may only count itself out while none of them is in such a read:
//! each [enters](Entry::enter) and then looks whether it still is parked; [`wake`] says that it is not and
//! then looks at that count. One of the two sees the other.
//!
//! All of that is the process's own ([`Process`]): other processes that have the same end park for
//! themselves.

use crate::{Entry, Process, Word};

/// [`Process::parked`] of a process that has found the ring empty since it counts as asleep. Other values but
/// 0: it has not.
pub const EMPTY: u64 = 2;

/// Parks, unless it is parked. `number` stands for this time: odd, and another one each time.
#[inline]
pub fn park<S: Process>(s: &mut S, number: u64) -> Result<bool, S::Stop> {
    if !s.exchange_parked(0, number)? {
        return Ok(false);
    }
    s.increase(Word::Asleep)?;
    if is_empty(s)? {
        // Unless it was woken meanwhile.
        s.exchange_parked(number, EMPTY)?;
    }
    Ok(true)
}

/// Sleeps in the kernel by `call`, counted among the sleepers. `None`: the ring may have something, and
/// nobody slept. If `call` says so, the process stays counted afterwards, as parked: it has found the ring
/// empty before it slept.
#[inline(always)]
pub fn sleep<S: Process, R>(
    s: &mut S,
    call: impl FnOnce(&mut S) -> Result<(R, bool), S::Stop>,
) -> Result<Option<R>, S::Stop> {
    s.increase(Word::Asleep)?;
    if !is_empty(s)? {
        s.decrease(Word::Asleep)?;
        return Ok(None);
    }
    let (result, stays) = call(s)?;
    // Unless another thread has parked it.
    if !(stays && s.exchange_parked(0, EMPTY)?) {
        s.decrease(Word::Asleep)?;
    }
    Ok(Some(result))
}

/// Behind the count of sleepers: if nothing is unread, nothing will be, but through the kernel.
#[inline(always)]
fn is_empty<S: Process>(s: &mut S) -> Result<bool, S::Stop> {
    let tail = s.load(Word::Tail)?;
    let is_empty = tail == s.load(Word::Head)? || tail == s.load(Word::Base)?;
    Ok(is_empty && s.load(Word::Revoke)? == 0)
}

/// Reads from the kernel by `call`, with no look at the ring. `None`: it is not parked over an empty ring,
/// and nothing was read.
#[inline(always)]
pub fn read<S: Entry, R>(
    s: &mut S,
    call: impl FnOnce(&mut S) -> Result<R, S::Stop>,
) -> Result<Option<R>, S::Stop> {
    if !begin_read(s)? {
        return Ok(None);
    }
    let result = call(s)?;
    s.exit()?;
    Ok(Some(result))
}

/// The begin of [`read`]: whether the caller is to read from the kernel, and [`exit`](Entry::exit)
/// afterwards.
#[inline(always)]
pub fn begin_read<S: Entry>(s: &mut S) -> Result<bool, S::Stop> {
    s.enter()?;
    let is_empty = s.parked()? == EMPTY;
    if !is_empty {
        s.exit()?;
    }
    Ok(is_empty)
}

/// Counts itself out, unless a thread reads in trust of that. Whether it was parked, and is not.
#[inline]
pub fn wake<S: Process>(s: &mut S) -> Result<bool, S::Stop> {
    if s.inside()? != 0 {
        return Ok(false);
    }
    let before = s.parked()?;
    // It may have found the ring empty in between: then it stays parked this time.
    if before == 0 || !s.exchange_parked(before, 0)? {
        return Ok(false);
    }
    // Who came meanwhile has either seen that, or is seen here: then it is as it was, unless another thread
    // has parked it again since.
    if s.inside()? != 0 && s.exchange_parked(0, before)? {
        return Ok(false);
    }
    s.decrease(Word::Asleep)?;
    Ok(true)
}

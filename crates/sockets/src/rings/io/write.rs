//! One write of the program.

use libc::c_int;
use proto::stream::writer::{Occasion, WHOLE};
use proto::stream::{Outcome, consent, path};

use super::{Fast, NOTHING_BESIDE, commit, is_nonblocking, with_errno, writes_unready};
use crate::hook::set_errno;
use crate::page::{self, Way};
use crate::rings::conn::{Conn, state};
use crate::rings::copy::{Bytes, copy};
use crate::rings::native::Native;
use crate::rings::run::Call;
use crate::rings::words::{BESIDE, Words};
use crate::rings::{kernel, leave, lock, pair, spin};
use crate::sync::{Ordering, compiler_fence};

/// Writes: `native` is the program's own call.
#[inline(never)]
pub(crate) fn write(
    conn: &'static Conn,
    fd: c_int,
    bytes: Option<&Bytes>,
    flags: c_int,
    native: &mut Native<'_>,
) -> isize {
    if !conn.is(state::READY)
        && let Some(result) = writes_unready(conn, fd, native)
    {
        return result;
    }
    let usual = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_EOR;
    let Some(bytes) = bytes.filter(|bytes| bytes.length > 0 && flags & !usual == 0) else {
        if flags & !usual != 0 || bytes.is_none() {
            leave::writing(conn, fd);
        }
        return plain(conn, native);
    };
    let Some((own, peer)) = conn.words() else { return native.call() };
    if conn.is_quiet()
        && let Some(result) = plain_once(conn, native)
    {
        return result;
    }
    if !bytes.is_there(false) {
        return plain(conn, native);
    }
    let mut done = 0;
    loop {
        match put(conn, own, peer, bytes, done) {
            Fast::Moved(count) => {
                done += count as usize;
                if done == bytes.length {
                    return done as isize;
                }
                continue;
            }
            Fast::Nothing if !may_open(conn, own, peer, fd) => {
                // Else the way is changing, which the lock tells: its holder may be dead.
                if let Some(result) = rest(conn, fd, bytes, done, flags, native) {
                    return result;
                }
            }
            _ if done == 0 && gets_room(conn, own, peer, least(conn, bytes)) => continue,
            _ => {}
        }
        let may_wait = flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking(fd);
        let occasion = if may_wait { Occasion::Write } else { Occasion::WriteNow };
        if !may_wait && done > 0 {
            return done as isize;
        }
        let Some(call) = Call::new(conn, fd, bytes) else { return native.call() };
        match call.behind(done).write(occasion, conn.sealed.load(Ordering::Relaxed) == 0) {
            Outcome::Moved(count) => {
                acknowledge(conn);
                done += count as usize;
                if done == bytes.length || !may_wait {
                    return done as isize;
                }
            }
            Outcome::WouldBlock if done > 0 => return done as isize,
            Outcome::WouldBlock if !may_wait => {
                set_errno(libc::EAGAIN);
                return -1;
            }
            // Errno says why it has ended.
            Outcome::WouldBlock => return -1,
            Outcome::Kernel => {
                if let Some(result) = rest(conn, fd, bytes, done, flags, native) {
                    return result;
                }
            }
            // The kernel refuses what comes before this: the program is told why. It takes no more from whoever has shut down; else it
            // might, and bytes would be missing.
            Outcome::Unreturned if !kernel::takes_more(fd) => {
                return if done > 0 { done as isize } else { native_said(conn, native) };
            }
            _ => {
                leave::broken(conn, fd);
                return if done > 0 { done as isize } else { native.call() };
            }
        }
    }
}

/// A write that the kernel refuses.
fn native_said(conn: &Conn, native: &mut Native<'_>) -> isize {
    let result = native.call();
    conn.said(result);
    result
}

/// Puts bytes into the ring, if that is all there is to it. `Nothing`: the way is the kernel's.
#[inline(always)]
fn put(conn: &Conn, own: &Words, peer: &Words, bytes: &Bytes, done: usize) -> Fast {
    if own.way.0.path.load(Ordering::Relaxed) == path::TCP {
        return Fast::Nothing;
    }
    if !lock::try_take(&own.write_lock.0, lock::own()) {
        return Fast::Slow;
    }
    let put = put_locked(conn, own, peer, bytes, done);
    // Also the fence behind which the other end is looked at.
    lock::release_fenced(&own.write_lock.0);
    if let Fast::Moved(_) = put {
        // Behind the fence: another thread that unsets it has seen what was written, or is seen here.
        if conn.owes.load(Ordering::Relaxed) == 0 {
            leave::owe(conn);
        }
        acknowledge(conn);
        let will = &peer.will.0;
        if will.asleep.load(Ordering::Acquire) != 0 || will.consent.load(Ordering::Acquire) != consent::OPEN {
            // They went to sleep without having seen it.
            leave::overdue(conn, conn.fd());
        }
    }
    put
}

/// What came through the kernel is acknowledged when it is answered, also if the answer goes through the ring.
#[inline(always)]
fn acknowledge(conn: &Conn) {
    if conn.unacknowledged.load(Ordering::Relaxed) != 0 {
        conn.unacknowledged.store(0, Ordering::Relaxed);
        kernel::acknowledge(conn.fd());
    }
}

#[inline(always)]
fn put_locked(conn: &Conn, own: &Words, peer: &Words, bytes: &Bytes, done: usize) -> Fast {
    let will = &peer.will.0;
    let is_ring = own.way.0.path.load(Ordering::Relaxed) == path::RING
        && own.way.0.recall.load(Ordering::Relaxed) == 0
        && will.consent.load(Ordering::Acquire) == consent::OPEN
        && will.asleep.load(Ordering::Acquire) == 0;
    if !is_ring {
        return Fast::Slow;
    }
    let tail = own.message.0.tail.load(Ordering::Relaxed);
    let base = own.way.0.base.load(Ordering::Relaxed);
    let want = bytes.length - done;
    let room = |head: u64| {
        let from = head.max(base);
        let limit = conn.room.load(Ordering::Relaxed);
        if from <= tail && tail - from <= limit { (limit - (tail - from)) as usize } else { 0 }
    };
    let mut free = room(conn.head.load(Ordering::Relaxed));
    if free < want {
        let head = peer.head.0.load(Ordering::Acquire);
        free = room(head);
        conn.head.store(head, Ordering::Relaxed);
    }
    let length = want.min(free).min(PIECE);
    if length < least(conn, bytes) {
        return Fast::Slow;
    }
    // SAFETY: the ring of this end's region; the program's own bytes.
    unsafe { bytes.put(done, own.ring(), tail, length) };
    put_beside(own, bytes, done, tail, length);
    let published = tail + length as u64;
    // An ordinary store right behind those of the message: with a locked one a reader that looks meanwhile would take the line away in
    // between. It fails if a handler of this thread has written meanwhile.
    if !commit(&own.message.0.tail, tail, published) {
        return Fast::Slow;
    }
    page::memory(conn.record(), Way::Out, length as u64);
    if conn.stream.load(Ordering::Relaxed) != 0 {
        conn.stream.store(0, Ordering::Relaxed);
    }
    Fast::Moved(length as isize)
}

/// The room below which nothing of these bytes is put into the ring: a small message goes whole. See [`WHOLE`].
#[inline(always)]
fn least(conn: &Conn, bytes: &Bytes) -> usize {
    let length = bytes.length;
    if length as u64 > WHOLE { 1 } else { length.min(conn.room.load(Ordering::Relaxed) as usize) }
}

/// Bytes that are shown to readers at once: they copy the first of a large write while the next are being written.
const PIECE: usize = 32 << 10;

/// Cycles to look for room in a full ring, also for a write that may not wait: some hundred microseconds, as long as a reader at work may
/// take for what the kernel holds before it. What such a write says then costs more.
const ROOM_CYCLES: u64 = 1_000_000;

/// Whether a ring that has no room for `least` bytes gets some soon: its readers are awake, and on another processor.
#[cold]
#[inline(never)]
fn gets_room(conn: &Conn, own: &Words, peer: &Words, least: usize) -> bool {
    let will = &peer.will.0;
    let (start, here) = spin::clock();
    let head = peer.head.0.load(Ordering::Acquire);
    let unread = own.message.0.tail.load(Ordering::Relaxed).wrapping_sub(head);
    let is_full = own.way.0.path.load(Ordering::Relaxed) == path::RING
        && unread.saturating_add(least as u64) > conn.room.load(Ordering::Relaxed);
    if !is_full || !spin::is_elsewhere(own, peer, here) || conn.full.cycles() == 0 {
        return false;
    }
    loop {
        let is_awake =
            will.asleep.load(Ordering::Acquire) == 0 && will.consent.load(Ordering::Acquire) == consent::OPEN;
        if peer.head.0.load(Ordering::Acquire) != head {
            conn.full.paid();
            return true;
        }
        if !is_awake || spin::clock().0.wrapping_sub(start) > ROOM_CYCLES {
            conn.full.in_vain();
            return false;
        }
        spin::relax();
    }
}

/// Puts a small message beside its position, too.
#[inline(always)]
fn put_beside(own: &Words, bytes: &Bytes, done: usize, tail: u64, length: usize) {
    let message = &own.message.0;
    match bytes.place() {
        Some(from) if length <= BESIDE => {
            // Readers of the last one look with Acquire, and find out that it is gone.
            message.beside_at.store(NOTHING_BESIDE, Ordering::Release);
            compiler_fence(Ordering::SeqCst);
            let beside = message.beside.as_ptr().cast_mut().cast::<u8>();
            // SAFETY: the words' own room, which is long enough; the program's own bytes.
            unsafe { copy(from.wrapping_add(done), beside, length) };
            compiler_fence(Ordering::SeqCst);
            // Unless a handler of this thread has written another one here.
            commit(&message.beside_at, NOTHING_BESIDE, tail);
        }
        _ => {
            if message.beside_at.load(Ordering::Relaxed) != NOTHING_BESIDE {
                // Readers look with Acquire: they find out that the last one is gone.
                message.beside_at.store(NOTHING_BESIDE, Ordering::Release);
            }
        }
    }
}

/// Whether it is worth trying to go through the ring from here on.
fn may_open(conn: &Conn, own: &Words, peer: &Words, fd: c_int) -> bool {
    let will = &peer.will.0;
    if will.consent.load(Ordering::Acquire) != consent::OPEN || will.asleep.load(Ordering::Acquire) != 0 {
        return false;
    }
    let is_usable =
        conn.sealed.load(Ordering::Relaxed) == 0 && own.way.0.path.load(Ordering::Relaxed) != path::SHUT;
    // Who is on this processor has been stopped awake: it cannot read before this thread sleeps, which it does in the kernel.
    is_usable && spin::is_elsewhere(own, peer, spin::clock().1) && pair::knows_extra(conn, own, fd)
}

/// The rest of a write goes to the kernel. None: the way has changed.
fn rest(
    conn: &Conn,
    fd: c_int,
    bytes: &Bytes,
    done: usize,
    flags: c_int,
    native: &mut Native<'_>,
) -> Option<isize> {
    if done == 0 {
        return plain_once(conn, native);
    }
    let result = {
        let mut part = || {
            let sent = kernel::send_rest(fd, bytes, done, flags);
            if sent > 0 {
                page::kernel(conn.record(), Way::Out, sent as u64);
            }
            with_errno(sent)
        };
        plain_once(conn, &mut Native::of(&mut part))?
    };
    Some(if result < 0 { done as isize } else { done as isize + result })
}

/// Whether what is written now goes to the kernel anyway.
pub(super) fn goes_to_kernel(conn: &Conn, fd: c_int) -> bool {
    conn.words().is_none_or(|(own, peer)| {
        own.way.0.path.load(Ordering::Relaxed) == path::TCP && !may_open(conn, own, peer, fd)
    })
}

/// A write of the program to the kernel, whatever the way was.
pub(super) fn plain(conn: &Conn, native: &mut Native<'_>) -> isize {
    plain_once(conn, native).unwrap_or_else(|| native_said(conn, native))
}

/// A write to the kernel without the lock; nobody opens the ring meanwhile. None: somebody has.
fn plain_once(conn: &Conn, native: &mut Native<'_>) -> Option<isize> {
    let Some((own, _)) = conn.words() else { return Some(native.call()) };
    let way = &own.way.0;
    way.plain.fetch_add(1, Ordering::SeqCst);
    let is_kernels = way.opening.load(Ordering::SeqCst) == 0
        && matches!(way.path.load(Ordering::SeqCst), path::TCP | path::SHUT);
    if is_kernels && way.given.load(Ordering::Relaxed) != 0 && way.path.load(Ordering::Relaxed) == path::TCP {
        way.given.store(0, Ordering::SeqCst);
    }
    let result = is_kernels.then(|| native.call());
    if let Some(result) = result {
        conn.said(result);
    }
    way.plain.fetch_sub(1, Ordering::SeqCst);
    result
}

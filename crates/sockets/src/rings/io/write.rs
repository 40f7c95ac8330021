//! One write of the program.

use core::convert::Infallible;

use libc::c_int;
use stream::write::{Occasion, WHOLE, Write};
use stream::{Outcome, Shared, Word, consent, path, plain};

use super::fast::Puts;
use super::{Moves, is_nonblocking, with_errno, writes_unready};
use crate::hook::set_errno;
use crate::page::{self, Way};
use crate::rings::conn::{Conn, state};
use crate::rings::copy::Bytes;
use crate::rings::native::Native;
use crate::rings::run::Call;
use crate::rings::words::{CAPACITY, Words};
use crate::rings::{kernel, leave, pair, spin};
use crate::sync::{Ordering, fence};

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
    let mut full_since = None;
    loop {
        match put(conn, own, peer, bytes, done) {
            Moves::Moved(count) => {
                done += count as usize;
                if done == bytes.length {
                    return done as isize;
                }
                continue;
            }
            Moves::Nothing if !may_open(conn, own, peer, fd) => {
                // Else the way is changing, which the lock tells: its holder may be dead.
                if let Some(result) = rest(conn, fd, bytes, done, flags, native) {
                    return result;
                }
            }
            _ if gets_room(conn, own, peer, least(conn, bytes), &mut full_since) => continue,
            _ => {}
        }
        let may_wait = flags & libc::MSG_DONTWAIT == 0 && !is_nonblocking(fd);
        let occasion = if may_wait { Occasion::Write } else { Occasion::WriteNow };
        let Some(call) = Call::new(conn, fd, bytes) else { return native.call() };
        match call.behind(done).write(occasion, conn.sealed.load(Ordering::Relaxed) == 0) {
            Outcome::Moved(count) => {
                acknowledge(conn);
                done += count as usize;
                if done == bytes.length {
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
fn put(conn: &Conn, own: &Words, peer: &Words, bytes: &Bytes, done: usize) -> Moves {
    if own.way.0.path.load(Ordering::Relaxed) == path::TCP {
        return Moves::Nothing;
    }
    let (head, room) = (conn.head.load(Ordering::Relaxed), conn.room.load(Ordering::Relaxed));
    let want = (bytes.length - done) as u64;
    let mut write =
        Write::new(Occasion::WriteNow, CAPACITY, want, false, head).limited(room).in_pieces(PIECE);
    let mut fast = Puts::new(conn, own, peer, bytes, done);
    let ended = write.attempt(&mut fast);
    fast.ends();
    if write.head() != head {
        conn.head.store(write.head(), Ordering::Relaxed);
    }
    if !write.is_published() {
        return Moves::Slow;
    }
    // Behind the fence that follows what was published: another thread that unsets it has seen that, or is seen here.
    if conn.owes.load(Ordering::Relaxed) == 0 {
        leave::owe(conn);
    }
    if conn.stream.load(Ordering::Relaxed) != 0 {
        conn.stream.store(0, Ordering::Relaxed);
    }
    acknowledge(conn);
    if ended.is_err() {
        // Readers went to sleep without having seen it.
        leave::overdue(conn, conn.fd());
    }
    Moves::Moved(write.moved() as isize)
}

/// What came through the kernel is acknowledged when it is answered, also if the answer goes through the ring.
#[inline(always)]
fn acknowledge(conn: &Conn) {
    if conn.unacknowledged.load(Ordering::Relaxed) != 0 {
        conn.unacknowledged.store(0, Ordering::Relaxed);
        kernel::acknowledge(conn.fd());
    }
}

/// The room below which nothing of these bytes is put into the ring: a small message goes whole. See [`WHOLE`].
#[inline(always)]
fn least(conn: &Conn, bytes: &Bytes) -> usize {
    let length = bytes.length;
    if length as u64 > WHOLE { 1 } else { length.min(conn.room.load(Ordering::Relaxed) as usize) }
}

/// Bytes that are shown to readers at once: they copy the first of a large write while the next are being written.
const PIECE: u64 = 32 << 10;

/// Cycles that one write looks for room in a full ring, also one that may not wait: some hundred microseconds, as long as a reader at work
/// may take for what the kernel holds before it. What such a write says then costs more. They are counted from when the ring was first full,
/// or a reader that takes one byte now and then would keep a write that may not wait.
const ROOM_CYCLES: u64 = 1_000_000;

/// Whether a ring that has no room for `least` bytes gets some soon: its readers are awake, and on another processor. `since` is when this
/// write has first found it full.
#[cold]
#[inline(never)]
fn gets_room(conn: &Conn, own: &Words, peer: &Words, least: usize, since: &mut Option<u64>) -> bool {
    let will = &peer.will.0;
    let (now, here) = spin::clock();
    let head = peer.head.0.load(Ordering::Acquire);
    let unread = own.message.0.tail.load(Ordering::Relaxed).wrapping_sub(head);
    let is_full = own.way.0.path.load(Ordering::Relaxed) == path::RING
        && unread.saturating_add(least as u64) > conn.room.load(Ordering::Relaxed);
    if !is_full {
        return false;
    }
    let start = *since.get_or_insert(now);
    let is_over = || spin::clock().0.wrapping_sub(start) > ROOM_CYCLES;
    if is_over() || !spin::is_elsewhere(own, peer, here) || conn.full.cycles() == 0 {
        return false;
    }
    loop {
        let is_awake =
            will.asleep.load(Ordering::Acquire) == 0 && will.consent.load(Ordering::Acquire) == consent::OPEN;
        if peer.head.0.load(Ordering::Acquire) != head {
            conn.full.paid();
            return true;
        }
        if !is_awake || is_over() {
            conn.full.in_vain();
            return false;
        }
        spin::relax();
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
    let Ok(result) = plain::write(&mut WithoutLock(own), |_| {
        if way.given.load(Ordering::Relaxed) != 0 && way.path.load(Ordering::Relaxed) == path::TCP {
            way.given.store(0, Ordering::SeqCst);
        }
        let result = native.call();
        conn.said(result);
        Ok(result)
    });
    result
}

/// The words of a writing end, for a call that holds no lock.
struct WithoutLock<'a>(&'a Words);

impl Shared for WithoutLock<'_> {
    type Stop = Infallible;

    #[inline(always)]
    fn load(&mut self, word: Word) -> Result<u64, Infallible> {
        Ok(self.0.word(word).load(Ordering::SeqCst))
    }

    #[inline(always)]
    fn store(&mut self, word: Word, value: u64) -> Result<(), Infallible> {
        self.0.word(word).store(value, Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    fn increase(&mut self, count: Word) -> Result<(), Infallible> {
        self.0.word(count).fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    fn decrease(&mut self, count: Word) -> Result<(), Infallible> {
        self.0.word(count).fetch_sub(1, Ordering::SeqCst);
        Ok(())
    }

    #[inline(always)]
    fn fence(&mut self) -> Result<(), Infallible> {
        fence(Ordering::SeqCst);
        Ok(())
    }
}

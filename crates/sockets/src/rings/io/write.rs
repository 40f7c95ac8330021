//! One write of the program: by one short call where that is enough, else as in `rest`.

use core::arch::asm;

use libc::{c_int, c_void};
use stream::path;
use stream::write::{Occasion, WHOLE, Write};

use super::fast::Puts;
use super::plain::{plain, used, used_plainly};
use super::rest::Writing;
use super::{Moves, writes_unready};
use crate::rings::conn::{Conn, Gone, Known, state};
use crate::rings::copy::Bytes;
use crate::rings::header::{CAPACITY, Header, INLINE_BYTES};
use crate::rings::native::Native;
use crate::rings::{kernel, leave};
use crate::sync::Ordering;

/// Flags that change nothing of where the bytes go.
pub(super) const USUAL: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_EOR;

/// The longest message for which [`write_short`] is tried.
pub(crate) const SHORT_BYTES: usize = INLINE_BYTES;

/// A short message of one place, if all that it takes is to put it into the ring: how many bytes it had. 0:
/// it is for [`write()`]. A function of its own, with what it needs in registers: between two messages each
/// instruction counts.
#[inline(never)]
pub(crate) fn write_short(known: Known, from: *const c_void, length: usize, flags: c_int) -> isize {
    let conn = known.conn;
    if length == 0 || flags & !USUAL != 0 || !conn.is(state::READY) {
        return 0;
    }
    let Some((own, peer)) =
        conn.headers().filter(|(own, _)| own.writer.0.path.load(Ordering::Relaxed) == path::RING)
    else {
        return 0;
    };
    if conn.pace.answers() {
        answers(own);
    }
    let bytes = Bytes::flat(from, length);
    if !bytes.is_there(false) {
        return 0;
    }
    match put(known, own, peer, &bytes, 0) {
        Moves::Moved(count) => count,
        Moves::Nothing | Moves::Slow => 0,
    }
}

/// Writes: `native` is the program's own call.
#[inline(never)]
pub(crate) fn write(
    known: Known,
    fd: c_int,
    bytes: Option<&Bytes>,
    flags: c_int,
    native: &mut Native<'_>,
) -> Result<isize, Gone> {
    let conn = known.conn;
    if flags & !(USUAL | libc::MSG_MORE) != 0 && !conn.is(state::READY) {
        // What such a write leaves in the kernel, an urgent byte for example, is passed over there alone.
        known.moving(|conn| leave::writing(conn, fd))?;
    }
    if !conn.is(state::READY)
        && let Some(result) = writes_unready(known, fd, native)
    {
        if flags & libc::MSG_MORE != 0 {
            // It may have got a ring right behind it.
            super::held::notes(conn);
        }
        return Ok(result);
    }
    if flags & libc::MSG_MORE != 0 {
        return super::held::write(known, fd, native);
    }
    let Some(bytes) = bytes.filter(|bytes| bytes.length > 0 && flags & !USUAL == 0) else {
        if flags & !USUAL != 0 || bytes.is_none() {
            known.moving(|conn| leave::writing(conn, fd))?;
        }
        return used_plainly(known, fd, || plain(conn, native));
    };
    let Some((own, peer)) = conn.headers() else { return Ok(native.call()) };
    if conn.pace.answers() && bytes.length <= INLINE_BYTES {
        answers(own);
    }
    if !bytes.is_there(false) {
        return used_plainly(known, fd, || plain(conn, native));
    }
    // One that may take several parts is a user before the first: it goes on with the connection that got
    // that.
    let first = fits(conn, own, bytes.length).then(|| put(known, own, peer, bytes, 0));
    let moved = match first {
        Some(Moves::Moved(count)) => count,
        _ => 0,
    };
    if moved as usize == bytes.length {
        return Ok(moved);
    }
    let written = used(known, |user| Writing { known, user, own, peer, fd, bytes, flags }.all(first, native));
    match written {
        Ok(Ok(result)) => Ok(result),
        // Only if another thread has taken the room meanwhile.
        _ if moved > 0 => Ok(moved),
        _ => Err(Gone),
    }
}

/// A short message follows a read: its reader looks for it already, and has the line of the cache where it
/// stands. That is fetched for writing while the rest is looked at. (Of a stream it would take the line away
/// from a reader that has yet to see what is there.)
#[inline(always)]
fn answers(own: &Header) {
    // SAFETY: a hint, which reads and writes nothing; processors that do not know it do nothing.
    unsafe {
        asm!("prefetchw [{0}]", in(reg) &raw const own.message.0, options(nostack, readonly, preserves_flags));
    }
}

/// Whether a short call finds room for all of a write, or moves nothing.
#[inline(always)]
fn fits(conn: &Conn, own: &Header, length: usize) -> bool {
    let length = length as u64;
    let unread = || {
        let head = conn.kept.head.load(Ordering::Relaxed);
        own.tail().wrapping_sub(head)
    };
    length <= WHOLE
        || length <= PIECE && unread().saturating_add(length) <= conn.kept.room.load(Ordering::Relaxed)
}

/// Puts bytes into the ring, if that is all there is to it. `Nothing`: the way is the kernel's.
#[inline(always)]
pub(super) fn put(known: Known, own: &Header, peer: &Header, bytes: &Bytes, done: usize) -> Moves {
    let conn = known.conn;
    if own.writer.0.path.load(Ordering::Relaxed) == path::TCP {
        return Moves::Nothing;
    }
    let room = conn.kept.room.load(Ordering::Relaxed);
    let want = (bytes.length - done) as u64;
    // What the reader has taken is read with the lock.
    let mut write = Write::new(Occasion::WriteNow, CAPACITY, want, false, 0).limited(room).in_pieces(PIECE);
    let mut fast = Puts::new(known, own, peer, bytes, done);
    let ended = write.attempt(&mut fast);
    fast.ends();
    if !write.is_published() {
        return Moves::Slow;
    }
    // Behind the fence that follows what was published: another thread that unsets it has seen that, or is
    // seen here.
    if conn.owed.owes.load(Ordering::Relaxed) == 0 {
        leave::owe(conn);
    }
    conn.pace.has_written();
    acknowledge(conn);
    if ended.is_err() {
        // Readers went to sleep without having seen it.
        leave::overdue(known);
    }
    Moves::Moved(write.moved() as isize)
}

/// What came through the kernel is acknowledged when it is answered, also if the answer goes through the
/// ring.
#[inline(always)]
pub(super) fn acknowledge(conn: &Conn) {
    if conn.owed.unacknowledged.load(Ordering::Relaxed) != 0 {
        conn.owed.unacknowledged.store(0, Ordering::Relaxed);
        kernel::acknowledge(conn.fd());
    }
}

/// Bytes that are shown to readers at once: they copy the first of a large write while the next are being
/// written.
const PIECE: u64 = 32 << 10;

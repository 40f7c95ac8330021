//! Reads that leave the bytes where they are (`MSG_PEEK`): from both sides at once, and until all are there
//! (`MSG_WAITALL`).

use libc::c_int;
use stream::Taken;

use super::read::read;
use super::{both, is_empty, with_errno};
use crate::interposer::{get_errno, set_errno};
use crate::rings::blocked::{Blocked, Limit};
use crate::rings::conn::{Conn, Gone, Known};
use crate::rings::copy::{Bytes, PARTS};
use crate::rings::header::{CAPACITY, Header};
use crate::rings::native::Native;
use crate::rings::{kernel, leave, run};
use crate::sync::Ordering;

/// What the other side has behind `got` bytes of one side that were peeked at.
pub(super) fn more(conn: &Conn, fd: c_int, bytes: &Bytes, flags: c_int, got: usize) -> isize {
    let Some((own, peer)) = conn.headers() else { return 0 };
    let (Taken::Bytes(taken) | Taken::Closed { otherwise: Some(taken), .. }) =
        kernel::taken(fd, conn.may_be_reset())
    else {
        return 0;
    };
    if !own.read_lock.0.try_take() {
        return 0;
    }
    let length = more_locked(own, peer, (fd, flags), (bytes, got), taken);
    own.read_lock.0.release();
    length
}

/// As [`more`], with the lock. So many bytes were `taken` from the kernel.
fn more_locked(
    own: &Header,
    peer: &Header,
    (fd, flags): (c_int, c_int),
    (bytes, got): (&Bytes, usize),
    taken: u64,
) -> isize {
    let revoke = peer.writer.0.revoke.load(Ordering::Acquire);
    let base = peer.writer.0.base.load(Ordering::Acquire);
    let tail = peer.tail();
    let from = own.head.0.load(Ordering::Relaxed).max(base);
    let switch_over = peer.writer.0.switch_over.load(Ordering::Acquire);
    let Some(unread) = tail.checked_sub(from).filter(|unread| revoke == 0 && *unread <= CAPACITY) else {
        return 0;
    };
    // The bytes of the kernel end just where those of the ring begin.
    if taken.checked_add(got as u64) == Some(switch_over) {
        let length = (unread as usize).min(bytes.length - got);
        // SAFETY: the ring of the other end's region; the program's own room, behind what was written of it.
        unsafe { bytes.take(got, peer.ring(), from, length) };
        return length as isize;
    }
    // They were all that the ring has, so those of the kernel come next: unless the writer has put more into
    // the ring before it gave these to the kernel, which the second look at its tail shows.
    if taken < switch_over || unread != got as u64 {
        return 0;
    }
    let mut slices = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
    let used = bytes.slice(got, usize::MAX, &mut slices);
    // SAFETY: the parts are here.
    let Some(rest) = (unsafe { Bytes::parts(slices.as_ptr(), used) }) else { return 0 };
    // What is to be discarded is only counted, also here.
    let looks = libc::MSG_PEEK | libc::MSG_DONTWAIT | flags & libc::MSG_TRUNC;
    let length = kernel::receive(fd, &rest, usize::MAX, looks);
    let is_next = peer.tail() == tail && peer.writer.0.revoke.load(Ordering::Acquire) == 0;
    if is_next { length.max(0) } else { 0 }
}

/// Nanoseconds of the first and the longest pause between two looks for more bytes.
const PAUSE_NS: core::ops::RangeInclusive<i64> = 20_000..=1_000_000;

/// `MSG_WAITALL` together with `MSG_PEEK`: until as many bytes are there as are wanted, an end, an error, or
/// a signal. Nothing tells of more bytes behind those that are there, so it looks for them again and again,
/// at least once in a millisecond. Programs rarely wait like this.
#[cold]
pub(super) fn all(
    known: Known,
    fd: c_int,
    bytes: &Bytes,
    flags: c_int,
    native: &mut Native<'_>,
) -> Result<isize, Gone> {
    let Some((own, peer)) = known.headers() else { return Ok(native.call()) };
    let errno = get_errno();
    let (mut wait, limit) = (Blocked::new(), Limit::of(fd, libc::SO_RCVTIMEO));
    let some = flags & !libc::MSG_WAITALL;
    let mut pause_ns = *PAUSE_NS.start();
    loop {
        // Looked at before the bytes: those that came before the end are seen then.
        let has_ended = kernel::has_hung_up(fd);
        let is_whole = is_empty(own, peer) && both::is_with_kernel(peer);
        let mut own_call = None;
        let got = if is_whole {
            // Nothing but the kernel has any: the program's own call waits for all of it.
            let mut whole = || *own_call.insert(native.call());
            read(known, fd, Some(bytes), some, &mut Native::of(&mut whole))?
        } else {
            let mut part = || with_errno(kernel::receive(fd, bytes, usize::MAX, some));
            read(known, fd, Some(bytes), some, &mut Native::of(&mut part))?
        };
        let Some(count) = usize::try_from(got).ok().filter(|count| *count > 0) else { return Ok(got) };
        let count = if count < bytes.length {
            count + more(known.conn, fd, bytes, flags, count) as usize
        } else {
            count
        };
        let is_interrupted = own_call.is_some_and(|got| got > 0);
        if count >= bytes.length || is_interrupted || has_ended || kernel::is_at_mark(fd) {
            return Ok(count as isize);
        }
        // What this process still owes to the kernel may be what the other end waits for.
        leave::settle();
        if !wait.left(limit).may_wait() || run::sleep(pause_ns) < 0 {
            set_errno(errno);
            return Ok(count as isize);
        }
        pause_ns = (2 * pause_ns).min(*PAUSE_NS.end());
    }
}

//! Reads that take from the ring and from the kernel, and `MSG_WAITALL`.

use libc::c_int;
use stream::read::Purpose;
use stream::{Held, Outcome, path};

use super::read::read;
use super::{is_empty, peek, with_errno};
use crate::interposer::{get_errno, set_errno};
use crate::page::{self, Direction};
use crate::rings::blocked::{Blocked, Limit};
use crate::rings::conn::{Gone, Known, Use};
use crate::rings::copy::{Bytes, PARTS};
use crate::rings::header::Header;
use crate::rings::kernel;
use crate::rings::native::Native;
use crate::rings::run::Call;
use crate::rings::wait;
use crate::sync::Ordering;

/// What a read that has `got` some would have got with them if all came one way.
#[cold]
#[inline(never)]
pub(super) fn more(known: Known, fd: c_int, bytes: &Bytes, flags: c_int, got: isize, peer: &Header) -> isize {
    let Ok(user) = known.enter() else { return got };
    let got = more_as_user(user, fd, bytes, flags, got, peer);
    user.leave();
    got
}

fn more_as_user(user: Use, fd: c_int, bytes: &Bytes, flags: c_int, got: isize, peer: &Header) -> isize {
    let conn = user.conn;
    if kernel::is_at_mark(fd) {
        // A read ends before an urgent byte.
        return got;
    }
    let switch_over = peer.writer.0.switch_over.load(Ordering::Relaxed);
    let mut slices = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
    if flags & libc::MSG_PEEK != 0 {
        return got + peek::more(conn, fd, bytes, flags, got as usize);
    }
    conn.kept.told_switch_over.store(switch_over, Ordering::Relaxed);
    let used = bytes.slice(got as usize, usize::MAX, &mut slices);
    // SAFETY: the parts are here.
    let Some(rest) = (unsafe { Bytes::parts(slices.as_ptr(), used) }) else { return got };
    let rest = if flags & libc::MSG_TRUNC != 0 { rest.discarding() } else { rest };
    let purpose = Purpose::Read;
    let truncates = flags & libc::MSG_TRUNC;
    // It does not wait, so nobody sleeps.
    let mut nothing = || -1;
    let call = Call::new(conn, fd, &rest);
    let outcome = call.map(|call| call.read(purpose, false, truncates, user, &mut Native::of(&mut nothing)));
    match outcome {
        Some(Ok(Outcome::Moved(count))) => got + count as isize,
        _ => got,
    }
}

/// Whether the writer gives its bytes to the kernel.
pub(super) fn is_with_kernel(peer: &Header) -> bool {
    peer.writer.0.path.load(Ordering::Acquire) != path::RING
}

/// How long a read that has some bytes waits for the rest.
struct Patience {
    wait: Blocked,
    limit: Limit,
}

impl Patience {
    fn of(fd: c_int) -> Self {
        Self { wait: Blocked::new(), limit: Limit::of(fd, libc::SO_RCVTIMEO) }
    }

    /// Waits as `poll` does. False: a handler has run, or it was as long as the program wanted.
    fn finds_more(&mut self, fd: c_int) -> bool {
        let left = self.wait.left(self.limit);
        left.may_wait() && wait::one_to_read(fd, left) > 0
    }
}

/// Whether nothing more comes to a read that has some bytes already, by what the kernel says without a read.
fn has_ended(known: Known, own: &Header, peer: &Header, fd: c_int) -> bool {
    let holds = kernel::held(fd, known.conn.may_be_reset());
    !matches!(holds, Held::Nothing | Held::Bytes(_)) && is_empty(own, peer)
}

/// `MSG_WAITALL`: until there is no room left, an end, an error, or a signal.
#[cold]
pub(super) fn all(
    known: Known,
    fd: c_int,
    bytes: &Bytes,
    flags: c_int,
    native: &mut Native<'_>,
) -> Result<isize, Gone> {
    // Here, and not in the read: it would cost all of them.
    if flags & libc::MSG_PEEK != 0 {
        return peek::all(known, fd, bytes, flags, native);
    }
    let Some((own, peer)) = known.headers() else { return Ok(native.call()) };
    let errno = get_errno();
    let mut done = 0_usize;
    let mut patience = None;
    // A wait has told of bytes, and then there were none: the other end does not keep to the rules, and a
    // read that waits deals with that.
    let (mut is_told, mut is_in_vain) = (false, false);
    loop {
        let mut slices = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
        let used = bytes.slice(done, usize::MAX, &mut slices);
        // SAFETY: the parts are here.
        let Some(rest) = (unsafe { Bytes::parts(slices.as_ptr(), used) }) else { return Ok(done as isize) };
        let rest = if flags & libc::MSG_TRUNC != 0 { rest.discarding() } else { rest };
        let is_whole = done == 0 && is_empty(own, peer) && is_with_kernel(peer);
        let some = flags & !libc::MSG_WAITALL;
        let mut own_call = None;
        let got = if is_whole {
            // Nothing but the kernel has any: the program's own call waits for all of it.
            let mut whole = || {
                let got = native.call();
                own_call = Some(got);
                got
            };
            read(known, fd, Some(&rest), some, &mut Native::of(&mut whole))
        } else {
            // With some bytes any handler ends the wait, also one that lets calls go on. A read would go on.
            let some = if done > 0 && !is_in_vain { some | libc::MSG_DONTWAIT } else { some };
            let mut part = || {
                if done > 0 && !is_in_vain && kernel::unread(fd) == Some(0) {
                    // An end, and why the kernel has reset a connection, which it says once, are for the
                    // program's next call.
                    return with_errno(-(libc::EAGAIN as isize));
                }
                let got = kernel::receive(fd, &rest, usize::MAX, some);
                if got > 0 {
                    page::kernel(known.record(), Direction::In, got as u64);
                }
                with_errno(got)
            };
            read(known, fd, Some(&rest), some, &mut Native::of(&mut part))
        };
        let got = match got {
            Err(Gone) if done > 0 => return Ok(done as isize),
            got => got?,
        };
        if done > 0 && got < 0 && get_errno() == libc::EAGAIN && !is_in_vain {
            set_errno(errno);
            if is_told {
                is_in_vain = true;
                continue;
            }
            is_told = patience.get_or_insert_with(|| Patience::of(fd)).finds_more(fd);
            set_errno(errno);
            if is_told && !has_ended(known, own, peer, fd) {
                continue;
            }
        }
        (is_told, is_in_vain) = (false, false);
        match usize::try_from(got) {
            Ok(0) | Err(_) if done > 0 => {
                set_errno(errno);
                return Ok(done as isize);
            }
            Ok(0) | Err(_) => return Ok(got),
            Ok(count) => done += count,
        }
        // If it has got some, and less, it was interrupted, or found an end.
        let is_cut_short = own_call.is_some_and(|got| got > 0);
        if done >= bytes.length || is_cut_short || kernel::is_at_mark(fd) {
            return Ok(done as isize);
        }
    }
}

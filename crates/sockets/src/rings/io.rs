//! One read or write of the program on a connection that has, or may get, rings.

mod both;
mod count;
mod fast;
mod file;
mod held;
mod peek;
mod plain;
mod quiet;
mod read;
mod rest;
mod spin;
mod told;
mod write;

use core::arch::asm;

use libc::c_int;

pub(crate) use self::count::unread;
pub(crate) use self::file::send_file;
pub(crate) use self::held::is_held_back;
pub(crate) use self::quiet::{QuietRead, QuietWrite};
pub(crate) use self::read::read;
pub(crate) use self::told::comes_still;
pub(crate) use self::write::{SHORT_BYTES, write, write_short};
use super::conn::{Known, state};
use super::flight::Flight;
use super::forced::{self, Wait};
use super::header::Header;
use super::native::Native;
use super::pair;
use crate::interposer::set_errno;
use crate::raw;
use crate::sync::{AtomicU64, Ordering};

/// How a short way ended.
enum Moves {
    Moved(isize),
    Nothing,
    /// It is for the machine.
    Slow,
}

/// A write on a connection that has no ring: its ends may be looking for each other. None: it has got one.
fn writes_unready(conn: Known, fd: c_int, native: &mut Native<'_>) -> Option<isize> {
    if forced::is_on() {
        forced::meets(conn, fd);
    }
    let flight = Flight::begin(fd).ok()?;
    let result = native.call();
    let result = used(conn, fd, result);
    flight.land();
    Some(result)
}

/// A read of a connection that has no ring. None: it has got one.
fn reads_unready(conn: Known, fd: c_int, native: &mut Native<'_>) -> Option<isize> {
    if forced::is_on() {
        forced::meets(conn, fd);
    }
    if !conn.is(state::MEETING) {
        return if conn.is(state::READY) { None } else { Some(native.call()) };
    }
    let wait = Wait::reads();
    let is_unready = conn.waits_unready();
    let result = if is_unready { native.call() } else { 0 };
    conn.has_waited();
    wait.end();
    is_unready.then(|| used(conn, fd, result))
}

/// A call on a connection that has no ring has come back: its ends may be looking for each other.
fn used(conn: Known, fd: c_int, result: isize) -> isize {
    if result > 0 && conn.is(state::MEETING) && conn.is_still() {
        pair::step(conn, fd);
    }
    result
}

/// Nothing of the ring is unread.
#[inline(always)]
pub(crate) fn is_empty(own: &Header, peer: &Header) -> bool {
    let tail = peer.tail();
    tail == own.head.0.load(Ordering::Acquire) || tail == peer.writer.0.base.load(Ordering::Acquire)
}

/// Whether there is something in the ring that a reader may take now: what the writer takes back comes
/// through the kernel.
#[inline(always)]
pub(crate) fn offers(own: &Header, peer: &Header) -> bool {
    !is_empty(own, peer) && peer.writer.0.revoke.load(Ordering::Acquire) == 0
}

/// Changes a word that only holders of a lock change: between two instructions of this thread only its own
/// signal handlers can have.
#[inline(always)]
fn commit(word: &AtomicU64, from: u64, to: u64) -> bool {
    let found: u64;
    // SAFETY: the word's own address; one instruction, so that no handler comes in between.
    unsafe {
        asm!("cmpxchg [{word}], {to}", word = in(reg) word.as_ptr(), to = in(reg) to, inout("rax") from => found, options(nostack));
    }
    found == from
}

/// A result of the kernel's, as the C library gives it.
fn with_errno(result: isize) -> isize {
    if result < 0 {
        set_errno(-result as c_int);
        return -1;
    }
    result
}

/// Whether calls on it may not wait.
pub(crate) fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: takes no pointer.
    let flags = unsafe { raw::call(libc::SYS_fcntl, [fd as usize, libc::F_GETFL as usize, 0, 0, 0, 0]) };
    flags >= 0 && flags as c_int & libc::O_NONBLOCK != 0
}

/// Whether the number is a descriptor.
pub(crate) fn is_open(fd: c_int) -> bool {
    // SAFETY: takes no pointer.
    !crate::state::may_ask()
        || unsafe { raw::call(libc::SYS_fcntl, [fd as usize, libc::F_GETFD as usize, 0, 0, 0, 0]) >= 0 }
}

/// Whether nothing comes and goes any more.
pub(crate) fn is_hung_up(fd: c_int) -> bool {
    super::kernel::polled(fd, 0, 0) & libc::POLLHUP != 0
}

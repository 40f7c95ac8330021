//! Descriptors that the library opens for a moment, protected from the program's use.
//!
//! The kernel gives the lowest free number, which is one that the program has just closed, perhaps in order
//! to put something else there (`dup2`). So while a thread has such a descriptor, calls of the program that
//! close or replace a number that nobody is known to have wait, and while somebody makes such a call none is
//! opened.

use libc::c_int;

use super::blocked::Blocked;
use super::forced::yields;
use super::lock::Masked;
use crate::sync::{AtomicU32, Ordering};
use crate::{environment, raw, state};

/// Threads that have such descriptors, or may be about to.
static OPEN: AtomicU32 = AtomicU32::new(0);
/// Calls of the program that close or replace a number.
static CHANGING: AtomicU32 = AtomicU32::new(0);

/// The longest that such a call waits: many times what is done meanwhile, all of which the kernel does at
/// once.
const MOST_MILLISECONDS: u32 = 1000;

/// Does what opens descriptors, and closes them again. None if it cannot be done now.
pub(super) fn with_descriptors<T>(act: impl FnOnce() -> T) -> Option<T> {
    // A handler of this thread could not wait for what it has interrupted.
    let masked = Masked::begin();
    OPEN.fetch_add(1, Ordering::SeqCst);
    let done = (CHANGING.load(Ordering::SeqCst) == 0).then(act);
    OPEN.fetch_sub(1, Ordering::SeqCst);
    masked.end();
    done
}

/// Makes a call of the program that closes or replaces numbers that may be anybody's. (A thread that is
/// cancelled in it never comes back: then no ring is opened any more.)
pub(crate) fn changing<T>(call: impl FnOnce() -> T) -> T {
    if !environment::has_rings() || state::outside() {
        return call();
    }
    CHANGING.fetch_add(1, Ordering::SeqCst);
    let mut waited = Blocked::new();
    while OPEN.load(Ordering::SeqCst) != 0 && waited.spent_milliseconds() < MOST_MILLISECONDS {
        yields();
    }
    let result = call();
    CHANGING.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Another number for a descriptor that the program is about to close, out of the way of its own.
pub(super) fn keeps(fd: c_int) -> Option<c_int> {
    KEPT.fetch_add(1, Ordering::SeqCst);
    let duplicate = [fd as usize, libc::F_DUPFD_CLOEXEC as usize, lowest() as usize, 0, 0, 0];
    // SAFETY: numbers only; a new descriptor.
    let kept = unsafe { raw::call(libc::SYS_fcntl, duplicate) };
    let kept = c_int::try_from(kept).ok().filter(|&kept| kept >= 0);
    if kept.is_none() {
        KEPT.fetch_sub(1, Ordering::SeqCst);
    }
    kept
}

/// It is no longer needed.
pub(super) fn drops(kept: c_int) {
    if kept >= 0 {
        KEPT.fetch_sub(1, Ordering::SeqCst);
        super::pair::close(kept);
    }
}

/// The program closes it.
pub(super) fn loses() {
    KEPT.fetch_sub(1, Ordering::SeqCst);
}

/// How many are kept.
static KEPT: AtomicU32 = AtomicU32::new(0);

/// Whether any is.
pub(super) fn keeps_any() -> bool {
    KEPT.load(Ordering::SeqCst) != 0
}

/// Numbers of this library's own descriptors begin at most so far below the limit.
const BELOW: u64 = 512;

/// The lowest number that descriptors of this library may get where they stay open for longer.
pub(super) fn lowest() -> u64 {
    let limit = raw::limit(libc::RLIMIT_NOFILE);
    limit.min(1 << 20).saturating_sub(BELOW.min(limit / 2))
}

/// In the child of a fork nobody does either.
pub(crate) fn forked() {
    OPEN.store(0, Ordering::Relaxed);
    CHANGING.store(0, Ordering::Relaxed);
}

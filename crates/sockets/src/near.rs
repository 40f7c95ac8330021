//! What interposers read in every call, in few lines and pages: flags that hardly anybody writes, and behind
//! them what is known of each descriptor.
//!
//! After a system call little of what is the program's is left in the caches, and after another process has
//! run little of what leads to its pages. So each further line and page costs more than what an interposer
//! computes. Unlike [`crate::state::WIPED`] this survives a fork. Each field belongs to the module that
//! writes it.

use crate::rings::tables::Tables;
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use crate::table::NUMBERS;

/// Next definitions that have a place here.
pub(crate) const NEXT: usize = 8;

#[repr(C, align(4096))]
pub(crate) struct Near {
    /// See [`crate::rings::tables`].
    pub(crate) tables: AtomicPtr<Tables>,
    /// See [`crate::environment::has_rings`].
    pub(crate) rings: AtomicU32,
    /// See [`crate::cancel::is_any`].
    pub(crate) cancels: AtomicU32,
    /// See [`crate::rings::conn::met`].
    pub(crate) meetings: AtomicU32,
    /// See [`crate::rings::epoll`].
    pub(crate) epolls: AtomicU32,
    /// See [`crate::state::holders`].
    pub(crate) holders: AtomicU32,
    /// See [`crate::table::highest`].
    pub(crate) highest: AtomicU32,
    _room: [u64; 4],
    /// Where the next definitions of calls that make and close connections are; see [`crate::interposer`].
    pub(crate) next: [AtomicUsize; NEXT],
    pub(crate) numbers: [Number; NUMBERS],
}

/// Of one descriptor: see [`crate::table`]. Zeroes are nothing. What else there is of it exists only where
/// connections may get rings: this is in every process, also under a limit of its memory.
#[repr(C, align(16))]
pub(crate) struct Number {
    pub(crate) word: AtomicU64,
    pub(crate) cookie: AtomicU64,
}

/// Where the next definitions begin.
pub(crate) const NEXT_AT: usize = core::mem::offset_of!(Near, next);

const _: () =
    assert!(NEXT_AT == 64 && core::mem::offset_of!(Near, numbers) == 128 && size_of::<Number>() == 16);

pub(crate) static NEAR: Near = Near {
    tables: AtomicPtr::new(core::ptr::null_mut()),
    rings: AtomicU32::new(0),
    cancels: AtomicU32::new(0),
    meetings: AtomicU32::new(0),
    epolls: AtomicU32::new(0),
    holders: AtomicU32::new(0),
    highest: AtomicU32::new(0),
    _room: [0; 4],
    next: [const { AtomicUsize::new(0) }; NEXT],
    // Zeroes, as all of it: else it would be in the file.
    numbers: [const { Number { word: AtomicU64::new(0), cookie: AtomicU64::new(0) } }; NUMBERS],
};

/// What is known of a number; none of those that are not followed.
#[inline(always)]
pub(crate) fn number(fd: libc::c_int) -> Option<&'static Number> {
    usize::try_from(fd).ok().and_then(|at| NEAR.numbers.get(at))
}

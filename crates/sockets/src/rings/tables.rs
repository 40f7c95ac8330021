//! The tables of this process's connections and epolls, in memory that exists only where
//! connections may get rings.

use super::conn::Conns;
use super::epoll::Epolls;
use super::flight::Flights;
use super::late::Uses;
use crate::near::NEAR;
use crate::raw;
use crate::sync::Ordering;

/// Zeroes are empty ones.
pub(crate) struct Tables {
    pub(super) conns: Conns,
    pub(super) epolls: Epolls,
    pub(super) flights: Flights,
    pub(super) uses: Uses,
}

#[inline(always)]
pub(super) fn get() -> Option<&'static Tables> {
    // SAFETY: null, or what `make` has mapped for good; a place in it is changed by atomic operations alone.
    unsafe { NEAR.tables.load(Ordering::Acquire).as_ref() }
}

/// Makes them, once, while there is one thread; whether they are there. Under a limit of memory the program
/// gets what there is.
pub(crate) fn make() -> bool {
    if raw::is_limited(libc::RLIMIT_AS) || raw::is_limited(libc::RLIMIT_DATA) {
        return false;
    }
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    // SAFETY: a new mapping.
    let mapped =
        unsafe { raw::call(libc::SYS_mmap, [0, size_of::<Tables>(), protection, flags, usize::MAX, 0]) };
    if mapped <= 0 {
        return false;
    }
    // Pairs with the Acquire in `get`.
    NEAR.tables.store(mapped as *mut Tables, Ordering::Release);
    true
}

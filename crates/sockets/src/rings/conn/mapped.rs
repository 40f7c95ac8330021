//! The addresses at which the regions of a connection are mapped. Once a place in the table has an
//! address, that stays mapped for good: what is mapped there changes.

use libc::c_int;

use crate::rings::header::{Header, REGION_BYTES};
use crate::sync::{AtomicPtr, Ordering};
use crate::{raw, state};

/// Replaces a region by empty memory.
pub(super) fn empty(address: usize) {
    if !state::may_ask() {
        // No connection gets this place any more.
        return;
    }
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE) as usize;
    // SAFETY: only ever addresses that `map` gave, which are this library's alone.
    unsafe { raw::call(libc::SYS_mmap, [address, REGION_BYTES, protection, flags, usize::MAX, 0]) };
}

/// Maps a region where one of this connection's place was before, or anywhere.
pub(crate) fn map(place: &AtomicPtr<Header>, fd: c_int, is_own: bool) -> bool {
    let before = place.load(Ordering::Relaxed) as usize;
    let protection = if is_own { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
    let flags = libc::MAP_SHARED | if before == 0 { 0 } else { libc::MAP_FIXED };
    let arguments = [before, REGION_BYTES, protection as usize, flags as usize, fd as usize, 0];
    // SAFETY: a new mapping, or one in the place of one that is this library's alone.
    let mapped = unsafe { raw::call(libc::SYS_mmap, arguments) };
    if mapped <= 0 {
        return false;
    }
    // Pairs with the Acquire in `headers`: who has the address has what is mapped there.
    place.store(mapped as *mut Header, Ordering::Release);
    true
}

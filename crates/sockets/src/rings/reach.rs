//! Checks whether an address that the program gave is memory, because a copy would raise a signal
//! where the kernel returns an error.
//!
//! The kernel is asked, once for each page: what it said is kept for a while. A page that was there and is
//! gone when the program gives it again is not noticed.

use core::ffi::c_void;

use libc::iovec;

use crate::raw;
use crate::state;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

const PAGE_BITS: u32 = 12;
/// Pages that are remembered: so many with each number that [`set`] gives them. Buffers of many connections
/// lie at regular distances: among a hundred pages in as few places as there were pages, one by one, most
/// calls would have to ask again.
const SETS: usize = 256;
const KEPT: usize = 4;

/// Of a page: its number, and 1 if it may be written. Those that were asked for last come first.
static PAGES: [[AtomicU64; KEPT]; SETS] = [const { [const { AtomicU64::new(0) }; KEPT] }; SETS];

/// Where a page is remembered.
#[inline(always)]
fn set(page: u64) -> &'static [AtomicU64] {
    // Scattered, whatever the distances.
    let mixed = page.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let at = (mixed ^ mixed >> 32).wrapping_mul(0xff51_afd7_ed55_8ccd) >> (u64::BITS - SETS.ilog2());
    PAGES.get(at as usize).map_or(&[], |set| set)
}

/// Whether it is remembered that a page can be read, or written.
#[inline(always)]
fn is_kept(page: u64, writes: bool) -> bool {
    let is_it = |kept: &AtomicU64| {
        let kept = kept.load(Ordering::Relaxed);
        kept >> 1 == page && (kept & 1 != 0 || !writes)
    };
    let set = set(page);
    page != 0 && (set.first().is_some_and(is_it) || is_kept_behind(set, page, writes))
}

#[inline(never)]
fn is_kept_behind(set: &[AtomicU64], page: u64, writes: bool) -> bool {
    set.iter().skip(1).any(|kept| {
        let kept = kept.load(Ordering::Relaxed);
        kept >> 1 == page && (kept & 1 != 0 || !writes)
    })
}

/// Remembers it.
fn keep(page: u64, writes: bool) {
    let mut new = page << 1 | u64::from(writes);
    for kept in set(page) {
        let before = kept.swap(new, Ordering::Relaxed);
        if before >> 1 == page {
            return;
        }
        new = before;
    }
}

/// Whether so many bytes can be read.
#[inline(always)]
pub(crate) fn is_readable(at: *const c_void, length: usize) -> bool {
    is_there(at as usize, length, false)
}

/// Whether so many bytes can be written.
#[inline(always)]
pub(crate) fn is_writable(at: *const c_void, length: usize) -> bool {
    is_there(at as usize, length, true)
}

/// First and last of them stand for all: who gives a place with a hole in it finds out as anywhere else.
#[inline(always)]
fn is_there(at: usize, length: usize, writes: bool) -> bool {
    let Some(last) = at.checked_add(length.saturating_sub(1)) else { return false };
    length == 0 || (is_page(at, writes) && (at >> PAGE_BITS == last >> PAGE_BITS || is_page(last, writes)))
}

/// How many of so many bytes can be written, from the first one on without a gap.
#[cold]
#[inline(never)]
pub(crate) fn writable_bytes(at: *const c_void, length: usize) -> usize {
    const PAGE_BYTES: usize = 1 << PAGE_BITS;
    let first = at as usize;
    let mut there = 0;
    while there < length && is_page(first.wrapping_add(there), true) {
        there += PAGE_BYTES - (first.wrapping_add(there) & (PAGE_BYTES - 1));
    }
    there.min(length)
}

#[inline(always)]
fn is_page(at: usize, writes: bool) -> bool {
    let page = (at >> PAGE_BITS) as u64;
    is_kept(page, writes) || ask(at, page, writes)
}

/// Whether the kernel can write there. It is asked for an addition of 0, as one step: what another thread
/// stores meanwhile stays.
fn can_be_written(at: usize) -> bool {
    /// Adds 0 to the second word, and wakes one who waits for it if it was -1: who waits for such a word
    /// expects to be woken for nothing.
    const ADD_NOTHING: usize = (libc::FUTEX_OP_ADD << 28 | libc::FUTEX_OP_CMP_EQ << 24 | 0xfff) as usize;
    /// A word that nobody waits for.
    static OWN: AtomicU32 = AtomicU32::new(0);
    let operation = (libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG) as usize;
    // In the same page.
    let word = at & !(size_of::<u32>() - 1);
    // SAFETY: changes nothing.
    unsafe { raw::call(libc::SYS_futex, [OWN.as_ptr() as usize, operation, 1, 1, word, ADD_NOTHING]) >= 0 }
}

/// Whether `process_vm_readv` can read there. It refuses some memory that a `write` could read (that of
/// `memfd_secret` and of devices); the program's call then goes to the kernel.
fn can_be_read(at: usize) -> bool {
    let mut byte = 0_u8;
    let there = iovec { iov_base: at as *mut c_void, iov_len: 1 };
    let here = iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let own = state::owner() as usize;
    let arguments = [own, (&raw const here) as usize, 1, (&raw const there) as usize, 1, 0];
    // SAFETY: writes the byte at most; what cannot be read is an error.
    unsafe { raw::call(libc::SYS_process_vm_readv, arguments) == 1 }
}

#[cold]
#[inline(never)]
pub(crate) fn ask(at: usize, page: u64, writes: bool) -> bool {
    if !state::may_ask() {
        // Then there are no rings, and the kernel gets what the program has given.
        return false;
    }
    // What can be written can be read on processors for which this is built.
    let can_be = if writes { can_be_written(at) } else { can_be_read(at) };
    if can_be {
        keep(page, writes);
    }
    can_be
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_at_any_regular_distance_are_remembered() {
        for distance in 1..300 {
            // As buffers of a hundred connections, each with room to read and room to write.
            let pages = || (0..200).map(move |at| 0x7_f000_0000 + distance * 1000 + at * distance);
            pages().for_each(|page| keep(page, page % 2 == 0));
            let kept = pages().filter(|&page| is_kept(page, page % 2 == 0)).count();
            assert!(kept >= 190, "{kept} of 200 at a distance of {distance}");
            assert!(!pages().any(|page| page % 2 != 0 && is_kept(page, true)), "only read");
        }
    }

    #[test]
    fn what_can_be_written_too_is_remembered_once() {
        let page = 0x6_1234_5678;
        keep(page, false);
        assert!(is_kept(page, false) && !is_kept(page, true));
        keep(page, true);
        assert!(is_kept(page, false) && is_kept(page, true));
        let places = set(page).iter().filter(|kept| kept.load(Ordering::Relaxed) >> 1 == page).count();
        assert_eq!(places, 1);
    }
}

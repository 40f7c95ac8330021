//! Whether an address that the program gave is memory: the kernel would say so with an error, a copy of ours with a signal.
//!
//! The kernel is asked, once for each page: what it said is kept for a while. A page that was there and is gone when the program
//! gives it again is not noticed.

use core::ffi::c_void;

use libc::iovec;

use crate::raw;
use crate::state;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

const PAGE_BITS: u32 = 12;
/// Pages that are remembered.
const KEPT: usize = 256;

/// By the low bits of a page's number: the number, and 1 if it may be written.
static PAGES: [AtomicU64; KEPT] = [const { AtomicU64::new(0) }; KEPT];

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

#[inline(always)]
fn is_page(at: usize, writes: bool) -> bool {
    let page = (at >> PAGE_BITS) as u64;
    let kept = PAGES.get(page as usize % KEPT).map_or(0, |kept| kept.load(Ordering::Relaxed));
    (kept >> 1 == page && page != 0 && (kept & 1 != 0 || !writes)) || ask(at, page, writes)
}

/// Whether the kernel can write there. It is asked for an addition of 0, as one step: what another thread stores meanwhile stays.
fn can_be_written(at: usize) -> bool {
    /// Adds 0 to the second word, and wakes one who waits for it if it was -1: who waits for such a word expects to be woken for nothing.
    const ADD_NOTHING: usize = (libc::FUTEX_OP_ADD << 28 | libc::FUTEX_OP_CMP_EQ << 24 | 0xfff) as usize;
    /// A word that nobody waits for.
    static OWN: AtomicU32 = AtomicU32::new(0);
    let operation = (libc::FUTEX_WAKE_OP | libc::FUTEX_PRIVATE_FLAG) as usize;
    // In the same page.
    let word = at & !(size_of::<u32>() - 1);
    // SAFETY: changes nothing.
    unsafe { raw::call(libc::SYS_futex, [OWN.as_ptr() as usize, operation, 1, 1, word, ADD_NOTHING]) >= 0 }
}

#[cold]
#[inline(never)]
pub(crate) fn ask(at: usize, page: u64, writes: bool) -> bool {
    if !state::may_ask() {
        // Then there are no rings, and the kernel gets what the program has given.
        return false;
    }
    let mut byte = 0_u8;
    let there = iovec { iov_base: at as *mut c_void, iov_len: 1 };
    let here = iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let own = state::owner() as usize;
    let arguments = [own, (&raw const here) as usize, 1, (&raw const there) as usize, 1, 0];
    // SAFETY: writes the byte at most; what cannot be read is an error.
    let can_be_read = unsafe { raw::call(libc::SYS_process_vm_readv, arguments) } == 1;
    let can_be = can_be_read && (!writes || can_be_written(at));
    if can_be && let Some(kept) = PAGES.get(page as usize % KEPT) {
        kept.store(page << 1 | u64::from(writes), Ordering::Relaxed);
    }
    can_be
}

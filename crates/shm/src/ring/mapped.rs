//! A ring's words in a region.

use super::control::LINE_WORDS;
use super::ends::HEAD_BYTES;
use super::words::Words;
use crate::copy;
use crate::region::{MapAccess, Region};
use crate::sync::{AtomicU32, AtomicU64};
use crate::window::Window;
use crate::{Error, Result};

/// A region, seen as a row of words from some offset on. Owns the region, so the words stay mapped.
#[derive(Debug)]
pub(super) struct Mapped {
    region: Region,
    /// First word of the row; points into the mapping of `region`.
    start: *const AtomicU64,
    /// Index of the last word; every access is limited to it.
    last: usize,
}

// SAFETY: `start` points into the mapping, which belongs to the process and lives as long as `region`; the
// words are accessed atomically or by copies that tolerate concurrent writers.
unsafe impl Send for Mapped {}
// SAFETY: as above; nothing else is in the type that changes.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// The row of `words` words (at least one) from `offset_bytes` (a multiple of 64) of the region.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if the region is smaller, [`Error::Misaligned`].
    pub(super) fn new(region: Region, offset_bytes: usize, words: usize) -> Result<Self> {
        let size = region.size_bytes();
        let len = words.checked_mul(8).filter(|&len| len > 0);
        let fits = len.and_then(|len| offset_bytes.checked_add(len)).is_some_and(|end| end <= size);
        if !fits || size < HEAD_BYTES {
            return Err(Error::OutOfRange { offset: offset_bytes, len: len.unwrap_or(usize::MAX), size });
        }
        if !offset_bytes.is_multiple_of(64) {
            return Err(Error::Misaligned { offset: offset_bytes, align: 64 });
        }
        // SAFETY: the offset lies in the mapping, as was just checked.
        let start = unsafe { region.as_ptr().add(offset_bytes) };
        Ok(Self { region, start: start.cast::<AtomicU64>().cast_const(), last: words - 1 })
    }

    /// The region.
    #[inline]
    pub(super) fn region(&self) -> &Region {
        &self.region
    }

    /// The low half of a word of the region's head (see `ends`): the doorbell words are 32 bits wide.
    #[inline]
    pub(super) fn head_u32(&self, word: usize) -> &AtomicU32 {
        // Every region of a ring is at least as large as a head: checked in `new`.
        let word = word.min(HEAD_BYTES / 8 - 1);
        // SAFETY: the word lies in the mapping and is aligned; it takes every bit pattern and is only
        // accessed atomically; the owner of the other half of it is nobody.
        unsafe { &*self.region.as_ptr().cast::<AtomicU64>().add(word).cast::<AtomicU32>() }
    }

    /// `len` bytes from word `index`, writable or not.
    #[inline]
    pub(super) fn window(&self, index: usize, len: usize, access: MapAccess) -> Window<'_> {
        // Our own algorithms never ask for more than there is; if they did, the window is short and its user
        // gets an error.
        let len = if self.holds(index, len) { len } else { 0 };
        // SAFETY: the range lies in the mapping, which lives as long as `self`; `access` is at most what the
        // mapping has, because only the side that mapped it for writing asks for a writable window.
        unsafe { Window::from_raw(self.at(index).cast_mut(), len, access) }
    }

    /// The bytes of one word, to be read.
    #[inline(always)]
    pub(super) fn window_of(word: &AtomicU64) -> Window<'_> {
        // SAFETY: the word is borrowed for as long as the window, and there is no reference to it that is not
        // atomic.
        unsafe { Window::from_raw(word.as_ptr().cast(), size_of::<AtomicU64>(), MapAccess::ReadOnly) }
    }

    #[inline]
    fn holds(&self, index: usize, len: usize) -> bool {
        index <= self.last && len <= (self.last - index + 1) * 8
    }

    #[inline]
    fn at(&self, index: usize) -> *const u8 {
        // SAFETY: `last` is in the mapping, so this is.
        unsafe { self.start.add(index.min(self.last)) }.cast()
    }
}

impl Words for Mapped {
    #[inline(always)]
    fn word(&self, index: usize) -> &AtomicU64 {
        // SAFETY: the index is limited to the row, which lies in the mapping and is aligned (mappings are to
        // a page, the offset to 64); a word takes every bit pattern and is only accessed atomically. In a
        // read-only mapping the algorithms only load.
        unsafe { &*self.start.add(index.min(self.last)) }
    }

    #[inline(always)]
    fn line(&self, index: usize) -> Option<&[AtomicU64; LINE_WORDS]> {
        if index.saturating_add(LINE_WORDS - 1) > self.last {
            return None;
        }
        // SAFETY: all words of it lie in the row, as was just checked; about each of them as in `word`.
        Some(unsafe { &*self.start.add(index).cast::<[AtomicU64; LINE_WORDS]>() })
    }

    #[inline(always)]
    fn words(&self, index: usize, count: usize) -> &[AtomicU64] {
        if index.saturating_add(count) > self.last + 1 {
            return &[];
        }
        // SAFETY: all of these words lie in the row, as was just checked; about each of them as in `word`.
        unsafe { core::slice::from_raw_parts(self.start.add(index), count) }
    }

    #[inline]
    fn write_long(&self, index: usize, bytes: &[u8]) {
        if self.holds(index, bytes.len()) {
            // SAFETY: checked just now; `bytes` is a slice, which cannot overlap shared memory.
            unsafe { copy::copy(self.at(index).cast_mut(), bytes.as_ptr(), bytes.len()) };
        }
    }

    #[inline]
    fn read_long_from(&self, index: usize, skip: usize, bytes: &mut [u8]) {
        if skip.checked_add(bytes.len()).is_some_and(|end| self.holds(index, end)) {
            // SAFETY: checked just now; `bytes` is a slice, which cannot overlap shared memory.
            unsafe { copy::copy(bytes.as_mut_ptr(), self.at(index).add(skip), bytes.len()) };
        }
    }

    #[inline(always)]
    fn prefetch(&self, index: usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch changes nothing and cannot fault.
        unsafe {
            core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(self.at(index).cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = index;
    }

    #[inline(always)]
    fn prefetch_for_write(&self, index: usize) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch changes nothing and cannot fault; processors without it execute it as a no-op.
        unsafe {
            core::arch::asm!("prefetchw [{}]", in(reg) self.at(index), options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = index;
    }
}

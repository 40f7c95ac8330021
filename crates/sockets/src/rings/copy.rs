//! Copies bytes between the program's memory and rings. The copies are in assembly where it
//! matters: the language's own copies call the C library's, which may be somebody's interposer, and the
//! other side of a ring may write at any time.

mod long;

use core::arch::asm;

use libc::{c_void, iovec};

pub(super) use self::long::measure;

use super::header::CAPACITY;
use super::reach;

/// Copies.
///
/// # Safety
/// Both must be good for so many bytes, and not overlap. Others may write what is read meanwhile: then
/// anything is copied.
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if length <= 16 {
            return small(from, to, length);
        }
        if length <= 128 {
            let mut at = 0;
            while at + 16 < length {
                sixteen(from.add(at), to.add(at));
                at += 16;
            }
            return sixteen(from.add(length - 16), to.add(length - 16));
        }
        long::copy(from, to, length);
    }
}

/// # Safety
/// As [`copy`], of 16 bytes.
#[inline(always)]
unsafe fn sixteen(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("movups {x}, [{from}]", "movups [{to}], {x}", x = out(xmm_reg) _, from = in(reg) from, to = in(reg) to,
            options(nostack, preserves_flags));
    }
}

/// # Safety
/// As [`copy`], of at most 16 bytes.
#[inline(always)]
unsafe fn small(from: *const u8, to: *mut u8, length: usize) {
    /// The first and last bytes, as many as a register holds: they may be the same or overlap.
    macro_rules! ends {
        ($bytes:literal, $first:literal, $last:literal, $store_first:literal, $store_last:literal) => {
            asm!(
                $first, $last, $store_first, $store_last,
                x = out(reg) _, y = out(reg) _, from = in(reg) from, to = in(reg) to, last = in(reg) length - $bytes,
                options(nostack, preserves_flags)
            )
        };
    }
    // SAFETY: the caller's promise, and the lengths.
    unsafe {
        match length {
            0 => {}
            1 => {
                asm!("mov {x}, byte ptr [{from}]", "mov byte ptr [{to}], {x}", x = out(reg_byte) _, from = in(reg) from, to = in(reg) to,
                    options(nostack, preserves_flags));
            }
            2..4 => ends!(
                2,
                "movzx {x:e}, word ptr [{from}]",
                "movzx {y:e}, word ptr [{from} + {last}]",
                "mov word ptr [{to}], {x:x}",
                "mov word ptr [{to} + {last}], {y:x}"
            ),
            4..8 => ends!(
                4,
                "mov {x:e}, dword ptr [{from}]",
                "mov {y:e}, dword ptr [{from} + {last}]",
                "mov dword ptr [{to}], {x:e}",
                "mov dword ptr [{to} + {last}], {y:e}"
            ),
            _ => ends!(
                8,
                "mov {x:r}, qword ptr [{from}]",
                "mov {y:r}, qword ptr [{from} + {last}]",
                "mov qword ptr [{to}], {x:r}",
                "mov qword ptr [{to} + {last}], {y:r}"
            ),
        }
    }
}

/// Most parts that one call is looked at.
pub(crate) const PARTS: usize = 16;

/// The program's bytes of one call: where they are or go.
#[derive(Clone, Copy)]
pub(crate) struct Bytes {
    parts: *const iovec,
    count: usize,
    one: iovec,
    pub(crate) length: usize,
    /// What comes is counted, and thrown away.
    discards: bool,
}

impl Bytes {
    #[inline(always)]
    pub(crate) fn flat(at: *const c_void, length: usize) -> Self {
        let one = iovec { iov_base: at.cast_mut(), iov_len: length };
        Self { parts: core::ptr::null(), count: 1, one, length, discards: false }
    }

    /// Of parts. None if there are too many, or what is said of them makes no sense: that is for the kernel
    /// to say.
    ///
    /// # Safety
    /// The parts must be readable, as for the call itself.
    // Inlined: a call would go by an address that has to be relocated.
    #[inline(always)]
    pub(crate) unsafe fn parts(parts: *const iovec, count: usize) -> Option<Self> {
        if count == 0 || count > PARTS || !reach::is_readable(parts.cast(), count * size_of::<iovec>()) {
            return None;
        }
        let mut length = 0_usize;
        for at in 0..count {
            // SAFETY: the caller's promise.
            let part = unsafe { &*parts.add(at) };
            length = length.checked_add(part.iov_len).filter(|&sum| sum <= isize::MAX as usize)?;
        }
        let one = iovec { iov_base: core::ptr::null_mut(), iov_len: 0 };
        Some(Self { parts, count, one, length, discards: false })
    }

    /// Whether all of it is memory: to be written if `writes`, else to be read.
    #[inline(always)]
    pub(crate) fn is_there(&self, writes: bool) -> bool {
        if self.parts.is_null() { self.is_part_there(self.one, writes) } else { self.are_parts_there(writes) }
    }

    #[inline(always)]
    fn is_part_there(&self, part: iovec, writes: bool) -> bool {
        match writes {
            true => self.discards || reach::is_writable(part.iov_base, part.iov_len),
            false => reach::is_readable(part.iov_base, part.iov_len),
        }
    }

    #[inline(never)]
    fn are_parts_there(&self, writes: bool) -> bool {
        (0..self.count).all(|at| self.is_part_there(self.part(at), writes))
    }

    /// What can be written of it, from its first byte on, and no more than `most`: of several parts, those
    /// that are whole.
    #[cold]
    pub(crate) fn up_to_a_gap(&self, most: usize) -> Self {
        let whole = (0..self.count).take_while(|&at| self.is_part_there(self.part(at), true)).count();
        let length = (0..whole).fold(0_usize, |sum, at| sum.saturating_add(self.part(at).iov_len));
        if length > 0 {
            return Self { count: whole, length, ..*self };
        }
        let first = (0..self.count).map(|at| self.part(at)).find(|part| part.iov_len > 0);
        let Some(first) = first else { return *self };
        Self::flat(first.iov_base, reach::writable_bytes(first.iov_base, first.iov_len.min(most)))
    }

    /// The same, for `MSG_TRUNC`.
    pub(crate) fn discarding(self) -> Self {
        Self { discards: true, ..self }
    }

    fn part(&self, at: usize) -> iovec {
        // SAFETY: `at` is below `count`, and the parts are the caller's, which outlive the call.
        if self.parts.is_null() { self.one } else { unsafe { *self.parts.add(at) } }
    }

    /// The parts without the first `skip` bytes, at most `most` of what follows; how many parts.
    pub(crate) fn slice(&self, skip: usize, most: usize, into: &mut [iovec; PARTS]) -> usize {
        let (mut skip, mut most, mut used) = (skip, most, 0);
        for at in 0..self.count.min(PARTS) {
            let part = self.part(at);
            let left = part.iov_len.saturating_sub(skip);
            let base = part.iov_base.cast::<u8>().wrapping_add(skip.min(part.iov_len));
            skip = skip.saturating_sub(part.iov_len);
            if left == 0 || most == 0 {
                continue;
            }
            if let Some(place) = into.get_mut(used) {
                *place = iovec { iov_base: base.cast(), iov_len: left.min(most) };
                used += 1;
            }
            most -= left.min(most);
        }
        used
    }

    /// Calls `each` with the places of `length` bytes behind the first `skip`, of several parts.
    fn for_each(&self, skip: usize, length: usize, mut each: impl FnMut(*mut u8, usize)) {
        let mut slices = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
        let used = self.slice(skip, length, &mut slices);
        for slice in slices.iter().take(used) {
            each(slice.iov_base.cast(), slice.iov_len);
        }
    }

    /// Copies `length` of these bytes, behind the first `skip`, to the ring at a position.
    ///
    /// # Safety
    /// The ring must be of [`CAPACITY`] bytes, `length` no more than that; the bytes are the caller's to
    /// read.
    #[inline(always)]
    pub(crate) unsafe fn put(&self, skip: usize, ring: *mut u8, at: u64, length: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.parts.is_null() {
                put_part(self.one.iov_base.cast::<u8>().wrapping_add(skip), ring, at, length);
            } else {
                self.put_parts(skip, ring, at, length);
            }
        }
    }

    /// # Safety
    /// As [`Bytes::put`].
    #[inline(never)]
    unsafe fn put_parts(&self, skip: usize, ring: *mut u8, mut at: u64, length: usize) {
        self.for_each(skip, length, |from, part| {
            // SAFETY: the caller's promise.
            unsafe { put_part(from, ring, at, part) };
            at += part as u64;
        });
    }

    /// Copies bytes of the ring to these.
    ///
    /// # Safety
    /// As [`Bytes::put`], and the bytes are the caller's to write.
    #[inline(always)]
    pub(crate) unsafe fn take(&self, skip: usize, ring: *const u8, at: u64, length: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.place().is_some() {
                take_part(self.one.iov_base.cast::<u8>().wrapping_add(skip), ring, at, length);
            } else if !self.discards {
                self.take_parts(skip, ring, at, length);
            }
        }
    }

    /// # Safety
    /// As [`Bytes::take`].
    #[inline(never)]
    unsafe fn take_parts(&self, skip: usize, ring: *const u8, mut at: u64, length: usize) {
        self.for_each(skip, length, |to, part| {
            // SAFETY: the caller's promise.
            unsafe { take_part(to, ring, at, part) };
            at += part as u64;
        });
    }

    /// The single place of these bytes, if they have one.
    #[inline(always)]
    pub(crate) fn place(&self) -> Option<*mut u8> {
        (self.parts.is_null() && !self.discards).then_some(self.one.iov_base.cast())
    }
}

/// # Safety
/// As [`Bytes::put`].
#[inline(always)]
unsafe fn put_part(from: *const u8, ring: *mut u8, at: u64, length: usize) {
    // SAFETY: within the ring, in two pieces where it ends; the caller's promise.
    unsafe { each_piece(at, length, |place, done, piece| copy(from.add(done), ring.add(place), piece)) };
}

/// # Safety
/// As [`Bytes::take`].
#[inline(always)]
unsafe fn take_part(to: *mut u8, ring: *const u8, at: u64, length: usize) {
    // SAFETY: as in `put_part`.
    unsafe { each_piece(at, length, |place, done, piece| copy(ring.add(place), to.add(done), piece)) };
}

/// Calls `each` with the one or two pieces that `length` bytes at a position of the ring are in: where, how
/// many came before, how many.
#[inline(always)]
pub(crate) fn each_piece(at: u64, length: usize, mut each: impl FnMut(usize, usize, usize)) {
    let place = (at % CAPACITY) as usize;
    let first = length.min(CAPACITY as usize - place);
    each(place, 0, first);
    if first < length {
        each(0, first, length - first);
    }
}

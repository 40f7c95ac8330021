//! A view of bytes that others may write at any time.

use crate::region::MapAccess;
#[cfg(not(loom))]
use crate::sync::{AtomicU32, AtomicU64};
use crate::{Error, Result, copy};
use core::marker::PhantomData;

/// A range of shared bytes, borrowed from a [`Region`](crate::region::Region).
///
/// Every access is checked against the range. The bytes may change at any time, so they are never lent out as
/// a slice: they are copied in and out, or reached as atomics.
#[derive(Clone, Copy, Debug)]
pub struct Window<'a> {
    start: *mut u8,
    len: usize,
    access: MapAccess,
    _region: PhantomData<&'a ()>,
}

// SAFETY: a window is a pointer to memory that stays mapped for 'a whichever thread uses it; every access
// through it is either atomic or one of the copies that tolerate concurrent writers (see `copy`).
unsafe impl Send for Window<'_> {}
// SAFETY: as above; there is no unsynchronised state in the window itself.
unsafe impl Sync for Window<'_> {}

/// An integer at any offset, so that a volatile access of it is allowed to be unaligned.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Unaligned<T: Copy>(T);

macro_rules! loads_and_stores {
    ($($load:ident $store:ident $integer:ty),*) => {$(
        #[doc = concat!("Reads the `", stringify!($integer), "` at `offset` (bytes), in one piece where it is aligned. No ordering.")]
        ///
        /// # Errors
        /// [`Error::OutOfRange`].
        #[inline]
        pub fn $load(&self, offset: usize) -> Result<$integer> {
            let at = self.at(offset, size_of::<$integer>())?;
            // SAFETY: the bytes lie in the window and stay mapped; the type takes any alignment and any bit
            // pattern, and a volatile read assumes nothing about memory that others write.
            Ok(unsafe { at.cast::<Unaligned<$integer>>().read_volatile() }.0)
        }

        #[doc = concat!("Writes the `", stringify!($integer), "` at `offset` (bytes), in one piece where it is aligned. No ordering.")]
        ///
        /// # Errors
        /// [`Error::OutOfRange`], [`Error::ReadOnly`].
        #[inline]
        pub fn $store(&self, offset: usize, value: $integer) -> Result<()> {
            let at = self.at_mut(offset, size_of::<$integer>())?;
            // SAFETY: the bytes lie in the window, stay mapped and are writable; the type takes any
            // alignment.
            unsafe { at.cast::<Unaligned<$integer>>().write_volatile(Unaligned(value)) };
            Ok(())
        }
    )*};
}

impl<'a> Window<'a> {
    /// A window over mapped memory.
    ///
    /// # Safety
    /// `len` bytes from `start` must stay mapped for `'a`, writable if `access` says so, and no Rust
    /// reference to non-atomic data may exist into them.
    #[inline]
    #[must_use]
    pub unsafe fn from_raw(start: *mut u8, len: usize, access: MapAccess) -> Self {
        Self { start, len, access, _region: PhantomData }
    }

    /// Number of bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether this side may write.
    #[inline]
    #[must_use]
    pub fn access(&self) -> MapAccess {
        self.access
    }

    /// Address of the first byte, for code that hands out mappings. Whatever is done through it is unchecked.
    #[inline]
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// The window of `len` bytes from `offset`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    #[inline]
    pub fn sub(&self, offset: usize, len: usize) -> Result<Self> {
        Ok(Self { start: self.at(offset, len)?, len, ..*self })
    }

    /// The same window, through which this side can no longer write.
    #[inline]
    #[must_use]
    pub fn read_only(&self) -> Self {
        Self { access: MapAccess::ReadOnly, ..*self }
    }

    /// Copies `bytes` to `offset`, with the fastest kernel for that size.
    ///
    /// When it returns, a later Release store by this thread publishes the bytes (copies that bypass the
    /// cache end with the fence that this needs).
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::ReadOnly`].
    // Always: a short copy is a few moves, and a call whose result goes through memory would cost more than
    // they do.
    #[inline(always)]
    pub fn put(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let at = self.at_mut(offset, bytes.len())?;
        // SAFETY: both ranges are valid for that many bytes; `bytes` is a Rust slice, which cannot overlap
        // shared memory (nothing ever lends that out as a slice).
        unsafe { copy::copy(at, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copies from `offset` into `bytes`, with the fastest kernel for that size.
    ///
    /// A peer that writes meanwhile can make the result a mixture of old and new bytes, nothing worse.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    // Always: as `put`.
    #[inline(always)]
    pub fn get(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let at = self.at(offset, bytes.len())?;
        // SAFETY: as in `put`, the other way round.
        unsafe { copy::copy(bytes.as_mut_ptr(), at, bytes.len()) };
        Ok(())
    }

    /// As [`Window::put`], into a ring: memory whose lines another processor has had last.
    ///
    /// # Errors
    /// As [`Window::put`].
    #[inline(always)]
    pub fn put_into_ring(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let at = self.at_mut(offset, bytes.len())?;
        // SAFETY: as in `put`.
        unsafe { copy::copy_for_ring(at, bytes.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// As [`Window::get`], out of a ring.
    ///
    /// # Errors
    /// As [`Window::get`].
    #[inline(always)]
    pub fn get_from_ring(&self, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let at = self.at(offset, bytes.len())?;
        // SAFETY: as in `get`.
        unsafe { copy::copy_for_ring(bytes.as_mut_ptr(), at, bytes.len()) };
        Ok(())
    }

    /// Copies `len` bytes at `from_offset` of this window to `to_offset` of another, which may be of the same
    /// region.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::ReadOnly`] (of the destination).
    #[inline]
    pub fn copy_to(&self, from_offset: usize, to: &Window<'_>, to_offset: usize, len: usize) -> Result<()> {
        let source = self.at(from_offset, len)?;
        let destination = to.at_mut(to_offset, len)?;
        if source.addr().abs_diff(destination.addr()) < len {
            // SAFETY: both ranges are valid for `len` bytes; this one allows them to overlap.
            unsafe { core::ptr::copy(source, destination, len) };
        } else {
            // SAFETY: both ranges are valid for `len` bytes and do not overlap.
            unsafe { copy::copy(destination, source, len) };
        }
        Ok(())
    }

    /// Sets `len` bytes from `offset` to `byte`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::ReadOnly`].
    pub fn fill(&self, offset: usize, len: usize, byte: u8) -> Result<()> {
        let at = self.at_mut(offset, len)?;
        // SAFETY: the range lies in the window, is mapped and writable.
        unsafe { core::ptr::write_bytes(at, byte, len) };
        Ok(())
    }

    /// Takes the lines of `len` bytes from `offset` out of all caches, where that [can be
    /// done](copy::EVICTS): for measurements.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn evict(&self, offset: usize, len: usize) -> Result<()> {
        let at = self.at(offset, len)?;
        copy::evict_lines(at, len);
        Ok(())
    }

    loads_and_stores!(load_u8 store_u8 u8, load_u16 store_u16 u16, load_u32 store_u32 u32, load_u64 store_u64 u64);

    /// The atomic word at `offset`. In a read-only window only load from it: a store ends the process.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Misaligned`].
    #[cfg(not(loom))]
    #[inline]
    pub fn atomic_u32(&self, offset: usize) -> Result<&'a AtomicU32> {
        self.view(offset)
    }

    /// The atomic word at `offset`. In a read-only window only load from it: a store ends the process.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Misaligned`].
    #[cfg(not(loom))]
    #[inline]
    pub fn atomic_u64(&self, offset: usize) -> Result<&'a AtomicU64> {
        self.view(offset)
    }

    /// The shareable type at `offset`. In a read-only window only load from it: a store ends the process.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Misaligned`].
    #[cfg(not(loom))]
    #[inline]
    pub fn view<T: crate::Shareable>(&self, offset: usize) -> Result<&'a T> {
        let () = T::CHECKED;
        let at = self.at(offset, size_of::<T>())?;
        if !at.addr().is_multiple_of(align_of::<T>()) {
            return Err(Error::Misaligned { offset, align: align_of::<T>() });
        }
        // SAFETY: in bounds, aligned, mapped for 'a; Shareable says that every bit pattern is a valid T,
        // which is only accessed atomically.
        Ok(unsafe { &*at.cast::<T>() })
    }

    #[inline(always)]
    fn at(&self, offset: usize, len: usize) -> Result<*mut u8> {
        if offset > self.len || len > self.len - offset {
            return Err(out_of_range(offset, len, self.len));
        }
        // SAFETY: the offset lies in the window, so in one mapping.
        Ok(unsafe { self.start.add(offset) })
    }

    #[inline(always)]
    fn at_mut(&self, offset: usize, len: usize) -> Result<*mut u8> {
        if self.access != MapAccess::ReadWrite {
            return Err(Error::ReadOnly);
        }
        self.at(offset, len)
    }
}

/// Out of the way of the copies that go well.
#[cold]
#[inline(never)]
fn out_of_range(offset: usize, len: usize, size: usize) -> Error {
    Error::OutOfRange { offset, len, size }
}

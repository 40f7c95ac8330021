//! Copies with the kernel that suits the size and the processor.
//!
//! [`copy`] makes short copies with a few moves on the spot and asks the [`Plan`] for longer ones.
//! [`measure()`] finds the plan of a machine: it times the [`kernels`] with a [`CopyTimer`], and [`Timings`]
//! chooses. All kernels tolerate that somebody else writes the bytes at the same time: the copy is then a
//! mixture of old and new bytes, nothing worse.

mod classes;
mod measure;
mod plan;
mod short;
mod timer;
mod timings;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use classes::{CLASSES, class_end_bytes, class_of};
pub use measure::{Limits, measure};
pub use plan::{NotAvailable, Plan};
use short::{INLINE_BYTES_MAX, copy_tiny};
pub use short::{SHORT_BYTES_MAX, copy_short};
pub(crate) use timer::evict_lines;
pub use timer::{CopyBy, CopyTimer, EVICTS, evict, is_timed};
pub use timings::{Temperature, Timings};

use crate::cpu::Features;

/// Names a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum KernelId {
    /// `memcpy` of the C library (or of whatever the program is linked with).
    Libc = 1,
    /// The processor's string move.
    RepMovsb = 2,
    /// 32 bytes at a time, through the cache.
    Avx2 = 3,
    /// 64 bytes at a time, through the cache.
    Avx512 = 4,
    /// 32 bytes at a time, through the cache, asking for the destination's lines ahead.
    Avx2Ahead = 5,
    /// 64 bytes at a time, through the cache, asking for the destination's lines ahead.
    Avx512Ahead = 6,
    /// 32 bytes at a time, past the cache.
    Avx2Stream = 7,
    /// 64 bytes at a time, past the cache.
    Avx512Stream = 8,
}

impl KernelId {
    /// All of them, also those that this processor cannot run.
    #[cfg(target_arch = "x86_64")]
    pub const ALL: [Self; KERNELS] = [
        Self::Libc,
        Self::RepMovsb,
        Self::Avx2,
        Self::Avx512,
        Self::Avx2Ahead,
        Self::Avx512Ahead,
        Self::Avx2Stream,
        Self::Avx512Stream,
    ];
    /// All of them.
    #[cfg(not(target_arch = "x86_64"))]
    pub const ALL: [Self; KERNELS] = [Self::Libc];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Libc => "libc",
            Self::RepMovsb => "rep movsb",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Avx2Ahead => "avx2 ahead",
            Self::Avx512Ahead => "avx512 ahead",
            Self::Avx2Stream => "avx2 stream",
            Self::Avx512Stream => "avx512 stream",
        }
    }
}

/// One way to copy.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// Its ID.
    pub id: KernelId,
    /// Its name in reports.
    pub name: &'static str,
    /// Whether this processor can run it.
    pub available: bool,
    /// Below this many bytes it is right but of no use.
    pub min_bytes: usize,
}

impl Kernel {
    /// Copies with this kernel.
    ///
    /// # Safety
    /// See [`copy`](fn@copy); the kernel must be available.
    #[inline]
    pub unsafe fn run(&self, dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { (RUN[self.id as usize])(dst, src, len) }
    }
}

/// Number of kernels.
pub const KERNELS: usize = if cfg!(target_arch = "x86_64") { 8 } else { 1 };

/// All kernels, also those that this processor cannot run.
#[must_use]
pub fn kernels() -> [Kernel; KERNELS] {
    kernels_of(Features::get())
}

/// All kernels, as on a processor with these features.
fn kernels_of(has: Features) -> [Kernel; KERNELS] {
    let kernel = |id: KernelId, available, min_bytes| Kernel { id, name: id.name(), available, min_bytes };
    #[cfg(target_arch = "x86_64")]
    return [
        kernel(KernelId::Libc, true, 0),
        kernel(KernelId::RepMovsb, true, 0),
        kernel(KernelId::Avx2, has.avx2, 129),
        kernel(KernelId::Avx512, has.avx512, 129),
        kernel(KernelId::Avx2Ahead, has.avx2, 4096),
        kernel(KernelId::Avx512Ahead, has.avx512, 4096),
        kernel(KernelId::Avx2Stream, has.avx2, 64 << 10),
        kernel(KernelId::Avx512Stream, has.avx512, 64 << 10),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = has;
        return [kernel(KernelId::Libc, true, 0)];
    }
}

/// Copies `len` bytes with the kernel that the current [`Plan`] names for that size.
///
/// Kernels that bypass the cache end with the fence that makes a later Release store publish their bytes.
///
/// # Safety
/// `src` must be valid for reads of `len` bytes and `dst` for writes, and they must not overlap. Others may
/// write to either at the same time if it is shared memory.
#[inline(always)]
pub unsafe fn copy(dst: *mut u8, src: *const u8, len: usize) {
    if len <= INLINE_BYTES_MAX {
        // SAFETY: the caller's promise, and the length was checked.
        unsafe { copy_tiny(dst, src, len) }
    } else {
        // SAFETY: the caller's promise; a plan names only kernels that this processor can run.
        unsafe { (plan::run_for(len))(dst, src, len) }
    }
}

/// Copies `len` bytes into or out of a ring, whose lines another processor has had last.
///
/// # Safety
/// As [`copy`](fn@copy).
#[inline(always)]
pub(crate) unsafe fn copy_for_ring(dst: *mut u8, src: *const u8, len: usize) {
    if len <= INLINE_BYTES_MAX || len > plan::RING_BYTES_MAX {
        // SAFETY: the caller's promise.
        unsafe { copy(dst, src, len) }
    } else {
        // SAFETY: the caller's promise; the kernel is one that this processor can run.
        unsafe { (plan::run_for_ring())(dst, src, len) }
    }
}

type Run = unsafe fn(*mut u8, *const u8, usize);

/// The kernels by [`KernelId`]; unused slots hold the C library's `memcpy`.
#[cfg(target_arch = "x86_64")]
static RUN: [Run; RUN_SLOTS] = {
    let mut run: [Run; RUN_SLOTS] = [libc_memcpy; RUN_SLOTS];
    run[KernelId::RepMovsb as usize] = x86::rep_movsb;
    run[KernelId::Avx2 as usize] = x86::avx2;
    run[KernelId::Avx512 as usize] = x86::avx512;
    run[KernelId::Avx2Ahead as usize] = x86::avx2_ahead;
    run[KernelId::Avx512Ahead as usize] = x86::avx512_ahead;
    run[KernelId::Avx2Stream as usize] = x86::avx2_stream;
    run[KernelId::Avx512Stream as usize] = x86::avx512_stream;
    run
};
#[cfg(not(target_arch = "x86_64"))]
static RUN: [Run; RUN_SLOTS] = [libc_memcpy; RUN_SLOTS];

const RUN_SLOTS: usize = KernelId::Avx512Stream as usize + 1;

/// # Safety
/// As [`copy`](fn@copy).
#[inline(never)]
unsafe fn libc_memcpy(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise. The call is opaque to the compiler: the pointers and the length come from
    // outside a function that is never inlined.
    unsafe { core::ptr::copy_nonoverlapping(src, dst, len) }
}

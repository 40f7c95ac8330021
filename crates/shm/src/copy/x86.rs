//! Copy kernels for x86-64.
//!
//! Their loops are assembly, for two reasons: the compiler must assume nothing about bytes that a peer may write at the
//! same time (an assembly block is opaque, like an atomic copy byte by byte), and it must not rewrite a loop of
//! non-temporal stores.
//!
//! Three families, each with 32 and with 64 bytes a move:
//!
//! - *plain*: through the cache; best while both buffers lie in the first-level cache;
//! - *ahead*: the same, and it asks for ownership of the destination's lines before it needs them;
//! - *stream*: past the cache, four pages side by side, so that four rows of memory and their prefetchers are busy.
//!
//! Every kernel copies what comes before the first aligned block of the destination and after the last block with
//! unaligned moves that overlap the blocks, so the loops store to aligned addresses only. Prefetches may run past the end
//! of a buffer: they never fault.

use super::short::{SHORT_BYTES_MAX, copy_short};
use core::arch::asm;

/// Stores of all loops start at a multiple of this, in bytes: no store then touches two lines of the cache.
const ALIGN: usize = 64;
/// What a streaming kernel copies in one run of its inner loop: four pages.
const STREAM_BLOCK: usize = 4 * 4096;

/// `rep movsb`: the processor's own microcode.
///
/// # Safety
/// See [`copy`](fn@super::copy).
pub(super) unsafe fn rep_movsb(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise about both ranges; the direction flag is clear by the calling convention.
    unsafe {
        asm!(
            "rep movsb",
            inout("rcx") len => _, inout("rdi") dst => _, inout("rsi") src => _,
            options(nostack, preserves_flags),
        );
    }
}

/// Defines a kernel that goes through the cache, `$block` bytes a turn. `first` lists the moves of the first 64 bytes,
/// `all` those of a block, as register and offset.
macro_rules! through_cache {
    ($(#[$doc:meta])* $name:ident, $feature:literal, block $block:literal, $load:literal, $store:literal,
     first [$(($first:literal, $first_at:literal)),*], all [$(($register:literal, $at:literal)),*],
     ahead [$($ahead:literal),*]) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// See [`copy`](fn@super::copy); the processor must have the feature that this function is compiled for.
        #[target_feature(enable = $feature)]
        pub(super) unsafe fn $name(dst: *mut u8, src: *const u8, len: usize) {
            const { assert!($block <= SHORT_BYTES_MAX && ALIGN <= SHORT_BYTES_MAX) }
            if len <= SHORT_BYTES_MAX {
                // SAFETY: the caller's promise, and the length was checked.
                return unsafe { copy_short(dst, src, len) };
            }
            let start = ALIGN - (dst.addr() & (ALIGN - 1));
            let turns = (len - start) / $block;
            // SAFETY: `len` is more than 256, so the first 64 bytes and the last block (at most 256) lie in both ranges.
            // `turns` blocks from `start <= 64` on end at or before `len`, and less than one block is left after them,
            // which the last block covers. All registers that a call may change are declared as changed.
            unsafe {
                asm!(
                    $(concat!($load, " ", $first, ", [r8 + ", $first_at, "]"),)*
                    $(concat!($store, " [r9 + ", $first_at, "], ", $first),)*
                    "test rcx, rcx",
                    "jz 3f",
                    "2:",
                    $(concat!("prefetchw [rdi + ", $ahead, "]"),)*
                    $(concat!($load, " ", $register, ", [rsi + ", $at, "]"),)*
                    $(concat!($store, " [rdi + ", $at, "], ", $register),)*
                    concat!("add rsi, ", $block),
                    concat!("add rdi, ", $block),
                    "dec rcx",
                    "jnz 2b",
                    "3:",
                    $(concat!($load, " ", $register, ", [r10 + ", $at, "]"),)*
                    $(concat!($store, " [r11 + ", $at, "], ", $register),)*
                    "vzeroupper",
                    inout("rcx") turns => _,
                    inout("rsi") src.add(start) => _,
                    inout("rdi") dst.add(start) => _,
                    in("r8") src,
                    in("r9") dst,
                    in("r10") src.add(len - $block),
                    in("r11") dst.add(len - $block),
                    clobber_abi("sysv64"),
                    options(nostack),
                );
            }
        }
    };
}

/// Defines a kernel that stores past the cache. `moves` lists what it copies of each of four pages in a turn of 128
/// bytes, as register and offset; what is less than four pages is left to `$rest`.
macro_rules! past_cache {
    ($(#[$doc:meta])* $name:ident, $feature:literal, $rest:ident, $load:literal,
     moves [$(($register:literal, $at:literal)),*]) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// See [`copy`](fn@super::copy); the processor must have the feature that this function is compiled for.
        #[target_feature(enable = $feature)]
        pub(super) unsafe fn $name(dst: *mut u8, src: *const u8, len: usize) {
            if len < ALIGN + STREAM_BLOCK {
                // SAFETY: the caller's promise.
                return unsafe { $rest(dst, src, len) };
            }
            let start = ALIGN - (dst.addr() & (ALIGN - 1));
            let blocks = (len - start) / STREAM_BLOCK;
            let end = start + blocks * STREAM_BLOCK;
            // SAFETY: `start <= 64`, and `blocks >= 1` whole blocks from there on end at `end <= len`: the inner loop
            // goes 32 times over 128 bytes of each of the four pages of a block. The two calls copy what lies before
            // and after. All registers that a call may change are declared as changed.
            unsafe {
                copy_short(dst, src, start);
                asm!(
                    "2:",
                    "mov edx, 32",
                    "3:",
                    "prefetcht0 [rsi + 1024]",
                    "prefetcht0 [rsi + 1024 + 64]",
                    "prefetcht0 [rsi + 1024 + 4096]",
                    "prefetcht0 [rsi + 1024 + 4096 + 64]",
                    "prefetcht0 [rsi + 1024 + 8192]",
                    "prefetcht0 [rsi + 1024 + 8192 + 64]",
                    "prefetcht0 [rsi + 1024 + 12288]",
                    "prefetcht0 [rsi + 1024 + 12288 + 64]",
                    $(concat!($load, " ", $register, ", [rsi + ", $at, "]"),)*
                    $(concat!("vmovntdq [rdi + ", $at, "], ", $register),)*
                    "add rsi, 128",
                    "add rdi, 128",
                    "dec edx",
                    "jnz 3b",
                    "add rsi, 3 * 4096",
                    "add rdi, 3 * 4096",
                    "dec rcx",
                    "jnz 2b",
                    // Nothing else orders these stores before the one that will publish them.
                    "sfence",
                    "vzeroupper",
                    inout("rcx") blocks => _,
                    inout("rsi") src.add(start) => _,
                    inout("rdi") dst.add(start) => _,
                    out("rdx") _,
                    clobber_abi("sysv64"),
                    options(nostack),
                );
                $rest(dst.add(end), src.add(end), len - end);
            }
        }
    };
}

through_cache! {
    /// *Plain* with 32 bytes a move.
    avx2, "avx2", block 128, "vmovdqu", "vmovdqu",
    first [("ymm0", 0), ("ymm1", 32)],
    all [("ymm0", 0), ("ymm1", 32), ("ymm2", 64), ("ymm3", 96)],
    ahead []
}

through_cache! {
    /// *Plain* with 64 bytes a move.
    avx512, "avx512f", block 256, "vmovdqu64", "vmovdqu64",
    first [("zmm0", 0)],
    all [("zmm0", 0), ("zmm1", 64), ("zmm2", 128), ("zmm3", 192)],
    ahead []
}

through_cache! {
    /// *Ahead* with 32 bytes a move.
    avx2_ahead, "avx2", block 128, "vmovdqu", "vmovdqu",
    first [("ymm0", 0), ("ymm1", 32)],
    all [("ymm0", 0), ("ymm1", 32), ("ymm2", 64), ("ymm3", 96)],
    ahead [512, 576]
}

through_cache! {
    /// *Ahead* with 64 bytes a move.
    avx512_ahead, "avx512f", block 256, "vmovdqu64", "vmovdqu64",
    first [("zmm0", 0)],
    all [("zmm0", 0), ("zmm1", 64), ("zmm2", 128), ("zmm3", 192)],
    ahead [512, 576, 640, 704]
}

past_cache! {
    /// *Stream* with 32 bytes a move.
    avx2_stream, "avx2", avx2, "vmovdqu",
    moves [
        ("ymm0", 0), ("ymm1", 32), ("ymm2", 64), ("ymm3", 96),
        ("ymm4", 4096), ("ymm5", 4128), ("ymm6", 4160), ("ymm7", 4192),
        ("ymm8", 8192), ("ymm9", 8224), ("ymm10", 8256), ("ymm11", 8288),
        ("ymm12", 12288), ("ymm13", 12320), ("ymm14", 12352), ("ymm15", 12384)
    ]
}

past_cache! {
    /// *Stream* with 64 bytes a move.
    avx512_stream, "avx512f", avx512, "vmovdqu64",
    moves [
        ("zmm0", 0), ("zmm1", 64), ("zmm2", 4096), ("zmm3", 4160),
        ("zmm4", 8192), ("zmm5", 8256), ("zmm6", 12288), ("zmm7", 12352)
    ]
}

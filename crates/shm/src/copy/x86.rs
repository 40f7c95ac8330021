//! Copy kernels for x86-64.
//!
//! Their loops are assembly, for two reasons: the compiler must assume nothing about bytes that a peer may
//! write at the same time (an assembly block is opaque, like an atomic copy byte by byte), and it must not
//! rewrite a loop of non-temporal stores.
//!
//! Three families, each with 32 and with 64 bytes a move:
//!
//! - *plain*: through the cache; best while both buffers lie in the first-level cache;
//! - *ahead*: the same, and it asks for ownership of the destination's lines before it needs them;
//! - *stream*: past the cache, four pages side by side, so that four rows of memory and their prefetchers are
//!   busy.
//!
//! Every kernel copies what comes before the first aligned block of the destination and after the last block
//! with unaligned moves that overlap the blocks, so the loops store to aligned addresses only. Prefetches may
//! run past the end of a buffer: they never fault.

use super::short::{copy_short, copy_tiny};
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

/// Defines how a wide kernel copies what is too short for its loop: one, two or four moves from each end,
/// which overlap in the middle; all are loaded before the first is stored.
macro_rules! wide_short {
    ($(#[$doc:meta])* $name:ident, $feature:literal, $move:literal, bytes $bytes:literal, below $shorter_max:literal $shorter:ident,
     registers [$a:tt, $b:tt, $c:tt, $d:tt, $e:tt, $f:tt, $g:tt, $h:tt], end [$($end:literal),*]) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// See [`copy`](fn@super::copy); `len` is at most eight moves, and the processor must have the
        /// feature that this function is compiled for.
        #[target_feature(enable = $feature)]
        #[inline]
        unsafe fn $name(dst: *mut u8, src: *const u8, len: usize) {
            if len <= $shorter_max {
                // SAFETY: the caller's promise, and the length was checked.
                return unsafe { $shorter(dst, src, len) };
            }
            // SAFETY: `len` is at least one move. Each branch makes as many from either end as fit into
            // `len`, and together they cover it.
            unsafe {
                if len <= 2 * $bytes {
                    asm!(
                        concat!($move, " ", $a, ", [{src}]"),
                        concat!($move, " ", $b, ", [{src} + {len} - ", $bytes, "]"),
                        concat!($move, " [{dst}], ", $a),
                        concat!($move, " [{dst} + {len} - ", $bytes, "], ", $b),
                        $($end,)*
                        src = in(reg) src, dst = in(reg) dst, len = in(reg) len,
                        out($a) _, out($b) _,
                        options(nostack, preserves_flags),
                    );
                } else if len <= 4 * $bytes {
                    asm!(
                        concat!($move, " ", $a, ", [{src}]"),
                        concat!($move, " ", $b, ", [{src} + ", $bytes, "]"),
                        concat!($move, " ", $c, ", [{src} + {len} - 2 * ", $bytes, "]"),
                        concat!($move, " ", $d, ", [{src} + {len} - ", $bytes, "]"),
                        concat!($move, " [{dst}], ", $a),
                        concat!($move, " [{dst} + ", $bytes, "], ", $b),
                        concat!($move, " [{dst} + {len} - 2 * ", $bytes, "], ", $c),
                        concat!($move, " [{dst} + {len} - ", $bytes, "], ", $d),
                        $($end,)*
                        src = in(reg) src, dst = in(reg) dst, len = in(reg) len,
                        out($a) _, out($b) _, out($c) _, out($d) _,
                        options(nostack, preserves_flags),
                    );
                } else {
                    asm!(
                        concat!($move, " ", $a, ", [{src}]"),
                        concat!($move, " ", $b, ", [{src} + ", $bytes, "]"),
                        concat!($move, " ", $c, ", [{src} + 2 * ", $bytes, "]"),
                        concat!($move, " ", $d, ", [{src} + 3 * ", $bytes, "]"),
                        concat!($move, " ", $e, ", [{src} + {len} - 4 * ", $bytes, "]"),
                        concat!($move, " ", $f, ", [{src} + {len} - 3 * ", $bytes, "]"),
                        concat!($move, " ", $g, ", [{src} + {len} - 2 * ", $bytes, "]"),
                        concat!($move, " ", $h, ", [{src} + {len} - ", $bytes, "]"),
                        concat!($move, " [{dst}], ", $a),
                        concat!($move, " [{dst} + ", $bytes, "], ", $b),
                        concat!($move, " [{dst} + 2 * ", $bytes, "], ", $c),
                        concat!($move, " [{dst} + 3 * ", $bytes, "], ", $d),
                        concat!($move, " [{dst} + {len} - 4 * ", $bytes, "], ", $e),
                        concat!($move, " [{dst} + {len} - 3 * ", $bytes, "], ", $f),
                        concat!($move, " [{dst} + {len} - 2 * ", $bytes, "], ", $g),
                        concat!($move, " [{dst} + {len} - ", $bytes, "], ", $h),
                        $($end,)*
                        src = in(reg) src, dst = in(reg) dst, len = in(reg) len,
                        out($a) _, out($b) _, out($c) _, out($d) _, out($e) _, out($f) _, out($g) _, out($h) _,
                        options(nostack, preserves_flags),
                    );
                }
            }
        }
    };
}

wide_short! {
    /// With 32 bytes a move: up to 256 bytes.
    short_avx2, "avx2", "vmovdqu", bytes 32, below 32 copy_tiny,
    registers ["ymm0", "ymm1", "ymm2", "ymm3", "ymm4", "ymm5", "ymm6", "ymm7"], end ["vzeroupper"]
}

wide_short! {
    /// With 32 bytes a move: up to 256 bytes. Registers from the sixteenth on need no `vzeroupper` (Intel 64
    /// and IA-32 Architectures Optimization Reference Manual, "Mixing Intel AVX and Intel SSE code").
    short_avx512vl, "avx512f,avx512vl", "vmovdqu64", bytes 32, below 32 copy_tiny,
    registers ["ymm16", "ymm17", "ymm18", "ymm19", "ymm20", "ymm21", "ymm22", "ymm23"], end []
}

wide_short! {
    /// With 64 bytes a move: up to 512 bytes. Below 128, moves of 32 are faster: two of them that go to one
    /// line are stored at once.
    short_avx512, "avx512f,avx512vl", "vmovdqu64", bytes 64, below 128 short_avx512vl,
    registers ["zmm16", "zmm17", "zmm18", "zmm19", "zmm20", "zmm21", "zmm22", "zmm23"], end []
}

/// Defines a kernel that goes through the cache, `$block` bytes a turn. `first` lists the moves of the first
/// 64 bytes, `all` those of a block, as register and offset.
macro_rules! through_cache {
    ($(#[$doc:meta])* $name:ident, $feature:literal, short $short:ident up to $short_max:literal, block $block:literal, $load:literal, $store:literal,
     first [$(($first:literal, $first_at:literal)),*], all [$(($register:literal, $at:literal)),*],
     ahead [$($ahead:literal),*], end [$($end:literal),*]) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// See [`copy`](fn@super::copy); the processor must have the feature that this function is compiled
        /// for.
        #[target_feature(enable = $feature)]
        pub(super) unsafe fn $name(dst: *mut u8, src: *const u8, len: usize) {
            const { assert!($block <= $short_max && ALIGN <= $short_max) }
            if len <= $short_max {
                // SAFETY: the caller's promise, and the length was checked.
                return unsafe { $short(dst, src, len) };
            }
            let start = ALIGN - (dst.addr() & (ALIGN - 1));
            let turns = (len - start) / $block;
            // SAFETY: `len` is more than 256, so the first 64 bytes and the last block (at most 256) lie in
            // both ranges. `turns` blocks from `start <= 64` on end at or before `len`, and less than one
            // block is left after them, which the last block covers. All registers that a call may change are
            // declared as changed.
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
                    $($end,)*
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

/// Defines a kernel that stores past the cache. `moves` lists what it copies of each of four pages in a turn
/// of 128 bytes, as register and offset; what is less than four pages is left to `$rest`.
macro_rules! past_cache {
    ($(#[$doc:meta])* $name:ident, $feature:literal, $rest:ident, $load:literal,
     moves [$(($register:literal, $at:literal)),*]) => {
        $(#[$doc])*
        ///
        /// # Safety
        /// See [`copy`](fn@super::copy); the processor must have the feature that this function is compiled
        /// for.
        #[target_feature(enable = $feature)]
        pub(super) unsafe fn $name(dst: *mut u8, src: *const u8, len: usize) {
            if len < ALIGN + STREAM_BLOCK {
                // SAFETY: the caller's promise.
                return unsafe { $rest(dst, src, len) };
            }
            let start = ALIGN - (dst.addr() & (ALIGN - 1));
            let blocks = (len - start) / STREAM_BLOCK;
            let end = start + blocks * STREAM_BLOCK;
            // SAFETY: `start <= 64`, and `blocks >= 1` whole blocks from there on end at `end <= len`: the
            // inner loop goes 32 times over 128 bytes of each of the four pages of a block. The two calls
            // copy what lies before and after. All registers that a call may change are declared as changed.
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
    avx2, "avx2", short short_avx2 up to 256, block 128, "vmovdqu", "vmovdqu",
    first [("ymm0", 0), ("ymm1", 32)],
    all [("ymm0", 0), ("ymm1", 32), ("ymm2", 64), ("ymm3", 96)],
    ahead [],
    end ["vzeroupper"]
}

through_cache! {
    /// *Plain* with 64 bytes a move.
    avx512, "avx512f,avx512vl", short short_avx512 up to 512, block 256, "vmovdqu64", "vmovdqu64",
    first [("zmm16", 0)],
    all [("zmm16", 0), ("zmm17", 64), ("zmm18", 128), ("zmm19", 192)],
    ahead [],
    end []
}

through_cache! {
    /// *Ahead* with 32 bytes a move.
    avx2_ahead, "avx2", short short_avx2 up to 256, block 128, "vmovdqu", "vmovdqu",
    first [("ymm0", 0), ("ymm1", 32)],
    all [("ymm0", 0), ("ymm1", 32), ("ymm2", 64), ("ymm3", 96)],
    ahead [512, 576],
    end ["vzeroupper"]
}

through_cache! {
    /// *Ahead* with 64 bytes a move.
    avx512_ahead, "avx512f,avx512vl", short short_avx512 up to 512, block 256, "vmovdqu64", "vmovdqu64",
    first [("zmm16", 0)],
    all [("zmm16", 0), ("zmm17", 64), ("zmm18", 128), ("zmm19", 192)],
    ahead [512, 576, 640, 704],
    end []
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

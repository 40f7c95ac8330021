//! Copies of up to [`SHORT_BYTES_MAX`] bytes: a few overlapping moves, no loop.
//!
//! A length between two powers of two is covered by moves from the front and moves from the end that overlap
//! in the middle. All loads come before the stores of the same part. The moves are assembly, or volatile
//! where there is none for the processor: the compiler may assume nothing about bytes that a peer writes
//! meanwhile, and does not turn the moves back into a call of `memcpy`. (Volatile moves of x86-64 would go
//! through the stack on their way.)

/// Longest copy that this module makes, in bytes.
pub const SHORT_BYTES_MAX: usize = 256;
/// Longest copy that is made where it is called, in bytes.
pub(super) const INLINE_BYTES_MAX: usize = 128;

/// Copies up to [`INLINE_BYTES_MAX`] bytes.
///
/// # Safety
/// As [`copy_short`], and `len` must not exceed [`INLINE_BYTES_MAX`].
#[inline(always)]
pub(super) unsafe fn copy_tiny(dst: *mut u8, src: *const u8, len: usize) {
    debug_assert!(len <= INLINE_BYTES_MAX);
    // SAFETY: each branch states the range of `len` that its function needs; the rest is the caller's
    // promise.
    unsafe {
        // Comparisons in an order that small and round sizes leave early, instead of a jump table, which the
        // processor would have to guess as a whole.
        if len > 64 {
            moves::two_by_four_16(dst, src, len);
        } else if len > 32 {
            moves::two_by_two_16(dst, src, len);
        } else if len >= 16 {
            moves::two_16(dst, src, len);
        } else if len >= 8 {
            moves::two_8(dst, src, len);
        } else if len >= 4 {
            moves::two_4(dst, src, len);
        } else if len >= 2 {
            moves::two_2(dst, src, len);
        } else if len == 1 {
            moves::one(dst, src);
        }
    }
}

/// Copies up to [`SHORT_BYTES_MAX`] bytes.
///
/// # Safety
/// `src` must be valid for reads and `dst` for writes of `len` bytes, they must not overlap, and `len` must
/// not exceed [`SHORT_BYTES_MAX`].
#[inline]
pub unsafe fn copy_short(dst: *mut u8, src: *const u8, len: usize) {
    debug_assert!(len <= SHORT_BYTES_MAX);
    let (mut dst, mut src, mut len) = (dst, src, len);
    // SAFETY: each step copies the first 128 of more than 128 bytes and goes on behind them; the rest fits
    // the last call.
    unsafe {
        while len > INLINE_BYTES_MAX {
            copy_tiny(dst, src, INLINE_BYTES_MAX);
            (dst, src, len) = (dst.add(INLINE_BYTES_MAX), src.add(INLINE_BYTES_MAX), len - INLINE_BYTES_MAX);
        }
        copy_tiny(dst, src, len);
    }
}

#[cfg(target_arch = "x86_64")]
mod moves {
    use core::arch::asm;

    /// Defines a function that copies once to twice `$bytes`: one piece from the front, one from the end.
    macro_rules! two {
        ($name:ident, $bytes:literal, $class:ident, $move:literal, $first:literal, $second:literal) => {
            /// # Safety
            /// As [`copy_short`](super::copy_short), and `len` is one to two times the size in the name.
            #[inline(always)]
            pub(super) unsafe fn $name(dst: *mut u8, src: *const u8, len: usize) {
                // SAFETY: both pieces lie within `len` bytes, by the caller's promise.
                unsafe {
                    asm!(
                        concat!($move, " ", $first, ", [{src}]"),
                        concat!($move, " ", $second, ", [{src} + {len} - ", $bytes, "]"),
                        concat!($move, " [{dst}], ", $first),
                        concat!($move, " [{dst} + {len} - ", $bytes, "], ", $second),
                        src = in(reg) src, dst = in(reg) dst, len = in(reg) len,
                        first = out($class) _, second = out($class) _,
                        options(nostack, preserves_flags),
                    );
                }
            }
        };
    }

    two!(two_16, 16, xmm_reg, "movups", "{first}", "{second}");
    two!(two_8, 8, reg, "mov", "{first}", "{second}");
    two!(two_4, 4, reg, "mov", "{first:e}", "{second:e}");
    two!(two_2, 2, reg, "mov", "{first:x}", "{second:x}");

    /// Copies 32 to 64 bytes.
    ///
    /// # Safety
    /// As [`copy_short`](super::copy_short), and `len` is 32 to 64.
    #[inline(always)]
    pub(super) unsafe fn two_by_two_16(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: all pieces lie within `len` bytes, by the caller's promise.
        unsafe {
            asm!(
                "movups {a}, [{src}]",
                "movups {b}, [{src} + 16]",
                "movups {c}, [{src} + {len} - 32]",
                "movups {d}, [{src} + {len} - 16]",
                "movups [{dst}], {a}",
                "movups [{dst} + 16], {b}",
                "movups [{dst} + {len} - 32], {c}",
                "movups [{dst} + {len} - 16], {d}",
                src = in(reg) src, dst = in(reg) dst, len = in(reg) len,
                a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Copies 64 to 128 bytes.
    ///
    /// # Safety
    /// As [`copy_short`](super::copy_short), and `len` is 64 to 128.
    #[inline(always)]
    pub(super) unsafe fn two_by_four_16(dst: *mut u8, src: *const u8, len: usize) {
        // SAFETY: all pieces lie within `len` bytes, by the caller's promise.
        unsafe {
            asm!(
                "movups {a}, [{src}]",
                "movups {b}, [{src} + 16]",
                "movups {c}, [{src} + 32]",
                "movups {d}, [{src} + 48]",
                "movups {e}, [{src} + {len} - 64]",
                "movups {f}, [{src} + {len} - 48]",
                "movups {g}, [{src} + {len} - 32]",
                "movups {h}, [{src} + {len} - 16]",
                "movups [{dst}], {a}",
                "movups [{dst} + 16], {b}",
                "movups [{dst} + 32], {c}",
                "movups [{dst} + 48], {d}",
                "movups [{dst} + {len} - 64], {e}",
                "movups [{dst} + {len} - 48], {f}",
                "movups [{dst} + {len} - 32], {g}",
                "movups [{dst} + {len} - 16], {h}",
                src = in(reg) src, dst = in(reg) dst, len = in(reg) len,
                a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                e = out(xmm_reg) _, f = out(xmm_reg) _, g = out(xmm_reg) _, h = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// # Safety
    /// `src` must be valid for reading a byte, `dst` for writing one.
    #[inline(always)]
    pub(super) unsafe fn one(dst: *mut u8, src: *const u8) {
        // SAFETY: the caller's promise.
        unsafe { dst.write_volatile(src.read_volatile()) }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod moves {
    /// A piece that can lie at any address.
    #[derive(Clone, Copy)]
    #[repr(C, packed)]
    struct Piece<T: Copy>(T);

    /// # Safety
    /// As [`copy_short`](super::copy_short), and `size_of::<T>() <= len <= 2 * size_of::<T>()`.
    #[inline(always)]
    unsafe fn two<T: Copy>(dst: *mut u8, src: *const u8, len: usize) {
        let end = len - size_of::<T>();
        // SAFETY: both pieces lie within the first `len` bytes, by the caller's promise about `len`; a packed
        // type needs no alignment, and T is plain bytes for every use below.
        unsafe {
            let front = src.cast::<Piece<T>>().read_volatile();
            let back = src.add(end).cast::<Piece<T>>().read_volatile();
            dst.cast::<Piece<T>>().write_volatile(front);
            dst.add(end).cast::<Piece<T>>().write_volatile(back);
        }
    }

    macro_rules! two {
        ($name:ident, $piece:ty) => {
            /// # Safety
            /// As [`copy_short`](super::copy_short), and `len` is one to two times the size in the name.
            #[inline(always)]
            pub(super) unsafe fn $name(dst: *mut u8, src: *const u8, len: usize) {
                // SAFETY: the caller's promise.
                unsafe { two::<$piece>(dst, src, len) }
            }
        };
    }

    two!(two_by_four_16, [u64; 8]);
    two!(two_by_two_16, [u64; 4]);
    two!(two_16, [u64; 2]);
    two!(two_8, u64);
    two!(two_4, u32);
    two!(two_2, u16);

    /// # Safety
    /// `src` must be valid for reading a byte, `dst` for writing one.
    #[inline(always)]
    pub(super) unsafe fn one(dst: *mut u8, src: *const u8) {
        // SAFETY: the caller's promise.
        unsafe { dst.write_volatile(src.read_volatile()) }
    }
}

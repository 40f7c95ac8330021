//! Copies of up to [`SHORT_BYTES_MAX`] bytes: a few overlapping moves, no loop.
//!
//! A length between two powers of two is covered by moves from the front and moves from the end that overlap in the
//! middle. All loads come before the stores of the same part, and every move is volatile: the compiler may assume nothing
//! about bytes that a peer writes meanwhile, and does not turn the moves back into a call of `memcpy`.

/// Longest copy that this module makes, in bytes.
pub const SHORT_BYTES_MAX: usize = 256;

/// A piece that can lie at any address.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Piece<T: Copy>(T);

#[cfg(target_arch = "x86_64")]
type Wide = core::arch::x86_64::__m128i;
#[cfg(not(target_arch = "x86_64"))]
type Wide = [u64; 2];

/// # Safety
/// `src` must be valid for reads of `size_of::<T>()` bytes at `offset`.
#[inline(always)]
unsafe fn load<T: Copy>(src: *const u8, offset: usize) -> Piece<T> {
    // SAFETY: the caller's promise; a packed type needs no alignment, and T is plain bytes for every use below.
    unsafe { src.add(offset).cast::<Piece<T>>().read_volatile() }
}

/// # Safety
/// `dst` must be valid for writes of `size_of::<T>()` bytes at `offset`.
#[inline(always)]
unsafe fn store<T: Copy>(dst: *mut u8, offset: usize, piece: Piece<T>) {
    // SAFETY: the caller's promise; a packed type needs no alignment.
    unsafe { dst.add(offset).cast::<Piece<T>>().write_volatile(piece) }
}

/// Copies `size_of::<T>()` to twice as many bytes: one piece from the front, one from the end.
///
/// # Safety
/// As [`copy_short`], and `size_of::<T>() <= len <= 2 * size_of::<T>()`.
#[inline(always)]
unsafe fn two<T: Copy>(dst: *mut u8, src: *const u8, len: usize) {
    let end = len - size_of::<T>();
    // SAFETY: both pieces lie within the first `len` bytes, by the caller's promise about `len`.
    unsafe {
        let (front, back) = (load::<T>(src, 0), load::<T>(src, end));
        store(dst, 0, front);
        store(dst, end, back);
    }
}

/// Copies `16 * N` to `32 * N` bytes: N pieces of 16 bytes from the front, N from the end.
///
/// # Safety
/// As [`copy_short`], and `16 * N <= len <= 32 * N`.
#[inline(always)]
unsafe fn many<const N: usize>(dst: *mut u8, src: *const u8, len: usize) {
    const PIECE: usize = size_of::<Wide>();
    let end = len - N * PIECE;
    // SAFETY: all pieces lie within the first `len` bytes, by the caller's promise about `len`.
    unsafe {
        let front: [Piece<Wide>; N] = core::array::from_fn(|n| load(src, n * PIECE));
        let back: [Piece<Wide>; N] = core::array::from_fn(|n| load(src, end + n * PIECE));
        for (n, piece) in front.into_iter().enumerate() {
            store(dst, n * PIECE, piece);
        }
        for (n, piece) in back.into_iter().enumerate() {
            store(dst, end + n * PIECE, piece);
        }
    }
}

/// Copies up to [`SHORT_BYTES_MAX`] bytes.
///
/// # Safety
/// `src` must be valid for reads and `dst` for writes of `len` bytes, they must not overlap, and `len` must not exceed
/// [`SHORT_BYTES_MAX`].
#[inline]
pub unsafe fn copy_short(dst: *mut u8, src: *const u8, len: usize) {
    debug_assert!(len <= SHORT_BYTES_MAX);
    // SAFETY: each branch states the range of `len` that its function needs; the rest is the caller's promise.
    unsafe {
        // Comparisons in an order that small and round sizes leave early, instead of a jump table, which the
        // processor would have to guess as a whole.
        if len <= 32 {
            if len >= 16 {
                many::<1>(dst, src, len);
            } else if len >= 8 {
                two::<u64>(dst, src, len);
            } else if len >= 4 {
                two::<u32>(dst, src, len);
            } else if len >= 2 {
                two::<u16>(dst, src, len);
            } else if len == 1 {
                store(dst, 0, load::<u8>(src, 0));
            }
        } else if len <= 64 {
            many::<2>(dst, src, len);
        } else if len <= 128 {
            many::<4>(dst, src, len);
        } else {
            many::<8>(dst, src, len);
        }
    }
}

//! Size classes: ranges of sizes that one copy kernel serves.
//!
//! There are two a power of two: (2^k, 1.5 · 2^k] and (1.5 · 2^k, 2^(k+1)] bytes. The first begins above what
//! [`copy`] copies on the spot, the last has no end.
//!
//! [`copy`]: fn@super::copy

use super::short::INLINE_BYTES_MAX;

/// Number of classes.
pub const CLASSES: usize = 40;

/// Exponent of the power of two below the first class.
const FIRST_LOG: usize = INLINE_BYTES_MAX.ilog2() as usize;

/// The class of copies of `len` bytes; what is shorter than the first class belongs to the first.
#[inline(always)]
#[must_use]
pub const fn class_of(len: usize) -> usize {
    // The lowest bit of `len - 1` that is looked at decides between the halves; `len - 1` so that a power of
    // two ends a class.
    let below = if len > INLINE_BYTES_MAX { len - 1 } else { INLINE_BYTES_MAX };
    let log = below.ilog2() as usize;
    let half = below >> (log - 1) & 1;
    let class = 2 * (log - FIRST_LOG) + half;
    if class < CLASSES { class } else { CLASSES - 1 }
}

/// The longest copy of a class, in bytes; of the last, as if it ended there, too.
#[must_use]
pub const fn class_end_bytes(class: usize) -> usize {
    let power = 1 << (FIRST_LOG + class / 2);
    if class.is_multiple_of(2) { power / 2 * 3 } else { power * 2 }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_class_ends_where_the_next_begins() {
        assert_eq!((class_of(0), class_of(129), class_of(192), class_of(193)), (0, 0, 0, 1));
        assert_eq!((class_end_bytes(0), class_end_bytes(1), class_end_bytes(2)), (192, 256, 384));
        for class in 0..CLASSES - 1 {
            let end = class_end_bytes(class);
            assert_eq!((class_of(end), class_of(end + 1)), (class, class + 1), "{end}");
        }
        assert_eq!(class_end_bytes(CLASSES - 1), 128 << 20);
        assert_eq!(class_of(usize::MAX), CLASSES - 1);
    }
}

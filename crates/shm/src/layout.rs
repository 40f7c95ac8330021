//! The layout of words in memory.

use crate::Shareable;
use core::ops::Deref;

/// Distance in bytes at which two words do not disturb each other.
///
/// Twice a cache line: processors fetch lines in pairs, so two neighbours are one for the purpose of false
/// sharing.
pub const LINE_BYTES: usize = 128;

/// A value with [`LINE_BYTES`] to itself, so that writing it disturbs no reader of anything else.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub struct CacheLine<T>(
    /// The value.
    pub T,
);

impl<T> Deref for CacheLine<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

// SAFETY: the value is shareable, it lies at offset 0 by repr(C), and the rest of the line is padding which
// is never read nor written through a reference to this type (it is only ever used in place, never moved into
// shared memory).
unsafe impl<T: Shareable> Shareable for CacheLine<T> {
    const CHECKED: () = T::CHECKED;
}

const _: () = assert!(size_of::<CacheLine<u8>>() == LINE_BYTES && align_of::<CacheLine<u8>>() == LINE_BYTES);

/// The smallest multiple of `align_bytes` (a power of two) that is not below `value`, or `None` if there is
/// none.
#[must_use]
pub const fn round_up(value: usize, align_bytes: usize) -> Option<usize> {
    debug_assert!(align_bytes.is_power_of_two());
    match value.checked_add(align_bytes - 1) {
        Some(sum) => Some(sum & !(align_bytes - 1)),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_do_not_share_a_line() {
        let pair = [CacheLine(1u64), CacheLine(2u64)];
        let distance = (&raw const pair[1]).addr() - (&raw const pair[0]).addr();
        assert_eq!(distance, LINE_BYTES);
        assert_eq!(*pair[0] + *pair[1], 3);
    }

    #[test]
    fn rounding_up() {
        assert_eq!(round_up(0, 64), Some(0));
        assert_eq!(round_up(1, 64), Some(64));
        assert_eq!(round_up(64, 64), Some(64));
        assert_eq!(round_up(usize::MAX, 64), None);
    }
}

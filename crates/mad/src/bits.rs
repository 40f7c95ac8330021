//! Numbers of 1 to 64 bits at any bit of a byte string, most significant bit first.

/// The `width` bits (at most 64) that start at bit `at`; what lies beyond the end of `bytes` reads as zero.
#[inline]
#[must_use]
pub fn get(bytes: &[u8], at: usize, width: usize) -> u64 {
    let mut value = 0_u128;
    let (first, last) = (at / 8, (at + width).div_ceil(8));
    for index in first..last {
        value = value << 8 | u128::from(bytes.get(index).copied().unwrap_or(0));
    }
    (value >> (last * 8 - at - width)) as u64 & mask(width)
}

/// Writes the low `width` bits of `value` at bit `at`, and leaves all others as they were. Bits beyond the
/// end are dropped.
#[inline]
pub fn set(bytes: &mut [u8], at: usize, width: usize, value: u64) {
    let (first, last) = (at / 8, (at + width).div_ceil(8));
    let shift = last * 8 - at - width;
    let field = u128::from(mask(width)) << shift;
    let value = u128::from(value & mask(width)) << shift;
    for index in first..last {
        let down = (last - 1 - index) * 8;
        if let Some(byte) = bytes.get_mut(index) {
            *byte = *byte & !((field >> down) as u8) | (value >> down) as u8;
        }
    }
}

/// The largest number of so many bits.
#[inline]
#[must_use]
pub const fn mask(width: usize) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// A value that is stored as some bits of a field.
pub trait Bits: Copy {
    /// From the field's bits, of which there may be fewer than the type holds.
    fn from_bits(bits: u64) -> Self;
    /// The bits to store; the field keeps its low ones.
    fn to_bits(self) -> u64;
}

macro_rules! unsigned {
    ($($t:ty),*) => {$(
        impl Bits for $t {
            #[inline]
            fn from_bits(bits: u64) -> Self {
                bits as Self
            }
            #[inline]
            fn to_bits(self) -> u64 {
                self.into()
            }
        }
    )*};
}
unsigned!(u8, u16, u32, u64);

impl Bits for bool {
    #[inline]
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
    #[inline]
    fn to_bits(self) -> u64 {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{get, mask, set};

    proptest! {
        #[test]
        fn what_is_written_is_read_and_nothing_else_changes(
            mut bytes in prop::collection::vec(any::<u8>(), 24),
            at in 0_usize..120,
            width in 1_usize..=64,
            value: u64,
        ) {
            let before = bytes.clone();
            set(&mut bytes, at, width, value);
            prop_assert_eq!(get(&bytes, at, width), value & mask(width));
            for bit in (0..at).chain(at + width..192) {
                prop_assert_eq!(get(&bytes, bit, 1), get(&before, bit, 1), "bit {}", bit);
            }
        }

        #[test]
        fn beyond_the_end_is_zero_and_no_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..4), at in 0_usize..64, width in 1_usize..=64) {
            let before = get(&bytes, at, width);
            prop_assert!(at < bytes.len() * 8 || before == 0);
            set(&mut bytes, at, width, u64::MAX);
        }
    }
}

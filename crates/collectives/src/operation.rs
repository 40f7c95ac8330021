//! Values that can be reduced, and the usual operations. Any other function of two values serves as well.

use std::ops::{BitAnd, BitOr, BitXor};

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A value whose bytes can be sent as they are, and of which any bytes are a value.
pub trait Element: Copy + FromBytes + IntoBytes + Immutable {}

impl<T: Copy + FromBytes + IntoBytes + Immutable> Element for T {}

/// Numbers. Sums and products of integers wrap around; those of floating-point numbers are rounded, so their
/// last bits depend on the order, which depends on the algorithm and the number of members.
pub trait Number: Element {
    /// Sum of two.
    fn add(a: Self, b: Self) -> Self;
    /// Product of two.
    fn multiply(a: Self, b: Self) -> Self;
    /// The smaller one. Of a number and a NaN, the number.
    fn smaller(a: Self, b: Self) -> Self;
    /// The larger one. Of a number and a NaN, the number.
    fn larger(a: Self, b: Self) -> Self;
}

/// Numbers with bit operations: the integers.
pub trait Bits: Number + BitAnd<Output = Self> + BitOr<Output = Self> + BitXor<Output = Self> {}

macro_rules! integers {
    ($($of:ty)*) => {$(
        impl Number for $of {
            fn add(a: Self, b: Self) -> Self {
                a.wrapping_add(b)
            }

            fn multiply(a: Self, b: Self) -> Self {
                a.wrapping_mul(b)
            }

            fn smaller(a: Self, b: Self) -> Self {
                a.min(b)
            }

            fn larger(a: Self, b: Self) -> Self {
                a.max(b)
            }
        }

        impl Bits for $of {}
    )*};
}

macro_rules! floats {
    ($($of:ty)*) => {$(
        impl Number for $of {
            fn add(a: Self, b: Self) -> Self {
                a + b
            }

            fn multiply(a: Self, b: Self) -> Self {
                a * b
            }

            fn smaller(a: Self, b: Self) -> Self {
                a.min(b)
            }

            fn larger(a: Self, b: Self) -> Self {
                a.max(b)
            }
        }
    )*};
}

integers!(i32 i64 u32 u64);
floats!(f32 f64);

/// The sum.
pub fn sum<T: Number>(a: T, b: T) -> T {
    T::add(a, b)
}

/// The product.
pub fn product<T: Number>(a: T, b: T) -> T {
    T::multiply(a, b)
}

/// The smallest value.
pub fn min<T: Number>(a: T, b: T) -> T {
    T::smaller(a, b)
}

/// The largest value.
pub fn max<T: Number>(a: T, b: T) -> T {
    T::larger(a, b)
}

/// Bits that are set in all values.
pub fn and<T: Bits>(a: T, b: T) -> T {
    a & b
}

/// Bits that are set in any value.
pub fn or<T: Bits>(a: T, b: T) -> T {
    a | b
}

/// Bits that are set in an odd number of values.
pub fn xor<T: Bits>(a: T, b: T) -> T {
    a ^ b
}

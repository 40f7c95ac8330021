//! The atomic operations of `fi_atomic(3)`: what each does to an element of each type.
//!
//! The owner's thread does one after the other, under the lock of its domain: they are atomic towards each
//! other, not towards the owner's own stores, as a provider may choose.

use shm::lent::Piece;

/// Bytes of an element by `enum fi_datatype`: signed and unsigned integers of 1 to 8 bytes, float, double.
const SIZES: [usize; 10] = [1, 1, 2, 2, 4, 4, 8, 8, 4, 8];
const FLOAT: u8 = 8;

/// `enum fi_op`.
mod op {
    pub(super) const MIN: u8 = 0;
    pub(super) const MAX: u8 = 1;
    pub(super) const SUM: u8 = 2;
    pub(super) const PROD: u8 = 3;
    pub(super) const LOR: u8 = 4;
    pub(super) const LAND: u8 = 5;
    pub(super) const BOR: u8 = 6;
    pub(super) const BAND: u8 = 7;
    pub(super) const LXOR: u8 = 8;
    pub(super) const BXOR: u8 = 9;
    /// Changes nothing.
    pub(super) const READ: u8 = 10;
    pub(super) const WRITE: u8 = 11;
    pub(super) const CSWAP: u8 = 12;
    pub(super) const CSWAP_NE: u8 = 13;
    pub(super) const CSWAP_LE: u8 = 14;
    pub(super) const CSWAP_LT: u8 = 15;
    pub(super) const CSWAP_GE: u8 = 16;
    pub(super) const CSWAP_GT: u8 = 17;
    pub(super) const MSWAP: u8 = 18;
}

/// The forms of an atomic operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing comes back.
    Plain,
    /// What there was comes back.
    Fetch,
    /// Elements are compared first.
    Compare,
}

/// Whether it only reads.
pub(crate) fn is_read(operation: u8) -> bool {
    operation == op::READ
}

/// Bytes of an element, if the operation is there for it in this form.
pub(crate) fn element_bytes(datatype: u32, operation: u32, form: Form) -> Option<usize> {
    let (datatype, operation) = (u8::try_from(datatype).ok()?, u8::try_from(operation).ok()?);
    let size = *SIZES.get(usize::from(datatype))?;
    let is_bitwise = matches!(operation, op::BOR | op::BAND | op::BXOR | op::MSWAP);
    let is_of_form = match form {
        Form::Plain => operation <= op::BXOR || operation == op::WRITE,
        Form::Fetch => operation <= op::WRITE,
        Form::Compare => (op::CSWAP..=op::MSWAP).contains(&operation),
    };
    (is_of_form && !(is_bitwise && datatype >= FLOAT)).then_some(size)
}

/// What is done to an element of a type: by the operand, and by what it is compared with.
trait Element: Copy + PartialOrd {
    const ZERO: Self;
    const ONE: Self;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    /// `None` where there are no such bits to work on.
    fn bits(self, other: Self, operation: u8) -> Option<Self>;
    fn masked(self, operand: Self, mask: Self) -> Option<Self>;

    fn truth(is_so: bool) -> Self {
        if is_so { Self::ONE } else { Self::ZERO }
    }

    fn changed(self, operation: u8, operand: Self, compare: Self) -> Self {
        let is_true = |value: Self| value != Self::ZERO;
        let swapped = |is_so: bool| if is_so { operand } else { self };
        match operation {
            op::MIN => swapped(operand < self),
            op::MAX => swapped(operand > self),
            op::SUM => self.sum(operand),
            op::PROD => self.product(operand),
            op::LOR => Self::truth(is_true(self) || is_true(operand)),
            op::LAND => Self::truth(is_true(self) && is_true(operand)),
            op::LXOR => Self::truth(is_true(self) != is_true(operand)),
            op::BOR | op::BAND | op::BXOR => self.bits(operand, operation).unwrap_or(self),
            op::WRITE => operand,
            op::CSWAP => swapped(compare == self),
            op::CSWAP_NE => swapped(compare != self),
            op::CSWAP_LE => swapped(compare <= self),
            op::CSWAP_LT => swapped(compare < self),
            op::CSWAP_GE => swapped(compare >= self),
            op::CSWAP_GT => swapped(compare > self),
            op::MSWAP => self.masked(operand, compare).unwrap_or(self),
            _ => self,
        }
    }
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Element for $type {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn bits(self, other: Self, operation: u8) -> Option<Self> {
                Some(match operation {
                    op::BOR => self | other,
                    op::BAND => self & other,
                    _ => self ^ other,
                })
            }
            fn masked(self, operand: Self, mask: Self) -> Option<Self> {
                Some(operand & mask | self & !mask)
            }
        }
    )*};
}

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Element for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            fn sum(self, other: Self) -> Self {
                self + other
            }
            fn product(self, other: Self) -> Self {
                self * other
            }
            fn bits(self, _: Self, _: u8) -> Option<Self> {
                None
            }
            fn masked(self, _: Self, _: Self) -> Option<Self> {
                None
            }
        }
    )*};
}

integers!(i8 u8 i16 u16 i32 u32 i64 u64);
floats!(f32 f64);

/// Changes the elements of `memory` by `operands`, and by what they are compared with. What there was before,
/// or `None` if there is no such operation. Operands that are missing are zeroes.
pub(crate) fn apply(
    datatype: u8,
    operation: u8,
    memory: &Piece,
    operands: &[u8],
    compares: &[u8],
) -> Option<Vec<u8>> {
    let mut before = vec![0; memory.len()];
    memory.read(0, &mut before);
    macro_rules! each {
        ($type:ty) => {{
            const SIZE: usize = size_of::<$type>();
            let of = |bytes: &[u8], at: usize| {
                bytes
                    .get(at..)
                    .and_then(|rest| rest.first_chunk::<SIZE>())
                    .map_or(<$type>::ZERO, |bytes| <$type>::from_ne_bytes(*bytes))
            };
            for at in (0..before.len() / SIZE).map(|number| number * SIZE) {
                let changed = of(&before, at).changed(operation, of(operands, at), of(compares, at));
                // What stays as it is, the owner may be changing.
                if before.get(at..at + SIZE) != Some(&changed.to_ne_bytes()[..]) {
                    memory.write(at, &changed.to_ne_bytes());
                }
            }
        }};
    }
    match datatype {
        0 => each!(i8),
        1 => each!(u8),
        2 => each!(i16),
        3 => each!(u16),
        4 => each!(i32),
        5 => each!(u32),
        6 => each!(i64),
        7 => each!(u64),
        8 => each!(f32),
        9 => each!(f64),
        _ => return None,
    }
    Some(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(bytes: Vec<u8>) -> Piece {
        Piece::from(bytes.leak())
    }

    fn now(piece: &Piece) -> Vec<u8> {
        let mut bytes = vec![0; piece.len()];
        piece.read(0, &mut bytes);
        bytes
    }

    #[test]
    fn each_operation_does_what_the_manual_says() {
        let cases: [(u8, i32, i32, i32, i32); 19] = [
            (op::MIN, 5, -3, 0, -3),
            (op::MAX, 5, -3, 0, 5),
            (op::SUM, i32::MAX, 1, 0, i32::MIN),
            (op::PROD, -4, 3, 0, -12),
            (op::LOR, 0, 8, 0, 1),
            (op::LAND, 4, 0, 0, 0),
            (op::BOR, 4, 3, 0, 7),
            (op::BAND, 6, 3, 0, 2),
            (op::LXOR, 4, 9, 0, 0),
            (op::BXOR, 6, 3, 0, 5),
            (op::READ, 6, 3, 0, 6),
            (op::WRITE, 6, 3, 0, 3),
            (op::CSWAP, 6, 3, 6, 3),
            (op::CSWAP_NE, 6, 3, 6, 6),
            (op::CSWAP_LE, 6, 3, 7, 6),
            (op::CSWAP_LT, 6, 3, 5, 3),
            (op::CSWAP_GE, 6, 3, 6, 3),
            (op::CSWAP_GT, 6, 3, 6, 6),
            (op::MSWAP, 0b1100, 0b1010, 0b0110, 0b1010),
        ];
        for (operation, memory, operand, compare, wanted) in cases {
            let at = piece([memory.to_ne_bytes(), memory.to_ne_bytes()].concat());
            let both = |value: i32| [value.to_ne_bytes(), value.to_ne_bytes()].concat();
            let before = apply(4, operation, &at, &both(operand), &both(compare)).unwrap();
            assert_eq!((before, now(&at)), (both(memory), both(wanted)), "{operation}");
        }
    }

    #[test]
    fn types_have_their_sizes_signs_and_operations() {
        let one = |datatype, operation, memory: &[u8], operand: &[u8]| {
            let at = piece(memory.to_vec());
            apply(datatype, operation, &at, operand, &[]).map(|_| now(&at))
        };
        assert_eq!(one(0, op::MIN, &[1], &[255]), Some(vec![255]), "-1 is less");
        assert_eq!(one(1, op::MIN, &[1], &[255]), Some(vec![1]), "255 is not");
        let double = one(9, op::SUM, &1.5_f64.to_ne_bytes(), &2.25_f64.to_ne_bytes());
        assert_eq!(double, Some(3.75_f64.to_ne_bytes().to_vec()));
        assert_eq!(one(10, op::SUM, &[0; 8], &[0; 8]), None);
        assert_eq!(element_bytes(7, op::SUM.into(), Form::Plain), Some(8));
        assert_eq!(element_bytes(9, op::BOR.into(), Form::Plain), None);
        assert_eq!(element_bytes(9, op::MSWAP.into(), Form::Compare), None);
        assert_eq!(element_bytes(5, op::READ.into(), Form::Plain), None);
        assert_eq!(element_bytes(5, op::READ.into(), Form::Fetch), Some(4));
        assert_eq!(element_bytes(5, op::CSWAP.into(), Form::Fetch), None);
        assert_eq!(element_bytes(5, op::CSWAP.into(), Form::Compare), Some(4));
        assert_eq!(element_bytes(256, op::SUM.into(), Form::Plain), None);
    }
}

//! What a member says of its call in each message, so that members that call different things notice it.

use std::fmt;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// [`Group::barrier`](crate::Group::barrier).
    Barrier,
    /// [`Group::broadcast`](crate::Group::broadcast).
    Broadcast,
    /// [`Group::reduce`](crate::Group::reduce).
    Reduce,
    /// [`Group::allreduce`](crate::Group::allreduce).
    Allreduce,
    /// [`Group::allgather`](crate::Group::allgather).
    Allgather,
    /// [`Group::alltoall`](crate::Group::alltoall).
    Alltoall,
}

const KINDS: [Kind; 6] =
    [Kind::Barrier, Kind::Broadcast, Kind::Reduce, Kind::Allreduce, Kind::Allgather, Kind::Alltoall];

/// What must be the same on all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The operation.
    pub kind: Kind,
    /// Whether the algorithm for long messages is used.
    pub is_long: bool,
    /// The number of the call in this group, modulo 2^11.
    pub call: u16,
    /// The root's rank; 0 if the operation has none.
    pub root: u16,
    /// Bytes of the call, modulo 2^36.
    pub bytes: u64,
}

const BYTES_BITS: u32 = 36;
const ROOT_BITS: u32 = 12;
const CALL_BITS: u32 = 11;
const CALL_AT: u32 = BYTES_BITS + ROOT_BITS;
const LONG_AT: u32 = CALL_AT + CALL_BITS;
const KIND_AT: u32 = LONG_AT + 1;

const fn low(word: u64, bits: u32) -> u64 {
    word & ((1 << bits) - 1)
}

impl Signature {
    pub(crate) fn new(kind: Kind, root: usize, bytes: usize, is_long: bool, call: u64) -> Self {
        Self {
            kind,
            is_long,
            call: low(call, CALL_BITS) as u16,
            root: low(root as u64, ROOT_BITS) as u16,
            bytes: low(bytes as u64, BYTES_BITS),
        }
    }

    /// As it goes with each message.
    pub(crate) fn word(&self) -> u64 {
        (self.kind as u64) << KIND_AT
            | u64::from(self.is_long) << LONG_AT
            | u64::from(self.call) << CALL_AT
            | u64::from(self.root) << BYTES_BITS
            | self.bytes
    }

    /// The signature of a word, if it is one.
    pub(crate) fn of_word(word: u64) -> Option<Self> {
        Some(Self {
            kind: *KINDS.get((word >> KIND_AT) as usize)?,
            is_long: low(word >> LONG_AT, 1) == 1,
            call: low(word >> CALL_AT, CALL_BITS) as u16,
            root: low(word >> BYTES_BITS, ROOT_BITS) as u16,
            bytes: low(word, BYTES_BITS),
        })
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, is_long, call, root, bytes } = self;
        let algorithm = if *is_long { "long" } else { "short" };
        write!(f, "{kind:?} (call {call}, root {root}, {bytes} bytes, algorithm {algorithm})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_survives_its_word() {
        for (at, kind) in KINDS.into_iter().enumerate() {
            let signature = Signature::new(kind, 4095 - at, (1 << 36) - 1 - at, at % 2 == 1, 2047);
            assert_eq!(Signature::of_word(signature.word()), Some(signature));
        }
        assert_eq!(Signature::of_word(u64::MAX), None);
    }
}

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

/// Which of its algorithms an operation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// The one for short messages.
    Short,
    /// The one for long messages.
    Long,
    /// The one for few members and a few bytes: all send to all.
    Exchange,
}

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Short, Algorithm::Long, Algorithm::Exchange];

impl Algorithm {
    pub(crate) fn of(is_exchange: bool, is_long: bool) -> Self {
        match (is_exchange, is_long) {
            (true, _) => Self::Exchange,
            (_, true) => Self::Long,
            _ => Self::Short,
        }
    }
}

/// What must be the same on all members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The operation.
    pub kind: Kind,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The number of the call in this group, modulo 2^11.
    pub call: u16,
    /// The root's rank; 0 if the operation has none.
    pub root: u16,
    /// Bytes of the call, modulo 2^35.
    pub bytes: u64,
}

const BYTES_BITS: u32 = 35;
const ROOT_BITS: u32 = 12;
const CALL_BITS: u32 = 11;
const CALL_AT: u32 = BYTES_BITS + ROOT_BITS;
const ALGORITHM_AT: u32 = CALL_AT + CALL_BITS;
const ALGORITHM_BITS: u32 = 2;
const KIND_AT: u32 = ALGORITHM_AT + ALGORITHM_BITS;

const fn low(word: u64, bits: u32) -> u64 {
    word & ((1 << bits) - 1)
}

impl Signature {
    pub(crate) fn new(kind: Kind, root: usize, bytes: usize, algorithm: Algorithm, call: u64) -> Self {
        Self {
            kind,
            algorithm,
            call: low(call, CALL_BITS) as u16,
            root: low(root as u64, ROOT_BITS) as u16,
            bytes: low(bytes as u64, BYTES_BITS),
        }
    }

    /// As it goes with each message.
    pub(crate) fn word(&self) -> u64 {
        (self.kind as u64) << KIND_AT
            | (self.algorithm as u64) << ALGORITHM_AT
            | u64::from(self.call) << CALL_AT
            | u64::from(self.root) << BYTES_BITS
            | self.bytes
    }

    /// The signature of a word, if it is one.
    pub(crate) fn of_word(word: u64) -> Option<Self> {
        Some(Self {
            kind: *KINDS.get((word >> KIND_AT) as usize)?,
            algorithm: *ALGORITHMS.get(low(word >> ALGORITHM_AT, ALGORITHM_BITS) as usize)?,
            call: low(word >> CALL_AT, CALL_BITS) as u16,
            root: low(word >> BYTES_BITS, ROOT_BITS) as u16,
            bytes: low(word, BYTES_BITS),
        })
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, algorithm, call, root, bytes } = self;
        let algorithm = match algorithm {
            Algorithm::Short => "short",
            Algorithm::Long => "long",
            Algorithm::Exchange => "exchange",
        };
        write!(f, "{kind:?} (call {call}, root {root}, {bytes} bytes, algorithm {algorithm})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_survives_its_word() {
        for (at, kind) in KINDS.into_iter().enumerate() {
            let signature = Signature::new(kind, 4095 - at, (1 << 35) - 1 - at, ALGORITHMS[at % 3], 2047);
            assert_eq!((signature.kind as usize, signature.algorithm as usize), (at, at % 3));
            assert_eq!(Signature::of_word(signature.word()), Some(signature));
        }
        assert_eq!(Signature::of_word(u64::MAX), None);
    }
}

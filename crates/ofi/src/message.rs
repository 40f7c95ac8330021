//! The messages between end points: doorbells, data for the owner's program, and atomic operations and stores
//! that the owner carries out.
//!
//! All have the same length, but for the data that follows two kinds. Whatever comes in is decoded or
//! dropped; nothing in a message is trusted before the session and the memory that it names have been looked
//! up.

/// Bytes of every message, without data.
pub(crate) const MESSAGE_BYTES: usize = 56;
/// Bytes of data of one message at most: as many as the longest message of the SISCI API has (8,176), and
/// then whole lines.
pub const DATA_BYTES_MAX: usize = 8192;
/// Begins every message; its last byte is the version.
const MAGIC: u32 = 0x744c_4601;

const RING: u8 = 1;
const ATOMIC: u8 = 2;
const REPLY: u8 = 3;
const DATA: u8 = 4;
const STORES: u8 = 5;

const FETCH_ADD: u8 = 1;
const COMPARE_SWAP: u8 = 2;
const SWAP: u8 = 3;

const WAS: u8 = 0;
const REFUSED: u8 = 1;
const TOOK: u8 = 2;
const SAID: u8 = 3;

/// Words of an answer.
pub const ANSWER_WORDS: usize = 4;

/// What an atomic operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    /// Adds.
    FetchAdd { add: u64 },
    /// Puts `new` where `expected` is.
    CompareSwap { expected: u64, new: u64 },
    /// Puts `new` there.
    Swap { new: u64 },
}

/// Bytes of the word that an atomic operation changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    Four,
    Eight,
}

impl Width {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    fn of(bytes: u8) -> Option<Self> {
        match bytes {
            4 => Some(Self::Four),
            8 => Some(Self::Eight),
            _ => None,
        }
    }
}

/// What became of data at the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// The owner's program has it.
    Taken,
    /// The owner's program has taken too little of what came before: it may be sent again later.
    Full,
    /// It is longer than what the owner has room for.
    TooLong,
    /// The owner cannot take anything any more.
    Broken,
}

impl Delivery {
    const ALL: [Self; 4] = [Self::Taken, Self::Full, Self::TooLong, Self::Broken];

    fn of(word: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u64 == word)
    }
}

/// How a request ended at the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// What was there before an atomic operation.
    Was(u64),
    /// What became of data.
    Took(Delivery),
    /// What a doorbell says that is asked.
    Said([u64; ANSWER_WORDS]),
    /// No such memory, or no such word in it; no such doorbell for data.
    Refused,
}

/// What a message says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    /// Rings a doorbell. Of triggers that are numbered, its number; 0: it has none.
    Ring { bell: u64, number: u64 },
    /// Asks the owner of `memory` for an atomic operation.
    Atomic { memory: u64, offset: u64, width: Width, op: AtomicOp, request: u64 },
    /// Data for the program that has made `bell`: `len` bytes, which follow. Its number, as of a ring.
    Data { bell: u64, request: u64, len: u32, number: u64 },
    /// Asks the owner of `memory` for stores: `len` bytes that follow, as [`link::Stores`] packs them.
    Stores { memory: u64, request: u64, len: u32 },
    /// Answers one of the last three.
    Reply { request: u64, answer: Answer },
}

/// A message of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) session: u64,
    pub(crate) body: Body,
}

impl Message {
    pub(crate) fn encode(&self) -> [u8; MESSAGE_BYTES] {
        // Kind, code, width; then the words after the session.
        let (head, words) = match self.body {
            Body::Ring { bell, number } => ([RING, 0, 0], [bell, number, 0, 0, 0]),
            Body::Atomic { memory, offset, width, op, request } => {
                let (code, first, second) = match op {
                    AtomicOp::FetchAdd { add } => (FETCH_ADD, add, 0),
                    AtomicOp::CompareSwap { expected, new } => (COMPARE_SWAP, expected, new),
                    AtomicOp::Swap { new } => (SWAP, new, 0),
                };
                ([ATOMIC, code, width.bytes() as u8], [request, memory, offset, first, second])
            }
            Body::Reply { request, answer: Answer::Was(value) } => {
                ([REPLY, WAS, 0], [request, value, 0, 0, 0])
            }
            Body::Data { bell, request, len, number } => {
                ([DATA, 0, 0], [request, bell, u64::from(len), number, 0])
            }
            Body::Stores { memory, request, len } => {
                ([STORES, 0, 0], [request, memory, u64::from(len), 0, 0])
            }
            Body::Reply { request, answer: Answer::Took(delivery) } => {
                ([REPLY, TOOK, 0], [request, delivery as u64, 0, 0, 0])
            }
            Body::Reply { request, answer: Answer::Said([first, second, third, fourth]) } => {
                ([REPLY, SAID, 0], [request, first, second, third, fourth])
            }
            Body::Reply { request, answer: Answer::Refused } => ([REPLY, REFUSED, 0], [request, 0, 0, 0, 0]),
        };
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..7].copy_from_slice(&head);
        for (place, word) in bytes[8..].chunks_exact_mut(8).zip(std::iter::once(self.session).chain(words)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// How many bytes follow it.
    pub(crate) fn data_bytes(&self) -> usize {
        match self.body {
            Body::Data { len, .. } | Body::Stores { len, .. } => len as usize,
            _ => 0,
        }
    }

    /// `None` for everything that `encode` does not write.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; MESSAGE_BYTES] = bytes.try_into().ok()?;
        let word = |nth: usize| u64::from_le_bytes(std::array::from_fn(|byte| bytes[8 + 8 * nth + byte]));
        if bytes[..4] != MAGIC.to_le_bytes() {
            return None;
        }
        let session = word(0);
        let body = match [bytes[4], bytes[5], bytes[6], bytes[7]] {
            [RING, 0, 0, 0] => Body::Ring { bell: word(1), number: word(2) },
            [ATOMIC, code, width, 0] => Body::Atomic {
                request: word(1),
                memory: word(2),
                offset: word(3),
                width: Width::of(width)?,
                op: match code {
                    FETCH_ADD => AtomicOp::FetchAdd { add: word(4) },
                    COMPARE_SWAP => AtomicOp::CompareSwap { expected: word(4), new: word(5) },
                    SWAP => AtomicOp::Swap { new: word(4) },
                    _ => return None,
                },
            },
            [DATA, 0, 0, 0] => {
                let len = u32::try_from(word(3)).ok()?;
                Body::Data { request: word(1), bell: word(2), len, number: word(4) }
            }
            [STORES, 0, 0, 0] => {
                Body::Stores { request: word(1), memory: word(2), len: u32::try_from(word(3)).ok()? }
            }
            [REPLY, TOOK, 0, 0] => {
                Body::Reply { request: word(1), answer: Answer::Took(Delivery::of(word(2))?) }
            }
            [REPLY, SAID, 0, 0] => Body::Reply {
                request: word(1),
                answer: Answer::Said(std::array::from_fn(|nth| word(2 + nth))),
            },
            [REPLY, WAS, 0, 0] => Body::Reply { request: word(1), answer: Answer::Was(word(2)) },
            [REPLY, REFUSED, 0, 0] => Body::Reply { request: word(1), answer: Answer::Refused },
            _ => return None,
        };
        let message = Self { session, body };
        // Words that a message of this kind does not use are zero.
        (message.encode() == *bytes).then_some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Message> {
        let ops = [
            AtomicOp::FetchAdd { add: 7 },
            AtomicOp::CompareSwap { expected: 1, new: u64::MAX },
            AtomicOp::Swap { new: 8 },
        ];
        let atomic = |op, width| Body::Atomic { memory: 3, offset: 16, width, op, request: 9 };
        let mut bodies = vec![
            Body::Ring { bell: u64::MAX - 1, number: 0 },
            Body::Ring { bell: 1, number: u64::MAX },
            Body::Reply { request: 5, answer: Answer::Was(6) },
            Body::Reply { request: 5, answer: Answer::Refused },
            Body::Reply { request: 5, answer: Answer::Said([1, 0, u64::MAX, 4]) },
            Body::Data { bell: 4, request: 5, len: 8192, number: 0 },
            Body::Data { bell: 4, request: 5, len: 0, number: u64::MAX },
            Body::Stores { memory: 4, request: 5, len: 8192 },
        ];
        bodies.extend(Delivery::ALL.map(|took| Body::Reply { request: 5, answer: Answer::Took(took) }));
        bodies.extend(ops.into_iter().flat_map(|op| [atomic(op, Width::Four), atomic(op, Width::Eight)]));
        bodies.into_iter().map(|body| Message { session: 0x1234_5678_9abc_def0, body }).collect()
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for message in all() {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn another_length_or_another_beginning_is_no_message() {
        let bytes = all()[0].encode();
        assert_eq!(Message::decode(&bytes[..MESSAGE_BYTES - 1]), None);
        assert_eq!(Message::decode(&[]), None);
        for at in 0..4 {
            let mut changed = bytes;
            changed[at] ^= 1;
            assert_eq!(Message::decode(&changed), None);
        }
    }

    /// Each of these bytes with each value: decoded to a message that encodes to the same, or dropped.
    #[test]
    fn every_decoded_message_is_one_that_encode_writes() {
        for message in all() {
            for (at, value) in (0..MESSAGE_BYTES).flat_map(|at| (0..=255).map(move |value| (at, value))) {
                let mut bytes = message.encode();
                bytes[at] = value;
                if let Some(decoded) = Message::decode(&bytes) {
                    assert_eq!(decoded.encode(), bytes);
                }
            }
        }
    }
}

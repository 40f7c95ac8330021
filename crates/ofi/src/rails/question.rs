//! The messages of the two ends of a link over rails about a rail that has failed: sent over another rail, as
//! questions to a doorbell.

use crate::card::{EndpointCard, MEMORY_CARD_BYTES, MemoryCard};
use crate::message::ANSWER_WORDS;

const CLOSE: u8 = 1;
const OPEN: u8 = 2;
const PART: u8 = 3;
const TRIGGERED: u8 = 4;

/// Bytes of one part of a longer answer.
const PART_BYTES: usize = 8 * (ANSWER_WORDS - 1);

/// What the importer asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    /// Close the end point with this number.
    Close { rail: u8, generation: u32 },
    /// Open one with this number for the importer's end point.
    Open { rail: u8, generation: u32, session: u64, end_point: EndpointCard },
    /// The n-th part of how the new one is reached.
    Part { rail: u8, generation: u32, nth: u32 },
    /// How many triggers have been counted? So many were made by now.
    Triggered { made: u64 },
}

impl Question {
    pub(super) fn encode(&self) -> Vec<u8> {
        let head = |kind, rail: u8, generation: u32| [&[kind, rail], &generation.to_le_bytes()[..]].concat();
        match self {
            Self::Close { rail, generation } => head(CLOSE, *rail, *generation),
            Self::Open { rail, generation, session, end_point } => {
                let head = head(OPEN, *rail, *generation);
                [head, session.to_le_bytes().to_vec(), end_point.to_bytes()].concat()
            }
            Self::Part { rail, generation, nth } => {
                [head(PART, *rail, *generation), nth.to_le_bytes().to_vec()].concat()
            }
            Self::Triggered { made } => [&[TRIGGERED][..], &made.to_le_bytes()].concat(),
        }
    }

    /// `None` for everything that `encode` does not write.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        if let [TRIGGERED, made @ ..] = bytes {
            return Some(Self::Triggered { made: u64::from_le_bytes(made.try_into().ok()?) });
        }
        let ([kind, rail], rest) = bytes.split_first_chunk()?;
        let (generation, rest) = rest.split_first_chunk()?;
        let (rail, generation) = (*rail, u32::from_le_bytes(*generation));
        match *kind {
            CLOSE if rest.is_empty() => Some(Self::Close { rail, generation }),
            OPEN => {
                let (session, card) = rest.split_first_chunk()?;
                let (session, end_point) =
                    (u64::from_le_bytes(*session), EndpointCard::from_bytes(card).ok()?);
                Some(Self::Open { rail, generation, session, end_point })
            }
            PART => Some(Self::Part { rail, generation, nth: u32::from_le_bytes(rest.try_into().ok()?) }),
            _ => None,
        }
    }
}

/// What the owner says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is not done yet: ask again.
    Wait,
    /// Nothing lands there any more.
    Closed,
    /// It is open; how it is reached has so many bytes.
    Open {
        bytes: u32,
    },
    Part([u8; PART_BYTES]),
    /// So many triggers have been counted.
    Counted(u64),
    /// It cannot be done, or must not.
    Refused,
}

impl Answer {
    pub(super) fn words(self) -> [u64; ANSWER_WORDS] {
        match self {
            Self::Wait => [0, 0, 0, 0],
            Self::Closed => [1, 0, 0, 0],
            Self::Open { bytes } => [2, bytes.into(), 0, 0],
            Self::Part(bytes) => {
                let mut words = [3, 0, 0, 0];
                for (word, bytes) in words[1..].iter_mut().zip(bytes.as_chunks().0) {
                    *word = u64::from_le_bytes(*bytes);
                }
                words
            }
            Self::Refused => [4, 0, 0, 0],
            Self::Counted(last) => [5, last, 0, 0],
        }
    }

    /// What is no answer is a refusal.
    pub(super) fn of(words: [u64; ANSWER_WORDS]) -> Self {
        let [kind, first, ..] = words;
        match (kind, u32::try_from(first)) {
            (0, _) => Self::Wait,
            (1, _) => Self::Closed,
            (2, Ok(bytes)) => Self::Open { bytes },
            (3, _) => {
                let mut bytes = [0; PART_BYTES];
                for (place, word) in bytes.chunks_exact_mut(8).zip(&words[1..]) {
                    place.copy_from_slice(&word.to_le_bytes());
                }
                Self::Part(bytes)
            }
            (5, _) => Self::Counted(first),
            _ => Self::Refused,
        }
    }

    /// The n-th part of these bytes, with zeros behind.
    pub(super) fn part(bytes: &[u8], nth: usize) -> Self {
        let Some(part) = bytes.chunks(PART_BYTES).nth(nth) else { return Self::Refused };
        let mut padded = [0; PART_BYTES];
        padded[..part.len()].copy_from_slice(part);
        Self::Part(padded)
    }

    /// Into how many parts so many bytes are cut.
    pub(super) fn parts(bytes: u32) -> u32 {
        bytes.div_ceil(PART_BYTES as u32)
    }
}

/// How an end point, the memory there, if the connection has any, and the doorbell that answers questions are
/// reached.
pub(super) fn reached(end_point: &EndpointCard, memory: Option<&MemoryCard>, bell: u64) -> Vec<u8> {
    let memory = memory.map(MemoryCard::to_bytes);
    [memory.as_ref().map_or(&[][..], |memory| memory), &bell.to_le_bytes(), &end_point.to_bytes()].concat()
}

/// The same out of the bytes of a peer.
pub(super) fn read_reached(
    bytes: &[u8],
    has_memory: bool,
) -> Option<(EndpointCard, Option<MemoryCard>, u64)> {
    let (memory, rest) = bytes.split_at_checked(if has_memory { MEMORY_CARD_BYTES } else { 0 })?;
    let (bell, end_point) = rest.split_first_chunk()?;
    let memory = if has_memory { Some(MemoryCard::from_bytes(memory).ok()?) } else { None };
    Some((EndpointCard::from_bytes(end_point).ok()?, memory, u64::from_le_bytes(*bell)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> EndpointCard {
        EndpointCard { provider: "tcp;ofi_rxm".to_owned(), address: vec![7; 16] }
    }

    #[test]
    fn questions_and_answers_survive_the_way() {
        let (rail, generation) = (1, 70_000);
        for question in [
            Question::Close { rail, generation },
            Question::Open { rail, generation, session: u64::MAX - 1, end_point: card() },
            Question::Part { rail, generation, nth: 3 },
            Question::Triggered { made: u64::MAX - 1 },
        ] {
            let bytes = question.encode();
            assert_eq!(Question::decode(&bytes), Some(question));
            for len in 0..bytes.len() {
                assert_eq!(Question::decode(&bytes[..len]), None, "{len} bytes");
            }
            assert_eq!(Question::decode(&[&bytes[..], &[0]].concat()), None);
        }
        let part = Answer::part(&[9; 30], 1);
        let counted = Answer::Counted(u64::MAX);
        for answer in
            [Answer::Wait, Answer::Closed, Answer::Open { bytes: 60 }, part, counted, Answer::Refused]
        {
            assert_eq!(Answer::of(answer.words()), answer);
        }
        assert_eq!(Answer::of([9; 4]), Answer::Refused);
        assert_eq!(Answer::of([2, u64::MAX, 0, 0]), Answer::Refused);
    }

    #[test]
    fn what_is_longer_than_an_answer_is_read_in_parts() {
        let memory = MemoryCard { key: 1, token: 2, base: 3, size_bytes: 4 };
        let bytes = reached(&card(), Some(&memory), 77);
        let mut read = Vec::new();
        for nth in 0..Answer::parts(bytes.len() as u32) {
            let Answer::Part(part) = Answer::part(&bytes, nth as usize) else { panic!("part {nth}") };
            read.extend(part);
        }
        assert_eq!(Answer::part(&bytes, read.len() / PART_BYTES), Answer::Refused);
        read.truncate(bytes.len());
        assert_eq!(read_reached(&read, true), Some((card(), Some(memory), 77)));
        assert_eq!((read_reached(&read[..31], true), read_reached(&read[..39], true)), (None, None));
        let bytes = reached(&card(), None, 78);
        assert_eq!(read_reached(&bytes, false), Some((card(), None, 78)));
        assert_eq!((read_reached(&bytes[..7], false), read_reached(&bytes, true)), (None, None));
    }
}

//! The layout of an inbox, and the words that announce and acknowledge blocks.
//!
//! For each ordered pair (A, B) there is one inbox: a segment of B that A writes. It holds, for each of
//! [`WINDOW`] slots, a line of announcements (A: "block n is in the slot"), a line of acknowledgements (A:
//! "your block n of the other direction is right, or is not"), and the block itself. Each attempt to announce
//! or acknowledge one block has a word of its own, so that the reader can tell a word that was lost from one
//! that is late: a word that is missing before one that is there was lost.
//!
//! A word carries the number of its block (32 bits), the attempt (8) and a check over pair, direction and
//! meaning (24); a word with a wrong check was corrupted on the way.

use seeded_random::mix;

/// Blocks that may be under way to one peer.
pub(super) const WINDOW: usize = 4;
/// Words in a line: attempt n has word n modulo this.
pub(super) const LINE_WORDS: u8 = 8;
/// Attempts for one block.
pub(super) const MAX_ATTEMPTS: u8 = u8::MAX;
const LINE_BYTES: usize = 128;
const ANNOUNCED_AT: usize = 0;
const ANSWERED_AT: usize = WINDOW * LINE_BYTES;
/// The writer, and its options.
pub(super) const HELLO_AT: usize = 2 * WINDOW * LINE_BYTES;
/// The writer will send nothing more.
pub(super) const DONE_AT: usize = HELLO_AT + LINE_BYTES;
const SLOTS_AT: usize = 4096;

/// The number of a block: 1, 2, 3, … of one ordered pair.
pub(super) type Number = u32;

/// Bytes of an inbox whose blocks are at most `block_bytes` long.
pub(crate) const fn inbox_bytes(block_bytes: usize) -> usize {
    SLOTS_AT + WINDOW * slot_bytes(block_bytes)
}

const fn slot_bytes(block_bytes: usize) -> usize {
    block_bytes.next_multiple_of(4096)
}

pub(super) const fn slot_of(number: Number) -> usize {
    number as usize % WINDOW
}

pub(super) const fn slot_at(slot: usize, block_bytes: usize) -> usize {
    SLOTS_AT + slot * slot_bytes(block_bytes)
}

pub(super) const fn announced_at(slot: usize, attempt: u8) -> usize {
    ANNOUNCED_AT + slot * LINE_BYTES + (attempt % LINE_WORDS) as usize * 8
}

pub(super) const fn answered_at(slot: usize, attempt: u8) -> usize {
    ANSWERED_AT + slot * LINE_BYTES + (attempt % LINE_WORDS) as usize * 8
}

/// What a word means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The block is in its slot.
    Announced,
    /// It was right.
    Right,
    /// It was not: once more.
    Wrong,
}

/// Source and destination of blocks, and the seed of the run: words of other pairs and of other runs have
/// other checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Route(u64);

impl Route {
    pub(super) fn new(from: u32, to: u32, seed: u64) -> Self {
        Self(mix(seed ^ (u64::from(from) << 32 | u64::from(to))))
    }

    /// Seed of the data of a block.
    pub(super) fn block_seed(self, number: Number) -> u64 {
        mix(self.0 ^ u64::from(number))
    }

    /// Length of a block: the longest three times out of four, else anything between the limits.
    pub(super) fn block_len(self, number: Number, min_bytes: usize, max_bytes: usize) -> usize {
        let drawn = mix(self.0 ^ u64::from(number) << 32 ^ 0x5eed);
        if drawn.is_multiple_of(4) {
            min_bytes + (drawn >> 8) as usize % (max_bytes - min_bytes + 1)
        } else {
            max_bytes
        }
    }

    pub(super) fn word(self, meaning: Meaning, number: Number, attempt: u8) -> u64 {
        u64::from(number) | u64::from(attempt) << 32 | self.check(meaning, number, attempt) << 40
    }

    fn check(self, meaning: Meaning, number: Number, attempt: u8) -> u64 {
        let kind = match meaning {
            Meaning::Announced => 1,
            Meaning::Right => 2,
            Meaning::Wrong => 3,
        };
        mix(self.0 ^ mix(u64::from(number) << 16 | u64::from(attempt) << 8 | kind)) >> 40
    }

    /// What a word says that should have one of these meanings; `None`: nothing was written yet.
    pub(super) fn read(self, word: u64, meanings: &[Meaning]) -> Result<Option<Message>, Mangled> {
        if word == 0 {
            return Ok(None);
        }
        let (number, attempt) = (word as Number, (word >> 32) as u8);
        let fits = |meaning: &&Meaning| self.check(**meaning, number, attempt) == word >> 40;
        let meaning = *meanings.iter().find(fits).ok_or(Mangled)?;
        Ok(Some(Message { number, attempt, meaning }))
    }
}

/// A word, read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) number: Number,
    pub(super) attempt: u8,
    pub(super) meaning: Meaning,
}

/// A word that no instance wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mangled;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps() {
        let mut at: Vec<usize> = (0..WINDOW)
            .flat_map(|slot| (0..LINE_WORDS).flat_map(move |n| [announced_at(slot, n), answered_at(slot, n)]))
            .chain([HELLO_AT, DONE_AT])
            .collect();
        at.sort_unstable();
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= 8) && *at.last().unwrap() + 8 <= SLOTS_AT);
        for block in [1, 4096, 5000] {
            assert!(slot_at(1, block) - slot_at(0, block) >= block);
            assert!(slot_at(WINDOW - 1, block) + block <= inbox_bytes(block));
        }
    }

    #[test]
    fn a_word_is_read_as_it_was_written_and_no_other_way() {
        let route = Route::new(4, 8, 1);
        let word = route.word(Meaning::Right, 77, 200);
        let answers = [Meaning::Right, Meaning::Wrong];
        let said = Message { number: 77, attempt: 200, meaning: Meaning::Right };
        assert_eq!(route.read(word, &answers), Ok(Some(said)));
        assert_eq!(route.read(0, &answers), Ok(None));
        assert_eq!(route.read(word, &[Meaning::Announced]), Err(Mangled), "another meaning");
        assert_eq!(Route::new(8, 4, 1).read(word, &answers), Err(Mangled), "another direction");
        assert_eq!(Route::new(4, 8, 2).read(word, &answers), Err(Mangled), "another run");
        for bit in 0..64 {
            assert_eq!(route.read(word ^ 1 << bit, &answers), Err(Mangled), "bit {bit}");
        }
    }

    #[test]
    fn lengths_keep_their_limits_and_most_are_the_longest() {
        let route = Route::new(4, 8, 1);
        let lengths: Vec<usize> = (1..2000).map(|n| route.block_len(n, 4, 8192)).collect();
        assert!(lengths.iter().all(|len| (4..=8192).contains(len)));
        let longest = lengths.iter().filter(|len| **len == 8192).count();
        assert!((1300..1700).contains(&longest), "{longest}");
        assert_eq!(route.block_len(5, 64, 64), 64);
    }
}

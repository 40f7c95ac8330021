//! Which puts a fault hits, and what it does to them.

use std::ops::RangeInclusive;

use proto::fault::{LinkFaults, MILLION};
use seeded_random::SplitMix64;
use shm::window::Window;

use super::late::MAX_HELD_BYTES;
use crate::error::Result;
use crate::link::RemoteMemory;

/// How many puts one that is late lets go before it: drawn from this range, so that late ones overtake each
/// other, too. At least as many as a sender has under way before it needs an answer; otherwise no receiver
/// would check in between.
const LATE_BY_PUTS: RangeInclusive<u32> = 12..=24;

/// What is put: bytes of the caller, or of a local segment.
#[derive(Clone, Copy)]
pub(super) enum Block<'a> {
    Bytes(&'a [u8]),
    Window(Window<'a>),
}

impl Block<'_> {
    pub(super) fn len(self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Window(window) => window.len(),
        }
    }

    pub(super) fn put(self, memory: &dyn RemoteMemory, offset: usize) -> Result<()> {
        match self {
            Self::Bytes(bytes) => memory.put(offset, bytes),
            Self::Window(window) => memory.put_from(offset, window),
        }
    }

    pub(super) fn to_vec(self) -> Result<Vec<u8>> {
        match self {
            Self::Bytes(bytes) => Ok(bytes.to_vec()),
            Self::Window(window) => {
                let mut bytes = vec![0; window.len()];
                window.get(0, &mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

/// What becomes of one put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    Lose,
    /// The byte at this position arrives inverted.
    Corrupt(usize),
    /// It arrives, and once more after so many others.
    Duplicate(u32),
    /// It arrives after so many others.
    Reorder(u32),
}

/// Draws the fates of blocks, the same again for the same seed.
#[derive(Debug)]
pub(super) struct Dice(SplitMix64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    fn roll(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn hits(&mut self, ppm: u32) -> bool {
        ppm != 0 && self.roll() % u64::from(MILLION) < u64::from(ppm)
    }

    fn late_by(&mut self) -> u32 {
        let (first, last) = LATE_BY_PUTS.into_inner();
        first + (self.roll() % u64::from(last - first + 1)) as u32
    }

    /// Puts above the limit are neither doubled nor delayed behind others: a copy of them would have to be
    /// kept.
    pub(super) fn fate(&mut self, faults: &LinkFaults, bytes: usize) -> Fate {
        if self.hits(faults.lose_ppm) {
            Fate::Lose
        } else if bytes > 0 && self.hits(faults.corrupt_ppm) {
            Fate::Corrupt((self.roll() % bytes as u64) as usize)
        } else if bytes <= MAX_HELD_BYTES && self.hits(faults.duplicate_ppm) {
            Fate::Duplicate(self.late_by())
        } else if bytes <= MAX_HELD_BYTES && self.hits(faults.reorder_ppm) {
            Fate::Reorder(self.late_by())
        } else {
            Fate::Pass
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_late_lets_a_drawn_number_of_puts_go_first() {
        let mut dice = Dice::new(7);
        let faults = LinkFaults { reorder_ppm: MILLION, ..LinkFaults::default() };
        let drawn: std::collections::BTreeSet<u32> = (0..1000)
            .map(|_| match dice.fate(&faults, 8) {
                Fate::Reorder(puts) => puts,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(drawn, LATE_BY_PUTS.collect());
        assert_eq!(dice.fate(&faults, MAX_HELD_BYTES + 1), Fate::Pass);
    }

    #[test]
    fn a_share_of_a_million_is_hit_and_nothing_is_hit_at_none() {
        let mut dice = Dice::new(7);
        let faults = LinkFaults { lose_ppm: 10_000, ..LinkFaults::default() };
        let lost = (0..100_000).filter(|_| dice.fate(&faults, 8) == Fate::Lose).count();
        assert!((800..1200).contains(&lost), "{lost} of 100,000 at 1 %");
        assert!((0..1000).all(|_| dice.fate(&LinkFaults::default(), 8) == Fate::Pass));
        let all = LinkFaults { corrupt_ppm: MILLION, ..LinkFaults::default() };
        assert!((0..1000).all(|_| matches!(dice.fate(&all, 8), Fate::Corrupt(0..8))));
        assert_eq!(dice.fate(&all, 0), Fate::Pass, "there is no byte to invert");
    }
}

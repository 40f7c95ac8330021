//! What a fault does to a put: which ones are hit, and what becomes of them.

use proto::fault::{LinkFaults, MILLION};
use shm::window::Window;

use crate::error::Result;
use crate::link::RemoteMemory;

/// Puts above this are neither doubled nor delayed behind others: a copy of them would have to be kept.
pub(super) const MAX_HELD_BYTES: usize = 4 << 20;

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
    /// It arrives, and once more after the next one.
    Duplicate,
    /// It arrives after the next one.
    Reorder,
}

/// Draws fates: splitmix64 (Steele, Lea, Flood, OOPSLA 2014), so that a seed gives the same run again.
#[derive(Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn hits(&mut self, ppm: u32) -> bool {
        ppm != 0 && self.roll() % u64::from(MILLION) < u64::from(ppm)
    }

    pub(super) fn fate(&mut self, faults: &LinkFaults, bytes: usize) -> Fate {
        if self.hits(faults.lose_ppm) {
            Fate::Lose
        } else if bytes > 0 && self.hits(faults.corrupt_ppm) {
            Fate::Corrupt((self.roll() % bytes as u64) as usize)
        } else if bytes <= MAX_HELD_BYTES && self.hits(faults.duplicate_ppm) {
            Fate::Duplicate
        } else if bytes <= MAX_HELD_BYTES && self.hits(faults.reorder_ppm) {
            Fate::Reorder
        } else {
            Fate::Pass
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_a_million_is_hit_and_nothing_is_hit_at_none() {
        let mut dice = Dice(7);
        let faults = LinkFaults { lose_ppm: 10_000, ..LinkFaults::default() };
        let lost = (0..100_000).filter(|_| dice.fate(&faults, 8) == Fate::Lose).count();
        assert!((800..1200).contains(&lost), "{lost} of 100,000 at 1 %");
        assert!((0..1000).all(|_| dice.fate(&LinkFaults::default(), 8) == Fate::Pass));
        let all = LinkFaults { corrupt_ppm: MILLION, ..LinkFaults::default() };
        assert!((0..1000).all(|_| matches!(dice.fate(&all, 8), Fate::Corrupt(0..8))));
        assert_eq!(dice.fate(&all, 0), Fate::Pass, "there is no byte to invert");
    }
}

//! The state word of a slot.
//!
//! | bits | |
//! |---|---|
//! | 0–2 | state: 0 free, 1 claimed, 2 ready, 3 discarded |
//! | 3–18 | producer that claimed it; 0 if free |
//! | 19–63 | position: which turn of the slot this is |
//!
//! Positions count messages. Position `p` lies in slot `p mod n`, and the slot is used for `p`, `p + n`,
//! `p + 2n`, …: each word is used once (positions repeat after 2^45 messages), so that a comparison with
//! exchange never mistakes one turn for another.

use super::ProducerId;

const STATE_BITS: u32 = 3;
const OWNER_BITS: u32 = 16;
const POSITION_SHIFT: u32 = STATE_BITS + OWNER_BITS;
const STATE_MASK: u64 = (1 << STATE_BITS) - 1;

const FREE: u64 = 0;
const CLAIMED: u64 = 1;
const READY: u64 = 2;
const DISCARDED: u64 = 3;

const _: () = assert!(OWNER_BITS == ProducerId::BITS && POSITION_SHIFT == 19);

/// What is being done with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ring) enum State {
    Free,
    Claimed(ProducerId),
    Ready(ProducerId),
    Discarded(ProducerId),
    /// No side writes this.
    Nonsense,
}

/// A slot's state word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ring) struct Word(pub(in crate::ring) u64);

impl Word {
    #[inline]
    pub(in crate::ring) fn free(position: u64) -> Self {
        Self(position << POSITION_SHIFT | FREE)
    }

    #[inline]
    pub(in crate::ring) fn claimed(position: u64, owner: ProducerId) -> Self {
        Self(position << POSITION_SHIFT | u64::from(owner) << STATE_BITS | CLAIMED)
    }

    #[inline]
    pub(in crate::ring) fn ready(position: u64, owner: ProducerId) -> Self {
        Self(position << POSITION_SHIFT | u64::from(owner) << STATE_BITS | READY)
    }

    #[inline]
    pub(in crate::ring) fn discarded(position: u64, owner: ProducerId) -> Self {
        Self(position << POSITION_SHIFT | u64::from(owner) << STATE_BITS | DISCARDED)
    }

    #[inline]
    pub(in crate::ring) fn state(self) -> State {
        let owner = (self.0 >> STATE_BITS) as ProducerId;
        match self.0 & STATE_MASK {
            FREE if owner == 0 => State::Free,
            CLAIMED => State::Claimed(owner),
            READY => State::Ready(owner),
            DISCARDED => State::Discarded(owner),
            _ => State::Nonsense,
        }
    }

    /// How far this word's position is ahead of `position`; negative if it is behind. Right across the point
    /// where positions repeat.
    #[inline]
    pub(in crate::ring) fn ahead_of(self, position: u64) -> i64 {
        // Both are shifted to the top, so that the difference wraps where the positions do.
        let difference =
            (self.0 >> POSITION_SHIFT << POSITION_SHIFT).wrapping_sub(position << POSITION_SHIFT);
        difference.cast_signed() >> POSITION_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_with_every_part_at_its_limits() {
        for position in [0, 1, 77, (1 << 45) - 1] {
            assert_eq!(Word::free(position).state(), State::Free);
            assert_eq!(Word::free(position).ahead_of(position), 0);
            for owner in [0, 1, u16::MAX] {
                assert_eq!(Word::claimed(position, owner).state(), State::Claimed(owner));
                assert_eq!(Word::ready(position, owner).state(), State::Ready(owner));
                assert_eq!(Word::discarded(position, owner).state(), State::Discarded(owner));
                assert_eq!(Word::ready(position, owner).ahead_of(position), 0);
            }
        }
    }

    #[test]
    fn free_with_an_owner_and_unknown_states_are_nonsense() {
        assert_eq!(Word(Word::free(3).0 | 1 << STATE_BITS).state(), State::Nonsense);
        assert!((4..8).all(|bits| Word(Word::free(3).0 | bits).state() == State::Nonsense));
    }

    #[test]
    fn distances_are_right_where_positions_repeat() {
        let last = (1u64 << 45) - 1;
        assert_eq!(Word::free(last + 3).ahead_of(last), 3);
        assert_eq!(Word::free(last).ahead_of(last + 3), -3);
        assert_eq!(Word::free(8).ahead_of(0), 8);
        assert_eq!(Word::free(0).ahead_of(8), -8);
    }
}

//! The producers' algorithm of a ring of slots, over any memory.
//!
//! Protocol, with `n` slots:
//!
//! 1. `tail` is about the next position to claim. A producer reads it, and takes the slot of that position
//!    from free to claimed-by-me with one compare-and-exchange: claim and owner are one step, so there is
//!    never a claim of nobody.
//! 2. Then it moves `tail` on. If it dies before that, the next producer sees the slot claimed and moves
//!    `tail` for it.
//! 3. It fills the slot, then takes it from claimed-by-me to ready (Release), or to discarded.
//! 4. The consumer, in order of position, takes what is ready and makes the slot free for position + `n`
//!    (Release).
//! 5. The consumer takes the claims of a proven dead producer to discarded. Only the owner and the holder of
//!    a proof of its death ever touch a claim.

use super::state::{State, Word};
use super::{ClaimError, ProducerId};
use crate::ring::words::Words;
use crate::sync::{AtomicU64, Ordering};

/// Index of the word that holds the tail.
const TAIL: usize = 0;
/// Index of the first slot's first word; between lie the words of the doorbell (see `ends`).
pub(in crate::ring) const FIRST_SLOT: usize = 48;
/// Words of a slot before its payload: state and length.
const SLOT_HEAD_WORDS: usize = 2;
/// A slot begins a cache line, so that a small message travels with its state.
const SLOT_ALIGN_BYTES: usize = 64;

/// Slots in any memory; as many producers as like use it at once.
#[derive(Debug)]
pub(in crate::ring) struct Slots<D> {
    data: D,
    /// Number of slots, a power of two.
    slots: u64,
    slot_bytes: usize,
    stride_words: usize,
}

/// Words from one slot to the next, for `slot_bytes` of payload.
pub(in crate::ring) const fn stride_words(slot_bytes: usize) -> usize {
    (SLOT_HEAD_WORDS * 8 + slot_bytes).next_multiple_of(SLOT_ALIGN_BYTES) / 8
}

/// Words that so many slots take, with what is before them.
pub(in crate::ring) const fn words(slots: u64, slot_bytes: usize) -> Option<usize> {
    match stride_words(slot_bytes).checked_mul(slots as usize) {
        Some(words) => words.checked_add(FIRST_SLOT),
        None => None,
    }
}

impl<D: Words> Slots<D> {
    /// `slots` (a power of two, at least 2) slots of `slot_bytes` in `data`, which has [`words`] words.
    pub(in crate::ring) fn new(data: D, slots: u64, slot_bytes: usize) -> Self {
        debug_assert!(slots.is_power_of_two() && slots >= 2);
        Self { data, slots, slot_bytes, stride_words: stride_words(slot_bytes) }
    }

    /// Makes all slots free for their first turn. By the one who makes the ring, before anybody else sees it.
    pub(in crate::ring) fn set_up(&self) {
        for position in 0..self.slots {
            self.state(position).store(Word::free(position).0, Ordering::Relaxed);
        }
    }

    pub(in crate::ring) fn data(&self) -> &D {
        &self.data
    }

    pub(in crate::ring) fn count(&self) -> u64 {
        self.slots
    }

    pub(in crate::ring) fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Takes a free slot: its position.
    #[inline]
    pub(in crate::ring) fn claim(&self, me: ProducerId) -> Result<u64, ClaimError> {
        // Each turn that fails means that another producer claimed a slot or that the tail moved; the limit
        // is for the case that somebody writes nonsense as fast as we read it.
        for _ in 0..self.slots.saturating_mul(2).saturating_add(64) {
            // Acquire: pairs with the Release in move_tail, so that the state read next is not older than
            // this tail.
            let tail = self.data.word(TAIL).load(Ordering::Acquire);
            // Acquire: pairs with the Release in Taker::release: the consumer is done with the slot's
            // payload.
            let word = Word(self.state(tail).load(Ordering::Acquire));
            match word.ahead_of(tail) {
                0 if word.state() == State::Free => {
                    if self.exchange(tail, word, Word::claimed(tail, me), Ordering::Relaxed) {
                        self.move_tail(tail, tail.wrapping_add(1));
                        return Ok(tail);
                    }
                }
                0 => self.move_tail(tail, tail.wrapping_add(1)),
                // The slot is in a later turn, so the tail is behind: at least the turn before was claimed.
                ahead if ahead > 0 => self.move_tail(tail, tail.wrapping_add_signed(ahead - self.turn() + 1)),
                behind => return Err(self.why_behind(behind, word)),
            }
        }
        Err(ClaimError::Full)
    }

    /// Index of the first payload word of a position's slot.
    #[inline]
    pub(in crate::ring) fn payload(&self, position: u64) -> usize {
        self.slot(position) + SLOT_HEAD_WORDS
    }

    /// Sends a claimed slot's first `len` bytes. False if the claim is no longer ours.
    #[inline]
    pub(in crate::ring) fn commit(&self, position: u64, me: ProducerId, len: usize) -> bool {
        // Relaxed: covered by the Release below.
        self.length(position).store(len as u64, Ordering::Relaxed);
        // Release: pairs with the Acquire in Taker::next: payload and length happen before it.
        self.exchange(position, Word::claimed(position, me), Word::ready(position, me), Ordering::Release)
    }

    /// Gives a claim up. False if it was not (or is no longer) this owner's.
    #[inline]
    pub(in crate::ring) fn discard(&self, position: u64, owner: ProducerId) -> bool {
        // Release: pairs with the Acquire in Taker::next: what the owner wrote happens before the slot's next
        // turn.
        self.exchange(
            position,
            Word::claimed(position, owner),
            Word::discarded(position, owner),
            Ordering::Release,
        )
    }

    /// The state word of a position's slot.
    #[inline]
    pub(in crate::ring) fn state(&self, position: u64) -> &AtomicU64 {
        self.data.word(self.slot(position))
    }

    /// The length word of a position's slot.
    #[inline]
    pub(in crate::ring) fn length(&self, position: u64) -> &AtomicU64 {
        self.data.word(self.slot(position) + 1)
    }

    #[inline]
    fn slot(&self, position: u64) -> usize {
        FIRST_SLOT + (position & (self.slots - 1)) as usize * self.stride_words
    }

    /// Positions from one turn of a slot to its next.
    #[inline]
    fn turn(&self) -> i64 {
        self.slots.cast_signed()
    }

    #[inline]
    fn exchange(&self, position: u64, from: Word, to: Word, success: Ordering) -> bool {
        self.state(position).compare_exchange(from.0, to.0, success, Ordering::Relaxed).is_ok()
    }

    /// Moves the tail on, unless another thread did.
    #[inline]
    fn move_tail(&self, from: u64, to: u64) {
        // Release: pairs with the Acquire in claim. A process that sees the new tail sees the slot's claim
        // too.
        let _ = self.data.word(TAIL).compare_exchange(from, to, Ordering::Release, Ordering::Relaxed);
    }

    /// The slot at the tail is in an earlier turn.
    #[cold]
    fn why_behind(&self, behind: i64, word: Word) -> ClaimError {
        match word.state() {
            // The consumer has not taken the last message (or claim) in this slot.
            State::Claimed(_) | State::Ready(_) | State::Discarded(_) if behind == -self.turn() => {
                ClaimError::Full
            }
            _ => ClaimError::Corrupt { what: "a tail that is ahead of the slots" },
        }
    }
}

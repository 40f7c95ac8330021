//! The consumer's algorithm of a ring of slots, over any memory. The protocol is described in
//! `slots`.

use super::ProducerId;
use super::slots::Slots;
use super::state::{State, Word};
use crate::ring::reader::BadWriter;
use crate::ring::words::Words;
use crate::sync::Ordering;

/// What is at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ring) enum Next {
    /// A message: index of its first word, and its length, which fits the slot.
    Message { word: usize, len: usize, owner: ProducerId },
    /// Nothing.
    Empty,
    /// A claim that is not committed.
    Pending(ProducerId),
}

/// The consumer's end. Its position is its own: no producer can move it.
#[derive(Debug)]
pub(in crate::ring) struct Taker<D> {
    slots: Slots<D>,
    head: u64,
    broken: Option<BadWriter>,
}

impl<D: Words> Taker<D> {
    pub(in crate::ring) fn new(slots: Slots<D>) -> Self {
        Self { slots, head: 0, broken: None }
    }

    pub(in crate::ring) fn slots(&self) -> &Slots<D> {
        &self.slots
    }

    /// What is at the head, after dropping discarded claims. A message stays there until [`Taker::release`].
    #[inline]
    pub(in crate::ring) fn next(&mut self) -> Result<Next, BadWriter> {
        if let Some(reason) = self.broken {
            return Err(reason);
        }
        // One turn of the ring at most, so that nobody can keep us here by discarding as fast as we skip.
        for _ in 0..self.slots.count() {
            // Acquire: pairs with the Release in Slots::commit and Slots::discard.
            let word = Word(self.slots.state(self.head).load(Ordering::Acquire));
            if word.ahead_of(self.head) != 0 {
                return Err(self.break_off("a slot in the wrong turn"));
            }
            match word.state() {
                State::Free => return Ok(Next::Empty),
                State::Claimed(owner) => return Ok(Next::Pending(owner)),
                State::Ready(owner) => return self.message(owner),
                State::Discarded(_) => self.release(),
                State::Nonsense => return Err(self.break_off("a slot state that means nothing")),
            }
        }
        Ok(Next::Empty)
    }

    /// Gives the slot at the head back and continues.
    #[inline]
    pub(in crate::ring) fn release(&mut self) {
        let next_turn = Word::free(self.head.wrapping_add(self.slots.count()));
        // Release: pairs with the Acquire in Slots::claim. Our reads of the payload happen before the next
        // one's writes.
        self.slots.state(self.head).store(next_turn.0, Ordering::Release);
        self.head = self.head.wrapping_add(1);
    }

    /// Whether there is nothing to take now: no claim, or one that is not committed. A broken ring is not
    /// empty, so that the next look reports it.
    pub(in crate::ring) fn is_empty(&self) -> bool {
        // Acquire: as in next.
        let word = Word(self.slots.state(self.head).load(Ordering::Acquire));
        let nothing_ready = matches!(word.state(), State::Free | State::Claimed(_));
        self.broken.is_none() && word.ahead_of(self.head) == 0 && nothing_ready
    }

    /// Throws away all claims of an owner that cannot act any more: how many.
    pub(in crate::ring) fn discard_all_of(&mut self, owner: ProducerId) -> u64 {
        // All live positions lie within one turn from the head, and a dead owner claims no new ones.
        (0..self.slots.count()).filter(|i| self.slots.discard(self.head.wrapping_add(*i), owner)).count()
            as u64
    }

    #[inline]
    fn message(&mut self, owner: ProducerId) -> Result<Next, BadWriter> {
        // Relaxed: the Acquire of the state covers it. Read once: it may change under us.
        let len = self.slots.length(self.head).load(Ordering::Relaxed);
        match usize::try_from(len) {
            Ok(len) if len <= self.slots.slot_bytes() => {
                Ok(Next::Message { word: self.slots.payload(self.head), len, owner })
            }
            _ => Err(self.break_off("a message longer than its slot")),
        }
    }

    #[cold]
    fn break_off(&mut self, why: &'static str) -> BadWriter {
        *self.broken.get_or_insert(BadWriter(why))
    }
}

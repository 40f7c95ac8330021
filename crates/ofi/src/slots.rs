//! Which operation has which send slot, and how it ended.
//!
//! A lock per slot is taken when an operation begins and when it ends: some 20 ns each without contention, of
//! the 20 µs that the fastest provider without hardware takes.
//!
//! A peer has at most half of the slots, so that one that freezes leaves room for the others. Two that freeze
//! do not: their slots are free again when the provider gives up on them, or the end point is closed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shm::sync::{AtomicU32, AtomicU64, Ordering};

use crate::error::{OfiError, Result};
use crate::message::Answer;
use crate::peer::PeerState;
use crate::port::SEND_SLOTS;

/// What an operation is, for messages, and how it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nobody waits: an error is the peer's.
    Put,
    /// Nobody waits: an error is the peer's; the slot keeps its bytes, to be sent over another rail.
    Chunk,
    /// Nobody waits: an error is the peer's.
    Ring,
    /// Somebody waits for the completion.
    Get,
    /// Somebody waits for the completion and the reply.
    Atomic,
    /// Somebody waits for the completion and the reply.
    Data,
    /// The same, and it may be asked again: nothing is changed by it.
    Question,
    /// A doorbell with a number, by which the owner counts it once: nobody waits, and it may be lost.
    Trigger,
    /// Data with such a number: somebody waits for the reply, and it may be sent again.
    Message,
    /// The same of an atomic operation, or of stores.
    Order,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Put | Self::Chunk => "a put",
            Self::Ring | Self::Trigger => "a doorbell",
            Self::Get => "a get",
            Self::Atomic | Self::Order => "an atomic operation",
            Self::Data | Self::Message => "a message",
            Self::Question => "a question",
        }
    }

    fn is_waited_for(self) -> bool {
        matches!(self, Self::Get) || self.wants_reply()
    }

    fn wants_reply(self) -> bool {
        matches!(self, Self::Atomic | Self::Data | Self::Question | Self::Message | Self::Order)
    }

    /// What must not be done a second time: the peer may have seen that it was done, and gone on.
    pub(crate) fn is_done_once(self) -> bool {
        matches!(self, Self::Put | Self::Ring | Self::Atomic | Self::Data)
    }
}

/// All send slots.
#[derive(Debug)]
pub(crate) struct Slots {
    /// A bit per slot: set, it is free.
    free: AtomicU32,
    slots: Box<[Slot]>,
}

#[derive(Debug)]
struct Slot {
    /// Odd while the slot carries an operation, another number for each.
    generation: AtomicU64,
    /// Of the peer whose operation it carries or carried.
    peer_number: AtomicU32,
    /// The number of the operation that the provider has not taken yet; 0: none.
    waiting: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    operation: Option<(Arc<PeerState>, Kind)>,
    /// Bytes of a chunk, where the peer counts them.
    bytes: u32,
    is_abandoned: bool,
    completed: Option<Result<()>>,
    reply: Option<Answer>,
}

const _: () = assert!(SEND_SLOTS <= 32);

/// Slots that one peer may have.
pub(crate) const SLOTS_OF_A_PEER: u32 = SEND_SLOTS as u32 / 2;

impl Slots {
    pub(crate) fn new() -> Self {
        let slot = || Slot {
            generation: AtomicU64::new(0),
            peer_number: AtomicU32::new(0),
            waiting: AtomicU64::new(0),
            inner: Mutex::default(),
        };
        Self {
            free: AtomicU32::new(u32::MAX >> (32 - SEND_SLOTS)),
            slots: (0..SEND_SLOTS).map(|_| slot()).collect(),
        }
    }

    fn inner(&self, slot: usize) -> MutexGuard<'_, Inner> {
        self.slots[slot].inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a free slot, the lowest, whose memory is the likeliest to be in a cache.
    #[inline]
    pub(crate) fn claim(&self, peer: &Arc<PeerState>, kind: Kind) -> Option<usize> {
        if peer.held.fetch_add(1, Ordering::SeqCst) >= SLOTS_OF_A_PEER {
            peer.held.fetch_sub(1, Ordering::SeqCst);
            return None;
        }
        let claimed = self.claim_free(peer, kind);
        if claimed.is_none() {
            peer.held.fetch_sub(1, Ordering::SeqCst);
        }
        claimed
    }

    #[inline]
    fn claim_free(&self, peer: &Arc<PeerState>, kind: Kind) -> Option<usize> {
        let mut free = self.free.load(Ordering::Relaxed);
        let slot = loop {
            if free == 0 {
                return None;
            }
            let slot = free.trailing_zeros();
            // Acquire: pairs with the Release of `free_again`.
            match self.free.compare_exchange_weak(
                free,
                free & !(1 << slot),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => break slot as usize,
                Err(now) => free = now,
            }
        };
        if !kind.is_waited_for() {
            peer.outstanding.fetch_add(1, Ordering::SeqCst);
        }
        self.slots[slot].peer_number.store(peer.number, Ordering::SeqCst);
        self.slots[slot].generation.fetch_add(1, Ordering::SeqCst);
        self.inner(slot).operation = Some((Arc::clone(peer), kind));
        Some(slot)
    }

    /// The provider has no room yet for the operation of a claimed slot: its number.
    pub(crate) fn waits(&self, slot: usize) -> u64 {
        let generation = self.generation(slot);
        self.slots[slot].waiting.store(generation, Ordering::SeqCst);
        generation
    }

    /// It was posted, or never will be. By now the slot may carry another one.
    pub(crate) fn waits_no_more(&self, slot: usize, generation: u64) {
        let waiting = &self.slots[slot].waiting;
        let _ = waiting.compare_exchange(generation, 0, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Gives a slot back whose operation was never posted.
    pub(crate) fn unclaim(&self, slot: usize) {
        let inner = self.inner(slot);
        self.free_again(slot, inner);
    }

    fn free_again(&self, slot: usize, mut inner: MutexGuard<'_, Inner>) {
        let Inner { operation, bytes, .. } = std::mem::take(&mut *inner);
        drop(inner);
        self.slots[slot].generation.fetch_add(1, Ordering::SeqCst);
        // Release: pairs with the Acquire in `claim_free`.
        self.free.fetch_or(1 << slot, Ordering::Release);
        if let Some((peer, kind)) = operation {
            peer.held.fetch_sub(1, Ordering::SeqCst);
            if !kind.is_waited_for() {
                peer.one_ended();
            }
            if bytes > 0 {
                // Relaxed: they affect only the choice of a rail, and whether it counts as silent.
                peer.chunks_ended.fetch_add(1, Ordering::Relaxed);
                peer.chunk_bytes.fetch_sub(u64::from(bytes), Ordering::Relaxed);
            }
        }
    }

    /// The peer counts these bytes until the operation of the slot, a chunk, has ended. Before it is posted.
    pub(crate) fn count_bytes(&self, slot: usize, bytes: usize) {
        let (mut inner, bytes) = (self.inner(slot), u32::try_from(bytes).unwrap_or(u32::MAX));
        if let Some((peer, _)) = &inner.operation {
            peer.chunk_bytes.fetch_add(u64::from(bytes), Ordering::Relaxed);
            inner.bytes = bytes;
        }
    }

    /// The peer and the kind of what a slot carries.
    pub(crate) fn operation(&self, slot: usize) -> Option<(Arc<PeerState>, Kind)> {
        self.inner(slot).operation.clone()
    }

    /// The operation of a slot is over.
    #[inline]
    pub(crate) fn complete(&self, slot: usize, outcome: Result<()>) {
        let mut inner = self.inner(slot);
        let kind = match (&inner.operation, &outcome) {
            (Some((peer, kind)), Err(error)) => {
                peer.lose(*kind);
                peer.fail(error);
                *kind
            }
            (Some((_, kind)), Ok(())) => *kind,
            (None, _) => return,
        };
        let is_kept = kind == Kind::Chunk && outcome.is_err();
        if !kind.is_waited_for() && !is_kept || inner.is_abandoned {
            return self.free_again(slot, inner);
        }
        inner.completed = Some(outcome);
    }

    /// The number of the request that the slot's operation is.
    pub(crate) fn request(&self, slot: usize) -> u64 {
        (self.slots[slot].generation.load(Ordering::SeqCst) << 8) | slot as u64
    }

    /// A peer's answer; `false` if nobody asked.
    pub(crate) fn reply(&self, session: u64, request: u64, answer: Answer) -> bool {
        let slot = (request & 0xff) as usize;
        if slot >= SEND_SLOTS || self.request(slot) != request {
            return false;
        }
        let mut inner = self.inner(slot);
        // Once more behind the lock, under which a slot changes hands.
        let is_asked =
            matches!(&inner.operation, Some((peer, kind)) if kind.wants_reply() && peer.session == session);
        if !is_asked || self.request(slot) != request || inner.reply.is_some() {
            return false;
        }
        inner.reply = Some(answer);
        true
    }

    /// How a waited-for operation ended; `None` while it continues. The slot stays the caller's.
    pub(crate) fn outcome(&self, slot: usize) -> Option<Result<Option<Answer>>> {
        let inner = self.inner(slot);
        let wants_reply = matches!(&inner.operation, Some((_, kind)) if kind.wants_reply());
        match &inner.completed {
            Some(Err(error)) => Some(Err(error.clone())),
            Some(Ok(())) if !wants_reply || inner.reply.is_some() => Some(Ok(inner.reply)),
            _ => None,
        }
    }

    /// The caller waits no more for its operation: the slot is free once it has ended.
    pub(crate) fn let_go(&self, slot: usize) {
        let mut inner = self.inner(slot);
        if inner.completed.is_some() {
            return self.free_again(slot, inner);
        }
        inner.is_abandoned = true;
    }

    /// The number of the operation that a claimed slot carries.
    pub(crate) fn generation(&self, slot: usize) -> u64 {
        self.slots[slot].generation.load(Ordering::SeqCst)
    }

    /// As [`Self::let_go`], if the slot still carries this operation, and not another one.
    pub(crate) fn let_go_of(&self, slot: usize, generation: u64) {
        let mut inner = self.inner(slot);
        // An operation is taken out behind the lock before its number changes.
        if inner.operation.is_none() || self.generation(slot) != generation {
            return;
        }
        if inner.completed.is_some() {
            return self.free_again(slot, inner);
        }
        inner.is_abandoned = true;
    }

    /// The operations of a peer that are under way: slot and generation.
    pub(crate) fn under_way(&self, peer: &PeerState) -> [Option<u64>; SEND_SLOTS] {
        std::array::from_fn(|slot| {
            let its = &self.slots[slot];
            let generation = its.generation.load(Ordering::SeqCst);
            let is_its =
                !generation.is_multiple_of(2) && its.peer_number.load(Ordering::SeqCst) == peer.number;
            is_its.then_some(generation)
        })
    }

    /// Whether the peer has something under way that must not be done a second time, or will have.
    pub(crate) fn has_done_once(&self, peer: &PeerState) -> bool {
        self.has_once(peer, |_, _| true)
    }

    /// The same without what the provider has not taken yet: what follows may be.
    pub(crate) fn has_posted_once(&self, peer: &PeerState) -> bool {
        self.has_once(peer, |slot, generation| self.slots[slot].waiting.load(Ordering::SeqCst) != generation)
    }

    fn has_once(&self, peer: &PeerState, counts: impl Fn(usize, u64) -> bool) -> bool {
        let under_way = self.under_way(peer).into_iter().enumerate();
        let slots =
            under_way.filter(|(slot, generation)| generation.is_some_and(|number| counts(*slot, number)));
        // One that has ended since has no operation, or a later one, of whichever peer.
        let mut kinds = slots.filter_map(|(slot, _)| self.operation(slot));
        kinds.any(|(its, kind)| its.number == peer.number && kind.is_done_once())
    }

    /// Whether other peers have long transfers under way for which somebody still waits.
    pub(crate) fn has_long_of_others(&self, peer: &PeerState) -> bool {
        let is_long = |slot: &Slot| {
            let inner = slot.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let is_under_way = !inner.is_abandoned && inner.completed.is_none();
            let is_others = |(its, kind): &(Arc<PeerState>, Kind)| {
                its.number != peer.number && matches!(kind, Kind::Chunk | Kind::Get)
            };
            is_under_way && inner.operation.as_ref().is_some_and(is_others)
        };
        self.slots.iter().any(is_long)
    }

    /// Whether all these have ended. Those that have are taken out.
    pub(crate) fn have_ended(&self, under_way: &mut [Option<u64>; SEND_SLOTS]) -> bool {
        let mut all = true;
        for (slot, generation) in self.slots.iter().zip(under_way) {
            if generation.is_some_and(|generation| slot.generation.load(Ordering::SeqCst) == generation) {
                all = false;
            } else {
                *generation = None;
            }
        }
        all
    }
}

/// What a timed-out wait was for.
pub(crate) fn timed_out(peer: &PeerState, kind: Kind, limit_ms: u64, state: &'static str) -> OfiError {
    OfiError::TimedOut { what: kind.name(), peer: peer.name.clone(), limit_ms, state }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u32) -> Arc<PeerState> {
        Arc::new(PeerState::new("the peer", 7, crate::port::Address::NONE, number))
    }

    #[test]
    fn a_barrier_waits_for_what_was_begun_before_it_and_for_nothing_else() {
        let (slots, mine, other) = (Slots::new(), peer(1), peer(2));
        let first = slots.claim(&mine, Kind::Put).unwrap();
        slots.claim(&other, Kind::Put).unwrap();
        let mut under_way = slots.under_way(&mine);
        assert!(!slots.have_ended(&mut under_way));
        slots.complete(first, Ok(()));
        // The same slot again.
        assert_eq!(slots.claim(&mine, Kind::Put), Some(first));
        assert!(slots.have_ended(&mut under_way));
        slots.complete(first, Ok(()));
        assert!(slots.have_ended(&mut slots.under_way(&mine)));
        assert_eq!(mine.outstanding.load(Ordering::SeqCst), 0);
    }

    /// Operations that end while a barrier looks are not waited for.
    #[test]
    fn a_barrier_ends_whenever_operations_end() {
        let (slots, peer) = (Slots::new(), peer(1));
        std::thread::scope(|scope| {
            let (posted_tx, posted) = std::sync::mpsc::channel();
            let slots = &slots;
            scope.spawn(move || posted.into_iter().for_each(|slot| slots.complete(slot, Ok(()))));
            for round in 0..20_000 {
                for _ in 0..round % 5 {
                    // All are free after each round's barrier.
                    posted_tx.send(slots.claim(&peer, Kind::Put).unwrap()).unwrap();
                }
                let mut under_way = slots.under_way(&peer);
                while !slots.have_ended(&mut under_way) {
                    std::thread::yield_now();
                }
                while peer.outstanding.load(Ordering::SeqCst) > 0 {
                    std::thread::yield_now();
                }
            }
        });
    }

    #[test]
    fn only_the_answer_that_was_asked_for_is_taken() {
        let (slots, peer) = (Slots::new(), peer(1));
        let slot = slots.claim(&peer, Kind::Atomic).unwrap();
        let request = slots.request(slot);
        let answer = Answer::Was(3);
        assert!(!slots.reply(8, request, answer), "another session");
        assert!(!slots.reply(7, request + 256, answer), "another operation");
        assert!(!slots.reply(7, u64::MAX, answer), "no slot");
        assert!(slots.reply(7, request, answer));
        assert!(!slots.reply(7, request, Answer::Was(4)), "twice");
        assert!(slots.outcome(slot).is_none(), "sent, not yet completed");
        slots.complete(slot, Ok(()));
        assert_eq!(slots.outcome(slot).unwrap().unwrap(), Some(answer));
        slots.let_go(slot);
        assert!(!slots.reply(7, request, answer), "over");
    }

    #[test]
    fn long_transfers_of_others_are_known_until_they_end_or_nobody_waits() {
        let (slots, mine, other) = (Slots::new(), peer(1), peer(2));
        slots.claim(&mine, Kind::Chunk).unwrap();
        slots.claim(&other, Kind::Put).unwrap();
        assert!(!slots.has_long_of_others(&mine));
        assert!(slots.has_long_of_others(&other));
        let [chunk, given_up] = [Kind::Chunk, Kind::Get].map(|kind| slots.claim(&other, kind).unwrap());
        slots.let_go(given_up);
        assert!(slots.has_long_of_others(&mine));
        slots.complete(chunk, Ok(()));
        assert!(!slots.has_long_of_others(&mine));
    }

    #[test]
    fn a_slot_that_was_given_up_is_free_when_its_operation_ends() {
        let (slots, peer) = (Slots::new(), peer(1));
        let all: Vec<_> = std::iter::from_fn(|| slots.claim(&peer, Kind::Get)).collect();
        assert_eq!(all.len(), SLOTS_OF_A_PEER as usize, "the other half is for others");
        slots.let_go(5);
        assert_eq!(slots.claim(&peer, Kind::Get), None);
        slots.complete(5, Ok(()));
        assert_eq!(slots.claim(&peer, Kind::Get), Some(5));
    }

    #[test]
    fn a_chunk_that_fails_keeps_its_slot_until_it_was_sent_again() {
        let (slots, peer) = (Slots::new(), peer(1));
        let error = || OfiError::Gone { peer: "the peer".to_owned(), reason: "a test".to_owned() };
        let [arrived, failed, silent] = [(); 3].map(|()| slots.claim(&peer, Kind::Chunk).unwrap());
        let generations = [arrived, failed, silent].map(|slot| slots.generation(slot));
        let are_free =
            || [0, 1, 2].map(|nth| slots.generation([arrived, failed, silent][nth]) != generations[nth]);
        slots.complete(arrived, Ok(()));
        slots.complete(failed, Err(error()));
        assert_eq!(are_free(), [true, false, false]);
        // Not what has the slot of the first by now.
        let next = slots.claim(&peer, Kind::Chunk).unwrap();
        assert_eq!(next, arrived);
        slots.let_go_of(arrived, generations[0]);
        slots.complete(next, Err(error()));
        assert!(!slots.generation(next).is_multiple_of(2), "it was not let go");
        slots.let_go(next);
        slots.let_go_of(failed, generations[1]);
        slots.let_go_of(silent, generations[2]);
        assert_eq!(are_free(), [true, true, false], "the provider may still read the silent one");
        slots.complete(silent, Err(error()));
        assert_eq!(are_free(), [true; 3]);
        assert_eq!((peer.held.load(Ordering::SeqCst), peer.outstanding.load(Ordering::SeqCst)), (0, 0));
    }

    #[test]
    fn what_must_not_be_done_twice_is_known_while_it_is_under_way_and_when_it_was_lost() {
        let (slots, mine, other) = (Slots::new(), peer(1), peer(2));
        let error = || OfiError::Gone { peer: "the peer".to_owned(), reason: "a test".to_owned() };
        for (kind, is_once) in [
            (Kind::Put, true),
            (Kind::Ring, true),
            (Kind::Atomic, true),
            (Kind::Data, true),
            (Kind::Chunk, false),
            (Kind::Get, false),
            (Kind::Question, false),
            (Kind::Trigger, false),
            (Kind::Message, false),
            (Kind::Order, false),
        ] {
            let slot = slots.claim(&mine, kind).unwrap();
            slots.claim(&other, Kind::Put).unwrap();
            assert_eq!((slots.has_done_once(&mine), mine.has_lost()), (is_once, false), "{kind:?}");
            let waiting = slots.waits(slot);
            assert_eq!((slots.has_done_once(&mine), slots.has_posted_once(&mine)), (is_once, false));
            // That of an earlier operation changes nothing.
            slots.waits_no_more(slot, waiting.wrapping_sub(2));
            assert!(!slots.has_posted_once(&mine));
            slots.waits_no_more(slot, waiting);
            assert_eq!(slots.has_posted_once(&mine), is_once, "{kind:?}");
            let failing = peer(1);
            let lost = slots.claim(&failing, kind).unwrap();
            slots.complete(lost, Err(error()));
            assert_eq!(failing.has_lost(), is_once, "{kind:?}");
            slots.let_go(lost);
            slots.complete(slot, Ok(()));
            slots.let_go_of(slot, slots.generation(slot));
            if let Some((_, kind)) = slots.operation(slot).filter(|(peer, _)| peer.number == 1) {
                slots.reply(7, slots.request(slot), Answer::Was(0));
                assert!(kind.is_waited_for());
                slots.unclaim(slot);
            }
            assert!(!slots.has_done_once(&mine), "{kind:?}");
        }
    }

    #[test]
    fn bytes_of_chunks_are_counted_until_they_have_ended() {
        let (slots, peer) = (Slots::new(), peer(1));
        let bytes = || peer.chunk_bytes.load(Ordering::Relaxed);
        let [first, second] = [(); 2].map(|()| slots.claim(&peer, Kind::Put).unwrap());
        slots.count_bytes(first, 1000);
        slots.count_bytes(second, 24);
        assert_eq!(bytes(), 1024);
        slots.complete(first, Ok(()));
        assert_eq!(bytes(), 24);
        slots.unclaim(second);
        assert_eq!(bytes(), 0);
        // The same slot without.
        let again = slots.claim(&peer, Kind::Put).unwrap();
        slots.complete(again, Ok(()));
        assert_eq!(bytes(), 0);
    }
}

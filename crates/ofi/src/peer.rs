//! A peer: put, get, doorbells, atomic operations on what it has exported.
//!
//! The first failure of anything that goes to a peer is the peer's: all that follows fails with the same
//! error, and [`Peer::barrier`] tells it. What was put before may or may not have arrived. A new [`Peer`]
//! begins anew.

mod question;
mod queue;
mod state;

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use shm::sync::Ordering;
use shm::window::Window;

use fabric_sys::constants::{FI_ORDER_RAW, FI_ORDER_SAS, FI_ORDER_SAW, FI_ORDER_WAW};

use crate::card::MemoryCard;
use crate::endpoint::{Endpoint, Inside};
use crate::error::{OfiError, Result};
use crate::message::{Answer, AtomicOp, Body, DATA_BYTES_MAX, Delivery, MESSAGE_BYTES, Message, Width};
use crate::port::{SEND_SLOT_BYTES, Target, WriteEnd};
use crate::rails::Fence;
use crate::slots::Kind;
pub(crate) use question::Probe;
use queue::Queue;
pub(crate) use state::PeerState;

/// See the module. May be used by any threads at once; dropping it ends the session.
#[derive(Debug)]
pub struct Peer {
    pub(crate) inside: Arc<Inside>,
    pub(crate) state: Arc<PeerState>,
}

/// What one read or write of remote memory is about.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// From the start of the block on.
    pub(crate) at: usize,
    pub(crate) len: usize,
    /// At the peer.
    pub(crate) address: u64,
}

/// Pieces as long as a slot. The card and the caller's check of the range keep them within an address space;
/// the owner checks them again.
pub(crate) fn pieces(card: &MemoryCard, offset: usize, len: usize) -> impl Iterator<Item = Piece> + use<> {
    let start = card.base.wrapping_add(offset as u64);
    (0..len).step_by(SEND_SLOT_BYTES).map(move |at| Piece {
        at,
        len: SEND_SLOT_BYTES.min(len - at),
        address: start.wrapping_add(at as u64),
    })
}

impl Peer {
    /// Its name in messages.
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The failure that ended it, if one has.
    pub fn failure(&self) -> Option<OfiError> {
        self.state.failure.get().cloned()
    }

    /// Tells that it is gone, which the control plane may know before the provider: a process that waits for
    /// it gets an error now.
    pub fn lost(&self, reason: &str) {
        self.state.fail(&OfiError::Gone { peer: self.state.name.clone(), reason: reason.to_owned() });
        self.inside.engine.events.wake();
    }

    /// Whether puts, and messages after puts, keep their order without waiting.
    fn keeps(&self, order: u64) -> bool {
        self.inside.order & order != 0
    }

    pub(crate) fn ordered_after_puts(&self, order: u64) -> Result<()> {
        if self.keeps(order) { Ok(()) } else { self.barrier() }
    }

    /// Begins to write a block; the caller has checked the range. `from` may be changed when it returns; the
    /// block is there for sure after the next [`Peer::barrier`]. Blocks of one thread arrive in their order.
    #[inline]
    pub fn put(&self, card: &MemoryCard, offset: usize, from: &[u8]) -> Result<()> {
        self.put_pieces(card, offset, from.len(), |memory, piece| {
            Ok(memory.put(0, &from[piece.at..piece.at + piece.len])?)
        })
    }

    /// The same, out of shared memory.
    pub fn put_from(&self, card: &MemoryCard, offset: usize, source: &Window<'_>) -> Result<()> {
        self.put_pieces(card, offset, source.len(), |memory, piece| {
            Ok(source.copy_to(piece.at, memory, 0, piece.len)?)
        })
    }

    /// As [`Peer::put_from`] of a block that fits a slot, if it can be begun now without a wait: whether it
    /// was. Blocks of one thread arrive in their order, also beside those of [`Peer::put_from`].
    pub(crate) fn try_put_from(&self, card: &MemoryCard, offset: usize, source: &Window<'_>) -> Result<bool> {
        let (engine, peer) = (&self.inside.engine, &self.state);
        // A provider that keeps no order gets a block when those before it have arrived.
        if !self.keeps(FI_ORDER_WAW) && !self.has_arrived()? {
            return Ok(false);
        }
        // Which is one piece, or none.
        let Some(piece) = pieces(card, offset, source.len()).next() else { return Ok(true) };
        let Some(slot) = engine.claim_now(peer, Kind::Put)? else { return Ok(false) };
        let copied = engine.port.slot(slot).and_then(|memory| Ok(source.copy_to(0, &memory, 0, piece.len)?));
        if let Err(error) = copied {
            engine.slots.unclaim(slot);
            return Err(error);
        }
        let target = Target { address: piece.address, len: piece.len, key: card.key };
        let post = || engine.port.write(slot, peer.address, target, WriteEnd::Arrived);
        engine.post_if_room(slot, peer, Kind::Put, post)
    }

    /// Whether all that was put and rung so far has arrived; does not wait. If the peer confirms nothing for
    /// as long as [`Peer::barrier`] would wait, it fails as there; that needs calls now and then.
    pub(crate) fn has_arrived(&self) -> Result<bool> {
        let (engine, peer) = (&self.inside.engine, &self.state);
        let is_done = || peer.outstanding.load(Ordering::SeqCst) == 0;
        if !is_done() {
            engine.progress();
        }
        let is_done = is_done();
        let (now, limit) = (Instant::now(), engine.settings.give_up_after);
        if peer.is_silent_for(limit, !is_done, now) {
            engine.give_up(peer);
        }
        // In this order: what leaves by a failure has failed before.
        peer.check()?;
        Ok(is_done)
    }

    #[inline]
    fn put_pieces(
        &self,
        card: &MemoryCard,
        offset: usize,
        len: usize,
        fill: impl Fn(&Window<'_>, Piece) -> Result<()>,
    ) -> Result<()> {
        self.ordered_after_puts(FI_ORDER_WAW)?;
        let (engine, peer) = (&self.inside.engine, &self.state);
        let is_ordered = self.keeps(FI_ORDER_WAW);
        let _at_work = engine.at_work();
        for piece in pieces(card, offset, len) {
            // In order: when the last piece is there, so are the others, and their slots need not wait for
            // the peer's word.
            let is_last = piece.at + piece.len == len;
            let end = if is_last || !is_ordered { WriteEnd::Arrived } else { WriteEnd::SlotFree };
            let target = Target { address: piece.address, len: piece.len, key: card.key };
            let slot = engine.claim(peer, Kind::Put)?;
            if let Err(error) = engine.port.slot(slot).and_then(|memory| fill(&memory, piece)) {
                engine.slots.unclaim(slot);
                return Err(error);
            }
            let post = || engine.port.write(slot, peer.address, target, end);
            engine.post(slot, peer, Kind::Put, post)?;
        }
        Ok(())
    }

    /// Begins to write a chunk, if there is room for it now: it is confirmed by itself, and in no order with
    /// others. If it is to be kept, its slot stays as it is when it fails. Returns the slot and the number of
    /// its operation.
    pub(crate) fn try_put_chunk(
        &self,
        card: &MemoryCard,
        piece: Piece,
        is_kept: bool,
        fill: impl Fn(&Window<'_>, Piece) -> Result<()>,
    ) -> Result<Option<(usize, u64)>> {
        let (engine, peer) = (&self.inside.engine, &self.state);
        peer.check()?;
        let kind = if is_kept { Kind::Chunk } else { Kind::Put };
        let Some(slot) = engine.slots.claim(peer, kind) else { return Ok(None) };
        let generation = engine.slots.generation(slot);
        if let Err(error) = engine.port.slot(slot).and_then(|memory| fill(&memory, piece)) {
            engine.slots.unclaim(slot);
            return Err(error);
        }
        engine.slots.count_bytes(slot, piece.len);
        let target = Target { address: piece.address, len: piece.len, key: card.key };
        let post = || engine.port.write(slot, peer.address, target, WriteEnd::Arrived);
        Ok(engine.post_if_room(slot, peer, kind, post)?.then_some((slot, generation)))
    }

    /// Begins to read a chunk, if there is room for it now: its slot, for [`Peer::end_get`].
    pub(crate) fn try_get_chunk(&self, card: &MemoryCard, piece: Piece) -> Result<Option<usize>> {
        let (engine, peer) = (&self.inside.engine, &self.state);
        peer.check()?;
        let Some(slot) = engine.slots.claim(peer, Kind::Get) else { return Ok(None) };
        engine.slots.count_bytes(slot, piece.len);
        let post = || engine.port.read(slot, piece.len, peer.address, piece.address, card.key);
        Ok(engine.post_if_room(slot, peer, Kind::Get, post)?.then_some(slot))
    }

    /// Reads a block; the caller has checked the range.
    pub fn get(&self, card: &MemoryCard, offset: usize, into: &mut [u8]) -> Result<()> {
        let len = into.len();
        self.get_pieces(card, offset, len, |memory, piece| {
            Ok(memory.get(0, &mut into[piece.at..piece.at + piece.len])?)
        })
    }

    /// The same, into shared memory.
    pub fn get_to(&self, card: &MemoryCard, offset: usize, target: &Window<'_>) -> Result<()> {
        self.get_pieces(card, offset, target.len(), |memory, piece| {
            Ok(memory.copy_to(0, target, piece.at, piece.len)?)
        })
    }

    /// As many as a peer may have under way.
    pub(crate) fn get_pieces(
        &self,
        card: &MemoryCard,
        offset: usize,
        len: usize,
        mut drain: impl FnMut(&Window<'_>, Piece) -> Result<()>,
    ) -> Result<()> {
        self.ordered_after_puts(FI_ORDER_RAW)?;
        let _at_work = self.inside.engine.at_work();
        // From the oldest on.
        let mut under_way = Queue::default();
        let mut result = Ok(());
        for piece in pieces(card, offset, len) {
            result = self.begin_get(card, piece, &mut under_way, &mut drain);
            if result.is_err() {
                break;
            }
        }
        while let Some((slot, piece)) = under_way.pop() {
            if result.is_ok() {
                result = self.end_get(slot, piece, &mut drain);
            } else {
                self.inside.engine.slots.let_go(slot);
            }
        }
        result
    }

    /// Waits for a slot only if it has none itself: threads that each keep some and wait for more would wait
    /// for each other.
    fn begin_get(
        &self,
        card: &MemoryCard,
        piece: Piece,
        under_way: &mut Queue,
        drain: &mut impl FnMut(&Window<'_>, Piece) -> Result<()>,
    ) -> Result<()> {
        let (engine, peer) = (&self.inside.engine, &self.state);
        let slot = loop {
            if let Some(slot) = engine.slots.claim(peer, Kind::Get) {
                break slot;
            }
            match under_way.pop() {
                Some((slot, piece)) => self.end_get(slot, piece, drain)?,
                None => break engine.claim(peer, Kind::Get)?,
            }
        };
        let post = || engine.port.read(slot, piece.len, peer.address, piece.address, card.key);
        engine.post(slot, peer, Kind::Get, post)?;
        under_way.push(slot, piece);
        Ok(())
    }

    pub(crate) fn end_get(
        &self,
        slot: usize,
        piece: Piece,
        drain: &mut impl FnMut(&Window<'_>, Piece) -> Result<()>,
    ) -> Result<()> {
        let engine = &self.inside.engine;
        engine.finish(slot, &self.state, Kind::Get)?;
        let drained = engine.port.slot(slot).and_then(|memory| drain(&memory, piece));
        engine.slots.let_go(slot);
        drained
    }

    /// Rings a doorbell of the peer. Blocks that this thread has put before are there when it rings.
    #[inline]
    pub fn ring(&self, bell: u64) -> Result<()> {
        self.ordered_after_puts(FI_ORDER_SAW)?;
        // Release: pairs with the Acquire in `confirm_rings`.
        self.state.has_rung.store(true, Ordering::Release);
        self.send(Kind::Ring, |_| Body::Ring { bell, number: 0 }, &[]).map(drop)
    }

    /// Waits until the peer has dealt with all doorbells that were rung: a session that ends may overtake the
    /// last of them, because its end is told by another way. A reply to a later message says so; it is about
    /// memory that nobody has.
    pub fn confirm_rings(&self) -> Result<()> {
        // Acquire: pairs with the Release in `ring`.
        if !self.inside.is_own() || !self.state.has_rung.swap(false, Ordering::Acquire) {
            return Ok(());
        }
        self.ordered_after_puts(FI_ORDER_SAS)?;
        let op = AtomicOp::FetchAdd { add: 0 };
        let nobody = |request| Body::Atomic { memory: 0, offset: 0, width: Width::Four, op, request };
        self.request(Kind::Atomic, nobody, &[]).map(drop)
    }

    /// Gives data to the program that has made `bell`, and waits for what becomes of it. Blocks that this
    /// thread has put before are there when it gets the data.
    pub fn deliver(&self, bell: u64, data: &[u8]) -> Result<Delivery> {
        if data.len() > DATA_BYTES_MAX {
            return Ok(Delivery::TooLong);
        }
        self.ordered_after_puts(FI_ORDER_SAW)?;
        let len = data.len() as u32;
        match self.request(Kind::Data, |request| Body::Data { bell, request, len, number: 0 }, data)? {
            Some(Answer::Took(delivery)) => Ok(delivery),
            _ => Err(self.has_no_doorbell()),
        }
    }

    /// Rings a doorbell, with a number by which the owner knows whether it has counted it. Nothing must have
    /// been put before.
    #[inline]
    pub(crate) fn trigger(&self, bell: u64, number: u64) -> Result<()> {
        self.send(Kind::Trigger, |_| Body::Ring { bell, number }, &[]).map(drop)
    }

    /// For questions of the peer whether what it writes here can still land.
    pub fn fence(&self) -> Fence {
        Fence(Arc::clone(self.inside.engine.port.closing()))
    }

    /// Whether this peer was added at that end point.
    pub fn is_of(&self, end_point: &Endpoint) -> bool {
        Arc::ptr_eq(&self.inside, end_point.inside())
    }

    /// The end point at which it was added.
    pub fn end_point(&self) -> Endpoint {
        Endpoint::of(&self.inside)
    }

    #[cold]
    fn refused(&self, kind: Kind, reason: &'static str) -> OfiError {
        OfiError::Refused { what: kind.name(), peer: self.state.name.clone(), reason }
    }

    #[inline]
    fn send(&self, kind: Kind, body: impl FnOnce(u64) -> Body, data: &[u8]) -> Result<usize> {
        let (engine, peer) = (&self.inside.engine, &self.state);
        let _at_work = engine.at_work();
        let slot = engine.claim(peer, kind)?;
        let message = Message { session: peer.session, body: body(engine.slots.request(slot)) };
        let written = engine.port.slot(slot).and_then(|memory| {
            memory.put(0, &message.encode())?;
            Ok(memory.put(MESSAGE_BYTES, data)?)
        });
        if let Err(error) = written {
            engine.slots.unclaim(slot);
            return Err(error);
        }
        engine.post(slot, peer, kind, || engine.port.send(slot, MESSAGE_BYTES + data.len(), peer.address))?;
        Ok(slot)
    }

    /// Sends a message and waits for the reply.
    fn request(&self, kind: Kind, body: impl FnOnce(u64) -> Body, data: &[u8]) -> Result<Option<Answer>> {
        let engine = &self.inside.engine;
        let slot = self.send(kind, body, data)?;
        let answer = engine.finish(slot, &self.state, kind)?;
        engine.slots.let_go(slot);
        Ok(answer)
    }

    /// An atomic operation by the owner's processor; what was there.
    pub(crate) fn atomic(&self, card: &MemoryCard, offset: usize, width: Width, op: AtomicOp) -> Result<u64> {
        self.ordered_after_puts(FI_ORDER_SAW)?;
        let (memory, offset) = (card.token, offset as u64);
        let body = |request| Body::Atomic { memory, offset, width, op, request };
        match self.request(Kind::Atomic, body, &[])? {
            Some(Answer::Was(was)) => Ok(was),
            _ => Err(self.has_no_such_memory()),
        }
    }

    /// Adds to 8 bytes at the owner, by its processor; what was there.
    pub fn fetch_add_u64(&self, card: &MemoryCard, offset: usize, add: u64) -> Result<u64> {
        self.atomic(card, offset, Width::Eight, AtomicOp::FetchAdd { add })
    }

    /// Has stores carried out at the owner, by its processor, in their order: as many as one message carries.
    /// Blocks that this thread has put before are there by then, and the stores are there when this returns.
    pub(crate) fn store_part(&self, card: &MemoryCard, part: &[u8]) -> Result<()> {
        self.ordered_after_puts(FI_ORDER_SAW)?;
        let (memory, len) = (card.token, part.len() as u32);
        match self.request(Kind::Atomic, |request| Body::Stores { memory, request, len }, part)? {
            Some(Answer::Was(_)) => Ok(()),
            _ => Err(self.has_no_such_memory()),
        }
    }

    /// All that this thread has put, and rung, has arrived when this returns.
    #[inline]
    pub fn barrier(&self) -> Result<()> {
        self.inside.engine.barrier(&self.state)
    }

    /// Waits until a connection stands: the first operation pays for it otherwise.
    pub fn reach(&self, card: &MemoryCard) -> Result<()> {
        let mut nothing = [0; 1];
        let len = nothing.len().min(usize::try_from(card.size_bytes).unwrap_or(0));
        self.get(card, 0, &mut nothing[..len])
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        if !self.inside.is_own() {
            return;
        }
        let engine = &self.inside.engine;
        engine.deal_with_what_came();
        let mut sessions = engine.sessions.write().unwrap_or_else(PoisonError::into_inner);
        // Another peer may have the session by now.
        if sessions.get(&self.state.session).is_some_and(|state| Arc::ptr_eq(state, &self.state)) {
            sessions.remove(&self.state.session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_block_without_gap_or_overlap() {
        let card = MemoryCard { key: 0, token: 0, base: 1000, size_bytes: 1 << 20 };
        for len in [0, 1, SEND_SLOT_BYTES - 1, SEND_SLOT_BYTES, SEND_SLOT_BYTES + 1, 3 * SEND_SLOT_BYTES] {
            let mut next = 0;
            for piece in pieces(&card, 24, len) {
                assert_eq!((piece.at, piece.address), (next, 1024 + next as u64));
                assert!(piece.len > 0 && piece.len <= SEND_SLOT_BYTES);
                next += piece.len;
            }
            assert_eq!(next, len);
        }
    }
}

//! Handles messages of peers, and sends their replies.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use link::Stores;
use shm::region::Region;
use shm::sync::Ordering;

use super::{ECANCELED, Engine};
use crate::atomic::carry_out;
use crate::message::{Answer, AtomicOp, Body, DATA_BYTES_MAX, MESSAGE_BYTES, Message, Width};
use crate::peer::PeerState;
use crate::port::{Failure, Posted};
use crate::replies::{Begun, Reply};

impl Engine {
    /// A receive has ended.
    pub(super) fn received(&self, slot: usize, outcome: Result<usize, Failure>) {
        match outcome {
            Ok(len) => {
                if let Some(reply) = self.message(slot, len) {
                    self.answer(reply);
                }
            }
            Err(failure) if self.is_closing(&failure) => return,
            Err(_) => {
                self.counters.unnamed_errors.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.receive_again(slot);
    }

    /// The end point is being closed: nothing follows.
    fn is_closing(&self, failure: &Failure) -> bool {
        failure.errno == ECANCELED && self.is_stopping.load(Ordering::Acquire)
    }

    /// Carries out a message; returns the reply, if it has one.
    fn message(&self, slot: usize, len: usize) -> Option<Reply> {
        let mut bytes = [0; MESSAGE_BYTES];
        let read = self.port.slot(slot).and_then(|memory| Ok(memory.get(0, &mut bytes)?));
        let decoded = read.ok().and_then(|()| Message::decode(&bytes));
        let Some(message) = decoded.filter(|message| len == MESSAGE_BYTES + message.data_bytes()) else {
            self.counters.garbage.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let peer =
            self.sessions.read().unwrap_or_else(PoisonError::into_inner).get(&message.session).cloned();
        let Some(peer) = peer else { return self.stranger() };
        match message.body {
            Body::Ring { bell, number } => {
                let bell = self.bells.read().unwrap_or_else(PoisonError::into_inner).get(&bell).cloned();
                let Some(bell) = bell else { return self.stranger() };
                bell.ring(number);
                None
            }
            Body::Data { bell, request, number, .. } => {
                let answer = self.take(slot, len, bell, number).unwrap_or(Answer::Refused);
                Some(Self::reply_to(peer, request, answer))
            }
            Body::Stores { memory, request, .. } => {
                let stored = self.store(slot, len, memory).map_or(Answer::Refused, |()| Answer::Was(0));
                Some(Self::reply_to(peer, request, stored))
            }
            Body::Reply { request, answer } => {
                if !self.slots.reply(message.session, request, answer) {
                    return self.stranger();
                }
                None
            }
            Body::Atomic { memory, offset, width, op, request } => {
                let answer = self.atomic(memory, offset, width, op);
                Some(Self::reply_to(peer, request, answer))
            }
        }
    }

    fn reply_to(peer: Arc<PeerState>, request: u64, answer: Answer) -> Reply {
        let bytes = Message { session: peer.session, body: Body::Reply { request, answer } }.encode();
        Reply { peer, bytes }
    }

    /// Gives the data of a message of this length to the program; `None` if it has no such doorbell.
    #[cold]
    fn take(&self, slot: usize, len: usize, bell: u64, number: u64) -> Option<Answer> {
        let mut bytes = [0; DATA_BYTES_MAX];
        let data = bytes.get_mut(..len.checked_sub(MESSAGE_BYTES)?)?;
        let bell = self.bells.read().unwrap_or_else(PoisonError::into_inner).get(&bell).cloned()?;
        self.port.slot(slot).ok()?.get(MESSAGE_BYTES, data).ok()?;
        bell.take(number, data, |order| self.carry_out(order))
    }

    /// Carries out an order for memory, which came as the data of another message; all else is refused.
    fn carry_out(&self, order: &[u8]) -> Answer {
        let (head, part) = order.split_at_checked(MESSAGE_BYTES).unwrap_or_default();
        match Message::decode(head).map(|message| message.body) {
            Some(Body::Atomic { memory, offset, width, op, .. }) if part.is_empty() => {
                self.atomic(memory, offset, width, op)
            }
            Some(Body::Stores { memory, len, .. }) if part.len() == len as usize => {
                self.store_part(memory, part).map_or(Answer::Refused, |()| Answer::Was(0))
            }
            _ => Answer::Refused,
        }
    }

    fn exported(&self, memory: u64) -> Option<Arc<Region>> {
        self.exported.read().unwrap_or_else(PoisonError::into_inner).get(&memory).cloned()
    }

    /// Refused if there is no such memory, or no such word in it.
    fn atomic(&self, memory: u64, offset: u64, width: Width, op: AtomicOp) -> Answer {
        let was = self.exported(memory).and_then(|region| carry_out(&region, offset, width, op));
        was.map_or(Answer::Refused, Answer::Was)
    }

    /// Carries out the stores of a message of this length; `None` if there is no such memory, or not so much
    /// of it.
    #[cold]
    fn store(&self, slot: usize, len: usize, memory: u64) -> Option<()> {
        let mut bytes = [0; DATA_BYTES_MAX];
        let part = bytes.get_mut(..len.checked_sub(MESSAGE_BYTES)?)?;
        // Out of the slot first: it is memory that the provider writes.
        self.port.slot(slot).ok()?.get(MESSAGE_BYTES, part).ok()?;
        self.store_part(memory, part)
    }

    fn store_part(&self, memory: u64, part: &[u8]) -> Option<()> {
        Stores::carry_out(part, &self.exported(memory)?.window()).ok()
    }

    #[cold]
    fn stranger<T>(&self) -> Option<T> {
        self.counters.strangers.fetch_add(1, Ordering::Relaxed);
        None
    }

    fn answer(&self, reply: Reply) {
        match self.replies.begin(reply) {
            Begun::Now(slot, reply) => drop(self.send_reply(slot, reply)),
            Begun::Waits => {}
            Begun::Dropped => {
                self.counters.replies_dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Sends a reply, and those that its slot is free for where it cannot be sent; `false` if the provider
    /// has no room.
    fn send_reply(&self, mut slot: usize, mut reply: Reply) -> bool {
        loop {
            match self.post_reply(slot, &reply) {
                Posted::Yes => return true,
                Posted::Again => {
                    self.counters.again.fetch_add(1, Ordering::Relaxed);
                    self.replies.put_back(slot, reply);
                    return false;
                }
                Posted::Failed(_) => {
                    self.counters.unnamed_errors.fetch_add(1, Ordering::Relaxed);
                }
            }
            match self.replies.ended(slot) {
                Some(next) => (slot, reply) = next,
                None => return true,
            }
        }
    }

    fn post_reply(&self, slot: usize, reply: &Reply) -> Posted {
        let peer = &reply.peer;
        let sessions = self.sessions.read().unwrap_or_else(PoisonError::into_inner);
        let is_over = sessions.get(&peer.session).is_none_or(|there| !Arc::ptr_eq(there, peer));
        drop(sessions);
        if is_over || peer.is_failed() {
            return Posted::Failed(ECANCELED);
        }
        match self.port.slot(slot).and_then(|memory| Ok(memory.put(0, &reply.bytes)?)) {
            Ok(()) => self.port.send(slot, MESSAGE_BYTES, peer.address),
            Err(_) => Posted::Failed(ECANCELED),
        }
    }

    /// A reply has been sent, or has failed.
    pub(super) fn replied(&self, slot: usize, outcome: Result<usize, Failure>) {
        if let Err(failure) = outcome {
            if self.is_closing(&failure) {
                return;
            }
            self.counters.unnamed_errors.fetch_add(1, Ordering::Relaxed);
        }
        if let Some((slot, reply)) = self.replies.ended(slot) {
            self.send_reply(slot, reply);
        }
    }

    /// Tries each address once for which the provider had no room.
    #[cold]
    pub(super) fn reply_later(&self) {
        let mut tries = self.replies.due(Instant::now());
        while tries > 0
            && let Some((slot, reply)) = self.replies.next()
        {
            if !self.send_reply(slot, reply) {
                tries -= 1;
            }
        }
    }
}

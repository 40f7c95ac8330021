//! Atomic operations and stores of a link over rails, which the owner's program carries out. They have
//! numbers as interrupts have, so one that was under way when a rail failed is sent again over another rail
//! and carried out once.

use std::sync::{Mutex, PoisonError};

use fabric_sys::constants::FI_ORDER_SAW;
use link::Stores;

use super::Rails;
use super::numbers::{Once, WINDOW};
use crate::card::MemoryCard;
use crate::error::Result;
use crate::message::{Answer, AtomicOp, Body, DATA_BYTES_MAX, MESSAGE_BYTES, Message, Width};
use crate::peer::Peer;
use crate::slots::Kind;

/// What a peer may ask the owner of memory for, in a message of its own or as the data of one that has a
/// number.
#[derive(Clone, Copy)]
enum Order<'a> {
    Atomic {
        offset: u64,
        width: Width,
        op: AtomicOp,
    },
    /// As [`Stores`] packs them.
    Stores(&'a [u8]),
}

impl Order<'_> {
    /// The message for memory with this token. Its session and request are those of the message whose data it
    /// is.
    fn encode(&self, memory: u64) -> Vec<u8> {
        let (body, part) = match *self {
            Self::Atomic { offset, width, op } => {
                (Body::Atomic { memory, offset, width, op, request: 0 }, &[][..])
            }
            Self::Stores(part) => (Body::Stores { memory, request: 0, len: part.len() as u32 }, part),
        };
        [&Message { session: 0, body }.encode()[..], part].concat()
    }
}

/// The owner's end, of one connection: what became of the latest orders.
#[derive(Debug)]
pub(super) struct Orders(Mutex<Once<Answer>>);

impl Default for Orders {
    fn default() -> Self {
        Self(Mutex::new(Once::new(WINDOW)))
    }
}

impl Orders {
    /// What becomes of an order, or has become of it; refused if it is so old that its sender has an answer.
    pub(super) fn carry_out(&self, number: u64, act: impl FnOnce() -> Answer) -> Answer {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .carry_out(number, act)
            .unwrap_or(Answer::Refused)
    }
}

impl Rails {
    /// An atomic operation on a word of the memory that has these cards, behind all that this thread has put;
    /// what was there.
    pub(crate) fn atomic(
        &self,
        cards: &[MemoryCard],
        offset: usize,
        width: Width,
        op: AtomicOp,
    ) -> Result<u64> {
        let order = Order::Atomic { offset: offset as u64, width, op };
        self.order(cards, order, |peer, card| peer.atomic(card, offset, width, op))
    }

    /// Carries out stores in their order, behind all that this thread has put.
    pub(crate) fn store_all(&self, cards: &[MemoryCard], stores: &Stores) -> Result<()> {
        // Each part by itself: what was carried out is not carried out again if a rail fails after it.
        let mut parts = stores.parts(DATA_BYTES_MAX - MESSAGE_BYTES);
        parts.try_for_each(|part| {
            self.order(cards, Order::Stores(part), |peer, card| peer.store_part(card, part).map(|()| 0))
                .map(drop)
        })
    }

    /// `plain` does it over the only rail, or over rails without which the link cannot go on.
    fn order(
        &self,
        cards: &[MemoryCard],
        order: Order<'_>,
        plain: impl Fn(&Peer, &MemoryCard) -> Result<u64>,
    ) -> Result<u64> {
        let Some(numbers) = &self.0.orders else {
            return self.over_lead(|lead| plain(lead.peer(), lead.card(cards)));
        };
        let _no_chunks = self.0.others_are_done()?;
        let answer = self.0.send_numbered(Kind::Order, numbers, |lead, number| {
            let (peer, bytes) = (lead.peer(), order.encode(lead.card(cards).token));
            peer.ordered_after_puts(FI_ORDER_SAW)?;
            peer.begin_numbered(Kind::Order, lead.bell(), number, &bytes)
        })?;
        match answer {
            Some(Answer::Was(was)) => Ok(was),
            _ => Err(self.0.first.has_no_such_memory()),
        }
    }
}

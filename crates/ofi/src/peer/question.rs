//! Questions to a peer: nothing is changed by one, so it may be asked again, over whichever rail.

use std::time::Duration;

use crate::error::Result;
use crate::message::{ANSWER_WORDS, Answer, AtomicOp, Body, DATA_BYTES_MAX, MESSAGE_BYTES, Message, Width};
use crate::peer::Peer;
use crate::slots::Kind;

/// A question whether the peer responds that is under way.
#[derive(Debug)]
pub(crate) struct Probe {
    slot: usize,
    generation: u64,
}

/// About memory that nobody has.
fn nobody(request: u64) -> Body {
    let op = AtomicOp::FetchAdd { add: 0 };
    Body::Atomic { memory: 0, offset: 0, width: Width::Four, op, request }
}

impl Peer {
    /// Asks a doorbell of the peer that answers ([`Endpoint::bell_answering`](crate::Endpoint::bell_answering)), and waits for at most that
    /// long. No answer is an error of the question alone: the peer has not failed by it.
    pub(crate) fn ask_within(
        &self,
        bell: u64,
        question: &[u8],
        limit: Duration,
    ) -> Result<[u64; ANSWER_WORDS]> {
        let len = question.len().min(DATA_BYTES_MAX) as u32;
        let slot = self.send(Kind::Question, |request| Body::Data { bell, request, len }, question)?;
        let engine = &self.inside.engine;
        let answer = engine.wait_for_answer(slot, &self.state, limit);
        engine.slots.let_go(slot);
        match answer? {
            Some(Answer::Said(words)) => Ok(words),
            _ => Err(self.refused(Kind::Question, "nobody there answers such questions")),
        }
    }

    /// Whether the peer responds within that time. If not, it has failed.
    pub fn responds_within(&self, limit: Duration) -> Result<()> {
        let engine = &self.inside.engine;
        let slot = self.send(Kind::Question, nobody, &[])?;
        engine.finish_within(slot, &self.state, Kind::Question, limit)?;
        engine.slots.let_go(slot);
        Ok(())
    }

    /// Asks whether the peer responds, without waiting; `None`: it cannot be asked now.
    pub(crate) fn begin_probe(&self) -> Option<Probe> {
        let (engine, peer) = (&self.inside.engine, &self.state);
        let slot = engine.slots.claim(peer, Kind::Question)?;
        let message = Message { session: peer.session, body: nobody(engine.slots.request(slot)) };
        let written = engine.port.slot(slot).and_then(|memory| Ok(memory.put(0, &message.encode())?));
        if peer.check().and(written).is_err() {
            engine.slots.unclaim(slot);
            return None;
        }
        let generation = engine.slots.generation(slot);
        let post = || engine.port.send(slot, MESSAGE_BYTES, peer.address);
        let is_posted = engine.post_if_room(slot, peer, Kind::Question, post);
        is_posted.is_ok_and(|is_posted| is_posted).then_some(Probe { slot, generation })
    }

    /// Whether the peer has responded: then the question is over.
    pub(crate) fn has_responded(&self, probe: &Probe) -> bool {
        let engine = &self.inside.engine;
        engine.progress();
        let has_responded = matches!(engine.slots.outcome(probe.slot), Some(Ok(_)));
        if has_responded {
            self.end_probe(probe);
        }
        has_responded
    }

    /// Nobody waits for it any more: its slot is free when it ends.
    pub(crate) fn end_probe(&self, probe: &Probe) {
        self.inside.engine.slots.let_go_of(probe.slot, probe.generation);
    }
}

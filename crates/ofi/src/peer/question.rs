//! Requests to a peer that may be sent again over another rail: questions, and messages with numbers.

use std::time::{Duration, Instant};

use crate::error::{OfiError, Result};
use crate::message::{ANSWER_WORDS, Answer, AtomicOp, Body, DATA_BYTES_MAX, MESSAGE_BYTES, Message, Width};
use crate::peer::Peer;
use crate::slots::{Kind, timed_out};

/// A question whether the peer responds that is under way.
#[derive(Debug)]
pub(crate) struct Probe {
    slot: usize,
    generation: u64,
}

/// Between two looks while it is waited for an answer.
const ASK_AGAIN: Duration = Duration::from_micros(200);
const NO_DOORBELL: &str = "it has no such interrupt, as that may have been removed: connect again";
const NO_MEMORY: &str =
    "it has no such memory, or no such word in it, as the segment may have been withdrawn: connect again";

/// About memory that nobody has.
fn nobody(request: u64) -> Body {
    let op = AtomicOp::FetchAdd { add: 0 };
    Body::Atomic { memory: 0, offset: 0, width: Width::Four, op, request }
}

impl Peer {
    /// Asks a doorbell of the peer that answers
    /// ([`Endpoint::bell_answering`](crate::Endpoint::bell_answering)), and waits for at most that long. No
    /// answer is an error of the question alone: the peer has not failed by it.
    pub(crate) fn ask_within(
        &self,
        bell: u64,
        question: &[u8],
        limit: Duration,
    ) -> Result<[u64; ANSWER_WORDS]> {
        match self.answer_to(Some((bell, question)), limit)? {
            Some(Answer::Said(words)) => Ok(words),
            _ => Err(self.refused(Kind::Question, "what it is about is not there any more: connect again")),
        }
    }

    /// Whether the peer responds within that time. If not, it has failed.
    pub fn responds_within(&self, limit: Duration) -> Result<()> {
        self.answer_to(None, limit).map(drop).map_err(|error| self.state.failed_by(error))
    }

    /// Asks, and waits for at most that long, also until the provider takes the question: it may take nothing
    /// for a peer that is gone.
    fn answer_to(&self, question: Option<(u64, &[u8])>, limit: Duration) -> Result<Option<Answer>> {
        let (engine, started) = (&self.inside.engine, Instant::now());
        let (mut probe, mut outcome) = (None, None);
        engine.wait_until(&engine.spin, ASK_AGAIN, || {
            probe = probe.take().or_else(|| self.begin_probe(question));
            outcome = probe.as_ref().and_then(|probe: &Probe| engine.slots.outcome(probe.slot));
            outcome.is_some() || self.state.is_failed() || started.elapsed() >= limit
        });
        if let Some(probe) = &probe {
            self.end_probe(probe);
        }
        if let Some(answer) = outcome {
            return answer;
        }
        self.state.check()?;
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Err(timed_out(&self.state, Kind::Question, limit_ms, "the peer did not respond"))
    }

    /// The error of memory that the peer does not have, or not any more.
    pub(crate) fn has_no_such_memory(&self) -> OfiError {
        self.refused(Kind::Atomic, NO_MEMORY)
    }

    /// The error of a doorbell that the peer does not have any more.
    pub(crate) fn has_no_doorbell(&self) -> OfiError {
        self.refused(Kind::Message, NO_DOORBELL)
    }

    /// Sends data with a number by which the owner knows whether it has carried it out: the slot, for
    /// [`Self::answer_within`].
    pub(crate) fn begin_numbered(&self, kind: Kind, bell: u64, number: u64, data: &[u8]) -> Result<usize> {
        let len = data.len() as u32;
        self.send(kind, |request| Body::Data { bell, request, len, number }, data)
    }

    /// The answer; `None`: there is none within that time. Then, and only then, the slot is still the
    /// caller's, for another wait or for [`Self::let_go`].
    pub(crate) fn answer_within(&self, slot: usize, limit: Duration) -> Result<Option<Option<Answer>>> {
        let engine = &self.inside.engine;
        let answer = engine.wait_for_answer(slot, &self.state, limit);
        if matches!(answer, Err(OfiError::TimedOut { .. })) && !self.state.is_failed() {
            return Ok(None);
        }
        engine.slots.let_go(slot);
        answer.map(Some)
    }

    /// Nobody waits for its answer any more.
    pub(crate) fn let_go(&self, slot: usize) {
        self.inside.engine.slots.let_go(slot);
    }

    /// Asks whether the peer responds, without waiting, a doorbell that answers if one is given; `None`: it
    /// cannot be asked now.
    pub(crate) fn begin_probe(&self, question: Option<(u64, &[u8])>) -> Option<Probe> {
        let (engine, peer) = (&self.inside.engine, &self.state);
        let slot = engine.slots.claim(peer, Kind::Question)?;
        let request = engine.slots.request(slot);
        let (body, data) = match question {
            Some((bell, data)) => {
                let data = &data[..data.len().min(DATA_BYTES_MAX)];
                (Body::Data { bell, request, len: data.len() as u32, number: 0 }, data)
            }
            None => (nobody(request), &[][..]),
        };
        let message = Message { session: peer.session, body };
        let written = engine.port.slot(slot).and_then(|memory| {
            memory.put(0, &message.encode())?;
            Ok(memory.put(MESSAGE_BYTES, data)?)
        });
        if peer.check().and(written).is_err() {
            engine.slots.unclaim(slot);
            return None;
        }
        let generation = engine.slots.generation(slot);
        let post = || engine.port.send(slot, MESSAGE_BYTES + data.len(), peer.address);
        let is_posted = engine.post_if_room(slot, peer, Kind::Question, post);
        is_posted.is_ok_and(|is_posted| is_posted).then_some(Probe { slot, generation })
    }

    /// The answer, if the peer has responded: then the question is over.
    pub(crate) fn response(&self, probe: &Probe) -> Option<Option<Answer>> {
        let engine = &self.inside.engine;
        engine.progress();
        let response = engine.slots.outcome(probe.slot)?.ok()?;
        self.end_probe(probe);
        Some(response)
    }

    /// Nobody waits for it any more: its slot is free when it ends. Who waits for all that was under way may
    /// sleep, and nothing else would end with it.
    pub(crate) fn end_probe(&self, probe: &Probe) {
        let engine = &self.inside.engine;
        engine.slots.let_go_of(probe.slot, probe.generation);
        engine.events.wake();
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::endpoint::{Endpoint, Settings};
    use crate::provider::Wanted;

    /// Ends a test that hangs, long before a wait of its peer would end.
    const LIMIT: Duration = Duration::from_secs(60);

    /// A peer, and the end point to which it leads with its own peer; `None`, with the reason printed, where
    /// the provider is missing.
    fn peers() -> Option<(Peer, (Endpoint, Peer))> {
        let wanted = Wanted {
            provider: Some("tcp;ofi_rxm".to_owned()),
            source: Some([127, 0, 0, 1].into()),
            is_exact: false,
        };
        let settings = Settings { give_up_after: 100 * LIMIT, ..Settings::default() };
        let (one, other) = match Endpoint::open(&wanted, settings) {
            Ok(one) => (one, Endpoint::open(&wanted, settings).unwrap()),
            Err(error) => {
                println!("skipped: {error}");
                return None;
            }
        };
        let peer = one.connect("the other", &other.card().unwrap(), 7).unwrap();
        let back = other.connect("the one", &one.card().unwrap(), 7).unwrap();
        Some((peer, (other, back)))
    }

    fn until(what: &str, mut is_so: impl FnMut() -> bool) {
        let started = Instant::now();
        while !is_so() {
            assert!(started.elapsed() < LIMIT, "{what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A barrier waits for all that is under way, questions included: the one that ends a question wakes it.
    /// Nothing else would, as nothing else ends.
    #[test]
    fn a_barrier_that_sleeps_is_woken_when_a_question_is_over() {
        let Some((peer, _other)) = peers() else { return };
        let engine = &peer.inside.engine;
        peer.responds_within(LIMIT).unwrap();
        let mut probe = None;
        until("the question is asked", || {
            probe = peer.begin_probe(None);
            probe.is_some()
        });
        let probe = probe.unwrap();
        until("it is answered", || {
            engine.progress();
            engine.slots.outcome(probe.slot).is_some()
        });
        // What a barrier is for, and what is over before the question is.
        let put = engine.slots.claim(&peer.state, Kind::Put).unwrap();
        // So the barrier sleeps until it is woken, and does not look at the provider.
        let mut poller = None;
        until("nobody else looks", || {
            poller = engine.events.try_poller();
            poller.is_some()
        });
        let (sender, ended) = channel();
        std::thread::scope(|scope| {
            let peer = &peer;
            scope.spawn(move || sender.send(peer.barrier()));
            until("the barrier sleeps", || engine.events.has_sleepers());
            engine.slots.unclaim(put);
            std::thread::sleep(Duration::from_millis(50));
            let is_early = ended.try_recv().is_ok();
            peer.end_probe(&probe);
            let outcome = ended.recv_timeout(LIMIT);
            // A barrier that was not woken ends with the test.
            engine.events.wake();
            assert!(!is_early, "the question was under way");
            assert!(matches!(outcome, Ok(Ok(()))), "{outcome:?}");
        });
        drop(poller);
    }
}

//! Opens a rail again that has failed: new end points at both ends, which the owner is asked for over another
//! rail, or by way of the managers. It is used when the owner has responded over it.

use std::sync::Arc;
use std::time::Duration;

use super::core::{Core, Lane};
use super::question::{Answer, Question, read_reached};
use crate::card::{EndpointCard, MemoryCard};
use crate::error::{OfiError, Result};
use crate::peer::{Peer, Probe};
use crate::random::random_u64;
use crate::slots::{Kind, timed_out};

/// How long a new end point may take to respond: on a slow rail that is full a round trip takes seconds.
const RESPOND_LIMIT: Duration = Duration::from_secs(3);
/// How an end point and its memory are reached takes less.
const LONGEST_REACHED_BYTES: u32 = 2048;

/// A new end point of a rail that the owner is asked for.
#[derive(Debug)]
pub(super) struct Reopening {
    generation: u32,
    session: u64,
    end_point: crate::Endpoint,
    card: EndpointCard,
    /// The owner's, once it has answered.
    reached: Option<Reached>,
}

/// The owner's new end point. Whether it responds is asked from here on.
#[derive(Debug)]
struct Reached {
    peer: Arc<Peer>,
    memory: Option<MemoryCard>,
    bell: u64,
    /// `None`: the provider has had no room for it yet, as it has no connection.
    probe: Option<Probe>,
    /// By the decisions' clock.
    since: Duration,
}

impl Reached {
    /// Whether it has responded; an error if it does not in time, or has failed.
    fn responds(&mut self, now: Duration) -> Result<bool> {
        self.probe = self.probe.take().or_else(|| self.peer.begin_probe(None));
        if self.probe.as_ref().is_some_and(|probe| self.peer.response(probe).is_some()) {
            self.probe = None;
            return Ok(true);
        }
        self.peer.state.check()?;
        if now.saturating_sub(self.since) < RESPOND_LIMIT {
            return Ok(false);
        }
        let limit_ms = RESPOND_LIMIT.as_millis() as u64;
        Err(timed_out(&self.peer.state, Kind::Question, limit_ms, "the peer did not respond"))
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if let Some(probe) = &self.probe {
            self.peer.end_probe(probe);
        }
    }
}

impl Core {
    pub(super) fn begin_to_open(&self, nth: usize, generation: u32) {
        let begun = || -> Result<Reopening> {
            let last_tried = self.state().lanes[nth].last_tried.take();
            let old = last_tried.unwrap_or_else(|| self.peers()[nth].end_point());
            let Some(recover) = &self.recover else {
                return Err(OfiError::System {
                    call: "the opening of a rail",
                    reason: "it has no owner".to_owned(),
                });
            };
            let end_point = (recover.open)(nth, &old)?;
            let card = end_point.card()?;
            Ok(Reopening { generation, session: random_u64()?, end_point, card, reached: None })
        };
        let reopening = begun();
        let mut state = self.state();
        let now_ms = state.now_ms();
        match reopening {
            Ok(reopening) => state.lanes[nth].reopening = Some(reopening),
            Err(_) => state.recovery.not_opened(nth, generation, now_ms),
        }
    }

    /// Asks for new end points, and uses those that are there and respond.
    pub(super) fn open_again(&self) {
        // The owner may take a while to answer: what is to be sent again comes first, if there is a rail for
        // it.
        if self.has_again_and_a_rail() {
            return;
        }
        for nth in 0..self.count {
            let Some(mut reopening) = self.state().lanes[nth].reopening.take() else { continue };
            let generation = reopening.generation;
            let lane = match self.try_to_open(nth, &mut reopening) {
                Ok(None) => {
                    let mut state = self.state();
                    // Unless the owner has taken too long: then it is asked for another one.
                    if state.recovery.is_opening(nth, generation) {
                        state.lanes[nth].reopening = Some(reopening);
                    }
                    continue;
                }
                Ok(Some(lane)) => Some(lane),
                Err(_) => None,
            };
            let mut state = self.state();
            let now_ms = state.now_ms();
            let old = match lane {
                Some(lane) if state.recovery.is_opening(nth, generation) => {
                    state.recovery.opened(nth, generation, now_ms);
                    Some(std::mem::replace(&mut state.lanes[nth], lane))
                }
                _ => {
                    state.recovery.not_opened(nth, generation, now_ms);
                    state.lanes[nth].last_tried = Some(reopening.end_point.clone());
                    None
                }
            };
            drop(state);
            // To close end points takes a while: not behind the lock.
            drop((old, reopening));
        }
    }

    fn has_again_and_a_rail(&self) -> bool {
        let state = self.state();
        let is_up = |nth: usize| state.recovery.generation_if_up(nth).is_some();
        !state.again.is_empty() && (0..self.count).any(is_up)
    }

    /// `None`: it takes longer.
    fn try_to_open(&self, nth: usize, reopening: &mut Reopening) -> Result<Option<Lane>> {
        if reopening.reached.is_none() {
            reopening.reached = self.ask_for_end_point(nth, reopening)?;
        }
        let Some(reached) = &mut reopening.reached else { return Ok(None) };
        let now = self.state().clock;
        let has_responded = reached.responds(now)?;
        let lane = || {
            let (peer, memory) = (Arc::clone(&reached.peer), reached.memory.clone());
            Lane::new(peer, memory, reached.bell, reopening.generation)
        };
        Ok(has_responded.then(lane))
    }

    /// `None`: the owner needs longer, or does not answer.
    fn ask_for_end_point(&self, nth: usize, reopening: &Reopening) -> Result<Option<Reached>> {
        let (rail, generation, session) = (self.number(nth), reopening.generation, reopening.session);
        let end_point = reopening.card.clone();
        let refused = || OfiError::Gone {
            peer: self.first.name().to_owned(),
            reason: "its owner has not opened the rail again".to_owned(),
        };
        // Without an answer it is asked again, for as long as the opening of a rail may take.
        let len = match self.ask(&Question::Open { rail, generation, session, end_point }) {
            Ok(Answer::Wait) | Err(_) => return Ok(None),
            Ok(Answer::Open { bytes }) => bytes,
            Ok(_) => return Err(refused()),
        };
        let mut bytes = Vec::new();
        for part in 0..Answer::parts(len.min(LONGEST_REACHED_BYTES)) {
            match self.ask(&Question::Part { rail, generation, nth: part }) {
                Ok(Answer::Part(part)) => bytes.extend(part),
                Ok(_) => return Err(refused()),
                Err(_) => return Ok(None),
            }
        }
        bytes.truncate(len as usize);
        let (card, memory, bell) = read_reached(&bytes, self.outbox().is_none()).ok_or_else(refused)?;
        let peer = reopening.end_point.connect(self.peers()[nth].name(), &card, session)?;
        let since = self.state().clock;
        Ok(Some(Reached { peer: Arc::new(peer), memory, bell, probe: None, since }))
    }
}

//! Asks the peer over idle rails whether it responds, so that the program finds the rails that work when it
//! continues.
//!
//! That it does not respond says nothing about a rail by itself: the owner may be stopped. It does if the
//! peer responds over another one, or, where none has responded for long, by way of the managers; unless
//! bytes travel over it, which then is slow ([`travel`](super::travel)). Where messages have numbers
//! ([`outbox`](super::outbox)), it is asked more often while one is open, and an answer is late sooner: to
//! take another rail costs nothing there.

use std::time::Duration;

use super::core::{Asked, Core, Lane, State};
use super::outbox::Outbox;
use crate::error::OfiError;
use crate::message::Answer;
use crate::peer::{Peer, Probe};

/// How often it is asked while nothing goes over a rail, and how long an answer may take.
pub(super) const PERIOD: Duration = Duration::from_secs(1);
/// See [`Core::long_silence`].
const LONG_SILENCE: Duration = Duration::from_secs(3);

impl Core {
    /// Asks, and looks for answers: the rails over which the peer does not respond, while it does over
    /// another one. An error ends the link.
    pub(super) fn probe(&self, state: &mut State) -> Result<Vec<bool>, OfiError> {
        let (now, lead) = (state.clock, state.lead);
        let outbox = self.outbox();
        let urgent = outbox.filter(|outbox| outbox.is_open());
        let least = self.first.inside.engine.settings.rail_silence;
        let patience = urgent.map_or_else(|| state.patience(PERIOD), |outbox| outbox.patience(least));
        let is_up: Vec<_> =
            (0..self.count).map(|nth| state.recovery.generation_if_up(nth).is_some()).collect();
        let State { lanes, recovery, managers_took, .. } = state;
        for (nth, lane) in lanes.iter_mut().enumerate().filter(|(nth, _)| is_up[*nth]) {
            if lane.look_for_response(now, outbox)? {
                *managers_took = Duration::ZERO;
                if outbox.is_some() {
                    recovery.responded(nth, lane.generation);
                }
            }
            lane.excuse(now);
            lane.ask_if_idle(now, outbox);
            if urgent.is_some() && nth == lead {
                lane.ask_after(now, patience / 4, outbox);
            }
        }
        let late_since: Vec<_> = state.lanes.iter().map(|lane| lane.late_since(now, patience)).collect();
        if late_since.iter().any(Option::is_some) {
            for (lane, _) in state.lanes.iter_mut().zip(&is_up).filter(|(_, is_up)| **is_up) {
                lane.ask_after(now, patience / 4, outbox);
            }
        }
        let responded = |nth: usize| state.lanes[nth].responded.filter(|_| is_up[nth]);
        let has_other = |nth: usize, since: Duration| {
            (0..self.count).any(|other| other != nth && responded(other).is_some_and(|at| at > since))
        };
        let is_dead = |nth: usize| late_since[nth].is_some_and(|since| has_other(nth, since + patience / 2));
        Ok((0..self.count).map(is_dead).collect())
    }

    /// How long all rails may be silent before the owner is asked over none: then there is time to open one
    /// again before the link ends.
    pub(super) fn long_silence(&self) -> Duration {
        LONG_SILENCE.min(self.first.inside.engine.settings.give_up_after / 3)
    }

    /// Whether that time is over for all rails that are used; `true` once a period.
    pub(super) fn are_rails_silent(&self) -> bool {
        let mut state = self.state();
        let (now, limit) = (state.clock, state.patience(self.long_silence()));
        let is_up = |nth: usize| state.recovery.generation_if_up(nth).is_some();
        let mut up = (0..self.count).filter(|nth| is_up(*nth)).map(|nth| &state.lanes[nth]).peekable();
        // One that has failed is dealt with at once, without the owner.
        let is_silent = |lane: &Lane| !lane.peer.state.is_failed() && lane.is_doubtful(now, limit);
        let are_silent = up.peek().is_some() && up.all(is_silent);
        let is_due = are_silent && now >= state.ask_owner_at;
        if is_due {
            state.ask_owner_at = now + PERIOD;
        }
        is_due
    }

    /// Whether an answer is waited for.
    pub(super) fn is_probing(state: &State) -> bool {
        state.lanes.iter().any(|lane| lane.asked.is_some())
    }
}

impl Lane {
    /// Whether there is one.
    fn look_for_response(&mut self, now: Duration, outbox: Option<&Outbox>) -> Result<bool, OfiError> {
        let Some(asked) = &mut self.asked else { return Ok(false) };
        if asked.probe.is_none() {
            asked.probe = begin(&self.peer, self.bell, outbox);
        }
        let Some(answer) = asked.probe.as_ref().and_then(|probe| self.peer.response(probe)) else {
            return Ok(false);
        };
        let took = now.saturating_sub(asked.at);
        self.travel.answered(took);
        (self.asked, self.responded) = (None, Some(now));
        match (outbox, answer) {
            (Some(outbox), Some(Answer::Said(words))) => outbox.heard(words, took),
            // There is no owner any more.
            (Some(_), _) => return Err(self.peer.has_no_doorbell()),
            (None, _) => {}
        }
        Ok(true)
    }

    /// Since when an answer is wanted, if that is long.
    fn late_since(&self, now: Duration, patience: Duration) -> Option<Duration> {
        self.asked.as_ref().map(|asked| asked.at).filter(|at| now - *at >= patience)
    }

    /// Whether the rail has had something to confirm for that long, and has confirmed nothing.
    pub(super) fn is_doubtful(&self, now: Duration, limit: Duration) -> bool {
        let is_silent = self.watch.silent().max(self.shorts.silent()) >= limit;
        self.peer.state.is_failed() || is_silent || self.late_since(now, limit).is_some()
    }

    /// An answer may wait behind long transfers of other links of this program: it is late by what it takes
    /// without them.
    fn excuse(&mut self, now: Duration) {
        if let Some(asked) = &mut self.asked
            && self.peer.inside.engine.slots.has_long_of_others(&self.peer.state)
        {
            asked.at = now;
        }
    }

    fn ask_if_idle(&mut self, now: Duration, outbox: Option<&Outbox>) {
        let slots = &self.peer.inside.engine.slots;
        if self.bytes() == 0 && !slots.has_posted_once(&self.peer.state) {
            self.ask_after(now, PERIOD, outbox);
        }
    }

    fn ask_after(&mut self, now: Duration, pause: Duration, outbox: Option<&Outbox>) {
        let is_due = self.responded.is_none_or(|at| now - at >= pause);
        if is_due && self.asked.is_none() && !self.peer.state.is_failed() {
            let probe = begin(&self.peer, self.bell, outbox);
            self.asked = Some(Asked { probe, at: now });
        }
    }
}

fn begin(peer: &Peer, bell: u64, outbox: Option<&Outbox>) -> Option<Probe> {
    let question = outbox.map(Outbox::question);
    peer.begin_probe(question.as_deref().map(|question| (bell, question)))
}

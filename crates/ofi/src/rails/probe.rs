//! Whether the peer still responds over rails over which nothing goes: the program is to find those that respond when it goes on.
//!
//! That it does not respond says nothing about a rail by itself: the owner may be stopped. It does if the peer responds over another one.

use std::time::Duration;

use super::core::{Asked, Core, Lane, State};

/// How often it is asked while nothing goes over a rail, and how long an answer may take.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

impl Core {
    /// Asks, and looks for answers: the rails over which the peer does not respond, while it does over another one.
    pub(super) fn probe(&self, state: &mut State) -> Vec<bool> {
        let now = state.clock;
        let is_up: Vec<_> =
            (0..self.count).map(|nth| state.recovery.generation_if_up(nth).is_some()).collect();
        for (lane, _) in state.lanes.iter_mut().zip(&is_up).filter(|(_, is_up)| **is_up) {
            lane.look_for_response(now);
            lane.excuse(now);
            lane.ask_if_idle(now);
        }
        let late_since: Vec<_> = state.lanes.iter().map(|lane| lane.late_since(now)).collect();
        if late_since.iter().any(Option::is_some) {
            for (lane, _) in state.lanes.iter_mut().zip(&is_up).filter(|(_, is_up)| **is_up) {
                lane.ask_after(now, PERIOD / 4);
            }
        }
        let responded = |nth: usize| state.lanes[nth].responded.filter(|_| is_up[nth]);
        let has_other = |nth: usize, since: Duration| {
            (0..self.count).any(|other| other != nth && responded(other).is_some_and(|at| at > since))
        };
        let is_dead = |nth: usize| late_since[nth].is_some_and(|since| has_other(nth, since + PERIOD / 2));
        (0..self.count).map(is_dead).collect()
    }

    /// Whether an answer is waited for.
    pub(super) fn is_probing(state: &State) -> bool {
        state.lanes.iter().any(|lane| lane.asked.is_some())
    }
}

impl Lane {
    fn look_for_response(&mut self, now: Duration) {
        let Some(asked) = &mut self.asked else { return };
        asked.probe = asked.probe.take().or_else(|| self.peer.begin_probe());
        if asked.probe.as_ref().is_some_and(|probe| self.peer.has_responded(probe)) {
            (self.asked, self.responded) = (None, Some(now));
        }
    }

    /// Since when an answer is wanted, if that is long.
    fn late_since(&self, now: Duration) -> Option<Duration> {
        self.asked.as_ref().map(|asked| asked.at).filter(|at| now - *at >= PERIOD)
    }

    /// An answer may wait behind long transfers of other links of this program: it is late by what it takes without them.
    fn excuse(&mut self, now: Duration) {
        if let Some(asked) = &mut self.asked
            && self.peer.inside.engine.slots.has_long_of_others(&self.peer.state)
        {
            asked.at = now;
        }
    }

    fn ask_if_idle(&mut self, now: Duration) {
        let slots = &self.peer.inside.engine.slots;
        if self.bytes() == 0 && !slots.has_done_once(&self.peer.state) {
            self.ask_after(now, PERIOD);
        }
    }

    fn ask_after(&mut self, now: Duration, pause: Duration) {
        let is_due = self.responded.is_none_or(|at| now - at >= pause);
        if is_due && self.asked.is_none() && !self.peer.state.is_failed() {
            self.asked = Some(Asked { probe: self.peer.begin_probe(), at: now });
        }
    }
}

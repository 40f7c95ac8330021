//! Whether bytes travel over a rail that confirms nothing: then it is slow, and has not failed. Where the
//! provider has no numbers of bytes ([`carried`](crate::port::carried)), silence alone counts.

use std::time::Duration;

use super::core::{Lane, State};

/// So often the kernel is asked at most while a rail is silent.
const PERIOD: Duration = Duration::from_millis(20);
/// An answer is late by so many times as long as one takes on the slowest rail, by no more than the second
/// time: a packet that is lost on a slow network, and the one that is sent again, cost several.
const TIMES: u32 = 8;
const LONGEST: Duration = Duration::from_secs(10);

/// Of one end point. Times by the decisions' clock.
#[derive(Debug, Default)]
pub(super) struct Travel {
    /// When the kernel was asked last, and how many bytes it had counted.
    seen: Option<(Duration, Option<u64>)>,
    /// As long as one has taken lately, by the kernel or by a question: what was long is forgotten slowly.
    round_trip: Duration,
}

impl Travel {
    /// Whether the kernel is to be asked now.
    fn is_due(&self, now: Duration) -> bool {
        self.seen.is_none_or(|(at, _)| now >= at + PERIOD)
    }

    /// What the kernel says; whether bytes have travelled since it was asked before.
    fn look(&mut self, now: Duration, said: Option<(u64, Duration)>) -> bool {
        let before = self.seen.and_then(|(_, bytes)| bytes);
        self.seen = Some((now, said.map(|(bytes, _)| bytes)));
        let Some((bytes, round_trip)) = said else { return false };
        self.round_trip = self.round_trip.max(round_trip);
        before.is_some_and(|before| bytes > before)
    }

    /// Whether the kernel counts bytes of this rail: then a time in which none travel says more than one in
    /// which nothing ends.
    pub(super) fn is_known(&self) -> bool {
        self.seen.is_some_and(|(_, bytes)| bytes.is_some())
    }

    /// What was counted is about a time in which the rail was not silent.
    fn forget(&mut self) {
        self.seen = None;
    }

    /// A question was answered after that time.
    pub(super) fn answered(&mut self, took: Duration) {
        self.round_trip = took.max(self.round_trip - self.round_trip / 8);
    }
}

impl Lane {
    /// For how long it has had something to confirm, or to answer, and has done nothing.
    pub(super) fn silent(&self, now: Duration) -> Duration {
        let asked = self.asked.as_ref().map(|asked| now.saturating_sub(asked.at));
        self.watch.silent().max(self.shorts.silent()).max(asked.unwrap_or_default())
    }

    /// Whether the rail may be taken for failed soon: it has confirmed nothing, or not answered, for half of
    /// the shortest time.
    fn is_suspect(&self, now: Duration, least: Duration) -> bool {
        self.silent(now) >= least / 2
    }
}

impl State {
    /// `least`, or longer where round trips take long.
    pub(super) fn patience(&self, least: Duration) -> Duration {
        let slowest = self.lanes.iter().map(|lane| lane.travel.round_trip).max().unwrap_or_default();
        late_after(slowest.max(self.managers_took), least)
    }

    /// Rails over which bytes travel are not silent. `least`: as long as a rail may be silent in any case.
    pub(super) fn look_for_travel(&mut self, least: Duration) {
        let (now, now_ms) = (self.clock, self.now_ms());
        let Self { lanes, recovery, .. } = self;
        for (nth, lane) in lanes.iter_mut().enumerate() {
            if recovery.generation_if_up(nth).is_none() || !lane.is_suspect(now, least) {
                lane.travel.forget();
                continue;
            }
            if !lane.travel.is_due(now) {
                continue;
            }
            let said = lane.peer.state.carried().map(|carried| (carried.bytes, carried.round_trip));
            if lane.travel.look(now, said) {
                lane.watch.goes_on();
                lane.shorts.goes_on();
                if let Some(asked) = &mut lane.asked {
                    asked.at = now;
                }
                recovery.moves(nth, lane.generation, now_ms);
            }
        }
    }
}

fn late_after(round_trip: Duration, least: Duration) -> Duration {
    least.max((TIMES * round_trip.min(LONGEST)).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn bytes_travel_if_more_are_counted_than_when_it_was_asked_before() {
        let mut travel = Travel::default();
        assert!(travel.is_due(Duration::ZERO));
        assert!(!travel.look(5 * MS, Some((1000, MS))), "nothing was known before");
        assert!(!travel.is_due(24 * MS) && travel.is_due(25 * MS));
        assert!(!travel.look(25 * MS, Some((1000, MS))));
        assert!(travel.look(45 * MS, Some((1001, MS))));
        // A connection that was made anew begins at zero.
        assert!(!travel.look(65 * MS, Some((7, MS))));
        assert!(travel.look(85 * MS, Some((8, MS))));
        assert!(!travel.look(105 * MS, None) && !travel.look(125 * MS, Some((9, MS))));
        travel.forget();
        assert!(travel.is_due(126 * MS) && !travel.look(126 * MS, Some((10, MS))));
    }

    #[test]
    fn where_round_trips_take_long_an_answer_may() {
        let mut travel = Travel::default();
        let patience = |travel: &Travel| late_after(travel.round_trip, 1000 * MS);
        assert_eq!(patience(&travel), 1000 * MS);
        travel.look(Duration::ZERO, Some((1, 600 * MS)));
        assert_eq!(patience(&travel), 4800 * MS);
        travel.answered(700 * MS);
        assert_eq!(patience(&travel), 5600 * MS);
        (0..100).for_each(|_| travel.answered(2 * MS));
        assert_eq!(patience(&travel), 1000 * MS);
        travel.look(Duration::ZERO, Some((1, Duration::MAX)));
        assert_eq!(patience(&travel), LONGEST);
    }
}

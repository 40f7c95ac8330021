//! The offset between the clocks of two managers, with a bound of its error.
//!
//! A heartbeat that was sent at `t0` and came at `T1` on the other side's clock, and one that was sent there
//! at `T2` and came at `t3`: no message arrives before it is sent, so the offset (theirs less ours) lies
//! between `T2 - t3` and `T1 - t0`, and the middle is wrong by half a round trip at most (F. Cristian,
//! Probabilistic clock synchronization, 1989). Later round trips narrow the interval; time widens it, because
//! the clocks drift.

use std::time::Duration;

use crate::time::Instant;
use crate::wire::peer::Echo;

/// Parts per million by which two clocks may drift apart: Linux slews each by 500 at most (adjtimex(2)).
const DRIFT_PPM: u64 = 1000;

/// What is known of the offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// The other manager's clock less this one's, in nanoseconds.
    pub offset_ns: i64,
    /// By how much that may be wrong, in nanoseconds.
    pub error_ns: u64,
}

/// The interval of the offset, in nanoseconds, as it was at a moment.
#[derive(Debug, Clone, Copy)]
struct Interval {
    least: i128,
    most: i128,
    at: Instant,
}

impl Interval {
    fn at(self, now: Instant) -> Self {
        let drift = i128::from(drift_ns(now.since(self.at)));
        Self { least: self.least - drift, most: self.most + drift, at: now }
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ClockOffset(Option<Interval>);

impl ClockOffset {
    /// An echo came at `now` for the heartbeat of `sent`.
    pub(super) fn narrow(&mut self, sent: Instant, now: Instant, echo: Echo) {
        let nanos = |at: Instant| i128::from(at.as_nanos());
        let theirs_came = i128::from(echo.clock_ns) - i128::from(echo.held_ns);
        let latest = Interval {
            least: i128::from(echo.clock_ns) - nanos(now),
            most: theirs_came - nanos(sent),
            at: now,
        };
        let both = self.0.map(|before| before.at(now)).map(|before| Interval {
            least: latest.least.max(before.least),
            most: latest.most.min(before.most),
            at: now,
        });
        // Where they exclude each other a clock was not what it is supposed to be: the machine slept, or was
        // moved.
        self.0 = Some(both.filter(|both| both.least <= both.most).unwrap_or(latest));
    }

    pub(super) fn now(&self, now: Instant) -> Option<Offset> {
        let Interval { least, most, .. } = self.0?.at(now);
        let middle = least.midpoint(most);
        Some(Offset {
            offset_ns: i64::try_from(middle).ok()?,
            error_ns: u64::try_from((most - middle).max(middle - least)).ok()?,
        })
    }
}

fn drift_ns(elapsed: Duration) -> u64 {
    crate::session::nanos(elapsed) / (1_000_000 / DRIFT_PPM)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    /// A round trip: sent and received by our clock, received and sent by theirs, in milliseconds.
    fn trip(offset: &mut ClockOffset, [sent, theirs_came, theirs_sent, now]: [u64; 4]) {
        let echo =
            Echo { sequence: 1, held_ns: (theirs_sent - theirs_came) * MS, clock_ns: theirs_sent * MS };
        offset.narrow(at(sent), at(now), echo);
    }

    #[test]
    fn a_round_trip_bounds_the_offset_by_half_of_it() {
        let mut offset = ClockOffset::default();
        assert_eq!(offset.now(at(0)), None);
        // Theirs is 1000 ms ahead; 4 ms there, 4 back.
        trip(&mut offset, [100, 1104, 1154, 158]);
        let known = Offset { offset_ns: 1000 * MS as i64, error_ns: 4 * MS };
        assert_eq!(offset.now(at(158)), Some(known));
        assert_eq!(offset.now(at(1158)).map(|later| later.error_ns), Some(5 * MS), "clocks drift");
    }

    #[test]
    fn the_offset_is_within_the_bound_however_uneven_the_trip() {
        for (there, back) in [(0, 8), (8, 0), (3, 1)] {
            let mut offset = ClockOffset::default();
            // Theirs is 90 ms behind.
            trip(&mut offset, [100, 10 + there, 20 + there, 110 + there + back]);
            let Offset { offset_ns, error_ns } = offset.now(at(110 + there + back)).unwrap();
            let wrong = (offset_ns + 90 * MS as i64).unsigned_abs();
            assert!(wrong <= error_ns && error_ns <= 4 * MS, "{offset_ns} {error_ns}");
        }
    }

    #[test]
    fn a_slow_trip_does_not_undo_what_a_fast_one_has_shown() {
        let mut offset = ClockOffset::default();
        trip(&mut offset, [100, 100, 100, 101]);
        trip(&mut offset, [200, 240, 240, 280]);
        let Offset { offset_ns, error_ns } = offset.now(at(280)).unwrap();
        assert!(error_ns < MS, "{error_ns}");
        assert!(offset_ns.unsigned_abs() <= error_ns);
    }

    #[test]
    fn a_clock_that_jumps_is_followed() {
        let mut offset = ClockOffset::default();
        trip(&mut offset, [100, 100, 100, 102]);
        trip(&mut offset, [200, 5201, 5201, 202]);
        assert_eq!(offset.now(at(202)), Some(Offset { offset_ns: 5000 * MS as i64, error_ns: MS }));
    }

    #[test]
    fn what_a_peer_claims_overflows_nothing() {
        for clock_ns in [0, u64::MAX] {
            for held_ns in [0, u64::MAX] {
                let mut offset = ClockOffset::default();
                offset.narrow(at(0), at(5), Echo { sequence: 1, held_ns, clock_ns });
                let _ = offset.now(Instant::from_nanos(u64::MAX));
            }
        }
    }
}

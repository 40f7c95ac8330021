//! Round trips of heartbeats: each names the last one that came from the other side, and how long ago that
//! was. So nobody sends more, and a round trip is measured by one clock. The way through both managers is
//! part of it: the shortest tells most of the network.
//!
//! Each also carries the sender's clock, so that a round trip bounds the offset between both clocks: see
//! `clock_offset`.

mod clock_offset;

use std::time::Duration;

use clock_offset::ClockOffset;
pub use clock_offset::Offset;

use crate::time::Instant;
use crate::wire::peer::Echo;

/// Heartbeats of this side whose echo may still come: with a round trip of some intervals, more than one is
/// on the way.
const KEPT: usize = 8;

/// What was measured on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundTrip {
    /// The last one.
    pub latest: Duration,
    /// The shortest.
    pub least: Duration,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct RoundTrips {
    /// The last heartbeats of this side that were not echoed: sequence, and when.
    sent: [Option<(u64, Instant)>; KEPT],
    /// The last heartbeat of the other side that was not echoed.
    came: Option<(u64, Instant)>,
    measured: Option<RoundTrip>,
    offset: ClockOffset,
}

impl RoundTrips {
    /// What the next heartbeat of this side carries, which is sent now.
    pub(super) fn send(&mut self, now: Instant, sequence: u64) -> Option<Echo> {
        self.sent[sequence as usize % KEPT] = Some((sequence, now));
        let (sequence, at) = self.came.take()?;
        Some(Echo { sequence, held_ns: super::nanos(now.since(at)), clock_ns: now.as_nanos() })
    }

    /// A heartbeat came. What it says of this side's is believed only if it is possible.
    pub(super) fn came(&mut self, now: Instant, sequence: u64, echo: Option<Echo>) {
        self.came = Some((sequence, now));
        let Some(echo) = echo else { return };
        let place = &mut self.sent[echo.sequence as usize % KEPT];
        let Some((_, at)) = place.take_if(|(sent, _)| *sent == echo.sequence) else { return };
        let Some(latest) = now.since(at).checked_sub(Duration::from_nanos(echo.held_ns)) else { return };
        let least = self.measured.map_or(latest, |before| before.least.min(latest));
        self.measured = Some(RoundTrip { latest, least });
        self.offset.narrow(at, now, echo);
    }

    pub(super) fn measured(&self) -> Option<RoundTrip> {
        self.measured
    }

    /// The other side's clock less this side's, as far as it is known now.
    pub(super) fn offset(&self, now: Instant) -> Option<Offset> {
        self.offset.now(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn echo(sequence: u64, held_ms: u64) -> Option<Echo> {
        Some(Echo { sequence, held_ns: held_ms * 1_000_000, clock_ns: 0 })
    }

    #[test]
    fn the_time_that_the_other_side_holds_a_heartbeat_does_not_count() {
        let mut trips = RoundTrips::default();
        assert_eq!(trips.send(at(100), 1), None, "nothing has come");
        trips.came(at(190), 40, echo(1, 70));
        assert_eq!(trips.measured(), Some(RoundTrip { latest: ms(20), least: ms(20) }));
        assert_eq!(
            trips.send(at(200), 2),
            Some(Echo { sequence: 40, held_ns: 10_000_000, clock_ns: 200_000_000 })
        );
        assert_eq!(trips.send(at(300), 3), None, "each is echoed once");
        trips.came(at(310), 41, echo(3, 0));
        trips.came(at(330), 42, echo(2, 100));
        assert_eq!(trips.measured(), Some(RoundTrip { latest: ms(30), least: ms(10) }));
    }

    #[test]
    fn an_echo_that_cannot_be_is_no_measurement() {
        let mut trips = RoundTrips::default();
        for sequence in 1..=20 {
            trips.send(at(sequence * 100), sequence);
        }
        let says = |sequence, held_ns| Some(Echo { sequence, held_ns, clock_ns: 0 });
        for echo in [says(21, 0), says(0, 0), says(u64::MAX, 0), says(3, 0), says(20, u64::MAX), None] {
            trips.came(at(2050), 1, echo);
            assert_eq!(trips.measured(), None, "{echo:?}");
        }
        trips.came(at(2050), 2, says(19, 150_000_000));
        trips.came(at(2050), 3, says(19, 140_000_000));
        assert_eq!(trips.measured(), Some(RoundTrip { latest: ms(0), least: ms(0) }), "twice");
    }
}

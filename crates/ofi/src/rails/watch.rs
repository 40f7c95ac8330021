//! Whether a rail is silent: operations are under way on it, and none completes. Without input, output and
//! clock.

use std::time::Duration;

/// How long a rail of which no steady rate is known may be silent.
pub(super) const UNKNOWN: Duration = Duration::from_secs(1);
/// A rail is silent if nothing ends for so many times as long as all that it has under way takes at the rate
/// that it had.
const TIMES: f64 = 4.0;

/// Of one end point.
#[derive(Debug, Default)]
pub(super) struct Watch {
    ended: u64,
    silent: Duration,
}

impl Watch {
    /// At this look so many chunks have ended since the end point was opened, and so many bytes are under
    /// way. `since`: the last look; a thread that was held up itself says less.
    pub(super) fn look(&mut self, ended: u64, under_way: u64, since: Duration) {
        let is_silent = under_way > 0 && ended == self.ended;
        self.silent = if is_silent { self.silent + since } else { Duration::ZERO };
        self.ended = ended;
    }

    /// What is under way goes on, though none has ended.
    pub(super) fn goes_on(&mut self) {
        self.silent = Duration::ZERO;
    }

    /// How long it has been silent.
    pub(super) fn silent(&self) -> Duration {
        self.silent
    }

    /// Whether it has been silent for longer than it may be: by its steady rate, in bytes per nanosecond, at
    /// least and at most that long; without one for as long as the other time.
    pub(super) fn is_silent(
        &self,
        under_way: u64,
        rate: Option<f64>,
        (least, most): (Duration, Duration),
        unknown: Duration,
    ) -> bool {
        let limit = match rate {
            Some(rate) if rate > 0.0 => {
                let limit = Duration::try_from_secs_f64(TIMES * under_way as f64 / rate / 1e9);
                limit.unwrap_or(Duration::MAX).min(most)
            }
            _ => unknown,
        };
        self.silent >= limit.max(least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    const LIMITS: (Duration, Duration) = (MS, Duration::MAX);

    #[test]
    fn a_rail_is_silent_when_nothing_ends_for_much_longer_than_it_takes() {
        let mut watch = Watch::default();
        // A byte in a nanosecond: what is under way takes 10 ms.
        let (bytes, rate) = (10_000_000, Some(1.0));
        for _ in 0..39 {
            watch.look(7, bytes, MS);
        }
        assert!(
            !watch.is_silent(bytes, rate, LIMITS, UNKNOWN),
            "the first look was the one at which it had ended"
        );
        watch.look(7, bytes, 2 * MS);
        assert!(watch.is_silent(bytes, rate, LIMITS, UNKNOWN));
        assert!(
            !watch.is_silent(bytes, rate, (100 * MS, Duration::MAX), UNKNOWN),
            "not before the least time"
        );
        assert!(!watch.is_silent(bytes, None, LIMITS, UNKNOWN), "without a rate it may take longer");
        watch.goes_on();
        watch.look(7, bytes, 20 * MS);
        assert!(
            !watch.is_silent(bytes, rate, LIMITS, UNKNOWN)
                && watch.is_silent(bytes, rate, (MS, 20 * MS), UNKNOWN)
        );
        // One that ends, or nothing under way.
        watch.look(8, bytes, 1000 * MS);
        assert!(!watch.is_silent(bytes, rate, LIMITS, UNKNOWN));
        watch.look(8, bytes, 1000 * MS);
        assert!(
            watch.is_silent(bytes, rate, LIMITS, UNKNOWN) && watch.is_silent(bytes, None, LIMITS, UNKNOWN)
        );
        watch.goes_on();
        assert!(!watch.is_silent(bytes, rate, LIMITS, UNKNOWN));
        watch.look(8, bytes, 1000 * MS);
        watch.look(8, 0, 1000 * MS);
        assert!(!watch.is_silent(bytes, rate, LIMITS, UNKNOWN));
    }
}

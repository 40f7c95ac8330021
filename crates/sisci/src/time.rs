//! Time-outs of the API: milliseconds, or forever.

use std::time::{Duration, Instant};

/// `SCI_INFINITE_TIMEOUT`.
pub const INFINITE: u32 = 0xffff_ffff;

/// The time left of an endless wait, after which it continues.
const EVER: Duration = Duration::from_secs(3600);

/// The time-out as a duration; `None`: forever.
pub fn timeout(milliseconds: u32) -> Option<Duration> {
    (milliseconds != INFINITE).then(|| Duration::from_millis(u64::from(milliseconds)))
}

/// When a wait that begins now must end.
#[derive(Clone, Copy, Debug)]
pub struct Until(Option<Instant>);

impl Until {
    /// The end of a wait of this number of milliseconds.
    pub fn after(milliseconds: u32) -> Self {
        Self(timeout(milliseconds).and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// The time that is left; for an endless wait an hour, after which the caller calls again.
    pub fn left(self) -> Duration {
        self.0.map_or(EVER, |end| end.saturating_duration_since(Instant::now()))
    }

    /// Whether it is over. An endless wait never is.
    pub fn is_over(self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

/// The shortest pause of a wait that polls.
const PAUSE_MIN: Duration = Duration::from_millis(1);
/// The longest: ten requests a second take no processor time that could be measured.
const PAUSE_MAX: Duration = Duration::from_millis(100);
/// A pause is at most this part of the wait so far, so a wait is longer than needed by no more.
const PAUSE_PART: u32 = 16;

/// The pauses of one wait that polls: they grow with its duration.
#[derive(Debug)]
pub struct Pause(Instant);

impl Pause {
    /// The wait begins.
    pub fn begin() -> Self {
        Self(Instant::now())
    }

    fn after(waited: Duration) -> Duration {
        (waited / PAUSE_PART).clamp(PAUSE_MIN, PAUSE_MAX)
    }

    /// Sleeps until the next poll, but not longer than `until`.
    pub fn sleep(&self, until: Until) {
        std::thread::sleep(Self::after(self.0.elapsed()).min(until.left()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_the_wait() {
        let after = |milliseconds| Pause::after(Duration::from_millis(milliseconds));
        assert_eq!([after(0), after(16), after(160)], [1, 1, 10].map(Duration::from_millis));
        assert_eq!(after(1_000_000), PAUSE_MAX);
    }
}

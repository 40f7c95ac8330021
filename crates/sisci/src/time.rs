//! Time-outs of the API: milliseconds, or for ever.

use std::time::{Duration, Instant};

/// `SCI_INFINITE_TIMEOUT`.
pub const INFINITE: u32 = 0xffff_ffff;

/// As long as a wait may be before it looks again: as good as for ever.
const EVER: Duration = Duration::from_secs(3600);

/// The time-out as a duration; `None`: for ever.
pub fn timeout(milliseconds: u32) -> Option<Duration> {
    (milliseconds != INFINITE).then(|| Duration::from_millis(u64::from(milliseconds)))
}

/// When a wait that begins now must end.
#[derive(Clone, Copy, Debug)]
pub struct Until(Option<Instant>);

impl Until {
    /// After so many milliseconds.
    pub fn after(milliseconds: u32) -> Self {
        Self(timeout(milliseconds).and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// What is left; for ever: an hour, after which one asks again.
    pub fn left(self) -> Duration {
        self.0.map_or(EVER, |end| end.saturating_duration_since(Instant::now()))
    }

    /// Whether it is over. For ever never is.
    pub fn is_over(self) -> bool {
        self.0.is_some_and(|end| Instant::now() >= end)
    }
}

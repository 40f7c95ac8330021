//! How long a broken connection waits before it is dialled again.

use std::time::Duration;

use seeded_random::mix;

use super::{Settings, nanos};

/// First pause before a broken connection is dialled again.
pub const REDIAL_MIN: Duration = Duration::from_millis(50);
/// Longest pause between two attempts.
pub const REDIAL_MAX: Duration = Duration::from_secs(5);
/// As many attempts as make the back-off reach [`REDIAL_MAX`].
pub(super) const SLOWEST: u32 = 16;

/// Doubles with each attempt up to the bound; the upper half of it is drawn, the same for the same seed.
pub(super) fn pause(settings: &Settings, attempts: u32) -> Duration {
    let full = REDIAL_MIN.saturating_mul(1 << attempts.min(SLOWEST)).min(REDIAL_MAX);
    let Settings { own, peer, seed, .. } = settings;
    let drawn = mix(seed ^ u64::from(own.get()) << 40 ^ u64::from(peer.get()) << 20 ^ u64::from(attempts));
    let half = nanos(full) / 2;
    Duration::from_nanos(half + drawn % (half + 1))
}

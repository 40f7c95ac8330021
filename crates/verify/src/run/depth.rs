//! The depth of a verification: which tests, for how long.

use std::time::Duration;

use serde::Serialize;

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// Seconds: managers, sessions, cables, names, and a checked exchange. Nothing is measured. Fit for a
    /// job's prolog.
    Health,
    /// Every test, briefly; no curves.
    Quick,
    /// Every test, and curves of one pair.
    Standard,
    /// Every test for long, and all curves.
    Thorough,
}

/// All pairs of 19 nodes; of more a quick test measures a sample, and says so.
const QUICK_PAIRS: usize = 19 * 18;

/// How long and how often, of each test.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// How long every node sends to every other.
    pub(super) load: Duration,
    /// How often every pair is measured.
    pub(super) rounds: usize,
    /// How many pairs are measured at most, about.
    pub(super) most_pairs: usize,
    /// How many pairs of nodes on two hosts are measured at most.
    pub(super) most_pairs_of_hosts: usize,
    /// How long that takes at most, about.
    pub(super) longest_of_hosts: Duration,
    /// How long links are watched for stalls.
    pub(super) watch: Duration,
    /// Curves of one pair.
    pub(super) curves: Option<Curves>,
}

/// What is measured between one pair, for the report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Curves {
    /// Blocks of each size.
    pub(super) blocks: usize,
    /// Every size, or a few.
    pub(super) all_sizes: bool,
    /// Length of the jitter run.
    pub(super) jitter_s: f64,
}

impl Depth {
    /// Nothing for a test of health.
    pub(super) fn plan(self) -> Option<Plan> {
        let of = |load_ms, rounds, watch_ms, curves| {
            let (load, watch) = (Duration::from_millis(load_ms), Duration::from_millis(watch_ms));
            let most_pairs = if self == Self::Quick { QUICK_PAIRS } else { usize::MAX };
            let (most_pairs_of_hosts, longest_s) = match self {
                Self::Thorough => (usize::MAX, 120),
                Self::Standard => (2 * QUICK_PAIRS, 60),
                Self::Health | Self::Quick => (QUICK_PAIRS, 40),
            };
            let longest_of_hosts = Duration::from_secs(longest_s);
            Some(Plan { load, rounds, most_pairs, most_pairs_of_hosts, longest_of_hosts, watch, curves })
        };
        // Watching lasts long enough for two stalls of those that come each second; a rhythm needs five beats
        // to be named.
        match self {
            Self::Health => None,
            Self::Quick => of(500, 60, 2200, None),
            Self::Standard => {
                of(1000, 100, 2600, Some(Curves { blocks: 15, all_sizes: false, jitter_s: 5.5 }))
            }
            Self::Thorough => {
                of(20_000, 1000, 20_000, Some(Curves { blocks: 61, all_sizes: true, jitter_s: 20.0 }))
            }
        }
    }
}

//! Programs and managers are killed at random points; none hangs, nothing is left, and the survivors get the
//! true reason.
//!
//! The short form runs with every test run; `./run soak` sets `TIELINE_SOAK_SECONDS` for the long one.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod managers;
mod programs;
mod watchdog;

use std::time::{Duration, Instant};

use proto::wire::status::SessionState;
use tieline_tests::Cluster;

/// The helper program.
pub const PEER: &str = env!("CARGO_BIN_EXE_tieline-peer");
/// How long something that must come is waited for. Generous: not a measurement.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// How many kills: `short` of them, or as many as fit into the soak's time.
pub struct Budget {
    left: usize,
    until: Option<Instant>,
}

impl Budget {
    /// `short` kills, unless a soak gives a time.
    pub fn new(short: usize) -> Self {
        let seconds = std::env::var("TIELINE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
        Self { left: short, until: seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds)) }
    }

    /// Whether there is to be another kill.
    pub fn more(&mut self) -> bool {
        match self.until {
            Some(until) => Instant::now() < until,
            None => {
                self.left = self.left.saturating_sub(1);
                self.left > 0
            }
        }
    }
}

/// Waits until `what` holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < deadline, "still not so: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every manager runs, has a valid session with every other, and knows no program, segment or interrupt but
/// the asker's own attachment.
pub fn assert_clean(cluster: &Cluster) {
    for index in 0..cluster.nodes().len() {
        eventually(&format!("node {} is clean", cluster.nodes()[index]), || {
            let Ok(status) = cluster.attach(index).and_then(|node| node.status()) else { return false };
            let valid = status.links.iter().filter(|link| link.session == SessionState::Valid).count();
            valid == cluster.nodes().len() - 1
                && status.programs_total == 1
                && status.segments_total == 0
                && status.interrupts_total == 0
        });
    }
}

/// Open descriptors of a process.
pub fn descriptors(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map(Iterator::count).unwrap_or(0)
}

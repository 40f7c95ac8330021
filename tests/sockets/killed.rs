//! Deaths and stops at random moments while a connection goes through memory, with every byte checked up to where the stream ends.

use serde_json::Value;
use tieline_tests::Watchdog;

use crate::built::{made, must, program};
use crate::launcher::tieline;

/// As long as this variable says (the soak sets it), or a moment.
fn seconds() -> u64 {
    std::env::var("TIELINE_RINGS_SOAK_SECONDS").ok().and_then(|value| value.parse().ok()).unwrap_or(4)
}

/// Each round is another seed's, so that a failure names one that shows it.
#[test]
fn killed_and_stopped_at_random() {
    let seconds = seconds();
    let _watchdog = Watchdog::new("rings soak", std::time::Duration::from_secs(seconds * 2 + 300));
    let killed = program("killed", "killed.c", &[]);
    let (mut left, mut seed) = (seconds, 1);
    while left > 0 {
        let now = left.min(60);
        let file = made().join("killed.statistics");
        let mut command =
            tieline(&["run", "--stats", file.to_str().unwrap(), "--", killed.to_str().unwrap()]);
        command.args([now.to_string(), seed.to_string()]).env("TIELINE_SOCKETS_RINGS", "2");
        println!("seed {seed}: {}", must(&mut command).trim());
        let stat = must(&mut tieline(&["sockets", "stat", "--from", file.to_str().unwrap(), "--json"]));
        let stat: Value = serde_json::from_str(&stat).unwrap();
        let processes = stat["processes"].as_array().unwrap();
        let past: f64 = processes.iter().filter_map(|process| process["bytes_past_kernel"].as_f64()).sum();
        println!("past the kernel: {past} bytes of processes that were not killed");
        assert!(past > 0.0, "nothing went through memory: {stat:#}");
        (left, seed) = (left - now, seed + 1);
    }
}

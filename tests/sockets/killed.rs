//! Deaths and stops at random moments, and several processes and threads at each end, while a connection goes
//! through memory: every byte is checked up to where the stream ends.

use serde_json::Value;
use tieline_tests::Watchdog;

use crate::built::{made, must, program};
use crate::launcher::tieline;

/// As long as this variable says (the soak sets it), or a moment.
fn seconds() -> u64 {
    std::env::var("TIELINE_RINGS_SOAK_SECONDS").ok().and_then(|value| value.parse().ok()).unwrap_or(4)
}

/// Times that a run of a moment begins again if nothing has gone through memory.
const MOST_SEEDS: u64 = 20;

/// Runs one of the random programs, each minute with another seed, so that a failure names one that shows it.
fn soaks(name: &str, source: &str) {
    let seconds = seconds();
    let _watchdog = Watchdog::new("rings soak", std::time::Duration::from_secs(seconds * 2 + 300));
    let program = program(name, source, &[]);
    let (mut left, mut seed, mut past_kernel) = (seconds, 1, 0.0);
    // Beside other work there may be seconds in which both ends are never awake at once: then it continues
    // for a while.
    while left > 0 || past_kernel == 0.0 && seed <= MOST_SEEDS {
        let now = left.clamp(seconds.min(4), 60);
        let file = made().join(format!("{name}.statistics"));
        let mut command =
            tieline(&["run", "--stats", file.to_str().unwrap(), "--", program.to_str().unwrap()]);
        command.args([now.to_string(), seed.to_string()]).env("TIELINE_SOCKETS_RINGS", "2");
        println!("seed {seed}: {}", must(&mut command).trim());
        let stat = must(&mut tieline(&["sockets", "stat", "--from", file.to_str().unwrap(), "--json"]));
        let stat: Value = serde_json::from_str(&stat).unwrap();
        let processes = stat["processes"].as_array().unwrap();
        let past: f64 = processes.iter().filter_map(|process| process["bytes_past_kernel"].as_f64()).sum();
        println!("past the kernel: {past} bytes of the last processes that were not killed");
        past_kernel += past;
        (left, seed) = (left.saturating_sub(now), seed + 1);
    }
    assert!(past_kernel > 0.0, "nothing went through memory");
}

#[test]
fn killed_and_stopped_at_random() {
    soaks("killed", "killed.c");
}

#[test]
fn several_holders_at_both_ends_at_random() {
    soaks("crowd", "crowd.c");
}

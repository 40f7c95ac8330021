//! Random programs of sends, receives, probes, claims and cancels on two to four end points, against a naive
//! matcher. Every byte is checked. A run that fails prints its seed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what a run has seen, and its seed")]

mod naive;
mod net;
mod run;

use std::time::{Duration, Instant};

use run::Run;

/// Says which run it was that failed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the run that failed has the seed {}: see the test one_seed", self.0);
        }
    }
}

fn runs(seeds: impl Iterator<Item = u64>) -> run::Seen {
    let mut seen = run::Seen::default();
    for seed in seeds {
        let guard = Seed(seed);
        seen.add(Run::new(seed).all());
        drop(guard);
    }
    seen
}

#[test]
fn random_programs_do_what_the_naive_matcher_does() {
    // As many as there is time for, but some in any case: what all of them must have seen is asserted below.
    let until = Instant::now() + Duration::from_secs(6);
    let seen = runs((0..100_000).take_while(|seed| *seed < 150 || Instant::now() < until));
    println!("{seen:?}");
    assert!(seen.runs >= 150);
    // A test in which one of these never happens shows nothing about it.
    let counters = seen.counters;
    assert!(counters.eager > 0 && counters.offered > 0 && counters.unexpected > 0, "{seen:?}");
    assert!(counters.read > 0 && counters.in_parts > 0 && counters.left > 0, "{seen:?}");
    assert!(seen.direct > 0, "{seen:?}");
    assert!(seen.truncated > 0 && seen.cancelled > 0 && seen.claimed > 0 && seen.wild > 0, "{seen:?}");
}

#[test]
#[ignore = "takes hours: for a change of matching, limits or rendezvous"]
fn many_random_programs() {
    println!("{:?}", runs(1_000_000..1_300_000));
}

/// To look at a run that failed: put its seed here.
#[test]
fn one_seed() {
    runs(std::iter::once(0));
}

//! The contract of remote memory on every link.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::sync::Arc;

use conformance::memory::{BODIES, SIZE_BYTES};
use conformance::{Outcome, Subject};
use link::Link;
use link::injector::{FaultInjector, FaultPanel};
use link::shm_link::ShmLink;

/// Runs all bodies; prints what was skipped; `may_skip` is how many may be.
fn run_all(link: Arc<dyn Link>, may_skip: usize) {
    let mut skipped = 0;
    for (name, needs, body) in BODIES {
        let subject = Subject::new(Arc::clone(&link), SIZE_BYTES).unwrap();
        match subject.run(*needs, *body) {
            Outcome::Passed => println!("{}: {name}: passed", link.name()),
            Outcome::Skipped(missing) => {
                skipped += 1;
                println!("{}: {name}: skipped, the link lacks {}", link.name(), missing.join(", "));
            }
        }
    }
    assert_eq!(skipped, may_skip);
}

#[test]
fn shm() {
    run_all(Arc::new(ShmLink::default()), 0);
}

#[test]
fn injector_that_counts() {
    run_all(Arc::new(FaultInjector::counting(Arc::new(ShmLink::default()))), 0);
}

#[test]
fn injector_that_may_inject_but_does_not() {
    let source = Arc::new(FaultPanel::default());
    run_all(Arc::new(FaultInjector::injecting(Arc::new(ShmLink::default()), source, 1)), 0);
}

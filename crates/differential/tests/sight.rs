//! Can it see? Faults are planted in a library, and each must be found within the programs that continuous
//! integration runs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use common::{own_library, plain, planted, sockets};
use differential::campaign::{Plan, run};
use differential::control::Side;
use differential::generate;
use differential::judge::{Judge, Verdict};
use differential::shrink::shrink;
use differential::sys::process::processors;
use shm::sync::AtomicBool;

/// The budget of one fault: what continuous integration runs.
const PROGRAMS: u64 = 2000;

/// Every fault that the C library knows, as it asks for them.
fn faults() -> BTreeSet<String> {
    let source =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/planted.c")).unwrap();
    source.split("is(\"").skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

/// Faults that are looked for at a time, a processor: most of the time of one is waits for what does not
/// happen.
const AT_ONCE: usize = 2;

/// Nineteen of twenty are found; which are not is said.
fn are_found(faults: &BTreeSet<String>, under: impl Fn(&str) -> Side + Sync) {
    let (queue, missed) = (Mutex::new(faults.iter()), Mutex::new(Vec::new()));
    let next = || queue.lock().unwrap().next();
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE * processors().len() {
            scope.spawn(|| {
                while let Some(fault) = next() {
                    match finds(under(fault)) {
                        Some(seed) => println!("{fault}: seed {seed}"),
                        None => missed.lock().unwrap().push(fault.as_str()),
                    }
                }
            });
        }
    });
    let missed = missed.into_inner().unwrap();
    println!("{} of {} found; missed: {missed:?}", faults.len() - missed.len(), faults.len());
    assert!(missed.len() * 20 <= faults.len(), "missed: {missed:?}");
}

/// The seed of a program that shows what is wrong with a library.
fn finds(library: Side) -> Option<u64> {
    let plan = Plan {
        plain: plain(),
        library,
        seed: 1,
        programs: PROGRAMS,
        jobs: processors().len(),
        repetitions: 2,
        enough: 1,
        focus: Vec::new(),
        without: Vec::new(),
        known: false,
    };
    let summary = run(&plan, &AtomicBool::new(false), &|_| ()).unwrap();
    summary.different.first().map(|(seed, _)| *seed)
}

#[test]
fn planted_faults_are_found() {
    let faults = faults();
    assert!(faults.len() >= 40, "only {} faults are planted", faults.len());
    are_found(&faults, planted);
}

#[test]
fn faults_planted_in_the_projects_library_are_found() {
    let Some(library) = own_library(true) else { return };
    let source = std::fs::read_to_string(sockets().unwrap().join("src/planted.rs")).unwrap();
    // Each fault's line is `"name" …`.
    let names = source
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix('"')?.split_once("\" ").map(|(name, _)| name));
    let faults: BTreeSet<String> = names.map(str::to_owned).collect();
    assert!(faults.len() >= 20, "only {} faults are planted", faults.len());
    are_found(&faults, |fault| Side {
        environment: vec![("TIELINE_SOCKETS_PLANT".to_owned(), fault.to_owned())],
        ..library.clone()
    });
}

#[test]
fn a_fault_that_shows_seldom_is_suspicious() {
    let plan = Plan {
        plain: plain(),
        library: planted("seldom"),
        seed: 1,
        programs: 150,
        jobs: 2 * processors().len(),
        repetitions: 4,
        enough: 50,
        focus: vec!["queued".to_owned()],
        without: Vec::new(),
        known: false,
    };
    let summary = run(&plan, &AtomicBool::new(false), &|_| ()).unwrap();
    let [different, suspicious, unstable] =
        [&summary.different, &summary.suspicious, &summary.unstable].map(Vec::len);
    println!("{different} different, {suspicious} suspicious, {unstable} unstable");
    // What the library did, and the kernel never: none of it may pass for the kernel's own chance.
    assert!(suspicious >= 3 && suspicious + different > 10 * unstable);
    assert!(summary.suspicious.iter().all(|(_, finding)| finding.plain != finding.library));
}

#[test]
fn what_is_found_is_made_small() {
    let mut judge = Judge::new(plain(), planted("shutdown-ignored"), 0).unwrap();
    let (program, _) = (1..PROGRAMS)
        .map(generate::program)
        .filter(|program| program.steps.len() > 20)
        .find_map(|program| match judge.compare(&program, 3).unwrap() {
            Verdict::Different(finding) => Some((program, finding)),
            _ => None,
        })
        .expect("no program in the budget ends a direction");
    let small =
        shrink(&mut judge, &program, Duration::from_secs(60), &AtomicBool::new(false), |_, _| true).unwrap();
    println!("{} steps became:\n{}", program.steps.len(), small.text());
    assert!(matches!(judge.compare(&small, 3).unwrap(), Verdict::Different(_)));
    assert!(small.steps.len() <= 12 && small.steps.len() < program.steps.len());
    assert!(small.text().contains("shutdown"));
}

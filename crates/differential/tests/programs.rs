//! Random programs and those that once differed: the kernel against itself, under a library that changes nothing, and under
//! the project's own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use common::{own_library, plain, planted};
use differential::campaign::{Plan, Summary, run};
use differential::compare::side_by_side;
use differential::control::Side;
use differential::generate;
use differential::judge::{Judge, Verdict};
use differential::program::Program;
use differential::share::Counting;
use differential::sys::process::processors;
use shm::sync::AtomicBool;

/// So many programs continuous integration runs on each pair of sides.
const PROGRAMS: u64 = 2000;

fn plan(library: Side, seed: u64, programs: u64) -> Plan {
    Plan {
        plain: plain(),
        library,
        seed,
        programs,
        jobs: 2 * processors().len(),
        repetitions: 10,
        enough: 3,
        focus: Vec::new(),
        without: Vec::new(),
    }
}

/// Each uses all processors.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs them, prints what is left to chance, and fails on each difference.
fn nothing_differs(what: &str, library: Side, seed: u64, programs: u64) {
    let plan = &plan(library, seed, programs);
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let summary = run(plan, &AtomicBool::new(false), &|_| ()).unwrap();
    let Summary { ran, left_out, steps, different, unstable, suspicious, .. } = summary;
    let seeds: Vec<u64> = unstable.iter().map(|(seed, _)| *seed).collect();
    let strange: Vec<u64> = suspicious.iter().map(|(seed, _)| *seed).collect();
    if !differential::sys::ring::is_allowed() {
        println!("NOT RUN by io_uring: this kernel refuses it");
    }
    println!(
        "{what}: {ran} programs of {steps} calls, {} different, suspicious: {strange:?}, unstable: {seeds:?}",
        different.len()
    );
    let told: String = different
        .iter()
        .map(|(seed, found)| {
            format!("seed {seed}\n{}", side_by_side(&generate::program(*seed), &found.plain, &found.library))
        })
        .collect();
    assert!(different.is_empty(), "{what}:\n{told}");
    assert_eq!(ran + left_out, plan.programs);
    // Chance shall stay rare: it hides faults that are.
    let chance = unstable.len() + suspicious.len();
    assert!(chance as u64 <= 3 + ran / 200, "{what}: too much is left to chance: {seeds:?} {strange:?}");
}

#[test]
fn the_kernel_does_not_differ_from_itself() {
    nothing_differs("plain", plain(), 1, PROGRAMS);
}

#[test]
fn a_library_that_changes_nothing_does_not_differ() {
    nothing_differs("transparent library", planted(""), 500_000_000, PROGRAMS / 2);
}

#[test]
fn the_projects_library_does_not_differ() {
    if let Some(library) = own_library(false) {
        nothing_differs("libtieline-sockets.so", library, 1_000_000_000, PROGRAMS);
    }
}

/// Of the programs with a ring on each connection so many may differ, in percent: about one is known to ([docs/sockets.md](../../../docs/sockets.md)).
const KNOWN_WITH_RINGS: u64 = 3;
/// Of what they write while the reader is awake, so much goes into rings at least, in percent: many of these programs use what rings do not do.
const SHARE_WITH_RINGS: f64 = 30.0;

/// With a ring on each connection, from its first byte on. Edges are left out: of bytes that go back to the kernel one is told once more.
#[test]
fn the_projects_library_seldom_differs_with_rings() {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(mut library) = own_library(false) else { return };
    library.environment.push((sockets_rules::ENV_RINGS.to_owned(), sockets_rules::RINGS_FORCED.to_owned()));
    let counting = Counting::begin(&mut library).unwrap();
    let plan = Plan {
        without: vec!["edge".to_owned()],
        enough: usize::MAX,
        ..plan(library, 1_500_000_000, PROGRAMS / 4)
    };
    let start = std::time::Instant::now();
    let Summary { ran, different, .. } = run(&plan, &AtomicBool::new(false), &|_| ()).unwrap();
    let share = counting.share().unwrap();
    println!(
        "libtieline-sockets.so with rings: {ran} programs, {:.0} a second, {} different; {share}",
        ran as f64 / start.elapsed().as_secs_f64(),
        different.len(),
    );
    for (seed, found) in &different {
        let told = side_by_side(&generate::program(*seed), &found.plain, &found.library);
        println!("seed {seed} differs\n{told}");
    }
    assert!(
        different.len() as u64 <= 2 + ran * KNOWN_WITH_RINGS / 100,
        "{} of {ran} differ",
        different.len()
    );
    assert!(share.percent_while_awake() >= SHARE_WITH_RINGS, "{share}");
}

#[test]
fn what_once_differed_does_so_no_more() {
    let mut library = own_library(false);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds no program", folder.display());
    let mut judges = vec![("plain", Judge::new(plain(), plain(), 0).unwrap())];
    judges.push(("transparent library", Judge::new(plain(), planted(""), 0).unwrap()));
    if let Some(library) = library.take() {
        judges.push(("libtieline-sockets.so", Judge::new(plain(), library, 0).unwrap()));
    }
    for file in &files {
        let program = Program::parse(&std::fs::read_to_string(file).unwrap()).unwrap();
        for (what, judge) in &mut judges {
            if let Verdict::Different(found) = judge.compare(&program, 10).unwrap() {
                panic!(
                    "{what}, {}:\n{}",
                    file.display(),
                    side_by_side(&program, &found.plain, &found.library)
                );
            }
        }
    }
    println!("{} saved programs", files.len());
}

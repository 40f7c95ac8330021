//! Random programs and those that once differed: the kernel against itself, under a library that changes
//! nothing, and under the project's own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod common;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use common::{own_library, plain, planted};
use differential::campaign::{Plan, Summary, run};
use differential::compare::side_by_side;
use differential::control::Side;
use differential::generate;
use differential::judge::{Finding, Judge, Verdict};
use differential::known;
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
        known: false,
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
    let told: String = different.iter().map(|(seed, found)| told(*seed, found)).collect();
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

/// Of what programs with a ring on each connection write while the reader is awake, so much goes into rings
/// at least, in percent: many of these programs use what rings do not do.
const SHARE_WITH_RINGS: f64 = 25.0;

/// The project's own library, with a ring on each connection from its first byte.
fn with_rings() -> Option<Side> {
    let mut library = own_library(false)?;
    library.environment.push((sockets_rules::ENV_RINGS.to_owned(), sockets_rules::RINGS_FORCED.to_owned()));
    Some(library)
}

/// With a ring on each connection nothing differs but what is on the list of what is known.
#[test]
fn the_projects_library_differs_with_rings_only_as_is_known() {
    let Some(mut library) = with_rings() else { return };
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let counting = Counting::begin(&mut library).unwrap();
    let plan = Plan { known: true, ..plan(library, 1_500_000_000, PROGRAMS / 2) };
    let start = std::time::Instant::now();
    let summary = run(&plan, &AtomicBool::new(false), &|_| ()).unwrap();
    let share = counting.share().unwrap();
    println!(
        "libtieline-sockets.so with rings: {} programs, {:.0} a second, {} different, {} as is known ({}); {share}",
        summary.ran,
        summary.ran as f64 / start.elapsed().as_secs_f64(),
        summary.different.len(),
        summary.known.len(),
        summary.known_by_name(),
    );
    let told = |(seed, found): &(u64, _)| told(*seed, found);
    let told: String = summary.different.iter().map(told).collect();
    assert!(told.is_empty(), "with rings:\n{told}");
    assert!(share.percent_while_awake() >= SHARE_WITH_RINGS, "{share}");
}

fn told(seed: u64, found: &Finding) -> String {
    format!("seed {seed}\n{}", side_by_side(&generate::program(seed), &found.plain, &found.library))
}

/// The saved programs of a folder of this crate, by their names.
fn saved(folder: &str) -> Vec<(String, Program)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.is_file()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} holds no program", folder.display());
    let read = |path: &std::path::PathBuf| Program::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let name = |path: &std::path::PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    files.iter().map(|path| (name(path), read(path))).collect()
}

/// The library without rings, and with one on each connection.
fn own_judges() -> Vec<(&'static str, Judge)> {
    let judge = |side: Side| Judge::new(plain(), side, 0).unwrap();
    let own = own_library(false).map(|side| ("libtieline-sockets.so", judge(side)));
    own.into_iter()
        .chain(with_rings().map(|side| ("libtieline-sockets.so with rings", judge(side))))
        .collect()
}

#[test]
fn what_once_differed_does_so_no_more() {
    let mut judges = vec![("plain", Judge::new(plain(), plain(), 0).unwrap())];
    judges.push(("transparent library", Judge::new(plain(), planted(""), 0).unwrap()));
    judges.extend(own_judges());
    let programs = saved("corpus");
    for (name, program) in &programs {
        for (what, judge) in &mut judges {
            if let Verdict::Different(found) = judge.compare(program, 10).unwrap() {
                panic!("{what}, {name}:\n{}", side_by_side(program, &found.plain, &found.library));
            }
        }
    }
    println!("{} saved programs", programs.len());
}

/// Each entry of the list is shown by a saved program, with rings alone, and told of in the table that users
/// read.
#[test]
fn what_is_known_to_differ_is_shown_and_told() {
    let table = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/sockets.md"));
    let table = table.unwrap();
    let programs = saved("corpus/known");
    for entry in &known::ALL {
        assert!(table.lines().any(|line| line.starts_with(&format!("| {}", entry.row))), "{}", entry.row);
        let shows = |name: &String| name == entry.name || name.starts_with(&format!("{}-", entry.name));
        assert!(programs.iter().any(|(name, _)| shows(name)), "no program shows {}", entry.name);
    }
    let mut wrong = Vec::new();
    for (what, mut judge) in own_judges() {
        for (name, program) in &programs {
            let is_with_rings = what.ends_with("with rings");
            // Two ends that do not meet in time have no ring: on a busy machine most do not.
            let tries = if is_with_rings { 500 } else { 1 };
            let found = (0..tries).find_map(|_| match judge.compare(program, 10).unwrap() {
                Verdict::Different(found) => Some(found),
                _ => None,
            });
            let Some(found) = found else {
                assert!(!is_with_rings, "{what}, {name}: nothing differs any more");
                continue;
            };
            let told = side_by_side(program, &found.plain, &found.library);
            assert!(is_with_rings, "{what}, {name}:\n{told}");
            let entry = known::of(program, &found);
            if !entry.is_some_and(|entry| name.starts_with(entry.name)) {
                wrong.push(format!("{what}, {name} is {entry:?}:\n{told}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

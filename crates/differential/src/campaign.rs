//! Runs many programs on several processors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use shm::sync::{AtomicBool, AtomicU64, Ordering};

use crate::control::Side;
use crate::generate;
use crate::judge::{Finding, Judge, Verdict};
use crate::known::{self, Known};
use crate::program::Program;
use crate::sys::process;

/// So many programs that are suspicious tell as much as one that differs, and each takes long.
const SUSPICIOUS: usize = 20;

/// What to run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Without the library.
    pub plain: Side,
    /// With it.
    pub library: Side,
    /// The first program's seed; the others follow it.
    pub seed: u64,
    /// How many.
    pub programs: u64,
    /// At a time.
    pub jobs: usize,
    /// How often a program that differs is repeated.
    pub repetitions: usize,
    /// So many differences are enough; or twenty times as many programs that are suspicious.
    pub enough: usize,
    /// Families of moves that come more often: see [`generate::focused`].
    pub focus: Vec<String>,
    /// Programs with one of these words are left out.
    pub without: Vec<String>,
    /// What is known to differ with rings ([`known::ALL`]) is counted apart.
    pub known: bool,
}

/// Whether one of the words stands in a program's text: a call, an argument or one of its values.
fn has(program: &Program, words: &[String]) -> bool {
    !words.is_empty()
        && program
            .text()
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .any(|found| words.iter().any(|word| word == found))
}

/// What came of it.
#[derive(Debug, Default, Clone)]
pub struct Summary {
    /// Programs that ran.
    pub ran: u64,
    /// Programs that were left out, as the plan wants it.
    pub left_out: u64,
    /// Steps in them.
    pub steps: u64,
    /// Seeds with differences.
    pub different: Vec<(u64, Finding)>,
    /// Seeds with differences that are known, each with what it is.
    pub known: Vec<(u64, Known, Finding)>,
    /// Seeds that differed at first, and not when repeated.
    pub unstable: Vec<(u64, Finding)>,
    /// Seeds that the library at times does something with that was never seen without it.
    pub suspicious: Vec<(u64, Finding)>,
    /// In how many programs each call came.
    pub calls: BTreeMap<&'static str, u64>,
    /// Each job's programs had a network of their own.
    pub own_network: bool,
}

impl Summary {
    /// How many programs are known to differ, and in which ways: `edge-again 3, rings-first 1`; empty if none
    /// is.
    #[must_use]
    pub fn known_by_name(&self) -> String {
        let count = |entry: &Known| self.known.iter().filter(|(_, known, _)| known == entry).count();
        let counted = known::ALL.iter().map(|entry| (entry.name, count(entry)));
        let told: Vec<String> =
            counted.filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}")).collect();
        told.join(", ")
    }
}

/// Runs all programs of a plan, or until there is enough to look at, or until it is told to stop. `progress`
/// hears of each.
///
/// # Errors
///
/// A side cannot be started, or the plain one does not run.
pub fn run(plan: &Plan, stop: &AtomicBool, progress: &(impl Fn(&Summary) + Sync)) -> Result<Summary> {
    let next = AtomicU64::new(0);
    let summary = Mutex::new(Summary { own_network: true, ..Summary::default() });
    let cpus = process::processors();
    let work = |job: usize| -> Result<()> {
        let cpu = cpus[job % cpus.len()];
        process::run_on(cpu);
        process::sleep_exactly();
        let mut judge = Judge::new(plan.plain.clone(), plan.library.clone(), cpu)?;
        locked(&summary).own_network &= judge.has_own_network();
        loop {
            let at = next.fetch_add(1, Ordering::SeqCst);
            let enough = |summary: &Summary| {
                summary.different.len() >= plan.enough
                    || summary.suspicious.len() >= plan.enough.saturating_mul(SUSPICIOUS)
            };
            if at >= plan.programs || stop.load(Ordering::SeqCst) || enough(&locked(&summary)) {
                return Ok(());
            }
            let seed = plan.seed.wrapping_add(at);
            let program = generate::focused(seed, &plan.focus);
            if has(&program, &plan.without) {
                locked(&summary).left_out += 1;
                continue;
            }
            let verdict = judge.compare(&program, plan.repetitions)?;
            let mut summary = locked(&summary);
            summary.ran += 1;
            summary.steps += program.steps.len() as u64;
            let calls: BTreeSet<_> = program.steps.iter().map(|step| step.call.name()).collect();
            for call in calls {
                *summary.calls.entry(call).or_default() += 1;
            }
            match verdict {
                Verdict::Same => {}
                Verdict::Unstable(finding) => summary.unstable.push((seed, finding)),
                Verdict::Suspicious(finding) => match known::of(&program, &finding).filter(|_| plan.known) {
                    Some(known) => summary.known.push((seed, known, finding)),
                    None => summary.suspicious.push((seed, finding)),
                },
                Verdict::Different(finding) => match known::of(&program, &finding).filter(|_| plan.known) {
                    Some(known) => summary.known.push((seed, known, finding)),
                    None => summary.different.push((seed, finding)),
                },
            }
            progress(&summary);
        }
    };
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..plan.jobs.max(1)).map(|job| scope.spawn(move || work(job))).collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a job panicked"))))
            .collect()
    });
    // Who is told to stop may lose its sides to the same signal.
    if !stop.load(Ordering::SeqCst) {
        results.into_iter().collect::<Result<()>>()?;
    }
    let mut summary = locked(&summary).clone();
    summary.different.sort_by_key(|(seed, _)| *seed);
    summary.known.sort_by_key(|(seed, ..)| *seed);
    summary.unstable.sort_by_key(|(seed, _)| *seed);
    summary.suspicious.sort_by_key(|(seed, _)| *seed);
    Ok(summary)
}

/// A panic of another job leaves nothing half done in here.
fn locked(summary: &Mutex<Summary>) -> MutexGuard<'_, Summary> {
    summary.lock().unwrap_or_else(PoisonError::into_inner)
}

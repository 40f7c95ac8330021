//! Makes a program that shows a difference smaller, as long as it shows one.

use std::time::{Duration, Instant};

use anyhow::Result;
use shm::sync::{AtomicBool, Ordering};

use crate::compare::differences;
use crate::judge::{Finding, Judge, Verdict};
use crate::program::{Program, Setting};

/// So often what is left is repeated before it counts.
const REPETITIONS: usize = 3;

/// Removes what is not needed, for at most so long, or until it is told to stop. What comes back still
/// differs, in a way that is `wanted`; it is the program itself if it does not.
///
/// # Errors
///
/// The plain side does not run.
pub fn shrink(
    judge: &mut Judge,
    program: &Program,
    limit: Duration,
    stop: &AtomicBool,
    wanted: impl Fn(&Program, &Finding) -> bool,
) -> Result<Program> {
    let end = Instant::now() + limit;
    let Verdict::Different(finding) = judge.glance(program)? else { return Ok(program.clone()) };
    // What comes behind the first difference is mostly its consequence.
    let mut start = program.clone();
    if let Some(first) = differences(&finding.plain, &finding.library).first() {
        start.steps.truncate(first.at + 1);
    }
    let differs = |program: &Program, verdict: Verdict| match verdict {
        Verdict::Different(finding) => wanted(program, &finding),
        _ => false,
    };
    if !differs(&start, judge.glance(&start)?) {
        start = program.clone();
    }
    let small = shrink_by(&start, |candidate| {
        Ok(Instant::now() < end
            && !stop.load(Ordering::SeqCst)
            && differs(candidate, judge.glance(candidate)?))
    })?;
    Ok(if differs(&small, judge.compare(&small, REPETITIONS)?) { small } else { start })
}

/// The same with any other question than whether it differs.
///
/// # Errors
///
/// The question cannot be answered.
pub fn shrink_by(program: &Program, mut differs: impl FnMut(&Program) -> Result<bool>) -> Result<Program> {
    let mut best = program.clone();
    loop {
        let before = best.clone();
        remove_steps(&mut best, &mut differs)?;
        simplify_steps(&mut best, &mut differs)?;
        let plain = Program { setting: Setting::default(), steps: best.steps.clone() };
        if plain.setting != best.setting && differs(&plain)? {
            best = plain;
        }
        if best == before {
            return Ok(best);
        }
    }
}

/// First halves, then smaller pieces, from the end: what comes last depends on what came before, not the
/// other way round.
fn remove_steps(best: &mut Program, differs: &mut impl FnMut(&Program) -> Result<bool>) -> Result<()> {
    let mut piece = best.steps.len().div_ceil(2).max(1);
    loop {
        let mut end = best.steps.len();
        while end > 0 {
            let start = end.saturating_sub(piece);
            let mut candidate = best.clone();
            candidate.steps.drain(start..end);
            if differs(&candidate)? {
                *best = candidate;
            }
            end = start.min(best.steps.len());
        }
        if piece == 1 {
            return Ok(());
        }
        piece = piece.div_ceil(2);
    }
}

/// Arguments that say less.
fn simplify_steps(best: &mut Program, differs: &mut impl FnMut(&Program) -> Result<bool>) -> Result<()> {
    const SIMPLER: [(&str, &str); 7] = [
        ("with=", "-"),
        ("flags=", "-"),
        ("len=", "4"),
        ("by=", "read"),
        ("by=", "write"),
        ("by=", "poll"),
        ("bad=", "no"),
    ];
    for at in 0..best.steps.len() {
        for (key, simple) in SIMPLER {
            let line = best.steps[at].text();
            let changed: Vec<String> = line
                .split(' ')
                .map(|word| if word.starts_with(key) { format!("{key}{simple}") } else { word.to_owned() })
                .collect();
            let changed = changed.join(" ");
            // Not every choice exists for every call.
            let Some(candidate) = with_line(best, at, &changed).filter(|_| changed != line) else { continue };
            if differs(&candidate)? {
                *best = candidate;
            }
        }
    }
    Ok(())
}

fn with_line(program: &Program, at: usize, line: &str) -> Option<Program> {
    let mut lines: Vec<String> = program.text().lines().map(str::to_owned).collect();
    let head = lines.len() - program.steps.len();
    *lines.get_mut(head + at)? = line.to_owned();
    Program::parse(&lines.join("\n")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_question_needs_is_all_that_is_left() {
        let program = crate::generate::program(7);
        let wanted = |candidate: &Program| {
            Ok(candidate.steps.iter().filter(|step| step.call.name() == "socket").count() >= 2)
        };
        assert!(wanted(&program).unwrap(), "this seed has two sockets");
        let small = shrink_by(&program, wanted).unwrap();
        assert_eq!(small.steps.len(), 2);
        assert_eq!(small.setting, Setting::default());
        assert!(small.steps.iter().all(|step| step.text().ends_with("with=-")));
    }

    #[test]
    fn a_program_that_shows_nothing_is_left_alone() {
        let program = crate::generate::program(8);
        assert_eq!(shrink_by(&program, |_| Ok(false)).unwrap(), program);
    }
}

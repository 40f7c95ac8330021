//! Measures suspected pairs again, with fresh memory and next to sound pairs, and a third time
//! where the readings disagree.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use shm::clock::Clock;
use tieline::NodeId;

use super::arena::Arena;
use super::judge::{self, Adds, Excess};
use super::sample;
use super::stalls::{self, Stalls};
use super::{PairFigures, PairsReport, Plan, Readings, read, unordered};
use crate::agreement::{MOST_READINGS, settled};
use crate::target::Target;
use crate::verdict::Verdict;

/// What the first pass suspects of one pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Suspicion {
    Latency,
    Block,
    Stalls,
}

/// What a further pass read of a pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Again {
    /// Of what: `latency`, `block` or `stalls`.
    pub what: String,
    /// By how much it exceeds what it should be; `None` of stalls, and where it could be read too seldom.
    pub ratio: Option<f64>,
    /// The result of this pass alone.
    pub verdict: Verdict,
}

/// A pair, what is suspected of it, and what each pass has said.
#[derive(Debug)]
struct Suspect {
    pair: [NodeId; 2],
    what: Suspicion,
    readings: Vec<Verdict>,
    /// By how much it exceeded what it should be in each further pass.
    ratios: Vec<Option<f64>>,
    /// What the last pass saw.
    problem: String,
}

/// Numbers of the arenas of further passes; others have the rest.
const ARENAS: [u32; MOST_READINGS - 1] = [1, 3];

/// The result of the first pass for a pair, if it does not clear it.
fn suspects(figures: &PairFigures, stalls: &Stalls) -> Vec<Suspect> {
    let of_excess = |excess: Option<&Excess>, kind: &str| match excess {
        Some(excess) => excess.verdict,
        // Tried, and read too seldom.
        None if figures.problems.iter().any(|problem| problem.starts_with(kind)) => Verdict::Inconclusive,
        None => Verdict::Pass,
    };
    let stalled = match (stalls.is_suspect(), stalls.is_repeated()) {
        (_, true) => Verdict::Fail,
        (true, false) => Verdict::Inconclusive,
        (false, false) => Verdict::Pass,
    };
    // Both directions have the same stalls; one is enough for the link.
    let stalled = if figures.pair[0] < figures.pair[1] { stalled } else { Verdict::Pass };
    [
        (Suspicion::Latency, of_excess(figures.latency.as_ref(), "latency:")),
        (Suspicion::Block, of_excess(figures.block.as_ref(), "bandwidth:")),
        (Suspicion::Stalls, stalled),
    ]
    .into_iter()
    .filter(|(_, verdict)| *verdict != Verdict::Pass)
    .map(|(what, verdict)| Suspect {
        pair: figures.pair,
        what,
        readings: vec![verdict],
        ratios: Vec::new(),
        problem: String::new(),
    })
    .collect()
}

/// Measures what is suspected until it is settled.
pub(super) fn run(
    target: &Target,
    plan: &Plan,
    stalls: &[Stalls],
    report: &mut PairsReport,
    tell: &mut dyn FnMut(&str),
    stop: &dyn Fn() -> bool,
) {
    let mut all: Vec<Suspect> =
        report.pairs.iter().zip(stalls).flat_map(|(figures, stalls)| suspects(figures, stalls)).collect();
    report.second_pass = all
        .iter()
        .map(|Suspect { pair: [from, to], what, .. }| format!("{what:?} from node {from} to node {to}"))
        .collect();
    // Memory of a pass is kept as long as there may be another: what is given back would be taken again.
    let mut kept = Vec::new();
    for (number, arena) in ARENAS.into_iter().enumerate() {
        let mut open: Vec<&mut Suspect> =
            all.iter_mut().filter(|suspect| settled(&suspect.readings).is_none()).collect();
        if open.is_empty() || stop() {
            break;
        }
        let name = ["second", "third"].get(number).unwrap_or(&"further");
        tell(&format!("pairs: {name} pass for {} suspicion(s)", open.len()));
        let arena = match Arena::set_up(target, arena) {
            Ok(arena) => arena,
            Err(error) => return report.error = Some(error),
        };
        let again = Plan { rounds: plan.rounds * 2, seed: plan.seed ^ (0xa9a1 + number as u64), ..*plan };
        let waited = look(&arena, &again, &mut open, stop);
        report.load.waited_percent = report.load.or_worse(waited).waited_percent;
        kept.push(arena);
    }
    if !stop() {
        all.into_iter().for_each(|suspect| conclude(report, suspect));
    }
}

/// What came of a suspicion goes to its pair.
fn conclude(report: &mut PairsReport, suspect: Suspect) {
    let verdict = settled(&suspect.readings).unwrap_or(Verdict::Inconclusive);
    let Some(figures) = report.pairs.iter_mut().find(|figures| figures.pair == suspect.pair) else { return };
    // What the first pass could not read was read now, or is said again. What all passes say is said of its
    // figure, too.
    let (kind, what, excess) = match suspect.what {
        Suspicion::Latency => ("latency:", "latency", figures.latency.as_mut()),
        Suspicion::Block => ("bandwidth:", "block", figures.block.as_mut()),
        Suspicion::Stalls => ("stalls:", "stalls", None),
    };
    excess.into_iter().for_each(|excess| excess.verdict = verdict);
    let further = suspect.readings.iter().skip(1).zip(&suspect.ratios);
    figures.again.extend(further.map(|(verdict, ratio)| Again {
        what: what.to_owned(),
        ratio: *ratio,
        verdict: *verdict,
    }));
    figures.problems.retain(|problem| !problem.starts_with(kind));
    if figures.problems.is_empty() {
        figures.verdict = Verdict::Pass;
    }
    if verdict != Verdict::Pass {
        figures.problems.push(suspect.problem);
        figures.verdict = figures.verdict.max(verdict);
    }
}

/// One further pass over what is open; what it took away from this thread.
fn look(
    arena: &Arena,
    plan: &Plan,
    open: &mut [&mut Suspect],
    stop: &dyn Fn() -> bool,
) -> bench::noise::others::Load {
    let clock = Clock::global();
    let all = arena.pairs();
    let is_measured = |pair: &(usize, usize)| {
        let nodes = arena.nodes_of(*pair);
        open.iter().any(|suspect| suspect.pair == nodes && suspect.what != Suspicion::Stalls)
    };
    let pairs = sample::with_controls(&all, is_measured, plan.seed);
    let measured = all.iter().any(is_measured);
    let readings = if measured { read(arena, &clock, &pairs, plan, stop) } else { Readings::default() };
    let latency = judge::judge(&readings.latency, Adds::Time, plan.limits.latency);
    let block = judge::judge(&readings.block, Adds::Share, plan.limits.block);
    let links: BTreeSet<[NodeId; 2]> = open
        .iter()
        .filter(|suspect| suspect.what == Suspicion::Stalls)
        .map(|suspect| unordered(suspect.pair))
        .collect();
    let stalled = stalls::beside_others(arena, &clock, &all, &links, plan.watch * 2, stop);
    for suspect in open.iter_mut() {
        let at = pairs.iter().position(|pair| arena.nodes_of(*pair) == suspect.pair);
        let of = |all: &[Option<Excess>]| at.and_then(|at| all.get(at).cloned().flatten());
        let (excess, (verdict, problem)) = match suspect.what {
            Suspicion::Latency => (of(&latency), said(of(&latency).as_ref(), "half round trip", "latency")),
            Suspicion::Block => (of(&block), said(of(&block).as_ref(), "block of 128 KiB", "bandwidth")),
            Suspicion::Stalls => (None, stalled.of(unordered(suspect.pair))),
        };
        suspect.ratios.push(excess.map(|excess| excess.ratio));
        suspect.readings.push(verdict);
        suspect.problem = problem;
    }
    let waited = bench::noise::others::Load { waited_percent: readings.waited_percent, ..Default::default() };
    waited.or_worse(stalled.load)
}

fn said(excess: Option<&Excess>, what: &str, kind: &str) -> (Verdict, String) {
    let Some(excess) = excess else {
        let text = format!("{kind}: too few undisturbed readings to judge");
        return (Verdict::Inconclusive, text);
    };
    let text = format!(
        "{kind}: a {what} takes {:.0} ns, {:.2} x as long as on the other pairs (95 %: {:.2} to {:.2}, limit {:.2})",
        excess.p50_ns, excess.ratio, excess.ratio_ci95.low, excess.ratio_ci95.high, excess.limit
    );
    (excess.verdict, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::stats::Interval;

    fn figures() -> PairFigures {
        let excess = |verdict| Excess {
            p50_ns: 4728.0,
            ratio: 1.06,
            ratio_ci95: Interval::between(1.02, 1.15),
            limit: 1.12,
            readings: 60,
            verdict,
        };
        PairFigures {
            pair: [4, 8].map(|id| NodeId::new(id).unwrap()),
            latency: Some(excess(Verdict::Pass)),
            block: Some(excess(Verdict::Inconclusive)),
            again: Vec::new(),
            bandwidth_bytes_per_s: None,
            stalls: 0,
            problems: Vec::new(),
            verdict: Verdict::Pass,
        }
    }

    fn report() -> PairsReport {
        let mut report = super::super::tests::report(0, 0);
        report.pairs = vec![figures()];
        report
    }

    fn nothing() -> Stalls {
        Stalls { pair: figures().pair, stalls: Vec::new() }
    }

    #[test]
    fn a_doubtful_first_pass_and_a_bad_second_blame_nobody() {
        let mut suspects = suspects(&figures(), &nothing());
        assert_eq!(suspects.len(), 1);
        let mut suspect = suspects.remove(0);
        suspect.readings.push(Verdict::Fail);
        suspect.ratios.push(Some(1.46));
        assert_eq!(settled(&suspect.readings), None, "a third is needed");
        suspect.problem = "bandwidth: 1.46 x".into();
        let mut report = report();
        conclude(&mut report, suspect);
        assert_eq!(report.pairs[0].verdict, Verdict::Inconclusive);
        assert_eq!(report.pairs[0].problems, ["bandwidth: 1.46 x"]);
        let again = &report.pairs[0].again;
        assert_eq!((again.len(), &*again[0].what, again[0].ratio), (1, "block", Some(1.46)), "both are told");
    }

    #[test]
    fn what_all_passes_say_is_said_of_the_figure() {
        let mut suspect = suspects(&figures(), &nothing()).remove(0);
        suspect.readings.extend([Verdict::Fail, Verdict::Fail]);
        suspect.ratios.extend([Some(1.46), Some(1.5)]);
        let mut report = report();
        conclude(&mut report, suspect);
        assert_eq!(report.pairs[0].block.as_ref().map(|block| block.verdict), Some(Verdict::Fail));
        assert_eq!((report.pairs[0].verdict, report.pairs[0].again.len()), (Verdict::Fail, 2));
    }

    #[test]
    fn what_was_read_too_seldom_and_then_passes_is_no_problem_any_more() {
        let mut figures = PairFigures { latency: None, block: None, ..figures() };
        figures.doubt("latency");
        figures.doubt("bandwidth");
        let mut report = report();
        report.pairs = vec![figures];
        for mut suspect in suspects(&report.pairs[0], &nothing()) {
            suspect.readings.push(Verdict::Pass);
            conclude(&mut report, suspect);
        }
        assert_eq!((report.pairs[0].verdict, report.pairs[0].problems.len()), (Verdict::Pass, 0));
    }
}

//! What the first pass suspects is measured once more, with fresh memory, for longer, beside pairs that nothing is said
//! against; only what both say is held against a pair.

use std::collections::BTreeSet;

use shm::clock::Clock;
use tieline::NodeId;

use super::arena::Arena;
use super::judge::{self, Excess, Limit};
use super::sample;
use super::stalls::{self, Stalls};
use super::{PairsReport, Plan, Readings, read, unordered};
use crate::target::Target;
use crate::verdict::Verdict;

/// What the first pass suspects of one pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Suspicion {
    Latency,
    Block,
    Stalls,
}

fn doubtful(excess: Option<&Excess>) -> bool {
    excess.is_some_and(|excess| excess.verdict != Verdict::Pass)
}

/// Measures what is suspected once more: with fresh memory, for longer, beside pairs that nothing is said against.
pub(super) fn run(
    target: &Target,
    plan: &Plan,
    stalls: &[Stalls],
    report: &mut PairsReport,
    tell: &mut dyn FnMut(&str),
    stop: &dyn Fn() -> bool,
) {
    let mut suspects: BTreeSet<([NodeId; 2], Suspicion)> = BTreeSet::new();
    for (figures, stalls) in report.pairs.iter().zip(stalls) {
        let of = [
            (doubtful(figures.latency.as_ref()), Suspicion::Latency),
            (doubtful(figures.block.as_ref()), Suspicion::Block),
            // Both directions hold the same stalls; one speaks for the link.
            (stalls.is_suspect() && figures.pair[0] < figures.pair[1], Suspicion::Stalls),
        ];
        suspects.extend(of.iter().filter(|(is, _)| *is).map(|(_, what)| (figures.pair, *what)));
    }
    if suspects.is_empty() {
        return;
    }
    tell(&format!("pairs: second pass for {} suspicion(s)", suspects.len()));
    report.second_pass =
        suspects.iter().map(|([from, to], what)| format!("{what:?} from node {from} to node {to}")).collect();
    let arena = match Arena::set_up(target, 1) {
        Ok(arena) => arena,
        Err(error) => return report.error = Some(error),
    };
    let clock = Clock::global();
    let all = arena.pairs();
    let is_measured = |pair: &(usize, usize)| {
        let nodes = arena.nodes_of(*pair);
        suspects.iter().any(|(suspect, what)| *suspect == nodes && *what != Suspicion::Stalls)
    };
    let pairs = sample::with_controls(&all, is_measured, plan.seed);
    let at = |nodes: [NodeId; 2]| pairs.iter().position(|pair| arena.nodes_of(*pair) == nodes);
    let measured = all.iter().any(is_measured);
    let again = Plan { rounds: plan.rounds * 2, seed: plan.seed ^ 0xa9a1, ..*plan };
    let readings = if measured { read(&arena, &clock, &pairs, &again, stop) } else { Readings::default() };
    let latency = judge::judge(&readings.latency, plan.limits.latency);
    let block = judge::judge(&readings.block, plan.limits.block);
    let stalled = confirm_stalls(&arena, &clock, &all, plan, &suspects, stop);
    for (nodes, what) in &suspects {
        let Some(figures) = report.pairs.iter_mut().find(|figures| figures.pair == *nodes) else { continue };
        let index = at(*nodes);
        let (verdict, problem) = match what {
            Suspicion::Latency => confirmed(
                index.and_then(|at| latency.get(at)?.as_ref()),
                "half round trip",
                "latency",
                plan.limits.latency,
            ),
            Suspicion::Block => confirmed(
                index.and_then(|at| block.get(at)?.as_ref()),
                "block of 128 KiB",
                "bandwidth",
                plan.limits.block,
            ),
            Suspicion::Stalls => match stalled.iter().find(|stalls| stalls.pair == *nodes) {
                Some(stalls) => (Verdict::Fail, stalls.describe()),
                None => (Verdict::Pass, String::new()),
            },
        };
        if verdict != Verdict::Pass {
            figures.problems.push(problem);
            figures.verdict = figures.verdict.max(verdict);
        }
    }
}

/// The second reading decides; the first was only a reason to look.
fn confirmed(excess: Option<&Excess>, what: &str, kind: &str, limit: Limit) -> (Verdict, String) {
    let Some(excess) = excess else {
        return (Verdict::Inconclusive, format!("{kind}: could not be measured a second time"));
    };
    let text = format!(
        "{kind}: a {what} takes {:.0} ns, {:.2} x that of the other pairs (95 %: {:.2} to {:.2}, limit {:.2})",
        excess.p50_ns, excess.ratio, excess.ratio_ci95.low, excess.ratio_ci95.high, limit.ratio
    );
    (excess.verdict, text)
}

/// Watches the suspects beside as many pairs that nothing is said against; the stalls of those who stall again and more than
/// the others.
fn confirm_stalls(
    arena: &Arena,
    clock: &Clock,
    pairs: &[(usize, usize)],
    plan: &Plan,
    suspects: &BTreeSet<([NodeId; 2], Suspicion)>,
    stop: &dyn Fn() -> bool,
) -> Vec<Stalls> {
    let is_suspect =
        |pair: &(usize, usize)| suspects.contains(&(unordered(arena.nodes_of(*pair)), Suspicion::Stalls));
    let (watched, good): (Vec<_>, Vec<_>) = pairs.iter().copied().partition(is_suspect);
    if watched.is_empty() {
        return Vec::new();
    }
    // At least two controls, so that chance has somewhere else to fall.
    let controls = good.into_iter().take(watched.len().max(4));
    let all: Vec<_> = watched.iter().copied().chain(controls).collect();
    let seen = stalls::of_links(&stalls::watch(arena, clock, &all, plan.watch * 2, stop));
    let (suspected, controls) = seen.split_at(watched.len());
    let by_chance = controls.iter().map(|stalls| stalls.alike().len()).max().unwrap_or(0);
    suspected
        .iter()
        .filter(|stalls| stalls.is_repeated() && stalls.alike().len() > by_chance)
        .cloned()
        .collect()
}

//! Measures every pair in comparison with all others: half round trip, bandwidth, stalls.
//!
//! Where to start reading: `judge` (what is called bad), then [`run`].

mod arena;
mod judge;
mod names;
mod probe;
mod sample;
mod second;
pub(crate) mod short;
mod stalls;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bench::noise::others::{Absence, Load, Meter};
use bench::rng::Rng;
use bench::stats::median;
use serde::{Deserialize, Serialize};
use shm::clock::Clock;
use tieline::NodeId;

pub use arena::Obstacle;
use judge::{Adds, Beside};
pub use judge::{Excess, Limit};
pub use names::{NamesReport, names};
use probe::Through;
pub use second::Again;
pub use stalls::{Stall, Stalls};

use crate::suspect::{self, Suspected};
use crate::target::Target;
use crate::verdict::Verdict;
use arena::{Arena, BLOCK_BYTES};

/// Limits that a pair must keep, compared with the other pairs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Of the half round trip.
    pub latency: Limit,
    /// Of the time that a block takes.
    pub block: Limit,
}

impl Default for Limits {
    /// From when on a link counts as slow, whatever the machine: it carries less than nine tenths of what it
    /// should; or its half round trip takes the time of one and a half further transfers of a line, since a
    /// poll that comes at the wrong moment costs one. What is chance is read off the pairs themselves: five
    /// standard deviations of theirs.
    fn default() -> Self {
        Self { latency: Limit { ratio: 2.5, scatters: 5.0 }, block: Limit { ratio: 1.12, scatters: 5.0 } }
    }
}

/// How long and how carefully.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Plan {
    /// Rounds in which every pair is read once.
    pub rounds: usize,
    /// How long to watch for stalls; zero: not at all.
    pub watch: Duration,
    /// When a pair is called bad.
    pub limits: Limits,
    /// Order of pairs, and which ones if not all.
    pub seed: u64,
    /// How many pairs are measured at most, about; beyond that a sample that has every node equally often.
    pub most_pairs: usize,
}

/// One ordered pair.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PairFigures {
    /// From which node to which.
    pub pair: [NodeId; 2],
    /// Half round trip of 8 bytes, beside the other pairs: the first pass, with what all passes together say
    /// of it.
    pub latency: Option<Excess>,
    /// Time of a block, beside the other pairs: the first pass, with what all passes together say of it.
    pub block: Option<Excess>,
    /// What each further pass read of what the first one suspected, in order.
    #[serde(default)]
    pub again: Vec<Again>,
    /// Bytes a second, from that time.
    pub bandwidth_bytes_per_s: Option<f64>,
    /// Stalls of the link, of both directions, in the first pass.
    pub stalls: u64,
    /// What is wrong with it, as further passes have it; in doubt or confirmed.
    pub problems: Vec<String>,
    /// What came of it.
    pub verdict: Verdict,
}

/// All pairs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PairsReport {
    /// By writer, then by owner; a sample if there are fewer than `pairs_in_all`.
    pub pairs: Vec<PairFigures>,
    /// Pairs that could have been measured.
    #[serde(default)]
    pub pairs_in_all: usize,
    /// Size of the blocks.
    pub block_bytes: u64,
    /// The same copy without a link, in nanoseconds: the machine's own.
    pub copy_ns: Option<f64>,
    /// Rounds in the first pass.
    pub rounds: usize,
    /// Pairs that were measured a second time, and why.
    pub second_pass: Vec<String>,
    /// What other work took away meanwhile.
    #[serde(default)]
    pub load: Load,
    /// The suspects.
    #[serde(rename = "culprits")]
    pub suspects: Vec<Suspected>,
    /// The worst of the pairs.
    pub verdict: Verdict,
    /// Why nothing could be measured.
    pub error: Option<String>,
    /// Pairs that could not be measured.
    pub obstacles: Vec<Obstacle>,
    /// Ended early, by request.
    pub partial: bool,
}

/// Pairs whose mappings are kept while some are measured a second time; a process may have 65,530 mappings
/// (vm.max_map_count).
const MOST_KEPT: usize = 8192;

/// A pair whose round trips were given up so often in a pass is left alone.
const GIVE_UP_AFTER: u32 = 3;

/// What a pass has read: `[round][pair]`, in nanoseconds.
#[derive(Debug, Default)]
struct Readings {
    /// Beside the bare lines.
    latency: Vec<Vec<Beside>>,
    /// Beside the plain copy.
    block: Vec<Vec<Beside>>,
    /// Round trips were tried: there were two processors for them.
    round_trips: bool,
    /// In which the measuring thread had no processor.
    waited_percent: Option<f64>,
}

impl Readings {
    /// What was tried of a pair and could be read too seldom. One direction stands for both: a round trip
    /// takes them both.
    fn lacks_latency(&self, pair: (usize, usize), latency: Option<&Excess>) -> bool {
        self.round_trips && pair.0 < pair.1 && latency.is_none()
    }

    fn copy_ns(&self) -> Option<f64> {
        let baselines = self.block.iter().flatten().map(|reading| reading.baseline_ns);
        median(&baselines.filter(|baseline| baseline.is_finite()).collect::<Vec<_>>())
    }
}

/// A pass takes so long at most: many times what it takes where nothing else is at work, so that many rounds
/// fewer are what other work costs, and not the user's patience.
const PASS_AT_LEAST: Duration = Duration::from_secs(5);
const PASS_FOR_EACH: Duration = Duration::from_millis(1);

fn longest(rounds: usize, pairs: usize) -> Duration {
    PASS_AT_LEAST + PASS_FOR_EACH * u32::try_from(rounds * pairs).unwrap_or(u32::MAX)
}

/// What was late is in doubt only where other work may have made it so.
fn hold_to(obstacles: &mut [Obstacle], load: Load) {
    obstacles.iter_mut().for_each(|obstacle| obstacle.in_doubt &= load.is_busy());
}

/// Measures; `tell` gets the progress, `stop` may request an early end.
pub fn run(target: &Target, plan: &Plan, tell: &mut dyn FnMut(&str), stop: &dyn Fn() -> bool) -> PairsReport {
    let mut report = PairsReport {
        pairs: Vec::new(),
        pairs_in_all: 0,
        block_bytes: BLOCK_BYTES as u64,
        copy_ns: None,
        rounds: plan.rounds,
        second_pass: Vec::new(),
        load: Load::default(),
        suspects: Vec::new(),
        verdict: Verdict::Fail,
        error: None,
        obstacles: Vec::new(),
        partial: false,
    };
    if target.nodes.len() < 2 {
        report.error = Some("two nodes are needed".into());
        return report;
    }
    let arena = match Arena::set_up(target, 0) {
        Ok(arena) => arena,
        Err(error) => {
            report.error = Some(error);
            return report;
        }
    };
    let clock = Clock::global();
    let meter = Meter::start();
    report.obstacles = arena.obstacles.clone();
    report.pairs_in_all = arena.pairs().len();
    let pairs = sample::of(arena.pairs(), arena.seats.len(), plan.most_pairs, plan.seed);
    tell("pairs: latency and bandwidth");
    let readings = read(&arena, &clock, &pairs, plan, stop);
    report.load.waited_percent = readings.waited_percent;
    tell("pairs: watching for stalls");
    let watched = stalls::watch(&arena, &clock, &pairs, plan.watch, stop);
    report.load.waited_percent = report.load.or_worse(watched.load()).waited_percent;
    let stalls = stalls::of_links(&watched.stalls);
    report.pairs = figures(&arena, &pairs, &readings, &stalls, &plan.limits);
    report.copy_ns = readings.copy_ns();
    // Memory that is given back now would be the second pass's: the same pages at the same addresses, with
    // the same luck in the caches.
    let kept = (report.pairs_in_all <= MOST_KEPT).then_some(arena);
    report.partial = stop();
    if !report.partial {
        second::run(target, plan, &stalls, &mut report, tell, stop);
        report.partial = stop();
    }
    drop(kept);
    report.load = report.load.or_worse(meter.read());
    finish(target, &mut report);
    report
}

/// One pass of rounds over these pairs.
fn read(
    arena: &Arena,
    clock: &Clock,
    pairs: &[(usize, usize)],
    plan: &Plan,
    stop: &dyn Fn() -> bool,
) -> Readings {
    let mut readings = Readings::default();
    let (baton, source) = (probe::Baton::default(), probe::source());
    let mut rng = Rng::new(plan.seed);
    let cpus = bench::cpus::pair(None, "round trips between two processors").ok();
    std::thread::scope(|scope| {
        let far = cpus.and_then(|[_, far_cpu]| {
            let baton = &baton;
            let answer = move || {
                // Where that is not allowed, the kernel chooses.
                let _ = shm::cpu::pin_current_thread(far_cpu);
                probe::answer(arena, baton);
            };
            std::thread::Builder::new().name("far end".into()).spawn_scoped(scope, answer).ok()
        });
        let pinned = shm::cpu::allowed_cpus().ok().zip(cpus);
        if let Some((_, [near_cpu, _])) = pinned {
            let _ = shm::cpu::pin_current_thread(near_cpu);
        }
        // How often each pair's round trip was given up. A link that loses messages would cost a time-out
        // each time, and has no latency worth a word; that it loses them is the load test's to say.
        let mut given_up = vec![0; pairs.len()];
        let mut order: Vec<usize> = (0..pairs.len()).collect();
        readings.round_trips = far.is_some();
        let (absence, until) = (Absence::since_now(), Instant::now() + longest(plan.rounds, pairs.len()));
        'rounds: for number in 0..plan.rounds {
            shuffle(&mut order, &mut rng);
            let nothing = vec![Beside::NOTHING; pairs.len()];
            let (mut latency, mut block) = (nothing.clone(), nothing);
            for index in &order {
                if stop() || Instant::now() >= until {
                    break 'rounds;
                }
                let pair = pairs[*index];
                // What is read first finds other caches: so each is first in every other round.
                let memory_first = number % 2 == 0;
                let block_of = |in_memory: bool| {
                    probe::undisturbed(clock, || match in_memory {
                        true => probe::copy_ns(arena, clock, pair.1, &source),
                        false => probe::block_ns(arena, clock, pair, &source).unwrap_or(f64::NAN),
                    })
                };
                block[*index] = beside(memory_first, block_of);
                // One direction stands for both: a round trip takes them both.
                if far.is_some() && pair.0 < pair.1 && given_up[*index] < GIVE_UP_AFTER {
                    let mut lost = false;
                    latency[*index] = beside(memory_first, |in_memory| {
                        let through = if in_memory { Through::Memory } else { Through::Links };
                        probe::undisturbed(clock, || {
                            let trip = probe::half_round_trip_ns(arena, clock, &baton, pair, through);
                            lost |= trip.is_err();
                            trip.unwrap_or(f64::NAN)
                        })
                    });
                    given_up[*index] += u32::from(lost);
                }
            }
            readings.latency.push(latency);
            readings.block.push(block);
        }
        readings.waited_percent = Some(absence.percent(clock));
        baton.over.store(true, shm::sync::Ordering::Relaxed);
        if let Some((before, _)) = pinned {
            let _ = shm::cpu::restore_current_thread(&before);
        }
    });
    readings
}

/// Both readings of a moment, in this order.
fn beside(memory_first: bool, mut read: impl FnMut(bool) -> f64) -> Beside {
    let (first, second) = (read(memory_first), read(!memory_first));
    let (baseline_ns, ns) = if memory_first { (first, second) } else { (second, first) };
    Beside { ns, baseline_ns }
}

fn shuffle<T>(order: &mut [T], rng: &mut Rng) {
    for last in (1..order.len()).rev() {
        order.swap(last, rng.below(last + 1));
    }
}

fn figures(
    arena: &Arena,
    pairs: &[(usize, usize)],
    readings: &Readings,
    stalls: &[Stalls],
    limits: &Limits,
) -> Vec<PairFigures> {
    let latency = judge::judge(&readings.latency, Adds::Time, limits.latency);
    let block = judge::judge(&readings.block, Adds::Share, limits.block);
    let of = |((at, pair), stalls): ((usize, &(usize, usize)), &Stalls)| {
        let (latency, block) = (latency.get(at).cloned().flatten(), block.get(at).cloned().flatten());
        let mut figures = PairFigures {
            pair: arena.nodes_of(*pair),
            bandwidth_bytes_per_s: block.as_ref().map(|block| BLOCK_BYTES as f64 / block.p50_ns * 1e9),
            latency,
            block,
            again: Vec::new(),
            stalls: stalls.stalls.len() as u64,
            problems: Vec::new(),
            verdict: Verdict::Pass,
        };
        if readings.lacks_latency(*pair, figures.latency.as_ref()) {
            figures.doubt("latency");
        }
        if figures.block.is_none() {
            figures.doubt("bandwidth");
        }
        figures
    };
    pairs.iter().enumerate().zip(stalls).map(of).collect()
}

impl PairFigures {
    /// Too little could be read: that is no pass.
    fn doubt(&mut self, what: &str) {
        self.problems.push(format!("{what}: too few undisturbed readings to judge"));
        self.verdict = self.verdict.max(Verdict::Inconclusive);
    }

    fn blame_nobody(&mut self) {
        self.verdict = self.verdict.min(Verdict::Inconclusive);
        for excess in [&mut self.latency, &mut self.block].into_iter().flatten() {
            excess.verdict = excess.verdict.min(Verdict::Inconclusive);
        }
    }
}

fn finish(target: &Target, report: &mut PairsReport) {
    hold_to(&mut report.obstacles, report.load);
    if report.load.is_busy() || report.partial {
        // Speed beside other work does not concern a link, nor does what was seen once.
        report.pairs.iter_mut().for_each(PairFigures::blame_nobody);
    }
    let mut bad: Vec<([NodeId; 2], String)> = Vec::new();
    for figures in report.pairs.iter().filter(|figures| figures.verdict == Verdict::Fail) {
        let [from, to] = figures.pair;
        bad.extend(
            figures.problems.iter().map(|problem| {
                (unordered(figures.pair), format!("from node {from} to node {to}, {problem}"))
            }),
        );
    }
    let links_each = report.links_each(target.nodes.len());
    report.suspects = blame(&target.nodes, links_each, &report.obstacles, &swapped(&report.obstacles), bad);
    let pairs = Verdict::worst(report.pairs.iter().map(|figures| figures.verdict));
    let failed = report.error.is_some() || !report.suspects.is_empty();
    // A tester without a processor while a link stopped has not seen it.
    let unread = report.obstacles.iter().any(|obstacle| obstacle.in_doubt);
    let incomplete = report.partial || report.load.kept_waiting() || unread;
    report.verdict = match (failed, pairs, incomplete) {
        (true, _, _) => Verdict::Fail,
        (false, Verdict::Pass, true) => Verdict::Inconclusive,
        (false, pairs, _) => pairs,
    };
}

fn unordered([a, b]: [NodeId; 2]) -> [NodeId; 2] {
    [a.min(b), a.max(b)]
}

/// Suspects behind obstacles and what else is bad, where each node has so many links. A wrong answer that a
/// swap explains is not held against the link, too.
fn blame(
    nodes: &[NodeId],
    links_each: usize,
    obstacles: &[Obstacle],
    swaps: &[[NodeId; 2]],
    mut bad: Vec<([NodeId; 2], String)>,
) -> Vec<Suspected> {
    for obstacle in obstacles.iter().filter(|obstacle| !obstacle.in_doubt) {
        let [from, to] = obstacle.pair;
        if !swaps.iter().any(|swap| obstacle.answered_by.is_some() && swap.contains(&to)) {
            bad.push((unordered(obstacle.pair), format!("from node {from} to node {to}, {}", obstacle.why)));
        }
    }
    let mut suspects = suspect::name_among(nodes, links_each, &bad);
    suspects.extend(swaps.iter().copied().map(Suspected::swapped));
    suspects
}

/// Nodes that answer for each other.
fn swapped(obstacles: &[Obstacle]) -> Vec<[NodeId; 2]> {
    let mut swaps = BTreeSet::new();
    for obstacle in obstacles {
        if let Some(other) = obstacle.answered_by {
            let called = obstacle.pair[1];
            swaps.insert([called.min(other), called.max(other)]);
        }
    }
    swaps.into_iter().collect()
}

impl PairsReport {
    /// How many pairs were measured, and of how many if not all.
    fn how_many(&self) -> String {
        let measured = self.pairs.len();
        if measured >= self.pairs_in_all {
            return format!("{measured} pairs");
        }
        format!("{measured} of {} pairs (a sample; all: `tieline verify` without --quick)", self.pairs_in_all)
    }

    /// Of how many links of a node a sample knows.
    fn links_each(&self, nodes: usize) -> usize {
        let all = nodes.saturating_sub(1);
        if self.pairs.len() >= self.pairs_in_all { all } else { (self.pairs.len() / nodes.max(1)).min(all) }
    }

    /// In one line.
    pub fn summary(&self) -> String {
        if let Some(error) = &self.error {
            return error.clone();
        }
        let of = |figure: &dyn Fn(&PairFigures) -> Option<f64>| {
            median(&self.pairs.iter().filter_map(figure).collect::<Vec<_>>())
        };
        let latency = of(&|pair| Some(pair.latency.as_ref()?.p50_ns));
        let bandwidth = of(&|pair| pair.bandwidth_bytes_per_s);
        let mut text = self.how_many();
        if let Some(latency) = latency {
            text.push_str(&format!(", {latency:.0} ns half round trip"));
        }
        if let Some(bandwidth) = bandwidth {
            text.push_str(&format!(", {:.1} GB/s", bandwidth / 1e9));
        }
        let bad = self.pairs.iter().filter(|pair| pair.verdict == Verdict::Fail).count();
        text.push_str(&format!(", {} bad, {} not measured", bad, self.obstacles.len()));
        if !self.second_pass.is_empty() {
            text.push_str(&format!(", {} measured again", self.second_pass.len()));
        }
        let unsure = self.pairs.iter().filter(|pair| pair.verdict == Verdict::Inconclusive).count();
        if unsure > 0 {
            text.push_str(&format!(", {unsure} inconclusive"));
        }
        text
    }
}

#[cfg(test)]
mod tests;

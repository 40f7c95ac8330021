//! Measures whether links reach the plan's rates; a link is blamed only after a second measurement.

use std::cell::OnceCell;
use std::time::{Duration, Instant};

use bench::noise::others::Meter;
use bench::stats::Interval;
use proto::ids::AdapterNo;
use serde::Serialize;
use tieline::NodeId;

use super::plan::{PlannedLink, Rates};
use super::seen::{LinkState, NodeCables};
use super::{Deviation, Kind, Request};
use crate::Target;
use crate::agreement::{self, MOST_READINGS};
use crate::pairs::short::{Centre, ShortReading, block_bytes, read_some};
use crate::verdict::Verdict;

/// Readings of each link in the first pass; the second, of links in doubt, takes twice as many.
const ROUNDS: usize = 40;
/// Longest time of the first pass, so that a very slow link does not hold up the test.
const LONGEST_FIRST: Duration = Duration::from_secs(3);
/// Longest time of the second measurement of a link.
const LONGEST_SECOND: Duration = Duration::from_secs(5);
/// Longest time of all second measurements.
const LONGEST_IN_ALL: Duration = Duration::from_secs(30);
/// Of what a link reached when a plan was saved, so much has to be reached later, in percent.
const KEPT_PERCENT: f64 = 80.0;
/// Half a round trip may take so many times what it took when the plan was saved: where two processors lie to
/// each other changes it fourfold on a virtual machine.
const LATENCY_ROOM: f64 = 8.0;

/// One limit and what came of it, in one direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// Which: the name in the plan.
    pub limit: &'static str,
    /// Its value.
    pub value: f64,
    /// What was measured, in the same unit; `None`: too little was read.
    pub measured: Option<f64>,
    /// The 95 % interval of that.
    pub ci95: Option<Interval>,
    /// Whether the whole interval keeps the limit, misses it, or straddles it.
    pub verdict: Verdict,
}

/// One direction of a link that was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measured {
    /// From which node to which.
    pub pair: [NodeId; 2],
    /// Bandwidth of blocks, in 10⁶ bytes a second.
    pub bandwidth_mb_s: Option<f64>,
    /// Half a round trip, in nanoseconds; shown with the lower node's direction, and true of both.
    pub half_rtt_ns: Option<f64>,
    /// Share of the speed at which this machine copies blocks without a link, in percent.
    pub copy_percent: Option<f64>,
    /// Against the plan's limits.
    pub checks: Vec<Check>,
    /// It was examined a second time.
    pub twice: bool,
    /// Why nothing was measured.
    pub error: Option<String>,
}

/// A link that is to be measured.
#[derive(Debug, Clone)]
pub struct Watch {
    link: PlannedLink,
    adapter: AdapterNo,
}

/// Links that have limits and no findings yet: those within this host, and those that lead to another one or
/// lie between others.
pub(super) fn wanted(
    request: &Request,
    nodes: &[NodeCables],
    deviations: &[Deviation],
) -> (Vec<Watch>, Vec<Watch>) {
    let is_here = |id: &NodeId| nodes.iter().any(|node| node.node == *id && node.host.is_none());
    let here = |watch: &Watch| watch.link.ends.iter().all(is_here);
    all_wanted(request, nodes, deviations).into_iter().partition(here)
}

/// What is said of a link that has limits and was not measured.
pub(super) fn not_measured(Watch { link, .. }: Watch) -> String {
    let [a, b] = link.ends;
    format!(
        "link {a}-{b} between two hosts was not held to its limits in the plan: `tieline cable` measures within a host; take its limits out of the plan"
    )
}

fn all_wanted(request: &Request, nodes: &[NodeCables], deviations: &[Deviation]) -> Vec<Watch> {
    let is_up = |[a, b]: [NodeId; 2]| {
        let near = nodes.iter().find(|node| node.node == a).and_then(|node| node.link_to(b));
        near.filter(|link| link.state == LinkState::Up).map(|link| link.adapter)
    };
    let blamed = |link: &PlannedLink| {
        deviations
            .iter()
            .any(|deviation| deviation.kind != Kind::Extra && deviation.links.contains(&link.ends))
    };
    let links = request.plan.links.iter().filter(|link| request.measure_all || !link.rates.is_none());
    links
        .filter(|link| request.only.is_none_or(|node| link.ends.contains(&node)) && !blamed(link))
        .filter_map(|link| Some(Watch { adapter: is_up(link.ends)?, link: link.clone() }))
        .collect()
}

/// Measures both directions of each; what does not keep its limits, again and alone, so that no link is
/// blamed for what a slow neighbour does to the caches, nor for what was seen once. Beside other work nobody
/// is blamed for speed at all.
///
/// With that: why, if so.
pub(super) fn measure(
    target: &Target,
    wanted: &[Watch],
    stop: &dyn Fn() -> bool,
) -> (Vec<Measured>, Option<String>) {
    let meter = Meter::start();
    let first = pass(target, wanted, Pass { rounds: ROUNDS, longest: LONGEST_FIRST, number: 2 }, stop);
    let in_doubt = |watch: &&Watch| {
        let of_it = first.iter().filter(|one| is_of(one, watch));
        of_it.flat_map(|one| &one.checks).any(|check| check.verdict != Verdict::Pass)
    };
    let doubtful: Vec<&Watch> = wanted.iter().filter(in_doubt).collect();
    let end = Instant::now() + LONGEST_IN_ALL;
    // Another number each time: what the one before used may not be gone yet.
    let mut numbers = (3..8).cycle();
    let mut settled = Vec::new();
    for watch in &doubtful {
        let of_it = first.iter().filter(|one| is_of(one, watch)).cloned().collect();
        settled.extend(settle(of_it, || {
            let number = numbers.next().filter(|_| !stop() && Instant::now() < end)?;
            let plan = Pass { rounds: ROUNDS * 2, longest: LONGEST_SECOND, number };
            Some(pass(target, std::slice::from_ref(*watch), plan, stop))
        }));
    }
    let kept = first.into_iter().filter(|one| !doubtful.iter().any(|watch| is_of(one, watch)));
    let mut all: Vec<Measured> = kept.chain(settled).collect();
    let busy = meter.read().reason();
    if busy.is_some() {
        all = all.into_iter().map(Measured::undecided).collect();
    }
    all.sort_by_key(|one| one.pair);
    (all, busy)
}

/// Measures a link again until each of its checks is settled. Returns the last figures, with the result of
/// all measurements.
fn settle(first: Vec<Measured>, mut again: impl FnMut() -> Option<Vec<Measured>>) -> Vec<Measured> {
    let mut looks = vec![first];
    loop {
        let of = |at: usize, number: usize| -> Vec<Verdict> {
            let check = |look: &Vec<Measured>| Some(look.get(at)?.checks.get(number)?.verdict);
            looks.iter().filter_map(check).collect()
        };
        let last = looks.last().cloned().unwrap_or_default();
        let numbers = |one: &Measured| 0..one.checks.len();
        let is_open = last
            .iter()
            .enumerate()
            .any(|(at, one)| numbers(one).any(|number| agreement::settled(&of(at, number)).is_none()));
        let more = if is_open && looks.len() < MOST_READINGS { again() } else { None };
        if let Some(more) = more {
            looks.push(more);
            continue;
        }
        let twice = looks.len() > 1;
        let concluded = last.into_iter().enumerate().map(|(at, mut one)| {
            one.twice = twice;
            for (number, check) in one.checks.iter_mut().enumerate() {
                // Looked at too seldom to blame anybody.
                check.verdict = agreement::settled(&of(at, number)).unwrap_or(Verdict::Inconclusive);
            }
            one
        });
        return concluded.collect();
    }
}

/// How often, and for how long at most.
#[derive(Debug, Clone, Copy)]
struct Pass {
    rounds: usize,
    longest: Duration,
    number: u32,
}

impl Measured {
    /// Beside other work, which is too little to blame anybody.
    fn undecided(mut self) -> Self {
        for check in &mut self.checks {
            check.verdict = check.verdict.min(Verdict::Inconclusive);
        }
        // Nor for hardly moving.
        self.twice = false;
        self
    }

    /// Even alone it hardly moved.
    fn hardly_moves(&self) -> bool {
        self.twice && self.bandwidth_mb_s.is_none() && self.error.is_none()
    }
}

fn is_of(measured: &Measured, watch: &Watch) -> bool {
    let [a, b] = measured.pair;
    watch.link.ends == [a.min(b), a.max(b)]
}

fn pass(target: &Target, wanted: &[Watch], plan: Pass, stop: &dyn Fn() -> bool) -> Vec<Measured> {
    let Pass { rounds, longest, number } = plan;
    let pairs: Vec<[NodeId; 2]> =
        wanted.iter().map(|watch| watch.link.ends).flat_map(|[a, b]| [[a, b], [b, a]]).collect();
    let mut nodes: Vec<NodeId> = pairs.iter().flatten().copied().collect();
    nodes.sort_unstable();
    nodes.dedup();
    // From the first reading on: connecting is bounded by itself.
    let end = OnceCell::new();
    let over = || Instant::now() >= *end.get_or_init(|| Instant::now() + longest);
    let read = read_some(&Target { nodes, ..target.clone() }, &pairs, rounds, number, &|| stop() || over());
    let nothing = |pair: [NodeId; 2], why: String| Measured {
        pair,
        bandwidth_mb_s: None,
        half_rtt_ns: None,
        copy_percent: None,
        checks: Vec::new(),
        twice: false,
        error: Some(why),
    };
    let (readings, obstacles) = match read {
        Ok(read) => read,
        Err(why) => return pairs.into_iter().map(|pair| nothing(pair, why.clone())).collect(),
    };
    let of_pair = |pair: [NodeId; 2]| match readings.iter().find(|reading| reading.pair == pair) {
        Some(reading) => figures(reading, wanted),
        None => {
            let [a, b] = pair;
            let obstacle = obstacles.iter().find(|one| one.pair == pair || one.pair == [b, a]);
            nothing(pair, obstacle.map_or_else(|| "it was not read".into(), |one| one.why.clone()))
        }
    };
    pairs.into_iter().map(of_pair).collect()
}

/// Bandwidth of blocks that take so long.
fn mb_s(block_ns: f64) -> f64 {
    block_bytes() as f64 / block_ns * 1e3
}

fn percent(block_to_copy: f64) -> f64 {
    100.0 / block_to_copy
}

fn figures(reading: &ShortReading, wanted: &[Watch]) -> Measured {
    let [a, b] = reading.pair;
    let rates =
        wanted.iter().find(|watch| watch.link.ends == [a.min(b), a.max(b)]).map(|watch| watch.link.rates);
    let median = |centre: Option<Centre>| centre.map(|centre| centre.median);
    Measured {
        pair: reading.pair,
        bandwidth_mb_s: median(reading.block_ns).map(mb_s),
        half_rtt_ns: median(reading.half_rtt_ns),
        copy_percent: median(reading.block_to_copy).map(percent),
        checks: rates.map(|rates| checks(&rates, reading)).unwrap_or_default(),
        twice: false,
        error: None,
    }
}

fn checks(rates: &Rates, reading: &ShortReading) -> Vec<Check> {
    let [a, b] = reading.pair;
    // A round trip takes both directions: one reading stands for both.
    let rtt = rates.max_half_rtt_ns.filter(|_| a < b);
    let at_least = |limit, value, centre: Option<Centre>, unit: fn(f64) -> f64| {
        let interval =
            centre.map(|centre| Interval::between(unit(centre.interval.low), unit(centre.interval.high)));
        let measured = centre.map(|centre| unit(centre.median));
        check(limit, value, measured, interval, |ci| (ci.low >= value, ci.high < value))
    };
    let mut checks = Vec::new();
    checks.extend(
        rates.min_bandwidth_mb_s.map(|value| at_least("min_bandwidth_mb_s", value, reading.block_ns, mb_s)),
    );
    checks.extend(
        rates
            .min_copy_percent
            .map(|value| at_least("min_copy_percent", value, reading.block_to_copy, percent)),
    );
    checks.extend(rtt.map(|value| {
        let (measured, interval) = reading.half_rtt_ns.map(|centre| (centre.median, centre.interval)).unzip();
        check("max_half_rtt_ns", value, measured, interval, |ci| (ci.high <= value, ci.low > value))
    }));
    checks
}

/// `sides` of an interval: whether all of it keeps the limit, and whether all of it misses it.
fn check(
    limit: &'static str,
    value: f64,
    measured: Option<f64>,
    ci95: Option<Interval>,
    sides: impl Fn(&Interval) -> (bool, bool),
) -> Check {
    let verdict = match ci95.as_ref().map(sides) {
        Some((true, _)) => Verdict::Pass,
        Some((_, true)) => Verdict::Fail,
        _ => Verdict::Inconclusive,
    };
    Check { limit, value, measured, ci95, verdict }
}

/// Blames links that surely miss a limit, and names what stays open.
pub(super) fn judge(
    wanted: &[Watch],
    measured: &[Measured],
    busy: Option<&str>,
    stopped: bool,
    blamed: &mut Vec<Deviation>,
    doubts: &mut Vec<String>,
) {
    for watch in wanted {
        let [a, b] = watch.link.ends;
        let of_it: Vec<&Measured> = measured.iter().filter(|one| is_of(one, watch)).collect();
        let deviation = |kind, text: String, next_step: String| Deviation {
            kind,
            node: a,
            adapter: watch.adapter,
            partner: Some(b),
            found: None,
            links: vec![[a, b]],
            text,
            next_step,
        };
        if let Some(why) = of_it.iter().find_map(|one| one.error.as_ref()) {
            let text = format!("link {a}-{b} was not measured: {why}");
            let next = format!(
                "run it again; check both ends with `tieline diag --node {a}` and `tieline diag --node {b}`"
            );
            blamed.push(deviation(Kind::Unmeasured, text, next));
            continue;
        }
        if of_it.iter().any(|one| one.hardly_moves()) && !stopped {
            let text = format!(
                "link {a}-{b} was measured for {} s, but moved too little for a result",
                LONGEST_SECOND.as_secs()
            );
            let next = format!(
                "see whether it is slow on purpose with `tieline link list`, and test it with `tieline diag --node {a}`"
            );
            blamed.push(deviation(Kind::Unmeasured, text, next));
            continue;
        }
        let all = || of_it.iter().flat_map(|one| one.checks.iter().map(|check| (one.pair, check)));
        let said = |verdict| {
            let of_kind = all().filter(move |(_, check)| check.verdict == verdict);
            of_kind.map(|(pair, check)| say(pair, check)).collect::<Vec<_>>()
        };
        let (missed, open) = (said(Verdict::Fail), said(Verdict::Inconclusive));
        if !missed.is_empty() {
            let next = format!(
                "see whether it is slow on purpose with `tieline link list`, and load it alone with `tieline conntest --peers {a},{b}`"
            );
            blamed.push(deviation(Kind::Slow, format!("link {a}-{b} is slow: {}", missed.join("; ")), next));
        } else if !open.is_empty() {
            let why = busy.map_or(String::new(), |busy| format!("; the machine was busy: {busy}"));
            doubts.push(format!("link {a}-{b}: {}{why}", open.join("; ")));
        }
    }
}

fn say([from, to]: [NodeId; 2], check: &Check) -> String {
    let Check { limit, value, .. } = check;
    match (check.measured, &check.ci95) {
        (Some(measured), Some(ci)) => format!(
            "from node {from} to node {to}: {measured:.0} (95 %: {:.0} to {:.0}), {limit} = {value}",
            ci.low, ci.high
        ),
        _ => format!(
            "from node {from} to node {to}: too few readings to judge {limit} (measure longer; round trips need \
             two processors)"
        ),
    }
}

/// Limits that what was measured keeps with room to spare.
pub(super) fn as_limits(measured: &[Measured], [a, b]: [NodeId; 2]) -> Rates {
    let of_it = || measured.iter().filter(|one| one.pair == [a, b] || one.pair == [b, a]);
    let smallest = of_it().filter_map(|one| one.copy_percent).reduce(f64::min);
    let rtt = of_it().filter_map(|one| one.half_rtt_ns).reduce(f64::max);
    Rates {
        min_bandwidth_mb_s: None,
        max_half_rtt_ns: rtt.map(|ns| (ns * LATENCY_ROOM).ceil()),
        min_copy_percent: smallest.map(|percent| (percent * KEPT_PERCENT / 100.0).floor().clamp(1.0, 100.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn centre(low: f64, median: f64, high: f64) -> Option<Centre> {
        Some(Centre { median, interval: Interval::between(low, high) })
    }

    fn reading(from: u32, to: u32) -> ShortReading {
        ShortReading {
            pair: [from, to].map(|node| NodeId::new(node).unwrap()),
            half_rtt_ns: centre(90.0, 100.0, 110.0),
            // 131,072 bytes in 13,107.2 ns are 10,000 MB/s.
            block_ns: centre(12_000.0, 13_107.2, 14_000.0),
            block_to_copy: centre(1.1, 1.25, 1.3),
        }
    }

    fn verdicts(rates: Rates) -> Vec<Verdict> {
        checks(&rates, &reading(4, 8)).iter().map(|check| check.verdict).collect()
    }

    #[test]
    fn a_limit_is_kept_missed_or_straddled_by_the_whole_interval() {
        let bandwidth = |value| verdicts(Rates { min_bandwidth_mb_s: Some(value), ..Rates::default() })[0];
        assert_eq!(
            [9000.0, 10_000.0, 11_000.0].map(bandwidth),
            [Verdict::Pass, Verdict::Inconclusive, Verdict::Fail]
        );
        let share = |value| verdicts(Rates { min_copy_percent: Some(value), ..Rates::default() })[0];
        assert_eq!([70.0, 80.0, 95.0].map(share), [Verdict::Pass, Verdict::Inconclusive, Verdict::Fail]);
        let rtt = |value| verdicts(Rates { max_half_rtt_ns: Some(value), ..Rates::default() })[0];
        assert_eq!([120.0, 100.0, 80.0].map(rtt), [Verdict::Pass, Verdict::Inconclusive, Verdict::Fail]);
    }

    #[test]
    fn what_could_not_be_read_is_in_doubt_and_a_round_trip_is_judged_once() {
        let rates = Rates { max_half_rtt_ns: Some(1.0), min_copy_percent: Some(1.0), ..Rates::default() };
        let nothing = ShortReading { half_rtt_ns: None, block_to_copy: None, ..reading(4, 8) };
        assert!(checks(&rates, &nothing).iter().all(|check| check.verdict == Verdict::Inconclusive));
        assert_eq!(checks(&rates, &reading(8, 4)).len(), 1);
    }

    #[test]
    fn a_link_is_slow_if_two_looks_say_so_and_a_third_where_they_do_not_agree() {
        let rates = Rates { min_copy_percent: Some(80.0), ..Rates::default() };
        let look = |verdict| {
            let mut one = figures(&reading(4, 8), &[]);
            one.checks = checks(&rates, &reading(4, 8));
            one.checks[0].verdict = verdict;
            vec![one]
        };
        let of = |verdicts: &[Verdict]| {
            let mut looks = verdicts.iter().map(|verdict| look(*verdict));
            let one = settle(looks.next().unwrap(), || looks.next()).remove(0);
            (one.checks[0].verdict, looks.count())
        };
        use Verdict::{Fail, Inconclusive, Pass};
        assert_eq!(of(&[Fail, Fail, Pass]), (Fail, 1));
        assert_eq!(of(&[Fail, Pass, Fail]), (Pass, 1));
        assert_eq!(of(&[Inconclusive, Fail, Pass]), (Inconclusive, 0));
        assert_eq!(of(&[Inconclusive, Fail, Fail]), (Fail, 0));
        assert_eq!(of(&[Fail]), (Inconclusive, 0), "looked at once");
    }

    #[test]
    fn saved_limits_leave_room() {
        let measured = [figures(&reading(4, 8), &[]), figures(&reading(8, 4), &[])];
        let limits = as_limits(&measured, [4, 8].map(|node| NodeId::new(node).unwrap()));
        assert_eq!((limits.min_copy_percent, limits.max_half_rtt_ns), (Some(64.0), Some(800.0)));
    }
}

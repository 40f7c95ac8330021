//! The whole verification: up (or a cluster that runs) → status → diag on all nodes → who answers for whom → a checked
//! exchange between every pair → load → every pair measured beside every other → request/response latency on one pair →
//! verdict.

use std::time::{Duration, Instant};

use serde::Serialize;
use tieline::NodeId;

use crate::capacity::{self, CouldNotRun};
use crate::conntest::{self, ConntestReport};
use crate::culprit::{self, Culprit};
use crate::diag::{self, DiagReport};
use crate::exchange::{self, ExchangeReport};
use crate::latency::{self, LatencyReport, NotMeasured};
use crate::own::OwnCluster;
use crate::pairs::{self, NamesReport, PairsReport};
use crate::status::{self, ClusterReport};
use crate::target::Target;
use crate::verdict::Verdict;

mod render;

/// Schema of the report.
pub const SCHEMA: &str = "tieline.verify/1";

/// How long the instances of the load test wait for each other: they are started together.
const MEET: Duration = Duration::from_secs(5);

/// How much is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// Seconds: managers, sessions, names, and a checked exchange. Nothing is measured. Fit for a job's prolog.
    Health,
    /// Everything, briefly.
    Quick,
    /// Everything.
    Standard,
    /// Everything, for minutes.
    Thorough,
}

/// How long and how often, of each test.
#[derive(Debug, Clone, Copy)]
struct Plan {
    /// How long every node sends to every other.
    load: Duration,
    /// How often every pair is measured.
    rounds: usize,
    /// How long links are watched for stalls.
    watch: Duration,
}

impl Depth {
    /// Nothing for a test of health.
    fn plan(self) -> Option<Plan> {
        let of = |load_ms, rounds, watch_ms| {
            Some(Plan {
                load: Duration::from_millis(load_ms),
                rounds,
                watch: Duration::from_millis(watch_ms),
            })
        };
        // Watching lasts long enough for two stalls of those that come each second.
        match self {
            Self::Health => None,
            Self::Quick => of(500, 60, 2200),
            Self::Standard => of(1000, 100, 2600),
            Self::Thorough => of(20_000, 1000, 20_000),
        }
    }
}

/// On what.
#[derive(Debug)]
pub enum Start {
    /// A cluster that runs, and is left running.
    Running(Target),
    /// One of the test's own, gone again afterwards.
    Own(OwnCluster),
}

/// What is done and how.
#[derive(Debug)]
pub struct Options {
    /// On which cluster.
    pub start: Start,
    /// Seed of the exchanged data.
    pub seed: u64,
    /// How much.
    pub depth: Depth,
}

/// One step, as the summary shows it.
#[derive(Debug, Clone, Serialize)]
pub struct Step {
    /// What was done.
    pub name: &'static str,
    /// What came of it.
    pub verdict: Verdict,
    /// In one line.
    pub detail: String,
    /// How long it took, in seconds.
    pub duration_s: f64,
}

/// All of it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The worst of the steps.
    pub verdict: Verdict,
    /// Which cluster.
    pub cluster: String,
    /// How much was done.
    pub depth: Depth,
    /// Who is to blame, as all steps together say.
    pub culprits: Vec<Culprit>,
    /// What to do next.
    pub advice: Vec<String>,
    /// In order.
    pub steps: Vec<Step>,
    /// Managers and sessions.
    pub status: ClusterReport,
    /// Static test of every node.
    pub diag: DiagReport,
    /// Who answers for whom.
    pub names: NamesReport,
    /// Every pair.
    pub exchange: ExchangeReport,
    /// The load test; absent from a test of health.
    pub load: Option<ConntestReport>,
    /// Every pair measured beside every other; absent from a test of health.
    pub pairs: Option<PairsReport>,
    /// Half round trip on one pair; absent if the cluster has a single node or the test could not run.
    pub latency: Option<LatencyReport>,
    /// Seconds in all.
    pub duration_s: f64,
}

/// Collects steps and times them.
struct Steps<'a> {
    done: Vec<Step>,
    tell: &'a mut dyn FnMut(&str),
}

impl Steps<'_> {
    fn run<T>(
        &mut self,
        name: &'static str,
        work: impl FnOnce(&mut dyn FnMut(&str)) -> (T, Verdict, String),
    ) -> T {
        let start = Instant::now();
        (self.tell)(name);
        let (result, verdict, detail) = work(self.tell);
        self.done.push(Step { name, verdict, detail, duration_s: start.elapsed().as_secs_f64() });
        result
    }
}

/// Runs everything. An error means that there was nothing to test; whatever is wrong with a cluster is in the report.
pub fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Result<Report, CouldNotRun> {
    let start = Instant::now();
    // Before anything is started.
    capacity::all_at_once(match &options.start {
        Start::Running(target) => target.nodes.len(),
        Start::Own(own) => own.nodes,
    })?;
    let mut steps = Steps { done: Vec::new(), tell };
    let (target, _removal) = match &options.start {
        Start::Running(target) => (target.clone(), None),
        Start::Own(own) => {
            let (target, removal) = steps.run("up", |tell| match own.up(tell) {
                Ok((target, removal, took)) => {
                    let detail = format!(
                        "{} nodes, all sessions valid after {:.2} s",
                        target.nodes.len(),
                        took.as_secs_f64()
                    );
                    (Ok((target, removal)), Verdict::Pass, detail)
                }
                Err(error) => {
                    let detail = error.to_string();
                    (Err(error), Verdict::Fail, detail)
                }
            })?;
            (target, Some(removal))
        }
    };
    let status = steps.run("status", |_| {
        outcome(status::collect(&target), |report| {
            let detail = format!("{} nodes, {} problem(s)", report.nodes.len(), report.problems.len());
            (report.verdict, detail)
        })
    })?;
    // Who does not answer has failed already; asking again and again would only take time.
    // Why has been said by the step before.
    let silent = status.silent().into_iter().map(|node| (node, "its manager does not answer".to_owned()));
    let expected = diag::Expected { nodes: target.nodes.clone(), silent: silent.collect() };
    let target = Target { nodes: status.answering(), ..target };
    let left_out = left_out(&expected.silent);
    let diag = steps.run("diag", |_| {
        outcome(diag::run(&target, &expected), |report| {
            let detail = format!(
                "{} of {} nodes tested, {} failed, {} see another topology{left_out}",
                target.nodes.len(),
                expected.nodes.len(),
                report.failed().len(),
                report.disagreements.len()
            );
            (report.verdict, detail)
        })
    })?;
    let names = steps.run("names", |_| {
        let report = pairs::names(&target);
        let (verdict, detail) = (report.verdict, format!("{}{left_out}", report.summary()));
        (report, verdict, detail)
    });
    let exchange = steps.run("exchange", |tell| exchanged(&target, options.seed, &names, &left_out, tell));
    // Who answers for somebody else would only be waited for in vain, and has been named.
    let sound = Target {
        nodes: target
            .nodes
            .iter()
            .copied()
            .filter(|node| !names.swapped.iter().flatten().any(|n| n == node))
            .collect(),
        ..target.clone()
    };
    let plan = options.depth.plan();
    let load = plan.map(|plan| steps.run("load", |tell| loaded(&sound, options.seed, plan, &left_out, tell)));
    let pairs = plan.map(|plan| steps.run("pairs", |tell| compared(&target, options.seed, plan, tell)));
    let latency = plan.and_then(|_| steps.run("scipp", |tell| measured(&target, tell)));
    let culprits = culprits(&target.nodes, &names, &exchange, load.as_ref(), pairs.as_ref());
    let verdict = Verdict::worst(steps.done.iter().map(|step| step.verdict));
    Ok(Report {
        schema: SCHEMA,
        verdict,
        cluster: target.cluster.clone().unwrap_or_else(|| "default".into()),
        depth: options.depth,
        advice: advice(&culprits, &steps.done),
        culprits,
        steps: steps.done,
        status,
        diag,
        names,
        exchange,
        load,
        pairs,
        latency,
        duration_s: start.elapsed().as_secs_f64(),
    })
}

fn exchanged(
    target: &Target,
    seed: u64,
    names: &NamesReport,
    left_out: &str,
    tell: &mut dyn FnMut(&str),
) -> (ExchangeReport, Verdict, String) {
    let obstacle = |from, to| names.obstacle(from, to).map(|obstacle| obstacle.why.clone());
    let report = exchange::run(target, seed, obstacle, |done, total| {
        tell(&format!("exchange: pair {done} of {total}"));
    });
    let bytes: u64 = report.pairs.iter().map(|pair| pair.bytes).sum();
    let detail = format!(
        "{} pairs, {:.1} MB compared, {} failed{left_out}",
        report.pairs.len(),
        bytes as f64 / 1e6,
        report.failures().count()
    );
    let verdict = report.verdict;
    (report, verdict, detail)
}

fn loaded(
    target: &Target,
    seed: u64,
    plan: Plan,
    left_out: &str,
    tell: &mut dyn FnMut(&str),
) -> (ConntestReport, Verdict, String) {
    let options = conntest::Options {
        seed,
        meet_within: MEET,
        only_listed: true,
        ..conntest::Options::for_target(target, plan.load)
    };
    let report = conntest::run(target, &options, &mut |progress| {
        tell(&format!("load: {:.1} s of {:.1} s", progress.elapsed.as_secs_f64(), plan.load.as_secs_f64()));
    });
    let (verdict, detail) = (report.verdict, format!("{}{left_out}", report.summary()));
    (report, verdict, detail)
}

fn compared(
    target: &Target,
    seed: u64,
    plan: Plan,
    tell: &mut dyn FnMut(&str),
) -> (PairsReport, Verdict, String) {
    let plan = pairs::Plan { rounds: plan.rounds, watch: plan.watch, limits: pairs::Limits::default(), seed };
    let report = pairs::run(target, &plan, tell, &|| false);
    let (verdict, detail) = (report.verdict, report.summary());
    (report, verdict, detail)
}

fn measured(target: &Target, tell: &mut dyn FnMut(&str)) -> (Option<LatencyReport>, Verdict, String) {
    match latency::run(target, tell) {
        Ok(report) => {
            let (verdict, detail) = (report.verdict, report.summary());
            (Some(report), verdict, detail)
        }
        Err(NotMeasured::Impossible(why)) => (None, Verdict::Inconclusive, format!("SKIPPED: {why}")),
        Err(NotMeasured::Failed(why)) => (None, Verdict::Fail, format!("did not run: {why}")),
    }
}

fn advice(culprits: &[Culprit], steps: &[Step]) -> Vec<String> {
    let mut advice: Vec<String> = culprits.iter().map(Culprit::next_step).collect();
    let unsure: Vec<&str> = steps
        .iter()
        .filter(|step| step.verdict == Verdict::Inconclusive && !step.detail.starts_with("SKIPPED"))
        .map(|step| step.name)
        .collect();
    if !unsure.is_empty() {
        let what = unsure.join(", ");
        advice.push(format!(
            "{what}: too close to the limit to say; measure longer with `tieline verify --thorough`"
        ));
    }
    advice
}

/// What all steps say, each culprit once.
fn culprits(
    nodes: &[NodeId],
    names: &NamesReport,
    exchange: &ExchangeReport,
    load: Option<&ConntestReport>,
    pairs: Option<&PairsReport>,
) -> Vec<Culprit> {
    let failed: Vec<_> = exchange
        .failures()
        .filter(|pair| names.obstacle(pair.from, pair.to).is_none())
        .map(|pair| {
            let error = pair.error.as_deref().unwrap_or_default();
            (
                [pair.from.min(pair.to), pair.from.max(pair.to)],
                format!("from node {} to node {}, {error}", pair.from, pair.to),
            )
        })
        .collect();
    let mut all: Vec<Culprit> = Vec::new();
    let said = names
        .culprits(nodes)
        .into_iter()
        .chain(culprit::name(nodes, &failed))
        .chain(load.into_iter().flat_map(|load| load.culprits.clone()))
        .chain(pairs.into_iter().flat_map(|pairs| pairs.culprits.clone()));
    for culprit in said {
        match all.iter_mut().find(|known| known.suspect == culprit.suspect) {
            Some(known) => {
                known.evidence.extend(culprit.evidence);
                known.evidence.sort();
                known.evidence.dedup();
            }
            None => all.push(culprit),
        }
    }
    all
}

/// What a step came to; one that could not run ends the whole, and is in no report.
fn outcome<T, E: ToString>(
    result: Result<T, E>,
    judged: impl FnOnce(&T) -> (Verdict, String),
) -> (Result<T, E>, Verdict, String) {
    let (verdict, detail) = match &result {
        Ok(report) => judged(report),
        Err(error) => (Verdict::Fail, error.to_string()),
    };
    (result, verdict, detail)
}

/// Names the nodes that could not take part.
fn left_out(silent: &[(NodeId, String)]) -> String {
    let ids: Vec<String> = silent.iter().map(|(node, _)| node.to_string()).collect();
    if ids.is_empty() { String::new() } else { format!("; node {} does not answer", ids.join(", ")) }
}

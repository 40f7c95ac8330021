//! The whole verification: up (or a cluster that runs) → status → diag on all nodes → a checked exchange between every
//! pair → load → every pair measured beside every other → request/response latency on one pair → verdict.

use std::time::{Duration, Instant};

use serde::Serialize;
use tieline::NodeId;

use crate::capacity::{self, CouldNotRun};
use crate::conntest::{self, ConntestReport};
use crate::diag::{self, DiagReport};
use crate::exchange::{self, ExchangeReport};
use crate::latency::{self, LatencyReport, NotMeasured};
use crate::own::OwnCluster;
use crate::pairs::{self, PairsReport};
use crate::status::{self, ClusterReport};
use crate::target::Target;
use crate::verdict::Verdict;

mod render;

/// Schema of the report.
pub const SCHEMA: &str = "tieline.verify/1";

/// How long every node sends to every other.
const LOAD: Duration = Duration::from_secs(1);
/// How long the instances wait for each other: they are started together.
const MEET: Duration = Duration::from_secs(5);
/// How often every pair is measured.
const ROUNDS: usize = 100;
/// How long links are watched for stalls: long enough for two of those that come each second.
const WATCH: Duration = Duration::from_millis(2200);

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
    /// In order.
    pub steps: Vec<Step>,
    /// Managers and sessions.
    pub status: ClusterReport,
    /// Static test of every node.
    pub diag: DiagReport,
    /// Every pair.
    pub exchange: ExchangeReport,
    /// The load test.
    pub load: ConntestReport,
    /// Every pair measured beside every other.
    pub pairs: PairsReport,
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
    let exchange = steps.run("exchange", |tell| {
        let report = exchange::run(&target, options.seed, |done, total| {
            tell(&format!("exchange: pair {done} of {total}"))
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
    });
    let load = steps.run("load", |tell| {
        let plan = conntest::Options {
            seed: options.seed,
            meet_within: MEET,
            ..conntest::Options::for_target(&target, LOAD)
        };
        let report = conntest::run(&target, &plan, &mut |progress| {
            tell(&format!("load: {:.1} s of {:.1} s", progress.elapsed.as_secs_f64(), LOAD.as_secs_f64()));
        });
        let (verdict, detail) = (report.verdict, format!("{}{left_out}", report.summary()));
        (report, verdict, detail)
    });
    let pairs = steps.run("pairs", |tell| {
        let plan = pairs::Plan {
            rounds: ROUNDS,
            watch: WATCH,
            limits: pairs::Limits::default(),
            seed: options.seed,
        };
        let report = pairs::run(&target, &plan, tell, &|| false);
        let (verdict, detail) = (report.verdict, report.summary());
        (report, verdict, detail)
    });
    let latency = steps.run("scipp", |tell| match latency::run(&target, tell) {
        Ok(report) => {
            let (verdict, detail) = (report.verdict, report.summary());
            (Some(report), verdict, detail)
        }
        Err(NotMeasured::Impossible(why)) => (None, Verdict::Inconclusive, format!("SKIPPED: {why}")),
        Err(NotMeasured::Failed(why)) => (None, Verdict::Fail, format!("did not run: {why}")),
    });
    let verdict = Verdict::worst(steps.done.iter().map(|step| step.verdict));
    Ok(Report {
        schema: SCHEMA,
        verdict,
        cluster: target.cluster.clone().unwrap_or_else(|| "default".into()),
        steps: steps.done,
        status,
        diag,
        exchange,
        load,
        pairs,
        latency,
        duration_s: start.elapsed().as_secs_f64(),
    })
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

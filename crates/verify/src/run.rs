//! The whole verification: up (or a cluster that runs) → status → diag on all nodes → a checked exchange between every
//! pair → request/response latency on one pair → verdict.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use node::NodeError;
use node::cluster::{Launcher, UpOptions, UpProgress, node_ids};
use node_client::runtime_dir::{ClusterDir, ClusterName};
use serde::Serialize;

use crate::diag::{self, DiagReport};
use crate::exchange::{self, ExchangeReport};
use crate::latency::{self, LatencyReport};
use crate::status::{self, ClusterReport};
use crate::target::Target;
use crate::verdict::Verdict;

mod render;

/// Schema of the report.
pub const SCHEMA: &str = "tieline.verify/1";
/// How long a manager of the test's own cluster may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// On what.
#[derive(Debug)]
pub enum Start {
    /// A cluster that runs, and is left running.
    Running(Target),
    /// One of the test's own, gone again afterwards.
    Own(OwnCluster),
}

/// A cluster that lives for one verification, under a name that nobody else uses.
#[derive(Debug)]
pub struct OwnCluster {
    /// Runtime directory to make it in.
    pub root: PathBuf,
    /// How many nodes.
    pub nodes: usize,
    /// What is run for each.
    pub launcher: Launcher,
    /// Configuration, if not the usual one.
    pub config: Option<PathBuf>,
    /// How long all sessions may take to become valid.
    pub limit: Duration,
}

impl OwnCluster {
    /// Its directory: the name holds this process's id.
    pub fn dir(&self) -> Result<ClusterDir, NodeError> {
        let name = ClusterName::new(&format!("verify-{}", std::process::id()))?;
        Ok(ClusterDir::new(self.root.clone(), name))
    }

    /// Stops its nodes and removes their files, logs included. Nothing there is no error.
    pub fn remove(dir: &ClusterDir) {
        // Best effort, in the order that leaves least behind: what cannot be stopped keeps its files.
        if node::cluster::down(dir, None, STOP_LIMIT, &mut |_| ()).is_ok() {
            drop(std::fs::remove_dir_all(dir.path()));
        }
    }
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
    /// Half round trip on one pair; absent if the cluster has a single node or the test could not run.
    pub latency: Option<LatencyReport>,
    /// Seconds in all.
    pub duration_s: f64,
}

/// Removes the test's own cluster however the run ends.
struct Removal(ClusterDir);

impl Drop for Removal {
    fn drop(&mut self) {
        OwnCluster::remove(&self.0);
    }
}

/// Collects steps and times them.
struct Steps<'a> {
    done: Vec<Step>,
    tell: &'a mut dyn FnMut(&str),
}

impl Steps<'_> {
    fn run<T>(&mut self, name: &'static str, work: impl FnOnce(&mut dyn FnMut(&str)) -> (T, Verdict, String)) -> T {
        let start = Instant::now();
        (self.tell)(name);
        let (result, verdict, detail) = work(self.tell);
        self.done.push(Step { name, verdict, detail, duration_s: start.elapsed().as_secs_f64() });
        result
    }
}

/// Runs everything. An error means that there was nothing to test; whatever is wrong with a cluster is in the report.
pub fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Result<Report, NodeError> {
    let start = Instant::now();
    let mut steps = Steps { done: Vec::new(), tell };
    let (target, _removal) = match &options.start {
        Start::Running(target) => (target.clone(), None),
        Start::Own(own) => {
            let dir = own.dir()?;
            let removal = Removal(dir.clone());
            (up(own, &dir, &mut steps)?, Some(removal))
        }
    };
    let status = steps.run("status", |_| {
        let report = status::collect(&target);
        let detail = format!("{} nodes, {} problem(s)", report.nodes.len(), report.problems.len());
        (report.clone(), report.verdict, detail)
    });
    let diag = steps.run("diag", |tell| {
        let report = diag::run(&target, |node| tell(&format!("diag: node {node}")));
        let failed = report.nodes.iter().filter(|node| node.verdict != Verdict::Pass).count();
        let detail = format!(
            "{} nodes tested, {failed} failed, {} see another topology",
            report.nodes.len(),
            report.disagreements.len()
        );
        (report.clone(), report.verdict, detail)
    });
    let exchange = steps.run("exchange", |tell| {
        let report =
            exchange::run(&target, options.seed, |done, total| tell(&format!("exchange: pair {done} of {total}")));
        let bytes: u64 = report.pairs.iter().map(|pair| pair.bytes).sum();
        let detail = format!(
            "{} pairs, {:.1} MB compared, {} failed",
            report.pairs.len(),
            bytes as f64 / 1e6,
            report.failures().count()
        );
        let verdict = report.verdict;
        (report, verdict, detail)
    });
    let latency = steps.run("scipp", |tell| match latency::run(&target, tell) {
        Ok(report) => {
            let (verdict, detail) = (report.verdict, report.summary());
            (Some(report), verdict, detail)
        }
        Err(error) => (None, Verdict::Fail, format!("did not run: {error}")),
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
        latency,
        duration_s: start.elapsed().as_secs_f64(),
    })
}

fn up(own: &OwnCluster, dir: &ClusterDir, steps: &mut Steps<'_>) -> Result<Target, NodeError> {
    let nodes = node_ids(own.nodes, None)?;
    let options = UpOptions {
        dir: dir.clone(),
        nodes: nodes.clone(),
        launcher: own.launcher.clone(),
        config: own.config.clone(),
        limit: own.limit,
    };
    steps.run("up", |tell| {
        let report = node::cluster::up(&options, &mut |progress| {
            if let UpProgress::Ready { ready, of } = progress {
                tell(&format!("up: {ready} of {of} nodes see all others"));
            }
        });
        let detail = match &report {
            Ok(report) => format!("{} nodes, all sessions valid after {:.2} s", nodes.len(), report.took.as_secs_f64()),
            Err(error) => error.to_string(),
        };
        let verdict = if report.is_ok() { Verdict::Pass } else { Verdict::Fail };
        (report, verdict, detail)
    })?;
    Ok(Target { runtime_dir: Some(dir.root().into()), cluster: Some(dir.cluster().as_str().into()), nodes })
}

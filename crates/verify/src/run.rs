//! The whole verification in order: start or find a cluster, status, diag, cables, names, a checked
//! exchange between every pair, load, speed of every pair, latency and curves of one pair, a last
//! check of managers and links, verdict.

use std::time::Instant;

use bench::env::{self, Env};
use bench::noise::others::Load;
use bench::thresholds::{Judgements, Thresholds};
use bench::timer::Timer;
use serde::Serialize;
use serde_json::Value;
use tieline::NodeId;

use crate::cable::{self, CableReport};
use crate::capacity::{self, CouldNotRun};
use crate::conntest::ConntestReport;
use crate::diag::{self, DiagReport};
use crate::exchange::ExchangeReport;
use crate::latency::LatencyReport;
use crate::own::OwnCluster;
use crate::pairs::{NamesReport, PairsReport};
use crate::speed::SpeedReport;
use crate::status::{ClusterReport, Hosts};
use crate::suspect::Suspected;
use crate::target::Target;
use crate::verdict::Verdict;
use steps::Steps;

mod advice;
mod blame;
mod busy;
mod closing;
mod curves;
mod depth;
mod links;
mod others;
mod render;
mod steps;

pub use advice::as_started;
pub use depth::Depth;
pub(crate) use render::counted;
pub use render::{document_unfinished, render_unfinished};

/// Schema of the report.
pub const SCHEMA: &str = "tieline.verify/1";

/// Begins the text of a step that this machine, not the cluster, has kept from running.
const SKIPPED: &str = "SKIPPED: ";

/// On what.
#[derive(Debug)]
pub enum Start {
    /// A cluster that runs, and is left running. Nodes of other hosts are tested, too, except for health.
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
    /// The depth of the test.
    pub depth: Depth,
    /// The links that there should be; `None`: every node with every other.
    pub plan: Option<cable::Plan>,
    /// What the curves are judged by; `None`: they are only shown.
    pub thresholds: Option<Thresholds>,
    /// Command line, for the record.
    pub argv: Vec<String>,
}

/// Receives progress, and may end the test early.
pub struct Control<'a> {
    /// Hears what is being done.
    pub tell: &'a mut (dyn FnMut(&str) + Send),
    /// Requests an early end: the result is then marked as partial.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Hears of each step that is done.
    pub done: &'a mut (dyn FnMut(&Step) + Send),
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
    /// What other work took away meanwhile.
    pub load: Load,
}

/// All of it.
#[derive(Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The worst of the steps.
    pub verdict: Verdict,
    /// The cluster.
    pub cluster: String,
    /// How much was done.
    pub depth: Depth,
    /// The suspects, from all steps together.
    #[serde(rename = "culprits")]
    pub suspects: Vec<Suspected>,
    /// What to do next.
    pub advice: Vec<String>,
    /// In order.
    pub steps: Vec<Step>,
    /// Managers and sessions.
    pub status: ClusterReport,
    /// Static test of every node.
    pub diag: DiagReport,
    /// Why there is not all of it, if so.
    pub partial: Option<String>,
    /// Why speed could not be judged, if the machine was busy with other work.
    pub busy: Option<String>,
    /// Machine, kernel, versions, clock.
    pub environment: Env,
    /// The links that there are, and that there should be.
    pub cable: Option<CableReport>,
    /// The names of nodes.
    pub names: NamesReport,
    /// Every pair.
    pub exchange: ExchangeReport,
    /// The load test; absent from a test of health.
    pub load: Option<ConntestReport>,
    /// Every pair measured beside every other; absent from a test of health.
    pub pairs: Option<PairsReport>,
    /// Half round trip and bandwidth of pairs of nodes on two hosts; absent if all nodes are on this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_hosts: Option<SpeedReport>,
    /// Half round trip on one pair; absent if the cluster has a single node or the test could not run.
    pub latency: Option<LatencyReport>,
    /// Curves of one pair: documents as the benchmarks' own commands print them.
    pub benchmarks: Vec<Value>,
    /// What the thresholds say of them.
    pub judged: Vec<Judgements>,
    /// Seconds in all.
    pub duration_s: f64,
}

/// Runs everything. An error means that there was nothing to test; whatever is wrong with a cluster is in the report.
pub fn run(options: &Options, control: &mut Control<'_>) -> Result<Report, CouldNotRun> {
    let start = Instant::now();
    // Before anything is started.
    capacity::all_at_once(match &options.start {
        Start::Running(target) => target.nodes.len(),
        Start::Own(own) => own.nodes,
    })?;
    // Without a usable clock the measurements say so themselves.
    let clock = Timer::new().map(|timer| timer.record()).unwrap_or_default();
    let mut environment = Env::gather(clock, options.argv.clone(), options.seed);
    let steal_before_ms = env::steal_ms();
    let mut steps = Steps::new(control);
    let (target, _removal) = steps.reach(&options.start)?;
    // A test of health is one of this host, as part of a job on each: all of them would ask all others.
    let hosts = match (&options.start, options.depth) {
        (Start::Running(_), Depth::Quick | Depth::Standard | Depth::Thorough) => Hosts::All,
        (Start::Own(_), _) | (_, Depth::Health) => Hosts::This,
    };
    let (status, others) = steps.status(hosts, &target)?;
    // A node that does not respond has failed already; further requests would only take time.
    // The step before has reported the reason.
    let silent = status.silent().into_iter().map(|node| (node, "its manager does not respond".to_owned()));
    let expected = diag::Expected { nodes: target.nodes.clone(), silent: silent.collect() };
    let target = Target { nodes: status.answering(), ..target };
    steps.leave_out(&expected.silent);
    let diag = steps.diag(hosts, &target, &expected, &others)?;
    let absent = if hosts == Hosts::All { others.absent(&diag) } else { Vec::new() };
    let cable = steps.cable(hosts, &target, options.plan.as_ref(), &others)?;
    let names = steps.names(&target);
    let exchange = steps.exchange(&target, options.seed, &names);
    let sound = sound(&target, &names);
    let plan = options.depth.plan();
    let load = plan.and_then(|plan| steps.load(&sound, options.seed, plan, &others));
    let pairs = plan.and_then(|plan| steps.pairs(&sound, options.seed, plan));
    let between_hosts = plan
        .filter(|_| hosts == Hosts::All)
        .and_then(|plan| steps.hosts(&sound, options.seed, plan, &others));
    let latency = plan.and_then(|_| steps.scipp(&sound));
    let curves = plan.and_then(|plan| plan.curves);
    let mut benchmarks = curves.map(|curves| steps.curves(&sound, curves, options.seed)).unwrap_or_default();
    let judged = match &options.thresholds {
        Some(thresholds) => steps.thresholds(thresholds, latency.as_ref(), &mut benchmarks),
        None => Vec::new(),
    };
    let changes = steps.closing(hosts, &target, &status);
    let findings = blame::Findings {
        absent: &absent,
        changes: &changes,
        cable: cable.as_ref(),
        swaps: &steps.swaps,
        names: &names,
        exchange: &exchange,
        load: load.as_ref(),
        pairs: pairs.as_ref(),
        pair: &steps.of_pair,
    };
    let suspects = blame::suspects(&target.nodes, &findings);
    let (steps, partial) = steps.end();
    let busy = busy::reason(&steps);
    let worst = Verdict::worst(steps.iter().map(|step| step.verdict));
    // What was not done cannot have passed.
    let verdict = if partial.is_some() && worst == Verdict::Pass { Verdict::Inconclusive } else { worst };
    environment.finish(start, steal_before_ms);
    let known = advice::Known {
        steps: &steps,
        links: advice::links_of(&status),
        busy: busy.as_deref(),
        partial: partial.as_deref(),
        others: &others.nodes,
        own: advice::up_command(&options.start),
        argv: &options.argv,
    };
    let advice = advice::advice(&suspects, &known);
    Ok(Report {
        schema: SCHEMA,
        verdict,
        cluster: target.cluster.clone().unwrap_or_else(|| "default".into()),
        depth: options.depth,
        advice,
        suspects,
        partial,
        busy,
        environment,
        steps,
        status,
        diag,
        cable,
        names,
        exchange,
        load,
        pairs,
        between_hosts,
        latency,
        benchmarks,
        judged,
        duration_s: start.elapsed().as_secs_f64(),
    })
}

/// The nodes that can be measured. A node that responds for another one would only be waited for without success, and has been named.
fn sound(target: &Target, names: &NamesReport) -> Target {
    let is_sound = |node: &NodeId| !names.swapped.iter().flatten().any(|swapped| swapped == node);
    let nodes: Vec<NodeId> = target.nodes.iter().copied().filter(is_sound).collect();
    if nodes.len() < 2 { target.clone() } else { Target { nodes, ..target.clone() } }
}

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
use others::Others;
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

/// Runs everything. An error means that there was nothing to test; whatever is wrong with a cluster is in the
/// report.
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
    let looks = looks(options, &mut steps, hosts, target)?;
    let names = steps.names(&looks.target);
    let exchange = steps.exchange(&looks.target, options.seed, &names);
    let speeds = speeds(options, &mut steps, hosts, &sound(&looks.target, &names), &looks.others);
    let changes = steps.closing(hosts, &looks.target, &looks.status);
    let findings = blame::Findings {
        absent: &looks.absent,
        changes: &changes,
        cable: looks.cable.as_ref(),
        swaps: &steps.swaps,
        names: &names,
        exchange: &exchange,
        load: speeds.load.as_ref(),
        pairs: speeds.pairs.as_ref(),
        between_hosts: speeds.between_hosts.as_ref(),
        pair: &steps.of_pair,
    };
    let suspects = blame::suspects(&looks.target.nodes, &findings);
    let (steps, partial) = steps.end();
    let busy = busy::reason(&steps);
    environment.finish(start, steal_before_ms);
    let known = advice::Known {
        steps: &steps,
        links: advice::links_of(&looks.status),
        busy: busy.as_deref(),
        partial: partial.as_deref(),
        others: &looks.others.nodes,
        own: advice::up_command(&options.start),
        argv: &options.argv,
    };
    Ok(Report {
        schema: SCHEMA,
        verdict: verdict(&steps, partial.is_some()),
        cluster: looks.target.cluster.unwrap_or_else(|| "default".into()),
        depth: options.depth,
        advice: advice::advice(&suspects, &known),
        suspects,
        partial,
        busy,
        environment,
        steps,
        status: looks.status,
        diag: looks.diag,
        cable: looks.cable,
        names,
        exchange,
        load: speeds.load,
        pairs: speeds.pairs,
        between_hosts: speeds.between_hosts,
        latency: speeds.latency,
        benchmarks: speeds.benchmarks,
        judged: speeds.judged,
        duration_s: start.elapsed().as_secs_f64(),
    })
}

/// What a cluster says of itself, before anything is transferred.
struct Looks {
    /// The nodes whose managers respond.
    target: Target,
    status: ClusterReport,
    others: Others,
    diag: DiagReport,
    /// Nodes of other hosts that gave no report.
    absent: Vec<Suspected>,
    cable: Option<CableReport>,
}

fn looks(
    options: &Options,
    steps: &mut Steps<'_, '_>,
    hosts: Hosts,
    target: Target,
) -> Result<Looks, CouldNotRun> {
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
    Ok(Looks { target, status, others, diag, absent, cable })
}

/// Load and speed, as far as the depth of the test asks for them.
struct Speeds {
    load: Option<ConntestReport>,
    pairs: Option<PairsReport>,
    between_hosts: Option<SpeedReport>,
    latency: Option<LatencyReport>,
    benchmarks: Vec<Value>,
    judged: Vec<Judgements>,
}

fn speeds(
    options: &Options,
    steps: &mut Steps<'_, '_>,
    hosts: Hosts,
    sound: &Target,
    others: &Others,
) -> Speeds {
    let plan = options.depth.plan();
    let load = plan.and_then(|plan| steps.load(sound, options.seed, plan, others));
    let pairs = plan.and_then(|plan| steps.pairs(sound, options.seed, plan));
    let between_hosts =
        plan.filter(|_| hosts == Hosts::All).and_then(|plan| steps.hosts(sound, options.seed, plan, others));
    let latency = plan.and_then(|_| steps.scipp(sound));
    let curves = plan.and_then(|plan| plan.curves);
    let mut benchmarks = curves.map(|curves| steps.curves(sound, curves, options.seed)).unwrap_or_default();
    let judged = match &options.thresholds {
        Some(thresholds) => steps.thresholds(thresholds, latency.as_ref(), &mut benchmarks),
        None => Vec::new(),
    };
    Speeds { load, pairs, between_hosts, latency, benchmarks, judged }
}

/// The worst of the steps. What was not done cannot have passed.
fn verdict(steps: &[Step], is_partial: bool) -> Verdict {
    let worst = Verdict::worst(steps.iter().map(|step| step.verdict));
    if is_partial && worst == Verdict::Pass { Verdict::Inconclusive } else { worst }
}

/// The nodes that can be measured. A node that responds for another one would only be waited for without
/// success, and has been named.
fn sound(target: &Target, names: &NamesReport) -> Target {
    let is_sound = |node: &NodeId| !names.swapped.iter().flatten().any(|swapped| swapped == node);
    let nodes: Vec<NodeId> = target.nodes.iter().copied().filter(is_sound).collect();
    if nodes.len() < 2 { target.clone() } else { Target { nodes, ..target.clone() } }
}

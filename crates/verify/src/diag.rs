//! The static test of all nodes: adapter facts, links, self test, visible nodes, sessions, host
//! file, topology comparison.
//!
//! It counts notes, warnings and errors. Errors fail; warnings pass, as the field's tools have it.
//!
//! Where to start reading: `judge` (what is found), then [`run_with`].

mod compare;
mod far;
mod hosts;
mod judge;
mod link_test;
mod render;
mod self_test;
mod system;
#[cfg(test)]
mod tests;

use std::time::Duration;

use bench::noise::others::{Load, Meter};

use node_client::runtime_dir::ClusterDir;
use node_client::{BlockingClient, ClientError};
use proto::wire::program::Request;
use proto::wire::status::{AdapterInfo, Counters, LinkStatus, NodeInfo, ProgramStatus, SegmentStatus};
use serde::{Deserialize, Serialize};
use tieline::NodeId;

use crate::Target;
use crate::capacity::{self, CouldNotRun, is_own_lack};
use crate::status;
use crate::verdict::Verdict;

pub use far::{Everywhere, NotCleared, run_everywhere};
pub use hosts::{HostEntry, HostFile, HostsError};
pub use link_test::LinkTest;
pub use render::View;
pub use self_test::SelfTest;
pub use system::System;

/// Schema of the report.
pub const SCHEMA: &str = "tieline.diag/1";
/// How long a manager may take to clear its counters.
const CLEAR_LIMIT: Duration = Duration::from_secs(5);

/// The nodes that should be there.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// All of them, ascending.
    pub nodes: Vec<NodeId>,
    /// Of these, the ones that are known not to answer, each with the reason: to ask them again would only
    /// take time.
    pub silent: Vec<(NodeId, String)>,
}

impl Expected {
    /// All nodes of a target.
    pub fn of(target: &Target) -> Self {
        Self { nodes: target.nodes.clone(), silent: Vec::new() }
    }
}

/// What is done.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Safe for a cluster in production: moves no data and triggers no interrupts.
    pub prod: bool,
    /// Which nodes should be there, and on which hosts.
    pub hosts: Option<HostFile>,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Good to know.
    Note,
    /// A person should check it; the test still passes.
    Warning,
    /// The test fails.
    Error,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// How much it matters.
    pub level: Level,
    /// The thing, the cause and the next step.
    pub text: String,
}

/// The static test of one node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeDiag {
    /// The node.
    pub node: NodeId,
    /// Where and when it was tested, if that was on another host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<System>,
    /// Facts, if its manager answers.
    pub info: Option<NodeInfo>,
    /// Links of its adapters.
    pub links: Vec<LinkStatus>,
    /// Counters of its manager, if that answers.
    #[serde(default)]
    pub counters: Option<Counters>,
    /// Programs that are attached, at most as many as a manager lists.
    #[serde(default)]
    pub programs: Vec<ProgramStatus>,
    /// Segments, at most as many as a manager lists.
    #[serde(default)]
    pub segments: Vec<SegmentStatus>,
    /// Nanoseconds since its manager started.
    #[serde(default)]
    pub uptime_ns: u64,
    /// What its own adapter did when tried.
    pub self_test: Vec<SelfTest>,
    /// What its links did when tried.
    #[serde(default)]
    pub link_tests: Vec<LinkTest>,
    /// What was not tried, by request.
    #[serde(default)]
    pub left_out: Vec<String>,
    /// Nodes that it sees, itself included, ascending.
    pub nodes_seen: Vec<NodeId>,
    /// Everything that was found.
    pub findings: Vec<Finding>,
    /// Failed if there is an error; in doubt if something was only late while the machine was busy; else
    /// passed.
    pub verdict: Verdict,
}

/// The static test of all nodes, and their topologies compared.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DiagReport {
    /// By node.
    pub nodes: Vec<NodeDiag>,
    /// Nodes whose topology differs from what most see; each is named with the difference.
    pub disagreements: Vec<String>,
    /// All passed and all agree.
    pub verdict: Verdict,
    /// Where it was run from, and when.
    pub system: System,
    /// The host file that it was compared with.
    pub hosts: Option<HostFile>,
    /// What other work took away meanwhile.
    #[serde(default)]
    pub load: Load,
}

impl NodeDiag {
    /// How many findings of a level there are.
    pub fn count(&self, level: Level) -> usize {
        self.findings.iter().filter(|finding| finding.level == level).count()
    }

    fn found(&mut self, level: Level, text: impl Into<String>) {
        self.findings.push(Finding { level, text: text.into() });
    }

    /// The adapter whose links are shown; nodes have one so far.
    pub fn adapters(&self) -> &[AdapterInfo] {
        self.info.as_ref().map(|info| info.adapters.as_slice()).unwrap_or_default()
    }
}

impl NodeDiag {
    fn untested(node: NodeId) -> Self {
        Self {
            node,
            system: None,
            info: None,
            links: Vec::new(),
            counters: None,
            programs: Vec::new(),
            segments: Vec::new(),
            uptime_ns: 0,
            link_tests: Vec::new(),
            left_out: Vec::new(),
            self_test: Vec::new(),
            nodes_seen: Vec::new(),
            findings: Vec::new(),
            verdict: Verdict::Fail,
        }
    }

    fn parts(&mut self) -> impl Iterator<Item = &mut SelfTest> {
        self.self_test.iter_mut().chain(self.link_tests.iter_mut().flat_map(|test| &mut test.parts))
    }

    /// What was late is in doubt only where other work may have made it so.
    fn hold_to(&mut self, load: &Load) {
        self.parts().for_each(|part| part.in_doubt &= load.is_busy());
    }

    fn conclude(&mut self) {
        let in_doubt = self.parts().any(|part| part.in_doubt);
        self.verdict = match (self.count(Level::Error), in_doubt) {
            (0, false) => Verdict::Pass,
            (0, true) => Verdict::Inconclusive,
            _ => Verdict::Fail,
        };
    }

    /// A node that is known not to answer.
    fn silent(node: NodeId, why: &str) -> Self {
        let mut diag = Self::untested(node);
        diag.found(Level::Error, format!("node {node} cannot be tested: {why}"));
        diag
    }
}

/// Looks at one node and lets it test itself.
fn node(target: &Target, node: NodeId, options: &Options) -> Result<NodeDiag, CouldNotRun> {
    let mut diag = NodeDiag::untested(node);
    match target.attach(node, "tieline-diag").and_then(|attached| Ok((attached.status()?, attached))) {
        Err(tieline::Error::Client(error)) if is_own_lack(&error) => return Err(error.into()),
        Err(error) => diag.found(Level::Error, format!("node {node} cannot be tested: {error}")),
        Ok((status, attached)) => {
            diag.info = Some(status.info);
            diag.links = status.links;
            diag.counters = Some(status.counters);
            diag.programs = status.programs;
            diag.segments = status.segments;
            diag.uptime_ns = status.uptime_ns;
            if options.prod {
                diag.left_out = LEFT_OUT.map(str::to_owned).into();
            } else {
                diag.self_test = self_test::run(&attached);
            }
        }
    }
    Ok(diag)
}

/// What a test of a cluster in production leaves out.
const LEFT_OUT: [&str; 2] = [
    "self test of the adapter (memory pattern, put and get, atomics, DMA, doorbell)",
    "test of the links to the other nodes (the same, through each of them)",
];

/// Tests all nodes of a target and compares what they see. Nodes that are expected and known to be silent are
/// reported as failed, each by name. An error is a lack of this process's own.
///
/// `stop` may ask for an early end: links that were not looked at by then are in no report.
pub fn run(
    target: &Target,
    expected: &Expected,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<DiagReport, CouldNotRun> {
    look(target, expected, &Options::default(), stop)
}

/// The same to its end, with what is done and not done.
pub fn run_with(target: &Target, expected: &Expected, options: &Options) -> Result<DiagReport, CouldNotRun> {
    look(target, expected, options, &|| false)
}

fn look(
    target: &Target,
    expected: &Expected,
    options: &Options,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<DiagReport, CouldNotRun> {
    let meter = Meter::start();
    let at_a_time = capacity::at_a_time(target.nodes.len())?;
    let test = |at_a_time| -> Result<Vec<_>, CouldNotRun> {
        let nodes = target.on_nodes(at_a_time, |id| node(target, id, options));
        nodes.into_iter().collect()
    };
    // One after the other they may have enough.
    let mut nodes = test(at_a_time).or_else(|_| test(1))?;
    if !options.prod {
        link_test::run(target, &mut nodes, stop)?;
    }
    let load = meter.read();
    nodes.iter_mut().for_each(|node| node.hold_to(&load));
    let silent = expected.silent.iter().map(|(node, _)| *node);
    let reported: Vec<NodeId> = target.nodes.iter().copied().chain(silent).collect();
    let misled = status::misled(target, nodes.iter().flat_map(|node| &node.links));
    let others = judge::Others { expected: &expected.nodes, reported: &reported, misled: &misled };
    for node in nodes.iter_mut().filter(|node| node.info.is_some()) {
        judge::judge(node, others, options.hosts.as_ref(), load.reason().as_deref());
        node.conclude();
    }
    // The view of a node that was not tested is not known; it disagrees with no other.
    let tested: Vec<_> = nodes.iter().filter(|node| node.info.is_some()).collect();
    let disagreements = compare::compare(&tested);
    nodes.extend(expected.silent.iter().map(|(id, why)| NodeDiag::silent(*id, why)));
    nodes.sort_by_key(|node| node.node);
    let all = nodes.iter().map(|node| node.verdict);
    let agree = if disagreements.is_empty() { Verdict::Pass } else { Verdict::Fail };
    let verdict = if nodes.is_empty() { Verdict::Fail } else { Verdict::worst(all.chain([agree])) };
    let hosts = options.hosts.clone();
    Ok(DiagReport { nodes, disagreements, verdict, system: System::here(), hosts, load })
}

/// Sets the counters of the managers to zero; gives back the nodes where that failed.
pub fn clear_counters(target: &Target) -> Vec<(NodeId, ClientError)> {
    let clear = |node: NodeId| {
        let dir = ClusterDir::locate(target.runtime_dir.as_deref(), target.cluster.as_deref())?;
        let mut client = BlockingClient::open(&dir, node, "tieline diag", false, CLEAR_LIMIT)?;
        client.ask(Request::ClearCounters, &[], CLEAR_LIMIT).map(drop)
    };
    let outcomes = target.on_each_node(|node| clear(node).err().map(|error| (node, error)));
    outcomes.into_iter().flatten().collect()
}

impl DiagReport {
    /// Where nothing was examined, because an early end was asked for.
    pub fn of_nothing() -> Self {
        Self {
            nodes: Vec::new(),
            disagreements: Vec::new(),
            verdict: Verdict::Inconclusive,
            system: System::here(),
            hosts: None,
            load: Load::default(),
        }
    }

    /// Nodes with an error.
    pub fn failed(&self) -> Vec<NodeId> {
        self.of(Verdict::Fail)
    }

    /// The first thing that is wrong, with its node.
    pub(crate) fn first_error(&self) -> Option<String> {
        let of_node = |node: &NodeDiag| {
            let error = node.findings.iter().find(|finding| finding.level == Level::Error)?;
            let who = format!("node {}", node.node);
            Some(if error.text.starts_with(&who) {
                error.text.clone()
            } else {
                format!("{who}: {}", error.text)
            })
        };
        self.nodes.iter().find_map(of_node).or_else(|| self.disagreements.first().cloned())
    }

    /// Nodes of which something was late beside other work.
    pub fn in_doubt(&self) -> Vec<NodeId> {
        self.of(Verdict::Inconclusive)
    }

    fn of(&self, verdict: Verdict) -> Vec<NodeId> {
        self.nodes.iter().filter(|node| node.verdict == verdict).map(|node| node.node).collect()
    }
}

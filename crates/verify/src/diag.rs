//! The static test of one node (first form): adapter facts, links, self test, nodes seen, sessions.
//!
//! It counts notes, warnings and errors. Errors fail; warnings pass, as the field's tools have it.

mod render;
mod self_test;

use std::time::Duration;

use node_client::runtime_dir::ClusterDir;
use node_client::{ClientError, Visit};
use proto::wire::program::Request;
use proto::wire::status::{AdapterInfo, Counters, LinkStatus, NodeInfo, SessionState};
use serde::{Deserialize, Serialize};
use tieline::NodeId;

use crate::Target;
use crate::capacity::{self, CouldNotRun, is_own_lack};
use crate::status::session_name;
use crate::verdict::Verdict;

pub use self_test::SelfTest;

/// Schema of the report.
pub const SCHEMA: &str = "tieline.diag/1";
/// How long a manager may take to clear its counters.
const CLEAR_LIMIT: Duration = Duration::from_secs(5);

/// Which nodes should be there.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// All of them, ascending.
    pub nodes: Vec<NodeId>,
    /// Of these, the ones that are known not to answer, each with the reason: to ask them again would only take time.
    pub silent: Vec<(NodeId, String)>,
}

impl Expected {
    /// All nodes of a target.
    pub fn of(target: &Target) -> Self {
        Self { nodes: target.nodes.clone(), silent: Vec::new() }
    }
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Good to know.
    Note,
    /// Somebody should look; the test still passes.
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
    /// Which.
    pub node: NodeId,
    /// Facts, if its manager answers.
    pub info: Option<NodeInfo>,
    /// Links of its adapters.
    pub links: Vec<LinkStatus>,
    /// Counters of its manager, if that answers.
    #[serde(default)]
    pub counters: Option<Counters>,
    /// What its own adapter did when tried.
    pub self_test: Vec<SelfTest>,
    /// Nodes that it sees, itself included, ascending.
    pub nodes_seen: Vec<NodeId>,
    /// Everything that was found.
    pub findings: Vec<Finding>,
    /// Passed unless there is an error.
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
            info: None,
            links: Vec::new(),
            counters: None,
            self_test: Vec::new(),
            nodes_seen: Vec::new(),
            findings: Vec::new(),
            verdict: Verdict::Fail,
        }
    }

    /// A node that is known not to answer.
    fn silent(node: NodeId, why: &str) -> Self {
        let mut diag = Self::untested(node);
        diag.found(Level::Error, format!("node {node} cannot be tested: {why}"));
        diag
    }
}

/// Tests one node.
fn node(target: &Target, node: NodeId, expected: &[NodeId]) -> Result<NodeDiag, CouldNotRun> {
    let mut diag = NodeDiag::untested(node);
    match target.attach(node, "tieline-diag").and_then(|attached| Ok((attached.status()?, attached))) {
        Err(tieline::Error::Client(error)) if is_own_lack(&error) => return Err(error.into()),
        Err(error) => diag.found(Level::Error, format!("node {node} cannot be tested: {error}")),
        Ok((status, attached)) => {
            diag.info = Some(status.info);
            diag.links = status.links;
            diag.counters = Some(status.counters);
            if status.counters.protocol_errors > 0 {
                let count = status.counters.protocol_errors;
                diag.found(
                    Level::Note,
                    format!("{count} malformed control message(s) since start: see the log of node {node}"),
                );
            }
            diag.self_test = self_test::run(&attached);
            judge(&mut diag, expected);
        }
    }
    diag.verdict = if diag.count(Level::Error) == 0 { Verdict::Pass } else { Verdict::Fail };
    Ok(diag)
}

fn judge(diag: &mut NodeDiag, expected: &[NodeId]) {
    let node = diag.node;
    if diag.adapters().is_empty() {
        diag.found(Level::Error, format!("node {node} has no adapter: see its log"));
    }
    let failed: Vec<String> = diag
        .self_test
        .iter()
        .filter_map(|test| {
            test.error.as_ref().map(|error| format!("self test `{}` of node {node}: {error}", test.name))
        })
        .collect();
    failed.into_iter().for_each(|text| diag.found(Level::Error, text));
    if diag.self_test.is_empty() {
        diag.found(Level::Error, format!("the self test of node {node} was planned and did not run"));
    }
    diag.nodes_seen = diag
        .links
        .iter()
        .filter(|link| link.session == SessionState::Valid)
        .map(|link| link.peer)
        .chain([node])
        .collect();
    diag.nodes_seen.sort_unstable();
    let missing: Vec<String> = expected
        .iter()
        .filter(|peer| !diag.nodes_seen.contains(peer))
        .map(|peer| {
            let link = diag.links.iter().find(|link| link.peer == *peer);
            let how = link.map_or("never seen", |link| session_name(link.session));
            format!(
                "Node {peer} not reachable from node {node} (session {how}), but is expected in this cluster"
            )
        })
        .collect();
    missing.into_iter().for_each(|text| diag.found(Level::Warning, text));
}

/// Tests all nodes of a target and compares what they see. Nodes that are expected and known to be silent are reported as
/// failed, each by name. An error is a lack of this process's own.
pub fn run(target: &Target, expected: &Expected) -> Result<DiagReport, CouldNotRun> {
    let at_a_time = capacity::at_a_time(target.nodes.len())?;
    let test = |at_a_time| -> Result<Vec<_>, CouldNotRun> {
        let nodes = target.on_nodes(at_a_time, |id| node(target, id, &expected.nodes));
        nodes.into_iter().collect()
    };
    // One after the other they may have enough.
    let mut nodes = test(at_a_time).or_else(|_| test(1))?;
    // What a node that was not tested sees is not known; it disagrees with nobody.
    let tested: Vec<_> = nodes.iter().filter(|node| node.info.is_some()).collect();
    let disagreements = compare(&tested);
    nodes.extend(expected.silent.iter().map(|(id, why)| NodeDiag::silent(*id, why)));
    nodes.sort_by_key(|node| node.node);
    let all = nodes.iter().map(|node| node.verdict);
    let agree = if disagreements.is_empty() { Verdict::Pass } else { Verdict::Fail };
    let verdict = if nodes.is_empty() { Verdict::Fail } else { Verdict::worst(all.chain([agree])) };
    Ok(DiagReport { nodes, disagreements, verdict })
}

/// Sets the counters of the managers to zero; gives back the nodes where that failed.
pub fn clear_counters(target: &Target) -> Vec<(NodeId, ClientError)> {
    let clear = |node: NodeId| {
        let dir = ClusterDir::locate(target.runtime_dir.as_deref(), target.cluster.as_deref())?;
        let mut visit = Visit::open(&dir, node, "tieline diag", false, CLEAR_LIMIT)?;
        visit.ask(Request::ClearCounters, &[], CLEAR_LIMIT).map(drop)
    };
    let outcomes = target.on_each_node(|node| clear(node).err().map(|error| (node, error)));
    outcomes.into_iter().flatten().collect()
}

impl DiagReport {
    /// Nodes that did not pass.
    pub fn failed(&self) -> Vec<NodeId> {
        self.nodes.iter().filter(|node| node.verdict != Verdict::Pass).map(|node| node.node).collect()
    }
}

/// Names each node whose view differs from the most common one.
fn compare(nodes: &[&NodeDiag]) -> Vec<String> {
    let count = |view: &[NodeId]| nodes.iter().filter(|node| node.nodes_seen == view).count();
    let Some(common) = nodes.iter().map(|node| &node.nodes_seen).max_by_key(|view| (count(view), view.len()))
    else {
        return Vec::new();
    };
    let names = |ids: Vec<&NodeId>| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(", ");
    nodes
        .iter()
        .filter(|node| node.nodes_seen != *common)
        .map(|node| {
            let missing: Vec<_> = common.iter().filter(|id| !node.nodes_seen.contains(id)).collect();
            let extra: Vec<_> = node.nodes_seen.iter().filter(|id| !common.contains(id)).collect();
            let mut text = format!("node {} sees another topology than most", node.node);
            if !missing.is_empty() {
                text.push_str(&format!(", without node {}", names(missing)));
            }
            if !extra.is_empty() {
                text.push_str(&format!(", with node {} besides", names(extra)));
            }
            text
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(node: u32, sees: &[u32]) -> NodeDiag {
        let id = |id| NodeId::new(id).unwrap();
        NodeDiag {
            nodes_seen: sees.iter().copied().map(id).collect(),
            verdict: Verdict::Pass,
            ..NodeDiag::untested(id(node))
        }
    }

    #[test]
    fn the_node_that_disagrees_is_named_with_the_difference() {
        let nodes = [seen(4, &[4, 8, 12]), seen(8, &[4, 8]), seen(12, &[4, 8, 12])];
        let all: Vec<&NodeDiag> = nodes.iter().collect();
        assert_eq!(compare(&all), ["node 8 sees another topology than most, without node 12"]);
        assert!(compare(&all[..1]).is_empty());
    }

    #[test]
    fn a_node_that_is_not_seen_is_a_warning_and_a_failed_self_test_an_error() {
        let mut diag = seen(4, &[]);
        diag.self_test = vec![SelfTest { name: "memory pattern".into(), error: Some("byte 3".into()) }];
        judge(&mut diag, &[NodeId::new(4).unwrap(), NodeId::new(8).unwrap()]);
        let warnings: Vec<_> = diag.findings.iter().filter(|found| found.level == Level::Warning).collect();
        assert!(warnings.len() == 1 && warnings[0].text.contains("Node 8 not reachable"), "{warnings:?}");
        let errors: Vec<_> = diag.findings.iter().filter(|found| found.level == Level::Error).collect();
        assert!(errors.iter().any(|found| found.text.contains("memory pattern")), "{errors:?}");
    }

    #[test]
    fn the_closing_result_is_that_of_the_whole() {
        let dead = NodeDiag::silent(NodeId::new(8).unwrap(), "its manager is gone");
        let report = DiagReport {
            nodes: vec![seen(4, &[4]), dead, seen(12, &[12])],
            disagreements: Vec::new(),
            verdict: Verdict::Fail,
        };
        let text = report.render(1);
        assert_eq!(text.lines().last(), Some("TEST RESULT: *FAILED*"), "{text}");
        assert!(text.contains("All nodes: 3 tested, 1 failed (8)"), "{text}");
        let brief = report.render(0);
        assert!(brief.contains("its manager is gone") && !brief.contains("TOPOLOGY"), "{brief}");
        assert_eq!(brief.lines().last(), Some("TEST RESULT: *FAILED*"), "{brief}");
    }

    #[test]
    fn all_counters_are_shown_at_the_highest_level_only() {
        let mut one = seen(4, &[4]);
        one.counters = Some(Counters { requests: 77, ..Counters::default() });
        let report = DiagReport { nodes: vec![one], disagreements: Vec::new(), verdict: Verdict::Pass };
        assert!(report.render(9).contains("requests") && report.render(9).contains("77"));
        assert!(!report.render(1).contains("requests"));
        assert_eq!(report.render(1).matches("TEST RESULT: *PASSED*").count(), 1);
    }
}

//! The services of a cluster: which node managers run, and whether each sees all the others.

use std::fmt::Write;

use proto::wire::status::{NodeStatus, SessionState};
use serde::{Deserialize, Serialize};
use tieline::NodeId;

use crate::Target;
use crate::verdict::Verdict;

/// One node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeReport {
    /// Which.
    pub node: NodeId,
    /// What its manager says, if it answers.
    pub status: Option<NodeStatus>,
    /// Why it does not.
    pub error: Option<String>,
}

/// All nodes of a cluster.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClusterReport {
    /// By node.
    pub nodes: Vec<NodeReport>,
    /// All run, and each has a valid session with each other.
    pub verdict: Verdict,
    /// What is not as it should be; each line names the thing and the next step.
    pub problems: Vec<String>,
}

/// Asks every node's manager.
pub fn collect(target: &Target) -> ClusterReport {
    let nodes: Vec<NodeReport> = target
        .nodes
        .iter()
        .map(|node| match target.attach(*node, "tieline-status").and_then(|node| node.status()) {
            Ok(status) => NodeReport { node: *node, status: Some(status), error: None },
            Err(error) => NodeReport { node: *node, status: None, error: Some(error.to_string()) },
        })
        .collect();
    let problems = problems(target, &nodes);
    let verdict = if problems.is_empty() && !nodes.is_empty() { Verdict::Pass } else { Verdict::Fail };
    ClusterReport { nodes, verdict, problems }
}

fn problems(target: &Target, nodes: &[NodeReport]) -> Vec<String> {
    let mut problems = Vec::new();
    for report in nodes {
        let Some(status) = &report.status else {
            let why = report.error.as_deref().unwrap_or("no answer");
            problems.push(format!("node {}: its manager does not answer: {why}", report.node));
            continue;
        };
        for other in target.nodes.iter().filter(|other| **other != report.node) {
            let link = status.links.iter().find(|link| link.peer == *other);
            match link {
                Some(link) if link.session == SessionState::Valid => {}
                Some(link) => problems.push(format!(
                    "node {}: session with node {other} is {}{}",
                    report.node,
                    session_name(link.session),
                    link.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default(),
                )),
                None => problems.push(format!("node {} has never seen node {other}", report.node)),
            }
        }
    }
    problems
}

/// As people read it.
pub const fn session_name(state: SessionState) -> &'static str {
    match state {
        SessionState::Connecting => "connecting",
        SessionState::Valid => "valid",
        SessionState::Lost => "lost",
        SessionState::Refused => "refused",
        SessionState::Stopped => "stopped",
    }
}

impl ClusterReport {
    /// A table, then what is wrong.
    pub fn render(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(
            text,
            "{:>6}  {:<8} {:>8} {:>9} {:>9} {:>9} {:>11} {:>9}",
            "node", "manager", "pid", "sessions", "programs", "segments", "interrupts", "uptime"
        );
        for report in &self.nodes {
            let _ = match &report.status {
                Some(status) => {
                    let valid = status.links.iter().filter(|link| link.session == SessionState::Valid).count();
                    writeln!(
                        text,
                        "{:>6}  {:<8} {:>8} {:>9} {:>9} {:>9} {:>11} {:>7.1} s",
                        report.node.get(),
                        "running",
                        status.info.manager_pid,
                        format!("{valid}/{}", self.nodes.len().saturating_sub(1)),
                        status.programs_total.saturating_sub(1),
                        status.segments_total,
                        status.interrupts_total,
                        status.uptime_ns as f64 / 1e9,
                    )
                }
                None => writeln!(text, "{:>6}  {:<8}", report.node.get(), "stopped"),
            };
        }
        for problem in &self.problems {
            let _ = writeln!(text, "problem: {problem}");
        }
        text
    }
}

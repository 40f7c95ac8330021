//! The matrix of what carries the data of each pair of nodes, as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use proto::wire::network::MAX_RAILS;
use proto::wire::status::{LinkStatus, NodeStatus, SessionState};
use tieline::NodeId;

use crate::status::{ClusterReport, session_name};

/// A matrix of more nodes does not fit a terminal: then links are counted.
const MOST_SHOWN: usize = 16;

/// The table; nothing if all nodes are on this host.
pub(super) fn table(report: &ClusterReport) -> Option<String> {
    let here = report.nodes.iter().map(|one| (one.node, one.status.as_ref()));
    let far = report.other_hosts.iter().map(|one| (one.node, one.status.as_ref()));
    let nodes: BTreeMap<NodeId, Option<&NodeStatus>> = here.chain(far).collect();
    if report.other_hosts.is_empty() {
        return None;
    }
    let name = |from: NodeId, to: NodeId| {
        let (near, far) = (nodes.get(&from)?.as_ref()?, nodes.get(&to).copied().flatten());
        let link = near.links.iter().find(|link| link.peer == to)?;
        Some(named(link, far.map_or(1, |far| near.info.rails.len().min(far.info.rails.len()))))
    };
    if nodes.len() > MOST_SHOWN {
        return Some(counted(&nodes, name));
    }
    let mut text = format!("{:<6}", "link");
    for to in nodes.keys() {
        let _ = write!(text, " {:>10}", to.get());
    }
    text.push('\n');
    for from in nodes.keys() {
        let _ = write!(text, "{:>6}", from.get());
        for to in nodes.keys() {
            let cell =
                if from == to { String::new() } else { name(*from, *to).unwrap_or_else(|| "-".into()) };
            let _ = write!(text, " {cell:>10}");
        }
        text.push('\n');
    }
    Some(text)
}

fn named(link: &LinkStatus, rails: usize) -> String {
    if link.taken_down {
        return "down".to_owned();
    }
    match (link.session, rails.min(MAX_RAILS)) {
        (SessionState::Valid, 0 | 1) => link.kind.name().to_owned(),
        (SessionState::Valid, rails) => format!("{} x{rails}", link.kind.name()),
        (session, _) => session_name(session).to_owned(),
    }
}

fn counted(
    nodes: &BTreeMap<NodeId, Option<&NodeStatus>>,
    name: impl Fn(NodeId, NodeId) -> Option<String>,
) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for from in nodes.keys() {
        for to in nodes.keys().filter(|to| *to != from) {
            *counts.entry(name(*from, *to).unwrap_or_else(|| "unknown".into())).or_default() += 1;
        }
    }
    let counts: Vec<String> = counts.into_iter().map(|(name, count)| format!("{count} {name}")).collect();
    format!("links by their ends: {}\n", counts.join(", "))
}

//! A last look at a cluster that was sound at first: what changed while it was tested.

use std::collections::BTreeMap;

use proto::wire::status::{LinkStatus, NodeStatus};
use tieline::NodeId;

use crate::culprit::{Culprit, Suspect};
use crate::status::ClusterReport;

/// What is no longer as it was.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Who is to blame for it.
    pub(super) culprits: Vec<Culprit>,
}

/// Compares what the managers said before the tests with what they say after them.
pub(super) fn changes(before: &ClusterReport, after: &ClusterReport) -> Changes {
    let mut changes = Changes::default();
    for old in &before.nodes {
        let Some(was) = &old.status else { continue };
        let new = after.nodes.iter().find(|new| new.node == old.node);
        match new.and_then(|new| new.status.as_ref()) {
            None => {
                let why = new.and_then(|new| new.error.clone()).unwrap_or_else(|| "it is gone".into());
                changes.blame(Suspect::Node(old.node), format!("stopped answering during the test: {why}"));
            }
            Some(is) if is.info.incarnation != was.info.incarnation => {
                let pids = format!("pid {}, then {}", was.info.manager_pid, is.info.manager_pid);
                changes.blame(
                    Suspect::Node(old.node),
                    format!("its manager was restarted during the test ({pids})"),
                );
            }
            Some(_) => {}
        }
    }
    let blamed: Vec<NodeId> = changes.nodes().collect();
    for old in before.nodes.iter().filter(|old| !blamed.contains(&old.node)) {
        let new = after.nodes.iter().find(|new| new.node == old.node);
        if let (Some(was), Some(is)) = (&old.status, new.and_then(|new| new.status.as_ref())) {
            changes.compare_links(old.node, was, is, &blamed);
        }
    }
    changes
}

impl Changes {
    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.culprits.iter().filter_map(|culprit| match culprit.suspect {
            Suspect::Node(node) => Some(node),
            _ => None,
        })
    }

    fn blame(&mut self, suspect: Suspect, evidence: String) {
        match self.culprits.iter_mut().find(|known| known.suspect == suspect) {
            Some(known) => known.evidence.push(evidence),
            None => self.culprits.push(Culprit { suspect, evidence: vec![evidence] }),
        }
    }

    /// A link that went down, even if it is up again.
    fn compare_links(&mut self, node: NodeId, was: &NodeStatus, is: &NodeStatus, blamed: &[NodeId]) {
        let before: BTreeMap<NodeId, &LinkStatus> = was.links.iter().map(|link| (link.peer, link)).collect();
        for link in is.links.iter().filter(|link| !blamed.contains(&link.peer)) {
            let Some(old) = before.get(&link.peer) else { continue };
            let ends = Suspect::Link([node.min(link.peer), node.max(link.peer)]);
            if link.generation != old.generation {
                let times = link.generation.saturating_sub(old.generation);
                let down_ms = link.downtime_ns.saturating_sub(old.downtime_ns) as f64 / 1e6;
                let now = if link.taken_down { ", and is down" } else { "" };
                self.blame(
                    ends,
                    format!("node {node} saw it change {times} time(s) during the test, down for {down_ms:.0} ms{now}"),
                );
            } else if link.partner != old.partner {
                self.blame(
                    ends,
                    format!("node {node} saw another node at its end during the test: {}", link.partner),
                );
            }
        }
    }
}

//! A last check of a cluster that was sound at first: what changed during the test.

use std::collections::BTreeMap;

use proto::wire::status::{LinkStatus, NodeStatus};
use tieline::NodeId;

use super::counted;
use crate::status::{ClusterReport, carries};
use crate::suspect::{Suspect, Suspected};

/// What is no longer as it was.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The suspects for it.
    pub(super) suspects: Vec<Suspected>,
    /// Links that were down because heartbeats came too late, while the machine was busy with other work, and
    /// that are up again: that speaks against no link. In words.
    pub(super) late: Vec<String>,
}

/// Compares what the managers said before the tests with what they say after them. `is_busy`: the machine
/// was, in between.
pub(super) fn changes(before: &ClusterReport, after: &ClusterReport, is_busy: bool) -> Changes {
    let mut changes = Changes::default();
    let (before, after) = (views(before), views(after));
    let after = |node: NodeId| after.iter().find(|new| new.node == node);
    for View { node, status, .. } in &before {
        let Some(was) = status else { continue };
        let new = after(*node);
        match new.and_then(|new| new.status) {
            None => {
                let why = new.and_then(|new| new.error).unwrap_or("it is gone");
                changes.blame(Suspect::Node(*node), format!("stopped responding during the test: {why}"));
            }
            Some(is) if is.info.incarnation != was.info.incarnation => {
                let pids = format!("pid {}, then {}", was.info.manager_pid, is.info.manager_pid);
                changes.blame(
                    Suspect::Node(*node),
                    format!("its manager was restarted during the test ({pids})"),
                );
            }
            Some(_) => {}
        }
    }
    let blamed: Vec<NodeId> = changes.nodes().collect();
    let mut links: BTreeMap<[NodeId; 2], Vec<Change>> = BTreeMap::new();
    for old in before.iter().filter(|old| !blamed.contains(&old.node)) {
        if let (Some(was), Some(is)) = (old.status, after(old.node).and_then(|new| new.status)) {
            for (ends, change) in changed_links(old.node, was, is, &blamed) {
                links.entry(ends).or_default().push(change);
            }
        }
    }
    for (ends, seen) in links {
        changes.judge(ends, &seen, is_busy);
    }
    changes
}

/// What one end has seen of a link that went down, even if it is up again.
#[derive(Debug)]
struct Change {
    evidence: String,
    /// Heartbeats that were due did not come meanwhile.
    missed: bool,
    /// Now it carries what is sent.
    carries: bool,
}

/// A node of any host, as its manager says.
struct View<'r> {
    node: NodeId,
    status: Option<&'r NodeStatus>,
    error: Option<&'r str>,
}

fn views(report: &ClusterReport) -> Vec<View<'_>> {
    let here = report.nodes.iter().map(|one| (one.node, &one.status, &one.error));
    let far = report.other_hosts.iter().map(|one| (one.node, &one.status, &one.error));
    here.chain(far)
        .map(|(node, status, error)| View { node, status: status.as_ref(), error: error.as_deref() })
        .collect()
}

fn changed_links(
    node: NodeId,
    was: &NodeStatus,
    is: &NodeStatus,
    blamed: &[NodeId],
) -> Vec<([NodeId; 2], Change)> {
    let before: BTreeMap<NodeId, &LinkStatus> = was.links.iter().map(|link| (link.peer, link)).collect();
    let links = is.links.iter().filter(|link| !blamed.contains(&link.peer));
    let changed = links.filter_map(|link| {
        let change = change_of(node, before.get(&link.peer)?, link)?;
        Some(([node.min(link.peer), node.max(link.peer)], change))
    });
    changed.collect()
}

fn change_of(node: NodeId, old: &LinkStatus, link: &LinkStatus) -> Option<Change> {
    let evidence = if link.generation != old.generation {
        let times = link.generation.saturating_sub(old.generation);
        let down_ms = link.downtime_ns.saturating_sub(old.downtime_ns) as f64 / 1e6;
        let now = if link.taken_down { ", and is down" } else { "" };
        format!(
            "node {node} saw it change {} during the test, down for {down_ms:.0} ms{now}",
            counted(times as usize, "time")
        )
    } else if link.partner != old.partner {
        format!("node {node} saw another node at its end during the test: {}", link.partner)
    } else {
        return None;
    };
    let missed = link.heartbeats_missed > old.heartbeats_missed;
    Some(Change { evidence, missed, carries: carries(link) && link.partner == old.partner })
}

impl Changes {
    /// Why the last check failed: thing, cause, next step. `None` if nothing changed for the worse.
    pub(super) fn reason(&self, before: &ClusterReport, after: &ClusterReport) -> Option<String> {
        let first = self.suspects.first();
        let is_of_first =
            |problem: &&String| first.is_none_or(|first| problem.starts_with(&format!("{}:", first.suspect)));
        // A problem says more exactly what is wrong now; the first check has reported what was wrong before.
        let mut new = after.problems.iter().filter(|problem| !before.problems.contains(problem));
        let problem = new.find(is_of_first).cloned();
        problem.or_else(|| first.map(Suspected::reason))
    }

    fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.suspects.iter().filter_map(|suspected| match suspected.suspect {
            Suspect::Node(node) => Some(node),
            _ => None,
        })
    }

    fn blame(&mut self, suspect: Suspect, evidence: String) {
        self.suspects.push(Suspected { suspect, evidence: vec![evidence] });
    }

    /// What both ends have seen of a link. The end that missed heartbeats ends the session; the other one may
    /// have missed none.
    fn judge(&mut self, ends: [NodeId; 2], seen: &[Change], is_busy: bool) {
        let evidence = seen.iter().map(|change| change.evidence.clone()).collect::<Vec<_>>();
        let is_only_late =
            seen.iter().any(|change| change.missed) && seen.iter().all(|change| change.carries);
        if is_busy && is_only_late {
            self.late.push(format!("link {}-{}: {}", ends[0], ends[1], evidence.join(", ")));
        } else {
            self.suspects.push(Suspected { suspect: Suspect::Link(ends), evidence });
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::ids::AdapterNo;
    use proto::wire::status::SessionState;
    use tieline::LinkFaults;

    use super::*;

    fn node(id: u32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    /// The link to node 8 as node 4 sees it.
    fn link(generation: u64, heartbeats_missed: u64) -> LinkStatus {
        LinkStatus {
            adapter: AdapterNo(0),
            peer: node(8),
            peer_host: "rack1-b".into(),
            other_host: false,
            kind: Default::default(),
            session: SessionState::Valid,
            reason: None,
            generation,
            since_ns: 1,
            downtime_ns: 0,
            taken_down: false,
            partner: node(8),
            faults: LinkFaults::default(),
            heartbeats_received: 10,
            heartbeats_missed,
            round_trip_ns: None,
            least_round_trip_ns: None,
            clock_offset_ns: None,
            clock_error_ns: None,
            address: None,
            via: None,
        }
    }

    /// How many links are suspect, and how many only late, if both ends see these changes.
    fn judged(changes: [Option<Change>; 2], is_busy: bool) -> (usize, usize) {
        let mut all = Changes::default();
        all.judge([node(4), node(8)], &changes.into_iter().flatten().collect::<Vec<_>>(), is_busy);
        (all.suspects.len(), all.late.len())
    }

    #[test]
    fn a_failure_names_the_thing_the_cause_and_the_next_step() {
        let report = |problems: &[&str]| ClusterReport {
            nodes: Vec::new(),
            other_hosts: Vec::new(),
            verdict: crate::verdict::Verdict::Fail,
            problems: problems.iter().map(|&problem| problem.to_owned()).collect(),
        };
        let old = "node 12: its manager has ended: start it with `tieline node start --node 12`";
        let new = "node 8: its manager has ended: start it with `tieline node start --node 8`";
        let mut changes = Changes::default();
        assert_eq!(changes.reason(&report(&[old]), &report(&[old])), None);
        assert_eq!(changes.reason(&report(&[old]), &report(&[old, new])).as_deref(), Some(new));
        changes.blame(Suspect::Node(node(8)), "stopped responding during the test: it is gone".to_owned());
        assert_eq!(changes.reason(&report(&[]), &report(&[old, new])).as_deref(), Some(new));
        let alone = changes.reason(&report(&[]), &report(&[])).unwrap();
        assert!(
            alone.starts_with(
                "node 8: stopped responding during the test: it is gone: read its manager's log"
            ),
            "{alone}"
        );
    }

    #[test]
    fn a_link_that_lost_heartbeats_on_a_busy_machine_and_is_back_is_only_late() {
        let silent = || change_of(node(4), &link(1, 0), &link(3, 6));
        let told = || change_of(node(4), &link(1, 0), &link(3, 0));
        assert!(change_of(node(4), &link(1, 0), &link(1, 6)).is_none(), "nothing has changed");
        assert_eq!(judged([silent(), None], true), (0, 1));
        assert_eq!(judged([silent(), told()], true), (0, 1));
        assert_eq!(judged([silent(), told()], false), (1, 0), "a quiet machine");
        assert_eq!(judged([told(), told()], true), (1, 0), "somebody has taken it down and up");
        for broken in [
            LinkStatus { session: SessionState::Lost, ..link(3, 6) },
            LinkStatus { taken_down: true, ..link(3, 6) },
            LinkStatus { partner: node(12), ..link(3, 6) },
        ] {
            let change = change_of(node(4), &link(1, 0), &broken);
            assert_eq!(judged([change, silent()], true), (1, 0), "it is not back: {broken:?}");
        }
    }
}

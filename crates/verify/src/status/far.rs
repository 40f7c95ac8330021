//! Nodes of other hosts in the report on the services: the session, and the link that carries data.

use std::fmt::Write;
use std::time::{Duration, Instant};

use node::NodeError;
use node::cluster::{ASK_LIMIT, status_by_way_of};
use node_client::ClientError;
use node_client::runtime_dir::ClusterDir;
use proto::wire::network::MAX_RAILS;
use proto::wire::program::Refusal;
use proto::wire::status::{LinkKind, LinkStatus, NodeStatus, ReducedRail, SessionState};
use serde::{Deserialize, Serialize};
use tieline::NodeId;

use super::{ClusterReport, NodeReport, collect_settled, is_revoked, problem_of, row, session_name};
use crate::Target;
use crate::verdict::Verdict;

/// Nodes that are asked at the same time: each takes a thread and a descriptor.
const ASKED_AT_ONCE: usize = 16;

/// How long the managers of other hosts together are waited for by who wants to see the cluster now, and how
/// long one of them whose turn comes late; both beside what the network takes.
const LITTLE: Duration = Duration::from_secs(1);
const LEAST: Duration = Duration::from_millis(250);

/// How long managers that do not answer are waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// As long as one of this host.
    Usual,
    /// A moment.
    Little,
}

/// Whose nodes are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// Those of this host.
    This,
    /// Those of all hosts.
    All,
}

/// A node of another host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FarNode {
    /// The node.
    pub node: NodeId,
    /// Where it is, if that is known.
    pub host: String,
    /// The node of this host whose manager was asked.
    pub via: NodeId,
    /// How that one's session with it is.
    pub session: SessionState,
    /// The status from its own manager, if it responds.
    pub status: Option<NodeStatus>,
    /// Why it does not.
    pub error: Option<String>,
}

/// As `collect_settled`, and asks the managers of other hosts, too, if those are wanted.
pub(crate) fn collect_settled_on(
    hosts: Hosts,
    target: &Target,
    stop: &dyn Fn() -> bool,
) -> Result<ClusterReport, NodeError> {
    let report = collect_settled(target, stop)?;
    match hosts {
        Hosts::This => Ok(report),
        Hosts::All => add(report, target, Patience::Usual),
    }
}

/// Asks the managers of other hosts by way of those of this host, whose report this is.
pub(super) fn add(
    mut report: ClusterReport,
    target: &Target,
    patience: Patience,
) -> Result<ClusterReport, NodeError> {
    let dir = ClusterDir::locate(target.runtime_dir.as_deref(), target.cluster.as_deref())?;
    report.other_hosts = collect(&dir, target, &report.nodes, patience);
    // Both ends say the same of a link that was taken down.
    let new = problems(&report.other_hosts).filter(|problem| !report.problems.contains(problem));
    let new: Vec<String> = new.collect();
    report.problems.extend(new);
    if !report.problems.is_empty() {
        report.verdict = Verdict::Fail;
    }
    Ok(report)
}

/// Asks the managers of all nodes of other hosts that the nodes of this one know.
fn collect(dir: &ClusterDir, target: &Target, nodes: &[NodeReport], patience: Patience) -> Vec<FarNode> {
    let mut known: Vec<(NodeId, NodeId, &LinkStatus)> = Vec::new();
    for status in nodes.iter().filter_map(|report| report.status.as_ref()) {
        for link in links(status).filter(|link| !is_revoked(link)) {
            match known.iter_mut().find(|(node, ..)| *node == link.peer) {
                // The one whose manager can be asked.
                Some(found) if found.2.session != SessionState::Valid => {
                    (found.1, found.2) = (status.info.node, link);
                }
                Some(_) => {}
                None => known.push((link.peer, status.info.node, link)),
            }
        }
    }
    known.sort_unstable_by_key(|(node, ..)| *node);
    let all = Target { nodes: known.iter().map(|(node, ..)| *node).collect(), ..target.clone() };
    let began = Instant::now();
    let ask = |node: NodeId| {
        let (_, via, link) = known.iter().find(|(known, ..)| *known == node)?;
        Some(ask(dir, *via, link, patience.limit(began.elapsed(), link)))
    };
    all.on_nodes(ASKED_AT_ONCE, ask).into_iter().flatten().collect()
}

impl Patience {
    /// For the next one, when so much time has passed.
    fn limit(self, passed: Duration, link: &LinkStatus) -> Duration {
        // What the network takes, without what a busy processor adds.
        let round_trip = Duration::from_nanos(link.least_round_trip_ns.unwrap_or_default());
        match self {
            Self::Usual => ASK_LIMIT,
            Self::Little => {
                LITTLE.saturating_sub(passed).max(LEAST).saturating_add(round_trip * 4).min(ASK_LIMIT)
            }
        }
    }
}

fn ask(dir: &ClusterDir, via: NodeId, link: &LinkStatus, limit: Duration) -> FarNode {
    let (node, host) = (link.peer, link.peer_host.clone());
    let said = match link.session {
        SessionState::Valid => status_by_way_of(dir, via, node, limit).map_err(|error| why(&error)),
        other => Err(format!("the session with it is {}", session_name(other))),
    };
    let (status, error) = match said {
        Ok(status) => (Some(status), None),
        Err(why) => (None, Some(why)),
    };
    FarNode { node, host, via, session: link.session, status, error }
}

fn why(error: &NodeError) -> String {
    match error {
        NodeError::Client(ClientError::TimedOut { limit, .. }) => {
            format!("no response within {} ms", limit.as_millis())
        }
        // The next step is the report's to say.
        NodeError::Client(ClientError::Refused(Refusal::Unreachable { why, .. })) => why.clone(),
        other => other.to_string(),
    }
}

/// What is wrong with them and between them. What is wrong with their links to this host its own nodes say.
pub(super) fn problems(all: &[FarNode]) -> impl Iterator<Item = String> {
    all.iter().flat_map(move |far| {
        let links = far.status.iter().flat_map(|status| &status.links);
        let there = links.filter(move |link| !link.other_host || all.iter().any(|other| other.node == link.peer));
        let of_links = there.filter_map(|link| problem_of(far.node, link));
        // The nodes of this host have said that there is no session.
        let silent = far.status.is_none() && far.session == SessionState::Valid;
        let why = far.error.as_deref().unwrap_or_default();
        let silent = silent.then(|| {
            let (node, via, host) = (far.node, far.via, &far.host);
            format!(
                "node {node} on {host}: its manager did not tell node {via} its state ({why}): check the network to {host}, and run \
                 `tieline status` there"
            )
        });
        silent.into_iter().chain(of_links)
    })
}

impl FarNode {
    /// Its line of the table.
    pub(super) fn write_row(&self, text: &mut String) {
        let _ = match &self.status {
            Some(status) => {
                let peers = status.links.iter().filter(|link| !is_revoked(link)).count();
                row(text, status, peers, status.programs_total, Some(&status.info.host))
            }
            None => {
                let why = self.error.as_deref().unwrap_or("not asked");
                let host = if self.host.is_empty() { String::new() } else { format!(" on {}", self.host) };
                writeln!(text, "{:>6}{host}: state unknown: {why}", self.node.get())
            }
        };
    }
}

/// What leads to other hosts.
pub(super) fn links(status: &NodeStatus) -> impl Iterator<Item = &LinkStatus> {
    status.links.iter().filter(|link| link.other_host)
}

/// In a few words; `None`: the node knows of no other host.
pub(super) fn summary(status: &NodeStatus) -> Option<String> {
    let all = links(status).filter(|link| !is_revoked(link)).count();
    let valid = links(status).filter(|link| link.session == SessionState::Valid).count();
    (all > 0).then(|| format!("{valid} of {all} sessions valid, link {}", LinkKind::Ofi.name()))
}

/// Of heartbeats of a session that is valid, where it was measured.
fn round_trip(link: &LinkStatus) -> String {
    match (link.session, link.round_trip_ns, link.least_round_trip_ns) {
        (SessionState::Valid, Some(latest), Some(least)) => {
            let ms = |ns: u64| ns as f64 / 1e6;
            format!(", round trip {:.2} ms (least {:.2} ms)", ms(latest), ms(least))
        }
        _ => String::new(),
    }
}

/// Over how many rails data goes, where one of the two ends has several; the other one has fewer, if that is
/// said.
fn rails(own: &NodeStatus, peer: NodeId, far: &[FarNode]) -> String {
    let count = |status: &NodeStatus| status.info.rails.len().min(MAX_RAILS);
    let there = far.iter().find(|far| far.node == peer).and_then(|far| far.status.as_ref());
    let (here, Some(there)) = (count(own), there.map(count)) else { return String::new() };
    let (few, fewer) = if here < there { (here, own.info.node) } else { (there, peer) };
    match here.max(there) {
        0 | 1 => String::new(),
        many if many == few => format!(", {many} rails"),
        many => format!(", {few} of {many} rails (node {fewer} has {few})"),
    }
}

/// Rails to a node that connections do not use because they have failed.
fn reduced(own: &NodeStatus, peer: NodeId) -> String {
    let rail = |rail: &ReducedRail| {
        let (number, seconds, count) = (rail.rail, rail.since_ns as f64 / 1e9, rail.connections);
        let s = if count == 1 { "" } else { "s" };
        format!("{count} connection{s} without rail {number} for {seconds:.1} s ({})", rail.why)
    };
    let rails: Vec<_> = own.reduced.iter().filter(|rail| rail.peer == peer).map(rail).collect();
    if rails.is_empty() { String::new() } else { format!(", reduced: {}", rails.join(", ")) }
}

/// Over which rail the session goes, where that is not the first one of the other host.
fn session_rail(link: &LinkStatus, far: &[FarNode]) -> String {
    let there = far.iter().find(|far| far.node == link.peer).and_then(|far| far.status.as_ref());
    let nth = there.zip(link.address).and_then(|(there, address)| {
        there.info.rails.iter().take(MAX_RAILS).position(|rail| *rail == address)
    });
    match (nth, link.address) {
        (Some(nth @ 1..), Some(address)) => format!(" over rail {} ({address})", nth + 1),
        _ => String::new(),
    }
}

/// A line for each node of another host, as each node of this host sees it.
pub(super) fn write<'s>(text: &mut String, nodes: impl Iterator<Item = &'s NodeStatus>, far: &[FarNode]) {
    for status in nodes {
        for link in links(status) {
            let host = if link.peer_host.is_empty() { "another host" } else { &link.peer_host };
            let (node, peer, session) = (status.info.node, link.peer, session_name(link.session));
            if is_revoked(link) {
                let why = link.reason.as_deref().unwrap_or("its certificate was revoked");
                let _ = writeln!(text, "node {node}: node {peer} on {host}: {why}");
                continue;
            }
            let (kind, rails, trip) = (link.kind.name(), rails(status, peer, far), round_trip(link));
            let (reduced, over) = (reduced(status, peer), session_rail(link, far));
            // Data goes over one rail there.
            let (over, rails) = via(link).map_or((over, rails), |via| (via, String::new()));
            let _ = writeln!(
                text,
                "node {node}: node {peer} on {host}: session {session}{over}, link {kind}{rails}{reduced}{trip}"
            );
        }
        write_relayed(text, status);
    }
    far.iter().filter_map(|far| far.status.as_ref()).for_each(|status| write_relayed(text, status));
}

/// The third node by way of which a session goes, and for how long; it begins with a space.
pub fn via(link: &LinkStatus) -> Option<String> {
    let via = link.via?;
    Some(format!(" via node {} for {:.1} s", via.relay, via.since_ns as f64 / 1e9))
}

/// A line for each pair of nodes for which a node forwards.
fn write_relayed(text: &mut String, status: &NodeStatus) {
    for pair in &status.relayed {
        let (node, first, second) = (status.info.node, pair.first, pair.second);
        let (count, seconds) = (pair.forwards, pair.since_ns as f64 / 1e9);
        let s = if count == 1 { "" } else { "s" };
        let _ = writeln!(
            text,
            "node {node}: relay between node {first} and node {second} for {seconds:.1} s ({count} forward{s})"
        );
    }
}

//! The links that the nodes report.

use std::net::IpAddr;

use proto::ids::AdapterNo;
use proto::wire::network::MAX_RAILS;
use proto::wire::status::{LinkStatus, NodeStatus, ReducedRail, SessionState};
use serde::Serialize;
use tieline::NodeId;

use super::plan::Plan;
use super::{Deviation, Kind};
use crate::status::ClusterReport;

/// How a link is, as one of its ends sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkState {
    /// Both ends hear each other, and neither has taken it down.
    Up,
    /// An administrator has taken it down, at either end.
    TakenDown,
    /// Being set up.
    Connecting,
    /// No message arrives from the other end.
    Lost,
    /// The other end was refused.
    Refused,
    /// The other end was stopped in an orderly way.
    Stopped,
}

impl LinkState {
    /// As people read it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::TakenDown => "taken down",
            Self::Connecting => "connecting",
            Self::Lost => "lost",
            Self::Refused => "refused",
            Self::Stopped => "stopped",
        }
    }

    fn of(link: &LinkStatus) -> Self {
        match link.session {
            SessionState::Valid if link.taken_down => Self::TakenDown,
            SessionState::Valid => Self::Up,
            SessionState::Connecting => Self::Connecting,
            SessionState::Lost => Self::Lost,
            SessionState::Refused | SessionState::Revoked => Self::Refused,
            SessionState::Stopped => Self::Stopped,
        }
    }
}

/// One link, as one of its ends sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinkReport {
    /// The adapter of this node.
    pub adapter: AdapterNo,
    /// The link by its ends, ascending.
    pub link: [NodeId; 2],
    /// The node that should be at the other end, by the link's name.
    pub peer: NodeId,
    /// The node that is there: another one if cables are swapped.
    pub partner: NodeId,
    /// The partner's host, as last received.
    pub peer_host: String,
    /// Up, or why not.
    pub state: LinkState,
    /// In words, where it is not up.
    pub reason: Option<String>,
    /// Nanoseconds since that changed.
    pub since_ns: u64,
    /// Nanoseconds that it was down in all.
    pub downtime_ns: u64,
    /// How often its state changed.
    pub changes: u64,
    /// Its rails, where it leads to another host and this node has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rails: Vec<RailReport>,
    /// The plan has it.
    pub planned: bool,
    /// What is not as planned.
    pub problems: Vec<Kind>,
}

/// A rail of a link to another host, as one of its ends sees it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RailReport {
    /// From 1 on.
    pub number: usize,
    /// The address of this node.
    pub here: IpAddr,
    /// The address at the other end; `None`: the other node has no such rail, or does not respond.
    pub there: Option<IpAddr>,
    /// Connections of programs of this node that do not use it because it has failed; `None`: all do.
    pub reduced: Option<ReducedRail>,
}

/// One node and its links.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeCables {
    /// The node.
    pub node: NodeId,
    /// Its host, if that is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Why it does not respond; `None` if it does.
    pub error: Option<String>,
    /// By peer.
    pub links: Vec<LinkReport>,
}

impl NodeCables {
    /// Its link to another node.
    pub fn link_to(&self, peer: NodeId) -> Option<&LinkReport> {
        self.links.iter().find(|link| link.peer == peer)
    }
}

impl LinkReport {
    fn of(node: NodeId, link: &LinkStatus, rails: Vec<RailReport>) -> Self {
        Self {
            adapter: link.adapter,
            link: [node.min(link.peer), node.max(link.peer)],
            peer: link.peer,
            partner: link.partner,
            peer_host: link.peer_host.clone(),
            state: LinkState::of(link),
            reason: link.reason.clone(),
            since_ns: link.since_ns,
            downtime_ns: link.downtime_ns,
            changes: link.generation,
            rails,
            planned: false,
            problems: Vec::new(),
        }
    }
}

/// From what the managers say.
pub(super) fn nodes(status: &ClusterReport) -> Vec<NodeCables> {
    let links = |node: NodeId, own: &Option<NodeStatus>| {
        let of = |own| move |link| LinkReport::of(node, link, rails(status, own, link));
        own.iter().flat_map(|own| own.links.iter().map(of(own))).collect()
    };
    let here = status.nodes.iter().map(|report| NodeCables {
        node: report.node,
        host: None,
        error: report.error.clone(),
        links: links(report.node, &report.status),
    });
    // Those that were stopped in an orderly way are not missed, here as there.
    let far = status.other_hosts.iter().filter(|far| far.session != SessionState::Stopped);
    let far = far.map(|far| NodeCables {
        node: far.node,
        host: Some(far.host.clone()),
        error: far.error.clone(),
        links: links(far.node, &far.status),
    });
    let mut all: Vec<NodeCables> = here.chain(far).collect();
    all.sort_by_key(|one| one.node);
    all
}

/// The rails of a link, as this end has them.
fn rails(all: &ClusterReport, own: &NodeStatus, link: &LinkStatus) -> Vec<RailReport> {
    if !link.other_host || own.info.rails.len() < 2 {
        return Vec::new();
    }
    let here = all.nodes.iter().filter_map(|report| report.status.as_ref());
    let mut known = here.chain(all.other_hosts.iter().filter_map(|far| far.status.as_ref()));
    let there = known.find(|status| status.info.node == link.peer).map(|status| &status.info.rails);
    let rail = |(nth, here): (usize, &IpAddr)| RailReport {
        number: nth + 1,
        here: *here,
        there: there.and_then(|there| there.get(nth)).copied(),
        reduced: own
            .reduced
            .iter()
            .find(|rail| rail.peer == link.peer && usize::from(rail.rail) == nth + 1)
            .cloned(),
    };
    own.info.rails.iter().take(MAX_RAILS).enumerate().map(rail).collect()
}

/// All nodes that are there, or that one of these knows.
pub(super) fn known(nodes: &[NodeCables]) -> Vec<NodeId> {
    let heard = nodes.iter().flat_map(|node| node.links.iter().map(|link| link.peer));
    let mut known: Vec<NodeId> = nodes.iter().map(|node| node.node).chain(heard).collect();
    known.sort_unstable();
    known.dedup();
    known
}

/// Adds those that were planned, have been there, and are gone.
pub(super) fn add_silent(nodes: &mut Vec<NodeCables>, planned: &[NodeId]) {
    for node in planned {
        if !nodes.iter().any(|known| known.node == *node) {
            let error = Some("its manager was stopped".to_owned());
            nodes.push(NodeCables { node: *node, error, host: None, links: Vec::new() });
        }
    }
    nodes.sort_by_key(|node| node.node);
}

/// Says beside each link whether it is planned and what was found about it.
pub(super) fn mark(nodes: &mut [NodeCables], plan: &Plan, deviations: &[Deviation]) {
    for link in nodes.iter_mut().flat_map(|node| &mut node.links) {
        let [a, b] = link.link;
        link.planned = plan.link(a, b).is_some();
        let about = deviations.iter().filter(|deviation| deviation.links.contains(&link.link));
        link.problems = about.map(|deviation| deviation.kind).collect();
        link.problems.dedup();
    }
}

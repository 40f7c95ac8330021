//! Links of nodes outside a target that lead to a wrong node and concern the target.

use node_client::runtime_dir::ClusterDir;
use proto::wire::status::{LinkStatus, SessionState};
use tieline::NodeId;

use crate::Target;

/// A link of a node that is not judged itself leads to the wrong node: one that is judged is not at the end
/// where it is meant to be, or where it is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Misled {
    /// Whose link it is.
    pub(crate) end: NodeId,
    /// Where it should lead.
    pub(crate) peer: NodeId,
    /// Where it leads.
    pub(crate) partner: NodeId,
}

impl Misled {
    /// Whether the link between these two is not what it should be.
    pub(super) fn is_between(self, node: NodeId, peer: NodeId) -> bool {
        self.end == peer && [self.peer, self.partner].contains(&node)
    }
}

/// Of a target that is a part of a cluster: links of the other nodes that lead to a wrong node and concern
/// the target. `links` are those of the target's nodes; nodes with which there is no session are a problem
/// already, and not asked.
pub(crate) fn misled<'l>(target: &Target, links: impl Iterator<Item = &'l LinkStatus>) -> Vec<Misled> {
    let mut others: Vec<NodeId> =
        links.filter(|link| link.session == SessionState::Valid).map(|link| link.peer).collect();
    others.retain(|node| !target.nodes.contains(node));
    others.sort_unstable();
    others.dedup();
    let others = Target { nodes: others, ..target.clone() };
    let wrong = |end: NodeId| {
        let dir = ClusterDir::locate(target.runtime_dir.as_deref(), target.cluster.as_deref()).ok()?;
        let status = node::cluster::status(&dir, end).ok()?;
        let concern = |link: &&LinkStatus| {
            link.partner != link.peer
                && [link.peer, link.partner].iter().any(|node| target.nodes.contains(node))
        };
        let links = status.links.iter().filter(concern);
        Some(links.map(|link| Misled { end, peer: link.peer, partner: link.partner }).collect::<Vec<_>>())
    };
    others.on_each_node(wrong).into_iter().flatten().flatten().collect()
}

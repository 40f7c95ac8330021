//! Finds nodes by name: a host's, or an adapter's (the host's name with `_a` and the adapter's
//! number).

use proto::ids::{AdapterNo, NodeId};

use crate::error::Result;
use crate::node::Node;

/// The meaning of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// Ascending, but the asker's own node last: where two nodes are on one machine, the first is the peer.
    pub nodes: Vec<NodeId>,
    /// The adapter that was named; a host alone means its first.
    pub adapter: AdapterNo,
}

/// The adapter that `name` means on `host`, if it means that host.
pub fn adapter_on(
    host: &str,
    adapters: impl IntoIterator<Item = AdapterNo>,
    name: &str,
) -> Option<AdapterNo> {
    // A node that was never spoken to has no host yet.
    if host.is_empty() {
        return None;
    }
    if name.eq_ignore_ascii_case(host) {
        return Some(AdapterNo(0));
    }
    let (named, number) = name.rsplit_once("_a")?;
    let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
    let number = AdapterNo(number.parse().ok().filter(|_| is_number)?);
    let is_there = adapters.into_iter().any(|adapter| adapter == number);
    (is_there && named.eq_ignore_ascii_case(host)).then_some(number)
}

/// Puts a node's list into the order that [`Named::nodes`] has.
pub fn own_last(nodes: &mut Vec<NodeId>, own: NodeId) {
    nodes.sort_unstable_by_key(|node| (*node == own, *node));
    nodes.dedup();
}

impl Node {
    /// The nodes of the cluster that a name means, as this node's manager knows them; none if it means
    /// nothing.
    pub fn nodes_by_name(&self, name: &str) -> Result<Named> {
        let status = self.status()?;
        let own = (status.info.node, status.info.host.as_str());
        let peers = status.links.iter().map(|link| (link.peer, link.peer_host.as_str()));
        let adapters = status.info.adapters.iter().map(|adapter| adapter.number);
        Ok(among(own, peers, &adapters.collect::<Vec<_>>(), name))
    }
}

fn among<'a>(
    own: (NodeId, &'a str),
    peers: impl Iterator<Item = (NodeId, &'a str)>,
    adapters: &[AdapterNo],
    name: &str,
) -> Named {
    let mut named = Named { nodes: Vec::new(), adapter: AdapterNo(0) };
    for (node, host) in peers.chain([own]) {
        if let Some(adapter) = adapter_on(host, adapters.iter().copied(), name) {
            named.nodes.push(node);
            named.adapter = adapter;
        }
    }
    own_last(&mut named.nodes, own.0);
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u32) -> NodeId {
        NodeId::new(number).unwrap()
    }

    fn found(name: &str) -> (Vec<u32>, u32) {
        let peers = [(node(12), "betty"), (node(8), "anna"), (node(8), "anna"), (node(16), "")];
        let named = among((node(4), "anna"), peers.into_iter(), &[AdapterNo(0), AdapterNo(1)], name);
        (named.nodes.iter().map(|node| node.get()).collect(), named.adapter.0)
    }

    #[test]
    fn the_own_node_comes_last_and_each_once() {
        assert_eq!(found("anna"), (vec![8, 4], 0));
        assert_eq!(found("BETTY"), (vec![12], 0));
    }

    #[test]
    fn an_adapter_is_named_by_its_host_and_number() {
        assert_eq!(found("anna_a1"), (vec![8, 4], 1));
        assert_eq!(found("betty_a0"), (vec![12], 0));
        for nothing in ["", "_a0", "carla", "anna_a2", "anna_a", "anna_a+1", "anna_ax", "annaa0"] {
            assert_eq!(found(nothing).0, [0_u32; 0], "{nothing}");
        }
    }
}

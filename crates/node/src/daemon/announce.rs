//! Sends this node's address to nodes with higher IDs that are not connected.
//!
//! The higher ID dials. Whose address has changed while others did not hear it is dialled where it was, and
//! nobody but itself is believed about an address that it has proved. So it connects once in a while to say
//! where it is, and hangs up: no session comes of that, but the other one then dials.

use std::collections::BTreeSet;
use std::time::Duration;

use proto::ids::NodeId;
use proto::manager::PeerConn;
use proto::time::Instant;
use proto::wire::record::RecordKind;
use trust::channel::Channel;

use super::{Daemon, clock};
use crate::network::Network;
use crate::remote::Remote;

/// After the start: where many hosts start at once all are connected by then, and nobody is told what it
/// knows.
const FIRST: Duration = Duration::from_secs(10);
/// Between two times.
const PAUSE: Duration = Duration::from_secs(30);
/// Nodes at a time.
const AT_ONCE: usize = 16;

/// When, and to whom.
#[derive(Debug)]
pub(crate) struct Announcing {
    at: Instant,
    /// Who was told last.
    last: Option<NodeId>,
    /// Each time another one of a node's addresses.
    round: usize,
}

impl Announcing {
    pub(crate) fn new() -> Self {
        Self { at: clock() + FIRST, last: None, round: 0 }
    }

    pub(crate) fn at(&self) -> Instant {
        self.at
    }

    /// Whether the moment has come; then the next one is later.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.at <= now;
        if is_due {
            self.at = now + PAUSE;
        }
        is_due
    }

    /// Whose turn it is, of nodes that are ascending.
    fn turn(&mut self, nodes: &[NodeId]) -> Vec<NodeId> {
        let begin = nodes.partition_point(|node| self.last.is_some_and(|last| *node <= last));
        let (before, from) = nodes.split_at(begin);
        let turn: Vec<NodeId> = from.iter().chain(before).copied().take(AT_ONCE).collect();
        self.last = turn.last().copied();
        self.round += usize::from(begin + turn.len() >= nodes.len());
        turn
    }
}

impl Network {
    /// Nodes with a higher ID that have proved who they are, and are not connected.
    fn unconnected_above(&self, own: NodeId) -> Vec<NodeId> {
        let connected: BTreeSet<NodeId> =
            self.remotes.values().filter_map(|remote| remote.node.or(remote.dialled)).collect();
        let above = self.hosts.proved_nodes().filter(|node| *node > own);
        above.filter(|node| !connected.contains(node)).collect()
    }
}

impl Daemon {
    pub(super) fn announce_if_due(&mut self) {
        let (now, own) = (clock(), self.node);
        let Some(network) = &mut self.network else { return };
        // Also of a node that nobody is to believe the moment passes: else it would be due at once, again and
        // again.
        if !network.announcing.is_due(now) || network.is_revoked {
            return;
        }
        let mut above = network.unconnected_above(own);
        // What is on this host is reached without the network.
        let is_here = |node: NodeId| self.dir.peer_socket(node).is_ok_and(|path| path.exists());
        above.retain(|node| !is_here(*node));
        for node in network.announcing.turn(&above) {
            self.announce_to(node);
        }
    }

    /// What fails is tried again in its turn.
    fn announce_to(&mut self, node: NodeId) {
        let Some(network) = &self.network else { return };
        let addresses = network.hosts.addresses(node);
        let nth = network.announcing.round % addresses.len().max(1);
        let (Some(address), Ok(channel)) =
            (addresses.get(nth), Channel::dial(&network.identity, node, clock()))
        else {
            return;
        };
        if let Ok(mut remote) = Remote::dial(*address, node, channel) {
            remote.announces = true;
            self.add_remote(remote);
        }
    }

    /// The other side is who it should be, and is told; the machine never knows of the connection.
    pub(super) fn announce(&mut self, peer: PeerConn) {
        let Some(network) = &mut self.network else { return };
        let told = network.hosts.to_bytes().unwrap_or_default();
        if let Some(remote) = network.remotes.get_mut(&peer) {
            remote.send(RecordKind::Hosts, &told);
            remote.close_soon(clock());
            self.flush_remote(peer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_get_their_turn_and_each_address_of_a_node_does() {
        let nodes: Vec<NodeId> = (0..40).map(|nth| NodeId::nth(nth).unwrap()).collect();
        let mut announcing = Announcing::new();
        let mut seen = Vec::new();
        for round in [0, 0, 0, 1, 1] {
            assert_eq!(announcing.round, round);
            seen.extend(announcing.turn(&nodes));
        }
        assert_eq!(seen.len(), 5 * AT_ONCE);
        assert_eq!((&seen[..40], &seen[40..]), (&nodes[..], &nodes[..]));
        // Its moment passes.
        let at = announcing.at();
        assert_eq!([announcing.is_due(at), announcing.is_due(at)], [true, false]);
        assert_eq!(announcing.at(), at + PAUSE);
        // Few, none, and others than before.
        assert_eq!(announcing.turn(&nodes[..2]), nodes[..2]);
        assert_eq!(announcing.turn(&nodes[..2]), nodes[..2]);
        assert_eq!(announcing.turn(&[]), []);
        assert_eq!(announcing.turn(&nodes[3..4]), nodes[3..4]);
    }
}

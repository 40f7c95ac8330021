//! Managers on other hosts: the same sessions and messages, over connections that carry no descriptors.
//!
//! What needs a descriptor is refused by name until there is a link that carries data between hosts.

use super::{LogLevel, Manager, PeerConn};
use crate::ids::NodeId;
use crate::wire::peer::PeerRequest;
use crate::wire::program::{Imported, Refusal};

impl Manager {
    /// There is an address for this node.
    pub(super) fn host_seen(&mut self, node: NodeId) {
        if node == self.own || self.stopped {
            return;
        }
        let entry = self.peer_entry(node);
        // One that is connected within this host is nearer.
        if entry.session.conn().is_none() {
            entry.elsewhere = true;
        }
        self.peer_seen(node);
    }

    /// A connection stands, and its other end has proved that it is the manager of `node`.
    pub(super) fn host_connected(&mut self, peer: PeerConn, dialled: Option<NodeId>, node: NodeId) {
        self.welcome_peer(peer, dialled, Some(node), None);
    }

    /// What a hello says is what the certificate says.
    pub(super) fn check_proof(&self, peer: PeerConn, named: NodeId) -> Result<(), Refusal> {
        match self.sockets.get(&peer).and_then(|socket| socket.proved) {
            Some(proved) if proved != named => Err(Refusal::Invalid(format!(
                "the certificate is that of node {proved}, and the hello names node {named}: start each node with its own"
            ))),
            _ => Ok(()),
        }
    }

    /// Something that can carry data leads to that node.
    pub(super) fn check_data_link(&self, node: NodeId, what: &Imported) -> Result<(), Refusal> {
        match self.peers.get(&node) {
            Some(peer) if peer.elsewhere => {
                let host = peer.session.host().to_owned();
                Err(Refusal::NoDataLink { what: what.to_string(), node, host })
            }
            _ => Ok(()),
        }
    }

    /// Why a manager on another host does not get what it asks for; `None`: it is on this host.
    pub(super) fn no_data_link_for(&mut self, node: NodeId, body: &PeerRequest) -> Option<Refusal> {
        if !self.peers.get(&node).is_some_and(|peer| peer.elsewhere) {
            return None;
        }
        let what = match body {
            PeerRequest::ConnectSegment { key, .. } => Imported::Segment(*key),
            PeerRequest::ConnectInterrupt { number, .. } => Imported::Interrupt(*number),
            PeerRequest::Resume { what, .. } => *what,
        };
        let text = format!("node {node} on another host asked for {what}: there is no data link to it");
        self.log(LogLevel::Warn, text);
        let host = self.config.info.host.clone();
        Some(Refusal::NoDataLink { what: what.to_string(), node: self.own, host })
    }
}

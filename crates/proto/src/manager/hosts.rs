//! Managers on other hosts: the same sessions and messages, over connections that carry no descriptors.
//!
//! What needs a descriptor is refused by name; how data travels instead: [`by_network`](super::by_network).

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

    /// A node of this host needs no certificate, so one that has joined elsewhere may have its id: it does not take its place.
    pub(super) fn check_place(&self, peer: PeerConn, named: NodeId) -> Result<(), Refusal> {
        let is_here = |conn: &PeerConn| self.sockets.get(conn).is_some_and(|socket| socket.proved.is_none());
        let open = self.peers.get(&named).and_then(|entry| entry.session.open_conn());
        if is_here(&peer) || !open.is_some_and(|open| is_here(&open)) {
            return Ok(());
        }
        let owner = format!("a manager on the host of node {}", self.own);
        Err(Refusal::InUse { what: format!("node {named}"), owner })
    }

    /// What a manager on another host asks for needs a descriptor, which cannot be sent there.
    pub(super) fn no_descriptor_for(&mut self, node: NodeId, body: &PeerRequest) -> Option<Refusal> {
        if !self.is_elsewhere(node) {
            return None;
        }
        let what = match body {
            PeerRequest::ConnectSegment { key, .. } => Imported::Segment(*key),
            PeerRequest::ConnectInterrupt { number, .. } => Imported::Interrupt(*number),
            PeerRequest::ConnectByNetwork { .. } | PeerRequest::Resume { .. } => return None,
        };
        self.log(LogLevel::Warn, format!("node {node} on another host asked for the memory of {what}"));
        Some(self.no_data_link(what, "its memory cannot be sent there: connect over the network"))
    }
}

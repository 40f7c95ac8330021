//! Managers on other hosts: the same sessions and messages, over connections that carry no descriptors.
//!
//! What needs a descriptor is refused by name; how data travels instead: [`by_network`](super::by_network).

use std::net::IpAddr;

use super::{LogLevel, Manager, PeerConn, Revoked, Timer};
use crate::ids::NodeId;
use crate::wire::peer::PeerRequest;
use crate::wire::program::{Imported, Refusal};
use crate::wire::status::SessionState;

const THEIRS: &str = "its certificate was revoked; to let it join again: `tieline cluster token --node ";
const OURS: &str = "this node's certificate was revoked; to join again, on the authority's host: `tieline cluster token --node ";

impl Manager {
    /// There is an address for this node.
    pub(super) fn host_seen(&mut self, node: NodeId) {
        if node == self.own || self.stopped {
            return;
        }
        let entry = self.peer_entry(node);
        // One that is connected within this host is nearer.
        if entry.session.conn().is_none() {
            (entry.elsewhere, entry.revoked) = (true, false);
        }
        self.peer_seen(node);
    }

    /// A certificate was revoked. What the node's programs and ours had of each other is over at once, and it
    /// is not dialled.
    pub(super) fn host_revoked(&mut self, node: NodeId, revoked: Revoked) {
        let is_here = |entry: &super::Peer| !entry.elsewhere && entry.session.conn().is_some();
        if node == self.own || self.stopped || self.peers.get(&node).is_some_and(is_here) {
            return;
        }
        let (state, why) = match revoked {
            Revoked::Theirs => (SessionState::Revoked, format!("{THEIRS}{node}`")),
            Revoked::Left => (SessionState::Revoked, "it has left the cluster".to_owned()),
            Revoked::Ours => (SessionState::Refused, format!("{OURS}{}`", self.own)),
        };
        let entry = self.peer_entry(node);
        if entry.revoked && entry.session.reason() == Some(&why) {
            return;
        }
        (entry.elsewhere, entry.revoked) = (true, true);
        self.mark_seen(node);
        self.with_session(node, |session, now, out| session.revoked(now, state, &why, out));
        self.set_link(node, false);
        self.end_everything_of(node, true);
        self.leave_relay(node);
        if revoked == Revoked::Left {
            self.timers.clear(Timer::Session(node));
            self.timers.clear(Timer::Sweep(node));
            self.peers.remove(&node);
        }
    }

    /// Waiting does not help a program: a revoked node comes back when somebody lets it join again.
    pub(super) fn check_not_revoked(&self, node: NodeId, what: Imported) -> Result<(), Refusal> {
        let Some(peer) = self.peers.get(&node).filter(|peer| peer.revoked) else { return Ok(()) };
        let why = peer.session.reason().unwrap_or("its certificate was revoked").to_owned();
        let (what, host) = (what.to_string(), peer.session.host().to_owned());
        Err(Refusal::NoDataLink { what, node, host, why })
    }

    /// A connection stands, and its other end has proved that it is the manager of `node`.
    pub(super) fn host_connected(
        &mut self,
        peer: PeerConn,
        dialled: Option<NodeId>,
        node: NodeId,
        address: IpAddr,
    ) {
        self.welcome_peer(peer, dialled, Some((node, address)), None);
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

    /// A node of this host needs no certificate, so one that has joined elsewhere may have its id: it does
    /// not take its place.
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
            PeerRequest::ConnectByNetwork { .. }
            | PeerRequest::Resume { .. }
            | PeerRequest::Status
            | PeerRequest::StartAgent { .. }
            | PeerRequest::Relay { .. }
            | PeerRequest::AskOwner { .. } => return None,
        };
        self.log(LogLevel::Warn, format!("node {node} on another host asked for the memory of {what}"));
        Some(self.no_data_link(what, "its memory cannot be sent there: connect over the network"))
    }
}

//! Other managers before their hello is accepted, and how they are refused.

use std::net::IpAddr;

use super::peers::Socket;
use super::programs::{HELLO_LIMIT, printable};
use super::{Credentials, Descriptor, LogLevel, Manager, Output, PeerConn, Timer};
use crate::ids::NodeId;
use crate::wire::peer::PeerMessage;
use crate::wire::program::{Incarnation, Refusal};
use crate::wire::{CodecError, PROTOCOL_VERSION};

/// Accepted connections that have not sent a hello.
const MAX_STRANGERS: usize = 4096;
/// Those of one node that has proved who it is. A manager dials once at a time; a second one is the first
/// that was lost unseen.
const MAX_SILENT_OF_NODE: usize = 4;

impl Manager {
    pub(super) fn peer_connected(
        &mut self,
        peer: PeerConn,
        dialled: Option<NodeId>,
        credentials: &Credentials,
    ) {
        let uid = credentials.uid;
        let stranger = uid != 0 && uid != self.config.uid;
        self.welcome_peer(peer, dialled, None, stranger.then_some(uid));
    }

    /// The first words on a connection: a hello, or why a `stranger` of this user is refused.
    pub(super) fn welcome_peer(
        &mut self,
        peer: PeerConn,
        dialled: Option<NodeId>,
        proved: Option<(NodeId, IpAddr)>,
        stranger: Option<u32>,
    ) {
        let is_beside = dialled.is_some_and(|node| self.has_relayed(node));
        if self.stopped || (dialled.is_none() && self.sockets.len() >= MAX_STRANGERS + self.peers.len()) {
            return self.out.push_back(Output::ClosePeer { peer });
        }
        let (proved, address) = proved.unzip();
        if let Some(node) = proved.filter(|_| dialled.is_none()) {
            self.make_room_for(node);
        }
        self.sockets.insert(peer, Socket { node: dialled, proved, address, via: None });
        if let Some(node) = dialled.filter(|_| !is_beside) {
            self.mark_seen(node);
            self.with_session(node, |session, now, out| session.connected(now, peer, out));
        } else {
            self.timers.set(Timer::PeerHello(peer), self.now + HELLO_LIMIT);
        }
        if !self.sockets.contains_key(&peer) {
            return;
        }
        if let Some(uid) = stranger {
            let what = format!(
                "be a manager in this cluster (node {}'s runs as user {})",
                self.own, self.config.uid
            );
            return self.refuse_peer(peer, Refusal::Denied { what, uid });
        }
        let hello = PeerMessage::Hello {
            node: self.own,
            incarnation: Incarnation(self.config.info.incarnation),
            cluster: self.config.info.cluster.clone(),
            host: self.config.info.host.clone(),
        };
        self.out.push_back(Output::ToPeer { peer, message: hello, descriptors: Vec::new() });
    }

    /// The oldest accepted connection of a node that says nothing ends, if there are too many.
    fn make_room_for(&mut self, node: NodeId) {
        let silent =
            self.sockets.iter().filter(|(_, socket)| socket.proved == Some(node) && socket.node.is_none());
        // Numbers are given out in order: the lowest is the oldest.
        let silent: Vec<_> = silent.map(|(peer, _)| *peer).collect();
        if silent.len() >= MAX_SILENT_OF_NODE {
            self.close_socket(silent[0]);
        }
    }

    /// This side does not accept the other.
    pub(super) fn refuse_peer(&mut self, peer: PeerConn, refusal: Refusal) {
        let why = refusal.to_string();
        let message = PeerMessage::Rejected(refusal);
        self.out.push_back(Output::ToPeer { peer, message, descriptors: Vec::new() });
        self.peer_refused(peer, &format!("refused by this node: {why}"));
    }

    /// The session (if the connection has one) is refused, and the connection ends.
    pub(super) fn peer_refused(&mut self, peer: PeerConn, why: &str) {
        let node = self.sockets.get(&peer).and_then(|socket| socket.node);
        match node {
            Some(node) => {
                let known = self.peers.get(&node).and_then(|entry| entry.session.reason()) == Some(why);
                if !known {
                    self.log(LogLevel::Warn, format!("node {node}: {why}"));
                }
                self.with_session(node, |session, now, out| session.refused(now, why, out));
            }
            None => {
                let text = format!("a manager that wanted to connect was {why}");
                if self.last_stranger != text {
                    // It will try again and again.
                    self.last_stranger.clone_from(&text);
                    self.log(LogLevel::Warn, text);
                }
            }
        }
        self.close_socket(peer);
    }

    pub(super) fn peer_gone(&mut self, peer: PeerConn) {
        self.timers.clear(Timer::PeerHello(peer));
        if let Some(Socket { node: Some(node), .. }) = self.sockets.remove(&peer) {
            self.with_session(node, |session, now, out| session.closed(now, peer, out));
        }
    }

    /// An accepted connection sent nothing.
    pub(super) fn peer_silent(&mut self, peer: PeerConn) {
        // One beside a session that goes by way of a relay names a node already.
        let open = |node| self.peers.get(&node)?.session.conn();
        if self.sockets.get(&peer).is_some_and(|socket| socket.node.and_then(open) != Some(peer)) {
            self.close_socket(peer);
        }
    }

    pub(super) fn peer_garbage(&mut self, peer: PeerConn, error: &CodecError, descriptors: &[Descriptor]) {
        self.adopt(descriptors);
        self.close_tokens(descriptors);
        if !self.sockets.contains_key(&peer) {
            return;
        }
        self.counters.protocol_errors += 1;
        match error {
            CodecError::OtherVersion { theirs } => {
                self.refuse_peer(peer, Refusal::Version { theirs: *theirs, ours: PROTOCOL_VERSION });
            }
            other => self.peer_violation(peer, &format!("its manager sent an invalid message: {other}")),
        }
    }

    /// The other manager broke a rule: its connection is given up, and made anew.
    pub(super) fn peer_violation(&mut self, peer: PeerConn, why: &str) {
        let node = self.sockets.get(&peer).and_then(|socket| socket.node);
        let who = node.map_or("an unknown manager".to_owned(), |node| format!("node {node}"));
        self.log(LogLevel::Warn, format!("{who}: {why}; the connection is closed"));
        if let Some(node) = node {
            self.with_session(node, |session, now, out| {
                if session.conn() == Some(peer) {
                    session.broken(now, why, out);
                }
            });
        }
        self.close_socket(peer);
    }

    /// A refused stranger has named the node that it claims to be: its link shows why, unless that node is
    /// connected.
    pub(super) fn attribute(&mut self, peer: PeerConn, named: NodeId) {
        let free = self.peers.get(&named).is_none_or(|entry| entry.session.conn().is_none());
        if let Some(socket) = self.sockets.get_mut(&peer)
            && socket.node.is_none()
            // What a certificate has proved is no other node.
            && socket.proved.is_none_or(|proved| proved == named)
            && named > self.own
            && free
        {
            socket.node = Some(named);
            self.timers.clear(Timer::PeerHello(peer));
            self.mark_seen(named);
        }
    }

    pub(super) fn check_hello(
        &self,
        peer: PeerConn,
        dialled: Option<NodeId>,
        named: NodeId,
        cluster: &str,
    ) -> Result<(), Refusal> {
        let own = &self.config.info;
        if cluster != own.cluster {
            return Err(Refusal::Invalid(format!(
                "node {} belongs to cluster `{}` and node {named} to cluster `{}`: give them one name, or each its own runtime directory",
                self.own,
                own.cluster,
                printable(cluster)
            )));
        }
        self.check_proof(peer, named)?;
        self.check_place(peer, named)?;
        if named == self.own {
            let owner = format!("the manager with pid {}", own.manager_pid);
            return Err(Refusal::InUse { what: format!("node {named}"), owner });
        }
        match dialled {
            Some(node) if node != named => Err(Refusal::Invalid(format!(
                "the socket of node {node} is held by the manager of node {named}: stop it and remove the socket"
            ))),
            None if named < self.own => Err(Refusal::Invalid(format!(
                "node {named} must not dial node {}: the higher id dials the lower",
                self.own
            ))),
            _ => Ok(()),
        }
    }

    pub(super) fn greet(&mut self, peer: PeerConn, node: NodeId, incarnation: Incarnation, host: &str) {
        self.timers.clear(Timer::PeerHello(peer));
        self.mark_seen(node);
        if let Some(socket) = self.sockets.get_mut(&peer) {
            socket.node = Some(node);
            let elsewhere = socket.proved.is_some();
            let entry = self.peer_entry(node);
            (entry.elsewhere, entry.revoked) = (elsewhere, false);
        }
        self.with_session(node, |session, now, out| session.hello(now, peer, incarnation, host, out));
    }
}

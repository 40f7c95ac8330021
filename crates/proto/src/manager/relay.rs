//! Sessions through a relay, where no address of the other node responds.
//!
//! The side that dials asks those that say that they forward, one after the other, one with each attempt that
//! fails. A session that stands goes its own way again as soon as an address of the other node responds,
//! which is tried all the time.

use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;

use super::pending::Aim;
use super::{LogLevel, Manager, Output, PeerConn, Timer};
use crate::ids::NodeId;
use crate::time::Instant;
use crate::wire::peer::{PeerMessage, PeerReply, PeerRequest};
use crate::wire::program::Refusal;
use crate::wire::relay::Forward;
use crate::wire::status::Via;

/// A node that has not been reached for so long is looked for by way of others.
pub(super) const SEEK_AFTER: Duration = Duration::from_secs(3);
/// After an attempt to reach directly what is reached by way of a relay; and if nothing has come of one at
/// all.
pub(super) const DIRECT_PAUSE: Duration = Duration::from_secs(5);
const DIRECT_LIMIT: Duration = Duration::from_secs(60);

/// The search for a way to a node.
#[derive(Debug, Default)]
pub(super) struct RelaySearch {
    /// One is being asked.
    under_way: bool,
    /// The attempt that is under way goes by way of one.
    dialled: bool,
    /// Who was asked last.
    last: Option<NodeId>,
    /// What it has said.
    refused: Option<String>,
}

impl Manager {
    /// The third node by way of which a node is reached now.
    pub(super) fn via(&self, node: NodeId) -> Option<NodeId> {
        self.via_since(node).map(|(relay, _)| relay)
    }

    fn via_since(&self, node: NodeId) -> Option<(NodeId, Instant)> {
        let conn = self.peers.get(&node)?.session.open_conn()?;
        self.sockets.get(&conn)?.via
    }

    pub(super) fn has_relayed(&self, node: NodeId) -> bool {
        self.via_since(node).is_some()
    }

    pub(super) fn via_status(&self, now: Instant, node: NodeId) -> Option<Via> {
        let (relay, since) = self.via_since(node)?;
        let since_ns = u64::try_from(now.since(since).as_nanos()).unwrap_or(u64::MAX);
        Some(Via { relay, since_ns })
    }

    /// A session has become valid: the other side learns that this node relays, and this one tries for a
    /// direct connection.
    pub(super) fn announce_relay(&mut self, node: NodeId) {
        let is_relayed = self.has_relayed(node);
        if self.config.relay && self.is_elsewhere(node) {
            self.send_peer(node, PeerMessage::Relays, Vec::new());
        }
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.search = RelaySearch::default();
        if is_relayed && peer.session.dials() {
            self.timers.set(Timer::Direct(node), self.now + DIRECT_PAUSE);
        } else {
            self.timers.clear(Timer::Direct(node));
        }
    }

    /// An attempt to reach a node has failed.
    pub(super) fn seek_relay(&mut self, node: NodeId) {
        let now = self.now;
        if self.has_relayed(node) {
            // It was tried beside the session.
            return self.timers.set(Timer::Direct(node), now + DIRECT_PAUSE);
        }
        let search = self.peers.get_mut(&node).map(|peer| &mut peer.search);
        // Its own addresses have their turn between two relays.
        if search.is_none_or(|search| std::mem::take(&mut search.dialled)) {
            return;
        }
        let Some(peer) = self.peers.get(&node).filter(|peer| peer.elsewhere && !peer.revoked) else { return };
        let is_due = peer.session.waits_to_dial() && peer.session.down_for(now) >= SEEK_AFTER;
        if !is_due || peer.search.under_way {
            return;
        }
        let Some(relay) = self.next_relay(node, peer.search.last) else { return };
        let Some(peer) = self.peers.get_mut(&node) else { return };
        (peer.search.under_way, peer.search.last) = (true, Some(relay));
        let forward = Forward::Manager { to: node };
        self.ask(relay, Aim::Relay { to: node }, PeerRequest::Relay { forward }, Vec::new());
    }

    /// The one after the one that was asked last, and the first one behind the last.
    fn next_relay(&self, node: NodeId, last: Option<NodeId>) -> Option<NodeId> {
        let may = |relay: &NodeId| *relay != node && self.is_relay(*relay);
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut behind = self.peers.range((after, Bound::Unbounded)).map(|(relay, _)| *relay);
        behind.find(may).or_else(|| self.peers.keys().copied().find(may))
    }

    /// It says that it forwards, and is reached without another one.
    fn is_relay(&self, node: NodeId) -> bool {
        let may = |peer: &super::Peer| peer.relays && peer.elsewhere && peer.session.is_valid();
        self.peers.get(&node).is_some_and(may) && !self.has_relayed(node)
    }

    /// What a relay says; `None`: the session with it was lost.
    pub(super) fn relay_answered(
        &mut self,
        relay: NodeId,
        to: NodeId,
        result: Option<Result<PeerReply, Refusal>>,
    ) {
        let through = self.peers.get(&relay).and_then(|peer| peer.session.open_conn());
        let Some(peer) = self.peers.get_mut(&to) else { return };
        peer.search.under_way = false;
        let why = match (result, through) {
            (Some(Ok(PeerReply::Relay { at })), Some(through)) => {
                if peer.session.dial_other_way() {
                    peer.search.dialled = true;
                    self.timers.clear(Timer::Session(to));
                    self.out.push_back(Output::DialRelayed { node: to, relay, through, port: at.port() });
                }
                return;
            }
            (Some(Ok(PeerReply::Relay { .. })), None) => return,
            (Some(Ok(_)), _) => "its manager sent a reply of another kind".to_owned(),
            (Some(Err(refusal)), _) => refusal.to_string(),
            (None, _) => return,
        };
        if peer.search.refused.as_ref() != Some(&why) {
            peer.search.refused = Some(why.clone());
            self.log(
                LogLevel::Warn,
                format!("node {to} cannot be reached by way of node {relay}: {why}; other relays are tried"),
            );
        }
    }

    /// A connection stands that a relay forwards.
    pub(super) fn host_connected_via(
        &mut self,
        peer: PeerConn,
        node: NodeId,
        relay: NodeId,
        address: IpAddr,
    ) {
        // It has come by itself meanwhile.
        if self.peers.get(&node).is_some_and(|entry| entry.session.open_conn().is_some()) {
            return self.out.push_back(Output::ClosePeer { peer });
        }
        self.welcome_peer(peer, Some(node), Some((node, address)), None);
        let now = self.now;
        if let Some(socket) = self.sockets.get_mut(&peer) {
            socket.via = Some((relay, now));
            self.log(LogLevel::Info, format!("node {node} is connected via node {relay}"));
            let message = PeerMessage::Via { relay };
            self.out.push_back(Output::ToPeer { peer, message, descriptors: Vec::new() });
        }
    }

    /// The other side has come by way of a relay.
    pub(super) fn heard_via(&mut self, peer: PeerConn, relay: NodeId) {
        let (own, now) = (self.own, self.now);
        let Some(socket) = self.sockets.get_mut(&peer) else { return };
        // One that we have dialled is known to us.
        let Some(node) = socket.node.filter(|node| *node > own && socket.proved.is_some()) else { return };
        if relay == own || relay == node || socket.via.is_some() {
            return;
        }
        socket.via = Some((relay, now));
        self.log(LogLevel::Info, format!("node {node} has connected via node {relay}"));
    }

    /// Its certificate was revoked: it forwards for nobody any more whom this node knows.
    pub(super) fn leave_relay(&mut self, relay: NodeId) {
        let through: Vec<NodeId> =
            self.peers.keys().copied().filter(|node| self.via(*node) == Some(relay)).collect();
        for node in through {
            let why = format!("the certificate of node {relay}, which forwarded it, was revoked");
            self.with_session(node, |session, now, out| session.broken(now, &why, out));
        }
        if let Some(peer) = self.peers.get_mut(&relay) {
            peer.relays = false;
        }
    }

    /// A program wants a way by a relay whose manager does not respond. What goes through it goes on, but
    /// nothing new: another one is looked for, if there is any.
    pub(super) fn leave_silent_relay(&mut self, relay: NodeId, node: NodeId) {
        let may = |other: &NodeId| ![relay, node].contains(other) && self.is_relay(*other);
        if self.via(node) != Some(relay) || !self.peers.keys().any(may) {
            return;
        }
        let why = format!("node {relay}, which forwards it, does not respond, and another relay does");
        self.with_session(node, |session, now, out| session.broken(now, &why, out));
    }

    /// What is reached by way of a relay is dialled without one, beside its session.
    pub(super) fn try_direct(&mut self, node: NodeId) {
        if self.has_relayed(node) {
            self.timers.set(Timer::Direct(node), self.now + DIRECT_LIMIT);
            self.out.push_back(Output::Dial { node });
        }
    }
}

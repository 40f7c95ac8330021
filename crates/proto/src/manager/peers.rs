//! The other nodes: their state, their sessions, and messages to them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::admin::Admin;
use super::relay::RelaySearch;
use super::{Asker, FdToken, LogLevel, Manager, Output, PeerConn, Timer};
use crate::ids::{GroupId, NodeId};
use crate::session::{Action, Return, Session, Settings};
use crate::time::Instant;
use crate::wire::peer::PeerMessage;
use crate::wire::program::{ConnectionId, ImportSlot, Imported, LossReason, RequestId};
use crate::wire::status::SessionState;

/// Ends of connections that a peer must still be told.
const MAX_OWED: usize = 1 << 16;

/// Another node, as far as this one knows it.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) session: Session,
    /// The link to it is up, as the state page shows. A lost session does not end it: memory that is mapped
    /// stays mapped no matter which manager dies, so nothing is reported to programs; an orderly end of the
    /// node does.
    pub(super) link_up: bool,
    /// What an administrator has done to the link.
    pub(super) admin: Admin,
    /// Its manager's socket was seen, or it has spoken. Otherwise only a program has named it.
    pub(super) seen: bool,
    /// It is on another host, where no descriptor can be sent to.
    pub(super) elsewhere: bool,
    /// Its certificate or ours was revoked: what its programs and ours had of each other is over, and does
    /// not return.
    pub(super) revoked: bool,
    /// It forwards connections, as it says.
    pub(super) relays: bool,
    /// The search for a way to it over a third node.
    pub(super) search: RelaySearch,
    /// Connections of its programs to objects of this node.
    pub(super) exports: BTreeSet<ConnectionId>,
    /// Living imports of this node's programs from there.
    pub(super) imports: BTreeSet<ImportSlot>,
    /// Requests without a reply.
    pub(super) pending: BTreeSet<RequestId>,
    /// Its `Resume`s that wait for objects of this node, by connection and process.
    pub(super) waiting: BTreeMap<(ConnectionId, u32), Imported>,
    /// Groups of which it holds a copy.
    pub(super) groups: BTreeSet<GroupId>,
    /// Groups of which it knows that this node holds a copy.
    pub(super) told: BTreeSet<GroupId>,
    /// Not yet resumed since the session came.
    pub(super) unconfirmed: BTreeSet<ConnectionId>,
    /// Not yet announced again since the session came.
    pub(super) stale_groups: BTreeSet<GroupId>,
    /// When its programs have had the time to re-attach.
    pub(super) settles_at: Instant,
    /// It has yet to say what continues, on this connection; its first heartbeat ends that.
    pub(super) listing: bool,
    /// To be sent when the session returns. Bounded by the connections that there were.
    pub(super) owed_lost: BTreeMap<ConnectionId, LossReason>,
    pub(super) owed_released: BTreeMap<ConnectionId, bool>,
}

/// One connection with another manager; without a node until its hello has come.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) node: Option<NodeId>,
    /// It leads to another host, and this is the node that its certificate names.
    pub(super) proved: Option<NodeId>,
    /// Of that host.
    pub(super) address: Option<IpAddr>,
    /// The third node that forwards it, and since when.
    pub(super) via: Option<(NodeId, Instant)>,
}

impl Manager {
    /// The peer's entry, made if need be.
    pub(super) fn peer_entry(&mut self, node: NodeId) -> &mut Peer {
        let settings = Settings {
            own: self.own,
            peer: node,
            heartbeat_interval: self.config.heartbeat_interval,
            heartbeat_limit: self.config.heartbeat_limit,
            seed: self.config.info.incarnation,
        };
        let (now, unseen_at) = (self.now, self.now + self.config.resume_grace);
        let timers = &mut self.timers;
        self.peers.entry(node).or_insert_with(|| {
            timers.set(Timer::Unseen(node), unseen_at);
            Peer {
                session: Session::new(settings, now),
                link_up: false,
                admin: Admin::default(),
                seen: false,
                elsewhere: false,
                revoked: false,
                relays: false,
                search: RelaySearch::default(),
                exports: BTreeSet::new(),
                imports: BTreeSet::new(),
                pending: BTreeSet::new(),
                waiting: BTreeMap::new(),
                groups: BTreeSet::new(),
                told: BTreeSet::new(),
                unconfirmed: BTreeSet::new(),
                stale_groups: BTreeSet::new(),
                settles_at: now,
                listing: false,
                owed_lost: BTreeMap::new(),
                owed_released: BTreeMap::new(),
            }
        })
    }

    pub(super) fn mark_seen(&mut self, node: NodeId) {
        self.peer_entry(node).seen = true;
        self.timers.clear(Timer::Unseen(node));
    }

    /// Lets a session act, carries out what it wants, and sets its timer.
    pub(super) fn with_session(
        &mut self,
        node: NodeId,
        act: impl FnOnce(&mut Session, Instant, &mut Vec<Action>),
    ) {
        let mut actions = Vec::new();
        let now = self.now;
        let Some(peer) = self.peers.get_mut(&node) else { return };
        act(&mut peer.session, now, &mut actions);
        for action in actions {
            self.carry_out(node, action);
        }
        match self.peers.get(&node).and_then(|peer| peer.session.next_timeout()) {
            Some(at) => self.timers.set(Timer::Session(node), at),
            None => self.timers.clear(Timer::Session(node)),
        }
    }

    fn carry_out(&mut self, node: NodeId, action: Action) {
        match action {
            Action::Dial => self.out.push_back(Output::Dial { node }),
            Action::Send(peer, message) => {
                self.out.push_back(Output::ToPeer { peer, message, descriptors: Vec::new() });
            }
            Action::Close(peer) => self.close_socket(peer),
            Action::Up(back) => self.session_up(node, back),
            Action::Down => self.session_down(node),
            Action::Stopped => self.end_everything_of(node, false),
        }
    }

    pub(super) fn close_socket(&mut self, peer: PeerConn) {
        self.timers.clear(Timer::PeerHello(peer));
        if self.sockets.remove(&peer).is_some() {
            self.out.push_back(Output::ClosePeer { peer });
        }
    }

    pub(super) fn peer_seen(&mut self, node: NodeId) {
        if node != self.own && !self.stopped {
            self.mark_seen(node);
            self.with_session(node, |session, _, out| session.seen(out));
        }
    }

    pub(super) fn dial_failed(&mut self, node: NodeId, why: &str) {
        self.with_session(node, |session, now, _| session.dial_failed(now, why));
        self.seek_relay(node);
    }

    pub(super) fn dial_refused(&mut self, node: NodeId, why: &str) {
        let is_dialled = |peer: &&Peer| !peer.revoked && peer.session.conn().is_none();
        let Some(peer) = self.peers.get(&node).filter(is_dialled) else { return };
        if peer.session.reason() != Some(why) {
            self.log(LogLevel::Warn, format!("node {node}: {why}"));
        }
        self.with_session(node, |session, now, out| session.refused(now, why, out));
    }

    fn session_up(&mut self, node: NodeId, back: Return) {
        self.log(LogLevel::Info, format!("session with node {node} is valid"));
        self.announce_carrier(node, !matches!(back, Return::Revived | Return::Reconnected));
        self.announce_relay(node);
        self.tell_needs(node, back);
        self.set_link(node, true);
        if back == Return::Revived {
            self.expect_rest(node);
        } else {
            let peer = self.peer_entry(node);
            peer.told.clear();
            for ((connection, pid), what) in std::mem::take(&mut peer.waiting) {
                self.drop_waiting((what, Asker::Peer(node, connection, pid)));
            }
            self.forget_asked_for(node);
            self.forget_questions_of(node);
            self.expect_resumption(node, back);
        }
        self.pay_debts(node, matches!(back, Return::Revived | Return::Reconnected));
        self.announce_copies(node);
        self.resume_all(node);
        // The heartbeat that ends all this.
        self.with_session(node, |session, now, out| session.settle(now, out));
    }

    fn session_down(&mut self, node: NodeId) {
        self.timers.clear(Timer::Sweep(node));
        let Some(peer) = self.peers.get(&node) else { return };
        let (state, why) = (
            peer.session.state(),
            peer.session.reason().unwrap_or("another connection took its place").to_owned(),
        );
        if state == SessionState::Lost {
            self.counters.sessions_lost += 1;
        }
        let level = if state == SessionState::Stopped { LogLevel::Info } else { LogLevel::Warn };
        self.log(level, format!("session with node {node} is down: {why}"));
        if state == SessionState::Stopped {
            self.set_link(node, false);
        }
        self.lose_agents_of(node, &why);
        self.fail_pending(node);
    }

    pub(super) fn set_link(&mut self, node: NodeId, up: bool) {
        self.peer_entry(node).link_up = up;
        self.show_link(node);
    }

    /// Says what was held back while the session was down. A restarted manager would not know what was
    /// `Lost`; of a connection that was released, the owner will tell it.
    fn pay_debts(&mut self, node: NodeId, same: bool) {
        let peer = self.peer_entry(node);
        let (lost, released) = (std::mem::take(&mut peer.owed_lost), std::mem::take(&mut peer.owed_released));
        for (connection, reason) in lost.into_iter().filter(|_| same) {
            self.send_peer(node, PeerMessage::Lost { connection, reason }, Vec::new());
        }
        for (connection, died) in released {
            self.send_peer(node, PeerMessage::Released { connection, died }, Vec::new());
        }
    }

    /// The exporter's side has ended a connection.
    pub(super) fn tell_lost(&mut self, node: NodeId, connection: ConnectionId, reason: LossReason) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if peer.session.is_valid() {
            self.send_peer(node, PeerMessage::Lost { connection, reason }, Vec::new());
        } else if peer.session.incarnation().is_some() && peer.owed_lost.len() < MAX_OWED {
            // What does not fit is found out when the importer resumes.
            peer.owed_lost.insert(connection, reason);
        }
    }

    /// The importer's side has ended a connection. One that the exporter was never `told` of in this life is
    /// unknown there.
    pub(super) fn tell_released(&mut self, node: NodeId, connection: ConnectionId, died: bool, told: bool) {
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if peer.session.is_valid() {
            self.send_peer(node, PeerMessage::Released { connection, died }, Vec::new());
        } else if told {
            peer.owed_released.insert(connection, died);
        }
    }

    /// Sends on the open connection, if there is one.
    pub(super) fn send_peer(&mut self, node: NodeId, message: PeerMessage, descriptors: Vec<FdToken>) {
        if let Some(peer) = self.peers.get(&node).and_then(|peer| peer.session.open_conn()) {
            self.out.push_back(Output::ToPeer { peer, message, descriptors });
        }
    }
}

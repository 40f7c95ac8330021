//! Other managers: connections, sessions, and what is said over them.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::Shown;
use super::programs::{HELLO_LIMIT, printable};
use super::{
    Asker, Credentials, Descriptor, DescriptorKind, FdToken, LogLevel, Manager, Output, PeerConn, Timer,
};
use crate::ids::{GroupId, NodeId};
use crate::session::{Action, Return, Session, Settings};
use crate::time::Instant;
use crate::wire::peer::{PeerMessage, PeerReply, PeerRequest, Requester};
use crate::wire::program::{
    ConnectionId, Event, ImportSlot, Imported, Incarnation, LossReason, Refusal, RequestId,
};
use crate::wire::status::SessionState;
use crate::wire::{CodecError, PROTOCOL_VERSION};

/// Accepted connections that have not said hello.
const MAX_STRANGERS: usize = 4096;
/// Ends of connections that a peer has yet to be told.
const MAX_OWED: usize = 1 << 16;
/// Groups of which one node may hold a copy.
const MAX_GROUPS: usize = 1 << 16;

/// Another node, as far as this one knows it.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) session: Session,
    /// The link to it stands, as the state page says. A lost session does not end it: memory that is mapped stays
    /// mapped whoever dies, so nothing is reported to programs; an orderly end of the node does.
    pub(super) link_up: bool,
    /// Its manager's socket was seen, or it has spoken. Otherwise only a program has named it.
    pub(super) seen: bool,
    /// Connections of its programs to objects of this node.
    pub(super) exports: BTreeSet<ConnectionId>,
    /// Living imports of this node's programs from there.
    pub(super) imports: BTreeSet<ImportSlot>,
    /// Requests that it has yet to answer.
    pub(super) pending: BTreeSet<RequestId>,
    /// Its `Resume`s that wait for objects of this node.
    pub(super) waiting: BTreeMap<ConnectionId, Imported>,
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
    /// Its next heartbeat ends its resumptions.
    pub(super) sweep_at_heartbeat: bool,
    /// To be said when the session returns. Bounded by the connections that there were.
    pub(super) owed_lost: BTreeMap<ConnectionId, LossReason>,
    pub(super) owed_released: BTreeMap<ConnectionId, bool>,
}

/// One connection with another manager; without a node until it has said hello.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) node: Option<NodeId>,
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
                seen: false,
                exports: BTreeSet::new(),
                imports: BTreeSet::new(),
                pending: BTreeSet::new(),
                waiting: BTreeMap::new(),
                groups: BTreeSet::new(),
                told: BTreeSet::new(),
                unconfirmed: BTreeSet::new(),
                stale_groups: BTreeSet::new(),
                settles_at: now,
                sweep_at_heartbeat: false,
                owed_lost: BTreeMap::new(),
                owed_released: BTreeMap::new(),
            }
        })
    }

    fn mark_seen(&mut self, node: NodeId) {
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

    fn close_socket(&mut self, peer: PeerConn) {
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
    }

    pub(super) fn peer_connected(
        &mut self,
        peer: PeerConn,
        dialled: Option<NodeId>,
        credentials: &Credentials,
    ) {
        if self.stopped || (dialled.is_none() && self.sockets.len() >= MAX_STRANGERS + self.peers.len()) {
            return self.out.push_back(Output::ClosePeer { peer });
        }
        self.sockets.insert(peer, Socket { node: dialled });
        let uid = credentials.uid;
        let stranger = uid != 0 && uid != self.config.uid;
        if let Some(node) = dialled {
            self.mark_seen(node);
            self.with_session(node, |session, now, out| session.connected(now, peer, out));
        } else {
            self.timers.set(Timer::PeerHello(peer), self.now + HELLO_LIMIT);
        }
        if !self.sockets.contains_key(&peer) {
            return;
        }
        if stranger {
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

    /// This side does not accept the other.
    fn refuse_peer(&mut self, peer: PeerConn, refusal: Refusal) {
        let why = refusal.to_string();
        let message = PeerMessage::Rejected(refusal);
        self.out.push_back(Output::ToPeer { peer, message, descriptors: Vec::new() });
        self.peer_refused(peer, &format!("refused by this node: {why}"));
    }

    /// The session (if the connection has one) is refused, and the connection ends.
    fn peer_refused(&mut self, peer: PeerConn, why: &str) {
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
        if let Some(Socket { node: Some(node) }) = self.sockets.remove(&peer) {
            self.with_session(node, |session, now, out| session.closed(now, peer, out));
        }
    }

    /// An accepted connection said nothing.
    pub(super) fn peer_silent(&mut self, peer: PeerConn) {
        if self.sockets.get(&peer).is_some_and(|socket| socket.node.is_none()) {
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
            other => self.peer_violation(peer, &format!("its manager sent what cannot be read: {other}")),
        }
    }

    /// The other manager broke a rule: its connection is given up, and made anew.
    fn peer_violation(&mut self, peer: PeerConn, why: &str) {
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

    pub(super) fn peer_message(&mut self, peer: PeerConn, message: PeerMessage, descriptors: &[Descriptor]) {
        self.adopt(descriptors);
        if let Some(socket) = self.sockets.get(&peer) {
            let node = socket.node;
            if descriptors.len() > wanted(&message) {
                self.counters.protocol_errors += 1;
                self.peer_violation(peer, "its manager sent more descriptors than the message needs");
            } else {
                self.peer_speaks(peer, node, message, descriptors);
            }
        }
        // What a message brings is only passed on, unless a resumption waits with it.
        for descriptor in descriptors {
            if !self.kept.contains(&descriptor.token) {
                self.close_token(descriptor.token);
            }
        }
    }

    fn peer_speaks(
        &mut self,
        peer: PeerConn,
        node: Option<NodeId>,
        message: PeerMessage,
        descriptors: &[Descriptor],
    ) {
        let greeted = node
            .and_then(|node| self.peers.get(&node))
            .is_some_and(|entry| entry.session.open_conn() == Some(peer));
        match (message, node) {
            (PeerMessage::Rejected(refusal), _) => {
                self.peer_refused(peer, &format!("refused by the other node: {}", shorten(refusal)));
            }
            (PeerMessage::Bye, None) => self.close_socket(peer),
            (PeerMessage::Bye, Some(node)) => {
                self.with_session(node, |session, now, out| session.bye(now, out));
            }
            (PeerMessage::Hello { node: named, incarnation, cluster, host }, _) if !greeted => {
                match self.check_hello(node, named, &cluster) {
                    Ok(()) => self.greet(peer, named, incarnation, &printable(&host)),
                    Err(refusal) => {
                        self.attribute(peer, named);
                        self.refuse_peer(peer, refusal);
                    }
                }
            }
            (message, Some(node)) if greeted && !matches!(message, PeerMessage::Hello { .. }) => {
                self.with_session(node, |session, now, out| session.heard(now, out));
                self.peer_says(node, peer, message, descriptors);
            }
            _ => {
                self.counters.protocol_errors += 1;
                self.peer_violation(peer, "its manager did not keep to one hello at the start");
            }
        }
    }

    /// A stranger that is refused has said which node it would be: its link shows why, unless that node is connected.
    fn attribute(&mut self, peer: PeerConn, named: NodeId) {
        let free = self.peers.get(&named).is_none_or(|entry| entry.session.conn().is_none());
        if let Some(socket) = self.sockets.get_mut(&peer)
            && socket.node.is_none()
            && named > self.own
            && free
        {
            socket.node = Some(named);
            self.timers.clear(Timer::PeerHello(peer));
            self.mark_seen(named);
        }
    }

    fn check_hello(&self, dialled: Option<NodeId>, named: NodeId, cluster: &str) -> Result<(), Refusal> {
        let own = &self.config.info;
        if cluster != own.cluster {
            return Err(Refusal::Invalid(format!(
                "node {} belongs to cluster `{}` and node {named} to cluster `{}`: give them one name, or each its own runtime directory",
                self.own,
                own.cluster,
                printable(cluster)
            )));
        }
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

    fn greet(&mut self, peer: PeerConn, node: NodeId, incarnation: Incarnation, host: &str) {
        self.timers.clear(Timer::PeerHello(peer));
        self.mark_seen(node);
        if let Some(socket) = self.sockets.get_mut(&peer) {
            socket.node = Some(node);
        }
        self.with_session(node, |session, now, out| session.hello(now, peer, incarnation, host, out));
    }

    fn session_up(&mut self, node: NodeId, back: Return) {
        self.log(LogLevel::Info, format!("session with node {node} is valid"));
        self.set_link(node, true);
        if back == Return::Revived {
            self.expect_rest(node);
        } else {
            let peer = self.peer_entry(node);
            peer.told.clear();
            for (connection, what) in std::mem::take(&mut peer.waiting) {
                self.drop_waiting((what, Asker::Peer(node, connection)));
            }
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
        let (state, why) = (peer.session.state(), peer.session.reason().unwrap_or("unknown").to_owned());
        if state == SessionState::Lost {
            self.counters.sessions_lost += 1;
        }
        let level = if state == SessionState::Stopped { LogLevel::Info } else { LogLevel::Warn };
        self.log(level, format!("session with node {node} is down: {why}"));
        if state == SessionState::Stopped {
            self.set_link(node, false);
        }
        self.fail_pending(node);
    }

    /// Shows programs that the link changed, if it did.
    fn set_link(&mut self, node: NodeId, up: bool) {
        let peer = self.peer_entry(node);
        if peer.link_up != up {
            peer.link_up = up;
            self.out.push_back(Output::SetLink { node, up });
            self.event_to_all(&Event::Link { node, up });
        }
    }

    /// Says what was held back while the session was down; a restarted manager would not know what is meant.
    fn pay_debts(&mut self, node: NodeId, same: bool) {
        let peer = self.peer_entry(node);
        let (lost, released) = (std::mem::take(&mut peer.owed_lost), std::mem::take(&mut peer.owed_released));
        if !same {
            return;
        }
        for (connection, reason) in lost {
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

    /// The importer's side has ended a connection. One that the exporter was never `told` of in this life is unknown there.
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

    fn peer_says(&mut self, node: NodeId, conn: PeerConn, message: PeerMessage, descriptors: &[Descriptor]) {
        match message {
            PeerMessage::Heartbeat { .. } => {
                self.with_session(node, |session, now, _| session.heartbeat(now));
                if self.peers.get(&node).is_some_and(|peer| peer.sweep_at_heartbeat) {
                    self.sweep(node);
                }
            }
            PeerMessage::Request { id, body } => self.peer_request(node, id, body, descriptors),
            PeerMessage::Reply { id, result } => self.peer_reply(node, id, result, descriptors),
            PeerMessage::Lost { connection, reason } => {
                if let Some(slot) = self.imports.find(node, connection) {
                    self.end_import(slot, reason);
                }
            }
            PeerMessage::Released { connection, died } => self.peer_released(node, connection, died),
            PeerMessage::Member { group, joined } => {
                let full = self.peers.get(&node).is_some_and(|peer| peer.groups.len() >= MAX_GROUPS);
                if joined && full {
                    self.peer_violation(conn, "its manager announced too many groups");
                } else {
                    self.peer_member(node, group, joined);
                }
            }
            // Dealt with before.
            PeerMessage::Hello { .. } | PeerMessage::Rejected(_) | PeerMessage::Bye => {}
        }
    }

    fn peer_released(&mut self, node: NodeId, connection: ConnectionId, died: bool) {
        match self.exports.by_id.get(&connection) {
            Some(export) if export.importer == node => self.drop_export(connection, died),
            Some(_) => {}
            None => {
                let waits = self.peers.get(&node).and_then(|peer| peer.waiting.get(&connection));
                if let Some(&what) = waits {
                    self.drop_waiting((what, Asker::Peer(node, connection)));
                }
            }
        }
    }

    fn peer_request(&mut self, node: NodeId, id: RequestId, body: PeerRequest, descriptors: &[Descriptor]) {
        let granted = match body {
            PeerRequest::Resume { connection, incarnation, what, requester } => {
                let shown = Shown { connection, incarnation, what };
                let pidfd = producer_pidfd(descriptors);
                return self.peer_resumes(node, id, shown, bounded(requester), pidfd);
            }
            PeerRequest::ConnectSegment { key, requester } => {
                self.grant(Imported::Segment(key), node, &requester, None)
            }
            PeerRequest::ConnectInterrupt { number, requester } => match producer_pidfd(descriptors) {
                Some(pidfd) => self.grant(Imported::Interrupt(number), node, &requester, Some(pidfd)),
                None => {
                    self.counters.protocol_errors += 1;
                    let what = format!("connecting to interrupt {number} of node {}", self.own);
                    Err(super::descriptors::missing(&what, 1, 0))
                }
            },
        };
        let (result, tokens) = match granted {
            Ok(grant) => (Ok(grant.body), grant.tokens),
            Err(refusal) => (Err(refusal), Vec::new()),
        };
        self.send_peer(node, PeerMessage::Reply { id, result }, tokens);
    }
}

fn producer_pidfd(descriptors: &[Descriptor]) -> Option<FdToken> {
    match descriptors {
        [Descriptor { token, kind: DescriptorKind::Pid(_) }] => Some(*token),
        _ => None,
    }
}

/// Most descriptors that belong to a message.
fn wanted(message: &PeerMessage) -> usize {
    match message {
        PeerMessage::Request {
            body:
                PeerRequest::ConnectInterrupt { .. } | PeerRequest::Resume { what: Imported::Interrupt(_), .. },
            ..
        }
        | PeerMessage::Reply { result: Ok(PeerReply::Segment { .. }), .. } => 1,
        PeerMessage::Reply { result: Ok(PeerReply::Interrupt { pollable, .. }), .. } => {
            2 + usize::from(*pollable)
        }
        _ => 0,
    }
}

/// A requester that may be kept: a peer does not decide how much memory that takes.
fn bounded(mut requester: Requester) -> Requester {
    requester.gids.truncate(super::programs::MAX_REQUESTER_GIDS);
    requester.gids.shrink_to_fit();
    requester.name = printable(&requester.name);
    requester
}

/// A refusal that may be passed on: a peer does not decide how long our messages are, nor what a terminal does.
pub(super) fn shorten(refusal: Refusal) -> Refusal {
    let cut = |text: String| -> String {
        let mut clean: String =
            text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(512).collect();
        clean.shrink_to_fit();
        clean
    };
    match refusal {
        Refusal::InUse { what, owner } => Refusal::InUse { what: cut(what), owner: cut(owner) },
        Refusal::NotFound { what, node } => Refusal::NotFound { what: cut(what), node },
        Refusal::NotAvailable { what, node } => Refusal::NotAvailable { what: cut(what), node },
        Refusal::Denied { what, uid } => Refusal::Denied { what: cut(what), uid },
        Refusal::Unreachable { node, why } => Refusal::Unreachable { node, why: cut(why) },
        Refusal::Busy { what, connections } => Refusal::Busy { what: cut(what), connections },
        Refusal::Limit { what, limit } => Refusal::Limit { what: cut(what), limit },
        Refusal::Invalid(text) => Refusal::Invalid(cut(text)),
        version @ Refusal::Version { .. } => version,
    }
}

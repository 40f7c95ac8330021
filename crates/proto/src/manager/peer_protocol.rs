//! Handles messages of other managers.

use super::imports::Shown;
use super::programs::{MAX_REQUESTER_GIDS, printable};
use super::{Asker, Descriptor, DescriptorKind, FdToken, Manager, PeerConn};
use crate::ids::NodeId;
use crate::wire::is_printable;
use crate::wire::peer::{PeerMessage, PeerReply, PeerRequest, Requester};
use crate::wire::program::{ConnectionId, Imported, Refusal, RequestId};

/// Groups of which one node may hold a copy.
const MAX_GROUPS: usize = 1 << 16;

impl Manager {
    pub(super) fn peer_message(&mut self, peer: PeerConn, message: PeerMessage, descriptors: &[Descriptor]) {
        self.adopt(descriptors);
        if let Some(socket) = self.sockets.get(&peer) {
            let node = socket.node;
            if descriptors.len() > wanted(&message) {
                self.counters.protocol_errors += 1;
                self.peer_violation(peer, "its manager sent more descriptors than the message needs");
            } else {
                self.dispatch_peer_message(peer, node, message, descriptors);
            }
        }
        // What a message brings is only passed on, unless a resumption waits with it.
        for descriptor in descriptors {
            if !self.kept.contains(&descriptor.token) {
                self.close_token(descriptor.token);
            }
        }
    }

    fn dispatch_peer_message(
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
                match self.check_hello(peer, node, named, &cluster) {
                    Ok(()) => self.greet(peer, named, incarnation, &printable(&host)),
                    Err(refusal) => {
                        self.attribute(peer, named);
                        self.refuse_peer(peer, refusal);
                    }
                }
            }
            (message, Some(node)) if greeted && !matches!(message, PeerMessage::Hello { .. }) => {
                self.with_session(node, |session, now, out| session.heard(now, out));
                self.session_message(node, peer, message, descriptors);
            }
            _ => {
                self.counters.protocol_errors += 1;
                self.peer_violation(peer, "its manager did not keep to one hello at the start");
            }
        }
    }

    fn session_message(
        &mut self,
        node: NodeId,
        conn: PeerConn,
        message: PeerMessage,
        descriptors: &[Descriptor],
    ) {
        match message {
            PeerMessage::Heartbeat { sequence, echo } => {
                self.with_session(node, |session, now, _| session.heartbeat(now, sequence, echo));
                self.list_complete(node);
            }
            PeerMessage::Request { id, body } => self.peer_request(node, id, body, descriptors),
            PeerMessage::Reply { id, result } => self.peer_reply(node, id, result, descriptors),
            PeerMessage::Lost { connection, reason } => {
                if let Some(slot) = self.imports.find(node, connection) {
                    self.end_import(slot, reason);
                }
            }
            PeerMessage::Released { connection, died } => self.peer_released(node, connection, died),
            PeerMessage::ToAgent { agent, word } => self.word_to_agent(node, agent, word),
            PeerMessage::FromAgent { agent, word } => self.word_from_agent(node, agent, word),
            PeerMessage::Relays => self.peer_entry(node).relays = true,
            PeerMessage::Via { relay } => self.heard_via(conn, relay),
            PeerMessage::ForwardOver { forward } => self.forward_over(node, forward),
            PeerMessage::ForwardsKept { forwards } => self.keep_forwards(node, &forwards),
            PeerMessage::Carrier { up } => self.heard_carrier(node, up),
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
                let of_it = (connection, 0)..=(connection, u32::MAX);
                let waits = self.peers.get(&node).map(|peer| peer.waiting.range(of_it));
                let waits: Vec<_> = waits.into_iter().flatten().map(|(&key, &what)| (key, what)).collect();
                for ((connection, pid), what) in waits {
                    self.drop_waiting((what, Asker::Peer(node, connection, pid)));
                }
                self.note_gone_before(node, connection);
            }
        }
    }

    fn peer_request(&mut self, node: NodeId, id: RequestId, body: PeerRequest, descriptors: &[Descriptor]) {
        if let Some(refusal) = self.no_descriptor_for(node, &body) {
            return self.send_peer(node, PeerMessage::Reply { id, result: Err(refusal) }, Vec::new());
        }
        let granted = match body {
            PeerRequest::Resume { connection, incarnation, what, requester } => {
                let shown = Shown { connection, incarnation, what };
                let pidfd = producer_pidfd(descriptors);
                return self.peer_resumes(node, id, shown, bounded(requester), pidfd);
            }
            PeerRequest::Status => return self.tell_status(node, id),
            PeerRequest::StartAgent { requester } => {
                return self.agent_wanted(node, id, &bounded(requester));
            }
            PeerRequest::Relay { forward } => return self.forward_wanted(node, id, forward),
            PeerRequest::ConnectByNetwork { what, requester, end } => {
                return self.wanted_by_network(node, id, what, &bounded(requester), end);
            }
            PeerRequest::AskOwner { connection, question } => {
                return self.importer_asks(node, id, connection, question);
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
    requester.gids.truncate(MAX_REQUESTER_GIDS);
    requester.gids.shrink_to_fit();
    requester.name = printable(&requester.name);
    requester
}

/// A refusal that may be passed on: a peer does not decide how long our messages are, nor what a terminal
/// does.
pub(super) fn shorten(refusal: Refusal) -> Refusal {
    let cut = |text: String| -> String {
        let mut clean: String =
            text.chars().map(|c| if is_printable(c) { c } else { ' ' }).take(512).collect();
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
        Refusal::NotShared { what, node } => Refusal::NotShared { what: cut(what), node },
        Refusal::OwnerBusy { what, node } => Refusal::OwnerBusy { what: cut(what), node },
        Refusal::NoDataLink { what, node, host, why } => {
            Refusal::NoDataLink { what: cut(what), node, host: cut(host), why: cut(why) }
        }
        plain @ (Refusal::Version { .. } | Refusal::NoDescriptors { .. } | Refusal::NoAgents { .. }) => plain,
    }
}

//! What other managers do and say.

use proto::ids::NodeId;
use proto::manager::{Credentials, DescriptorKind, Input, PeerConn};
use proto::wire::CodecError;
use proto::wire::peer::{PeerMessage, PeerReply, PeerRequest};
use proto::wire::program::{Imported, Incarnation};

use super::{Act, Beside, Rig};
use crate::actor::{interrupt_parts, memory};

impl Rig {
    pub(super) fn perform_by_peer(&mut self, act: Act) {
        match act {
            Act::PeerSeen(node) => self.input(Input::PeerSeen { node }),
            Act::PeerConnects(friend, node, life) => {
                let peer = self.peer_connects(None, friend, node.filter(|_| life.is_multiple_of(2)));
                if let Some(node) = node.filter(|_| self.peers.contains(&peer)) {
                    self.peer_greets(peer, node, life);
                }
            }
            Act::DialEnds(well, life) => {
                let Some(node) = self.dials.pop() else { return };
                if well {
                    let peer = self.peer_connects(Some(node), true, None);
                    self.peer_greets(peer, node, life);
                } else {
                    self.input(Input::DialFailed { node, why: "connection refused".to_owned() });
                }
            }
            Act::AgentDoes(pick, does) => self.agent_does(pick, does),
            Act::PeerSays(pick, message, beside) => self.peer_says(pick, message, beside),
            Act::PeerGarbage(pick, version) => {
                let Some(peer) = self.peer(pick) else { return };
                let error =
                    if version { CodecError::OtherVersion { theirs: 9 } } else { CodecError::BadMagic };
                self.input(Input::PeerGarbage { peer, error, descriptors: Vec::new() });
            }
            Act::PeerGoes(pick) => {
                let Some(peer) = self.peer(pick) else { return };
                self.peers.remove(&peer);
                self.input(Input::PeerGone { peer });
            }
            _ => {}
        }
    }

    fn peer_connects(&mut self, dialled: Option<NodeId>, friend: bool, host: Option<NodeId>) -> PeerConn {
        let peer = PeerConn(self.number());
        self.peers.insert(peer);
        let credentials = Credentials { uid: if friend { 1000 } else { 3000 }, gids: vec![], pid: 5 };
        self.input(match host {
            Some(node) => Input::HostConnected { peer, dialled, node, address: crate::world::ADDRESS },
            None => Input::PeerConnected { peer, dialled, credentials },
        });
        peer
    }

    fn peer_greets(&mut self, peer: PeerConn, node: NodeId, life: u64) {
        let (cluster, host) = ("default".to_owned(), "there".to_owned());
        let message = PeerMessage::Hello { node, incarnation: Incarnation(life), cluster, host };
        self.input(Input::PeerMessage { peer, message, descriptors: Vec::new() });
    }

    fn peer_says(&mut self, pick: u8, mut message: PeerMessage, beside: Beside) {
        let Some(peer) = self.peer(pick) else { return };
        let mut proper = Vec::new();
        match &mut message {
            PeerMessage::Request { body, .. } => match body {
                PeerRequest::ConnectInterrupt { .. } => proper = vec![DescriptorKind::Pid(5)],
                PeerRequest::Resume { connection, what, .. } => {
                    self.real(connection);
                    if matches!(what, Imported::Interrupt(_)) {
                        proper = vec![DescriptorKind::Pid(5)];
                    }
                }
                _ => {}
            },
            PeerMessage::Reply { result: Ok(PeerReply::Segment { size_bytes, .. }), .. } => {
                proper = vec![memory(*size_bytes)];
            }
            PeerMessage::Reply { result: Ok(PeerReply::Interrupt { pollable, .. }), .. } => {
                proper = interrupt_parts(*pollable);
            }
            // A word about an agent that nobody knows does little: most are about one that is there.
            PeerMessage::Reply { id, result: Ok(PeerReply::Agent { agent }) } => {
                let wanted = self.agents_wanted.iter().rposition(|(of, _)| *of == peer);
                if let Some(wanted) = wanted {
                    *id = self.agents_wanted.remove(wanted).1;
                    self.agents_given.push((peer, *agent));
                }
            }
            PeerMessage::FromAgent { agent, .. } if agent.0.is_multiple_of(2) => {
                let given = self.agents_given.iter().rev().find(|(of, _)| *of == peer);
                *agent = given.map_or(*agent, |(_, given)| *given);
            }
            PeerMessage::Lost { connection, .. } | PeerMessage::Released { connection, .. } => {
                self.real(connection);
            }
            _ => {}
        }
        let kinds = if let Beside::Anything(kinds) = beside { kinds } else { proper };
        let descriptors = self.receive(&kinds);
        self.input(Input::PeerMessage { peer, message, descriptors });
    }
}

//! Forwards of end points that programs of this node need: their relay is told when the last of these
//! programs has ended.
//!
//! A relay keeps what nobody has used for a while, because a program may use a segment long after it has
//! connected. Of a program that has ended it would keep it as long, and there are few.

use std::collections::{BTreeMap, BTreeSet};

use super::objects::limit;
use super::{Manager, ProgramConn};
use crate::ids::NodeId;
use crate::session::Return;
use crate::wire::peer::PeerMessage;
use crate::wire::program::Refusal;
use crate::wire::relay::Forward;

/// At a time; a relay has fewer for one node.
const MOST: usize = 1024;

/// A forward, and the relay that was asked for it.
pub(super) type Need = (NodeId, Forward);

/// All of them, and the programs whose end points they lead to. A program that a relay has refused is among
/// them until it ends.
#[derive(Debug, Default)]
pub(super) struct RelayNeeds(BTreeMap<Need, BTreeSet<ProgramConn>>);

impl RelayNeeds {
    pub(super) fn by_program(&self) -> impl Iterator<Item = (ProgramConn, Need)> {
        self.0.iter().flat_map(|(need, programs)| programs.iter().map(|program| (*program, *need)))
    }

    fn of(&self, relay: NodeId) -> Vec<Need> {
        self.0.keys().filter(|(other, _)| *other == relay).copied().collect()
    }
}

impl Manager {
    /// To be called before the relay is asked: what it is told later comes behind the request.
    pub(super) fn need_forward(&mut self, program: ProgramConn, need: Need) -> Result<(), Refusal> {
        if self.relay_needs.0.len() >= MOST && !self.relay_needs.0.contains_key(&need) {
            let what = format!("forwards by relays for the programs of node {}", self.own);
            return Err(limit(&what, MOST as u64));
        }
        let Some(entry) = self.programs.get_mut(&program) else { return Ok(()) };
        entry.relayed.insert(need);
        self.relay_needs.0.entry(need).or_default().insert(program);
        Ok(())
    }

    /// A program has ended, and its end points with it.
    pub(super) fn release_forwards_of(&mut self, program: ProgramConn) {
        let Some(entry) = self.programs.get_mut(&program) else { return };
        for need in std::mem::take(&mut entry.relayed) {
            let Some(programs) = self.relay_needs.0.get_mut(&need) else { continue };
            programs.remove(&program);
            if !programs.is_empty() {
                continue;
            }
            self.relay_needs.0.remove(&need);
            let (relay, forward) = need;
            // Else it is told what is left when the session returns.
            if self.peers.get(&relay).is_some_and(|peer| peer.session.is_valid()) {
                self.send_peer(relay, PeerMessage::ForwardOver { forward }, Vec::new());
            }
        }
    }

    /// The session with a node has returned. What it was told may have been lost with the connection.
    pub(super) fn tell_needs(&mut self, relay: NodeId, back: Return) {
        match back {
            // What it still has was asked for in an earlier life of this manager, whose programs may need it.
            Return::First => {}
            // Its forwards have ended with it.
            Return::Restarted => self.forget_needs(relay),
            Return::Revived | Return::Reconnected => {
                if self.peers.get(&relay).is_some_and(|peer| peer.relays) {
                    let forwards = self.relay_needs.of(relay).into_iter().map(|(_, forward)| forward);
                    let message = PeerMessage::ForwardsKept { forwards: forwards.collect() };
                    self.send_peer(relay, message, Vec::new());
                }
            }
        }
    }

    /// A relay has gone, and its forwards with it.
    pub(super) fn forget_needs(&mut self, relay: NodeId) {
        for need in self.relay_needs.of(relay) {
            for program in self.relay_needs.0.remove(&need).unwrap_or_default() {
                if let Some(entry) = self.programs.get_mut(&program) {
                    entry.relayed.remove(&need);
                }
            }
        }
    }
}

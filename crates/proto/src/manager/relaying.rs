//! What this node forwards as a relay: for which nodes, and how much.
//!
//! It is asked over sessions, so by nodes that have proved who they are. A node can ask for ways to itself,
//! and for one from itself to the manager of another node. Both have to be connected with this one directly.
//! The driver checks addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use super::{LogLevel, Manager, Output, PeerConn};
use crate::ids::NodeId;
use crate::time::Instant;
use crate::wire::peer::{PeerMessage, PeerReply};
use crate::wire::program::{Incarnation, Refusal, RequestId};
use crate::wire::relay::{FIRST_PORT, Forward, ForwardNo};
use crate::wire::status::RelayedPair;

/// Forwards at a time: each is a process.
const MOST: usize = 256;
/// Of these, for one node.
const MOST_FOR_NODE: usize = 64;

/// A node, and the connection of its session.
type End = (NodeId, PeerConn);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The driver has yet to open it; then this request is answered.
    Opening(RequestId),
    Open(SocketAddr),
    /// It takes no more connections, and ends with those that it has.
    Draining,
    /// The driver has yet to end it.
    Ending,
}

#[derive(Debug)]
struct Entry {
    /// Who has asked for it.
    asker: NodeId,
    /// In which life: what one asks for, the next one knows nothing of.
    life: Option<Incarnation>,
    forward: Forward,
    state: State,
    since: Instant,
}

impl Entry {
    fn is_of(&self, asker: NodeId, forward: Forward) -> bool {
        self.asker == asker && self.forward == forward
    }

    /// Who connects, and where that leads.
    fn ends(&self) -> (NodeId, NodeId) {
        ends(self.asker, self.forward)
    }
}

fn ends(asker: NodeId, forward: Forward) -> (NodeId, NodeId) {
    match forward {
        Forward::Manager { to } => (asker, to),
        Forward::EndPoint { from, .. } => (from, asker),
    }
}

fn too_many(place: &str, most: usize) -> Refusal {
    Refusal::Invalid(format!(
        "the limit of {most} forwards {place} is reached: wait until programs that connect by way of it have ended"
    ))
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Forwards {
    last: u64,
    by_no: BTreeMap<ForwardNo, Entry>,
}

impl Manager {
    /// A node wants something forwarded.
    pub(super) fn forward_wanted(&mut self, asker: NodeId, id: RequestId, forward: Forward) {
        let result = match self.check_forward(asker, forward) {
            Ok((from, to)) => {
                let life = self.life_of(asker);
                let open = self.forwards.by_no.iter_mut().find_map(|(no, entry)| match entry.state {
                    State::Open(at) if entry.is_of(asker, forward) => Some((*no, entry, at)),
                    _ => None,
                });
                match open {
                    Some((no, entry, at)) => {
                        entry.life = life;
                        self.out.push_back(Output::RenewForward { forward: no });
                        Ok(PeerReply::Relay { at })
                    }
                    None => match self.check_room(asker) {
                        Ok(()) => return self.open_forward((asker, id), forward, from, to),
                        Err(refusal) => Err(refusal),
                    },
                }
            }
            Err(refusal) => Err(refusal),
        };
        self.send_peer(asker, PeerMessage::Reply { id, result }, Vec::new());
    }

    fn open_forward(&mut self, (asker, id): (NodeId, RequestId), forward: Forward, from: End, to: End) {
        self.forwards.last += 1;
        let no = ForwardNo(self.forwards.last);
        let state = State::Opening(id);
        let life = self.life_of(asker);
        self.forwards.by_no.insert(no, Entry { asker, life, forward, state, since: self.now });
        let at = match forward {
            Forward::Manager { .. } => None,
            Forward::EndPoint { at, .. } => Some(at),
        };
        self.out.push_back(Output::OpenForward { forward: no, from, to, at });
    }

    /// Whether this may be forwarded: both ends, with the connections of their sessions.
    fn check_forward(&self, asker: NodeId, forward: Forward) -> Result<(End, End), Refusal> {
        let own = self.own;
        if !self.config.relay {
            let text = format!(
                "node {own} is no relay: set `relay = true` under `[manager]` in its configuration, and restart it"
            );
            return Err(Refusal::Invalid(text));
        }
        if let Forward::EndPoint { at, .. } = forward
            && at.port() < FIRST_PORT
        {
            let text = format!("node {own} forwards to no port below {FIRST_PORT}, such as that of {at}");
            return Err(Refusal::Invalid(text));
        }
        let (from, to) = ends(asker, forward);
        if from == to || from == own || to == own {
            let text = format!("node {own} forwards between two other nodes only");
            return Err(Refusal::Invalid(text));
        }
        Ok(((from, self.end_of_relay(from)?), (to, self.end_of_relay(to)?)))
    }

    /// The connection of the session with a node of another host that is connected directly.
    fn end_of_relay(&self, node: NodeId) -> Result<PeerConn, Refusal> {
        self.check_reachable(node)?;
        let why = if !self.is_elsewhere(node) {
            format!("it is on the host of node {}, which forwards between other hosts only", self.own)
        } else if let Some(relay) = self.via(node) {
            format!("node {} itself reaches it via node {relay}", self.own)
        } else {
            let conn = self.peers.get(&node).and_then(|peer| peer.session.open_conn());
            let why = "its session is just being made".to_owned();
            return conn.ok_or(Refusal::Unreachable { node, why });
        };
        Err(Refusal::Unreachable { node, why })
    }

    fn check_room(&self, asker: NodeId) -> Result<(), Refusal> {
        let all = &self.forwards.by_no;
        let own = self.own;
        if all.values().filter(|entry| entry.asker == asker).count() >= MOST_FOR_NODE {
            return Err(too_many(&format!("for node {asker} at relay {own}"), MOST_FOR_NODE));
        }
        if all.len() >= MOST {
            return Err(too_many(&format!("at relay {own}"), MOST));
        }
        Ok(())
    }

    /// The driver has opened it, or could not.
    pub(super) fn forward_ready(&mut self, no: ForwardNo, result: Result<SocketAddr, String>) {
        let Some(entry) = self.forwards.by_no.get_mut(&no) else {
            // The manager is stopping.
            return;
        };
        let (asker, state, (from, to)) = (entry.asker, entry.state, entry.ends());
        match (&result, state) {
            (Ok(at), State::Opening(_)) => entry.state = State::Open(*at),
            (Ok(_), _) => self.out.push_back(Output::CloseForward { forward: no }),
            (Err(_), _) => drop(self.forwards.by_no.remove(&no)),
        }
        let State::Opening(id) = state else { return };
        if let Ok(at) = &result {
            self.log(LogLevel::Info, format!("forwards from node {from} to node {to}, at {at}"));
        }
        let refused = |why| Refusal::Invalid(format!("node {} cannot forward: {why}", self.own));
        let result = result.map(|at| PeerReply::Relay { at }).map_err(refused);
        self.send_peer(asker, PeerMessage::Reply { id, result }, Vec::new());
    }

    /// Its process has ended: nobody has used it for a while, or it was closed.
    pub(super) fn forward_gone(&mut self, no: ForwardNo) {
        self.forwards.by_no.remove(&no);
    }

    /// The program whose end point one leads to has ended: what is under way arrives, and nothing else comes.
    pub(super) fn forward_over(&mut self, asker: NodeId, forward: Forward) {
        self.drain_forwards(|entry| entry.is_of(asker, forward));
    }

    /// Of all end points whose forwards a manager has asked for, some are left.
    pub(super) fn keep_forwards(&mut self, asker: NodeId, kept: &[Forward]) {
        let (life, kept) = (self.life_of(asker), kept.iter().collect::<BTreeSet<_>>());
        self.drain_forwards(|entry| {
            let is_its_own = entry.asker == asker && entry.life == life;
            let is_end_point = matches!(entry.forward, Forward::EndPoint { .. });
            is_its_own && is_end_point && !kept.contains(&entry.forward)
        });
    }

    fn drain_forwards(&mut self, is_over: impl Fn(&Entry) -> bool) {
        for (no, entry) in &mut self.forwards.by_no {
            if matches!(entry.state, State::Open(_)) && is_over(entry) {
                entry.state = State::Draining;
                self.out.push_back(Output::DrainForward { forward: *no });
            }
        }
    }

    fn life_of(&self, node: NodeId) -> Option<Incarnation> {
        self.peers.get(&node)?.session.incarnation()
    }

    /// A node has gone for good.
    pub(super) fn close_forwards_of(&mut self, node: NodeId) {
        for (no, entry) in &mut self.forwards.by_no {
            let (from, to) = entry.ends();
            if from != node && to != node {
                continue;
            }
            let before = std::mem::replace(&mut entry.state, State::Ending);
            if matches!(before, State::Open(_) | State::Draining) {
                self.out.push_back(Output::CloseForward { forward: *no });
            }
        }
    }

    /// For the status.
    pub(super) fn relayed_pairs(&self, now: Instant) -> Vec<RelayedPair> {
        let mut pairs: BTreeMap<(NodeId, NodeId), (u32, Instant)> = BTreeMap::new();
        for entry in self.forwards.by_no.values().filter(|entry| matches!(entry.state, State::Open(_))) {
            let (from, to) = entry.ends();
            let pair = pairs.entry((from.min(to), from.max(to))).or_insert((0, entry.since));
            *pair = (pair.0 + 1, pair.1.min(entry.since));
        }
        let shown = |((first, second), (forwards, since))| {
            let since_ns = u64::try_from(now.since(since).as_nanos()).unwrap_or(u64::MAX);
            RelayedPair { first, second, forwards, since_ns }
        };
        pairs.into_iter().map(shown).collect()
    }
}

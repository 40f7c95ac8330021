//! Which queues of other hosts are known, and how far this one is with each.

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use message_queue::Name;
use message_queue::meet::NotAsked;
use proto::ids::NodeId;

use super::forms::{Hello, Welcome, read_welcome};
use super::job::Job;
use super::pair::{Own, Pair, is_usable};
use super::workers::{Worker, Workers};
use crate::remote::RemoteSegment;

/// Strangers that are answered at a time. Requests of others stay in the port until then: each look at the
/// table goes through those that wait.
const STRANGERS_MAX: usize = 128;
/// Queues of one node that make themselves known, and are there: each takes a segment, of which a program has
/// so many and no more.
const OF_NODE_MAX: usize = 1024;

/// What the table knows queues, their memory and their ports by: the search of meeting has others.
pub(super) trait World: Debug {
    /// The port of a peer.
    type Contact: Debug;
    /// Memory of this queue for a peer.
    type Own: Debug;
    /// Two that have met.
    type Pair: Debug;

    /// Whether a port is still there, as far as is known.
    fn is_usable(contact: &Self::Contact) -> bool;
    /// What the peer has put into the memory for it.
    fn answer(own: &Self::Own) -> Option<Welcome>;
    /// Whether a peer that was met is still there, as far as is known.
    fn is_there(pair: &Self::Pair) -> bool;
    /// Whether it is connected to the memory for it.
    fn is_met(pair: &Self::Pair) -> bool;
}

/// Other hosts.
#[derive(Debug)]
pub(super) struct Hosts;

impl World for Hosts {
    type Contact = RemoteSegment;
    type Own = Own;
    type Pair = Pair;

    fn is_usable(contact: &RemoteSegment) -> bool {
        is_usable(contact)
    }

    fn answer(own: &Own) -> Option<Welcome> {
        read_welcome(&own.segment.window(), own.key)
    }

    fn is_there(pair: &Pair) -> bool {
        pair.is_there()
    }

    fn is_met(pair: &Pair) -> bool {
        pair.is_met()
    }
}

/// A queue of another host.
#[derive(Debug)]
pub(super) struct Peer<W: World = Hosts> {
    /// Where it is: as the managers say if it was found by its port, else as it says itself.
    pub(super) node: NodeId,
    /// Its port, until both have met.
    pub(super) contact: Option<Arc<W::Contact>>,
    step: Step<W>,
    /// Its own request, which came while a thread was at work.
    came: Option<Hello>,
    /// Whether this queue wants to exchange messages with it.
    pub(super) is_asked: bool,
    /// It made itself known, and was not looked for.
    is_stranger: bool,
    /// It is not asked again before.
    not_before: Option<Instant>,
}

/// How far this queue is with a peer.
#[derive(Debug)]
pub(super) enum Step<W: World = Hosts> {
    /// It was found, and nobody wanted to send yet.
    Found,
    /// A thread does what comes next.
    AtWork,
    /// It has a request of this queue.
    Asked(Asked<W>),
    /// A request of it is to be answered.
    Owing(Owing<W>),
    Met(Weak<W::Pair>),
    Gone,
    /// The same, and a request of it is to be answered with that.
    TurningAway(Hello),
}

/// A request that was left at a peer.
#[derive(Debug)]
pub(super) struct Asked<W: World = Hosts> {
    /// Where its answer comes.
    pub(super) own: W::Own,
    /// When the request is repeated.
    pub(super) again_at: Instant,
    /// Until the ones after that.
    pub(super) pauses: Pauses,
    /// An answer is not used before: an attempt has failed.
    pub(super) not_before: Instant,
}

/// How long is waited until a request is left once more.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pauses {
    /// After one that was left.
    pub(super) left: Duration,
    /// After one for which there was no room.
    pub(super) no_room: Duration,
}

/// A request that is to be answered.
#[derive(Debug)]
pub(super) struct Owing<W: World = Hosts> {
    pub(super) hello: Hello,
    /// What was made for the peer before.
    pub(super) own: Option<W::Own>,
    pub(super) at: Instant,
    /// Attempts that have failed.
    pub(super) failures: u32,
}

impl<W: World> Peer<W> {
    fn new(node: NodeId, contact: Option<Arc<W::Contact>>, step: Step<W>) -> Self {
        let is_stranger = contact.is_none();
        Self { node, contact, step, came: None, is_asked: false, is_stranger, not_before: None }
    }

    /// Whether it takes memory of this program without having been looked for.
    fn is_live_stranger(&self) -> bool {
        self.is_stranger
            && match &self.step {
                Step::Met(pair) => pair.strong_count() > 0,
                Step::Gone | Step::TurningAway(_) => false,
                _ => true,
            }
    }

    /// Whether it is still there, as far as is known.
    pub(super) fn is_there(&self) -> bool {
        let is_contact_usable = || self.contact.as_ref().is_none_or(|contact| W::is_usable(contact));
        match &self.step {
            Step::Found => is_contact_usable(),
            // A queue that is being closed can be met as long as its memory is there.
            Step::Asked(asked) => asked.answer().is_some() || is_contact_usable(),
            Step::AtWork | Step::Owing(_) => true,
            Step::Met(pair) => pair.upgrade().is_some_and(|pair| W::is_there(&pair)),
            Step::Gone | Step::TurningAway(_) => false,
        }
    }
}

impl<W: World> Asked<W> {
    fn answer(&self) -> Option<Welcome> {
        W::answer(&self.own)
    }

    fn is_due(&self, now: Instant) -> bool {
        now >= self.again_at || now >= self.not_before && self.answer().is_some()
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Table<W: World = Hosts> {
    peers: HashMap<Name, Peer<W>>,
    /// Those for whom something may become due.
    waiting: Vec<Name>,
    /// Strangers that are being answered.
    strangers: HashSet<Name>,
    /// How many strangers of each node are there; some of them may be gone.
    of_node: HashMap<NodeId, usize>,
    /// Queues of this host: no queue of another one has their names.
    near: HashSet<Name>,
}

/// A name that is known already, as that of another queue: whoever says that it is its own may want the
/// messages that are meant for that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OtherOwner {
    /// A queue of this host.
    Here,
    /// One of that node.
    Node(NodeId),
}

impl<W: World> Default for Table<W> {
    fn default() -> Self {
        let (peers, of_node) = (HashMap::new(), HashMap::new());
        let (waiting, strangers, near) = (Vec::new(), HashSet::new(), HashSet::new());
        Self { peers, waiting, strangers, of_node, near }
    }
}

impl<W: World> Table<W> {
    /// Whether a queue of another host is known.
    pub(super) fn has_any(&self) -> bool {
        !self.peers.is_empty()
    }

    pub(super) fn get(&self, name: &Name) -> Option<&Peer<W>> {
        self.peers.get(name)
    }

    /// Who has a name that a port of a node has told: nobody yet, or the queue of that node.
    pub(super) fn check_owner(&self, name: &Name, node: NodeId) -> Result<(), OtherOwner> {
        if self.near.contains(name) {
            return Err(OtherOwner::Here);
        }
        match self.peers.get(name) {
            Some(peer) if peer.node != node => Err(OtherOwner::Node(peer.node)),
            _ => Ok(()),
        }
    }

    /// Whether a name is known as that of a queue of this host.
    pub(super) fn is_here(&self, name: &Name) -> bool {
        self.near.contains(name)
    }

    /// A name is that of a queue of this host.
    pub(super) fn found_here(&mut self, name: Name) -> Result<(), OtherOwner> {
        if let Some(peer) = self.peers.get(&name) {
            return Err(OtherOwner::Node(peer.node));
        }
        self.near.insert(name);
        Ok(())
    }

    /// A port was connected. Returns a connection that is not needed.
    pub(super) fn found(
        &mut self,
        name: Name,
        node: NodeId,
        contact: Arc<W::Contact>,
    ) -> Result<Option<Arc<W::Contact>>, OtherOwner> {
        self.check_owner(&name, node)?;
        let Some(peer) = self.peers.get_mut(&name) else {
            self.peers.insert(name, Peer::new(node, Some(contact), Step::Found));
            return Ok(None);
        };
        let is_wanted = !matches!(peer.step, Step::Met(_) | Step::Gone);
        let is_better = peer.contact.as_ref().is_none_or(|contact| !W::is_usable(contact));
        if !is_wanted || !is_better {
            return Ok(Some(contact));
        }
        Ok(peer.contact.replace(contact))
    }

    /// Whether a request is to be left at a peer; not if both have met, or are about to.
    pub(super) fn may_ask(&mut self, name: &Name, now: Instant) -> Result<bool, NotAsked> {
        let peer = self.peers.get_mut(name).ok_or(NotAsked::Nobody)?;
        peer.is_asked = true;
        match peer.step {
            Step::Gone | Step::TurningAway(_) => Err(NotAsked::Nobody),
            Step::Found if peer.not_before.is_some_and(|at| now < at) => Err(NotAsked::NotNow),
            // It made itself known, and could not be met.
            Step::Found if peer.contact.is_none() => Err(NotAsked::Nobody),
            Step::Found => Ok(true),
            _ => Ok(false),
        }
    }

    /// Sets how far this queue is with a peer. If the peer is known no more, nothing happens.
    pub(super) fn set(&mut self, name: &Name, step: Step<W>) {
        let Some(peer) = self.peers.get_mut(name) else { return };
        let is_waiting =
            matches!(step, Step::Asked(_) | Step::Owing(_) | Step::Met(_) | Step::TurningAway(_));
        if matches!(step, Step::Found | Step::Met(_) | Step::Gone) {
            self.strangers.remove(name);
        }
        peer.step = step;
        self.waiting.retain(|other| other != name);
        if is_waiting {
            self.waiting.push(*name);
        }
    }

    /// The same when a thread is done, with what has come meanwhile.
    pub(super) fn set_after_work(&mut self, name: &Name, step: Step<W>, own_name: &Name, now: Instant) {
        self.set(name, step);
        let came = self.peers.get_mut(name).and_then(|peer| peer.came.take());
        if let Some(hello) = came {
            self.hello(&hello, own_name, usize::MAX, now);
        }
    }

    /// Both have met: the connection to the port is returned, and not needed any more.
    pub(super) fn met(&mut self, name: &Name, pair: Weak<W::Pair>) -> Option<Arc<W::Contact>> {
        self.set(name, Step::Met(pair));
        let peer = self.peers.get_mut(name)?;
        peer.came = None;
        peer.contact.take()
    }

    /// A peer is not asked again for that time.
    pub(super) fn put_off(&mut self, name: &Name, own_name: &Name, now: Instant, time: Duration) {
        if let Some(peer) = self.peers.get_mut(name) {
            peer.not_before = Some(now + time);
        }
        self.set_after_work(name, Step::Found, own_name, now);
    }

    /// A peer that only made itself known is forgotten; one that was found by its port can be asked again.
    pub(super) fn give_up(&mut self, name: &Name) {
        self.set(name, Step::Found);
        if self.peers.get(name).is_some_and(|peer| peer.contact.is_none() && !peer.is_asked) {
            let node = self.peers.remove(name).map(|peer| peer.node);
            if let Some(count) = node.and_then(|node| self.of_node.get_mut(&node)) {
                *count = count.saturating_sub(1);
            }
        }
    }

    /// Strangers that are being answered.
    #[cfg(test)]
    pub(super) fn answered(&self) -> usize {
        self.strangers.len()
    }

    /// Whether a request can be taken now: one of a stranger, if few others are answered.
    pub(super) fn has_room_for(&self, name: &Name) -> bool {
        self.strangers.len() < STRANGERS_MAX || self.peers.contains_key(name)
    }

    /// Whether one more queue of a node may make itself known.
    fn may_come_from(&mut self, node: NodeId) -> bool {
        let count = self.of_node.entry(node).or_default();
        if *count >= OF_NODE_MAX {
            // Those that are gone are not counted any more.
            let of_it = |peer: &&Peer<W>| peer.node == node && peer.is_live_stranger();
            *count = self.peers.values().filter(of_it).count();
        }
        *count < OF_NODE_MAX
    }

    /// A peer has left a request here. No more than `peers_max` make themselves known, and none with the name
    /// of a queue that is elsewhere.
    pub(super) fn hello(&mut self, hello: &Hello, own_name: &Name, peers_max: usize, now: Instant) {
        let name = hello.from;
        if self.check_owner(&name, hello.node).is_err() {
            return;
        }
        let owing = |own, at, failures| Step::Owing(Owing { hello: *hello, own, at, failures });
        let count = self.peers.len();
        let Some(peer) = self.peers.get_mut(&name) else {
            if count < peers_max && self.may_come_from(hello.node) {
                self.peers.insert(name, Peer::new(hello.node, None, Step::Found));
                *self.of_node.entry(hello.node).or_default() += 1;
                self.strangers.insert(name);
                self.set(&name, owing(None, now, 0));
            }
            return;
        };
        let step = match std::mem::replace(&mut peer.step, Step::AtWork) {
            Step::Found => owing(None, now, 0),
            Step::AtWork => {
                peer.came = Some(*hello);
                return;
            }
            // Both have asked: the lesser name's request counts, and both know which that is.
            Step::Asked(asked) if own_name.bytes() < name.bytes() => Step::Asked(asked),
            Step::Asked(asked) => owing(Some(asked.own), now, 0),
            Step::Owing(Owing { own, at, failures, .. }) => owing(own, at, failures),
            // This queue has lost the peer, which does not know that, or came too late: it would ask forever.
            Step::Gone | Step::TurningAway(_) => Step::TurningAway(*hello),
            Step::Met(pair) if pair.strong_count() == 0 => Step::TurningAway(*hello),
            known @ Step::Met(_) => {
                peer.step = known;
                return;
            }
        };
        self.set(&name, step);
    }

    /// What was to be done for a peer that was met could not be begun.
    pub(super) fn seal_later(&mut self, name: Name) {
        self.waiting.push(name);
    }

    /// Whether something may become due.
    pub(super) fn is_any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn is_due(&self, name: &Name, now: Instant) -> bool {
        match self.peers.get(name).map(|peer| &peer.step) {
            Some(Step::Asked(asked)) => asked.is_due(now),
            Some(Step::Owing(owing)) => now >= owing.at,
            Some(Step::TurningAway(_)) => true,
            // Once the peer is connected, nobody else is to be.
            Some(Step::Met(pair)) => pair.upgrade().is_none_or(|pair| W::is_met(&pair)),
            _ => false,
        }
    }

    /// Of a peer for whom something is due: which node its thread may wait for, and whether it only answers.
    fn worker(&self, name: &Name) -> Option<Worker> {
        let peer = self.peers.get(name)?;
        Some(Worker { node: peer.node, answers: matches!(peer.step, Step::Owing(_) | Step::TurningAway(_)) })
    }

    fn find_due(&self, now: Instant, workers: &Workers) -> Option<Name> {
        let may_begin = |name: &Name| self.worker(name).is_some_and(|worker| workers.may_begin(worker));
        self.waiting.iter().find(|name| self.is_due(name, now) && may_begin(name)).copied()
    }

    /// Whether something is due that a thread may begin with.
    pub(super) fn is_any_due(&self, now: Instant, workers: &Workers) -> bool {
        self.find_due(now, workers).is_some()
    }

    /// The next that is due, which a thread is to do: the peer is at work from then on, unless both have met.
    pub(super) fn next_due(&mut self, now: Instant, workers: &Workers) -> Option<(Job<W>, Worker)> {
        let name = self.find_due(now, workers)?;
        let worker = self.worker(&name)?;
        let peer = self.peers.get_mut(&name)?;
        let job = match std::mem::replace(&mut peer.step, Step::AtWork) {
            Step::Asked(asked) => match asked.answer() {
                Some(answer) if now >= asked.not_before => Job::Complete { name, answer, own: asked.own },
                _ => Job::Repeat { name, own: asked.own, pauses: asked.pauses },
            },
            Step::Owing(owing) => Job::Answer(owing),
            Step::TurningAway(hello) => Job::TurnAway(hello),
            Step::Met(pair) => {
                peer.step = Step::Met(Weak::clone(&pair));
                Job::Seal { name, pair, node: worker.node }
            }
            _ => return None,
        };
        self.waiting.retain(|other| *other != name);
        Some((job, worker))
    }
}

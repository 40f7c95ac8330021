//! Which queues of other hosts are known, and how far this one is with each.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use message_queue::Name;
use message_queue::meet::NotAsked;
use proto::ids::{NodeId, SegmentId};

use super::forms::{Hello, read_welcome};
use super::job::Job;
use super::pair::{Own, Pair, is_usable};
use crate::remote::RemoteSegment;

/// A queue of another host.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) node: NodeId,
    /// Its port, until both have met.
    pub(super) contact: Option<Arc<RemoteSegment>>,
    step: Step,
    /// Its own request, which came while a thread was at work.
    came: Option<Hello>,
    /// Whether this queue wants to exchange messages with it.
    pub(super) is_asked: bool,
    /// It is not asked again before.
    not_before: Option<Instant>,
}

/// How far this queue is with a peer.
#[derive(Debug)]
pub(super) enum Step {
    /// It was found, and nobody wanted to send yet.
    Found,
    /// A thread does what comes next.
    AtWork,
    /// It has a request of this queue.
    Asked(Asked),
    /// A request of it is to be answered.
    Owing(Owing),
    Met(Weak<Pair>),
    Gone,
}

/// A request that was left at a peer.
#[derive(Debug)]
pub(super) struct Asked {
    /// Where its answer comes.
    pub(super) own: Own,
    /// When the request is repeated.
    pub(super) again_at: Instant,
    /// Until the one after that.
    pub(super) pause: Duration,
    /// An answer is not used before: an attempt has failed.
    pub(super) not_before: Instant,
}

/// A request that is to be answered.
#[derive(Debug)]
pub(super) struct Owing {
    pub(super) hello: Hello,
    /// What was made for the peer before.
    pub(super) own: Option<Own>,
    pub(super) at: Instant,
    /// Attempts that have failed.
    pub(super) failures: u32,
}

impl Peer {
    fn new(node: NodeId, contact: Option<Arc<RemoteSegment>>, step: Step) -> Self {
        Self { node, contact, step, came: None, is_asked: false, not_before: None }
    }

    /// Whether it is still there, as far as is known.
    pub(super) fn is_there(&self) -> bool {
        let is_contact_usable = || self.contact.as_ref().is_none_or(|contact| is_usable(contact));
        match &self.step {
            Step::Found => is_contact_usable(),
            // A queue that is being closed can be met as long as its memory is there.
            Step::Asked(asked) => asked.answer().is_some() || is_contact_usable(),
            Step::AtWork | Step::Owing(_) => true,
            Step::Met(pair) => pair.upgrade().is_some_and(|pair| pair.is_there()),
            Step::Gone => false,
        }
    }
}

impl Asked {
    fn answer(&self) -> Option<SegmentId> {
        read_welcome(&self.own.segment.window(), self.own.key)
    }

    fn is_due(&self, now: Instant) -> bool {
        now >= self.again_at || now >= self.not_before && self.answer().is_some()
    }
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Table {
    peers: HashMap<Name, Peer>,
    /// Those for whom something may become due.
    waiting: Vec<Name>,
}

impl Table {
    pub(super) fn get(&self, name: &Name) -> Option<&Peer> {
        self.peers.get(name)
    }

    /// A port was connected. Returns a connection that is not needed.
    pub(super) fn found(
        &mut self,
        name: Name,
        node: NodeId,
        contact: Arc<RemoteSegment>,
    ) -> Option<Arc<RemoteSegment>> {
        let Some(peer) = self.peers.get_mut(&name) else {
            self.peers.insert(name, Peer::new(node, Some(contact), Step::Found));
            return None;
        };
        let is_wanted = !matches!(peer.step, Step::Met(_) | Step::Gone);
        let is_better = peer.contact.as_ref().is_none_or(|contact| !is_usable(contact));
        if !is_wanted || !is_better {
            return Some(contact);
        }
        peer.node = node;
        peer.contact.replace(contact)
    }

    /// Whether a request is to be left at a peer; not if both have met, or are about to.
    pub(super) fn may_ask(&mut self, name: &Name, now: Instant) -> Result<bool, NotAsked> {
        let peer = self.peers.get_mut(name).ok_or(NotAsked::Nobody)?;
        peer.is_asked = true;
        match peer.step {
            Step::Gone => Err(NotAsked::Nobody),
            Step::Found if peer.not_before.is_some_and(|at| now < at) => Err(NotAsked::NotNow),
            // It made itself known, and could not be met.
            Step::Found if peer.contact.is_none() => Err(NotAsked::Nobody),
            Step::Found => Ok(true),
            _ => Ok(false),
        }
    }

    /// Sets how far this queue is with a peer. If the peer is known no more, nothing happens.
    pub(super) fn set(&mut self, name: &Name, step: Step) {
        let Some(peer) = self.peers.get_mut(name) else { return };
        let is_waiting = matches!(step, Step::Asked(_) | Step::Owing(_));
        peer.step = step;
        self.waiting.retain(|other| other != name);
        if is_waiting {
            self.waiting.push(*name);
        }
    }

    /// The same when a thread is done, with what has come meanwhile.
    pub(super) fn set_after_work(&mut self, name: &Name, step: Step, own_name: &Name, now: Instant) {
        self.set(name, step);
        let came = self.peers.get_mut(name).and_then(|peer| peer.came.take());
        if let Some(hello) = came {
            self.hello(&hello, own_name, usize::MAX, now);
        }
    }

    /// Both have met: the connection to the port is returned, and not needed any more.
    pub(super) fn met(&mut self, name: &Name, pair: Weak<Pair>) -> Option<Arc<RemoteSegment>> {
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
            self.peers.remove(name);
        }
    }

    /// A peer has left a request here. No more than `peers_max` make themselves known.
    pub(super) fn hello(&mut self, hello: &Hello, own_name: &Name, peers_max: usize, now: Instant) {
        let name = hello.from;
        let owing = |own, at, failures| Step::Owing(Owing { hello: *hello, own, at, failures });
        let count = self.peers.len();
        let Some(peer) = self.peers.get_mut(&name) else {
            if count < peers_max {
                self.peers.insert(name, Peer::new(hello.node, None, Step::Found));
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
            known @ (Step::Met(_) | Step::Gone) => known,
        };
        self.set(&name, step);
    }

    /// Whether something may become due.
    pub(super) fn is_any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn is_due(&self, name: &Name, now: Instant) -> bool {
        match self.peers.get(name).map(|peer| &peer.step) {
            Some(Step::Asked(asked)) => asked.is_due(now),
            Some(Step::Owing(owing)) => now >= owing.at,
            _ => false,
        }
    }

    /// Whether something is due.
    pub(super) fn is_any_due(&self, now: Instant) -> bool {
        self.waiting.iter().any(|name| self.is_due(name, now))
    }

    /// The next that is due, which a thread is to do: the peer is at work from then on.
    pub(super) fn next_due(&mut self, now: Instant) -> Option<Job> {
        let name = *self.waiting.iter().find(|name| self.is_due(name, now))?;
        let peer = self.peers.get_mut(&name)?;
        let job = match std::mem::replace(&mut peer.step, Step::AtWork) {
            Step::Asked(asked) => match asked.answer() {
                Some(segment) if now >= asked.not_before => Job::Complete { name, segment, own: asked.own },
                _ => Job::Repeat { name, own: asked.own, pause: asked.pause },
            },
            Step::Owing(owing) => Job::Answer(owing),
            _ => return None,
        };
        self.waiting.retain(|other| *other != name);
        Some(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(from: Name, to: Name, key: u64) -> Hello {
        Hello { from, to, node: NodeId::new(4).unwrap(), segment: SegmentId(1), key }
    }

    #[test]
    fn strangers_are_answered_once_and_only_so_many() {
        let (own, now, mut table) = (Name::new().unwrap(), Instant::now(), Table::default());
        let names = [(); 3].map(|()| Name::new().unwrap());
        for name in names {
            table.hello(&hello(name, own, 1), &own, 2, now);
        }
        assert!(table.get(&names[2]).is_none() && table.is_any_due(now));
        // A second request of the same one takes the place of the first.
        table.hello(&hello(names[0], own, 2), &own, 2, now);
        let mut keys = Vec::new();
        while let Some(Job::Answer(owing)) = table.next_due(now) {
            keys.push(owing.hello.key);
        }
        keys.sort_unstable();
        assert_eq!((keys, table.is_any_waiting()), (vec![1, 2], false));
        // While a thread is at it, a further one waits.
        table.hello(&hello(names[1], own, 3), &own, 2, now);
        assert!(!table.is_any_due(now) && table.get(&names[1]).is_some_and(Peer::is_there));
        table.set_after_work(&names[1], Step::Found, &own, now);
        assert!(matches!(table.next_due(now), Some(Job::Answer(owing)) if owing.hello.key == 3));
        // Once both have met, requests are late ones.
        assert!(table.met(&names[1], Weak::new()).is_none());
        table.hello(&hello(names[1], own, 4), &own, 2, now);
        assert!(!table.is_any_due(now) && !table.get(&names[1]).is_some_and(Peer::is_there));
    }

    #[test]
    fn who_is_not_known_or_gone_is_not_asked_and_who_failed_later() {
        let (own, now, mut table) = (Name::new().unwrap(), Instant::now(), Table::default());
        let name = Name::new().unwrap();
        assert_eq!(table.may_ask(&name, now), Err(NotAsked::Nobody));
        table.hello(&hello(name, own, 1), &own, 9, now);
        assert_eq!(table.may_ask(&name, now), Ok(false), "it is about to be met");
        table.put_off(&name, &own, now, Duration::from_millis(10));
        assert_eq!(table.may_ask(&name, now), Err(NotAsked::NotNow));
        assert_eq!(table.may_ask(&name, now + Duration::from_millis(10)), Err(NotAsked::Nobody), "no port");
        table.set(&name, Step::Gone);
        assert_eq!(table.may_ask(&name, now), Err(NotAsked::Nobody));
        // A stranger that could not be met leaves nothing behind.
        let stranger = Name::new().unwrap();
        table.hello(&hello(stranger, own, 1), &own, 9, now);
        assert!(table.next_due(now).is_some());
        table.give_up(&stranger);
        assert!(table.get(&stranger).is_none());
    }
}

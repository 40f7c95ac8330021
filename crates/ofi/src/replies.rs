//! Replies to requests of peers: which slots they have, and which wait for room.
//!
//! A slot that receives is never used for a reply, so a peer whose address takes nothing does not stop what
//! others send. One address has at most [`SLOTS_OF_AN_ADDRESS`] replies under way. A reply for which the
//! provider has no room gives its slot back and waits in memory. At most [`WAITING_OF_AN_ADDRESS`] replies to
//! one address wait: a peer has no more requests under way, unless it breaks the rules.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shm::sync::{AtomicU32, Ordering};

use crate::message::MESSAGE_BYTES;
use crate::peer::PeerState;
use crate::port::{Address, SEND_SLOTS};

/// Slots that the replies to one address may have.
pub(crate) const SLOTS_OF_AN_ADDRESS: usize = 4;
/// Replies to one address that wait in memory: as many requests as an end point has under way.
pub(crate) const WAITING_OF_AN_ADDRESS: usize = SEND_SLOTS;
/// A provider that has no room announces nothing when it has: it is asked again after this time.
const ASK_AGAIN: Duration = Duration::from_micros(200);

/// A reply that is to be sent.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) peer: Arc<PeerState>,
    pub(crate) bytes: [u8; MESSAGE_BYTES],
}

/// What becomes of a new reply.
#[derive(Debug)]
pub(crate) enum Begun {
    /// It is to be sent out of this slot.
    Now(usize, Reply),
    /// It waits.
    Waits,
    /// Too many wait already.
    Dropped,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Replies {
    inner: Mutex<Inner>,
    /// Addresses to which replies wait: read without the lock.
    waiting: AtomicU32,
}

#[derive(Debug)]
struct Inner {
    free: Vec<usize>,
    /// The addresses of the replies that have slots, by slot from `first` on.
    under_way: Vec<Option<Address>>,
    first: usize,
    ways: HashMap<Address, Way>,
    /// Addresses to which replies wait, each once: the one that was tried longest ago comes first.
    turns: VecDeque<Address>,
    last_pass: Option<Instant>,
}

/// The replies to one address.
#[derive(Debug, Default)]
struct Way {
    slots: usize,
    waiting: VecDeque<Reply>,
}

impl Replies {
    pub(crate) fn new(slots: Range<usize>) -> Self {
        let inner = Inner {
            under_way: vec![None; slots.len()],
            first: slots.start,
            free: slots.rev().collect(),
            ways: HashMap::new(),
            turns: VecDeque::new(),
            last_pass: None,
        };
        Self { inner: Mutex::new(inner), waiting: AtomicU32::new(0) }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Inner) -> T) -> T {
        let mut inner: MutexGuard<'_, Inner> = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let result = act(&mut inner);
        // Relaxed: a look that comes too early is repeated.
        self.waiting.store(inner.turns.len() as u32, Ordering::Relaxed);
        result
    }

    /// Takes a new reply in.
    pub(crate) fn begin(&self, reply: Reply) -> Begun {
        self.with(|inner| inner.begin(reply))
    }

    /// The provider had no room: the reply waits, and its slot is free.
    pub(crate) fn put_back(&self, slot: usize, reply: Reply) {
        self.with(|inner| {
            let address = reply.peer.address;
            inner.give_back(slot);
            inner.wait(address, |waiting| waiting.push_front(reply));
        });
    }

    /// The reply of this slot has ended. What is sent next, and out of which slot: to the same address, or to
    /// the one whose turn it is.
    pub(crate) fn ended(&self, slot: usize) -> Option<(usize, Reply)> {
        self.with(|inner| {
            let had_none = inner.free.is_empty();
            let address = inner.give_back(slot)?;
            inner.next_to(address).or_else(|| if had_none { inner.next() } else { None })
        })
    }

    /// What is sent next, and out of which slot.
    pub(crate) fn next(&self) -> Option<(usize, Reply)> {
        self.with(Inner::next)
    }

    /// To how many addresses replies wait.
    #[inline]
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How many addresses are to be tried now: none while the last time is too near.
    pub(crate) fn due(&self, now: Instant) -> usize {
        self.with(|inner| {
            let is_near = inner.last_pass.is_some_and(|last| now.saturating_duration_since(last) < ASK_AGAIN);
            if is_near {
                return 0;
            }
            inner.last_pass = Some(now);
            inner.turns.len()
        })
    }
}

impl Inner {
    fn begin(&mut self, reply: Reply) -> Begun {
        let address = reply.peer.address;
        let waiting = self.ways.get(&address).map_or(0, |way| way.waiting.len());
        if waiting == 0
            && let Some(slot) = self.take(address)
        {
            return Begun::Now(slot, reply);
        }
        if waiting >= WAITING_OF_AN_ADDRESS {
            return Begun::Dropped;
        }
        self.wait(address, |waiting| waiting.push_back(reply));
        Begun::Waits
    }

    fn wait(&mut self, address: Address, add: impl FnOnce(&mut VecDeque<Reply>)) {
        let way = self.ways.entry(address).or_default();
        if way.waiting.is_empty() {
            self.turns.push_back(address);
        }
        add(&mut way.waiting);
    }

    /// A slot for a reply to this address, if it may have one more.
    fn take(&mut self, address: Address) -> Option<usize> {
        if self.ways.get(&address).is_some_and(|way| way.slots >= SLOTS_OF_AN_ADDRESS) {
            return None;
        }
        let slot = self.free.pop()?;
        self.ways.entry(address).or_default().slots += 1;
        self.under_way[slot - self.first] = Some(address);
        Some(slot)
    }

    fn give_back(&mut self, slot: usize) -> Option<Address> {
        let address = self.under_way[slot - self.first].take()?;
        self.free.push(slot);
        if let Some(way) = self.ways.get_mut(&address) {
            way.slots -= 1;
            if way.slots == 0 && way.waiting.is_empty() {
                self.ways.remove(&address);
            }
        }
        Some(address)
    }

    fn next(&mut self) -> Option<(usize, Reply)> {
        if self.free.is_empty() {
            return None;
        }
        for _ in 0..self.turns.len() {
            let address = *self.turns.front()?;
            if let Some(next) = self.next_to(address) {
                return Some(next);
            }
            self.turns.rotate_left(1);
        }
        None
    }

    fn next_to(&mut self, address: Address) -> Option<(usize, Reply)> {
        if self.ways.get(&address)?.waiting.is_empty() {
            return None;
        }
        let slot = self.take(address)?;
        let waiting = &mut self.ways.get_mut(&address)?.waiting;
        let reply = waiting.pop_front()?;
        let is_last = waiting.is_empty();
        self.turns.retain(|other| *other != address);
        if !is_last {
            self.turns.push_back(address);
        }
        Some((slot, reply))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: Range<usize> = 10..42;

    fn peer(address: u64) -> Arc<PeerState> {
        Arc::new(PeerState::new("the peer", address, Address::nth(address), 1))
    }

    fn reply(peer: &Arc<PeerState>, number: u8) -> Reply {
        Reply { peer: Arc::clone(peer), bytes: [number; MESSAGE_BYTES] }
    }

    fn now(begun: Begun) -> (usize, Reply) {
        match begun {
            Begun::Now(slot, reply) => (slot, reply),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_address_has_few_slots_and_a_bounded_queue_and_the_others_go_on() {
        let (replies, dead, other) = (Replies::new(SLOTS), peer(1), peer(2));
        for _ in 0..SLOTS_OF_AN_ADDRESS {
            now(replies.begin(reply(&dead, 0)));
        }
        for _ in 0..WAITING_OF_AN_ADDRESS {
            assert!(matches!(replies.begin(reply(&dead, 0)), Begun::Waits));
        }
        assert!(matches!(replies.begin(reply(&dead, 0)), Begun::Dropped));
        assert!(replies.next().is_none(), "all its slots are taken");
        let (slot, _) = now(replies.begin(reply(&other, 0)));
        assert!(replies.ended(slot).is_none(), "what waits for the first address stays there");
    }

    #[test]
    fn what_found_no_room_has_no_slot_and_is_tried_again_oldest_first() {
        let replies = Replies::new(SLOTS);
        // More addresses that take nothing than there are slots.
        let dead: Vec<_> = (0..100).map(peer).collect();
        for peer in &dead {
            for number in 0..2 {
                match replies.begin(reply(peer, number)) {
                    Begun::Now(slot, reply) => replies.put_back(slot, reply),
                    Begun::Waits => {}
                    Begun::Dropped => panic!("dropped"),
                }
            }
        }
        assert_eq!(replies.waiting(), 100);
        now(replies.begin(reply(&peer(1000), 0)));
        for _ in 0..2 {
            for peer in &dead {
                let (slot, next) = replies.next().unwrap();
                assert_eq!((next.peer.session, next.bytes[0]), (peer.session, 0));
                replies.put_back(slot, next);
            }
        }
        for number in 0..2 {
            for peer in &dead {
                let (slot, next) = replies.next().unwrap();
                assert_eq!((next.peer.session, next.bytes[0]), (peer.session, number));
                // The slot of the first comes to the second of the same address only if it is still there.
                if let Some((slot, next)) = replies.ended(slot) {
                    replies.put_back(slot, next);
                }
            }
        }
        assert_eq!(replies.waiting(), 0);
        assert!(replies.next().is_none());
    }

    #[test]
    fn a_reply_that_ends_lets_the_next_go() {
        let (replies, peers) = (Replies::new(SLOTS), (0..9).map(peer).collect::<Vec<_>>());
        let mut slots = Vec::new();
        for peer in &peers[..8] {
            slots.extend((0..4).map(|number| now(replies.begin(reply(peer, number))).0));
        }
        assert!(matches!(replies.begin(reply(&peers[8], 9)), Begun::Waits), "no slot is free");
        assert!(matches!(replies.begin(reply(&peers[0], 4)), Begun::Waits));
        // Its own address comes first, then the one whose turn it is.
        let (slot, next) = replies.ended(slots[0]).unwrap();
        assert_eq!((next.peer.session, next.bytes[0]), (0, 4));
        let (_, next) = replies.ended(slot).unwrap();
        assert_eq!((next.peer.session, next.bytes[0]), (8, 9));
        assert!(replies.ended(slots[1]).is_none());
        assert_eq!(replies.waiting(), 0);
    }

    #[test]
    fn those_that_wait_are_not_tried_without_a_pause() {
        let (replies, dead) = (Replies::new(SLOTS), peer(1));
        let (slot, found) = now(replies.begin(reply(&dead, 0)));
        replies.put_back(slot, found);
        let start = Instant::now();
        assert_eq!(replies.due(start), 1);
        assert_eq!(replies.due(start), 0);
        assert_eq!(replies.due(start + ASK_AGAIN), 1);
    }
}

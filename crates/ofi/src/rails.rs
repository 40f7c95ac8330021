//! Several peers that lead to one owner, each over a network interface of its own: one link.
//!
//! A block longer than a chunk goes over all of them at once, each chunk over the rail that will have carried it first. All else goes
//! over the first rail, when what the others carry has been confirmed. So what programs rely on of one [`Peer`] holds: blocks of one
//! thread arrive in their order, a doorbell rings and an atomic operation is carried out after them, a barrier waits for all. With one
//! rail each call is that of the peer. The first failure of any rail is that of the link, as of a peer. docs/adr/0015 has the reasons.

mod choice;
mod pace;
#[cfg(test)]
mod recovery;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fabric_sys::constants::FI_ORDER_WAW;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shm::sync::{AtomicUsize, Ordering, spin_loop};
use shm::window::Window;

use crate::card::MemoryCard;
use crate::error::{OfiError, Result};
use crate::message::Delivery;
use crate::peer::{Peer, Piece, pieces};
use crate::port::{SEND_SLOT_BYTES, SEND_SLOTS};
use choice::Rail;
use pace::Pace;

/// No link has more rails.
pub const RAILS_MAX: usize = 4;
/// A thread that waits for any of several rails looks after this time, if another one has taken the notice.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// See the module. May be used by any threads at once.
#[derive(Debug)]
pub struct Rails {
    /// One at least.
    lanes: Vec<Arc<Peer>>,
    /// Which of several equal rails comes first.
    turn: AtomicUsize,
    /// How fast each is.
    paces: Mutex<[Pace; RAILS_MAX]>,
    opened: Instant,
}

/// What was under way on each rail when a block was begun.
type Earlier = Vec<[Option<u64>; SEND_SLOTS]>;

impl From<Arc<Peer>> for Rails {
    fn from(only: Arc<Peer>) -> Self {
        Self::of(vec![only])
    }
}

impl Rails {
    /// All lead to the same owner. Those after [`RAILS_MAX`] are left out; `None`: there is none.
    pub fn new(mut lanes: Vec<Arc<Peer>>) -> Option<Self> {
        lanes.truncate(RAILS_MAX);
        (!lanes.is_empty()).then(|| Self::of(lanes))
    }

    fn of(lanes: Vec<Arc<Peer>>) -> Self {
        Self { lanes, turn: AtomicUsize::new(0), paces: Mutex::default(), opened: Instant::now() }
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The rails for a chunk, the best one first. `earlier`: whether one has something of before the block.
    fn order(&self, mut earlier: impl FnMut(usize, &Peer) -> bool) -> Vec<usize> {
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = self.now_ns();
        let rail = |(nth, (lane, pace)): (usize, (&Arc<Peer>, &mut Pace))| {
            let bytes = bytes(lane);
            pace.look(now_ns, bytes);
            let is_ordered = lane.inside.order & FI_ORDER_WAW != 0;
            Rail { has_earlier: earlier(nth, lane), is_ordered, bytes, rate: pace.rate(now_ns) }
        };
        let rails: Vec<Rail> = self.lanes.iter().zip(paces.iter_mut()).enumerate().map(rail).collect();
        // Relaxed: any order will do.
        choice::order(&rails, self.turn.fetch_add(1, Ordering::Relaxed)).collect()
    }

    /// A chunk of that length was begun on a rail.
    fn begun(&self, nth: usize, len: usize) {
        let mut paces = self.paces.lock().unwrap_or_else(PoisonError::into_inner);
        paces[nth].begin(self.now_ns(), len as u64, bytes(&self.lanes[nth]));
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.lanes.len()
    }

    /// The one that all goes over but long blocks.
    #[inline]
    fn first(&self) -> &Peer {
        &self.lanes[0]
    }

    /// The failure that ended it, if one has.
    pub fn failure(&self) -> Option<OfiError> {
        self.lanes.iter().find_map(|lane| lane.failure())
    }

    /// As of a peer.
    pub fn lost(&self, reason: &str) {
        self.lanes.iter().for_each(|lane| lane.lost(reason));
    }

    /// For what goes over the first rail: what others carry has arrived, and none has failed.
    #[inline]
    fn others_are_done(&self) -> Result<()> {
        self.lanes[1..].iter().try_for_each(|lane| lane.barrier())
    }

    fn is_long(&self, len: usize) -> bool {
        len > SEND_SLOT_BYTES && self.lanes.len() > 1
    }

    /// As of a peer; a card for each rail.
    #[inline]
    pub fn put(&self, cards: &[MemoryCard], offset: usize, from: &[u8]) -> Result<()> {
        if self.is_long(from.len()) {
            return self.spread(cards, offset, from.len(), |memory, piece| {
                Ok(memory.put(0, &from[piece.at..piece.at + piece.len])?)
            });
        }
        self.others_are_done()?;
        self.first().put(&cards[0], offset, from)
    }

    /// As of a peer; a card for each rail.
    #[inline]
    pub fn put_from(&self, cards: &[MemoryCard], offset: usize, source: &Window<'_>) -> Result<()> {
        if self.is_long(source.len()) {
            return self.spread(cards, offset, source.len(), |memory, piece| {
                Ok(source.copy_to(piece.at, memory, 0, piece.len)?)
            });
        }
        self.others_are_done()?;
        self.first().put_from(&cards[0], offset, source)
    }

    fn check(&self) -> Result<()> {
        self.failure().map_or(Ok(()), Err)
    }

    /// Begins to write a block over all rails.
    fn spread(
        &self,
        cards: &[MemoryCard],
        offset: usize,
        len: usize,
        fill: impl Fn(&Window<'_>, Piece) -> Result<()>,
    ) -> Result<()> {
        let _at_work: Vec<_> = self.lanes.iter().map(|lane| lane.inside.engine.at_work()).collect();
        let under_way = |lane: &Arc<Peer>| lane.inside.engine.slots.under_way(&lane.state);
        let mut earlier: Earlier = self.lanes.iter().map(under_way).collect();
        // The ranges of all cards are the same; the addresses are each rail's own.
        for whole in pieces(&cards[0], offset, len) {
            let mut begun = self.try_chunk(cards, offset, whole, &mut earlier, &fill)?;
            if !begun {
                self.wait_for_any(|| {
                    begun = self.try_chunk(cards, offset, whole, &mut earlier, &fill)?;
                    Ok(begun)
                })?;
            }
        }
        Ok(())
    }

    /// Begins a chunk on the rail that will have carried it first, of those that may take it and have room; false: none has.
    fn try_chunk(
        &self,
        cards: &[MemoryCard],
        offset: usize,
        whole: Piece,
        earlier: &mut Earlier,
        fill: &impl Fn(&Window<'_>, Piece) -> Result<()>,
    ) -> Result<bool> {
        self.check()?;
        let has_earlier = |nth: usize, lane: &Peer| !lane.inside.engine.slots.have_ended(&mut earlier[nth]);
        for nth in self.order(has_earlier) {
            if self.lanes[nth].try_put_chunk(&cards[nth], at(&cards[nth], offset, whole), fill)? {
                self.begun(nth, whole.len);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes progress on all rails until `ready`, within the time that a single operation may take.
    fn wait_for_any(&self, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
        let settings = self.first().inside.engine.settings;
        let started = Instant::now();
        loop {
            let mut is_new = false;
            for lane in &self.lanes {
                let engine = &lane.inside.engine;
                // Relaxed: the progress thread only needs to see that it changes.
                engine.others_work.fetch_add(1, Ordering::Relaxed);
                is_new |= engine.progress() > 0;
            }
            if ready()? {
                return Ok(());
            }
            let waited = started.elapsed();
            if waited >= settings.give_up_after {
                return Err(self.none_has_room(settings.give_up_after));
            }
            if is_new || waited < settings.spin {
                spin_loop();
            } else {
                self.sleep();
            }
        }
    }

    /// Until any rail may have something, or a moment.
    fn sleep(&self) {
        let engines = || self.lanes.iter().map(|lane| &lane.inside.engine);
        // Their progress threads are not to wake for what this one is waiting for.
        let pollers: Vec<_> = engines().map(|engine| engine.events.try_poller()).collect();
        if engines().all(|engine| engine.port.may_sleep()) {
            let fds = engines().filter_map(|engine| engine.port.wait_fd());
            let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            // An error, such as a signal, only makes the caller look early.
            let _ = poll(&mut fds, Some(&LOOK));
        }
        drop(pollers);
        engines().for_each(|engine| engine.events.end_long_nap());
    }

    #[cold]
    fn none_has_room(&self, limit: Duration) -> OfiError {
        let error = OfiError::TimedOut {
            what: "a put",
            peer: self.first().name().to_owned(),
            limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            state: "no rail confirmed what it had",
        };
        self.lanes.iter().for_each(|lane| lane.state.fail(&error));
        error
    }

    /// As of a peer.
    pub fn get(&self, cards: &[MemoryCard], offset: usize, into: &mut [u8]) -> Result<()> {
        self.others_are_done()?;
        if !self.is_long(into.len()) {
            return self.first().get(&cards[0], offset, into);
        }
        let len = into.len();
        self.gather(cards, offset, len, |memory, piece| {
            Ok(memory.get(0, &mut into[piece.at..piece.at + piece.len])?)
        })
    }

    /// As of a peer.
    pub fn get_to(&self, cards: &[MemoryCard], offset: usize, target: &Window<'_>) -> Result<()> {
        self.others_are_done()?;
        if !self.is_long(target.len()) {
            return self.first().get_to(&cards[0], offset, target);
        }
        self.gather(cards, offset, target.len(), |memory, piece| {
            Ok(memory.copy_to(0, target, piece.at, piece.len)?)
        })
    }

    /// Reads a block over all rails. What was put before has arrived on all but the first one.
    fn gather(
        &self,
        cards: &[MemoryCard],
        offset: usize,
        len: usize,
        mut drain: impl FnMut(&Window<'_>, Piece) -> Result<()>,
    ) -> Result<()> {
        self.first().barrier()?;
        let _at_work: Vec<_> = self.lanes.iter().map(|lane| lane.inside.engine.at_work()).collect();
        // From the oldest on: rail, slot, piece.
        let mut under_way = VecDeque::new();
        let mut result = Ok(());
        for whole in pieces(&cards[0], offset, len) {
            result = self.begin_read(cards, offset, whole, &mut under_way, &mut drain);
            if result.is_err() {
                break;
            }
        }
        while let Some((nth, slot, piece)) = under_way.pop_front() {
            let lane: &Peer = &self.lanes[nth];
            if result.is_ok() {
                result = lane.end_get(slot, piece, &mut drain);
            } else {
                lane.inside.engine.slots.let_go(slot);
            }
        }
        result
    }

    /// Who has reads under way waits for the oldest of them, never for room: threads that each keep some and wait for more would wait
    /// for each other.
    fn begin_read(
        &self,
        cards: &[MemoryCard],
        offset: usize,
        whole: Piece,
        under_way: &mut VecDeque<(usize, usize, Piece)>,
        drain: &mut impl FnMut(&Window<'_>, Piece) -> Result<()>,
    ) -> Result<()> {
        loop {
            if let Some((nth, slot, piece)) = self.try_read(cards, offset, whole)? {
                under_way.push_back((nth, slot, piece));
                return Ok(());
            }
            if let Some((nth, slot, piece)) = under_way.pop_front() {
                self.lanes[nth].end_get(slot, piece, drain)?;
                continue;
            }
            let mut begun = None;
            self.wait_for_any(|| {
                begun = self.try_read(cards, offset, whole)?;
                Ok(begun.is_some())
            })?;
            under_way.extend(begun);
            return Ok(());
        }
    }

    fn try_read(
        &self,
        cards: &[MemoryCard],
        offset: usize,
        whole: Piece,
    ) -> Result<Option<(usize, usize, Piece)>> {
        self.check()?;
        for nth in self.order(|_, _| false) {
            let piece = at(&cards[nth], offset, whole);
            if let Some(slot) = self.lanes[nth].try_get_chunk(&cards[nth], piece)? {
                self.begun(nth, piece.len);
                return Ok(Some((nth, slot, piece)));
            }
        }
        Ok(None)
    }

    /// As of a peer, with a doorbell of the first rail.
    #[inline]
    pub fn ring(&self, bell: u64) -> Result<()> {
        self.others_are_done()?;
        self.first().ring(bell)
    }

    /// As of a peer.
    pub fn confirm_rings(&self) -> Result<()> {
        self.first().confirm_rings()
    }

    /// As of a peer, with a doorbell of the first rail.
    pub fn deliver(&self, bell: u64, data: &[u8]) -> Result<Delivery> {
        self.others_are_done()?;
        self.first().deliver(bell, data)
    }

    /// For an atomic operation, which goes over the first rail.
    #[inline]
    pub(crate) fn for_atomic(&self) -> Result<&Peer> {
        self.others_are_done()?;
        Ok(self.first())
    }

    /// As of a peer.
    #[inline]
    pub fn barrier(&self) -> Result<()> {
        self.lanes.iter().try_for_each(|lane| lane.barrier())
    }

    /// As of a peer, on all rails.
    pub fn reach(&self, cards: &[MemoryCard]) -> Result<()> {
        self.lanes.iter().zip(cards).try_for_each(|(lane, card)| lane.reach(card))
    }
}

fn bytes(lane: &Peer) -> u64 {
    // Relaxed: it affects the choice only.
    lane.state.chunk_bytes.load(Ordering::Relaxed)
}

/// The same piece by the card of another rail.
fn at(card: &MemoryCard, offset: usize, whole: Piece) -> Piece {
    Piece { address: card.base.wrapping_add((offset + whole.at) as u64), ..whole }
}

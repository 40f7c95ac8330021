//! What all threads that use a link over rails share: which chunk went where, and what is still to be
//! confirmed or sent again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use shm::sync::{AtomicBool, AtomicUsize, Ordering};
use shm::window::Window;

use super::keeper::{Bell, Recover};
use super::numbered::NumberPool;
use super::pace::Pace;
use super::queue::{self, Queue};
use super::recovery::{Action, Chunk, Limits, Recovery};
use super::reopening::Reopening;
use super::suspension::Suspension;
use super::travel::Travel;
use super::waiting::Waiting;
use super::watch::Watch;
use crate::card::MemoryCard;
use crate::error::{OfiError, Result};
use crate::peer::{Peer, Piece, Probe};
use crate::port::SEND_SLOTS;

const NO_RESPONSE: &str = "it did not respond when the program connected";
/// How long a rail stays closed that has failed, at first and at most: each failure in a row doubles it.
const PAUSE_MS: u64 = 100;
const LONGEST_PAUSE_MS: u64 = 10_000;

/// A chunk that was begun on a rail.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) chunk: Chunk,
    /// Its place among all chunks that were begun. One that is sent again keeps it.
    pub(super) turn: u64,
    pub(super) slot: usize,
    pub(super) operation: u64,
    pub(super) target: Target,
}

/// What the rail that carries all but long blocks had under way when a block began.
#[derive(Debug)]
pub(super) struct Earlier {
    peer: Arc<Peer>,
    under_way: [Option<u64>; SEND_SLOTS],
}

impl Earlier {
    pub(super) fn of(peer: Arc<Peer>) -> Self {
        let under_way = peer.inside.engine.slots.under_way(&peer.state);
        Self { peer, under_way }
    }
}

/// Where a chunk goes, on any rail.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// One for each rail.
    pub(super) cards: Arc<[MemoryCard]>,
    /// From the start of the memory on.
    pub(super) offset: usize,
    pub(super) len: usize,
}

/// A chunk that is to be sent again: it still lies where it was sent from.
#[derive(Debug)]
pub(super) struct Again {
    pub(super) chunk: Chunk,
    pub(super) turn: u64,
    pub(super) from: Arc<Peer>,
    pub(super) slot: usize,
    pub(super) operation: u64,
    pub(super) target: Target,
}

/// A question whether the peer responds, and since when an answer is wanted, by the decisions' clock.
#[derive(Debug)]
pub(super) struct Asked {
    /// `None`: the provider has had no room for it yet.
    pub(super) probe: Option<Probe>,
    pub(super) at: Duration,
}

/// A rail.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) peer: Arc<Peer>,
    /// Of the memory at an end point that was opened later than the link.
    pub(super) card: Option<MemoryCard>,
    /// The owner's doorbell there that answers questions about rails.
    pub(super) bell: u64,
    pub(super) generation: u32,
    pub(super) begun: VecDeque<Begun>,
    pub(super) pace: Pace,
    pub(super) queue: Queue,
    pub(super) watch: Watch,
    /// The same of what must not be done a second time.
    pub(super) shorts: Watch,
    /// Whether bytes travel while nothing ends.
    pub(super) travel: Travel,
    /// How often it was looked at whether something short is in doubt, since it is doubted.
    pub(super) looks: u32,
    pub(super) is_closing: bool,
    /// Whether the peer responds over it is being asked.
    pub(super) asked: Option<Asked>,
    /// When it responded last.
    pub(super) responded: Option<Duration>,
    /// Since when it is not used.
    pub(super) failed: Option<Instant>,
    pub(super) reopening: Option<Reopening>,
    /// The end point of this side over which a new one of the owner did not respond.
    pub(super) last_tried: Option<crate::Endpoint>,
}

impl Lane {
    pub(super) fn new(peer: Arc<Peer>, card: Option<MemoryCard>, bell: u64, generation: u32) -> Self {
        Self {
            peer,
            card,
            bell,
            generation,
            begun: VecDeque::new(),
            pace: Pace::default(),
            queue: Queue::default(),
            watch: Watch::default(),
            shorts: Watch::default(),
            travel: Travel::default(),
            looks: 0,
            is_closing: false,
            asked: None,
            responded: None,
            failed: None,
            reopening: None,
            last_tried: None,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        // Relaxed: it affects the choice only.
        self.peer.state.chunk_bytes.load(Ordering::Relaxed)
    }
}

/// Behind the lock.
#[derive(Debug)]
pub(super) struct State {
    pub(super) lanes: Vec<Lane>,
    pub(super) recovery: Recovery,
    /// The rail that all goes over but long blocks.
    pub(super) lead: usize,
    /// The last one that has failed, and the number of its end point.
    pub(super) lost_lead: Option<(usize, u32)>,
    /// In their order.
    pub(super) again: Vec<Again>,
    /// The number of the next block.
    next_block: u64,
    /// That of the next chunk.
    pub(super) next_turn: u64,
    /// Of the decisions: time that the keeper has seen pass. A process that stood still finds nothing late
    /// when it goes on.
    pub(super) clock: Duration,
    /// Not before then the owner is asked again over no rail.
    pub(super) ask_owner_at: Duration,
    /// How long the owner took lately to answer over no rail.
    pub(super) managers_took: Duration,
    /// To be done when it is known whether something short is in doubt on the rail that has failed.
    pub(super) put_off: Vec<Action>,
}

impl State {
    pub(super) fn now_ms(&self) -> u64 {
        u64::try_from(self.clock.as_millis()).unwrap_or(u64::MAX)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Core {
    /// Carries all but long blocks, until another rail does.
    pub(super) first: Arc<Peer>,
    /// Another rail does.
    pub(super) has_moved: AtomicBool,
    pub(super) count: usize,
    pub(super) state: Mutex<State>,
    /// Chunks that what follows has to wait for: those that were not confirmed when somebody last looked, and
    /// those that are to be sent again. Where the link cannot go on without a rail, what the first one has
    /// arrives before what follows on it, and does not count.
    pub(super) others: AtomicUsize,
    /// Threads that wait for these chunks, and then do something short: no other chunk is begun meanwhile.
    pub(super) short_waiting: AtomicUsize,
    /// The failure of the link, if it is not one of the only rail.
    pub(super) ended: OnceLock<OfiError>,
    /// A short put may be missing.
    pub(super) suspension: Suspension,
    /// Which of several equal rails comes first.
    pub(super) turn: AtomicUsize,
    opened: Instant,
    /// What it takes to go on without a rail; without that the first failure of any rail is that of the link.
    pub(super) recover: Option<Recover>,
    /// Of atomic operations and stores, which are sent again if a rail fails; `None`: this link cannot send
    /// anything again, or leads to no memory.
    pub(super) orders: Option<NumberPool>,
    /// Wakes the thread that looks after the rails.
    pub(super) keeper: Arc<Bell>,
    /// Threads that wait for any of the rails.
    pub(super) waiting: Waiting,
}

impl Core {
    pub(super) fn new(lanes: Vec<Arc<Peer>>, first: Arc<Peer>, recover: Option<Recover>) -> Self {
        let settings = first.inside.engine.settings;
        let limits = Limits {
            silence_ms: u64::try_from(settings.give_up_after.as_millis()).unwrap_or(u64::MAX),
            pause_ms: PAUSE_MS,
            longest_pause_ms: LONGEST_PAUSE_MS,
        };
        let mut recovery = Recovery::new(lanes.len(), limits, 0);
        // Where none responds, the link has ended, see `Rails::recovering`.
        let lead = match &recover {
            Some(_) => lanes.iter().position(|peer| !peer.state.is_failed()).unwrap_or(0),
            None => 0,
        };
        let lane = |(nth, peer): (usize, Arc<Peer>)| {
            let bell = recover.as_ref().and_then(|recover| recover.bells.get(nth)).copied();
            let mut lane = Lane::new(peer, None, bell.unwrap_or(0), 0);
            if nth != lead && recover.is_some() && lane.peer.state.is_failed() {
                recovery.left_out(nth, NO_RESPONSE, 0);
                lane.failed = Some(Instant::now());
            }
            lane
        };
        let lanes = lanes.into_iter().enumerate().map(lane).collect();
        let state = State {
            recovery,
            lead,
            lost_lead: None,
            again: Vec::new(),
            next_block: 1,
            next_turn: 0,
            clock: Duration::ZERO,
            ask_owner_at: Duration::ZERO,
            managers_took: Duration::ZERO,
            put_off: Vec::new(),
            lanes,
        };
        let has_orders = recover.as_ref().is_some_and(|recover| recover.outbox.is_none());
        Self {
            first,
            has_moved: AtomicBool::new(lead > 0),
            count: state.lanes.len(),
            state: Mutex::new(state),
            others: AtomicUsize::new(0),
            short_waiting: AtomicUsize::new(0),
            ended: OnceLock::new(),
            suspension: Suspension::default(),
            turn: AtomicUsize::new(0),
            opened: Instant::now(),
            recover,
            orders: has_orders.then(NumberPool::default),
            keeper: Arc::default(),
            waiting: Waiting::default(),
        }
    }

    pub(super) fn now_ns(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// With what was confirmed until now taken out.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.locked();
        self.look(&mut state);
        state
    }

    pub(super) fn peers(&self) -> Vec<Arc<Peer>> {
        let state = self.locked();
        state.lanes.iter().map(|lane| Arc::clone(&lane.peer)).collect()
    }

    fn look(&self, state: &mut State) {
        let now_ms = state.now_ms();
        for nth in 0..self.count {
            if state.recovery.generation_if_up(nth).is_none() {
                continue;
            }
            let (lane, recovery) = (&mut state.lanes[nth], &mut state.recovery);
            let (slots, generation) = (&lane.peer.inside.engine.slots, lane.generation);
            lane.begun.retain(|begun| {
                let is_under_way = slots.generation(begun.slot) == begun.operation;
                if !is_under_way {
                    recovery.confirmed(nth, generation, begun.chunk, now_ms);
                }
                is_under_way
            });
        }
        self.count_others(state);
    }

    /// The failure that ended it, if one has, or because of which nothing goes over it for now.
    pub(super) fn failure(&self) -> Option<OfiError> {
        if let Some(error) = self.ended.get() {
            return Some(error.clone());
        }
        if self.recover.is_some() {
            return self.suspension.is_on().then(|| self.in_doubt());
        }
        if self.count == 1 {
            return self.first.failure();
        }
        self.peers().iter().find_map(|peer| peer.failure())
    }

    pub(super) fn check(&self) -> Result<()> {
        self.failure().map_or(Ok(()), Err)
    }

    /// All that follows fails.
    pub(super) fn end(&self, error: OfiError) -> OfiError {
        let error = self.ended.get_or_init(|| error).clone();
        for peer in self.peers() {
            peer.state.fail(&error);
            peer.inside.engine.events.wake();
        }
        error
    }

    /// The number of a block that begins.
    pub(super) fn begin_block(&self) -> u64 {
        let mut state = self.state();
        // What runs empty between two blocks has nobody who has more for it.
        state.lanes.iter_mut().for_each(|lane| lane.queue.pauses());
        state.next_block += 1;
        state.next_block - 1
    }

    /// Begins a chunk on the rail that will have carried it first, of those that may take it and have room;
    /// false: none has.
    pub(super) fn try_chunk(
        &self,
        chunk: Chunk,
        target: &Target,
        earlier: &mut Earlier,
        fill: &impl Fn(&Window<'_>, usize) -> Result<()>,
    ) -> Result<bool> {
        self.check()?;
        let mut state = self.state();
        if self.suspension.is_on() {
            return Err(self.in_doubt());
        }
        // Behind the lock: who waits from now on counts what is begun here.
        if !state.again.is_empty() || self.short_waiting.load(Ordering::SeqCst) > 0 {
            state.lanes.iter_mut().for_each(|lane| lane.queue.pauses());
            return Ok(false);
        }
        let has_earlier = |state: &State, nth: usize| {
            let peer = &state.lanes[nth].peer;
            // What another rail had when this one took over from it had ended.
            let is_busy = Arc::ptr_eq(peer, &earlier.peer)
                && !peer.inside.engine.slots.have_ended(&mut earlier.under_way);
            is_busy || state.recovery.has_earlier(nth, chunk.block)
        };
        let turn = state.next_turn;
        for nth in self.order(&mut state, target.len, has_earlier) {
            if self.begin(&mut state, nth, (chunk, turn), target, |memory| fill(memory, target.len))? {
                state.next_turn += 1;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Begins a chunk on a rail; false: it has no room, or has failed, which its keeper will notice.
    pub(super) fn begin(
        &self,
        state: &mut State,
        nth: usize,
        (chunk, turn): (Chunk, u64),
        target: &Target,
        fill: impl Fn(&Window<'_>) -> Result<()>,
    ) -> Result<bool> {
        let now_ns = self.now_ns();
        let lane = &mut state.lanes[nth];
        let card = lane.card.as_ref().unwrap_or(&target.cards[nth]);
        let piece = Piece { at: 0, len: target.len, address: card.base.wrapping_add(target.offset as u64) };
        let is_kept = self.recover.is_some();
        let begun = lane.peer.try_put_chunk(card, piece, is_kept, |memory, _| fill(memory));
        let (slot, operation) = match begun {
            Ok(Some(begun)) => begun,
            Ok(None) => return Ok(false),
            Err(_) if is_kept && lane.peer.state.is_failed() => {
                self.keeper.ring();
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        lane.begun.push_back(Begun { chunk, turn, slot, operation, target: target.clone() });
        lane.pace.begin(now_ns, target.len as u64, lane.bytes());
        let rate = lane.pace.rate(now_ns);
        lane.queue.begun(target.len, queue::chunk_bytes(rate), rate);
        let now_ms = state.now_ms();
        state.recovery.begun(nth, chunk, now_ms);
        self.count_others(state);
        if is_kept {
            self.keeper.ring();
        }
        Ok(true)
    }

    #[cold]
    pub(super) fn none_confirms(&self) -> OfiError {
        let limit = self.first.inside.engine.settings.give_up_after;
        OfiError::TimedOut {
            what: "a put",
            peer: self.first.name().to_owned(),
            limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            state: "no rail confirmed anything, or the peer did not close one that failed",
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Their end points may be others', too: the slots are to be free when their operations have ended.
        for lane in &state.lanes {
            if let Some(probe) = lane.asked.as_ref().and_then(|asked| asked.probe.as_ref()) {
                lane.peer.end_probe(probe);
            }
            let slots = &lane.peer.inside.engine.slots;
            lane.begun.iter().for_each(|begun| slots.let_go_of(begun.slot, begun.operation));
        }
        for again in &state.again {
            again.from.inside.engine.slots.let_go_of(again.slot, again.operation);
        }
    }
}

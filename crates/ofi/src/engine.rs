//! The engine of an end point: claims send slots, posts operations, reads completions, replies to messages,
//! waits.
//!
//! Any thread may make progress, the programs' while they wait, the progress thread at all other times.

mod incoming;

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use shm::region::Region;
use shm::sync::{AtomicBool, AtomicU32, Ordering, spin_loop};

use crate::counts::{AtWork, Counters};
use crate::endpoint::{BellState, Settings};
use crate::error::{OfiError, Result};
use crate::events::Events;
use crate::lasting::Lasting;
use crate::message::Answer;
use crate::peer::PeerState;
use crate::port::{Completion, Failure, Port, Posted, RECEIVE_SLOTS, REPLY_SLOTS, SEND_SLOTS};
use crate::replies::Replies;
use crate::slots::{Kind, SLOTS_OF_A_PEER, Slots, timed_out};
use crate::spin::Spin;

/// A provider that has no room says so at once and announces nothing when it has: it is asked again after
/// this time.
const ASK_AGAIN: Duration = Duration::from_micros(200);
/// A provider may need several calls from a socket that is readable to a completion.
const ROUNDS_IDLE: u32 = 4;
const ROUNDS_MAX: u32 = 1000;
const FIRST_REPLY_SLOT: usize = SEND_SLOTS + RECEIVE_SLOTS;
/// A thread of the program that begins many operations in a row reads completions itself, once in so many:
/// the progress thread, which wakes for each, would interrupt it as often.
const LOOK_EVERY: u32 = 4;
const ECANCELED: i32 = fabric_sys::constants::FI_ECANCELED;

/// See the module.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) port: Port,
    pub(crate) settings: Settings,
    pub(crate) slots: Slots,
    pub(crate) events: Events,
    pub(crate) counters: Counters,
    /// Of waits for completions.
    pub(crate) spin: Spin,
    pub(crate) sessions: RwLock<HashMap<u64, Arc<PeerState>>>,
    pub(crate) exported: RwLock<HashMap<u64, Arc<Region>>>,
    pub(crate) bells: RwLock<HashMap<u64, Arc<BellState>>>,
    /// Changes while threads of the program make progress.
    pub(crate) others_work: AtomicU32,
    /// Puts that were begun while others were under way.
    claims: AtomicU32,
    /// Threads of the program that post or wait at this moment.
    pub(crate) at_work: AtomicU32,
    pub(crate) is_stopping: AtomicBool,
    replies: Replies,
    /// Held by each thread that reads completions, until it has dealt with them.
    reading: RwLock<()>,
    /// Receive slots to be posted when the provider has room, the oldest first, and how many.
    later: Mutex<VecDeque<usize>>,
    later_count: AtomicU32,
}

impl Engine {
    pub(crate) fn new(port: Port, settings: Settings) -> Result<Self> {
        let engine = Self {
            port,
            settings,
            slots: Slots::new(),
            events: Events::new()?,
            counters: Counters::default(),
            spin: Spin::up_to(settings.spin),
            sessions: RwLock::default(),
            exported: RwLock::default(),
            bells: RwLock::default(),
            others_work: AtomicU32::new(0),
            claims: AtomicU32::new(0),
            at_work: AtomicU32::new(0),
            is_stopping: AtomicBool::new(false),
            replies: Replies::new(FIRST_REPLY_SLOT..FIRST_REPLY_SLOT + REPLY_SLOTS),
            reading: RwLock::default(),
            later: Mutex::new(VecDeque::with_capacity(RECEIVE_SLOTS)),
            later_count: AtomicU32::new(0),
        };
        for slot in SEND_SLOTS..FIRST_REPLY_SLOT {
            engine.receive_again(slot);
        }
        Ok(engine)
    }

    /// A thread of the program is at work while the result is there: the progress thread leaves it what ends.
    #[inline]
    pub(crate) fn at_work(&self) -> AtWork<'_> {
        AtWork::new(&self.at_work)
    }

    /// Reads completions and carries out what follows from them; returns how many there were.
    #[inline]
    pub(crate) fn progress(&self) -> usize {
        let reading = self.reading.read().unwrap_or_else(PoisonError::into_inner);
        let count = self.port.completions(|completion| self.ended(completion));
        drop(reading);
        if self.later_count.load(Ordering::Relaxed) > 0 {
            self.post_later();
        }
        if self.replies.waiting() > 0 {
            self.reply_later();
        }
        if count > 0 {
            self.events.wake();
        }
        count
    }

    /// Deals with messages that this host has received, here and in other threads. How the peer's session
    /// ends comes by another way, which may be faster.
    pub(crate) fn deal_with_what_came(&self) {
        // A peer that sends without end is not waited for.
        let mut rounds = 0..ROUNDS_MAX;
        let mut idle = 0;
        while idle < ROUNDS_IDLE && rounds.next().is_some() {
            idle = if self.progress() == 0 { idle + 1 } else { 0 };
        }
        drop(self.reading.write());
    }

    /// Makes progress until `ready`, which is called often, and not again once it has said so; `false` if
    /// that takes longer than the settings allow. Spins first, then sleeps, at most `longest_sleep` without a
    /// look.
    #[inline]
    pub(crate) fn wait_until(
        &self,
        spin: &Spin,
        longest_sleep: Duration,
        ready: impl FnMut() -> bool,
    ) -> bool {
        self.wait_while_bytes_travel(spin, longest_sleep, None, ready)
    }

    /// The same; where it is for a peer, the settings' limit begins anew while bytes travel to it or from it.
    #[inline]
    fn wait_while_bytes_travel(
        &self,
        spin: &Spin,
        longest_sleep: Duration,
        peer: Option<&PeerState>,
        mut ready: impl FnMut() -> bool,
    ) -> bool {
        if ready() {
            return true;
        }
        let _at_work = self.at_work();
        let (started, limit) = (Instant::now(), spin.limit());
        let mut lasting = Lasting::new(self.settings.give_up_after);
        let mut has_slept = false;
        loop {
            // Relaxed: the progress thread only needs to see that it changes.
            self.others_work.fetch_add(1, Ordering::Relaxed);
            let is_new = self.progress() > 0;
            if ready() {
                spin.learn(limit, (!has_slept).then(|| started.elapsed()));
                return true;
            }
            let waited = started.elapsed();
            let Some(rest) = lasting.rest(waited, || Some(peer?.carried()?.bytes)) else { return false };
            if is_new || waited < limit {
                spin_loop();
                continue;
            }
            has_slept = true;
            if self.sleep(rest.min(longest_sleep), &mut ready) {
                spin.learn(limit, None);
                return true;
            }
        }
    }

    #[cold]
    fn sleep(&self, longest: Duration, ready: impl FnMut() -> bool) -> bool {
        let (fd, poller) = (self.port.wait_fd(), self.events.try_poller());
        let is_ready = match (fd, &poller) {
            (Some(fd), Some(poller)) => {
                self.events.poll(poller, fd, longest, ready, || self.port.may_sleep())
            }
            _ => self.events.sleep(longest, ready),
        };
        drop(poller);
        self.events.end_long_nap();
        is_ready
    }

    fn limit_ms(&self) -> u64 {
        u64::try_from(self.settings.give_up_after.as_millis()).unwrap_or(u64::MAX)
    }

    /// Takes a slot for an operation; waits for one if all are under way.
    #[inline]
    pub(crate) fn claim(&self, peer: &Arc<PeerState>, kind: Kind) -> Result<usize> {
        peer.check()?;
        // Relaxed: it affects speed only. What has nothing under way is soon waited for.
        let is_in_a_row = kind == Kind::Put && peer.held.load(Ordering::Relaxed) > 0;
        if is_in_a_row && self.claims.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK_EVERY) {
            self.others_work.fetch_add(1, Ordering::Relaxed);
            self.progress();
        }
        if let Some(slot) = self.slots.claim(peer, kind) {
            return self.unless_held(slot, peer);
        }
        let mut claimed = None;
        self.wait_while_bytes_travel(&self.spin, Duration::MAX, Some(peer), || {
            claimed = self.slots.claim(peer, kind);
            claimed.is_some() || peer.is_failed()
        });
        match claimed {
            Some(slot) => self.unless_held(slot, peer),
            None => {
                peer.check()?;
                let error = timed_out(peer, kind, self.limit_ms(), "all buffers were in use");
                // Its own operations have not ended, or those of others.
                let is_its_own = peer.held.load(Ordering::SeqCst) >= SLOTS_OF_A_PEER;
                Err(if is_its_own { peer.failed_by(error) } else { error })
            }
        }
    }

    /// Takes a slot for an operation, if one is free now.
    pub(crate) fn claim_now(&self, peer: &Arc<PeerState>, kind: Kind) -> Result<Option<usize>> {
        peer.check()?;
        let mut slot = self.slots.claim(peer, kind);
        if slot.is_none() {
            self.progress();
            slot = self.slots.claim(peer, kind);
        }
        slot.map(|slot| self.unless_held(slot, peer)).transpose()
    }

    /// Who holds the peer has either seen the slot, or is seen here.
    #[inline]
    fn unless_held(&self, slot: usize, peer: &PeerState) -> Result<usize> {
        if !peer.is_held() {
            return Ok(slot);
        }
        self.slots.unclaim(slot);
        Err(taken_over(peer))
    }

    /// Posts the operation of a claimed slot, again while the provider has no room. If it fails, the slot is
    /// given back.
    #[inline]
    pub(crate) fn post(
        &self,
        slot: usize,
        peer: &Arc<PeerState>,
        kind: Kind,
        post: impl Fn() -> Posted,
    ) -> Result<()> {
        let mut posted = post();
        if posted == Posted::Again {
            self.counters.again.fetch_add(1, Ordering::Relaxed);
            let waiting = self.slots.waits(slot);
            let mut is_held = false;
            self.wait_while_bytes_travel(&self.spin, ASK_AGAIN, Some(peer), || {
                // Before it is posted: who holds the peer has seen the slot, or is seen here.
                is_held = peer.is_held();
                if !is_held {
                    posted = post();
                }
                is_held || posted != Posted::Again || peer.is_failed()
            });
            self.slots.waits_no_more(slot, waiting);
            if is_held {
                self.slots.unclaim(slot);
                return Err(taken_over(peer));
            }
        }
        let error = match posted {
            Posted::Yes => return Ok(()),
            Posted::Failed(errno) => {
                let failure = Failure { errno, detail: "it was not begun".to_owned() };
                self.error_of(peer, kind, &failure)
            }
            Posted::Again => match peer.check() {
                Err(error) => error,
                Ok(()) => timed_out(peer, kind, self.limit_ms(), "the provider took no operation"),
            },
        };
        self.slots.unclaim(slot);
        Err(peer.failed_by(error))
    }

    /// Posts the operation of a claimed slot, if the provider has room now; if not, or if it fails, the slot
    /// is given back.
    pub(crate) fn post_if_room(
        &self,
        slot: usize,
        peer: &Arc<PeerState>,
        kind: Kind,
        post: impl FnOnce() -> Posted,
    ) -> Result<bool> {
        let error = match post() {
            Posted::Yes => return Ok(true),
            Posted::Again => {
                self.counters.again.fetch_add(1, Ordering::Relaxed);
                self.slots.unclaim(slot);
                return Ok(false);
            }
            Posted::Failed(errno) => {
                let failure = Failure { errno, detail: "it was not begun".to_owned() };
                self.error_of(peer, kind, &failure)
            }
        };
        self.slots.unclaim(slot);
        Err(peer.failed_by(error))
    }

    /// Waits for an operation that has an outcome. The slot stays the caller's, unless it failed.
    pub(crate) fn finish(&self, slot: usize, peer: &PeerState, kind: Kind) -> Result<Option<Answer>> {
        self.finish_within(slot, peer, kind, self.settings.give_up_after)
    }

    /// The same for at most that long.
    pub(crate) fn finish_within(
        &self,
        slot: usize,
        peer: &PeerState,
        kind: Kind,
        limit: Duration,
    ) -> Result<Option<Answer>> {
        let mut outcome = None;
        let (until, longest_sleep) = match Instant::now().checked_add(limit) {
            // Only a limit of its own needs looks at the clock.
            Some(until) if limit < self.settings.give_up_after => (Some(until), limit),
            _ => (None, Duration::MAX),
        };
        self.wait_while_bytes_travel(&self.spin, longest_sleep, Some(peer), || {
            outcome = self.slots.outcome(slot);
            outcome.is_some() || peer.is_failed() || until.is_some_and(|until| Instant::now() >= until)
        });
        match outcome {
            Some(Ok(answer)) => return Ok(answer),
            Some(Err(error)) => {
                self.slots.let_go(slot);
                return Err(peer.failed_by(error));
            }
            None => {}
        }
        // Before it may be gone from what is under way.
        peer.lose(kind);
        self.slots.let_go(slot);
        peer.check()?;
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        Err(peer.failed_by(timed_out(peer, kind, limit_ms, "the peer did not respond")))
    }

    /// Waits for a reply for at most that long. The slot stays the caller's, and the peer has not failed if
    /// there is none.
    pub(crate) fn wait_for_answer(
        &self,
        slot: usize,
        peer: &PeerState,
        limit: Duration,
    ) -> Result<Option<Answer>> {
        let (mut outcome, started) = (None, Instant::now());
        self.wait_until(&self.spin, limit, || {
            outcome = self.slots.outcome(slot);
            outcome.is_some() || peer.is_failed() || started.elapsed() >= limit
        });
        match outcome {
            Some(outcome) => outcome,
            None => {
                peer.check()?;
                let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
                Err(timed_out(peer, Kind::Question, limit_ms, "the peer did not respond"))
            }
        }
    }

    /// Waits until all that was begun for a peer has ended.
    #[inline]
    pub(crate) fn barrier(&self, peer: &PeerState) -> Result<()> {
        if peer.outstanding.load(Ordering::SeqCst) > 0 {
            let mut under_way = self.slots.under_way(peer);
            let have_ended = self.wait_while_bytes_travel(&self.spin, Duration::MAX, Some(peer), || {
                self.slots.have_ended(&mut under_way) || peer.is_failed()
            });
            if !have_ended {
                self.give_up(peer);
            }
        }
        peer.check()
    }

    /// The peer has confirmed nothing for the longest time that is waited for it.
    #[cold]
    pub(crate) fn give_up(&self, peer: &PeerState) {
        peer.fail(&timed_out(peer, Kind::Put, self.limit_ms(), "the peer did not confirm"));
    }

    fn ended(&self, completion: Completion) {
        match completion.slot {
            Some(slot) if slot < SEND_SLOTS => {
                let outcome = match completion.outcome {
                    Ok(_) => Ok(()),
                    Err(failure) => Err(self.error_in(slot, &failure)),
                };
                self.slots.complete(slot, outcome);
            }
            Some(slot) if slot < FIRST_REPLY_SLOT => self.received(slot, completion.outcome),
            Some(slot) => self.replied(slot, completion.outcome),
            None => {
                self.counters.unnamed_errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[cold]
    fn error_in(&self, slot: usize, failure: &Failure) -> OfiError {
        match self.slots.operation(slot) {
            Some((peer, kind)) => self.error_of(&peer, kind, failure),
            None => OfiError::System { call: "an operation", reason: self.port.explain(failure.errno) },
        }
    }

    #[cold]
    fn error_of(&self, peer: &PeerState, kind: Kind, failure: &Failure) -> OfiError {
        OfiError::Completion {
            what: kind.name(),
            peer: peer.name.clone(),
            provider: self.port.provider().to_owned(),
            errno: failure.errno,
            reason: self.port.explain(failure.errno),
            detail: failure.detail.clone(),
        }
    }

    /// Whether the provider had no room for something that is to be posted.
    pub(crate) fn has_put_off(&self) -> bool {
        self.later_count.load(Ordering::Relaxed) > 0 || self.replies.waiting() > 0
    }

    fn receive_again(&self, slot: usize) {
        match self.port.receive(slot) {
            Posted::Yes => {}
            Posted::Again => self.put_off(slot),
            Posted::Failed(_) => {
                self.counters.unnamed_errors.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn put_off(&self, slot: usize) {
        self.later.lock().unwrap_or_else(PoisonError::into_inner).push_back(slot);
        self.later_count.fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    fn post_later(&self) {
        let due = self.later.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some(slot) = due else { return };
        self.later_count.fetch_sub(1, Ordering::Relaxed);
        self.receive_again(slot);
    }
}

/// Why nothing is begun on a peer that is held.
fn taken_over(peer: &PeerState) -> OfiError {
    OfiError::Gone { peer: peer.name.clone(), reason: "another rail takes over".to_owned() }
}

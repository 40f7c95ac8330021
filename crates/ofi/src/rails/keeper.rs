//! The thread that looks after the rails of a link: notices one that has failed, has its end point closed,
//! sends again what was not confirmed, and opens the rail again. What is decided is `recovery`'s; this
//! carries it out; opening a rail again is in [`reopening`](super::reopening).
//!
//! Programs only begin chunks and wait for them. So a link recovers also while its program computes.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use shm::sync::{AtomicBool, Ordering};

use super::Reduced;
use super::core::{Again, Begun, Core, Lane, State};
use super::outbox::Outbox;
use super::probe;
use super::question::{Answer, Question};
use super::recovery::Action;
use super::watch::UNKNOWN;
use crate::endpoint::Endpoint;
use crate::error::{OfiError, Result};
use crate::message::ANSWER_WORDS;
use crate::slots::Slots;

/// How often it looks while a rail has something under way, or has failed.
const LOOK: Duration = Duration::from_millis(2);
/// How long a question about a rail may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

/// A rail confirms while another one does not if it is silent for so many times less.
const LESS_SILENT: u32 = 4;
/// How long the rail that carries questions may confirm nothing before the managers carry them.
const DOUBTFUL: Duration = Duration::from_millis(500);

type OpenAgain = dyn Fn(usize, &Endpoint) -> Result<Endpoint> + Send + Sync;

/// How often those that are not used are told anew: who is told may have been started anew.
const TELL_AGAIN: Duration = Duration::from_secs(2);

type Tell = dyn Fn(&[Reduced]) -> bool + Send + Sync;

type AskOwner = dyn Fn(&[u8], Duration) -> Option<[u64; ANSWER_WORDS]> + Send + Sync;

/// What a link needs to go on without a rail.
pub struct Recover {
    /// Of the owner, at its end point of each rail: they answer by [`OwnerRails`](super::OwnerRails).
    pub bells: Vec<u64>,
    /// The owner's number of each rail, from 0 on.
    pub numbers: Vec<u8>,
    /// An end point of this side for the n-th rail of the link (from 0 on) that is to be used again: another
    /// one than that it had.
    pub open: Box<OpenAgain>,
    /// All messages have numbers, and the link leads to no memory.
    pub outbox: Option<Outbox>,
    /// Is told which rails are not used when that changes, and now and then while there are any: it must not
    /// wait. `false`: it is to be told once more.
    pub tell: Box<Tell>,
    /// Asks the owner, who answers by [`OwnerRails::answer`](super::OwnerRails::answer), over no rail, and
    /// waits for at most that long; `None`: there is no answer. For when the only rail that is used responds
    /// no more, while another one could be opened again.
    pub ask: Box<AskOwner>,
}

impl std::fmt::Debug for Recover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recover").finish_non_exhaustive()
    }
}

/// Wakes the keeper.
#[derive(Debug, Default)]
pub(super) struct Bell {
    has_rung: Mutex<bool>,
    rings: Condvar,
    /// Whether it sleeps until it is woken.
    is_asleep: AtomicBool,
    is_over: AtomicBool,
}

impl Bell {
    /// There is something to look after; a load if the keeper is awake.
    #[inline]
    pub(super) fn ring(&self) {
        if self.is_asleep.load(Ordering::SeqCst) {
            *self.has_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
            self.rings.notify_one();
        }
    }

    /// The keeper is to end.
    pub(super) fn end(&self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Awake or not: it looks at `is_over` before it sleeps, behind the lock.
        *self.has_rung.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.rings.notify_one();
    }

    fn sleep(&self, longest: Duration) {
        let has_rung = self.has_rung.lock().unwrap_or_else(PoisonError::into_inner);
        let woken = self.rings.wait_timeout_while(has_rung, longest, |has_rung| !*has_rung);
        let (mut has_rung, _) = woken.unwrap_or_else(PoisonError::into_inner);
        *has_rung = false;
        self.is_asleep.store(false, Ordering::SeqCst);
    }
}

/// Runs until the link is dropped or has failed.
pub(super) fn run(core: &Weak<Core>, bell: &Arc<Bell>) {
    let (mut last, mut slept) = (Instant::now(), Duration::ZERO);
    let mut reports = Reports::default();
    while let Some(core) = core.upgrade() {
        if bell.is_over.load(Ordering::SeqCst) || core.ended.get().is_some() {
            return;
        }
        let now = Instant::now();
        // A thread that was held up does not know whether a rail was silent meanwhile.
        let since = now.duration_since(last).min(2 * LOOK);
        last = now;
        core.keep(since, slept);
        let is_told = reports.tell(&core, now);
        // From here on who begins something rings; what was begun before is seen by the look.
        bell.is_asleep.store(true, Ordering::SeqCst);
        let is_idle = is_told && core.is_idle();
        drop(core);
        slept = Duration::ZERO;
        if is_idle {
            let begun = Instant::now();
            bell.sleep(probe::PERIOD);
            last = Instant::now();
            slept = last.duration_since(begun).min(probe::PERIOD);
        } else {
            bell.is_asleep.store(false, Ordering::SeqCst);
            bell.sleep(LOOK);
        }
    }
}

/// What was told last, and when.
#[derive(Default)]
struct Reports(Option<(Vec<usize>, Instant)>);

impl Reports {
    /// Whether nothing is left to be told.
    fn tell(&mut self, core: &Core, now: Instant) -> bool {
        let reduced = core.reduced();
        let rails: Vec<_> = reduced.iter().map(|reduced| reduced.rail).collect();
        let is_news = match &self.0 {
            None => !rails.is_empty(),
            Some((told, at)) => rails != *told || !rails.is_empty() && now.duration_since(*at) >= TELL_AGAIN,
        };
        if let Some(recover) = core.recover.as_ref().filter(|_| is_news)
            && (recover.tell)(&reduced)
        {
            self.0 = Some((rails, now));
            return true;
        }
        !is_news
    }
}

impl Core {
    /// Rails that are not used.
    pub(super) fn reduced(&self) -> Vec<Reduced> {
        let state = self.state();
        let reduced = |rail| {
            let (_, why) = state.recovery.reduced(rail)?;
            let since = state.lanes[rail].failed?.elapsed();
            Some(Reduced { rail: self.number(rail).into(), since, why })
        };
        (0..self.count).filter_map(reduced).collect()
    }

    /// Whether nothing can go wrong before somebody rings.
    fn is_idle(&self) -> bool {
        let state = self.state();
        let is_quiet = |(nth, lane): (usize, &Lane)| {
            let is_empty = lane.bytes() == 0 && lane.begun.is_empty() && lane.looks == 0;
            state.recovery.generation_if_up(nth).is_some() && is_empty
        };
        let is_open = self.outbox().is_some_and(Outbox::is_open);
        let are_quiet = state.again.is_empty() && !Self::is_probing(&state) && !is_open;
        are_quiet && state.lanes.iter().enumerate().all(is_quiet)
    }

    fn keep(&self, since: Duration, slept: Duration) {
        let are_dead = self.are_rails_silent() && self.owner_answers();
        match self.notice(since, slept, are_dead) {
            Ok(actions) => self.carry_out(actions),
            Err(error) => drop(self.end(error)),
        }
        self.ask_to_close();
        self.send_again();
        self.open_again();
    }

    /// Looks for rails that have failed; an error ends the link. `are_dead`: none responds, but the owner
    /// answers by way of the managers.
    fn notice(&self, since: Duration, slept: Duration, are_dead: bool) -> Result<Vec<Action>> {
        let now_ns = self.now_ns();
        let least = self.first.inside.engine.settings.rail_silence;
        let mut state = self.state();
        // What was begun meanwhile is not late by that.
        state.clock += since + slept;
        for lane in &mut state.lanes {
            let bytes = lane.bytes();
            lane.pace.look(now_ns, bytes);
            // Relaxed: a later look sees it.
            lane.watch.look(lane.peer.state.chunks_ended.load(Ordering::Relaxed), bytes, since);
            let under_way = lane.peer.inside.engine.slots.has_done_once(&lane.peer.state);
            lane.shorts.look(lane.peer.state.ended().into(), under_way.into(), since);
        }
        state.look_for_travel(least);
        let have_no_response = self.probe(&mut state)?;
        self.check_outbox(&state)?;
        let mut actions = std::mem::take(&mut state.put_off);
        actions.extend(self.failed_rails(&mut state, &have_no_response, are_dead));
        let (now_ms, clock) = (state.now_ms(), state.clock);
        let State { lanes, recovery, lead, .. } = &mut *state;
        let is_doubtful = |nth: usize| lanes[nth].is_doubtful(clock, DOUBTFUL);
        if (0..lanes.len()).all(|nth| recovery.generation_if_up(nth).is_none() || is_doubtful(nth)) {
            recovery.hurry(now_ms);
        }
        actions.extend(recovery.tick(now_ms));
        if recovery.generation_if_up(*lead).is_none() && !self.move_lead(&mut state) {
            state.put_off = actions;
            return Ok(Vec::new());
        }
        Ok(actions)
    }

    /// The rails that have failed by now, and what follows from it.
    fn failed_rails(&self, state: &mut State, have_no_response: &[bool], are_dead: bool) -> Vec<Action> {
        let (now_ns, now_ms) = (self.now_ns(), state.now_ms());
        let least = self.first.inside.engine.settings.rail_silence;
        let (long_silence, no_travel) = (state.patience(self.long_silence()), state.patience(UNKNOWN));
        let State { lanes, recovery, clock, lead, .. } = state;
        let is_silent = |lane: &Lane| {
            let most = if lane.travel.is_known() { no_travel } else { Duration::MAX };
            let rate = lane.pace.rate(now_ns).filter(|_| lane.pace.is_steady(now_ns));
            lane.watch.is_silent(lane.bytes(), rate, (least, most), no_travel)
        };
        let are_silent: Vec<_> = lanes.iter().map(is_silent).collect();
        let is_up: Vec<_> = (0..lanes.len()).map(|nth| recovery.generation_if_up(nth).is_some()).collect();
        // One that is silent itself, though not for as long, says nothing of another one.
        let silent: Vec<_> = lanes.iter().map(|lane| lane.silent(*clock)).collect();
        let other_confirms = |nth: usize| {
            let confirms = |other: usize| is_up[other] && silent[other] * LESS_SILENT <= silent[nth];
            (0..is_up.len()).any(|other| other != nth && confirms(other))
        };
        let mut actions = Vec::new();
        for (nth, lane) in lanes.iter_mut().enumerate().filter(|(nth, _)| is_up[*nth]) {
            let failure = lane.peer.failure();
            let why = if let Some(error) = &failure {
                why_failed(error)
            } else if are_silent[nth] && other_confirms(nth) {
                "it confirmed nothing while another rail did"
            } else if have_no_response[nth] {
                "it did not respond while another rail did"
            } else if are_dead && lane.is_doubtful(*clock, long_silence) {
                "it did not respond while its owner did"
            } else {
                if lane.looks > 0 {
                    Self::use_again(lane);
                }
                continue;
            };
            // Nothing is lost yet: what is under way may end.
            if nth == *lead && failure.is_none() && Self::is_in_use(lane) != Some(false) {
                continue;
            }
            actions.extend(recovery.failed(nth, lane.generation, why, now_ms));
        }
        actions
    }

    fn carry_out(&self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::PeerFailed => {
                    // That a rail was given up says nothing of why.
                    let why = self.lead_peer().failure().filter(|why| !matches!(why, OfiError::Gone { .. }));
                    self.end(why.unwrap_or_else(|| self.none_confirms()));
                }
                Action::AskToClose { rail, generation, .. } => {
                    let mut state = self.state();
                    // What has numbers may come late, and a question too: then the end point need not be
                    // closed, which others use as well.
                    let may_land_late = self.may_land_late(&state, rail, generation);
                    let lane = &mut state.lanes[rail];
                    lane.is_closing = may_land_late;
                    lane.failed.get_or_insert_with(Instant::now);
                    if let Some(probe) = lane.asked.take().and_then(|asked| asked.probe) {
                        lane.peer.end_probe(&probe);
                    }
                    // Those that wait for it go on over another rail.
                    lane.peer.lost("the rail has failed");
                    drop(state);
                    if !may_land_late {
                        self.closed(rail, generation);
                    }
                }
                // Taken up when the owner has closed the end point: see `closed`.
                Action::SendAgain(_) => {}
                Action::Open { rail, generation } => self.begin_to_open(rail, generation),
            }
        }
    }

    /// Whether bytes that were begun on a rail that has failed would do harm if they landed late.
    fn may_land_late(&self, state: &State, rail: usize, generation: u32) -> bool {
        let has_chunks = !state.lanes[rail].begun.is_empty();
        self.outbox().is_none() && (has_chunks || self.suspension.waits_for(rail, generation))
    }

    /// Asks the owner to close end points of rails that have failed.
    fn ask_to_close(&self) {
        for nth in 0..self.count {
            let (is_closing, generation) = {
                let state = self.state();
                (state.lanes[nth].is_closing, state.lanes[nth].generation)
            };
            if !is_closing {
                continue;
            }
            match self.ask(&Question::Close { rail: self.number(nth), generation }) {
                Ok(Answer::Wait) | Err(_) => {}
                Ok(Answer::Closed) => self.closed(nth, generation),
                Ok(Answer::Refused | Answer::Open { .. } | Answer::Part(_) | Answer::Counted(_)) => {
                    self.end(OfiError::Gone {
                        peer: self.peers()[nth].name().to_owned(),
                        reason: "its owner could not close an end point".to_owned(),
                    });
                }
            }
        }
    }

    /// The owner's, of a rail.
    pub(super) fn number(&self, nth: usize) -> u8 {
        let number = self.recover.as_ref().and_then(|recover| recover.numbers.get(nth));
        // Which the owner refuses.
        number.copied().unwrap_or(u8::MAX)
    }

    /// Over the rail that carries all but long blocks, or by way of the managers where that does not respond.
    /// It may be asked again, also over another one.
    pub(super) fn ask(&self, question: &Question) -> Result<Answer> {
        let begun = Instant::now();
        let answer = self.answer_to(question);
        self.has_waited(begun);
        answer
    }

    fn answer_to(&self, question: &Question) -> Result<Answer> {
        let (peer, bell, is_doubtful) = {
            let state = self.state();
            let lane = &state.lanes[state.lead];
            (Arc::clone(&lane.peer), lane.bell, lane.is_doubtful(state.clock, DOUBTFUL))
        };
        let question = question.encode();
        let over_no_rail = || {
            let recover = self.recover.as_ref()?;
            (recover.ask)(&question, ANSWER_LIMIT).map(Answer::of)
        };
        if is_doubtful && let Some(answer) = over_no_rail() {
            return Ok(answer);
        }
        match peer.ask_within(bell, &question, ANSWER_LIMIT) {
            Ok(words) => Ok(Answer::of(words)),
            // There is no owner any more.
            Err(error @ OfiError::Refused { .. }) => Err(self.end(error)),
            Err(error) if is_doubtful => Err(error),
            Err(error) => over_no_rail().ok_or(error),
        }
    }

    /// Whether the owner answers by way of the managers.
    fn owner_answers(&self) -> bool {
        // About an end point that is not there: any answer will do.
        let question = Question::Part { rail: u8::MAX, generation: u32::MAX, nth: 0 };
        let begun = Instant::now();
        let recover = self.recover.as_ref();
        let answer = recover.and_then(|recover| (recover.ask)(&question.encode(), ANSWER_LIMIT));
        self.has_waited(begun);
        // The managers' session goes over one of the rails: where it takes long, they do.
        self.state().managers_took = begun.elapsed();
        answer.is_some()
    }

    /// Time that the keeper itself has waited counts for the decisions: it was not held up.
    fn has_waited(&self, begun: Instant) {
        let waited = begun.elapsed().min(ANSWER_LIMIT);
        self.state().clock += waited;
    }

    /// Nothing lands there any more: what was not confirmed is sent again.
    fn closed(&self, nth: usize, generation: u32) {
        let mut state = self.state();
        let now_ms = state.now_ms();
        let State { lanes, recovery, again, .. } = &mut *state;
        let lane = &mut lanes[nth];
        lane.is_closing = false;
        let is_dropped = self.suspension.closed(nth, generation);
        if !recovery.is_closing(nth, generation) {
            return;
        }
        let actions = recovery.closed(nth, generation, now_ms);
        for begun in lane.begun.drain(..) {
            if !is_dropped && actions.contains(&Action::SendAgain(begun.chunk)) {
                let Begun { chunk, turn, slot, operation, target } = begun;
                again.push(Again { chunk, turn, from: Arc::clone(&lane.peer), slot, operation, target });
            } else {
                slots(&lane.peer).let_go_of(begun.slot, begun.operation);
            }
        }
        again.sort_by_key(|again| again.chunk);
        self.count_others(&state);
    }

    /// Begins what is to be sent again, as far as rails have room, in its order.
    fn send_again(&self) {
        loop {
            let mut state = self.state();
            let Some(again) = state.again.first() else { return };
            let (chunk, turn, target) = (again.chunk, again.turn, again.target.clone());
            let (from, slot, operation) = (Arc::clone(&again.from), again.slot, again.operation);
            let has_earlier = |state: &State, nth: usize| state.recovery.has_earlier(nth, chunk.block);
            let order = self.order(&mut state, target.len, has_earlier);
            let fill = |memory: &shm::window::Window<'_>| {
                Ok(from.inside.engine.port.slot(slot)?.copy_to(0, memory, 0, target.len)?)
            };
            let mut has_begun = false;
            for nth in order {
                match self.begin(&mut state, nth, (chunk, turn), &target, fill) {
                    Ok(true) => has_begun = true,
                    Ok(false) => continue,
                    // The link has ended.
                    Err(_) => return,
                }
                break;
            }
            if !has_begun {
                return;
            }
            state.again.remove(0);
            self.count_others(&state);
            slots(&from).let_go_of(slot, operation);
        }
    }
}

/// Why a rail is not used whose connection has failed by this error.
fn why_failed(error: &OfiError) -> &'static str {
    match error {
        OfiError::TimedOut { .. } => "it confirmed nothing",
        OfiError::Gone { .. } => "its connection was given up",
        _ => "its provider reported an error",
    }
}

fn slots(peer: &crate::Peer) -> &Slots {
    &peer.inside.engine.slots
}

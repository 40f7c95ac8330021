//! The rail that carries all but long blocks: the first one, until it fails, and another one from then on.
//!
//! A short put must not be done a second time: the owner may have seen that it was done, and gone on. So
//! another rail takes over at once only if none is under way on the one that fails, or was lost there; if one
//! is, the link is suspended until the program has been told ([`suspension`](super::suspension)). Who is
//! about to begin one while that is looked at begins it on the other rail. Messages that have numbers may be
//! sent again, atomic operations too ([`orders`](super::orders)): they do not keep another rail from taking
//! over.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use shm::sync::Ordering;

use super::core::{Core, Lane, State};
use crate::card::MemoryCard;
use crate::error::{OfiError, Result};
use crate::peer::Peer;

/// Between two looks whether another rail has taken over.
const LOOK: Duration = Duration::from_millis(1);
/// So many looks of the keeper at what is under way on a rail that fails: who has found that nothing may be
/// begun there gives its slot back in a moment.
const LOOKS: u32 = 10;

/// See the module; it costs nothing while it is the first one.
pub(crate) struct Lead<'a> {
    peer: Which<'a>,
    nth: usize,
    /// The owner's doorbell there that answers.
    bell: u64,
    /// Of an end point that was opened later than the link.
    card: Option<MemoryCard>,
}

enum Which<'a> {
    First(&'a Peer),
    Other(Arc<Peer>),
}

impl Lead<'_> {
    #[inline]
    pub(crate) fn peer(&self) -> &Peer {
        match &self.peer {
            Which::First(peer) => peer,
            Which::Other(peer) => peer,
        }
    }

    /// The owner's doorbell that answers questions, and takes messages that have numbers.
    #[inline]
    pub(crate) fn bell(&self) -> u64 {
        self.bell
    }

    /// Of the memory that has these cards.
    #[inline]
    pub(crate) fn card<'c>(&'c self, cards: &'c [MemoryCard]) -> &'c MemoryCard {
        self.card.as_ref().unwrap_or(&cards[self.nth])
    }
}

impl Core {
    #[inline]
    pub(super) fn lead(&self) -> Lead<'_> {
        if !self.has_moved.load(Ordering::SeqCst) {
            let bells = self.recover.as_ref().map(|recover| recover.bells.as_slice());
            let bell = bells.and_then(|bells| bells.first()).copied().unwrap_or(0);
            return Lead { peer: Which::First(&self.first), nth: 0, bell, card: None };
        }
        let state = self.locked();
        let (nth, lane) = (state.lead, &state.lanes[state.lead]);
        let peer = Which::Other(Arc::clone(&lane.peer));
        Lead { peer, nth, bell: lane.bell, card: lane.card.clone() }
    }

    /// The peer of that rail.
    pub(super) fn lead_peer(&self) -> Arc<Peer> {
        let state = self.locked();
        Arc::clone(&state.lanes[state.lead].peer)
    }

    /// Does what is no long block. If the rail fails before it has begun, it is done over the one that takes
    /// over.
    #[inline]
    pub(crate) fn over_lead<T>(&self, mut act: impl FnMut(&Lead<'_>) -> Result<T>) -> Result<T> {
        let lead = self.lead();
        // After the rail was chosen: one that has taken over from a rail with something in doubt is not used
        // before that was told.
        if self.suspension.is_on() {
            return Err(self.in_doubt());
        }
        match act(&lead) {
            Err(error) if self.recover.is_some() => self.again_over_lead(lead.peer(), error, act),
            done => done,
        }
    }

    #[cold]
    fn again_over_lead<T>(
        &self,
        failed: &Peer,
        error: OfiError,
        mut act: impl FnMut(&Lead<'_>) -> Result<T>,
    ) -> Result<T> {
        self.wait_for_other_lead(failed, error)?;
        loop {
            let _no_chunks = self.others_are_done()?;
            let lead = self.lead();
            self.check()?;
            match act(&lead) {
                Err(error) => self.wait_for_other_lead(lead.peer(), error)?,
                done => return done,
            }
        }
    }

    /// After an error of a rail, until another one has taken over, or this one may be used again; an error if
    /// it is another one, or the link's.
    fn wait_for_other_lead(&self, failed: &Peer, error: OfiError) -> Result<()> {
        loop {
            self.check()?;
            let is_it = std::ptr::eq(self.lead().peer(), failed);
            let may_go_on = !failed.state.is_failed() && !failed.state.is_held();
            if is_it && may_go_on && !matches!(error, OfiError::Gone { .. }) {
                return Err(error);
            }
            if !is_it || may_go_on {
                return Ok(());
            }
            self.keeper.ring();
            std::thread::sleep(LOOK);
        }
    }

    /// Whether something is under way on a rail, or was lost there, that must not be done a second time;
    /// `None`: look again a moment later, without the lock meanwhile. From the first look on nothing is begun
    /// there.
    fn is_in_doubt(lane: &mut Lane) -> Option<bool> {
        let (engine, state) = (&lane.peer.inside.engine, &lane.peer.state);
        state.hold(true);
        engine.progress();
        // In this order: what leaves the slots by a failure is lost before.
        if !engine.slots.has_done_once(state) {
            return Some(state.has_lost());
        }
        lane.looks += 1;
        (lane.looks >= LOOKS).then_some(true)
    }

    /// The same of a rail that has not failed. If so, it may be used again.
    pub(super) fn is_in_use(lane: &mut Lane) -> Option<bool> {
        let has_posted = lane.peer.inside.engine.slots.has_posted_once(&lane.peer.state);
        let is_in_use = if has_posted { Some(true) } else { Self::is_in_doubt(lane) };
        if is_in_use == Some(true) {
            Self::use_again(lane);
        }
        is_in_use
    }

    /// Something may be begun on the rail that carries what is short, after it was doubted.
    pub(super) fn use_again(lane: &mut Lane) {
        lane.looks = 0;
        lane.peer.state.hold(false);
    }

    /// The rail that carries all but long blocks is not used any more: another one takes over, or, where none
    /// is left, the first one that is open again. If something was under way there that must not be done a
    /// second time, the link is suspended. `false`: that is not known yet; this is to be called again before
    /// anything is done about the rail.
    pub(super) fn move_lead(&self, state: &mut State) -> bool {
        let (nth, generation) = (state.lead, state.lanes[state.lead].generation);
        // Once for each end point: this is called again until another rail is used.
        if state.lost_lead != Some((nth, generation)) {
            let Some(is_in_doubt) = Self::is_in_doubt(&mut state.lanes[nth]) else { return false };
            state.lost_lead = Some((nth, generation));
            if is_in_doubt {
                self.suspension.begin(nth, generation);
            }
            self.has_moved.store(true, Ordering::SeqCst);
        }
        if let Some(other) = (0..self.count).find(|nth| state.recovery.generation_if_up(*nth).is_some()) {
            state.lead = other;
        }
        true
    }

    pub(super) fn locked(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Which lanes are looked at in a turn.
//!
//! Those that lately had something are looked at each time (*hot*), of the others one a turn, so that a
//! thousand peers that say nothing cost as much as one. A lane that has something becomes hot; a hot one that
//! has had nothing for many turns while others had becomes cold again, unless only a few are hot.

use std::sync::Arc;
use std::time::Duration;

use shm::doorbell::{Deadline, Signal, Sleep, sleep_until_any};
use shm::sync::AtomicU32;

use crate::alarm::{Alarm, Armed};
use crate::lane::Inlet;
use crate::matching::PeerId;

/// So many lanes stay hot whatever they do: to look at them costs less than a message.
const ALWAYS_HOT: usize = 8;
/// A hot lane becomes cold after so many looks that found nothing since any lane had something.
const PATIENCE: u32 = 1024;
/// While there is always something in hot lanes, a cold one is looked at every so many turns.
const COLD_EVERY: u32 = 16;

/// The receiving end of a lane.
#[derive(Debug)]
pub(crate) struct Inbox<I> {
    pub(crate) peer: PeerId,
    pub(crate) inlet: I,
    /// What the end point's count of changes was when the next record had to be left where it is.
    pub(crate) left_at: Option<u64>,
    /// The peer has ended, and nothing more comes once this is empty.
    pub(crate) is_last: bool,
    misses: u32,
    /// Of the inlet, once somebody has slept without it.
    signal: Option<Arc<Signal>>,
}

/// All of them: the hot ones first.
#[derive(Debug)]
pub(crate) struct Inboxes<I> {
    all: Vec<Inbox<I>>,
    hot: usize,
    next_cold: usize,
    turns: u32,
}

impl<I> Default for Inboxes<I> {
    fn default() -> Self {
        Self { all: Vec::new(), hot: 0, next_cold: 0, turns: 0 }
    }
}

impl<I> Inboxes<I> {
    pub(crate) fn push(&mut self, peer: PeerId, inlet: I) {
        self.all.push(Inbox { peer, inlet, left_at: None, is_last: false, misses: 0, signal: None });
        self.heat(self.all.len() - 1);
    }

    pub(crate) fn of(&self, peer: PeerId) -> Option<&Inbox<I>> {
        self.all.iter().find(|inbox| inbox.peer == peer)
    }

    pub(crate) fn of_mut(&mut self, peer: PeerId) -> Option<&mut Inbox<I>> {
        self.all.iter_mut().find(|inbox| inbox.peer == peer)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Inbox<I>> {
        self.all.iter()
    }

    pub(crate) fn each(&mut self, look: impl FnMut(&mut Inbox<I>)) {
        self.all.iter_mut().for_each(look);
    }

    /// Drops those for which `is_over` says so.
    pub(crate) fn drop_if(&mut self, mut is_over: impl FnMut(&Inbox<I>) -> bool) {
        self.all.retain(|inbox| !is_over(inbox));
        self.hot = self.hot.min(self.all.len());
        for at in self.hot..self.all.len().min(ALWAYS_HOT) {
            self.heat(at);
        }
    }

    /// Looks at the hot ones and perhaps at a cold one: `look` says whether there was something. Whether
    /// there was anything.
    #[inline]
    pub(crate) fn turn(&mut self, mut look: impl FnMut(&mut Inbox<I>) -> bool) -> bool {
        let mut is_any = false;
        for inbox in self.all.get_mut(..self.hot).unwrap_or_default() {
            if look(inbox) {
                inbox.misses = 0;
                is_any = true;
            } else {
                inbox.misses = inbox.misses.saturating_add(1);
            }
        }
        if self.all.len() > ALWAYS_HOT {
            self.turns = self.turns.wrapping_add(1);
            if !is_any || self.turns.is_multiple_of(COLD_EVERY) {
                is_any |= self.look_at_cold(&mut look);
            }
            if is_any {
                self.cool();
            }
        }
        is_any
    }

    fn look_at_cold(&mut self, look: &mut impl FnMut(&mut Inbox<I>) -> bool) -> bool {
        if self.next_cold < self.hot || self.next_cold >= self.all.len() {
            self.next_cold = self.hot;
        }
        let at = self.next_cold;
        self.next_cold += 1;
        let is_any = self.all.get_mut(at).is_some_and(look);
        if is_any {
            self.heat(at);
        }
        is_any
    }

    fn heat(&mut self, at: usize) {
        if let Some(inbox) = self.all.get_mut(at) {
            inbox.misses = 0;
            self.all.swap(at, self.hot);
            self.hot += 1;
        }
    }

    /// Makes at most one of the hot ones cold: the first that has been looked at in vain for long.
    fn cool(&mut self) {
        if self.hot > ALWAYS_HOT
            && let Some(at) = self.all.iter().take(self.hot).position(|inbox| inbox.misses > PATIENCE)
        {
            self.hot -= 1;
            self.all.swap(at, self.hot);
        }
    }
}

impl<I: Inlet> Inboxes<I> {
    /// Sleeps until there is something, or until a thread of this process changes `own` from 0 and wakes its
    /// sleepers, for `limit` at most: whether it could.
    pub(crate) fn sleep(&self, own: &AtomicU32, limit: Duration) -> bool {
        // Where something was left, room for it comes from the program itself.
        let waiters = self.all.iter().map(|inbox| inbox.inlet.waiter().filter(|_| inbox.left_at.is_none()));
        let Some(waiters) = waiters.collect::<Option<Vec<_>>>() else { return false };
        let until = Deadline::after_ns(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        sleep_until_any(&waiters, own, until, || self.all.iter().any(|inbox| !inbox.inlet.is_empty()))
    }

    /// Has all peers ring for a sleep, and adds to the alarm what they change then. `has_arrivals` says
    /// whether something else has come.
    pub(crate) fn arm(&mut self, alarm: &mut Alarm, sleep: &Sleep, has_arrivals: impl Fn() -> bool) -> Armed {
        for inbox in &mut self.all {
            if inbox.signal.is_none() {
                inbox.signal = inbox.inlet.signal().map(Arc::new);
            }
            // Where something was left, room for it comes from the program itself.
            let waiter = inbox.inlet.waiter().filter(|_| inbox.left_at.is_none());
            let (Some(waiter), Some(signal)) = (waiter, &inbox.signal) else { return Armed::Restless };
            alarm.add_signal(Arc::clone(signal), sleep.arm(&waiter));
        }
        let is_awake = sleep.look(|| has_arrivals() || self.all.iter().any(|inbox| !inbox.inlet.is_empty()));
        if is_awake { Armed::Awake } else { Armed::Asleep }
    }

    /// The sleep has ended.
    pub(crate) fn disarm(&self, sleep: &Sleep) {
        self.all.iter().filter_map(|inbox| inbox.inlet.waiter()).for_each(|waiter| sleep.disarm(&waiter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thousand_silent_peers_cost_one_look_and_are_heard_when_they_speak() {
        let mut inboxes = Inboxes::default();
        for peer in 0..1000 {
            inboxes.push(peer, ());
        }
        // Peer 500 speaks all the time: the others become cold.
        for _ in 0..1_000_000 {
            inboxes.turn(|inbox| inbox.peer == 500);
            if inboxes.hot == ALWAYS_HOT {
                break;
            }
        }
        let mut looks = 0;
        for _ in 0..COLD_EVERY {
            inboxes.turn(|inbox| {
                looks += 1;
                inbox.peer == 500
            });
        }
        assert!(looks <= (ALWAYS_HOT as u32 + 1) * COLD_EVERY, "{looks} looks");
        // Every other one is heard, though that one goes on.
        for speaker in 0..1000 {
            let heard = (0..1000 * COLD_EVERY).any(|_| {
                let mut is_heard = false;
                inboxes.turn(|inbox| {
                    is_heard |= inbox.peer == speaker;
                    inbox.peer == speaker || inbox.peer == 500
                });
                is_heard
            });
            assert!(heard, "peer {speaker}");
        }
        inboxes.drop_if(|inbox| inbox.peer >= 4);
        let mut seen = 0;
        inboxes.turn(|_| {
            seen += 1;
            false
        });
        assert_eq!((seen, inboxes.iter().count()), (4, 4));
        assert!(inboxes.of(3).is_some() && inboxes.of_mut(4).is_none());
    }
}

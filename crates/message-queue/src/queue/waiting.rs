//! How to wait: look again and again at first, then leave the processor to others, then sleep ever longer.
//!
//! The three are told apart by what they cost. To look is cheapest for who waits for what comes at once. To
//! leave the processor is right if who is waited for needs it, and costs a whole slice of time if it is a
//! stranger who wants it. What the waits of an end point have found so far says which it is ([`Patience`]):
//! if what was waited for is there after others have run for a short time, the next wait leaves sooner; if
//! nobody else wanted the processor, the next one looks longer again; and if leaving costs a slice, a wait
//! looks for half of that, and does not lose more by the one than by the other. (Half: two who wait for each
//! other on one processor each count the other's looking as a cost of leaving, and would look ever longer.)
//! Who waits far longer sleeps, a small part of the time that was waited already: so a sleep never makes a
//! wait much longer.

use std::time::{Duration, Instant};

use crate::error::Error;

/// Turns without reading the clock.
const TURNS_PER_READING: u32 = 64;
/// It is looked so long if nothing is known: about what it costs to let another thread run and come back.
const LOOK: Duration = Duration::from_micros(20);
/// It is looked at least so long: about what it costs to read the clock twice between two rows of turns.
const LOOK_MIN: Duration = Duration::from_micros(1);
/// It is never looked for longer without leaving the processor.
const LOOK_MAX: Duration = Duration::from_millis(1);
/// Who is back so soon has found nobody who wanted the processor.
const NOBODY: Duration = Duration::from_micros(2);
/// Longer than that others have a slice of their own; those who only look and leave in turn take less.
const SLICE: Duration = Duration::from_micros(300);
/// From here on a wait sleeps.
const GIVE_WAY: Duration = Duration::from_millis(4);
/// A sleep is this part of the time waited so far …
const SLEEP_PART: u32 = 16;
/// … but not longer than this.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// What the waits of an end point have learnt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// What it has lately cost to leave the processor.
    leaving: Duration,
    /// How long it is looked while leaving costs no slice.
    look: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { leaving: Duration::ZERO, look: LOOK }
    }
}

impl Patience {
    fn look_for(&self) -> Duration {
        if self.leaving > SLICE { (self.leaving / 2).clamp(LOOK, LOOK_MAX) } else { self.look }
    }

    /// Of so many looks that take as long as is looked if nothing is known, how many are made.
    pub(crate) fn looks(&self, usual: u32) -> u32 {
        let share = self.look_for().min(LOOK).subsec_nanos();
        let looks = u64::from(share) * u64::from(usual) / u64::from(LOOK.subsec_nanos());
        // No more than is usual.
        (looks as u32).max(1)
    }

    /// Others had the processor for so long.
    fn has_left(&mut self, took: Duration) {
        self.leaving = (self.leaving * 7 + took) / 8;
        if took < NOBODY {
            self.look = (self.look * 2).min(LOOK);
        }
    }

    /// After that, what was waited for was there.
    fn has_paid(&mut self, took: Duration) {
        if took >= NOBODY && took <= SLICE {
            self.look = (self.look / 2).max(LOOK_MIN);
        }
    }
}

/// One wait.
#[derive(Debug)]
pub(crate) struct Waiting {
    turns: u32,
    limit: Option<Duration>,
    /// When the wait began, once it was asked.
    since: Option<Instant>,
    /// When something last went on.
    moved: Option<Instant>,
    is_alone: bool,
    /// For how long the turn before this one has left the processor, if it has.
    left_for: Option<Duration>,
}

impl Waiting {
    #[inline]
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { turns: 0, limit, since: None, moved: None, is_alone: false, left_for: None }
    }

    /// Something has arrived, so more may.
    #[inline]
    pub(crate) fn went_on(&mut self, patience: &mut Patience) {
        self.moved = None;
        if let Some(took) = self.left_for.take() {
            patience.has_paid(took);
        }
    }

    /// A turn found nothing. Whether it slept, so that there is time to look for those who have ended.
    #[inline]
    pub(crate) fn pause(&mut self, patience: &mut Patience) -> Result<bool, Error> {
        self.turns = self.turns.wrapping_add(1);
        self.left_for = None;
        if !self.is_alone && !self.turns.is_multiple_of(TURNS_PER_READING) {
            return Ok(false);
        }
        self.look_at_clock(patience)
    }

    #[cold]
    fn look_at_clock(&mut self, patience: &mut Patience) -> Result<bool, Error> {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        if self.limit.is_some_and(|limit| now.duration_since(since) >= limit) {
            return Err(Error::TimedOut);
        }
        let waited = now.duration_since(*self.moved.get_or_insert(now));
        // From then on each turn gives way: others may need the processor.
        self.is_alone = waited >= patience.look_for();
        if waited >= GIVE_WAY {
            std::thread::sleep((waited / SLEEP_PART).min(SLEEP_MAX));
            return Ok(true);
        }
        if self.is_alone {
            std::thread::yield_now();
            let took = now.elapsed();
            patience.has_left(took);
            self.left_for = Some(took);
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_looks_for_half_of_what_a_slice_of_others_costs() {
        let look_for = |leaving| Patience { leaving, look: LOOK_MIN }.look_for();
        assert_eq!(look_for(Duration::from_micros(500)), Duration::from_micros(250));
        assert_eq!(look_for(Duration::from_secs(1)), LOOK_MAX);
        assert_eq!(look_for(SLICE), LOOK_MIN);
    }

    #[test]
    fn who_finds_what_it_waits_for_when_others_have_run_leaves_sooner() {
        let mut patience = Patience::default();
        assert_eq!((patience.look_for(), patience.looks(2000)), (LOOK, 2000));
        let others = Duration::from_micros(10);
        for _ in 0..10 {
            patience.has_left(others);
            patience.has_paid(others);
        }
        assert_eq!((patience.look_for(), patience.looks(2000)), (LOOK_MIN, 100));
        // Others run, and it is not there: that says nothing.
        patience.has_left(others);
        assert_eq!(patience.look_for(), LOOK_MIN);
        // Nobody runs: whoever is waited for has a processor of its own.
        for _ in 0..10 {
            patience.has_left(Duration::from_nanos(400));
        }
        assert_eq!(patience.look_for(), LOOK);
        // Strangers take slices: what comes meanwhile did not need the processor.
        let slice = Duration::from_millis(3);
        for _ in 0..10 {
            patience.has_left(slice);
            patience.has_paid(slice);
        }
        assert_eq!((patience.look_for(), patience.looks(2000)), (LOOK_MAX, 2000));
    }

    #[test]
    fn a_wait_without_end_is_ended_by_its_limit() {
        let mut waiting = Waiting::new(Some(Duration::ZERO));
        let error = (0..=TURNS_PER_READING).find_map(|_| waiting.pause(&mut Patience::default()).err());
        assert_eq!(error, Some(Error::TimedOut));
    }
}

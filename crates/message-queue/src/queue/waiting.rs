//! How to wait: look again and again at first, then leave the processor to others, then sleep ever longer.
//!
//! The three are told apart by what they cost. To look is cheapest for who waits for what comes at once. To
//! leave the processor is right if who is waited for needs it, and costs a whole slice of time if it is a
//! stranger who wants it; so a wait looks for half as long as leaving has lately cost ([`Patience`]), and
//! does not lose more by the one than by the other. (Half: two who wait for each other on one processor each
//! count the other's looking as a cost of leaving, and would look ever longer.) Who waits far longer sleeps,
//! a small part of the time that was waited already: so a sleep never makes a wait much longer.

use std::time::{Duration, Instant};

use crate::error::Error;

/// Turns without reading the clock.
const TURNS_PER_READING: u32 = 64;
/// It is looked at least so long: about what it costs to let another thread run and come back.
const LOOK_MIN: Duration = Duration::from_micros(20);
/// It is never looked for longer without leaving the processor.
const LOOK_MAX: Duration = Duration::from_millis(1);
/// From here on a wait sleeps.
const GIVE_WAY: Duration = Duration::from_millis(4);
/// A sleep is this part of the time waited so far …
const SLEEP_PART: u32 = 16;
/// … but not longer than this.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// What the waits of an end point have learnt.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// What it has lately cost to leave the processor.
    leaving: Duration,
}

impl Patience {
    fn look_for(&self) -> Duration {
        (self.leaving / 2).clamp(LOOK_MIN, LOOK_MAX)
    }

    fn leave(&mut self) {
        let before = Instant::now();
        std::thread::yield_now();
        self.leaving = (self.leaving * 7 + before.elapsed()) / 8;
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
}

impl Waiting {
    #[inline]
    pub(crate) fn new(limit: Option<Duration>) -> Self {
        Self { turns: 0, limit, since: None, moved: None, is_alone: false }
    }

    /// Something has arrived, so more may.
    #[inline]
    pub(crate) fn went_on(&mut self) {
        self.moved = None;
    }

    /// A turn found nothing. Whether it slept, so that there is time to look for those who have ended.
    #[inline]
    pub(crate) fn pause(&mut self, patience: &mut Patience) -> Result<bool, Error> {
        self.turns = self.turns.wrapping_add(1);
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
            patience.leave();
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_for_half_of_what_leaving_costs_within_bounds() {
        let look_for = |leaving| Patience { leaving }.look_for();
        assert_eq!(look_for(Duration::ZERO), LOOK_MIN);
        assert_eq!(look_for(Duration::from_micros(300)), Duration::from_micros(150));
        assert_eq!(look_for(Duration::from_secs(1)), LOOK_MAX);
    }

    #[test]
    fn a_wait_without_end_is_ended_by_its_limit() {
        let mut waiting = Waiting::new(Some(Duration::ZERO));
        let error = (0..=TURNS_PER_READING).find_map(|_| waiting.pause(&mut Patience::default()).err());
        assert_eq!(error, Some(Error::TimedOut));
    }
}

//! How to wait: look again and again at first, then leave the processor to others, then sleep ever longer.
//!
//! The three are told apart by what they cost: to look is cheapest for who waits for what comes at once. Whoever waits longer than to
//! let another thread run would take gives the processor away, which matters if there are more threads than processors. Who waits far
//! longer sleeps, a small part of the time that was waited already: so a sleep never makes a wait much longer.

use std::time::{Duration, Instant};

use crate::error::Error;

/// Turns without reading the clock.
const TURNS_PER_READING: u32 = 64;
/// About what it costs to let another thread run and come back.
const LOOK: Duration = Duration::from_micros(20);
/// From here on a wait sleeps.
const GIVE_WAY: Duration = Duration::from_millis(2);
/// A sleep is this part of the time waited so far …
const SLEEP_PART: u32 = 16;
/// … but not longer than this.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// One wait.
#[derive(Debug)]
pub(super) struct Waiting {
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
    pub(super) fn new(limit: Option<Duration>) -> Self {
        Self { turns: 0, limit, since: None, moved: None, is_alone: false }
    }

    /// Something has arrived, so more may.
    #[inline]
    pub(super) fn went_on(&mut self) {
        self.moved = None;
    }

    /// A turn found nothing. Whether it slept, so that there is time to look for those who have ended.
    #[inline]
    pub(super) fn pause(&mut self) -> Result<bool, Error> {
        self.turns = self.turns.wrapping_add(1);
        if !self.is_alone && !self.turns.is_multiple_of(TURNS_PER_READING) {
            return Ok(false);
        }
        self.look_at_clock()
    }

    #[cold]
    fn look_at_clock(&mut self) -> Result<bool, Error> {
        let now = Instant::now();
        let since = *self.since.get_or_insert(now);
        if self.limit.is_some_and(|limit| now.duration_since(since) >= limit) {
            return Err(Error::TimedOut);
        }
        let waited = now.duration_since(*self.moved.get_or_insert(now));
        // From then on each turn gives way: others may need the processor.
        self.is_alone = waited >= LOOK;
        if waited >= GIVE_WAY {
            std::thread::sleep((waited / SLEEP_PART).min(SLEEP_MAX));
            return Ok(true);
        }
        if self.is_alone {
            std::thread::yield_now();
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_without_end_is_ended_by_its_limit() {
        let mut waiting = Waiting::new(Some(Duration::ZERO));
        let error = (0..=TURNS_PER_READING).find_map(|_| waiting.pause().err());
        assert_eq!(error, Some(Error::TimedOut));
    }
}

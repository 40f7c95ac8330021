//! How to wait: look again and again at first, then leave the processor to others, then sleep.
//!
//! The three are told apart by what they cost. To look is cheapest for who waits for what comes at once. To
//! leave the processor is right if who is waited for needs it, and costs a whole slice of time if a stranger
//! wants it, or if the kernel lets the wrong one of several run. To sleep costs the peer a system call to
//! wake the sleeper. What the waits of an end point have found so far says which it is ([`Patience`]): if
//! what was waited for is there after others have run for a short time, the next wait leaves sooner, and in
//! the end at once; if nobody else wanted the processor, the next one looks longer again; and if leaving
//! cost a slice, or was in vain several times, a wait sleeps. It tries to leave again after some waits, and
//! ever later if that costs a slice each time.
//!
//! Where no peer would wake a sleeper, a wait looks for half of what leaving costs, and so loses no more by
//! the one than by the other. (Half: two who wait for each other on one processor each count the other's
//! looking as a cost of leaving, and would look ever longer.) A wait that is far longer sleeps all the same,
//! a small part of the time that was waited already: that never makes it much longer. A sleep from which
//! peers wake is a larger part, and ends to look for peers that have ended, which wake nobody.

use std::time::{Duration, Instant};

use crate::error::Error;

/// Turns without reading the clock.
const TURNS_PER_READING: u32 = 64;
/// The same where what is waited for has lately needed the processor: then it is left without another look.
const TURNS_BEFORE_LEAVING: u32 = 8;
/// Of looks for one message alone, which cost less than a turn.
const LOOKS_BEFORE_LEAVING: u32 = 16;
/// It is looked so long if nothing is known: about what it costs to let another thread run and come back.
const LOOK: Duration = Duration::from_micros(20);
/// It is looked at least so long: about what it costs to read the clock twice between two rows of turns.
const LOOK_MIN: Duration = Duration::from_micros(1);
/// It is never looked for longer without leaving the processor.
const LOOK_MAX: Duration = Duration::from_millis(1);
/// Who is back within three times the shortest time that leaving has taken has found nobody who wanted the
/// processor; that is between these times.
const NOBODY_MIN: Duration = Duration::from_micros(2);
const NOBODY_MAX: Duration = Duration::from_micros(10);
/// Longer than that others have a slice of their own; those who only look and leave in turn take less.
const SLICE: Duration = Duration::from_micros(300);
/// From here on a wait sleeps.
const GIVE_WAY: Duration = Duration::from_millis(4);
/// It does so, too, if others have run so often and what is waited for did not come.
const IN_VAIN: u32 = 3;
/// So many sleeps replace leaving after it has cost a slice once, and at most.
const SLEEPS: u32 = 16;
const SLEEPS_MAX: u32 = 1 << 12;
/// A sleep of which no peer knows is this part of the time waited so far, and no longer than the next.
const SLEEP_PART: u32 = 16;
const SLEEP_MAX: Duration = Duration::from_millis(1);
/// One from which peers wake is this part, and at least and at most so long: who has ended wakes nobody.
const WOKEN_PART: u32 = 4;
const WOKEN_MIN: Duration = Duration::from_millis(1);
const WOKEN_MAX: Duration = Duration::from_millis(64);
/// After so many sleeps that were none, and brought nothing, a wait does without: a peer that is wrong could
/// wake it all the time.
const RESTLESS: u32 = 16;

/// What the waits of an end point have learnt.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// How long it is looked before the processor is left.
    look: Duration,
    /// What it has lately cost to leave it.
    leaving: Duration,
    /// What it has cost at least.
    least: Duration,
    /// How many sleeps replace leaving when that costs a slice next.
    sleeps: u32,
    /// How many of them are left.
    sleeps_left: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self { look: LOOK, leaving: Duration::ZERO, least: Duration::MAX, sleeps: SLEEPS, sleeps_left: 0 }
    }
}

impl Patience {
    /// How long it is looked where no peer would wake a sleeper.
    fn look_for(&self) -> Duration {
        if self.leaving > SLICE { (self.leaving / 2).clamp(LOOK, LOOK_MAX) } else { self.look }
    }

    /// Of so many looks that take as long as is looked if nothing is known, how many are made.
    pub(crate) fn looks(&self, usual: u32) -> u32 {
        if self.look == LOOK {
            return usual;
        }
        if self.had_better_leave() {
            return LOOKS_BEFORE_LEAVING.min(usual);
        }
        let looks = u64::from(self.look.subsec_nanos()) * u64::from(usual) / u64::from(LOOK.subsec_nanos());
        // No more than is usual.
        (looks as u32).max(1).min(usual)
    }

    /// Whether what is waited for has lately come after others had the processor, again and again.
    fn had_better_leave(&self) -> bool {
        self.look == LOOK_MIN
    }

    /// Whether nobody else wanted the processor.
    fn was_nobody(&self, took: Duration) -> bool {
        took < self.least.saturating_mul(3).clamp(NOBODY_MIN, NOBODY_MAX)
    }

    /// Others had the processor for so long.
    fn has_left(&mut self, took: Duration) {
        self.leaving = (self.leaving * 7 + took) / 8;
        self.least = self.least.min(took);
        if self.was_nobody(took) {
            self.look = (self.look * 2).min(LOOK);
        }
        if took > SLICE {
            self.sleeps_left = self.sleeps;
            self.sleeps = (self.sleeps * 2).min(SLEEPS_MAX);
        } else {
            self.sleeps = (self.sleeps / 2).max(SLEEPS);
        }
    }

    /// After that, what was waited for was there.
    fn has_paid(&mut self, took: Duration) {
        if !self.was_nobody(took) && took <= SLICE {
            self.look = (self.look / 2).max(LOOK_MIN);
        }
    }

    /// It has slept in place of leaving, or could not: then it leaves.
    fn has_slept(&mut self, could: bool) {
        self.sleeps_left = if could { self.sleeps_left.saturating_sub(1) } else { 0 };
    }
}

/// One wait.
#[derive(Debug)]
pub struct Waiting {
    turns: u32,
    limit: Option<Duration>,
    /// When the wait began, once it was asked.
    since: Option<Instant>,
    /// When something last went on.
    moved: Option<Instant>,
    is_alone: bool,
    /// For how long the turn before this one has left the processor, if it has.
    left_for: Option<Duration>,
    /// How often others have run meanwhile.
    in_vain: u32,
    /// How many sleeps in a row were none.
    restless: u32,
}

impl Waiting {
    /// One of so long at most; without a limit it may last for ever.
    #[inline]
    #[must_use]
    pub fn new(limit: Option<Duration>) -> Self {
        let (since, moved, left_for) = (None, None, None);
        Self { turns: 0, limit, since, moved, is_alone: false, left_for, in_vain: 0, restless: 0 }
    }

    /// Something has arrived, so more may.
    #[inline]
    pub fn went_on(&mut self, patience: &mut Patience) {
        (self.moved, self.in_vain, self.restless) = (None, 0, 0);
        if let Some(took) = self.left_for.take() {
            patience.has_paid(took);
        }
    }

    /// A turn found nothing. If it slept, at how many peers there is time to look whether they have ended:
    /// one for each millisecond; else none.
    ///
    /// `sleep` sleeps until a peer wakes it, for some time at most, and says whether it could.
    ///
    /// # Errors
    /// [`Error::TimedOut`].
    #[inline]
    pub fn pause(
        &mut self,
        patience: &mut Patience,
        sleep: impl FnOnce(Duration) -> bool,
    ) -> Result<u32, Error> {
        self.turns = self.turns.wrapping_add(1);
        self.left_for = None;
        let turns = if patience.had_better_leave() { TURNS_BEFORE_LEAVING } else { TURNS_PER_READING };
        if !self.is_alone && !self.turns.is_multiple_of(turns) {
            return Ok(0);
        }
        self.look_at_clock(patience, sleep)
    }

    #[cold]
    fn look_at_clock(
        &mut self,
        patience: &mut Patience,
        sleep: impl FnOnce(Duration) -> bool,
    ) -> Result<u32, Error> {
        let now = Instant::now();
        let all = now.duration_since(*self.since.get_or_insert(now));
        let left = self.limit.map_or(WOKEN_MAX, |limit| limit.saturating_sub(all));
        if left.is_zero() {
            return Err(Error::TimedOut);
        }
        let waited = now.duration_since(*self.moved.get_or_insert(now));
        let is_long = waited >= GIVE_WAY;
        let had_better_sleep = is_long || self.in_vain >= IN_VAIN || patience.sleeps_left > 0;
        if had_better_sleep && waited >= patience.look && self.restless < RESTLESS {
            let could = sleep(left.min((waited / WOKEN_PART).clamp(WOKEN_MIN, WOKEN_MAX)));
            patience.has_slept(could);
            if could {
                self.is_alone = true;
                let slept = now.elapsed();
                self.restless = if slept < NOBODY_MIN { self.restless + 1 } else { 0 };
                return Ok(to_watch(slept));
            }
        }
        // From then on each turn gives way: others may need the processor.
        self.is_alone = waited >= patience.look_for() || patience.had_better_leave();
        if is_long {
            let pause = (waited / SLEEP_PART).min(SLEEP_MAX).min(left);
            cancellation::without_points(|| std::thread::sleep(pause));
            return Ok(to_watch(pause));
        }
        if self.is_alone {
            let before = Instant::now();
            std::thread::yield_now();
            let took = before.elapsed();
            patience.has_left(took);
            self.left_for = Some(took);
            self.in_vain += u32::from(!patience.was_nobody(took));
        }
        Ok(0)
    }
}

/// At how many peers it is looked after a sleep.
fn to_watch(slept: Duration) -> u32 {
    slept.as_millis().clamp(1, WOKEN_MAX.as_millis()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nobody_wakes_it_is_looked_for_half_of_what_a_slice_of_others_costs() {
        let look_for = |leaving| Patience { leaving, look: LOOK_MIN, ..Patience::default() }.look_for();
        assert_eq!(look_for(Duration::from_micros(500)), Duration::from_micros(250));
        assert_eq!(look_for(Duration::from_secs(1)), LOOK_MAX);
        assert_eq!(look_for(SLICE), LOOK_MIN);
    }

    #[test]
    fn who_finds_what_it_waits_for_when_others_have_run_leaves_sooner() {
        let mut patience = Patience::default();
        assert_eq!((patience.look, patience.looks(2000)), (LOOK, 2000));
        let others = Duration::from_micros(10);
        for _ in 0..10 {
            patience.has_left(others);
            patience.has_paid(others);
        }
        assert_eq!((patience.look, patience.looks(2000)), (LOOK_MIN, LOOKS_BEFORE_LEAVING));
        // Others run, and it is not there: that says nothing.
        patience.has_left(others);
        assert_eq!(patience.look, LOOK_MIN);
        // Nobody runs: whoever is waited for has a processor of its own.
        for _ in 0..10 {
            patience.has_left(Duration::from_nanos(400));
        }
        assert_eq!(patience.look, LOOK);
        // Where it takes longer to find that out.
        let mut slow = Patience::default();
        let (nobody, others) = (Duration::from_micros(3), Duration::from_micros(9));
        slow.has_left(nobody);
        assert!(slow.was_nobody(nobody) && !slow.was_nobody(others));
    }

    #[test]
    fn who_had_better_leave_does_so_without_another_look() {
        let mut waiting = Waiting::new(None);
        let mut patience = Patience { look: LOOK_MIN, ..Patience::default() };
        for _ in 0..TURNS_BEFORE_LEAVING {
            assert_eq!((waiting.left_for, waiting.is_alone), (None, false));
            let _ = waiting.pause(&mut patience, |_| false);
        }
        assert!(waiting.left_for.is_some() && waiting.is_alone);
    }

    #[test]
    fn who_loses_slices_to_others_sleeps_ever_more_often_in_place_of_leaving() {
        let mut patience = Patience::default();
        for sleeps in [SLEEPS, 2 * SLEEPS, 4 * SLEEPS] {
            assert_eq!(patience.sleeps_left, 0);
            patience.has_left(Duration::from_millis(3));
            patience.has_paid(Duration::from_millis(3));
            assert_eq!((patience.sleeps_left, patience.look), (sleeps, LOOK));
            (0..sleeps).for_each(|_| patience.has_slept(true));
        }
        for _ in 0..30 {
            patience.has_left(Duration::from_millis(3));
        }
        assert_eq!(patience.sleeps_left, SLEEPS_MAX);
        for _ in 0..30 {
            patience.has_left(Duration::from_micros(3));
        }
        assert_eq!(patience.sleeps, SLEEPS);
    }

    #[test]
    fn the_longer_a_wait_the_longer_its_sleeps_and_the_more_peers_are_watched() {
        let asked = |waited| {
            let mut waiting = Waiting::new(None);
            (waiting.is_alone, waiting.moved) = (true, Instant::now().checked_sub(waited));
            let mut asked = None;
            let _ = waiting.pause(&mut Patience::default(), |limit| {
                asked = Some(limit);
                true
            });
            asked
        };
        assert!(asked(GIVE_WAY) >= Some(WOKEN_MIN) && asked(40 * WOKEN_MIN) >= Some(10 * WOKEN_MIN));
        assert_eq!(asked(Duration::from_secs(10)), Some(WOKEN_MAX));
        let ms = Duration::from_millis;
        assert_eq!([Duration::ZERO, ms(5), ms(1000)].map(to_watch), [1, 5, 64]);
    }

    #[test]
    fn a_wait_without_end_is_ended_by_its_limit() {
        let mut waiting = Waiting::new(Some(Duration::ZERO));
        let pause = |_| waiting.pause(&mut Patience::default(), |_| false).err();
        assert_eq!((0..=TURNS_PER_READING).find_map(pause), Some(Error::TimedOut));
    }

    #[test]
    fn who_leaves_in_vain_or_waits_long_sleeps_and_is_woken() {
        let until_it_sleeps = |waiting: &mut Waiting| {
            let mut patience = Patience::default();
            let mut asked = None;
            while asked.is_none() {
                let slept = waiting.pause(&mut patience, |limit| {
                    asked = Some(limit);
                    true
                });
                assert_eq!(slept.is_ok_and(|peers| peers > 0), asked.is_some());
            }
            assert!(asked.is_some_and(|asked| (WOKEN_MIN..=WOKEN_MAX).contains(&asked)), "{asked:?}");
        };
        let mut waiting = Waiting::new(None);
        until_it_sleeps(&mut waiting);
        // Others had a slice, or it has left several times in vain; else the wait was long.
        assert!(waiting.in_vain > 0 || waiting.moved.is_some_and(|moved| moved.elapsed() >= GIVE_WAY));
        (waiting.in_vain, waiting.moved) = (IN_VAIN, Some(Instant::now()));
        until_it_sleeps(&mut waiting);
        waiting.went_on(&mut Patience::default());
        assert_eq!((waiting.in_vain, waiting.moved), (0, None));
        // A sleep that is none each time is not tried for ever, and one that cannot be is no reason to try.
        let mut patience = Patience { sleeps_left: SLEEPS_MAX, ..Patience::default() };
        (waiting.in_vain, waiting.moved) = (IN_VAIN, Some(Instant::now() - GIVE_WAY));
        let mut tried = 0;
        for _ in 0..4 * RESTLESS * TURNS_PER_READING {
            let _ = waiting.pause(&mut patience, |_| {
                tried += 1;
                true
            });
            if waiting.restless == RESTLESS {
                break;
            }
        }
        assert!(tried >= RESTLESS && waiting.restless == RESTLESS);
        patience.has_slept(false);
        assert_eq!(patience.sleeps_left, 0);
    }
}

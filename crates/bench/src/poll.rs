//! Spinning until something happens, with a watchdog.
//!
//! The way of polling decides the cost of a transfer. A tight loop requests the line again the
//! moment it is taken away, and may take it from the writer before the write is done. With a pause
//! in the loop the writer gets its turn (measured: 48 instead of 77 ns for half a round trip at one
//! address, 68 instead of 73 at another). On a processor with a long pause instruction it may be
//! the other way round, so each measurement tries both.

use std::{
    cell::{Cell, RefCell},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use shm::sync::{AtomicU64, Ordering};

use crate::error::{BenchError, Result};

/// After this long a wait is given up. Generous: a busy machine may take a processor away for a
/// second.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of polls between two readings of the watchdog's clock: far longer than any measured
/// operation takes.
const POLLS_PER_LOOK: u64 = 1 << 14;

/// Given how long it has been waited.
type Check = Box<dyn Fn(Duration) -> Result<()>>;

thread_local!(static STILL_THERE: RefCell<Option<Check>> = const { RefCell::new(None) });

/// While it lives, the waits of this thread check that the other side is still alive.
#[derive(Debug)]
pub(crate) struct Watched {
    /// It belongs to the thread that created it.
    _here: std::marker::PhantomData<*const ()>,
}

/// From now on waits of this thread end with the error of `still_there`, within about a
/// millisecond. This costs the measurement nothing: the check is made when the watchdog reads its
/// clock.
#[must_use]
pub(crate) fn watched(still_there: impl Fn(Duration) -> Result<()> + 'static) -> Watched {
    STILL_THERE.set(Some(Box::new(still_there)));
    Watched { _here: std::marker::PhantomData }
}

impl Drop for Watched {
    fn drop(&mut self) {
        STILL_THERE.set(None);
    }
}

/// Calls the function that was given to [`watched`], if any, after a wait of this length.
pub(crate) fn still_there(waited: Duration) -> Result<()> {
    STILL_THERE.with_borrow(|check| check.as_ref().map_or(Ok(()), |check| check(waited)))
}

/// The way of spinning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Poll {
    /// Nothing between two polls.
    Tight,
    /// The processor's pause instruction between two polls.
    Paused,
    /// The processor is yielded between two polls: the other side runs on the same one.
    Yielding,
}

thread_local!(static SHARES: Cell<bool> = const { Cell::new(false) });

/// From now on this thread and the other side share one processor.
pub(crate) fn share_processor() {
    SHARES.set(true);
}

impl Poll {
    /// Those for a processor of one's own.
    pub const SPINNING: [Self; 2] = [Self::Tight, Self::Paused];
    /// All ways of polling.
    pub const ALL: [Self; 3] = [Self::Tight, Self::Paused, Self::Yielding];

    /// Those worth trying for this thread.
    pub fn tried() -> [Self; 2] {
        if SHARES.get() { [Self::Yielding; 2] } else { Self::SPINNING }
    }

    /// The way to start with.
    pub fn usual() -> Self {
        Self::tried()[1]
    }

    /// Spins until `ready`, and returns the number of polls that found nothing.
    #[inline(always)]
    pub fn until(self, what: &'static str, ready: impl FnMut() -> bool) -> Result<u64> {
        // Two loops, so that neither has a branch for the other.
        match self {
            Self::Tight => spin::<false>(what, ready),
            Self::Paused => spin::<true>(what, ready),
            Self::Yielding => spin_yielding(what, ready),
        }
    }

    /// Spins until the word has this value. Acquire: pairs with the Release store of the other
    /// side, whichever it is.
    #[inline(always)]
    pub fn word(self, what: &'static str, word: &AtomicU64, value: u64) -> Result<u64> {
        self.until(what, || word.load(Ordering::Acquire) == value)
    }
}

#[inline(always)]
fn spin<const PAUSED: bool>(what: &'static str, mut ready: impl FnMut() -> bool) -> Result<u64> {
    let mut polls = 0;
    while !ready() {
        polls += 1;
        if PAUSED {
            shm::cpu::pause();
        }
        if polls % POLLS_PER_LOOK == 0 {
            watch(what, polls)?;
        }
    }
    Ok(polls)
}

/// Reads the watchdog's clock often: a poll may last as long as the other side keeps it waiting.
#[inline(never)]
fn spin_yielding(what: &'static str, mut ready: impl FnMut() -> bool) -> Result<u64> {
    let (mut polls, mut since) = (0, None);
    while !ready() {
        polls += 1;
        std::thread::yield_now();
        if polls % 64 == 0 {
            let waited = since.get_or_insert_with(Instant::now).elapsed();
            still_there(waited)?;
            if waited >= ANSWER_TIMEOUT {
                return Err(no_answer(what));
            }
        }
    }
    Ok(polls)
}

/// Yields, and makes an error of a wait that has lasted too long. Not inlined, so that the loops
/// stay a few instructions.
#[cold]
#[inline(never)]
fn watch(what: &'static str, polls: u64) -> Result<()> {
    // The start of the wait is not recorded on the fast path: the first reading of the clock starts
    // the watchdog.
    thread_local!(static SINCE: Cell<Option<Instant>> = const { Cell::new(None) });
    let now = Instant::now();
    let since = if polls == POLLS_PER_LOOK { now } else { SINCE.get().unwrap_or(now) };
    SINCE.set(Some(since));
    let waited = now.duration_since(since);
    still_there(waited)?;
    // The other side has probably lost its processor to another program. Spinning on would only use
    // up our own share of time, and with it the moments in which both sides run.
    std::thread::yield_now();
    if waited < ANSWER_TIMEOUT { Ok(()) } else { Err(no_answer(what)) }
}

/// The error of a wait that was given up.
pub(crate) fn no_answer(what: &'static str) -> BenchError {
    BenchError::NoAnswer { what, seconds: ANSWER_TIMEOUT.as_secs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polls_are_counted() {
        for poll in Poll::ALL {
            let mut left = 5;
            let polls = poll.until("test", || {
                left -= 1;
                left == 0
            });
            assert_eq!(polls.unwrap(), 4);
            assert_eq!(poll.word("test", &AtomicU64::new(7), 7).unwrap(), 0);
        }
    }

    #[test]
    fn a_wait_for_somebody_who_is_gone_ends_with_the_reason() {
        let gone = |_| Err(BenchError::Usage("gone".into()));
        let watched = watched(gone);
        for poll in Poll::ALL {
            let error = poll.until("test", || false).unwrap_err();
            assert!(matches!(&error, BenchError::Usage(text) if text == "gone"), "{error}");
        }
        drop(watched);
        still_there(Duration::ZERO).unwrap();
    }

    #[test]
    fn a_new_wait_has_its_own_timeout() {
        watch("first", POLLS_PER_LOOK).unwrap();
        watch("first", 2 * POLLS_PER_LOOK).unwrap();
        watch("second", POLLS_PER_LOOK).unwrap();
        assert!(
            no_answer("second").to_string().starts_with("second: the other end did not respond within 10 s")
        );
    }
}

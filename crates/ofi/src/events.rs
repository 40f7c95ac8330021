//! Threads that sleep until something has ended, and the progress thread's naps.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use shm::sync::{AtomicBool, AtomicU32, Ordering, fence};

/// Wakes sleepers; costs a fence if there are none.
#[derive(Debug, Default)]
pub(crate) struct Events {
    sleepers: AtomicU32,
    count: Mutex<u64>,
    more: Condvar,
    is_napping: AtomicBool,
    nap: Mutex<()>,
    nap_ends: Condvar,
}

impl Events {
    /// Something has ended: sleepers look again.
    #[inline]
    pub(crate) fn wake(&self) {
        // Orders what has ended before the look at `sleepers`; pairs with the addition in `sleep`, which comes before its look.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_sleepers();
        }
    }

    #[cold]
    fn wake_sleepers(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.more.notify_all();
    }

    /// Whether it is `ready`; if not, sleeps until it may be, at most that long.
    pub(crate) fn sleep(&self, longest: Duration, mut ready: impl FnMut() -> bool) -> bool {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let seen = *self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ready = ready();
        if !is_ready {
            self.end_nap();
            let count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
            if *count == seen {
                drop(self.more.wait_timeout(count, longest));
            }
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        is_ready
    }

    /// Whether a thread of the program sleeps, and so relies on the progress thread.
    #[inline]
    pub(crate) fn has_sleepers(&self) -> bool {
        self.sleepers.load(Ordering::SeqCst) > 0
    }

    /// The progress thread leaves the work to others for that long, or until one of them sleeps.
    pub(crate) fn nap(&self, longest: Duration) {
        self.is_napping.store(true, Ordering::SeqCst);
        let nap = self.nap.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.nap_ends.wait_timeout(nap, longest));
        self.is_napping.store(false, Ordering::SeqCst);
    }

    fn end_nap(&self) {
        if self.is_napping.load(Ordering::SeqCst) {
            // The lock, so that the notice does not come between the nap's beginning and its wait.
            drop(self.nap.lock());
            self.nap_ends.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// `ready` may take something: asked once more, it would take it twice.
    #[test]
    fn who_has_said_that_it_is_ready_is_not_asked_again() {
        let mut asked = 0;
        let is_ready = Events::default().sleep(Duration::from_secs(3600), || {
            asked += 1;
            true
        });
        assert!(is_ready);
        assert_eq!(asked, 1);
    }

    /// However the two interleave: a wake that is lost would cost the limit.
    #[test]
    fn a_sleeper_misses_nothing() {
        const ROUNDS: u32 = 3000;
        let (events, done) = (Events::default(), [AtomicU32::new(0), AtomicU32::new(0)]);
        let await_value = |word: &AtomicU32, value| {
            let until = Instant::now() + Duration::from_secs(600);
            while !events.sleep(Duration::from_secs(600), || word.load(Ordering::SeqCst) == value) {
                assert!(Instant::now() < until, "a wake was lost");
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    await_value(&done[0], round);
                    done[1].store(round, Ordering::SeqCst);
                    events.wake();
                }
            });
            for round in 1..=ROUNDS {
                done[0].store(round, Ordering::SeqCst);
                events.wake();
                await_value(&done[1], round);
            }
        });
    }
}

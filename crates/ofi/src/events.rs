//! Puts threads to sleep until a completion arrives, and the progress thread for short times.
//!
//! One thread at most sleeps on the provider's descriptor, the first that has to sleep: it wakes when
//! something comes in, without another thread between. All others sleep on a condition. The progress thread
//! takes the descriptor when nobody else does.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use shm::sync::{AtomicBool, AtomicU32, Ordering, fence};

use crate::error::{OfiError, Result};

/// A provider may forget to make its descriptor readable: so long at most nobody looks.
const LONGEST_POLL: Duration = Duration::from_millis(50);

/// Wakes sleepers; costs a fence if there are none.
#[derive(Debug)]
pub(crate) struct Events {
    /// Held by the thread that sleeps on the provider's descriptor.
    poller: Mutex<()>,
    /// Whether that is a thread of the program, which waits for what others may bring about, too.
    is_kick_wanted: AtomicBool,
    /// Wakes that thread; readable for good once the end point is to stop.
    kick: OwnedFd,
    sleepers: AtomicU32,
    count: Mutex<u64>,
    more: Condvar,
    is_napping: AtomicBool,
    is_nap_long: AtomicBool,
    nap: Mutex<()>,
    nap_ends: Condvar,
}

impl Events {
    pub(crate) fn new() -> Result<Self> {
        let kick = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let kick = kick.map_err(|error| OfiError::System { call: "eventfd", reason: error.to_string() })?;
        Ok(Self {
            poller: Mutex::default(),
            is_kick_wanted: AtomicBool::new(false),
            kick,
            sleepers: AtomicU32::new(0),
            count: Mutex::default(),
            more: Condvar::default(),
            is_napping: AtomicBool::new(false),
            is_nap_long: AtomicBool::new(false),
            nap: Mutex::default(),
            nap_ends: Condvar::default(),
        })
    }

    /// Something has ended: sleepers look again.
    #[inline]
    pub(crate) fn wake(&self) {
        // Orders what has ended before the looks at `sleepers` and `is_kick_wanted`; pairs with their changes
        // in `sleep` and `poll`, which come before the looks there.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.wake_sleepers();
        }
        if self.is_kick_wanted.load(Ordering::SeqCst) {
            self.kick();
        }
    }

    /// Wakes the thread that polls, whichever it is.
    #[cold]
    pub(crate) fn kick(&self) {
        // It cannot fail but for being readable already.
        let _ = rustix::io::write(&self.kick, &1_u64.to_ne_bytes());
    }

    /// The right to sleep on the provider's descriptor, if nobody has it.
    pub(crate) fn try_poller(&self) -> Option<MutexGuard<'_, ()>> {
        match self.poller.try_lock() {
            Ok(poller) => Some(poller),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// A thread of the program sleeps until the descriptor is readable or something has ended; answers
    /// whether it is `ready` before.
    pub(crate) fn poll(
        &self,
        _poller: &MutexGuard<'_, ()>,
        fd: BorrowedFd<'_>,
        longest: Duration,
        ready: impl FnOnce() -> bool,
        may_sleep: impl FnOnce() -> bool,
    ) -> bool {
        self.is_kick_wanted.store(true, Ordering::SeqCst);
        let is_ready = ready();
        if !is_ready && may_sleep() {
            self.poll_once(fd, longest);
        }
        self.is_kick_wanted.store(false, Ordering::SeqCst);
        is_ready
    }

    /// Whether the thread that has the right to sleep on the provider's descriptor is kicked when something
    /// has ended.
    pub(crate) fn wants_kick(&self, is_wanted: bool) {
        self.is_kick_wanted.store(is_wanted, Ordering::SeqCst);
    }

    /// Readable after a kick, until [`Self::take_kick`].
    pub(crate) fn kick_fd(&self) -> BorrowedFd<'_> {
        self.kick.as_fd()
    }

    pub(crate) fn take_kick(&self) {
        let _ = rustix::io::read(&self.kick, &mut [0; 8]);
    }

    /// Sleeps until the descriptor is readable, or a kick.
    pub(crate) fn poll_once(&self, fd: BorrowedFd<'_>, longest: Duration) {
        let nanoseconds = longest.min(LONGEST_POLL).subsec_nanos();
        let limit = Timespec { tv_sec: 0, tv_nsec: nanoseconds.into() };
        let mut fds = [
            PollFd::from_borrowed_fd(fd, PollFlags::IN),
            PollFd::from_borrowed_fd(self.kick.as_fd(), PollFlags::IN),
        ];
        // An error, such as a signal, only makes the caller look early.
        let is_kicked = poll(&mut fds, Some(&limit)).is_ok() && !fds[1].revents().is_empty();
        if is_kicked {
            self.take_kick();
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

    /// The progress thread leaves the descriptor to a thread that has slept on it for a while already, until
    /// that has woken.
    pub(crate) fn long_nap(&self) {
        self.is_nap_long.store(true, Ordering::SeqCst);
        self.nap(LONGEST_POLL);
        self.is_nap_long.store(false, Ordering::SeqCst);
    }

    /// A thread that has slept looks for its end now, and may then compute: the progress thread is wanted.
    #[inline]
    pub(crate) fn end_long_nap(&self) {
        if self.is_nap_long.load(Ordering::SeqCst) {
            self.end_nap();
        }
    }

    pub(crate) fn end_nap(&self) {
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
        let is_ready = Events::new().unwrap().sleep(Duration::from_secs(3600), || {
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
        let (events, done) = (Events::new().unwrap(), [AtomicU32::new(0), AtomicU32::new(0)]);
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

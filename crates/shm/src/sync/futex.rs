//! Sleeping on a word of shared memory.
//!
//! The word may lie in any shared mapping: these are the shared futexes of Linux, which find each other by
//! the page and not by the address. Under loom the kernel is replaced by a model with the same promise: "is
//! the word still `expected`" and "go to sleep" are one step with respect to [`wake`].

use super::AtomicU32;
use crate::clock::Deadline;

/// Why [`wait`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// [`wake`] was called, or the word no longer held the expected value. May be spurious: check again.
    Look,
    /// The deadline passed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

/// Sleeps while `word` holds `expected`, until woken, until `deadline`, or until a signal comes.
#[cfg(not(loom))]
pub fn wait(word: &AtomicU32, expected: u32, deadline: Option<Deadline>) -> Woken {
    use core::num::NonZeroU32;
    use rustix::io::Errno;
    use rustix::thread::futex;

    // An absolute deadline (FUTEX_WAIT_BITSET) needs no arithmetic when a signal interrupts the sleep.
    let timeout = deadline.map(|d| d.timespec());
    match futex::wait_bitset(word, futex::Flags::empty(), expected, timeout.as_ref(), NonZeroU32::MAX) {
        Err(Errno::TIMEDOUT) => Woken::TimedOut,
        Err(Errno::INTR) => Woken::Interrupted,
        // AGAIN: the word has changed. Anything else (a word that cannot be slept on) must not become a hang.
        Ok(()) | Err(_) => Woken::Look,
    }
}

/// Several words to sleep on, each with what it is expected to hold.
#[cfg(not(loom))]
#[derive(Debug)]
pub struct AnyOf<'a> {
    waits: [rustix::thread::futex::Wait; ANY_MAX],
    count: usize,
    words: core::marker::PhantomData<&'a AtomicU32>,
}

/// Words of an [`AnyOf`] at most (futex_waitv(2): `FUTEX_WAITV_MAX`).
#[cfg(not(loom))]
pub const ANY_MAX: usize = 128;

#[cfg(not(loom))]
impl<'a> AnyOf<'a> {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        let waits = [rustix::thread::futex::Wait::new(); ANY_MAX];
        Self { waits, count: 0, words: core::marker::PhantomData }
    }

    /// Adds a word: whether there was room.
    pub fn add(&mut self, word: &'a AtomicU32, expected: u32) -> bool {
        use rustix::thread::futex::{WaitFlags, WaitPtr};

        let Some(wait) = self.waits.get_mut(self.count) else { return false };
        wait.val = u64::from(expected);
        wait.uaddr = WaitPtr::new(word.as_ptr().cast());
        wait.flags = WaitFlags::SIZE_U32;
        self.count += 1;
        true
    }

    /// Whether this kernel is not known to be unable to wait for several words: before Linux 5.16 it is, and
    /// where a filter of system calls forbids it.
    #[inline]
    #[must_use]
    pub fn may_wait() -> bool {
        !CANNOT_WAIT_ANY.load(super::Ordering::Relaxed)
    }

    /// As [`wait`], while all words hold what is expected. `None` if there are none, or if it cannot; if this
    /// kernel never can, that is remembered.
    #[must_use]
    pub fn wait(&self, deadline: Deadline) -> Option<Woken> {
        use rustix::io::Errno;
        use rustix::thread::{ClockId, futex};

        let waits = self.waits.get(..self.count)?;
        let (flags, until) = (futex::WaitvFlags::empty(), deadline.timespec());
        match futex::waitv(waits, flags, Some(&until), ClockId::Monotonic) {
            Err(Errno::TIMEDOUT) => Some(Woken::TimedOut),
            Err(Errno::INTR) => Some(Woken::Interrupted),
            Ok(_) | Err(Errno::AGAIN) => Some(Woken::Look),
            // PERM: a filter of system calls.
            Err(Errno::NOSYS | Errno::PERM) => {
                CANNOT_WAIT_ANY.store(true, super::Ordering::Relaxed);
                None
            }
            // None at all, or no memory now; anything else must not become a hang.
            Err(_) => None,
        }
    }
}

#[cfg(not(loom))]
static CANNOT_WAIT_ANY: super::AtomicBool = super::AtomicBool::new(false);

#[cfg(not(loom))]
impl Default for AnyOf<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// Wakes up to `count` sleepers of `word`; returns how many there were.
#[cfg(not(loom))]
pub fn wake(word: &AtomicU32, count: u32) -> usize {
    rustix::thread::futex::wake(word, rustix::thread::futex::Flags::empty(), count).unwrap_or(0)
}

#[cfg(loom)]
pub use model::{wait, wake};

#[cfg(loom)]
mod model {
    use super::{AtomicU32, Deadline, Woken};
    use crate::sync::Ordering;
    use loom::sync::{Condvar, Mutex};

    // One bucket for all words: a wake-up for another word is a spurious one, which callers must bear anyway.
    struct Bucket {
        wakes: Mutex<usize>,
        sleepers: Condvar,
    }

    loom::lazy_static! {
        static ref BUCKET: Bucket = Bucket { wakes: Mutex::new(0), sleepers: Condvar::new() };
    }

    /// Model of the kernel's wait: the word is examined under the lock of the bucket. Deadlines never pass.
    pub fn wait(word: &AtomicU32, expected: u32, _deadline: Option<Deadline>) -> Woken {
        let Ok(mut wakes) = BUCKET.wakes.lock() else { return Woken::Look };
        if word.load(Ordering::Relaxed) != expected {
            return Woken::Look;
        }
        let before = *wakes;
        while *wakes == before {
            let Ok(guard) = BUCKET.sleepers.wait(wakes) else { return Woken::Look };
            wakes = guard;
        }
        Woken::Look
    }

    /// Model of the kernel's wake.
    pub fn wake(_word: &AtomicU32, _count: u32) -> usize {
        let Ok(mut wakes) = BUCKET.wakes.lock() else { return 0 };
        *wakes += 1;
        BUCKET.sleepers.notify_all();
        1
    }
}

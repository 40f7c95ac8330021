//! Doorbells: wake the other side, without a system call while it is awake.
//!
//! A doorbell is two words of shared memory:
//!
//! - `signal`, a counter that ringers increase and the waiter sleeps on;
//! - `armed`, written by the waiter alone: [`ASLEEP`] while it sleeps on `signal`, [`WANTS_EVENTFD`] while it
//!   waits for a descriptor to become readable. It may lie in memory that ringers can only read.
//!
//! The waiter arms, looks again, sleeps; a ringer increases `signal` and makes a system call only if the
//! waiter is armed. Either the waiter's second look sees what the ringer did, or the ringer sees that it is
//! armed. There may be many ringers and must be one waiter at a time.
//!
//! Nothing here is trusted: whatever a hostile ringer writes into `signal` is a spurious wake-up, and a
//! hostile waiter's `armed` costs its ringers a system call.

#[cfg(not(loom))]
mod apart;
mod spin;
#[cfg(all(test, not(loom)))]
mod tests;
#[cfg(all(test, loom))]
mod tests_loom;
mod wake_cost;

pub use crate::clock::Deadline;
#[cfg(not(loom))]
pub use apart::{Signal, Sleep};
pub use spin::Spin;
pub use wake_cost::WakeProbe;

use crate::sync::futex::{self, Woken};
use crate::sync::{AtomicU32, Ordering, fence, store_load_fence};

/// Value of `armed`: the waiter is awake.
pub const AWAKE: u32 = 0;
/// Value of `armed`: the waiter sleeps on `signal`. So does one with 1 more than any multiple of 4: these are
/// the values of [`sleep_until_any`], each of them for one sleep.
pub const ASLEEP: u32 = 1;
/// Value of `armed`: the waiter wants a write to its eventfd.
pub const WANTS_EVENTFD: u32 = 2;

/// What a ring met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Rang {
    /// The waiter is awake; there was no system call.
    Nobody = AWAKE,
    /// The waiter slept (or was about to) and has been woken.
    Sleeper = ASLEEP,
    /// The waiter waits for its eventfd: the caller has to write to it.
    Eventfd = WANTS_EVENTFD,
}

/// The side that wakes.
#[derive(Clone, Copy, Debug)]
pub struct Ringer<'a> {
    signal: &'a AtomicU32,
    armed: &'a AtomicU32,
}

impl<'a> Ringer<'a> {
    /// A ringer on these two words; `armed` is only read.
    #[inline]
    #[must_use]
    pub fn new(signal: &'a AtomicU32, armed: &'a AtomicU32) -> Self {
        Self { signal, armed }
    }

    /// Rings: the waiter sees a new value of `signal` and everything that this thread wrote before.
    #[inline]
    pub fn ring(&self) -> Rang {
        self.ring_times(1)
    }

    /// The same so many times at once: for a waiter that counts. With 0 the waiter sees nothing new.
    #[inline]
    pub fn ring_times(&self, times: u32) -> Rang {
        // Release: pairs with the Acquire of Waiter::value and of the looks in Waiter::wait. Sequentially
        // consistent, because it must come before the look at `armed`: see `arm`, which does the same the
        // other way round.
        self.signal.fetch_add(times, Ordering::SeqCst);
        store_load_fence();
        match self.armed.load(Ordering::SeqCst) {
            AWAKE => Rang::Nobody,
            state => self.wake(state),
        }
    }

    /// Rings only if the waiter is armed, and otherwise leaves `signal` alone: for a waiter that examines
    /// something else than `signal` (see [`Waiter::wait_until`]), which the caller has changed before with a
    /// plain store.
    ///
    /// The price is one full fence instead of an atomic addition.
    #[inline]
    pub fn ring_if_armed(&self) -> Rang {
        // Orders the caller's store before the look at `armed`; pairs with the fence in Waiter::arm.
        fence(Ordering::SeqCst);
        if self.armed.load(Ordering::Relaxed) == AWAKE {
            return Rang::Nobody;
        }
        self.ring()
    }

    /// Rings if the waiter is seen to be armed, without a fence and once for each sleep: for a waiter that
    /// looks again by itself after a while (see [`sleep_until_any`]). Whoever arms in the very moment in
    /// which the caller's store becomes visible may be missed.
    ///
    /// `rung` belongs to this pair, and is 0 at first.
    #[inline]
    pub fn ring_once(&self, rung: &mut u32) {
        let armed = self.armed.load(Ordering::Relaxed);
        if armed != *rung {
            *rung = armed;
            if armed != AWAKE {
                self.ring();
            }
        }
    }

    // Apart, so that the common case stays small enough to be inlined.
    #[cold]
    fn wake(&self, state: u32) -> Rang {
        if state == WANTS_EVENTFD {
            return Rang::Eventfd;
        }
        // A value that means nothing can only come from a hostile waiter: one system call too many is all it
        // gets. All sleepers, not one: a hostile ringer that sleeps on the same word must not take the
        // waiter's wake-up.
        futex::wake(self.signal, i32::MAX.unsigned_abs());
        Rang::Sleeper
    }
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// It rang: the new value of `signal`, to be given to the next wait.
    Changed(u32),
    /// The deadline passed.
    TimedOut,
    /// A signal handler ran; wait again, or stop.
    Interrupted,
}

/// The side that waits; one at a time.
#[derive(Clone, Copy, Debug)]
pub struct Waiter<'a> {
    signal: &'a AtomicU32,
    armed: &'a AtomicU32,
}

impl<'a> Waiter<'a> {
    /// A waiter on these two words; it alone writes `armed`.
    #[inline]
    #[must_use]
    pub fn new(signal: &'a AtomicU32, armed: &'a AtomicU32) -> Self {
        Self { signal, armed }
    }

    /// The value of `signal` now: take it, look for work, and if there is none wait for a change of this
    /// value.
    #[inline]
    #[must_use]
    pub fn value(&self) -> u32 {
        // Acquire: pairs with the Release of Ringer::ring.
        self.signal.load(Ordering::Acquire)
    }

    /// Waits until `signal` no longer holds `seen`: spins for as long as that has paid lately, then sleeps.
    ///
    /// With `deadline` `None` it waits forever.
    #[inline]
    pub fn wait(&self, seen: u32, spin: &mut Spin, deadline: Option<Deadline>) -> WaitOutcome {
        let value = self.value();
        if value != seen {
            return WaitOutcome::Changed(value);
        }
        self.wait_until(spin, deadline, || self.value() != seen)
    }

    /// The part of a wait that does not sleep: whether `ready` came to be while it paid to look. For callers
    /// that need something costly, such as a deadline, only if they have to sleep.
    #[inline]
    pub fn spin_until(&self, spin: &mut Spin, mut ready: impl FnMut() -> bool) -> bool {
        spin.run(&mut ready)
    }

    /// Waits until `ready` returns true: for ringers that change something else first and then call
    /// [`Ringer::ring_if_armed`] (or [`Ringer::ring`]).
    ///
    /// `ready` must look with Acquire at what the ringers change. It is called many times and last before the
    /// return.
    pub fn wait_until(
        &self,
        spin: &mut Spin,
        deadline: Option<Deadline>,
        mut ready: impl FnMut() -> bool,
    ) -> WaitOutcome {
        if spin.run(&mut ready) {
            return WaitOutcome::Changed(self.value());
        }
        self.sleep_until(deadline, ready)
    }

    fn sleep_until(&self, deadline: Option<Deadline>, mut ready: impl FnMut() -> bool) -> WaitOutcome {
        loop {
            let seen = self.value();
            self.arm(ASLEEP);
            if ready() {
                self.disarm();
                return WaitOutcome::Changed(self.value());
            }
            let woken = futex::wait(self.signal, seen, deadline);
            self.disarm();
            if ready() {
                return WaitOutcome::Changed(self.value());
            }
            match woken {
                // Spurious, for instance because a hostile peer woke us or wrote into `signal`: sleep again.
                Woken::Look => {
                    if deadline.is_some_and(Deadline::has_passed) {
                        return WaitOutcome::TimedOut;
                    }
                }
                Woken::TimedOut => return WaitOutcome::TimedOut,
                Woken::Interrupted => return WaitOutcome::Interrupted,
            }
        }
    }

    /// Asks ringers to write to the eventfd from now on. Look for work afterwards: what came before is not
    /// announced.
    pub fn arm_eventfd(&self) {
        self.arm(WANTS_EVENTFD);
    }

    /// Ends [`Waiter::arm_eventfd`].
    pub fn disarm(&self) {
        // Relaxed: a ringer that still sees the old value makes one system call too many, and nothing hangs
        // on it.
        self.armed.store(AWAKE, Ordering::Relaxed);
    }

    fn arm(&self, how: u32) {
        self.armed.store(how, Ordering::Relaxed);
        // Orders the store before the caller's next look; pairs with the sequentially consistent addition (or
        // fence) of the ringer. Whichever comes first, either the look sees the ringer's change or the ringer
        // sees the armed word.
        fence(Ordering::SeqCst);
    }
}

/// How often is looked again after arming: for about as long as a store takes to become visible.
#[cfg(not(loom))]
const LOOKS_ARMED: u32 = 64;

/// A ringer that has looked at the armed word before it was armed has by then written what it rang for: a
/// store becomes visible in far less.
#[cfg(not(loom))]
pub const SURE_AFTER_NS: u64 = 1_000_000;

/// Counts sleeps of this process. One whose ringer has last rung a billion sleeps ago, for the same value,
/// ends at its deadline.
#[cfg(not(loom))]
static SLEEPS: AtomicU32 = AtomicU32::new(0);

/// Sleeps until the ringer of one of the waiters rings, or a thread of this process changes `own` from 0 and
/// wakes its sleepers; until `deadline` at the latest; not if `ready` returns true. Whether it could. For
/// ringers that call [`Ringer::ring_once`], which may miss who arms in that very moment: so a long sleep is
/// interrupted once, after [`SURE_AFTER_NS`], for another look.
///
/// It cannot if there are no waiters or more than 127, nor on a kernel before Linux 5.16.
#[cfg(not(loom))]
pub fn sleep_until_any(
    waiters: &[Waiter<'_>],
    own: &AtomicU32,
    deadline: Deadline,
    mut ready: impl FnMut() -> bool,
) -> bool {
    let mut any = futex::AnyOf::new();
    let is_possible = futex::AnyOf::may_wait() && !waiters.is_empty() && any.add(own, 0);
    if !is_possible || !waiters.iter().all(|waiter| any.add(waiter.signal, waiter.value())) {
        return false;
    }
    let this_sleep = SLEEPS.fetch_add(1, Ordering::Relaxed) << 2 | ASLEEP;
    for waiter in waiters {
        waiter.armed.store(this_sleep, Ordering::Relaxed);
    }
    fence(Ordering::SeqCst);
    let is_ready = (0..LOOKS_ARMED).any(|_| {
        core::hint::spin_loop();
        ready()
    });
    let could = is_ready || {
        let unsure = Deadline::after_ns(SURE_AFTER_NS);
        let is_long = deadline.monotonic_ns() > unsure.monotonic_ns();
        match any.wait(if is_long { unsure } else { deadline }) {
            None => false,
            Some(Woken::TimedOut) if is_long && !ready() => any.wait(deadline).is_some(),
            Some(_) => true,
        }
    };
    waiters.iter().for_each(Waiter::disarm);
    could
}

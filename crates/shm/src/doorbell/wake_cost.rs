//! Measures the cost of waking a sleeper on this machine, with two threads of the caller.

use super::{Ringer, Spin, Waiter};
use crate::clock::{Clock, Deadline, now_ticks};
use crate::layout::CacheLine;
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Rounds of one measurement; odd, so that there is a middle one.
const ROUNDS: usize = 31;
/// How long the waker lets the sleeper fall asleep before each ring.
const FALL_ASLEEP_NS: u64 = 100_000;
/// After this long a partner that did not come is given up.
const GIVE_UP_NS: u64 = 1_000_000_000;

/// Two threads that measure how long it takes from a ring until the sleeper runs.
///
/// One calls [`WakeProbe::wake`], the other [`WakeProbe::sleep`]; this library has no threads of its own.
/// Each is to be held on a processor of its own: waking a sleeper on the same one needs no interrupt, and
/// costs a tenth of the other on some virtual machines.
#[derive(Debug, Default)]
pub struct WakeProbe {
    signal: CacheLine<AtomicU32>,
    armed: CacheLine<AtomicU32>,
    rang_at: CacheLine<AtomicU64>,
    done: CacheLine<AtomicU32>,
}

impl WakeProbe {
    /// A probe for one measurement.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The sleeper's side: the median time from ring to running, in nanoseconds; `None` if the other thread
    /// never came or the machine was too busy to measure anything.
    pub fn sleep(&self) -> Option<u64> {
        let waiter = Waiter::new(&self.signal, &self.armed);
        let clock = Clock::global();
        let mut costs_ns = [u64::MAX; ROUNDS];
        let mut seen = 0;
        for cost_ns in &mut costs_ns {
            let outcome = waiter.wait(seen, &mut Spin::never(), Some(Deadline::after_ns(GIVE_UP_NS)));
            let now = now_ticks();
            let super::WaitOutcome::Changed(value) = outcome else { break };
            seen = value;
            // Acquire is not needed: the value came with the ring that Waiter::wait acquired.
            let ticks = now.saturating_sub(self.rang_at.load(Ordering::Relaxed));
            *cost_ns = clock.ns(ticks) as u64;
        }
        self.done.store(1, Ordering::Relaxed);
        costs_ns.sort_unstable();
        Some(costs_ns[ROUNDS / 2]).filter(|&median| median != u64::MAX)
    }

    /// The waker's side: rings until the sleeper has enough.
    pub fn wake(&self) {
        let ringer = Ringer::new(&self.signal, &self.armed);
        let give_up = Deadline::after_ns(GIVE_UP_NS);
        while self.done.load(Ordering::Relaxed) == 0 && !give_up.has_passed() {
            let pause = Deadline::after_ns(FALL_ASLEEP_NS);
            while !pause.has_passed() {
                crate::cpu::pause();
            }
            // Only a sleeper that sleeps is of interest; the word says so at least a system call before it
            // does.
            if self.armed.load(Ordering::Relaxed) == super::ASLEEP {
                self.rang_at.store(now_ticks(), Ordering::Relaxed);
                ringer.ring();
            }
        }
    }
}

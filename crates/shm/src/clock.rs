//! Time: the processor's counter for what is short, the kernel's monotonic clock for deadlines.

mod calibrate;
mod counter;

pub use counter::{now_ticks, now_ticks_ordered};

use crate::sync::plain::{AtomicU8, Ordering};
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use rustix::time::{ClockId, Timespec};

const NS_PER_SECOND: u64 = 1_000_000_000;
/// How long the process-wide clock is calibrated for: its rate is then good to about 0.01 %.
const GLOBAL_CALIBRATION_NS: u64 = 5_000_000;

/// What was found out about the processor's counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// Ticks in a nanosecond, by the slope of a regression against CLOCK_MONOTONIC_RAW.
    pub ticks_per_ns: f64,
    /// Its inverse, so that converting is a multiplication.
    pub ns_per_tick: f64,
    /// Root mean square distance of the calibration's points from the line, in nanoseconds: how far a single
    /// reading of the two clocks disagrees.
    pub residual_ns: f64,
    /// How long the calibration took, in nanoseconds.
    pub calibrated_for_ns: u64,
    /// Step in which the counter advances, in ticks (what divides all distances between readings): no digit
    /// below it means anything.
    pub step_ticks: u64,
    /// Cost of one reading, in ticks (median).
    pub cost_ticks: u64,
    /// Whether the processor promises one rate whatever it does.
    pub invariant: bool,
    /// Whether both halves of the calibration found the same rate (to 0.1 %) and the counter never went back.
    pub steady: bool,
    /// What is read.
    pub source: Source,
}

/// What [`now_ticks`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The time-stamp counter of x86-64.
    Tsc,
    /// The generic timer of AArch64 (CNTVCT_EL0).
    GenericTimer,
    /// CLOCK_MONOTONIC_RAW, in nanoseconds.
    Kernel,
}

impl Clock {
    /// Compares the counter with CLOCK_MONOTONIC_RAW for `duration_ns` nanoseconds (at least 1 ms), without
    /// sleeping.
    #[must_use]
    pub fn calibrate(duration_ns: u64) -> Self {
        calibrate::calibrate(duration_ns)
    }

    /// The process's clock, calibrated for 5 ms by the thread that asks first.
    #[must_use]
    pub fn global() -> Self {
        GLOBAL.get(|| Self::calibrate(GLOBAL_CALIBRATION_NS))
    }

    /// Nanoseconds that `ticks` take.
    #[inline]
    #[must_use]
    pub fn ns(&self, ticks: u64) -> f64 {
        ticks as f64 * self.ns_per_tick
    }

    /// Ticks in `ns` nanoseconds.
    #[inline]
    #[must_use]
    pub fn ticks(&self, ns: u64) -> u64 {
        (ns as f64 * self.ticks_per_ns) as u64
    }

    /// Smallest step in nanoseconds.
    #[must_use]
    pub fn step_ns(&self) -> f64 {
        self.ns(self.step_ticks)
    }

    /// Cost of one reading in nanoseconds.
    #[must_use]
    pub fn cost_ns(&self) -> f64 {
        self.ns(self.cost_ticks)
    }
}

/// A value that is computed once and never waited for: a thread that comes while another one computes,
/// computes its own.
struct Once {
    state: AtomicU8,
    clock: UnsafeCell<MaybeUninit<Clock>>,
}

const UNSET: u8 = 0;
const BEING_WRITTEN: u8 = 1;
const SET: u8 = 2;

// SAFETY: the cell is written by the one thread that moved the state from UNSET to BEING_WRITTEN, and read
// only after SET was seen, which is final.
unsafe impl Sync for Once {}

static GLOBAL: Once = Once { state: AtomicU8::new(UNSET), clock: UnsafeCell::new(MaybeUninit::uninit()) };

impl Once {
    fn get(&self, compute: impl FnOnce() -> Clock) -> Clock {
        // Acquire: pairs with the Release below.
        if self.state.load(Ordering::Acquire) == SET {
            // SAFETY: SET was seen, so the value is written and never changes again.
            return unsafe { (*self.clock.get()).assume_init() };
        }
        let clock = compute();
        let ours = self.state.compare_exchange(UNSET, BEING_WRITTEN, Ordering::Relaxed, Ordering::Relaxed);
        if ours.is_ok() {
            // SAFETY: only one thread ever gets here, and nobody reads before SET.
            unsafe { (*self.clock.get()).write(clock) };
            // Release: publishes the value to the Acquire above and below.
            self.state.store(SET, Ordering::Release);
        } else if self.state.load(Ordering::Acquire) == SET {
            // SAFETY: SET was seen, so the value is written and never changes again.
            return unsafe { (*self.clock.get()).assume_init() };
        }
        clock
    }
}

/// A point in time at which a wait ends, on the kernel's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline {
    monotonic_ns: u64,
}

impl Deadline {
    /// `wait_ns` nanoseconds from now.
    #[must_use]
    pub fn after_ns(wait_ns: u64) -> Self {
        Self { monotonic_ns: monotonic_ns().saturating_add(wait_ns) }
    }

    /// At `monotonic_ns` nanoseconds of the kernel's CLOCK_MONOTONIC.
    #[must_use]
    pub fn at_monotonic_ns(monotonic_ns: u64) -> Self {
        Self { monotonic_ns }
    }

    /// Nanoseconds of the kernel's CLOCK_MONOTONIC.
    #[must_use]
    pub fn monotonic_ns(self) -> u64 {
        self.monotonic_ns
    }

    /// Whether it has passed.
    #[must_use]
    pub fn has_passed(self) -> bool {
        monotonic_ns() >= self.monotonic_ns
    }

    #[cfg(not(loom))]
    pub(crate) fn timespec(self) -> Timespec {
        let seconds = i64::try_from(self.monotonic_ns / NS_PER_SECOND).unwrap_or(i64::MAX);
        Timespec { tv_sec: seconds, tv_nsec: (self.monotonic_ns % NS_PER_SECOND) as _ }
    }
}

/// Nanoseconds of the kernel's CLOCK_MONOTONIC.
#[must_use]
pub fn monotonic_ns() -> u64 {
    ns_of(rustix::time::clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds of the kernel's CLOCK_MONOTONIC_RAW, which no time service corrects.
#[must_use]
pub fn monotonic_raw_ns() -> u64 {
    ns_of(rustix::time::clock_gettime(ClockId::MonotonicRaw))
}

fn ns_of(time: Timespec) -> u64 {
    // Both fields of these clocks are never negative.
    (time.tv_sec as u64).wrapping_mul(NS_PER_SECOND).wrapping_add(time.tv_nsec as u64)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_global_clock_is_calibrated_once() {
        // The first call may meet another test's calibration halfway.
        let _ = Clock::global();
        let (first, second) = (Clock::global(), Clock::global());
        assert_eq!(first, second);
        assert_eq!(first.ns(first.ticks(1_000_000)).round() as u64 / 1000, 1000);
    }

    #[test]
    fn who_comes_while_another_computes_is_not_kept_waiting() {
        let once =
            Once { state: AtomicU8::new(BEING_WRITTEN), clock: UnsafeCell::new(MaybeUninit::uninit()) };
        let clock = Clock { cost_ticks: 4711, ..Clock::global() };
        assert_eq!(once.get(|| clock), clock);
        let other = Clock { cost_ticks: 4712, ..clock };
        let overtaken = Once { state: AtomicU8::new(UNSET), clock: UnsafeCell::new(MaybeUninit::uninit()) };
        let late = overtaken.get(|| {
            overtaken.get(|| other);
            clock
        });
        assert_eq!(late, other, "who finds another's value when it is done takes that one");
        let free = Once { state: AtomicU8::new(UNSET), ..once };
        assert_eq!(free.get(|| clock), clock);
        assert_eq!(free.get(Clock::global), clock, "the first value stays");
    }

    #[test]
    fn deadlines() {
        let deadline = Deadline::at_monotonic_ns(3 * NS_PER_SECOND + 5);
        assert_eq!((deadline.timespec().tv_sec, deadline.timespec().tv_nsec), (3, 5));
        assert!(Deadline::after_ns(0).has_passed());
        assert!(!Deadline::after_ns(u64::MAX).has_passed());
        assert_eq!(Deadline::after_ns(u64::MAX).timespec().tv_sec, (u64::MAX / NS_PER_SECOND) as i64);
    }
}

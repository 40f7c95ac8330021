//! How long a read spins before it sleeps in the kernel.
//!
//! A spin that finds something is a hit, else it is a miss. After some misses in a row reads do not spin for
//! a while, and for a longer while each time. They never spin while the other end was last seen on the same
//! processor. Where waits turn out to be somewhat longer than a spin, spins become longer, but only while no
//! other thread wants the processor.

use core::arch::asm;

use super::blocked::Limit;
use super::forced;
use super::header::Header;
use crate::raw;
use crate::sync::{AtomicU32, Ordering};

/// Cycles of the processor's clock that a spin lasts: tens of microseconds, whichever clock.
const CYCLES: u64 = 60_000;
/// The longest that it becomes where waits turn out to be longer than that, but not much.
const LONGEST: u64 = 1_000_000;
/// Waits without a spin after another thread wanted the processor.
const CROWDED: u32 = 64;
/// Misses in a row until reads do not spin for a while.
const MAX_MISSES: u32 = 4;

/// What spinning reads of the machine. In tests it is a clock that they set.
pub(crate) trait Clock {
    /// Cycles of the processor's clock.
    fn now(&self) -> u64;

    /// How often this thread had to leave the processor to another one.
    fn preemptions(&self) -> i64;

    /// A moment for the other hyperthread.
    fn pause(&self);

    /// Whether rings are forced: then spins are as long as can be, and let others have the processor.
    fn is_forced(&self) -> bool;
}

/// The machine itself.
pub(crate) struct Machine;

impl Clock for Machine {
    #[inline(always)]
    fn now(&self) -> u64 {
        clock().0
    }

    fn preemptions(&self) -> i64 {
        preemptions()
    }

    #[inline(always)]
    fn pause(&self) {
        relax();
    }

    #[inline(always)]
    fn is_forced(&self) -> bool {
        forced::is_on()
    }
}

/// The hits and misses of earlier spins.
pub(crate) struct SpinHistory {
    misses: AtomicU32,
    /// Waits to go without.
    without: AtomicU32,
    /// Cycles of a spin beyond the usual.
    more: AtomicU32,
}

impl SpinHistory {
    pub(crate) const fn new() -> Self {
        Self { misses: AtomicU32::new(0), without: AtomicU32::new(0), more: AtomicU32::new(0) }
    }

    pub(crate) fn reset(&self) {
        self.misses.store(0, Ordering::Relaxed);
        self.without.store(0, Ordering::Relaxed);
        self.more.store(0, Ordering::Relaxed);
    }

    /// How many cycles to spin; 0 is not at all.
    pub(crate) fn cycles(&self, clock: &impl Clock) -> u64 {
        if clock.is_forced() {
            return LONGEST;
        }
        let without = self.without.load(Ordering::Relaxed);
        if without > 0 {
            self.without.store(without - 1, Ordering::Relaxed);
            return 0;
        }
        CYCLES + u64::from(self.more.load(Ordering::Relaxed))
    }

    /// Another thread wanted the processor meanwhile, to which it is worth more than a spin.
    fn crowded(&self) {
        self.more.store(0, Ordering::Relaxed);
        self.misses.store(MAX_MISSES, Ordering::Relaxed);
        self.without.store(CROWDED, Ordering::Relaxed);
    }

    /// A wait has lasted so long, spinning and sleeping: what is usual is learned from it.
    fn lasted(&self, cycles: u64) {
        let more = u64::from(self.more.load(Ordering::Relaxed));
        if cycles < LONGEST {
            let wanted = (cycles + cycles / 2).min(LONGEST) - CYCLES.min(cycles);
            self.more.store(more.max(wanted) as u32, Ordering::Relaxed);
            self.misses.store(0, Ordering::Relaxed);
            self.without.store(0, Ordering::Relaxed);
        } else {
            self.more.store((more / 2) as u32, Ordering::Relaxed);
        }
    }

    /// A spin has found something.
    pub(crate) fn hit(&self) {
        self.misses.store(0, Ordering::Relaxed);
    }

    /// A spin has found nothing.
    pub(crate) fn miss(&self) {
        let misses = self.misses.load(Ordering::Relaxed).saturating_add(1);
        self.misses.store(misses, Ordering::Relaxed);
        if misses >= MAX_MISSES {
            self.without.store(1 << (misses - MAX_MISSES + 1).min(8), Ordering::Relaxed);
        }
    }
}

/// One spin, and then perhaps a sleep.
pub(crate) struct Spin<'a, C = Machine> {
    clock: C,
    history: &'a SpinHistory,
    start: u64,
    /// 0 if it does not last at all.
    cycles: u64,
    preemptions: Option<i64>,
}

impl<'a> Spin<'a> {
    /// Begins at `start`, of [`clock`]; with `may_spin` it lasts as long as earlier ones make it, and no
    /// longer than the program waits.
    pub(crate) fn begin(history: &'a SpinHistory, start: u64, may_spin: bool, limit: Limit) -> Self {
        Self::by(Machine, history, start, may_spin, limit)
    }
}

impl<'a, C: Clock> Spin<'a, C> {
    /// The same by another clock.
    fn by(clock: C, history: &'a SpinHistory, start: u64, may_spin: bool, limit: Limit) -> Self {
        let cycles = if may_spin { history.cycles(&clock).min(limit.cycles()) } else { 0 };
        Self { clock, history, start, cycles, preemptions: None }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.cycles == 0
    }

    /// Whether it is worth going on.
    pub(crate) fn goes_on(&mut self) -> bool {
        let elapsed = self.clock.now().wrapping_sub(self.start);
        if elapsed >= self.cycles {
            if self.cycles > 0 {
                self.history.miss();
            }
            return false;
        }
        if self.clock.is_forced() {
            // The other end may have to run here.
            forced::yields();
        } else if elapsed > CYCLES {
            let preemptions = self.clock.preemptions();
            if *self.preemptions.get_or_insert(preemptions) != preemptions {
                self.history.crowded();
                return false;
            }
        }
        true
    }

    /// It has found something.
    pub(crate) fn hit(&self) {
        self.history.hit();
    }

    /// After it, a sleep has ended with something.
    pub(crate) fn slept(&self) {
        self.history.lasted(self.clock.now().wrapping_sub(self.start));
    }
}

/// Whether the other end was last seen on another processor than this thread is on, `here`, or that is to
/// make no difference. Says where this one is.
#[inline(always)]
pub(crate) fn is_elsewhere(own: &Header, peer: &Header, here: u32) -> bool {
    is_here(own, here);
    let there = peer.reader.0.processor.load(Ordering::Relaxed);
    !matches!(there, 0 | u32::MAX) && there != here || forced::is_on()
}

/// How often this thread had to leave the processor to another one.
fn preemptions() -> i64 {
    let mut usage = [0_u64; USAGE_BYTES / 8];
    let arguments = [libc::RUSAGE_THREAD as usize, usage.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: room for what the kernel writes.
    unsafe { raw::call(libc::SYS_getrusage, arguments) };
    usage.last().map_or(0, |count| *count as i64)
}

/// Bytes of `struct rusage`, whose last word is `ru_nivcsw` (getrusage(2)).
const USAGE_BYTES: usize = size_of::<libc::rusage>();

/// Says where this end is.
#[inline(always)]
pub(crate) fn is_here(own: &Header, here: u32) {
    let mine = &own.reader.0.processor;
    if mine.load(Ordering::Relaxed) != here {
        mine.store(here, Ordering::Relaxed);
    }
}

/// The processor's clock, and on which one it was read (plus 1).
#[inline(always)]
pub(crate) fn clock() -> (u64, u32) {
    let (low, high, which): (u32, u32, u32);
    // SAFETY: reads the clock and the number that the kernel has put beside it.
    unsafe {
        asm!("rdtscp", out("eax") low, out("edx") high, out("ecx") which, options(nomem, nostack, preserves_flags));
    }
    (u64::from(high) << 32 | u64::from(low), (which & 0xfff) + 1)
}

/// A moment for the other hyperthread.
#[inline(always)]
pub(crate) fn relax() {
    core::hint::spin_loop();
}

/// A clock that tests set.
#[cfg(test)]
pub(super) mod fake {
    use core::cell::Cell;

    use super::Clock;

    /// It goes on by a step each time that it is read.
    pub(crate) struct Fake {
        now: Cell<u64>,
        step: Cell<u64>,
        pauses: Cell<u64>,
        preemptions: Cell<i64>,
    }

    impl Fake {
        pub(crate) fn new() -> Self {
            Self { now: Cell::new(0), step: Cell::new(1), pauses: Cell::new(0), preemptions: Cell::new(0) }
        }

        pub(crate) fn step_by(&self, cycles: u64) {
            self.step.set(cycles);
        }

        /// What it says, without going on.
        pub(crate) fn read(&self) -> u64 {
            self.now.get()
        }

        pub(crate) fn pauses(&self) -> u64 {
            self.pauses.get()
        }

        pub(crate) fn preempts(&self) {
            self.preemptions.set(self.preemptions.get() + 1);
        }
    }

    impl Clock for &Fake {
        fn now(&self) -> u64 {
            (*self).now()
        }

        fn preemptions(&self) -> i64 {
            (*self).preemptions()
        }

        fn pause(&self) {
            (*self).pause();
        }

        fn is_forced(&self) -> bool {
            false
        }
    }

    impl Clock for Fake {
        fn now(&self) -> u64 {
            self.now.set(self.now.get() + self.step.get());
            self.now.get()
        }

        fn preemptions(&self) -> i64 {
            self.preemptions.get()
        }

        fn pause(&self) {
            self.pauses.set(self.pauses.get() + 1);
        }

        fn is_forced(&self) -> bool {
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::Fake;
    use super::*;

    fn spin<'a>(history: &'a SpinHistory, clock: &'a Fake) -> Spin<'a, &'a Fake> {
        Spin::by(clock, history, clock.read(), true, Limit::FOREVER)
    }

    /// Spins without finding anything; for how many cycles.
    fn misses(history: &SpinHistory, clock: &Fake) -> u64 {
        let start = clock.read();
        let mut spin = spin(history, clock);
        while spin.goes_on() {}
        clock.read() - start
    }

    #[test]
    fn after_some_misses_there_is_no_spin_for_a_while_and_a_longer_while_each_time() {
        let (history, clock) = (SpinHistory::new(), Fake::new());
        clock.step_by(1000);
        for _ in 0..MAX_MISSES {
            assert!(misses(&history, &clock) >= CYCLES);
        }
        let mut before = 0;
        for _ in 0..3 {
            let pause = (0..).take_while(|_| spin(&history, &clock).is_none()).count();
            assert!(pause > before, "{pause} waits without a spin after {before}");
            before = pause;
            misses(&history, &clock);
        }
    }

    #[test]
    fn a_hit_ends_that() {
        let (history, clock) = (SpinHistory::new(), Fake::new());
        clock.step_by(1000);
        (0..MAX_MISSES - 1).for_each(|_| assert!(misses(&history, &clock) >= CYCLES));
        spin(&history, &clock).hit();
        (0..MAX_MISSES).for_each(|_| assert!(misses(&history, &clock) >= CYCLES));
    }

    #[test]
    fn waits_that_last_a_little_longer_make_spins_longer() {
        let (history, clock) = (SpinHistory::new(), Fake::new());
        clock.step_by(1000);
        let slept = spin(&history, &clock);
        clock.step_by(3 * CYCLES);
        slept.slept();
        clock.step_by(1000);
        let spun = misses(&history, &clock);
        assert!((3 * CYCLES..LONGEST).contains(&spun), "{spun} cycles");
    }

    #[test]
    fn who_has_to_leave_the_processor_spins_no_longer_than_usual() {
        let (history, clock) = (SpinHistory::new(), Fake::new());
        let slept = spin(&history, &clock);
        clock.step_by(3 * CYCLES);
        slept.slept();
        clock.step_by(1000);
        let mut crowded = spin(&history, &clock);
        while crowded.goes_on() {
            if clock.read() > 5 * CYCLES {
                clock.preempts();
            }
        }
        assert!((0..CROWDED).all(|_| spin(&history, &clock).is_none()));
        assert!(misses(&history, &clock) < 2 * CYCLES);
    }

    #[test]
    fn no_spin_lasts_longer_than_the_program_waits() {
        let (history, clock) = (SpinHistory::new(), Fake::new());
        let short = Spin::by(&clock, &history, clock.read(), true, Limit::milliseconds(0));
        assert!(short.is_none());
        assert!(Spin::by(&clock, &history, clock.read(), false, Limit::FOREVER).is_none());
    }
}

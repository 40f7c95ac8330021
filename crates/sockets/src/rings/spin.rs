//! How long a read spins before it sleeps in the kernel.
//!
//! Only as long as it has paid: after a few looks in vain there are none for a while, and a longer while each time. Never while the
//! other end was last seen on the same processor. Where waits turn out to be somewhat longer than a look, looks become longer; but
//! only while nobody else wants the processor.

use core::arch::asm;

use super::blocked::Limit;
use super::forced;
use super::words::Words;
use crate::raw;
use crate::sync::{AtomicU32, Ordering};

/// Cycles of the processor's clock that a look lasts: tens of microseconds, whichever clock.
const CYCLES: u64 = 60_000;
/// The longest that it becomes where waits turn out to be longer than that, but not much.
const LONGEST: u64 = 1_000_000;
/// Waits without a look after somebody else wanted the processor.
const CROWDED: u32 = 64;
/// Looks in vain until there are none.
const PATIENCE: u32 = 4;

/// What spinning reads of the machine. In tests it is a clock that they set.
pub(crate) trait Clock {
    /// Cycles of the processor's clock.
    fn now(&self) -> u64;

    /// How often this thread had to leave the processor to another one.
    fn preemptions(&self) -> i64;

    /// A moment for the other hyperthread.
    fn pause(&self);

    /// Whether rings are forced: then looks last, and let others have the processor.
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

/// What is known of how looking has paid.
pub(crate) struct Spin {
    vain: AtomicU32,
    /// Waits to go without.
    without: AtomicU32,
    /// Cycles of a look beyond the usual.
    more: AtomicU32,
}

impl Spin {
    pub(crate) const fn new() -> Self {
        Self { vain: AtomicU32::new(0), without: AtomicU32::new(0), more: AtomicU32::new(0) }
    }

    pub(crate) fn reset(&self) {
        self.vain.store(0, Ordering::Relaxed);
        self.without.store(0, Ordering::Relaxed);
        self.more.store(0, Ordering::Relaxed);
    }

    /// How many cycles to look; 0 is not at all.
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

    /// Somebody else wanted the processor meanwhile: to him it is worth more than a look.
    fn crowded(&self) {
        self.more.store(0, Ordering::Relaxed);
        self.vain.store(PATIENCE, Ordering::Relaxed);
        self.without.store(CROWDED, Ordering::Relaxed);
    }

    /// A wait has lasted so long, looking and sleeping: what is usual is learned from it.
    fn lasted(&self, cycles: u64) {
        let more = u64::from(self.more.load(Ordering::Relaxed));
        if cycles < LONGEST {
            let wanted = (cycles + cycles / 2).min(LONGEST) - CYCLES.min(cycles);
            self.more.store(more.max(wanted) as u32, Ordering::Relaxed);
            self.vain.store(0, Ordering::Relaxed);
            self.without.store(0, Ordering::Relaxed);
        } else {
            self.more.store((more / 2) as u32, Ordering::Relaxed);
        }
    }

    /// It has paid.
    pub(crate) fn paid(&self) {
        self.vain.store(0, Ordering::Relaxed);
    }

    /// It has not.
    pub(crate) fn in_vain(&self) {
        let vain = self.vain.load(Ordering::Relaxed).saturating_add(1);
        self.vain.store(vain, Ordering::Relaxed);
        if vain >= PATIENCE {
            self.without.store(1 << (vain - PATIENCE + 1).min(8), Ordering::Relaxed);
        }
    }
}

/// One look that lasts, and then perhaps a sleep.
pub(crate) struct Look<'a, C = Machine> {
    clock: C,
    spin: &'a Spin,
    start: u64,
    /// 0 if it does not last at all.
    cycles: u64,
    preemptions: Option<i64>,
}

impl<'a> Look<'a> {
    /// Begins at `start`, of [`clock`]; with `pays` it lasts as long as has paid before, and no longer than the program waits.
    pub(crate) fn begin(spin: &'a Spin, start: u64, pays: bool, limit: Limit) -> Self {
        Self::by(Machine, spin, start, pays, limit)
    }
}

impl<'a, C: Clock> Look<'a, C> {
    /// The same by another clock.
    fn by(clock: C, spin: &'a Spin, start: u64, pays: bool, limit: Limit) -> Self {
        let cycles = if pays { spin.cycles(&clock).min(limit.cycles()) } else { 0 };
        Self { clock, spin, start, cycles, preemptions: None }
    }

    pub(crate) fn is_none(&self) -> bool {
        self.cycles == 0
    }

    /// Whether it is worth going on.
    pub(crate) fn goes_on(&mut self) -> bool {
        let elapsed = self.clock.now().wrapping_sub(self.start);
        if elapsed >= self.cycles {
            if self.cycles > 0 {
                self.spin.in_vain();
            }
            return false;
        }
        if self.clock.is_forced() {
            // The other end may have to run here.
            forced::yields();
        } else if elapsed > CYCLES {
            let preemptions = self.clock.preemptions();
            if *self.preemptions.get_or_insert(preemptions) != preemptions {
                self.spin.crowded();
                return false;
            }
        }
        true
    }

    /// It has found something.
    pub(crate) fn paid(&self) {
        self.spin.paid();
    }

    /// After it, a sleep has ended with something.
    pub(crate) fn slept(&self) {
        self.spin.lasted(self.clock.now().wrapping_sub(self.start));
    }
}

/// Whether the other end was last seen on another processor than this thread is on, `here`, or that is to make no difference. Says where this
/// one is.
#[inline(always)]
pub(crate) fn is_elsewhere(own: &Words, peer: &Words, here: u32) -> bool {
    is_here(own, here);
    let there = peer.will.0.processor.load(Ordering::Relaxed);
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
pub(crate) fn is_here(own: &Words, here: u32) {
    let mine = &own.will.0.processor;
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

    fn look<'a>(spin: &'a Spin, clock: &'a Fake) -> Look<'a, &'a Fake> {
        Look::by(clock, spin, clock.read(), true, Limit::FOREVER)
    }

    /// Spins without finding anything; for how many cycles.
    fn misses(spin: &Spin, clock: &Fake) -> u64 {
        let start = clock.read();
        let mut look = look(spin, clock);
        while look.goes_on() {}
        clock.read() - start
    }

    #[test]
    fn after_some_misses_there_is_no_spin_for_a_while_and_a_longer_while_each_time() {
        let (spin, clock) = (Spin::new(), Fake::new());
        clock.step_by(1000);
        for _ in 0..PATIENCE {
            assert!(misses(&spin, &clock) >= CYCLES);
        }
        let mut before = 0;
        for _ in 0..3 {
            let pause = (0..).take_while(|_| look(&spin, &clock).is_none()).count();
            assert!(pause > before, "{pause} waits without a spin after {before}");
            before = pause;
            misses(&spin, &clock);
        }
    }

    #[test]
    fn a_hit_ends_that() {
        let (spin, clock) = (Spin::new(), Fake::new());
        clock.step_by(1000);
        (0..PATIENCE - 1).for_each(|_| assert!(misses(&spin, &clock) >= CYCLES));
        look(&spin, &clock).paid();
        (0..PATIENCE).for_each(|_| assert!(misses(&spin, &clock) >= CYCLES));
    }

    #[test]
    fn waits_that_last_a_little_longer_make_spins_longer() {
        let (spin, clock) = (Spin::new(), Fake::new());
        clock.step_by(1000);
        let look_that_slept = look(&spin, &clock);
        clock.step_by(3 * CYCLES);
        look_that_slept.slept();
        clock.step_by(1000);
        let spun = misses(&spin, &clock);
        assert!((3 * CYCLES..LONGEST).contains(&spun), "{spun} cycles");
    }

    #[test]
    fn who_has_to_leave_the_processor_spins_no_longer_than_usual() {
        let (spin, clock) = (Spin::new(), Fake::new());
        let look_that_slept = look(&spin, &clock);
        clock.step_by(3 * CYCLES);
        look_that_slept.slept();
        clock.step_by(1000);
        let mut crowded = look(&spin, &clock);
        while crowded.goes_on() {
            if clock.read() > 5 * CYCLES {
                clock.preempts();
            }
        }
        assert!((0..CROWDED).all(|_| look(&spin, &clock).is_none()));
        assert!(misses(&spin, &clock) < 2 * CYCLES);
    }

    #[test]
    fn no_spin_lasts_longer_than_the_program_waits() {
        let (spin, clock) = (Spin::new(), Fake::new());
        let short = Look::by(&clock, &spin, clock.read(), true, Limit::milliseconds(0));
        assert!(short.is_none());
        assert!(Look::by(&clock, &spin, clock.read(), false, Limit::FOREVER).is_none());
    }
}

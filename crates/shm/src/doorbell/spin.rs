//! How long a waiter spins before it sleeps.

use crate::clock::{Clock, now_ticks};
use crate::sync::plain::{AtomicU64, Ordering};
use crate::sync::spin_loop;

/// Spin for this long at most if nothing was measured: about what a wake-up of another core costs (7–28 µs on
/// a virtual machine), so that a wait never costs more than about twice what the better of spinning and
/// sleeping would have.
const DEFAULT_CEILING_NS: u64 = 30_000;
/// Below this a spin cannot meet anything: the other side needs longer for one line of cache.
const FLOOR_NS: u64 = 500;
/// A spin that was given up is tried again after so many waits …
const RETRY_FIRST: u32 = 16;
/// … and, when the attempts go on failing, after at most so many: a failed attempt costs the ceiling.
const RETRY_LAST: u32 = 1024;
/// Waits of a thread that is held on one processor before it tries its first spin.
const PROBATION: u32 = 4;
/// Looks between two readings of the clock, which costs more than a look.
const LOOKS_PER_READING: u32 = 8;

/// Looks before the first `pause` and the first reading of the clock: about half a microsecond.
#[cfg(not(loom))]
const QUICK_LOOKS: u32 = 256;
#[cfg(loom)]
const QUICK_LOOKS: u32 = 0;

/// What [`Spin::new`] starts from, for the whole process; 0 = nothing was set.
static PROCESS_CEILING_NS: AtomicU64 = AtomicU64::new(0);

/// How long one waiter spins before it sleeps, learnt from how its waits went.
///
/// A spin that met what it waited for doubles the time, one without success halves it; a spin that has come
/// down to nothing is tried again now and then, ever more rarely. On a machine with a single processor there
/// is no spinning, because the other side cannot run meanwhile. A thread that is held on one processor of
/// several does not know whether the other side is held on the same one: it begins without spinning and finds
/// out.
#[derive(Clone, Copy, Debug)]
pub struct Spin {
    limit_ns: u64,
    ceiling_ns: u64,
    limit_ticks: u64,
    waits_until_retry: u32,
    retry_after: u32,
    hits: u64,
    misses: u64,
}

impl Default for Spin {
    fn default() -> Self {
        Self::new()
    }
}

impl Spin {
    /// Spins up to the process's ceiling ([`Spin::set_process_ceiling_ns`]), or 30 µs; see
    /// [`Spin::up_to_ns`].
    #[must_use]
    pub fn new() -> Self {
        match PROCESS_CEILING_NS.load(Ordering::Relaxed) {
            0 => Self::up_to_ns(DEFAULT_CEILING_NS),
            set => Self::up_to_ns(set - 1),
        }
    }

    /// Spins for up to `ceiling_ns` nanoseconds; 0 = never. Not at all on a machine with one processor; only
    /// after a few waits, if that has paid then, if this thread may use one processor only.
    #[must_use]
    pub fn up_to_ns(ceiling_ns: u64) -> Self {
        let alone = crate::cpu::online_count().is_some_and(|cpus| cpus < 2);
        let held = || crate::cpu::allowed_cpus().is_ok_and(|cpus| cpus.count() < 2);
        match ceiling_ns {
            0 => Self::never(),
            _ if alone => Self::never(),
            _ if held() => Self::on_probation(ceiling_ns),
            _ => Self::with_ceiling(ceiling_ns),
        }
    }

    /// Sleeps at first and tries a spin after a few waits. If the other side runs on this very processor the
    /// attempt fails, and costs one ceiling; then it is as if a spin had been given up.
    fn on_probation(ceiling_ns: u64) -> Self {
        let mut spin = Self { waits_until_retry: PROBATION, ..Self::with_ceiling(ceiling_ns) };
        spin.set_limit(0);
        spin
    }

    /// Never spins.
    #[must_use]
    pub fn never() -> Self {
        Self::with_ceiling(0)
    }

    /// Sets what [`Spin::new`] uses from now on in this process: for instance twice what
    /// [`WakeProbe`](super::WakeProbe) measured, or what the user configured.
    pub fn set_process_ceiling_ns(ceiling_ns: u64) {
        // One more, because 0 stands for "not set".
        PROCESS_CEILING_NS.store(ceiling_ns.saturating_add(1), Ordering::Relaxed);
    }

    fn with_ceiling(ceiling_ns: u64) -> Self {
        let mut spin = Self {
            limit_ns: 0,
            ceiling_ns,
            limit_ticks: 0,
            waits_until_retry: RETRY_FIRST,
            retry_after: RETRY_FIRST,
            hits: 0,
            misses: 0,
        };
        spin.set_limit(ceiling_ns);
        spin
    }

    /// How long the next wait spins, in nanoseconds.
    #[must_use]
    pub fn limit_ns(&self) -> u64 {
        self.limit_ns
    }

    /// The longest that a wait may spin, in nanoseconds.
    #[must_use]
    pub fn ceiling_ns(&self) -> u64 {
        self.ceiling_ns
    }

    /// Spins that met what they waited for.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits
    }

    /// Waits that had to sleep.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses
    }

    /// Spins until `ready` or until the limit, and learns; returns whether it was ready.
    pub(super) fn run(&mut self, ready: &mut impl FnMut() -> bool) -> bool {
        // Even without a spin one look is worth its price, and it is no evidence that spinning would pay.
        if ready() {
            return true;
        }
        self.maybe_retry();
        if self.limit_ticks == 0 {
            self.misses += 1;
            return false;
        }
        let met = look_for(self.limit_ticks, ready);
        self.learn(met);
        met
    }

    fn maybe_retry(&mut self) {
        if self.limit_ns > 0 || self.ceiling_ns == 0 {
            return;
        }
        self.waits_until_retry = self.waits_until_retry.saturating_sub(1);
        if self.waits_until_retry == 0 {
            self.retry_after = (self.retry_after * 2).min(RETRY_LAST);
            self.waits_until_retry = self.retry_after;
            self.set_limit(self.ceiling_ns);
        }
    }

    fn learn(&mut self, met: bool) {
        if met {
            self.hits += 1;
            self.retry_after = RETRY_FIRST;
            self.waits_until_retry = RETRY_FIRST;
            self.set_limit((self.limit_ns * 2).min(self.ceiling_ns));
            return;
        }
        self.misses += 1;
        // A retry that failed says as much as the failures before it: no second chance at half the time.
        let retried = self.retry_after > RETRY_FIRST;
        let halved = self.limit_ns / 2;
        self.set_limit(if retried || halved < FLOOR_NS { 0 } else { halved });
    }

    fn set_limit(&mut self, limit_ns: u64) {
        if limit_ns != self.limit_ns {
            self.limit_ns = limit_ns;
            self.limit_ticks = Clock::global().ticks(limit_ns);
        }
    }
}

fn look_for(limit_ticks: u64, ready: &mut impl FnMut() -> bool) -> bool {
    // Another party that is awake answers within a few transfers of a line. `pause` costs up to 140 cycles
    // and the clock as much again, so neither comes before these looks, which take about as long as the
    // shortest spin.
    for _ in 0..QUICK_LOOKS {
        if ready() {
            return true;
        }
    }
    let start = now_ticks();
    loop {
        for _ in 0..LOOKS_PER_READING {
            spin_loop();
            if ready() {
                return true;
            }
        }
        if now_ticks().wrapping_sub(start) >= limit_ticks {
            return false;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn waits(spin: &mut Spin, count: usize, met: bool) {
        for _ in 0..count {
            let mut looks = 0;
            let result = spin.run(&mut || {
                looks += 1;
                met && looks > 1
            });
            // A spin that is given up cannot meet anything.
            assert!(met || !result);
        }
    }

    #[test]
    fn success_doubles_and_failure_halves_down_to_nothing() {
        let mut spin = Spin::with_ceiling(16_000);
        assert_eq!(spin.limit_ns(), 16_000);
        waits(&mut spin, 1, false);
        assert_eq!(spin.limit_ns(), 8_000);
        waits(&mut spin, 1, true);
        assert_eq!(spin.limit_ns(), 16_000);
        waits(&mut spin, 1, true);
        assert_eq!(spin.limit_ns(), 16_000, "never above the ceiling");
        waits(&mut spin, 6, false);
        assert_eq!(spin.limit_ns(), 0);
        assert_eq!((spin.hits(), spin.misses()), (2, 7));
    }

    #[test]
    fn a_spin_that_was_given_up_is_tried_again_ever_more_rarely() {
        let mut spin = Spin::with_ceiling(1_000);
        waits(&mut spin, 2, false);
        assert_eq!(spin.limit_ns(), 0);
        let mut attempts = Vec::new();
        for wait in 0..5_000_u32 {
            let mut looks = 0;
            spin.run(&mut || {
                looks += 1;
                false
            });
            if looks > 1 {
                attempts.push(wait);
            }
        }
        let distances: Vec<_> = attempts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(distances, [32, 64, 128, 256, 512, 1024, 1024, 1024]);
    }

    #[test]
    fn a_retry_that_succeeds_brings_the_spin_back() {
        let mut spin = Spin::with_ceiling(1_000);
        waits(&mut spin, 2, false);
        waits(&mut spin, RETRY_FIRST as usize, true);
        assert_eq!(spin.limit_ns(), 1_000);
        assert_eq!(spin.hits(), 1);
        waits(&mut spin, 1, false);
        assert_eq!(spin.limit_ns(), 500, "and it is given up by halves again");
    }

    #[test]
    fn a_thread_that_is_held_on_one_processor_of_several_spins_once_that_has_paid() {
        if crate::cpu::online_count().is_none_or(|cpus| cpus < 2) {
            std::println!("skipped: needs two processors");
            return;
        }
        let held = || {
            crate::cpu::pin_current_thread(crate::cpu::current_cpu()).unwrap();
            Spin::up_to_ns(16_000)
        };
        let spin = std::thread::spawn(held).join().unwrap();
        assert_eq!((spin.limit_ns(), spin.ceiling_ns()), (0, 16_000));

        // The other side is on another processor: after a few waits it spins, and continues.
        let mut paying = spin;
        waits(&mut paying, PROBATION as usize, true);
        assert_eq!((paying.limit_ns(), paying.hits()), (16_000, 1));

        // On the same one: a single attempt, and then ever more rarely.
        let mut failing = spin;
        let mut attempts = 0;
        for _ in 0..=PROBATION + RETRY_FIRST {
            let mut looks = 0;
            failing.run(&mut || {
                looks += 1;
                false
            });
            attempts += u32::from(looks > 1);
        }
        assert_eq!((attempts, failing.limit_ns()), (1, 0));
        assert_eq!(Spin::up_to_ns(0).ceiling_ns(), 0);
    }

    #[test]
    fn never_means_never() {
        let mut spin = Spin::never();
        for _ in 0..3_000 {
            let mut looks = 0;
            assert!(!spin.run(&mut || {
                looks += 1;
                false
            }));
            assert_eq!(looks, 1);
        }
    }
}

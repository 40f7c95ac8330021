//! What was measured of copy kernels on a machine, and the plan that follows from it.

use super::classes::{CLASSES, class_end_bytes};
use super::{KERNELS, KernelId, Plan};

/// Where the bytes of a copy are before it, and what is done with them after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Temperature {
    /// Source and destination were just used by this processor.
    Hot = 0,
    /// No cache holds the destination.
    ColdTarget = 1,
    /// No cache holds source or destination.
    Cold = 2,
    /// The destination is read after the copy; the time includes that. Source and destination of up to half a
    /// MiB were used a while ago, so that only a large cache still holds them; longer ones are as with
    /// [`Temperature::Hot`].
    ReadNext = 3,
}

impl Temperature {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Hot, Self::ColdTarget, Self::Cold, Self::ReadNext];

    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::ColdTarget => "cold destination",
            Self::Cold => "cold",
            Self::ReadNext => "read next",
        }
    }
}

/// A kernel must not be slower than the C library's `memcpy` by more than this at any temperature, in the
/// mean of a class and those beside it: single readings are uncertain by some percent.
const SLOWER_AT_MOST: f64 = 1.01;
/// What is added to that at most where even and odd rounds differ: a kernel that is as fast would otherwise
/// be refused in one measurement and used in the next.
const NOISE_AT_MOST: f64 = 0.01;
/// The same for the class alone, in the rounds in which it was the better.
const SLOWER_AT_MOST_ALONE: f64 = 1.02;
/// The same for copies below [`TINY_BYTES`], whose times are a few ticks of the counter, in nanoseconds.
const SLOWER_AT_MOST_NS: f64 = 1.0;
const TINY_BYTES: usize = 512;
/// The share of the time of the C library's `memcpy`, or of the kernel of the sizes below, that a kernel may
/// take to be used instead: the geometric mean over the temperatures, in even rounds and in odd ones. Smaller
/// gains come by chance; where two measurements of one machine disagree whether it is reached, their plans
/// are as fast by this and the noise.
const WORTH: f64 = 0.985;
/// What is slower by more than this is not timed again where that takes long: no other round can make up for
/// it.
const OUT: f64 = 1.15;

/// Odd and even rounds.
pub(super) const HALVES: usize = 2;

/// Times of copies by class of sizes, kernel and temperature, in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Timings {
    ns: [[[[f32; HALVES]; Temperature::ALL.len()]; KERNELS + 1]; CLASSES],
}

impl Default for Timings {
    fn default() -> Self {
        Self { ns: [[[[f32::NAN; HALVES]; Temperature::ALL.len()]; KERNELS + 1]; CLASSES] }
    }
}

impl Timings {
    /// The time of a copy of [`class_end_bytes`], if it was measured, in nanoseconds.
    #[must_use]
    pub fn ns(&self, class: usize, kernel: KernelId, temperature: Temperature) -> Option<f64> {
        self.ns_of(class, kernel, temperature, Rounds::All)
    }

    fn ns_of(&self, class: usize, kernel: KernelId, temperature: Temperature, rounds: Rounds) -> Option<f64> {
        let halves = self.ns[class][kernel as usize][temperature as usize];
        let ns = match rounds {
            Rounds::All => halves[0].min(halves[1]),
            Rounds::Half(half) => halves[half],
        };
        (!ns.is_nan()).then_some(f64::from(ns))
    }

    /// Sets the time of a copy as odd rounds (`half` is 1) or even ones (0) tell it.
    pub fn set(&mut self, class: usize, kernel: KernelId, temperature: Temperature, half: usize, ns: f64) {
        self.ns[class][kernel as usize][temperature as usize][half] = ns as f32;
    }

    /// The fastest kernel that was measured for a class at a temperature, with its time.
    #[must_use]
    pub fn best(&self, class: usize, temperature: Temperature) -> Option<(KernelId, f64)> {
        let times = KernelId::ALL.into_iter().filter_map(|id| Some((id, self.ns(class, id, temperature)?)));
        times.min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// The plan for the machine that was measured: for each class, of the kernels that are at no temperature
    /// slower than the C library's `memcpy`, the one that gains most over it, all temperatures taken together
    /// (the geometric mean of the ratios).
    ///
    /// The C library's `memcpy` comes before it, and then the kernel of the class below, unless that costs
    /// more than the noise of the measurement. A class that was not measured is served as the one below it.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let mut chosen = [KernelId::Libc; CLASSES];
        let mut before = KernelId::Libc;
        for (class, kernel) in chosen.iter_mut().enumerate() {
            before = self.choose(class, before);
            *kernel = before;
        }
        Plan::of_classes(chosen)
    }

    /// Whether a kernel is so slow for a class that it need not be timed any more: than the C library's
    /// `memcpy` at some temperature, or than the best of the others in all.
    pub(super) fn is_out(&self, class: usize, kernel: KernelId) -> bool {
        if kernel == KernelId::Libc {
            return false;
        }
        let ratio = |id, at| self.ratio(class, id, at, Rounds::All);
        let is_slow =
            |id| Temperature::ALL.into_iter().any(|at| ratio(id, at).is_some_and(|ratio| ratio > OUT));
        let measured = Temperature::ALL.into_iter().filter(|at| ratio(kernel, *at).is_some());
        let out: f64 = measured.map(|_| OUT).product();
        let cost = |id| self.cost(class, id, Rounds::All);
        let others =
            KernelId::ALL.into_iter().filter(|id| ratio(*id, Temperature::Hot).is_some() && !is_slow(*id));
        is_slow(kernel) || others.map(cost).any(|best| cost(kernel) > best * out)
    }

    fn choose(&self, class: usize, before: KernelId) -> KernelId {
        if self.ns(class, KernelId::Libc, Temperature::Hot).is_none() {
            return before;
        }
        let fit = || KernelId::ALL.into_iter().filter(|id| self.is_no_slower(class, *id));
        let cost = |id: KernelId| self.cost(class, id, Rounds::All);
        let Some(best) = fit().min_by(|one, other| cost(*one).total_cmp(&cost(*other))) else {
            return KernelId::Libc;
        };
        // The C library's first: it is what a user would have had.
        [KernelId::Libc, before]
            .into_iter()
            .find(|id| fit().any(|fit| fit == *id) && !self.is_clearly_better(class, best, *id))
            .unwrap_or(best)
    }

    /// Whether a kernel is faster than another by what that is [worth](WORTH), as odd and even rounds say.
    fn is_clearly_better(&self, class: usize, one: KernelId, other: KernelId) -> bool {
        let measured = |at: &Temperature| self.ns(class, one, *at).is_some();
        let worth: f64 = Temperature::ALL.iter().filter(|at| measured(at)).map(|_| WORTH).product();
        let says = |rounds| self.cost(class, one, rounds) <= self.cost(class, other, rounds) * worth;
        (0..HALVES).map(Rounds::Half).all(says)
    }

    /// At no temperature slower than the C library's `memcpy`, and measured wherever that was.
    fn is_no_slower(&self, class: usize, kernel: KernelId) -> bool {
        Temperature::ALL.into_iter().all(|at| {
            let Some(libc) = self.ns(class, KernelId::Libc, at) else { return true };
            let Some(ns) = self.ns(class, kernel, at) else { return false };
            let is_tiny = class_end_bytes(class) < TINY_BYTES && ns <= libc + SLOWER_AT_MOST_NS;
            let in_a_half = |half| {
                self.ratio(class, kernel, at, Rounds::Half(half))
                    .is_some_and(|ratio| ratio <= SLOWER_AT_MOST_ALONE)
            };
            let allowed = SLOWER_AT_MOST + self.noise(class, kernel, at).min(NOISE_AT_MOST);
            let is_fast = self.around(class, kernel, at, Rounds::All).is_some_and(|ratio| ratio <= allowed);
            is_tiny || is_fast && (0..HALVES).any(in_a_half)
        })
    }

    /// By how much even and odd rounds differ on its time over that of the C library's `memcpy`.
    fn noise(&self, class: usize, kernel: KernelId, at: Temperature) -> f64 {
        let [even, odd] = [0, 1].map(|half| self.ratio(class, kernel, at, Rounds::Half(half)));
        even.zip(odd).map_or(0.0, |(even, odd)| (even - odd).abs())
    }

    /// Its times over those of the C library's `memcpy`, as the mean of a class and those beside it, at all
    /// temperatures multiplied.
    fn cost(&self, class: usize, kernel: KernelId, rounds: Rounds) -> f64 {
        Temperature::ALL.into_iter().filter_map(|at| self.around(class, kernel, at, rounds)).product()
    }

    /// Its time over that of the C library's `memcpy` at one temperature: the mean of a class and those
    /// beside it.
    fn around(&self, class: usize, kernel: KernelId, at: Temperature, rounds: Rounds) -> Option<f64> {
        let own = self.ratio(class, kernel, at, rounds)?;
        let ratio = |class| self.ratio(class, kernel, at, rounds);
        // Of large sizes only each second class is measured.
        let below = (1..=2).find_map(|by| ratio(class.checked_sub(by)?));
        let above = (1..=2).find_map(|by| ratio(Some(class + by).filter(|next| *next < CLASSES)?));
        let (mut sum, mut count) = (2.0 * own, 2.0);
        for ratio in [below, above].into_iter().flatten() {
            (sum, count) = (sum + ratio, count + 1.0);
        }
        Some(sum / count)
    }

    fn ratio(&self, class: usize, kernel: KernelId, at: Temperature, rounds: Rounds) -> Option<f64> {
        Some(self.ns_of(class, kernel, at, rounds)? / self.ns_of(class, KernelId::Libc, at, rounds)?)
    }
}

/// Which readings count.
#[derive(Clone, Copy, Debug)]
enum Rounds {
    All,
    Half(usize),
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// A made-up machine: the time of a kernel, by its size in bytes and the temperature.
    fn machine(ns: impl Fn(KernelId, usize, Temperature) -> Option<f64>) -> Timings {
        let mut timings = Timings::default();
        for class in 0..CLASSES {
            for id in KernelId::ALL {
                for at in Temperature::ALL {
                    if let Some(ns) = ns(id, class_end_bytes(class), at) {
                        (0..HALVES).for_each(|half| timings.set(class, id, at, half, ns));
                    }
                }
            }
        }
        timings
    }

    fn at(gb_s: f64, bytes: usize) -> Option<f64> {
        Some(5.0 + bytes as f64 / gb_s)
    }

    #[test]
    fn where_all_are_alike_the_c_library_copies() {
        assert_eq!(machine(|_, bytes, _| at(10.0, bytes)).plan(), Plan::LIBC);
        assert_eq!(Timings::default().plan(), Plan::LIBC);
    }

    #[test]
    fn a_kernel_that_is_slow_above_a_size_is_not_used_there() {
        let plan = machine(|id, bytes, _| match id {
            KernelId::Avx512 if bytes > 1 << 20 => at(8.0, bytes),
            KernelId::Avx512 => at(20.0, bytes),
            _ => at(10.0, bytes),
        })
        .plan();
        assert_eq!(
            (plan.kernel_for(1 << 20), plan.kernel_for((1 << 20) + 1)),
            (KernelId::Avx512, KernelId::Libc)
        );
        assert_eq!(plan.kernel_for(4096), KernelId::Avx512);
    }

    #[test]
    fn a_kernel_that_is_fast_only_cold_is_not_used_where_it_costs_hot() {
        let plan = machine(|id, bytes, temperature| match (id, temperature) {
            (KernelId::Avx512Stream, Temperature::Cold | Temperature::ColdTarget) => at(20.0, bytes),
            (KernelId::Avx512Stream, _) if bytes < 1 << 24 => at(4.0, bytes),
            _ => at(10.0, bytes),
        })
        .plan();
        assert_eq!(
            (plan.kernel_for(1 << 20), plan.kernel_for(1 << 26)),
            (KernelId::Libc, KernelId::Avx512Stream)
        );
    }

    #[test]
    fn of_two_that_are_no_slower_the_one_is_taken_that_gains_most_in_all() {
        let plan = machine(|id, bytes, temperature| match (id, temperature) {
            (KernelId::Avx2, Temperature::Hot) => at(30.0, bytes),
            (KernelId::RepMovsb, Temperature::Hot) => at(25.0, bytes),
            (KernelId::RepMovsb, _) => at(20.0, bytes),
            _ => at(10.0, bytes),
        })
        .plan();
        assert_eq!(plan.kernel_for(1 << 20), KernelId::RepMovsb);
    }

    #[test]
    fn noise_of_a_percent_changes_no_plan() {
        let truth = |id, bytes| match id {
            KernelId::RepMovsb if bytes > 1 << 16 => at(15.0, bytes),
            _ => at(10.0, bytes),
        };
        let clear = machine(|id, bytes, _| truth(id, bytes)).plan();
        for seed in 1..50_u64 {
            let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let noisy = core::cell::RefCell::new(&mut random);
            let plan = machine(|id, bytes, _| {
                let mut random = noisy.borrow_mut();
                **random ^= **random << 13;
                **random ^= **random >> 7;
                **random ^= **random << 17;
                let noise = 1.0 + (**random % 1000) as f64 / 1e5;
                truth(id, bytes).map(|ns| ns * noise)
            })
            .plan();
            assert_eq!(plan, clear, "seed {seed}");
        }
    }

    #[test]
    fn what_was_not_measured_is_served_as_the_size_below() {
        let plan = machine(|id, bytes, _| {
            (bytes <= 1 << 22).then_some(())?;
            at(if id == KernelId::RepMovsb { 20.0 } else { 10.0 }, bytes)
        })
        .plan();
        assert_eq!(plan.kernel_for(1 << 30), KernelId::RepMovsb);
        // A processor that cannot run a kernel has no time of it.
        let plan = machine(|id, bytes, _| if id == KernelId::Libc { at(1.0, bytes) } else { None }).plan();
        assert_eq!(plan, Plan::LIBC);
    }
}

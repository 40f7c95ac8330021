//! Times the copy kernels on this machine.
//!
//! Kernels take turns on the same buffers, in rounds, and the shortest time of each counts: whatever else the machine does
//! only makes a copy longer. Both buffers are memory as segments are made of. A buffer is
//! made cold by evicting its lines, not by reading others of several times a last-level cache.

use super::classes::{CLASSES, class_end_bytes};
use super::{Kernel, KernelId, Temperature, Timings, kernels};
use crate::Result;
use crate::clock::{Clock, now_ticks, now_ticks_ordered};
use crate::region::{Region, RegionOptions};
use rustix::time::{ClockId, clock_gettime};

/// A reading of the counter costs some 10 ns, so that short copies are timed several at a time, for at least so many bytes.
const BYTES_PER_READING: usize = 64 << 10;
/// From this size on the kernel's clock of the thread is read, which takes some hundred nanoseconds.
const LONG_BYTES: usize = 1 << 20;
/// Rounds that each class of sizes gets whatever they cost.
const LEAST_ROUNDS: u32 = 3;
/// Rounds after which more tell nothing new.
const MOST_ROUNDS: u32 = 60;
/// Above this size each reading takes milliseconds: only powers of two are measured, without what matters less there.
const LARGE_BYTES: usize = 4 << 20;
/// Shares of the time: of a class up to that size, and of one above it.
const SHARES: [u64; 2] = [10, 30];

/// How much a measurement may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest copy that is timed, in bytes. Twice as much memory is taken meanwhile.
    pub largest_bytes: usize,
    /// How long all of it is to take at most, in nanoseconds; a slow machine is given the [`LEAST_ROUNDS`] in any case.
    pub time_ns: u64,
}

impl Limits {
    /// What is found in 0.3 s is good for all sizes.
    pub const DEFAULT: Self = Self { largest_bytes: 64 << 20, time_ns: 300_000_000 };
}

/// Times all kernels of this processor at all temperatures.
///
/// # Errors
/// Memory for the two buffers cannot be had.
pub fn measure(limits: Limits) -> Result<Timings> {
    let bytes = limits.largest_bytes.max(4096);
    let source = Region::create(&RegionOptions::new("tieline-tune-source", bytes))?;
    let target = Region::create(&RegionOptions::new("tieline-tune-target", bytes))?;
    let bench = Bench { source, target, ns_per_tick: Clock::global().ns_per_tick };
    bench.prefault();
    let begin = now_ticks();
    let elapsed_ns = |begin: u64| (now_ticks().wrapping_sub(begin) as f64 * bench.ns_per_tick) as u64;
    let mut timings = Timings::default();
    for class in (0..CLASSES).filter(|class| is_measured(*class, bytes)) {
        // The short ones need little: what they leave is for the long ones.
        let left_ns = limits.time_ns.saturating_sub(elapsed_ns(begin));
        let share_ns = left_ns / share_of(class, bytes);
        let class_begin = now_ticks();
        for round in 0..MOST_ROUNDS {
            let least = if is_large(class) { 1 } else { LEAST_ROUNDS };
            if round >= least && elapsed_ns(class_begin) * u64::from(round + 1) / u64::from(round) > share_ns
            {
                break;
            }
            bench.round(class, round, &mut timings);
        }
    }
    Ok(timings)
}

fn is_large(class: usize) -> bool {
    class_end_bytes(class) > LARGE_BYTES
}

/// Of large sizes only the powers of two.
fn is_measured(class: usize, largest_bytes: usize) -> bool {
    let end = class_end_bytes(class);
    end <= largest_bytes && (end <= LARGE_BYTES || end.is_power_of_two())
}

/// What part of the time that is left a class may take: one of so many. The longest takes all that is left.
fn share_of(class: usize, largest_bytes: usize) -> u64 {
    let weight = |class: usize| SHARES[usize::from(is_large(class))];
    let rest: u64 = (class..CLASSES).filter(|class| is_measured(*class, largest_bytes)).map(weight).sum();
    (rest / weight(class)).max(1)
}

struct Bench {
    source: Region,
    target: Region,
    ns_per_tick: f64,
}

impl Bench {
    /// Writes every page once: the kernel's work for a new page is no part of a copy.
    fn prefault(&self) {
        for region in [&self.source, &self.target] {
            for offset in (0..region.size_bytes()).step_by(4096) {
                // SAFETY: the region has so many bytes, and is this function's alone.
                unsafe { region.as_ptr().add(offset).write_volatile(0x5a) };
            }
        }
    }

    /// Each kernel once at each temperature.
    fn round(&self, class: usize, round: u32, timings: &mut Timings) {
        let bytes = class_end_bytes(class);
        let able = kernels();
        for index in 0..able.len() {
            // Another one begins each round: what a kernel leaves in the caches meets another successor.
            let kernel = able[(index + round as usize) % able.len()];
            if !kernel.available || bytes < kernel.min_bytes || is_large(class) && asks_ahead(kernel.id) {
                continue;
            }
            for at in Temperature::ALL {
                if !is_timed(bytes, at) {
                    continue;
                }
                let ns = self.time(kernel, bytes, at);
                timings.note(class, kernel.id, at, ns);
            }
        }
    }

    fn wall_time_ns(&self, timed: impl FnOnce()) -> f64 {
        let begin = now_ticks_ordered();
        timed();
        now_ticks_ordered().wrapping_sub(begin) as f64 * self.ns_per_tick
    }

    /// A copy's time, in nanoseconds.
    fn time(&self, kernel: Kernel, bytes: usize, at: Temperature) -> f64 {
        let copies = (BYTES_PER_READING / bytes).max(1);
        let (source, target) = (self.source.as_ptr().cast_const(), self.target.as_ptr());
        // Short copies of cold memory go to other lines each: one alone would be shorter than a reading of the counter.
        let spread = if at != Temperature::Hot && copies > 1 { bytes.next_multiple_of(64) } else { 0 };
        let all = spread * (copies - 1) + bytes;
        let run = || {
            for copy in 0..copies {
                // SAFETY: both regions have room for the longest copy, and for `copies` short ones side by side
                // (`all` is at most twice BYTES_PER_READING, or `bytes`); they are two mappings, so they do not overlap.
                unsafe { kernel.run(target.add(copy * spread), source.add(copy * spread), bytes) };
            }
        };
        match at {
            // A large copy meets what the one before it has left.
            Temperature::Hot if bytes > LARGE_BYTES => {}
            Temperature::Hot => run(),
            Temperature::ReadNext if bytes > LARGE_BYTES => {}
            Temperature::ReadNext => {
                run();
                touch(target, all);
            }
            Temperature::ColdTarget => {
                touch(source, all);
                evict(target, all);
            }
            Temperature::Cold => {
                evict(source, all);
                evict(target, all);
            }
        }
        let timed = || {
            run();
            if at == Temperature::ReadNext {
                touch(target, all);
            }
        };
        let ns = if bytes >= LONG_BYTES { own_time_ns(timed) } else { self.wall_time_ns(timed) };
        ns / copies as f64
    }
}

/// Time for which this thread had a processor: during a long copy it may lose it for a while.
fn own_time_ns(timed: impl FnOnce()) -> f64 {
    let now_ns = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let begin = now_ns();
    timed();
    now_ns() - begin
}

/// Kernels that ask for lines ahead: large copies are bound by memory, whoever asks.
const fn asks_ahead(id: KernelId) -> bool {
    matches!(id, KernelId::Avx2Ahead | KernelId::Avx512Ahead)
}

/// Reads a word of every line.
fn touch(at: *const u8, bytes: usize) {
    for offset in (0..bytes).step_by(64) {
        // SAFETY: the caller's buffer has so many bytes; volatile, so that it is read for nothing.
        unsafe { at.add(offset).read_volatile() };
    }
}

/// Whether copies of this size are timed at this temperature. The largest are so much longer than caches that they differ little
/// by temperature, and too long to be made cold within the time. Where lines cannot be evicted, nothing can be made cold.
const fn is_timed(bytes: usize, at: Temperature) -> bool {
    let evicts = cfg!(target_arch = "x86_64");
    match at {
        Temperature::Hot => true,
        Temperature::ColdTarget => evicts && bytes <= LARGE_BYTES,
        Temperature::Cold => evicts && bytes <= 4 * LARGE_BYTES,
        Temperature::ReadNext => bytes <= 8 * LARGE_BYTES,
    }
}

/// Takes the lines of a buffer out of all caches (Intel 64 and IA-32 Architectures Software Developer's Manual, CLFLUSH: part of SSE2).
fn evict(at: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        for offset in (0..bytes).step_by(64) {
            // SAFETY: the caller's buffer has so many bytes; every x86-64 processor has the instruction.
            unsafe { core::arch::x86_64::_mm_clflush(at.add(offset)) };
        }
        // SAFETY: no preconditions. The evictions are done before what is timed begins.
        unsafe { core::arch::x86_64::_mm_mfence() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_this_processor_is_timed_and_the_plan_runs_here() {
        let limits = Limits { largest_bytes: 1 << 20, time_ns: 20_000_000 };
        let timings = measure(limits).unwrap();
        for kernel in kernels().into_iter().filter(|kernel| kernel.available) {
            let class = super::super::class_of(256 << 10);
            assert!(
                timings.ns(class, kernel.id, Temperature::Hot).is_some_and(|ns| ns > 0.0),
                "{}",
                kernel.name
            );
        }
        assert!(timings.ns(super::super::class_of(2 << 20), KernelId::Libc, Temperature::Hot).is_none());
        let plan = timings.plan();
        for id in plan.by_class() {
            assert!(kernels().iter().any(|kernel| kernel.id == *id && kernel.available));
        }
    }

    #[test]
    fn the_shares_of_all_classes_leave_nothing() {
        let largest = 64 << 20;
        let mut left = 1.0;
        for class in (0..CLASSES).filter(|class| is_measured(*class, largest)) {
            left -= left / share_of(class, largest) as f64;
        }
        assert!(left.abs() < 1e-9);
    }
}

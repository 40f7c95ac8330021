//! Times the copy kernels on this machine.
//!
//! Kernels take turns on the same buffers, in rounds, and of the times of each the lower quartile counts:
//! whatever else the machine does makes a copy longer, and the shortest time of all is that of the one copy
//! that met bytes in a nearer cache. Odd and even rounds are kept apart: what they differ by is the noise.

use super::classes::{CLASSES, class_end_bytes};
use super::timer::{CopyBy, CopyTimer};
use super::timings::HALVES;
use super::{KERNELS, Kernel, KernelId, Temperature, Timings, kernels};
use crate::Result;
use crate::clock::{Clock, now_ticks};

/// Even rounds that each class of sizes gets whatever they cost, and odd ones. With one of each, a single
/// disturbance would decide.
const LEAST_ROUNDS: u32 = 2;
/// Even rounds, and odd ones, after which more tell nothing new.
const MOST_ROUNDS: u32 = 30;
/// Above this size each reading takes milliseconds: only powers of two are measured, without what matters
/// less there.
const LARGE_BYTES: usize = 4 << 20;
/// Shares of the time: of a class up to that size, and of one above it.
const SHARES: [u64; 2] = [10, 30];

/// How much a measurement may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest copy that is timed, in bytes. Twice as much memory is taken meanwhile.
    pub largest_bytes: usize,
    /// How long all of it is to take at most, in nanoseconds; a slow machine is given the [`LEAST_ROUNDS`] in
    /// any case.
    pub time_ns: u64,
}

impl Limits {
    /// What is found in 0.3 s is good for all sizes. Longer copies than the longest are served as that one:
    /// their memory and its new pages would take as long as all the rest.
    pub const DEFAULT: Self = Self { largest_bytes: 32 << 20, time_ns: 300_000_000 };
}

/// Times all kernels of this processor at all temperatures.
///
/// # Errors
/// Memory for the two buffers cannot be had.
pub fn measure(limits: Limits) -> Result<Timings> {
    let mut timer = CopyTimer::new(limits.largest_bytes.max(4096))?;
    let ns_per_tick = Clock::global().ns_per_tick;
    let begin = now_ticks();
    Ok(survey(
        limits,
        &kernels(),
        &mut || (now_ticks().wrapping_sub(begin) as f64 * ns_per_tick) as u64,
        &mut |id, bytes, at| timer.ns(CopyBy::Kernel(id), bytes, at),
    ))
}

/// The same of a machine that may be made up: `elapsed_ns` is its clock, and `time` a copy's time, if it is
/// timed at all.
fn survey(
    limits: Limits,
    able: &[Kernel],
    elapsed_ns: &mut dyn FnMut() -> u64,
    time: &mut dyn FnMut(KernelId, usize, Temperature) -> Option<f64>,
) -> Timings {
    let bytes = limits.largest_bytes.max(4096);
    let mut timings = Timings::default();
    // All classes have their even rounds before any has its odd ones: what disturbs a class for some
    // milliseconds meets one half.
    for half in 0..HALVES {
        let end_ns = limits.time_ns * (half as u64 + 1) / HALVES as u64;
        for class in (0..CLASSES).filter(|class| is_measured(*class, bytes)) {
            // The short ones need little: what they leave is for the long ones.
            let class_begin = elapsed_ns();
            let share_ns = end_ns.saturating_sub(class_begin) / share_of(class, bytes);
            let mut rounds = Rounds {
                class,
                half,
                readings: [[Readings::default(); Temperature::ALL.len()]; KERNELS + 1],
            };
            for done in 0..MOST_ROUNDS {
                let took_ns = elapsed_ns() - class_begin;
                if done >= LEAST_ROUNDS && took_ns * u64::from(done + 1) / u64::from(done) > share_ns {
                    break;
                }
                rounds.next(done, able, &mut timings, time);
            }
        }
    }
    timings
}

/// Odd or even rounds of a class.
struct Rounds {
    class: usize,
    half: usize,
    readings: [[Readings; Temperature::ALL.len()]; KERNELS + 1],
}

impl Rounds {
    /// Each kernel once at each temperature, after `done` such rounds.
    fn next(
        &mut self,
        done: u32,
        able: &[Kernel],
        timings: &mut Timings,
        time: &mut dyn FnMut(KernelId, usize, Temperature) -> Option<f64>,
    ) {
        let (class, half) = (self.class, self.half);
        let (bytes, round) = (class_end_bytes(class), done as usize * HALVES + half);
        // What is far from the best leaves its time to the others. A round of a large class is dear: the
        // first must do for that.
        let tells_enough = if is_large(class) { round > 0 } else { done >= LEAST_ROUNDS };
        for index in 0..able.len() {
            // Another one begins each round: what a kernel leaves in the caches meets another successor.
            let kernel = able[(index + round) % able.len()];
            let is_left_out = bytes < kernel.min_bytes || is_large(class) && asks_ahead(kernel.id);
            if !kernel.available || is_left_out || tells_enough && timings.is_out(class, kernel.id) {
                continue;
            }
            for at in Temperature::ALL.into_iter().filter(|at| is_needed(bytes, *at)) {
                if let Some(ns) = time(kernel.id, bytes, at) {
                    let readings = &mut self.readings[kernel.id as usize][at as usize];
                    readings.add(ns);
                    timings.set(class, kernel.id, at, half, readings.lower_quartile());
                }
            }
        }
    }
}

/// Times of a kernel at one temperature, the shortest first.
#[derive(Clone, Copy, Default)]
struct Readings {
    ns: [f64; MOST_ROUNDS as usize],
    count: usize,
}

impl Readings {
    fn add(&mut self, ns: f64) {
        let at = self.ns[..self.count].partition_point(|shorter| *shorter < ns);
        self.ns.copy_within(at..self.count, at + 1);
        self.ns[at] = ns;
        self.count += 1;
    }

    fn lower_quartile(&self) -> f64 {
        self.ns[self.count.saturating_sub(1) / 4]
    }
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

/// Whether a plan needs copies of this size at this temperature. The largest are so much longer than caches
/// that they differ little by temperature, and take too long to be made cold within the time.
const fn is_needed(bytes: usize, at: Temperature) -> bool {
    match at {
        Temperature::Hot => true,
        Temperature::ColdTarget => bytes <= LARGE_BYTES,
        Temperature::Cold => bytes <= 4 * LARGE_BYTES,
        Temperature::ReadNext => bytes <= 8 * LARGE_BYTES,
    }
}

/// Kernels that ask for lines ahead: large copies are bound by memory, whoever asks.
const fn asks_ahead(id: KernelId) -> bool {
    matches!(id, KernelId::Avx2Ahead | KernelId::Avx512Ahead)
}

#[cfg(all(test, not(loom)))]
mod tests;

//! The clock of the benchmarks: the processor's counter, with the gate that it must pass before
//! anything is measured.

use shm::clock::{Clock, Source};

use crate::{
    env::ClockRecord,
    error::{BenchError, Result},
};

/// A reading may cost this share of the measured interval at most …
const COST_SHARE: f64 = 0.05;
/// … and the interval must be this many steps long at least (Hoefler & Belli 2015).
const STEPS: f64 = 10.0;
/// Largest batch; an interval that still is too short then cannot be measured with this clock.
const MAX_BATCH: u32 = 4096;

/// A calibrated clock that may be used.
#[derive(Debug, Clone, Copy)]
pub struct Timer {
    clock: Clock,
}

impl Timer {
    /// The process's clock, if it is fit: one rate, never backwards.
    pub fn new() -> Result<Self> {
        let mut clock = Clock::global();
        if !clock.steady {
            // Once more and longer: the first calibration may have been interrupted.
            clock = Clock::calibrate(50_000_000);
        }
        if !clock.steady {
            let reason = "the processor's counter changes its rate or steps back".to_owned();
            return Err(BenchError::Clock { reason });
        }
        Ok(Self { clock })
    }

    /// Nanoseconds of a number of ticks.
    #[inline]
    pub fn ns(&self, ticks: u64) -> f64 {
        self.clock.ns(ticks)
    }

    /// Ticks of a number of nanoseconds.
    pub fn ticks(&self, ns: u64) -> u64 {
        self.clock.ticks(ns)
    }

    /// Smallest difference that it shows.
    pub fn step_ns(&self) -> f64 {
        self.clock.step_ns()
    }

    /// Cost of a reading.
    pub fn cost_ns(&self) -> f64 {
        self.clock.cost_ns()
    }

    /// The number of events of about `interval_ns` that must share one pair of readings, so that
    /// the clock costs below 5 % of the measured time and resolves a tenth of it. 1 if single
    /// events can be measured.
    pub fn batch_for(&self, interval_ns: f64) -> u32 {
        batch(self.cost_ns(), self.step_ns(), interval_ns)
    }

    /// The record of the clock in a report.
    pub fn record(&self) -> ClockRecord {
        let source = match self.clock.source {
            Source::Tsc => "tsc",
            Source::GenericTimer => "generic timer",
            Source::Kernel => "CLOCK_MONOTONIC_RAW",
        };
        ClockRecord {
            source: source.to_owned(),
            kernel_source: String::new(),
            invariant: self.clock.invariant,
            step_ns: self.step_ns(),
            cost_ns: self.cost_ns(),
            ticks_per_ns: self.clock.ticks_per_ns,
        }
    }
}

fn batch(cost_ns: f64, step_ns: f64, interval_ns: f64) -> u32 {
    let need_ns = (cost_ns / COST_SHARE).max(step_ns * STEPS);
    let batch = (need_ns / interval_ns.max(0.1)).ceil();
    (batch as u32).clamp(1, MAX_BATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_events_share_a_reading() {
        // 20 ns a reading: 400 ns at least.
        assert_eq!(batch(20.0, 1.0, 120.0), 4);
        assert_eq!(batch(20.0, 1.0, 400.0), 1);
        // A step of 10 ns: 100 ns at least.
        assert_eq!(batch(1.0, 10.0, 40.0), 3);
        assert_eq!(batch(50.0, 1.0, 0.0), MAX_BATCH);
    }
}

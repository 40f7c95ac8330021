//! Baselines: what this machine allows at this moment, whatever the program.
//!
//! Each probe measures for about a millisecond (a stream for some), so that it can run before and
//! after the measurement that it is compared with. [`line`](mod@line) measures the cost of a signal
//! to another core, [`memory`] that of copying bytes, [`exchange`] that of a stream of them to
//! another core, [`wake`] that of waking a sleeper.

pub mod exchange;
pub mod line;
pub mod memory;
pub mod wake;

use crate::{
    error::Result,
    stats::{Samples, order},
    timer::Timer,
};

/// The duration of a reading.
pub const BLOCK_NS: f64 = 1_500_000.0;
/// Samples of a reading at least, whatever their time.
const SAMPLES_MIN: f64 = 15.0;
/// Memory for the samples of a reading is bounded.
const SAMPLES_MAX: f64 = 20_000.0;

/// The division of a reading of many equal events into samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Events before the first sample: the core wakes up, caches fill.
    pub warm_up: u32,
    /// Samples.
    pub samples: u32,
    /// Events that share one sample.
    pub batch: u32,
}

impl Shape {
    /// For events of about `event_ns`, for about [`BLOCK_NS`].
    pub fn for_event(timer: &Timer, event_ns: f64) -> Self {
        Self::lasting(timer, event_ns, BLOCK_NS)
    }

    /// For events of about `event_ns`, for about `total_ns`.
    pub fn lasting(timer: &Timer, event_ns: f64, total_ns: f64) -> Self {
        let event_ns = event_ns.max(0.1);
        let batch = timer.batch_for(event_ns);
        let samples = (total_ns / (event_ns * f64::from(batch))).clamp(SAMPLES_MIN, SAMPLES_MAX) as u32;
        let warm_up = (samples * batch / 8).clamp(2, 2000);
        Self { warm_up, samples, batch }
    }

    /// For estimating the duration of an event.
    pub const fn trial() -> Self {
        Self { warm_up: 20, samples: 15, batch: 1 }
    }

    /// All events, warm-up included.
    pub const fn events(&self) -> u64 {
        self.warm_up as u64 + self.samples as u64 * self.batch as u64
    }

    /// Runs `event` that often and returns the ticks of each sample. The argument of `event` counts
    /// from 1.
    #[inline(always)]
    pub fn time(&self, into: &mut Vec<u64>, mut event: impl FnMut(u64) -> Result<()>) -> Result<()> {
        into.clear();
        // Touches the memory now: a page fault inside the loop would be a sample's.
        into.resize(self.samples as usize, 0);
        let mut number = 0;
        // The warm-up is one more sample, which is discarded. So `event` is called from one place
        // only, and is inlined there. A call whose result goes through memory costs more than a
        // short copy.
        let mut warm_up = 0;
        let counts = std::iter::once(self.warm_up).chain(std::iter::repeat(self.batch));
        for (count, sample) in counts.zip(std::iter::once(&mut warm_up).chain(into.iter_mut())) {
            let start = shm::clock::now_ticks();
            for _ in 0..count {
                number += 1;
                event(number)?;
            }
            *sample = shm::clock::now_ticks().saturating_sub(start);
        }
        Ok(())
    }
}

/// Returns the median of samples in ns per event; each sample is also added to `all`, if given.
/// `parts` divides an event (2 for half a round trip).
pub fn settle(timer: &Timer, ticks: &[u64], batch: u32, parts: f64, all: Option<&mut Samples>) -> f64 {
    let events = f64::from(batch) * parts;
    let mut ns: Vec<f64> = ticks.iter().map(|t| timer.ns(*t) / events).collect();
    if let Some(all) = all {
        ns.iter().for_each(|v| all.record_ns(*v));
    }
    order::median_of_scratch(&mut ns).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        let timer = Timer::new().unwrap();
        let long = Shape::for_event(&timer, 1e6);
        assert_eq!((long.samples, long.batch), (15, 1));
        let short = Shape::for_event(&timer, 0.5);
        assert!(short.batch > 1 && short.events() > u64::from(short.samples));
        let mut ticks = Vec::new();
        let mut seen = 0;
        let shape = Shape { warm_up: 3, samples: 5, batch: 4 };
        shape
            .time(&mut ticks, |n| {
                seen += 1;
                assert_eq!(n, seen);
                Ok(())
            })
            .unwrap();
        assert_eq!((seen, ticks.len()), (shape.events(), 5));
    }

    #[test]
    fn settled() {
        let timer = Timer::new().unwrap();
        let ticks = [timer.ticks(1000), timer.ticks(3000), timer.ticks(2000)];
        let mut all = Samples::new(false).unwrap();
        let half = settle(&timer, &ticks, 10, 2.0, Some(&mut all));
        assert!((half - 100.0).abs() < 1.0 && all.len() == 3, "{half}");
        assert!(settle(&timer, &[], 1, 1.0, None).is_nan());
    }
}

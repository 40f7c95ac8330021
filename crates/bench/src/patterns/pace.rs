//! Timing of copies of any size: many short ones to a sample, long ones one by one.

use shm::clock::now_ticks_ordered;

use crate::{
    baseline::{Shape, settle},
    error::Result,
    stats::Samples,
    timer::Timer,
};

/// A sample lasts at least this long: a clock step of 10 ns is then a fifth of a percent.
const SAMPLE_NS: f64 = 5_000.0;
/// A reading lasts about this long …
const READING_NS: f64 = 2_000_000.0;
/// … but has at least this many samples …
const SAMPLES_MIN: f64 = 3.0;
/// … and at most this many.
const SAMPLES_MAX: f64 = 400.0;
/// Copies in a sample at most.
const BATCH_MAX: f64 = 65_536.0;
/// Samples of a reading of events that are prepared, at most: preparing takes longer than they do.
const PREPARED_MAX: u32 = 30;
/// From this number of samples on, a reading is the median; with fewer, it is the fastest.
const FOR_A_MEDIAN: u32 = 15;

/// How readings are taken.
#[derive(Debug, Clone)]
pub struct Pace {
    shape: Shape,
    ticks: Vec<u64>,
}

impl Pace {
    /// For estimating the duration.
    pub fn trial() -> Self {
        Self { shape: Shape { warm_up: 1, samples: 3, batch: 1 }, ticks: Vec::new() }
    }

    /// For an event that takes about `event_ns`.
    pub fn of(event_ns: f64) -> Self {
        let event_ns = event_ns.max(0.5);
        let batch = (SAMPLE_NS / event_ns).ceil().clamp(1.0, BATCH_MAX);
        let samples = (READING_NS / (event_ns * batch)).clamp(SAMPLES_MIN, SAMPLES_MAX);
        Self {
            shape: Shape { warm_up: batch as u32, samples: samples as u32, batch: batch as u32 },
            ticks: Vec::new(),
        }
    }

    /// Events in all samples of a reading.
    pub fn events(&self) -> u64 {
        u64::from(self.shape.samples) * u64::from(self.shape.batch)
    }

    /// Samples of a reading.
    pub const fn samples(&self) -> u32 {
        self.shape.samples
    }

    /// Events that share a sample.
    pub const fn batch(&self) -> u32 {
        self.shape.batch
    }

    /// Takes one reading, in ns an event: the median of its samples, or the fastest of a few. The
    /// duration of a long copy depends on the share of time that the scheduler gives: the median of
    /// a few would measure how busy the machine is.
    #[inline(always)]
    pub fn read(
        &mut self,
        timer: &Timer,
        all: Option<&mut Samples>,
        mut event: impl FnMut() -> Result<()>,
    ) -> Result<f64> {
        self.shape.time(&mut self.ticks, |_| event())?;
        let median = settle(timer, &self.ticks, self.shape.batch, 1.0, all);
        if self.shape.samples >= FOR_A_MEDIAN {
            return Ok(median);
        }
        let fastest = self.ticks.iter().min().map_or(f64::NAN, |ticks| timer.ns(*ticks));
        Ok(fastest / f64::from(self.shape.batch))
    }

    /// The same of events before each of which something is prepared, such as caches without the
    /// bytes. Each is a sample by itself.
    pub fn read_prepared(
        &mut self,
        timer: &Timer,
        mut prepare: impl FnMut() -> Result<()>,
        mut event: impl FnMut() -> Result<()>,
    ) -> Result<f64> {
        let samples = self.shape.samples.min(PREPARED_MAX);
        self.ticks.clear();
        for number in 0..=samples {
            prepare()?;
            let start = now_ticks_ordered();
            event()?;
            let ticks = now_ticks_ordered().saturating_sub(start);
            if number > 0 {
                self.ticks.push(ticks);
            }
        }
        if samples >= FOR_A_MEDIAN {
            return Ok(settle(timer, &self.ticks, 1, 1.0, None));
        }
        Ok(self.ticks.iter().min().map_or(f64::NAN, |ticks| timer.ns(*ticks)))
    }

    /// Events of a reading of prepared ones.
    pub fn prepared_events(&self) -> u64 {
        u64::from(self.shape.samples.min(PREPARED_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_ones_share_a_sample_and_long_ones_do_not() {
        let short = Pace::of(2.0);
        assert_eq!((short.batch(), short.samples()), (2500, 400));
        let long = Pace::of(6e6);
        assert_eq!((long.batch(), long.samples(), long.events()), (1, 3, 3));
        assert!(Pace::of(0.0).batch() as f64 <= BATCH_MAX);
    }

    #[test]
    fn every_event_happens() {
        let timer = Timer::new().unwrap();
        for mut pace in [Pace::trial(), Pace::of(1000.0)] {
            let mut seen = 0;
            let ns = pace
                .read(&timer, None, || {
                    seen += 1;
                    std::hint::black_box(seen);
                    Ok(())
                })
                .unwrap();
            assert_eq!(seen, pace.events() + u64::from(pace.shape.warm_up));
            assert!(ns.is_finite());
        }
    }

    #[test]
    fn each_prepared_event_is_prepared() {
        let timer = Timer::new().unwrap();
        let (prepared, mut seen) = (std::cell::Cell::new(0), 0);
        let mut pace = Pace::of(1000.0);
        let prepare = || {
            prepared.set(prepared.get() + 1);
            Ok(())
        };
        let event = || {
            seen += 1;
            assert_eq!(prepared.get(), seen);
            Ok(())
        };
        assert!(pace.read_prepared(&timer, prepare, event).unwrap().is_finite());
        assert_eq!((seen, pace.prepared_events()), (31, 30));
    }
}

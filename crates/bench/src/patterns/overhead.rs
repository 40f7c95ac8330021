//! Overhead of a sample beyond its two clock readings, on a transport that does nothing.

use std::hint::black_box;

use shm::clock::now_ticks;

use crate::{baseline::Shape, error::Result, run::Sides, stats::order, timer::Timer};

/// Samples of a reading.
pub const SAMPLES: u32 = 20_000;
/// Times that each loop is run in a reading; the fastest counts, as an interruption is no cost of a
/// sample.
const LOOPS: usize = 5;

/// A sample of nothing, against two clock readings plus what it may cost besides.
#[derive(Debug)]
pub struct OverheadSides<'a> {
    timer: &'a Timer,
    allowed_ns: f64,
    ticks: Vec<u64>,
    samples_ns: Vec<f64>,
    clocks_ns: Vec<f64>,
}

impl<'a> OverheadSides<'a> {
    /// Creates the sides; `allowed_ns` is added to the cost of the clock.
    pub fn new(timer: &'a Timer, allowed_ns: f64) -> Self {
        Self { timer, allowed_ns, ticks: Vec::new(), samples_ns: Vec::new(), clocks_ns: Vec::new() }
    }

    /// Median cost beyond the clock readings, of all readings so far.
    pub fn beyond_ns(&self) -> f64 {
        order::median(&self.samples_ns).unwrap_or(f64::NAN)
            - order::median(&self.clocks_ns).unwrap_or(f64::NAN)
    }

    /// The loop of every benchmark.
    fn sample_ns(&mut self) -> Result<f64> {
        let shape = Shape { warm_up: 100, samples: SAMPLES, batch: 1 };
        let ticks = &mut self.ticks;
        let ns = fastest(self.timer, || {
            shape.time(ticks, |n| {
                black_box(n);
                Ok(())
            })
        })?;
        Ok(ns)
    }
}

/// Two clock readings and nothing else.
fn clocks_ns(timer: &Timer) -> Result<f64> {
    fastest(timer, || {
        for _ in 0..SAMPLES {
            black_box(now_ticks());
            black_box(now_ticks());
        }
        Ok(())
    })
}

/// Time of a sample in the fastest of a few loops.
fn fastest(timer: &Timer, mut samples: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut best = u64::MAX;
    for _ in 0..LOOPS {
        let start = now_ticks();
        samples()?;
        best = best.min(now_ticks().saturating_sub(start));
    }
    Ok(timer.ns(best) / f64::from(SAMPLES))
}

impl Sides for OverheadSides<'_> {
    fn ours(&mut self) -> Result<f64> {
        let ns = self.sample_ns()?;
        self.samples_ns.push(ns);
        Ok(ns)
    }

    fn reference(&mut self) -> Result<f64> {
        let ns = clocks_ns(self.timer)?;
        self.clocks_ns.push(ns);
        Ok(ns + self.allowed_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_give_a_time() {
        let timer = Timer::new().unwrap();
        let mut sides = OverheadSides::new(&timer, 5.0);
        let (ours, reference) = (sides.ours().unwrap(), sides.reference().unwrap());
        assert!(ours > 0.0 && reference > 5.0);
        assert!((sides.beyond_ns() - (ours - (reference - 5.0))).abs() < 1e-9);
    }

    #[test]
    fn each_reading_runs_several_loops() {
        let timer = Timer::new().unwrap();
        let mut turns = 0;
        let ns = fastest(&timer, || {
            turns += 1;
            Ok(())
        });
        assert!(turns == LOOPS && ns.unwrap().is_finite());
    }
}

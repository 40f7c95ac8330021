//! Baseline: one cache line to the other core and back, the fastest possible signal between two
//! cores.
//!
//! It has two forms. *One line*: both directions use one word of one line, as a link with coherent
//! loads allows. *Two lines*: each direction has its own line, as two segments have. The cost of a
//! line depends on its address (on the slice of the shared cache that serves it), by 20 % and more.
//! A baseline is comparable only on the very words that the measurement uses, so the caller gives
//! the words, as each side maps them.

use std::sync::Arc;

use shm::{
    layout::CacheLine,
    sync::{AtomicU64, Ordering},
};

use super::{Shape, settle};
use crate::{
    error::Result,
    pinned_pair::PinnedPair,
    poll::Poll,
    stats::{Samples, order},
    timer::Timer,
};

const WHAT: &str = "cache line baseline";

/// The words of the two directions, as one side maps them. They may be the same word.
#[derive(Debug, Clone, Copy)]
pub struct Words<'env> {
    /// Near to far.
    pub there: &'env AtomicU64,
    /// Far to near.
    pub back: &'env AtomicU64,
}

/// Own lines, for a baseline that is measured by itself.
#[derive(Debug, Default)]
pub struct Lines {
    first: CacheLine<AtomicU64>,
    second: CacheLine<AtomicU64>,
}

impl Lines {
    /// Fresh lines.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// One word for both directions.
    pub fn one(&self) -> Words<'_> {
        Words { there: &self.first.0, back: &self.first.0 }
    }

    /// A line for each direction.
    pub fn two(&self) -> Words<'_> {
        Words { there: &self.first.0, back: &self.second.0 }
    }
}

/// The other side of the probe: a thread, or another process that follows orders.
pub trait Bouncer {
    /// Runs [`bounce`] over there with these numbers, while `near` runs here.
    fn bounce(
        &mut self,
        poll: Poll,
        base: u64,
        events: u64,
        near: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()>;
}

/// Replies to each odd value with the next even one.
pub fn bounce(words: Words<'_>, poll: Poll, base: u64, events: u64) -> Result<()> {
    for n in 1..=events {
        poll.word(WHAT, words.there, base.wrapping_add(2 * n - 1))?;
        // Release: pairs with the Acquire of the near side's `Poll::word`.
        words.back.store(base.wrapping_add(2 * n), Ordering::Release);
    }
    Ok(())
}

/// The far thread of a [`PinnedPair`] as the other side.
#[derive(Debug)]
pub struct FarThread<'a, 'env> {
    /// The pair whose far thread replies.
    pub pair: &'a mut PinnedPair<'env>,
    /// The words as the far side maps them.
    pub words: Words<'env>,
}

impl Bouncer for FarThread<'_, '_> {
    fn bounce(
        &mut self,
        poll: Poll,
        base: u64,
        events: u64,
        near: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let words = self.words;
        self.pair.both(WHAT, near, move || bounce(words, poll, base, events)).map(drop)
    }
}

/// Probes one pair of words.
#[derive(Debug)]
pub struct LineProbe<'a> {
    near: Words<'a>,
    poll: Poll,
    shape: Shape,
    ticks: Vec<u64>,
}

/// Time of one reading while the ways of polling are compared, and how often each is read.
pub const TRIAL_NS: f64 = 300_000.0;
const TRIALS: usize = 5;

/// The way of polling with the lower median of readings taken in turn, and that median.
pub fn fastest(mut reading: impl FnMut(Poll) -> Result<f64>) -> Result<(Poll, f64)> {
    let mut readings = Poll::tried().map(|poll| (poll, Vec::with_capacity(TRIALS)));
    for _ in 0..TRIALS {
        for (poll, readings) in &mut readings {
            readings.push(reading(*poll)?);
        }
    }
    let [tight, paused] =
        readings.map(|(poll, readings)| (poll, order::median(&readings).unwrap_or(f64::INFINITY)));
    Ok(if paused.1 < tight.1 { paused } else { tight })
}

impl<'a> LineProbe<'a> {
    /// Creates a probe whose readings take about a millisecond and a half. `near` are the words as
    /// this side maps them.
    pub fn new(timer: &Timer, far: &mut dyn Bouncer, near: Words<'a>) -> Result<Self> {
        let mut probe = Self { near, poll: Poll::tried()[0], shape: Shape::trial(), ticks: Vec::new() };
        let half_ns = probe.half_round_trip_ns(timer, far, None)?;
        probe.shape = Shape::lasting(timer, 2.0 * half_ns, TRIAL_NS);
        let (poll, half_ns) = fastest(|poll| {
            probe.poll = poll;
            probe.half_round_trip_ns(timer, far, None)
        })?;
        probe.poll = poll;
        probe.shape = Shape::for_event(timer, 2.0 * half_ns);
        Ok(probe)
    }

    /// The way of polling: the one that was faster when this probe was created.
    pub const fn poll(&self) -> Poll {
        self.poll
    }

    /// Round trips that share a sample.
    pub const fn batch(&self) -> u32 {
        self.shape.batch
    }

    /// Samples of one reading.
    pub const fn samples(&self) -> u32 {
        self.shape.samples
    }

    /// From now on the probe uses these words, which must be of the same kind.
    pub fn move_to(&mut self, near: Words<'a>) {
        self.near = near;
    }

    /// One reading: the median of half the round trip, in ns. Samples (of half round trips) are
    /// added to `all`.
    pub fn half_round_trip_ns(
        &mut self,
        timer: &Timer,
        far: &mut dyn Bouncer,
        all: Option<&mut Samples>,
    ) -> Result<f64> {
        let (words, poll, shape) = (self.near, self.poll, self.shape);
        // Values continue from the present value of the words: odd ones are sent, even ones are the
        // replies.
        let base =
            words.there.load(Ordering::Relaxed).max(words.back.load(Ordering::Relaxed)).next_multiple_of(2);
        let ticks = &mut self.ticks;
        far.bounce(poll, base, shape.events(), &mut || {
            shape.time(ticks, |n| {
                // Release: pairs with the Acquire in `bounce`.
                words.there.store(base.wrapping_add(2 * n - 1), Ordering::Release);
                poll.word(WHAT, words.back, base.wrapping_add(2 * n)).map(drop)
            })
        })?;
        Ok(settle(timer, &self.ticks, shape.batch, 2.0, all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_give_a_time() {
        let Ok(cpus) = crate::cpus::pair(None, "test") else {
            println!("skipped: needs two processors");
            return;
        };
        let timer = Timer::new().unwrap();
        let lines = Lines::new();
        let readings = crate::pinned_pair::on(cpus, |pair| {
            let mut readings = Vec::new();
            for words in [lines.one(), lines.two()] {
                let mut all = Samples::new(false)?;
                let mut far = FarThread { pair: &mut *pair, words };
                let mut probe = LineProbe::new(&timer, &mut far, words)?;
                for _ in 0..2 {
                    readings.push(probe.half_round_trip_ns(&timer, &mut far, Some(&mut all))?);
                }
                assert_eq!(all.len(), u64::from(2 * probe.samples()));
            }
            Ok(readings)
        })
        .unwrap();
        assert!(readings.iter().all(|ns| *ns > 0.0), "{readings:?}");
    }

    #[test]
    fn the_faster_way_is_taken() {
        let mut n = 0.0;
        let (poll, ns) = fastest(|poll| {
            n += 1.0;
            Ok(if poll == Poll::Paused { 48.0 } else { 77.0 } + if n == 2.0 { 900.0 } else { 0.0 })
        })
        .unwrap();
        assert_eq!((poll, ns), (Poll::Paused, 48.0));
        assert_eq!(
            fastest(|poll| Ok(if poll == Poll::Paused { 60.0 } else { 40.0 })).unwrap(),
            (Poll::Tight, 40.0)
        );
    }

    #[test]
    fn the_forms_differ_in_their_lines() {
        let lines = Lines::new();
        let line_of = |word: &AtomicU64| std::ptr::from_ref(word).addr() / 64;
        assert_eq!(line_of(lines.one().there), line_of(lines.one().back));
        assert!(line_of(lines.two().there).abs_diff(line_of(lines.two().back)) >= 2);
    }
}

//! Summarises a trace for a report: percentiles, spikes, a plot of at most a few thousand points,
//! the distribution.

use serde::{Deserialize, Serialize};

use super::{
    period::Event,
    trace::{Slice, Trace},
};
use crate::{stats::Samples, timer::Timer};

/// Buckets of a plot; each gives two points.
pub const BUCKETS_MAX: usize = 2000;
/// The number of spikes that are examined, the tallest ones.
const SPIKES_MAX: usize = 100_000;
/// Spikes closer than this, or than ten usual round trips, are one.
const ONE_WITHIN_NS: f64 = 20_000.0;

/// A piece of the run in a plot.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bucket {
    /// When it begins, in ns since the start.
    pub at_ns: f64,
    /// Shortest round trip in it.
    pub min_ns: f64,
    /// Longest.
    pub max_ns: f64,
}

/// A point of the distribution.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 2]", into = "[f64; 2]")]
pub struct Point {
    /// A round trip of this length, in ns …
    pub ns: f64,
    /// … is not exceeded by this share of them.
    pub share: f64,
}

impl From<[f64; 2]> for Point {
    fn from([ns, share]: [f64; 2]) -> Self {
        Self { ns, share }
    }
}

impl From<Point> for [f64; 2] {
    fn from(point: Point) -> Self {
        [point.ns, point.share]
    }
}

/// The whole run in figures.
#[derive(Debug)]
pub(super) struct Seen {
    /// Round trips (or the longest of those that share an entry).
    pub(super) all: Samples,
    /// Median of all.
    pub(super) median_ns: f64,
    /// A longer round trip is a spike.
    pub(super) threshold_ns: f64,
    /// Round trips beyond the threshold, before close ones were made one.
    pub(super) beyond: u64,
    /// Spikes in order of time; heights above the median.
    pub(super) spikes: Vec<Event>,
    pub(super) plot: Vec<Bucket>,
    pub(super) distribution: Vec<Point>,
    /// The time from the start of the first slice to the end of the last.
    pub(super) length_ns: f64,
    /// Time in round trips.
    pub(super) measured_ns: f64,
}

impl Seen {
    pub(super) fn of(timer: &Timer, trace: &Trace) -> Result<Self, hdrhistogram::CreationError> {
        let mut all = Samples::new(false)?;
        let mut sorted: Vec<u64> = Vec::with_capacity(trace.len());
        let (mut measured, mut length) = (0u64, 0u64);
        for slice in &trace.slices {
            for entry in trace.entries(slice) {
                sorted.push(entry.worst);
                measured += entry.span;
                length = length.max(entry.at + entry.span);
            }
        }
        sorted.sort_unstable();
        sorted.iter().for_each(|ticks| all.record_ns(timer.ns(*ticks)));
        let at = |share: f64| quantile(&sorted, share).map_or(0.0, |ticks| timer.ns(ticks));
        let median_ns = at(0.5);
        let threshold_ns = threshold_ns(timer.step_ns(), median_ns, at(0.9));
        let beyond = sorted.len() - sorted.partition_point(|ticks| timer.ns(*ticks) <= threshold_ns);
        // If there are too many to examine each, only the tallest are examined.
        let look_above =
            if beyond > SPIKES_MAX { timer.ns(sorted[sorted.len() - SPIKES_MAX]) } else { threshold_ns };
        let length_ns = timer.ns(length);
        Ok(Self {
            distribution: distribution(&sorted, timer),
            plot: plot(timer, trace, length),
            spikes: spikes(timer, trace, look_above, median_ns),
            all,
            median_ns,
            threshold_ns,
            beyond: beyond as u64,
            length_ns,
            measured_ns: timer.ns(measured),
        })
    }
}

/// Six times the distance from the median to the 90th percentile beyond the median, but at least a
/// fifth of the median and ten clock steps: so that neither a noisy machine nor a coarse clock
/// makes spikes of everything.
pub(super) fn threshold_ns(step_ns: f64, median_ns: f64, p90_ns: f64) -> f64 {
    median_ns + (6.0 * (p90_ns - median_ns)).max(0.2 * median_ns).max(10.0 * step_ns)
}

fn quantile(sorted: &[u64], share: f64) -> Option<u64> {
    let rank = (share * sorted.len() as f64).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).checked_sub(1)?).copied()
}

/// Round trips beyond a threshold, close ones together as the tallest of them.
fn spikes(timer: &Timer, trace: &Trace, threshold_ns: f64, median_ns: f64) -> Vec<Event> {
    let threshold = timer.ticks(threshold_ns as u64);
    let within_ns = ONE_WITHIN_NS.max(10.0 * median_ns);
    let mut spikes: Vec<Event> = Vec::new();
    let mut last_end_ns = f64::NEG_INFINITY;
    for slice in &trace.slices {
        for entry in trace.entries(slice).filter(|entry| entry.worst > threshold) {
            let (at_ns, height) = (timer.ns(entry.at), timer.ns(entry.worst) - median_ns);
            match spikes.last_mut() {
                Some(last) if at_ns - last_end_ns < within_ns => last.height = last.height.max(height),
                _ => spikes.push(Event { at_ns, height }),
            }
            last_end_ns = timer.ns(entry.at + entry.span);
        }
    }
    spikes
}

/// Shortest and longest of equal pieces of the run; pieces without a round trip are left out.
fn plot(timer: &Timer, trace: &Trace, length: u64) -> Vec<Bucket> {
    let width = (length / BUCKETS_MAX as u64 + 1).max(1);
    let mut buckets: Vec<Option<(u64, u64)>> = vec![None; BUCKETS_MAX];
    for slice in &trace.slices {
        for entry in trace.entries(slice) {
            let Some(bucket) = buckets.get_mut((entry.at / width) as usize) else { continue };
            let (min, max) = bucket.unwrap_or((u64::MAX, 0));
            let shortest = entry.span / u64::from(trace.every());
            *bucket = Some((min.min(shortest), max.max(entry.worst)));
        }
    }
    let of = |(at, bucket): (usize, Option<(u64, u64)>)| {
        let (min, max) = bucket?;
        Some(Bucket { at_ns: timer.ns(at as u64 * width), min_ns: timer.ns(min), max_ns: timer.ns(max) })
    };
    buckets.into_iter().enumerate().filter_map(of).collect()
}

/// Every percent, and the tail in finer and finer steps as far as there are samples.
fn distribution(sorted: &[u64], timer: &Timer) -> Vec<Point> {
    if sorted.is_empty() {
        return Vec::new();
    }
    let mut shares: Vec<f64> = (0..100).map(|percent| f64::from(percent) / 100.0).collect();
    let mut left = 0.01;
    while left * sorted.len() as f64 >= 1.0 {
        shares.extend([1.0, 0.7, 0.5, 0.3, 0.2, 0.15].map(|part| 1.0 - part * left));
        left /= 10.0;
    }
    shares.push(1.0);
    shares.sort_by(f64::total_cmp);
    shares.dedup();
    let point = |share: f64| Some(Point { ns: timer.ns(quantile(sorted, share)?), share });
    shares.into_iter().filter_map(point).collect()
}

/// The slice in which something happened.
pub(super) fn slice_at<'a>(timer: &Timer, slices: &'a [Slice], at_ns: f64) -> Option<&'a Slice> {
    let after = slices.partition_point(|slice| timer.ns(slice.start) <= at_ns + timer.step_ns() / 2.0);
    slices.get(after.checked_sub(1)?)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{noise::counters::Counters, rng::Rng};

    /// A run of `trips` round trips of about 260 µs, with the longer ones that `stall_ns` gives.
    pub(crate) fn made(timer: &Timer, trips: usize, stall_ns: impl Fn(f64) -> f64) -> Trace {
        let mut rng = Rng::new(7);
        let mut trace = Trace::new(trips as f64, 64 << 20).unwrap();
        let mut at = 0u64;
        let mut start = 0;
        let mut first = 0;
        for n in 0..trips {
            let usual = 255_000.0 + 10_000.0 * rng.next_u64() as f64 / u64::MAX as f64;
            let span = timer.ticks((usual + stall_ns(timer.ns(at))) as u64);
            trace.push(span, span);
            at += span;
            if n % 40 == 39 || n + 1 == trips {
                trace.slices.push(Slice { start, first, end: n + 1, counted: Counters::default() });
                (start, first) = (at, n + 1);
            }
        }
        trace
    }

    #[test]
    fn a_quiet_run_has_no_spikes() {
        let timer = Timer::new().unwrap();
        let seen = Seen::of(&timer, &made(&timer, 5000, |_| 0.0)).unwrap();
        assert_eq!((seen.spikes.len(), seen.beyond), (0, 0));
        assert!((255_000.0..265_000.0).contains(&seen.median_ns) && seen.all.len() == 5000);
        assert!((seen.length_ns / seen.measured_ns - 1.0).abs() < 1e-3);
        assert!(seen.plot.len() <= BUCKETS_MAX && seen.plot.iter().all(|b| b.min_ns <= b.max_ns));
        let shares: Vec<f64> = seen.distribution.iter().map(|point| point.share).collect();
        assert!(shares.is_sorted() && shares.last() == Some(&1.0) && shares.len() > 100);
        assert!(seen.distribution.iter().map(|point| point.ns).is_sorted());
    }

    #[test]
    fn stalls_are_spikes_with_their_time_and_height() {
        let timer = Timer::new().unwrap();
        let trace = made(&timer, 5000, |at| if (400e6..400.26e6).contains(&at) { 5e6 } else { 0.0 });
        let seen = Seen::of(&timer, &trace).unwrap();
        assert_eq!(seen.spikes.len(), 1, "{:?}", seen.spikes);
        assert!(
            (seen.spikes[0].at_ns / 400e6 - 1.0).abs() < 0.01
                && (seen.spikes[0].height / 5e6 - 1.0).abs() < 0.01
        );
        // The plot shows it, however few its points.
        assert!(seen.plot.iter().any(|bucket| bucket.max_ns > 5e6));
        let slice = slice_at(&timer, &trace.slices, seen.spikes[0].at_ns).unwrap();
        assert!(timer.ns(slice.start) <= seen.spikes[0].at_ns);
        assert!(slice_at(&timer, &trace.slices, -1e9).is_none());
    }

    #[test]
    fn nothing_is_nothing() {
        let timer = Timer::new().unwrap();
        let seen = Seen::of(&timer, &Trace::new(10.0, 1 << 20).unwrap()).unwrap();
        assert_eq!((seen.all.len(), seen.plot.len(), seen.distribution.len()), (0, 0, 0));
        assert_eq!(threshold_ns(10.0, 100.0, 100.0), 200.0);
        assert_eq!(threshold_ns(1.0, 100.0, 150.0), 400.0);
        assert_eq!(threshold_ns(0.1, 100.0, 100.0), 120.0);
    }
}

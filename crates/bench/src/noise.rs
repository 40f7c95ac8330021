//! OS noise: how much processor time the machine takes from a program that does nothing.
//!
//! A pinned thread reads the clock as fast as it can. Two readings that lie far apart are a
//! *detour*: an interrupt, another program, the host of a virtual machine. The idea is that of
//! Netgauge's `selfish` (Hoefler, Schneider, Lumsdaine, 2010); its threshold, a multiple of the
//! smallest gap ever seen, is below a clock step on current machines and calls everything noise.
//! Here it is a time: ten clock steps, or five times the median gap, whichever is longer.

pub mod counters;
pub mod others;

use serde::{Deserialize, Serialize};
use shm::clock::now_ticks;

use crate::{
    error::{BenchError, Result},
    patterns::jitter::period::{self, Event, Period},
    pinned_pair,
    stats::order,
    timer::Timer,
};

/// Detours that are kept; more are counted.
const KEPT_MAX: usize = 200_000;
/// Gaps that the median is taken of.
const GAPS: usize = 20_000;
/// Detours in a report, the largest.
const SHOWN_MAX: usize = 50;
/// A run as long as this would only waste time.
const SECONDS_MAX: f64 = 3600.0;

/// One detour.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Detour {
    /// When it began, in ns since the start.
    pub at_ns: f64,
    /// The time without a processor, in ns.
    pub lost_ns: f64,
}

/// The detours of one processor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Processor.
    pub cpu: usize,
    /// The length of the measurement, in ns.
    pub length_ns: f64,
    /// Smallest step of the clock.
    pub step_ns: f64,
    /// Usual distance of two readings.
    pub median_gap_ns: f64,
    /// A longer gap is a detour.
    pub threshold_ns: f64,
    /// Detours.
    pub detours: u64,
    /// Detours a second.
    pub rate_per_s: f64,
    /// Share of the time that was lost, in percent.
    pub loss_percent: f64,
    /// Median detour, in ns.
    pub median_ns: f64,
    /// Largest detour, in ns.
    pub largest_ns: f64,
    /// Detours that are not in the figures by period, for want of room.
    pub not_kept: u64,
    /// Rhythms in them.
    pub periods: Vec<Period>,
    /// The largest, in order of time.
    pub tallest: Vec<Detour>,
}

/// The gap from which on a detour is one.
pub fn threshold_ns(step_ns: f64, median_gap_ns: f64) -> f64 {
    (10.0 * step_ns).max(5.0 * median_gap_ns)
}

/// Readings between two questions whether to end: some milliseconds, and too rare for the question
/// to show.
const READINGS_PER_QUESTION: u32 = 1 << 17;

/// Watches one processor for this number of seconds, or until `stop` returns true.
pub fn watch(
    timer: &Timer,
    cpu: usize,
    seconds: f64,
    stop: &mut (dyn FnMut() -> bool + Send),
) -> Result<Report> {
    if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
        let text =
            format!("the detour test takes more than 0 and at most {SECONDS_MAX} seconds, not {seconds}");
        return Err(BenchError::Usage(text));
    }
    pinned_pair::pinned(cpu, || {
        let median_gap_ns = median_gap_ns(timer);
        let threshold_ns = threshold_ns(timer.step_ns(), median_gap_ns);
        let mut gaps = vec![(0u64, 0u64); KEPT_MAX];
        let length = timer.ticks((seconds * 1e9) as u64);
        let seen = record(&mut gaps, timer.ticks(threshold_ns as u64), length, stop);
        gaps.truncate(seen.count.min(KEPT_MAX as u64) as usize);
        let gaps: Vec<Detour> =
            gaps.iter().map(|(at, gap)| Detour { at_ns: timer.ns(*at), lost_ns: timer.ns(*gap) }).collect();
        let watched = Watched {
            cpu,
            length_ns: timer.ns(seen.length),
            step_ns: timer.step_ns(),
            median_gap_ns,
            threshold_ns,
            count: seen.count,
            lost_ns: timer.ns(seen.lost),
        };
        Ok(watched.report(&gaps))
    })
}

fn median_gap_ns(timer: &Timer) -> f64 {
    let mut gaps = vec![0.0; GAPS];
    let mut last = now_ticks();
    for gap in &mut gaps {
        let now = now_ticks();
        *gap = now.saturating_sub(last) as f64;
        last = now;
    }
    let median = order::median_of_scratch(&mut gaps).unwrap_or(0.0);
    // The median of ticks, which are small whole numbers.
    timer.ns(1) * median
}

struct Seen {
    count: u64,
    lost: u64,
    length: u64,
}

/// The loop itself: times and gaps in ticks go into the (touched) memory as far as it reaches.
fn record(gaps: &mut [(u64, u64)], threshold: u64, length: u64, stop: &mut dyn FnMut() -> bool) -> Seen {
    gaps.fill((0, 0));
    let start = now_ticks();
    let (mut last, mut count, mut lost) = (start, 0u64, 0u64);
    let mut ended = false;
    let mut readings = 0u32;
    loop {
        let now = now_ticks();
        let gap = now.saturating_sub(last);
        if gap > threshold {
            if let Some(slot) = gaps.get_mut(count as usize) {
                *slot = (last.saturating_sub(start), gap);
            }
            count += 1;
            lost += gap;
        }
        last = now;
        readings = readings.wrapping_add(1);
        if readings.is_multiple_of(READINGS_PER_QUESTION) {
            ended = stop();
        }
        if ended || now.saturating_sub(start) >= length {
            return Seen { count, lost, length: now.saturating_sub(start) };
        }
    }
}

/// The result of the loop.
struct Watched {
    cpu: usize,
    length_ns: f64,
    step_ns: f64,
    median_gap_ns: f64,
    threshold_ns: f64,
    count: u64,
    lost_ns: f64,
}

impl Watched {
    fn report(&self, kept: &[Detour]) -> Report {
        let lost: Vec<f64> = kept.iter().map(|detour| detour.lost_ns).collect();
        let events: Vec<Event> =
            kept.iter().map(|detour| Event { at_ns: detour.at_ns, height: detour.lost_ns }).collect();
        let (periods, _) = period::find(&events, self.length_ns);
        let mut tallest = kept.to_vec();
        tallest.sort_by(|a, b| b.lost_ns.total_cmp(&a.lost_ns));
        tallest.truncate(SHOWN_MAX);
        tallest.sort_by(|a, b| a.at_ns.total_cmp(&b.at_ns));
        Report {
            cpu: self.cpu,
            length_ns: self.length_ns,
            step_ns: self.step_ns,
            median_gap_ns: self.median_gap_ns,
            threshold_ns: self.threshold_ns,
            detours: self.count,
            rate_per_s: self.count as f64 / (self.length_ns / 1e9),
            // A detour contains one usual gap, which is subtracted.
            loss_percent: (self.lost_ns - self.count as f64 * self.median_gap_ns).max(0.0) / self.length_ns
                * 100.0,
            median_ns: order::median(&lost).unwrap_or(0.0),
            largest_ns: lost.iter().copied().fold(0.0, f64::max),
            not_kept: self.count - kept.len() as u64,
            periods,
            tallest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_times() {
        assert_eq!(threshold_ns(10.0, 10.0), 100.0);
        assert_eq!(threshold_ns(0.4, 26.0), 130.0);
    }

    #[test]
    fn reported() {
        let kept: Vec<Detour> =
            (0..100).map(|n| Detour { at_ns: 1e7 * f64::from(n) + 5e6, lost_ns: 2000.0 }).collect();
        let watched = Watched {
            cpu: 3,
            length_ns: 1e9,
            step_ns: 10.0,
            median_gap_ns: 20.0,
            threshold_ns: 100.0,
            count: 130,
            lost_ns: 130.0 * 2000.0,
        };
        let report = watched.report(&kept);
        assert_eq!((report.cpu, report.detours, report.not_kept), (3, 130, 30));
        assert_eq!((report.rate_per_s, report.median_ns, report.largest_ns), (130.0, 2000.0, 2000.0));
        assert!((report.loss_percent - 130.0 * 1980.0 / 1e9 * 100.0).abs() < 1e-9);
        assert_eq!(report.tallest.len(), SHOWN_MAX);
        assert!((report.periods[0].period_ns / 1e7 - 1.0).abs() < 1e-6, "{:?}", report.periods);
        let nothing = Watched { count: 0, lost_ns: 0.0, ..watched }.report(&[]);
        assert_eq!((nothing.loss_percent, nothing.largest_ns), (0.0, 0.0));
    }

    #[test]
    fn a_watch_ends_when_it_is_asked_to() {
        let cpu = crate::cpus::allowed().unwrap()[0];
        let timer = Timer::new().unwrap();
        let mut asked = 0;
        let mut stop = || {
            asked += 1;
            asked == 2
        };
        let report = watch(&timer, cpu, SECONDS_MAX, &mut stop).unwrap();
        assert!(report.length_ns < SECONDS_MAX * 1e9 && asked == 2, "{report:?}");
    }

    #[test]
    fn a_short_watch() {
        let timer = Timer::new().unwrap();
        let cpu = crate::cpus::allowed().unwrap()[0];
        let report = watch(&timer, cpu, 0.02, &mut || false).unwrap();
        assert!(report.length_ns >= 0.02e9 * 0.99 && report.loss_percent <= 100.0);
        assert!(report.threshold_ns >= 10.0 * report.step_ns);
        assert!(report.detours == 0 || report.largest_ns > report.threshold_ns * 0.99);
        for seconds in [0.0, -1.0, f64::NAN, 1e9] {
            assert!(matches!(watch(&timer, cpu, seconds, &mut || false), Err(BenchError::Usage(_))));
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut gaps = vec![(1, 1); 4];
        // Every gap is a detour.
        let seen = record(&mut gaps, 0, 2_000_000, &mut || false);
        assert!(seen.count > 4 && seen.lost <= seen.length);
        assert!(gaps.iter().all(|(_, gap)| *gap > 0));
    }
}

//! Which pair is worse than the others, and how sure that is.
//!
//! All pairs are read once in each round, in an order that changes, and beside each reading stands what the
//! machine does without a link at that moment, in the very same memory: so neither what the machine does to
//! everybody nor the place of the memory in its caches counts. What a reading should be is that baseline,
//! made worse as the others are in the same round; the median of what it is by what it should be, with its
//! interval, is the pair's excess.
//!
//! A pair is bad when the whole interval lies above two things: the ratio from which on a link counts as
//! slow, which is a definition, and what the other pairs scatter among themselves, which is read off this
//! machine at this moment.

use bench::stats::{Interval, median, median_interval};
use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// From when on a pair is called bad.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// A reading may be so many times what it should be.
    pub ratio: f64,
    /// And must lie beyond so many times what pairs that nothing is said against scatter.
    pub scatters: f64,
}

/// What came of one pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Excess {
    /// Median of the readings, in nanoseconds.
    pub p50_ns: f64,
    /// By how much it exceeds what it should be, by the other pairs and its own place in memory: 1: not at
    /// all.
    pub ratio: f64,
    /// 95 % interval of that.
    pub ratio_ci95: Interval,
    /// The ratio may be at most this: the limit, or more where the pairs scatter much.
    #[serde(default)]
    pub limit: f64,
    /// Readings that count.
    #[serde(default)]
    pub readings: usize,
    /// Within the limit, beyond it, or not sure.
    pub verdict: Verdict,
}

/// One reading through a link, and one of the same without it, in nanoseconds; what is not a number was not
/// measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Beside {
    pub(super) ns: f64,
    pub(super) baseline_ns: f64,
}

impl Beside {
    pub(super) const NOTHING: Self = Self { ns: f64::NAN, baseline_ns: f64::NAN };

    fn is_whole(&self) -> bool {
        self.ns.is_finite() && self.ns > 0.0 && self.baseline_ns.is_finite() && self.baseline_ns > 0.0
    }
}

/// What a link adds to the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Adds {
    /// A time that does not depend on the baseline: instructions before and after the transfer of a line.
    Time,
    /// A share: a copy through it is so many times as long.
    Share,
}

impl Adds {
    fn of(self, reading: &Beside) -> f64 {
        match self {
            Self::Time => reading.ns - reading.baseline_ns,
            Self::Share => reading.ns / reading.baseline_ns,
        }
    }

    /// What the reading should be if its link adds as much as the others.
    fn expected_ns(self, reading: &Beside, others: f64) -> f64 {
        match self {
            // A clock with coarse steps may say that a link takes nothing, or less.
            Self::Time => reading.baseline_ns + others.max(0.0),
            Self::Share => reading.baseline_ns * others,
        }
    }
}

/// Judges readings, `readings[round][pair]`.
pub(super) fn judge(readings: &[Vec<Beside>], adds: Adds, limit: Limit) -> Vec<Option<Excess>> {
    let pairs = readings.first().map_or(0, Vec::len);
    let centres: Vec<Option<f64>> = readings.iter().map(|round| centre(round, adds)).collect();
    let mut all: Vec<Option<Excess>> = (0..pairs)
        .map(|pair| {
            let both = readings.iter().zip(&centres).filter_map(|(round, centre)| {
                let reading = round.get(pair).filter(|reading| reading.is_whole())?;
                Some((reading.ns, reading.ns / adds.expected_ns(reading, (*centre)?)))
            });
            let (own, ratios): (Vec<f64>, Vec<f64>) = both.unzip();
            excess(&own, &ratios)
        })
        .collect();
    let scatter = scatter(&all);
    for excess in all.iter_mut().flatten() {
        excess.judge(limit, scatter);
    }
    all
}

/// What links add in a round, typically.
fn centre(round: &[Beside], adds: Adds) -> Option<f64> {
    let whole = round.iter().filter(|reading| reading.is_whole());
    median(&whole.map(|reading| adds.of(reading)).collect::<Vec<_>>())
}

fn excess(own: &[f64], ratios: &[f64]) -> Option<Excess> {
    Some(Excess {
        p50_ns: median(own)?,
        ratio: median(ratios)?,
        ratio_ci95: median_interval(ratios)?,
        limit: 0.0,
        readings: ratios.len(),
        verdict: Verdict::Inconclusive,
    })
}

/// From the typical distance to the standard deviation, where deviations are normal.
const NORMAL: f64 = 1.4826;

/// How far pairs lie from each other by chance: the typical distance of the faster half from the middle. A
/// fault only makes pairs slower, so it does not show in that.
fn scatter(all: &[Option<Excess>]) -> f64 {
    let ratios: Vec<f64> = all.iter().flatten().map(|excess| excess.ratio).collect();
    let Some(middle) = median(&ratios) else { return 0.0 };
    let faster: Vec<f64> =
        ratios.iter().filter(|ratio| **ratio <= middle).map(|ratio| middle - ratio).collect();
    median(&faster).unwrap_or(0.0) * NORMAL
}

impl Excess {
    fn judge(&mut self, limit: Limit, scatter: f64) {
        self.limit = limit.ratio.max(1.0 + limit.scatters * scatter);
        self.verdict = if self.ratio_ci95.high <= limit.ratio {
            Verdict::Pass
        } else if self.ratio_ci95.low > self.limit {
            Verdict::Fail
        } else {
            Verdict::Inconclusive
        };
    }
}

#[cfg(test)]
mod tests;

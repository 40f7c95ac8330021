//! One series of durations: every sample counted, in fixed memory, with exact tails.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::order::{self, Interval};

/// The histogram counts picoseconds: batches divide a clock step, and the rounding must stay below
/// that.
const PS_PER_NS: f64 = 1000.0;
/// Values below this many picoseconds share a bucket.
const LOWEST_PS: u64 = 64;
/// An hour; longer durations are counted there and in [`Samples::clipped`].
const HIGHEST_PS: u64 = 3_600 * 1_000_000_000_000;
/// Significant decimal digits of the histogram: errors up to 0.1 %.
const SIGNIFICANT_DIGITS: u8 = 3;

/// A share of samples, in thousandths, so that the rule on numbers of samples is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(u32);

impl Share {
    /// Half.
    pub const P50: Self = Self(500);
    /// 90 %.
    pub const P90: Self = Self(900);
    /// 99 %.
    pub const P99: Self = Self(990);
    /// 99.9 %.
    pub const P99_9: Self = Self(999);

    /// Whether `n` samples suffice for this percentile: n ≥ 10 / (1 − q), so that ten lie beyond
    /// it.
    pub fn is_known_from(self, n: u64) -> bool {
        u128::from(n) * u128::from(1000 - self.0) >= 10 * 1000
    }
}

/// A series of durations in ns.
#[derive(Debug, Clone)]
pub struct Samples {
    histogram: Histogram<u64>,
    raw: Option<Vec<f64>>,
    min_ns: f64,
    max_ns: f64,
    sum_ns: f64,
    clipped: u64,
    rejected: u64,
}

/// The summary of a series in a report. Percentiles that too few samples support are absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of samples.
    pub n: u64,
    /// Smallest, exact.
    pub min_ns: f64,
    /// Median, to 0.1 %.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ns: Option<f64>,
    /// 95 % confidence interval of the median by order statistics, for independent samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ci95_ns: Option<Interval>,
    /// 90th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90_ns: Option<f64>,
    /// 99th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_ns: Option<f64>,
    /// 99.9th percentile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p999_ns: Option<f64>,
    /// Largest, exact.
    pub max_ns: f64,
    /// Arithmetic mean, exact; secondary, as a single preemption moves it.
    pub mean_ns: f64,
    /// Cumulative distribution, `[ns, share]`: this duration is not exceeded by this share. As far
    /// as samples support it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cdf: Vec<[f64; 2]>,
}

/// The shares in a summary's distribution; beyond them it continues with nines.
const CDF_SHARES: [f64; 15] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99];

impl Samples {
    /// An empty series; `keep_raw` also keeps each sample in order, at 8 bytes apiece.
    pub fn new(keep_raw: bool) -> Result<Self, hdrhistogram::CreationError> {
        Ok(Self {
            histogram: Histogram::new_with_bounds(LOWEST_PS, HIGHEST_PS, SIGNIFICANT_DIGITS)?,
            raw: keep_raw.then(Vec::new),
            min_ns: f64::INFINITY,
            max_ns: f64::NEG_INFINITY,
            sum_ns: 0.0,
            clipped: 0,
            rejected: 0,
        })
    }

    /// Adds one duration. A negative one, or one that is not a number, is counted in
    /// [`Self::rejected`] and otherwise ignored: only a broken clock gives such durations, and the
    /// report mentions them.
    pub fn record_ns(&mut self, duration_ns: f64) {
        if !(duration_ns.is_finite() && duration_ns >= 0.0) {
            self.rejected += 1;
            return;
        }
        let ps = (duration_ns * PS_PER_NS).round();
        if ps > HIGHEST_PS as f64 {
            self.clipped += 1;
        }
        self.histogram.saturating_record((ps as u64).min(HIGHEST_PS));
        self.min_ns = self.min_ns.min(duration_ns);
        self.max_ns = self.max_ns.max(duration_ns);
        self.sum_ns += duration_ns;
        if let Some(raw) = &mut self.raw {
            raw.push(duration_ns);
        }
    }

    /// Adds another series, exactly.
    pub fn merge(&mut self, other: &Self) -> Result<(), hdrhistogram::AdditionError> {
        self.histogram.add(&other.histogram)?;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.sum_ns += other.sum_ns;
        self.clipped += other.clipped;
        self.rejected += other.rejected;
        if let (Some(mine), Some(theirs)) = (&mut self.raw, &other.raw) {
            mine.extend_from_slice(theirs);
        }
        Ok(())
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// Samples above an hour.
    pub const fn clipped(&self) -> u64 {
        self.clipped
    }

    /// Samples that were no durations.
    pub const fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Every sample in order, if they were kept.
    pub fn raw(&self) -> Option<&[f64]> {
        self.raw.as_deref()
    }

    /// The percentile, or `None` if too few samples support it ([`Share::is_known_from`]).
    pub fn percentile_ns(&self, share: Share) -> Option<f64> {
        let n = self.len();
        if !share.is_known_from(n) {
            return None;
        }
        let rank = (u128::from(n) * u128::from(share.0)).div_ceil(1000).max(1);
        self.value_at_rank_ns(rank as u64)
    }

    /// The `rank`-th smallest sample (from 1), to the histogram's 0.1 %.
    fn value_at_rank_ns(&self, rank: u64) -> Option<f64> {
        let mut seen = 0;
        for bucket in self.histogram.iter_recorded() {
            seen += bucket.count_since_last_iteration();
            if seen >= rank {
                let ps = self.histogram.median_equivalent(bucket.value_iterated_to());
                // A bucket's middle may lie beyond the extremes, which are known exactly.
                return Some((ps as f64 / PS_PER_NS).clamp(self.min_ns, self.max_ns));
            }
        }
        None
    }

    /// 95 % confidence interval of the median; `None` below 6 samples.
    pub fn median_interval_ns(&self) -> Option<Interval> {
        let (low, high) = order::median_ranks(self.len())?;
        Some(Interval::between(self.value_at_rank_ns(low)?, self.value_at_rank_ns(high)?))
    }

    /// The figures of a report; `None` of an empty series.
    pub fn summary(&self) -> Option<Summary> {
        let n = self.len();
        (n > 0).then(|| Summary {
            n,
            min_ns: self.min_ns,
            p50_ns: self.percentile_ns(Share::P50),
            p50_ci95_ns: self.median_interval_ns(),
            p90_ns: self.percentile_ns(Share::P90),
            p99_ns: self.percentile_ns(Share::P99),
            p999_ns: self.percentile_ns(Share::P99_9),
            max_ns: self.max_ns,
            mean_ns: self.sum_ns / n as f64,
            cdf: self.cdf(),
        })
    }

    /// Points of the cumulative distribution; none beyond which fewer than ten samples lie.
    fn cdf(&self) -> Vec<[f64; 2]> {
        let n = self.len() as f64;
        let nines = (2..9).flat_map(|nines| [5.0, 2.0, 1.0].map(|part| 1.0 - part * 10f64.powi(-nines - 1)));
        // 1e-6: that ten are left must not fail by rounding.
        let known = CDF_SHARES.into_iter().chain(nines).filter(|share| (1.0 - share) * n >= 10.0 - 1e-6);
        let mut points = Vec::new();
        let mut wanted = known.map(|share| (share, (share * n).ceil() as u64)).peekable();
        let mut seen = 0;
        for bucket in self.histogram.iter_recorded() {
            seen += bucket.count_since_last_iteration();
            while let Some((share, _)) = wanted.next_if(|(_, rank)| *rank <= seen) {
                let ps = self.histogram.median_equivalent(bucket.value_iterated_to());
                points.push([(ps as f64 / PS_PER_NS).clamp(self.min_ns, self.max_ns), share]);
            }
        }
        points
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: impl IntoIterator<Item = f64>) -> Samples {
        let mut samples = Samples::new(true).unwrap();
        values.into_iter().for_each(|v| samples.record_ns(v));
        samples
    }

    #[test]
    fn known_answers() {
        let summary = of((1..=10_000).map(f64::from)).summary().unwrap();
        assert_eq!(
            (summary.n, summary.min_ns, summary.max_ns, summary.mean_ns),
            (10_000, 1.0, 10_000.0, 5000.5)
        );
        for (got, want) in [
            (summary.p50_ns, 5000.0),
            (summary.p90_ns, 9000.0),
            (summary.p99_ns, 9900.0),
            (summary.p999_ns, 9990.0),
        ] {
            assert!((got.unwrap() / want - 1.0).abs() < 0.001, "{got:?} against {want}");
        }
        let ci = summary.p50_ci95_ns.unwrap();
        // Ranks 4902 and 5099 of 10,000.
        assert!((ci.low / 4902.0 - 1.0).abs() < 0.001 && (ci.high / 5099.0 - 1.0).abs() < 0.001, "{ci:?}");
    }

    #[test]
    fn the_distribution_says_what_the_percentiles_say() {
        let summary = of((1..=10_000).map(f64::from)).summary().unwrap();
        let at = |share: f64| {
            summary.cdf.iter().find(|point| (point[1] - share).abs() < 1e-12).map(|point| point[0])
        };
        assert_eq!((at(0.5), at(0.9), at(0.999)), (summary.p50_ns, summary.p90_ns, summary.p999_ns));
        assert!(
            summary.cdf.is_sorted() && summary.cdf.iter().all(|point| point[1] <= 0.999),
            "{:?}",
            summary.cdf
        );
        assert!(of([5.0; 9]).summary().unwrap().cdf.is_empty());
    }

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        for (share, need) in [(Share::P50, 20), (Share::P90, 100), (Share::P99, 1000), (Share::P99_9, 10_000)]
        {
            assert!(share.is_known_from(need) && !share.is_known_from(need - 1), "{share:?}");
        }
        let summary = of((0..999).map(f64::from)).summary().unwrap();
        assert!(summary.p90_ns.is_some() && summary.p99_ns.is_none() && summary.p999_ns.is_none());
        let json = serde_json::to_string(&summary).unwrap();
        assert!(json.contains("p90_ns") && !json.contains("p99_ns"), "{json}");
    }

    #[test]
    fn what_is_no_duration_is_counted_apart() {
        let samples = of([1.0, f64::NAN, -1.0, f64::INFINITY, 4e12]);
        assert_eq!((samples.len(), samples.rejected(), samples.clipped()), (2, 3, 1));
        assert_eq!(samples.raw().unwrap(), [1.0, 4e12]);
        assert_eq!(of([]).summary(), None);
    }

    #[test]
    fn fixed_memory() {
        let mut samples = Samples::new(false).unwrap();
        let before = samples.histogram.buckets();
        (0..100_000).for_each(|i| samples.record_ns(f64::from(i) * 1e6));
        assert_eq!(samples.histogram.buckets(), before);
        assert!(samples.raw().is_none());
    }

    proptest! {
        #[test]
        fn ordered_and_within(values in prop::collection::vec(0.0..1e9f64, 1..2000)) {
            let s = of(values).summary().unwrap();
            let chain = [Some(s.min_ns), s.p50_ns, s.p90_ns, s.p99_ns, s.p999_ns, Some(s.max_ns)];
            let known: Vec<f64> = chain.into_iter().flatten().collect();
            prop_assert!(known.is_sorted(), "{known:?}");
            if let (Some(m), Some(ci)) = (s.p50_ns, s.p50_ci95_ns) {
                prop_assert!(ci.low <= m && m <= ci.high);
            }
        }

        #[test]
        fn close_to_the_exact_median(values in prop::collection::vec(1.0..1e9f64, 20..500)) {
            let got = of(values.iter().copied()).summary().unwrap().p50_ns.unwrap();
            let ordered = order::sorted(&values);
            let want = ordered[ordered.len().div_ceil(2) - 1];
            prop_assert!((got / want - 1.0).abs() < 0.0011, "{got} against {want}");
        }

        #[test]
        fn merging_is_recording(a in prop::collection::vec(0.0..1e6f64, 1..200), b in prop::collection::vec(0.0..1e6f64, 1..200)) {
            let mut merged = of(a.iter().copied());
            merged.merge(&of(b.iter().copied())).unwrap();
            let whole = of(a.into_iter().chain(b));
            let (m, w) = (merged.summary().unwrap(), whole.summary().unwrap());
            prop_assert_eq!((m.n, m.min_ns, m.p50_ns, m.p90_ns, m.max_ns), (w.n, w.min_ns, w.p50_ns, w.p90_ns, w.max_ns));
        }
    }
}

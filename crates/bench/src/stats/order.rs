//! Order statistics: medians, and confidence intervals of medians that assume no distribution.

use serde::{Deserialize, Serialize};

/// A closed interval; in JSON `[low, high]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 2]", into = "[f64; 2]")]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end, not below `low`.
    pub high: f64,
}

impl Interval {
    /// The interval between two numbers, in any order.
    pub fn between(a: f64, b: f64) -> Self {
        Self { low: a.min(b), high: a.max(b) }
    }

    /// An interval of one value.
    pub const fn point(value: f64) -> Self {
        Self { low: value, high: value }
    }

    /// Half its width as a share of `centre`; infinite around 0.
    pub fn relative_half_width(&self, centre: f64) -> f64 {
        if centre == 0.0 { f64::INFINITY } else { (self.high - self.low) / 2.0 / centre.abs() }
    }

    /// Every end multiplied by a factor, for a change of unit.
    pub fn scaled(&self, factor: f64) -> Self {
        Self::between(self.low * factor, self.high * factor)
    }
}

impl From<[f64; 2]> for Interval {
    fn from([a, b]: [f64; 2]) -> Self {
        Self::between(a, b)
    }
}

impl From<Interval> for [f64; 2] {
    fn from(interval: Interval) -> Self {
        [interval.low, interval.high]
    }
}

/// Ascending copy.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut copy = values.to_vec();
    copy.sort_unstable_by(f64::total_cmp);
    copy
}

/// Median; the mean of the middle two of an even number. `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut scratch = values.to_vec();
    median_of_scratch(&mut scratch)
}

/// As [`median`], reordering the slice instead of copying it.
pub fn median_of_scratch(values: &mut [f64]) -> Option<f64> {
    let n = values.len();
    if n == 0 {
        return None;
    }
    let (below, upper, _) = values.select_nth_unstable_by(n / 2, f64::total_cmp);
    let upper = *upper;
    if n % 2 == 1 {
        return Some(upper);
    }
    below.iter().copied().max_by(f64::total_cmp).map(|lower| lower + (upper - lower) / 2.0)
}

/// Arithmetic mean; `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Ranks (from 1) of the two order statistics that enclose the median with at least 95 %
/// confidence.
///
/// Up to 70 values the exact binomial ranks, above Le Boudec's approximation ⌊(n − z√n)/2⌋ … ⌈1 +
/// (n + z√n)/2⌉ with z = 1.96 ("Performance evaluation of computer and communication systems",
/// appendix A). `None` below 6 values: no pair of ranks reaches 95 % there.
pub fn median_ranks(n: u64) -> Option<(u64, u64)> {
    if n < 6 {
        return None;
    }
    if n <= 70 {
        let low = exact_low_rank(n);
        return Some((low, n + 1 - low));
    }
    let spread = 1.96 * (n as f64).sqrt();
    let low = ((n as f64 - spread) / 2.0).floor() as u64;
    let high = (1.0 + (n as f64 + spread) / 2.0).ceil() as u64;
    Some((low.max(1), high.min(n)))
}

/// Interval of the median of independent values that is as sure for one of `comparisons` that they
/// all hold together with 95 % confidence (Bonferroni). `None` if there are too few values for
/// that, or more than 500.
pub fn median_interval_of_many(values: &[f64], comparisons: usize) -> Option<Interval> {
    let n = values.len() as u64;
    // Beyond that the smallest probability would underflow on the way.
    let rank = if n <= 500 { low_rank(n, 0.025 / comparisons.max(1) as f64) } else { 0 };
    let ordered = sorted(values);
    let low = *ordered.get((rank as usize).checked_sub(1)?)?;
    Some(Interval { low, high: *ordered.get((n - rank) as usize)? })
}

/// The largest rank `j` with P(Bin(n, ½) < j) ≤ 2.5 %.
fn exact_low_rank(n: u64) -> u64 {
    low_rank(n, 0.025)
}

/// The largest rank `j` with P(Bin(n, ½) < j) ≤ `at_most`; 0 if there is none.
fn low_rank(n: u64, at_most: f64) -> u64 {
    let mut term = 0.5f64.powi(n as i32); // P(Bin = 0); n ≤ 500, no underflow
    let mut below = 0.0;
    let mut rank = 0;
    // After the step for k, `below` is P(Bin < k + 1), so rank k + 1 is allowed while that stays
    // within 2.5 %.
    for k in 0..n {
        below += term;
        if below > at_most {
            break;
        }
        rank = k + 1;
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    rank
}

/// 95 % confidence interval of the median of independent values, by [`median_ranks`]. `None` below
/// 6 values.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let (low, high) = median_ranks(values.len() as u64)?;
    let ordered = sorted(values);
    Some(Interval { low: *ordered.get(low as usize - 1)?, high: *ordered.get(high as usize - 1)? })
}

/// Value at the share `q` of ascending values: the smallest that at least that share does not
/// exceed.
pub fn quantile_of_sorted(ordered: &[f64], q: f64) -> Option<f64> {
    let rank = (q * ordered.len() as f64).ceil().max(1.0) as usize;
    ordered.get(rank.min(ordered.len()).checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_interval_of_many_is_wider() {
        let values: Vec<f64> = (1..=30).map(f64::from).collect();
        // P(Bin(30, ½) ≤ 4) = 2.97e-5, P(≤ 5) = 1.62e-4: a 320th of 5 % lies between.
        assert_eq!(median_interval_of_many(&values, 160), Some(Interval { low: 5.0, high: 26.0 }));
        assert_eq!(median_interval_of_many(&values, 1), median_interval(&values));
        assert_eq!(median_interval_of_many(&values[..12], 160), None);
        assert_eq!(median_interval_of_many(&[], 1), None);
    }

    #[test]
    fn medians_known() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
        assert_eq!(mean(&[]), None);
    }

    /// Table A.1 of Le Boudec, column 95 %.
    #[test]
    fn ranks_of_the_table() {
        for (n, want) in [
            (6, (1, 6)),
            (9, (2, 8)),
            (10, (2, 9)),
            (20, (6, 15)),
            (30, (10, 21)),
            (40, (14, 27)),
            (70, (27, 44)),
        ] {
            assert_eq!(median_ranks(n), Some(want), "n = {n}");
        }
        assert_eq!(median_ranks(5), None);
        assert_eq!(median_ranks(100), Some((40, 61)));
    }

    /// Exact coverage of every pair of ranks, by summing the binomial in logarithms.
    #[test]
    fn ranks_cover_95_percent() {
        for n in 6..=300u64 {
            let (low, high) = median_ranks(n).unwrap();
            let mut log_term = n as f64 * 0.5f64.ln();
            let mut inside = 0.0;
            for k in 0..=n {
                if k >= low && k < high {
                    inside += log_term.exp();
                }
                if k < n {
                    log_term += ((n - k) as f64).ln() - ((k + 1) as f64).ln();
                }
            }
            assert!(inside >= 0.95, "n = {n}: {low}..{high} covers {inside}");
        }
    }

    #[test]
    fn intervals() {
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(median_interval(&ten), Some(Interval { low: 2.0, high: 9.0 }));
        assert_eq!(median_interval(&ten[..5]), None);
        assert_eq!(serde_json::to_string(&Interval::between(2.0, 1.0)).unwrap(), "[1.0,2.0]");
        assert_eq!(serde_json::from_str::<Interval>("[1.0,2.5]").unwrap(), Interval { low: 1.0, high: 2.5 });
        assert_eq!(Interval::between(9.0, 11.0).relative_half_width(10.0), 0.1);
        assert_eq!(Interval::between(1.0, 2.0).scaled(-1.0), Interval::between(-2.0, -1.0));
    }

    #[test]
    fn quantiles() {
        let values = [1.0, 2.0, 3.0, 4.0];
        assert_eq!(quantile_of_sorted(&values, 0.0), Some(1.0));
        assert_eq!(quantile_of_sorted(&values, 0.25), Some(1.0));
        assert_eq!(quantile_of_sorted(&values, 0.26), Some(2.0));
        assert_eq!(quantile_of_sorted(&values, 1.0), Some(4.0));
        assert_eq!(quantile_of_sorted(&[], 0.5), None);
    }

    proptest! {
        #[test]
        fn median_splits(values in prop::collection::vec(-1e6..1e6f64, 1..200)) {
            let m = median(&values).unwrap();
            let below = values.iter().filter(|v| **v < m).count();
            let above = values.iter().filter(|v| **v > m).count();
            prop_assert!(below <= values.len() / 2 && above <= values.len() / 2);
        }

        #[test]
        fn interval_holds_the_median(values in prop::collection::vec(-1e6..1e6f64, 6..300)) {
            let interval = median_interval(&values).unwrap();
            let m = median(&values).unwrap();
            prop_assert!(interval.low <= m && m <= interval.high);
        }

        #[test]
        fn order_does_not_matter(values in prop::collection::vec(-1e6..1e6f64, 6..60), seed: u64) {
            let mut shuffled = values.clone();
            crate::rng::Rng::new(seed).shuffle(&mut shuffled);
            prop_assert_eq!(median(&values), median(&shuffled));
            prop_assert_eq!(median_interval(&values), median_interval(&shuffled));
        }
    }
}

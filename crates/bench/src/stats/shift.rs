//! The Hodges–Lehmann shift between two series, which a few outliers do not move.

use super::order::{self, Interval};

/// Above this many pairs the series are thinned: the quadratic cost would exceed seconds.
const MAX_PAIRS: usize = 4_000_000;

/// Typical difference and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// Median of all differences `b − a`.
    pub shift: f64,
    /// 95 % interval from the ranks of the Mann–Whitney statistic (normal approximation, meant for
    /// 10 and more a side).
    pub ci95: Interval,
}

/// Shift of `b` against `a`, from all pairs. `None` if a side is empty.
pub fn hodges_lehmann(a: &[f64], b: &[f64]) -> Option<Shift> {
    let side = (MAX_PAIRS as f64).sqrt() as usize;
    let (a, b) = if a.len().checked_mul(b.len())? > MAX_PAIRS {
        (thin(a, side), thin(b, side))
    } else {
        (a.to_vec(), b.to_vec())
    };
    let mut differences: Vec<f64> = b.iter().flat_map(|y| a.iter().map(move |x| y - x)).collect();
    differences.sort_unstable_by(f64::total_cmp);
    let shift = order::median(&differences)?;
    let (m, n) = (a.len() as f64, b.len() as f64);
    // Rank of the lower end: mean of the statistic minus 1.96 of its deviation.
    let low = (m * n / 2.0 - 1.96 * (m * n * (m + n + 1.0) / 12.0).sqrt()).floor().max(0.0) as usize;
    let high = differences.len() - 1 - low;
    Some(Shift { shift, ci95: Interval::between(*differences.get(low)?, *differences.get(high)?) })
}

/// Shift of paired differences from 0: the median of all means of two differences (Walsh averages).
pub fn hodges_lehmann_paired(differences: &[f64]) -> Option<f64> {
    let side = (2.0 * MAX_PAIRS as f64).sqrt() as usize;
    let kept = if differences.len() > side { thin(differences, side) } else { differences.to_vec() };
    let mut means = Vec::with_capacity(kept.len() * (kept.len() + 1) / 2);
    for (i, x) in kept.iter().enumerate() {
        means.extend(kept[i..].iter().map(|y| (x + y) / 2.0));
    }
    order::median_of_scratch(&mut means)
}

/// `keep` evenly spaced order statistics: the same distribution, fewer values.
fn thin(values: &[f64], keep: usize) -> Vec<f64> {
    let ordered = order::sorted(values);
    if ordered.len() <= keep {
        return ordered;
    }
    (0..keep).map(|i| ordered[(2 * i + 1) * ordered.len() / (2 * keep)]).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hollander & Wolfe, "Nonparametric statistical methods", example 4.1 (tritiated water): the
    /// estimate is −0.305 for term against 12–26 weeks.
    #[test]
    fn known_answer() {
        let term = [0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46];
        let weeks = [1.15, 0.88, 0.90, 0.74, 1.21];
        let got = hodges_lehmann(&term, &weeks).unwrap();
        assert!((got.shift + 0.305).abs() < 1e-9, "{got:?}");
        assert!(got.ci95.low < -0.305 && got.ci95.high > -0.305 && got.ci95.high > 0.0, "{got:?}");
    }

    /// The same book, example 3.1 (depression scale): −0.46.
    #[test]
    #[allow(clippy::approx_constant, reason = "3.14 is a score of the book's table")]
    fn known_answer_paired() {
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let differences: Vec<f64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
        assert!((hodges_lehmann_paired(&differences).unwrap() + 0.46).abs() < 1e-9);
    }

    #[test]
    fn nothing_has_no_shift() {
        assert_eq!(hodges_lehmann(&[], &[1.0]), None);
        assert_eq!(hodges_lehmann_paired(&[]), None);
    }

    #[test]
    fn many_samples_are_thinned_not_refused() {
        let a: Vec<f64> = (0..50_000).map(f64::from).collect();
        let b: Vec<f64> = a.iter().map(|v| v + 7.0).collect();
        let got = hodges_lehmann(&a, &b).unwrap();
        assert!((got.shift - 7.0).abs() < 1e-6, "{got:?}");
    }

    proptest! {
        #[test]
        fn moves_with_the_data(
            a in prop::collection::vec(-100i32..100, 5..40), b in prop::collection::vec(-100i32..100, 5..40), by in -50i32..50,
        ) {
            let wide = |v: &[i32], add: i32| v.iter().map(|x| f64::from(x + add)).collect::<Vec<f64>>();
            let plain = hodges_lehmann(&wide(&a, 0), &wide(&b, 0)).unwrap();
            let moved = hodges_lehmann(&wide(&a, 0), &wide(&b, by)).unwrap();
            prop_assert_eq!(moved.shift, plain.shift + f64::from(by));
            let turned = hodges_lehmann(&wide(&b, 0), &wide(&a, 0)).unwrap();
            prop_assert_eq!(turned.shift, -plain.shift);
            prop_assert!(plain.ci95.low <= plain.shift && plain.shift <= plain.ci95.high);
        }
    }
}

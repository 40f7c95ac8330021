//! Permutation test: could chance alone explain a difference? It shuffles the samples, without
//! assuming a distribution.

use super::order;
use crate::rng::Rng;

/// Two-sided p value of the difference of the medians of two independent series: the share of
/// random relabellings with a difference at least as large. Never 0: with `rounds` shuffles nothing
/// below 1 / (rounds + 1) is known. `None` if a side is empty.
pub fn medians(a: &[f64], b: &[f64], rounds: usize, seed: u64) -> Option<f64> {
    let seen = (order::median(b)? - order::median(a)?).abs();
    let mut pool: Vec<f64> = a.iter().chain(b).copied().collect();
    let mut rng = Rng::new(seed);
    let mut scratch = Vec::with_capacity(pool.len());
    let mut as_large = 0;
    for _ in 0..rounds {
        rng.shuffle(&mut pool);
        let (left, right) = pool.split_at(a.len());
        let difference = (median_with(&mut scratch, right)? - median_with(&mut scratch, left)?).abs();
        as_large += usize::from(difference >= seen * (1.0 - 1e-12));
    }
    Some((as_large + 1) as f64 / (rounds + 1) as f64)
}

/// The two-sided p value for paired differences (such as logarithms of block ratios) being centred
/// on 0: the share of random sign changes whose sum is at least as large. `None` if there are no
/// differences.
pub fn signs(differences: &[f64], rounds: usize, seed: u64) -> Option<f64> {
    if differences.is_empty() {
        return None;
    }
    let seen = differences.iter().sum::<f64>().abs();
    let mut rng = Rng::new(seed);
    let mut as_large = 0;
    for _ in 0..rounds {
        let sum: f64 = differences.iter().map(|d| if rng.coin() { *d } else { -d }).sum();
        as_large += usize::from(sum.abs() >= seen * (1.0 - 1e-12));
    }
    Some((as_large + 1) as f64 / (rounds + 1) as f64)
}

fn median_with(scratch: &mut Vec<f64>, values: &[f64]) -> Option<f64> {
    scratch.clear();
    scratch.extend_from_slice(values);
    order::median_of_scratch(scratch)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn far_apart_is_no_chance() {
        let a: Vec<f64> = (0..40).map(f64::from).collect();
        let b: Vec<f64> = a.iter().map(|v| v + 100.0).collect();
        assert_eq!(medians(&a, &b, 999, 1), Some(0.001));
        assert_eq!(signs(&vec![0.1; 40], 999, 1), Some(0.001));
    }

    #[test]
    fn the_same_is_chance() {
        let a: Vec<f64> = (0..40).map(f64::from).collect();
        assert_eq!(medians(&a, &a, 200, 1), Some(1.0));
        let balanced: Vec<f64> = (0..40).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        assert_eq!(signs(&balanced, 200, 1), Some(1.0));
        assert_eq!(signs(&[], 10, 1), None);
        assert_eq!(medians(&[], &[1.0], 10, 1), None);
    }

    /// Three signs of eight: all equal in 2 of 8 cases, so p is near 1/4.
    #[test]
    fn known_answer() {
        let p = signs(&[1.0, 1.0, 1.0], 20_000, 4).unwrap();
        assert!((p - 0.25).abs() < 0.02, "{p}");
    }

    proptest! {
        #[test]
        fn a_probability(a in prop::collection::vec(-1e3..1e3f64, 1..30), b in prop::collection::vec(-1e3..1e3f64, 1..30), seed: u64) {
            let p = medians(&a, &b, 50, seed).unwrap();
            prop_assert!(p > 0.0 && p <= 1.0);
            prop_assert_eq!(Some(p), medians(&a, &b, 50, seed));
        }
    }
}

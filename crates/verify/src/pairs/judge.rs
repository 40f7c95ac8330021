//! Which pair is worse than the others, and how sure that is.
//!
//! All pairs are read once in each round, in an order that changes. A pair's reading is divided by the median of all
//! pairs' readings in the same round, so what the machine does to everybody cancels; the median of these ratios over the
//! rounds, with its interval, is the pair's excess. A pair is bad when the whole interval lies above the limit and the
//! excess is large in absolute terms, too.

use bench::stats::{Interval, median, median_interval};
use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// From when on a pair is called bad.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// A reading may be so many times that of the others.
    pub ratio: f64,
    /// And exceed it by so many nanoseconds.
    pub excess_ns: f64,
}

/// What came of one pair.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Excess {
    /// Median of the readings, in nanoseconds.
    pub p50_ns: f64,
    /// By how much it exceeds the others: 1: not at all.
    pub ratio: f64,
    /// 95 % interval of that.
    pub ratio_ci95: Interval,
    /// Within the limit, beyond it, or not sure.
    pub verdict: Verdict,
}

/// Judges readings, `readings[round][pair]` in nanoseconds; what is not a number was not measured.
pub(super) fn judge(readings: &[Vec<f64>], limit: Limit) -> Vec<Option<Excess>> {
    let pairs = readings.first().map_or(0, Vec::len);
    let centres: Vec<Option<f64>> = readings.iter().map(|round| centre(round)).collect();
    (0..pairs)
        .map(|pair| {
            let both: Vec<(f64, f64)> = readings
                .iter()
                .zip(&centres)
                .filter_map(|(round, centre)| Some((*round.get(pair)?, (*centre)?)))
                .filter(|(reading, centre)| reading.is_finite() && *centre > 0.0)
                .collect();
            excess(&both, limit)
        })
        .collect()
}

/// The typical reading of a round.
fn centre(round: &[f64]) -> Option<f64> {
    let finite: Vec<f64> = round.iter().copied().filter(|reading| reading.is_finite()).collect();
    median(&finite)
}

fn excess(readings: &[(f64, f64)], limit: Limit) -> Option<Excess> {
    let ratios: Vec<f64> = readings.iter().map(|(reading, centre)| reading / centre).collect();
    let own: Vec<f64> = readings.iter().map(|(reading, _)| *reading).collect();
    let others: Vec<f64> = readings.iter().map(|(_, centre)| *centre).collect();
    let (ratio, ratio_ci95, p50_ns) = (median(&ratios)?, median_interval(&ratios)?, median(&own)?);
    let excess_ns = p50_ns - median(&others)?;
    let verdict = if excess_ns < limit.excess_ns || ratio_ci95.high <= limit.ratio {
        Verdict::Pass
    } else if ratio_ci95.low > limit.ratio {
        Verdict::Fail
    } else {
        Verdict::Inconclusive
    };
    Some(Excess { p50_ns, ratio, ratio_ci95, verdict })
}

#[cfg(test)]
mod tests {
    use bench::rng::Rng;

    use super::*;

    const LIMIT: Limit = Limit { ratio: 1.12, excess_ns: 20.0 };

    /// Readings of 12 pairs around 3 µs on a machine that changes its mood every few rounds, with spikes.
    fn noisy(seed: u64, rounds: usize, slow_pair: Option<(usize, f64)>) -> Vec<Vec<f64>> {
        let mut rng = Rng::new(seed);
        (0..rounds)
            .map(|round| {
                let mood = if round / 7 % 3 == 0 { 2.5 } else { 1.0 };
                (0..12)
                    .map(|pair| {
                        let factor = slow_pair.filter(|(slow, _)| *slow == pair).map_or(1.0, |(_, by)| by);
                        let spike = if rng.below(15) == 0 { 8.0 } else { 1.0 };
                        3000.0 * mood * factor * spike * (0.95 + 0.001 * rng.below(100) as f64)
                    })
                    .collect()
            })
            .collect()
    }

    fn verdicts(readings: &[Vec<f64>]) -> Vec<Verdict> {
        judge(readings, LIMIT).into_iter().map(|excess| excess.unwrap().verdict).collect()
    }

    #[test]
    fn noise_that_hits_everybody_is_no_ones_fault() {
        for seed in 0..200 {
            let verdicts = verdicts(&noisy(seed, 60, None));
            assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Pass), "{seed}: {verdicts:?}");
        }
    }

    #[test]
    fn a_fifth_less_is_found_and_only_there() {
        for seed in 0..200 {
            let verdicts = verdicts(&noisy(seed, 60, Some((seed as usize % 12, 1.25))));
            for (pair, verdict) in verdicts.iter().enumerate() {
                let expected = if pair == seed as usize % 12 { Verdict::Fail } else { Verdict::Pass };
                assert_eq!(*verdict, expected, "{seed}, pair {pair}");
            }
        }
    }

    #[test]
    fn too_few_rounds_are_no_verdict_and_a_straddling_interval_is_inconclusive() {
        assert!(judge(&noisy(1, 5, None), LIMIT).iter().all(Option::is_none));
        let verdict = judge(&noisy(3, 8, Some((2, 1.12))), LIMIT)[2].clone().unwrap();
        assert_eq!(verdict.verdict, Verdict::Inconclusive, "{verdict:?}");
    }

    #[test]
    fn a_large_ratio_of_almost_nothing_is_no_fault() {
        let readings: Vec<Vec<f64>> = (0..30).map(|_| vec![10.0, 10.0, 10.0, 20.0]).collect();
        assert!(
            judge(&readings, LIMIT).iter().all(|excess| excess.as_ref().unwrap().verdict == Verdict::Pass)
        );
    }

    #[test]
    fn what_was_not_measured_has_no_verdict() {
        let readings: Vec<Vec<f64>> = (0..30).map(|_| vec![10.0, f64::NAN, 10.0, 10.0]).collect();
        let judged = judge(&readings, LIMIT);
        assert!(judged[1].is_none() && judged[0].is_some());
    }
}

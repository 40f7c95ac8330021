//! The ratio of two sides measured in alternating blocks, with its interval.
//!
//! **Which ratio.** The median of the blocks' ratios, not the ratio of the medians. The processors
//! of a virtual machine move within seconds, and a cache line then costs four times as much. Both
//! sides of a block see the same placement, so it cancels inside a block. The medians of the two
//! columns may come from different placements, and their ratio is then meaningless. (A ratio is
//! summarised here only because it is the quantity that the goal limits; the absolute figures are
//! reported with it.)
//!
//! **Its uncertainty.** A bootstrap over blocks (pairs stay together), percentile interval, 95 %.
//! Blocks, not samples, are the unit: successive samples share their placement and are not
//! independent.
//!
//! Costs that add up (processor time of a daemon) have no typical block: there the ratio of the
//! means is taken, [`Centre::Mean`].

use serde::{Deserialize, Serialize};

use super::order::{self, Interval};
use crate::rng::Rng;

/// Fewer undisturbed blocks than this never decide anything.
pub const MIN_BLOCKS: usize = 30;
/// Resamples of a final interval.
pub const RESAMPLES: usize = 4000;

/// One block: the measurement and its reference, adjacent in time; in JSON `[ours, reference]`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 2]", into = "[f64; 2]")]
pub struct Block {
    /// The measured value.
    pub ours: f64,
    /// The reference next to it, in the same unit.
    pub reference: f64,
}

impl Block {
    /// Ours divided by the reference; `None` where that is no number.
    pub fn ratio(&self) -> Option<f64> {
        let ratio = self.ours / self.reference;
        ratio.is_finite().then_some(ratio)
    }
}

impl From<[f64; 2]> for Block {
    fn from([ours, reference]: [f64; 2]) -> Self {
        Self { ours, reference }
    }
}

impl From<Block> for [f64; 2] {
    fn from(block: Block) -> Self {
        [block.ours, block.reference]
    }
}

/// The statistic that makes one figure of the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Centre {
    /// Median of the blocks; ratio = median of the blocks' ratios.
    Median,
    /// Mean of the blocks; ratio = mean of ours / mean of the references.
    Mean,
}

/// The figure that blocks support.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PairedRatio {
    /// Centre of ours.
    pub ours: f64,
    /// 95 % interval of ours (order statistics for a median, bootstrap for a mean).
    pub ours_ci95: Interval,
    /// Centre of the reference.
    pub reference: f64,
    /// The ratio of ours to the reference.
    pub ratio: f64,
    /// 95 % bootstrap percentile interval of the ratio.
    pub ratio_ci95: Interval,
    /// The number of blocks.
    pub blocks: usize,
}

impl PairedRatio {
    /// The interval of ours, for reports. One block has none: a single point would look certain.
    pub fn shown_ours_ci95(&self) -> Option<Interval> {
        (self.blocks > 1).then_some(self.ours_ci95)
    }

    /// The same of the ratio.
    pub fn shown_ratio_ci95(&self) -> Option<Interval> {
        (self.blocks > 1).then_some(self.ratio_ci95)
    }

    /// Computes the figure; `None` without blocks or if a reference is 0.
    pub fn of(blocks: &[Block], centre: Centre, resamples: usize, seed: u64) -> Option<Self> {
        let ours: Vec<f64> = blocks.iter().map(|b| b.ours).collect();
        let reference: Vec<f64> = blocks.iter().map(|b| b.reference).collect();
        let ratios: Vec<f64> = blocks.iter().map(Block::ratio).collect::<Option<_>>()?;
        let (value, base, ratio) = match centre {
            Centre::Median => (order::median(&ours)?, order::median(&reference)?, order::median(&ratios)?),
            Centre::Mean => {
                let (value, base) = (order::mean(&ours)?, order::mean(&reference)?);
                (value, base, value / base)
            }
        };
        let ours_ci95 = match centre {
            Centre::Median => order::median_interval(&ours),
            Centre::Mean => None,
        };
        let mean_of = |picked: &[usize]| picked.iter().map(|&i| ours[i]).sum::<f64>() / picked.len() as f64;
        let ours_ci95 = ours_ci95
            .or_else(|| bootstrap(blocks.len(), resamples, seed, |picked, _| Some(mean_of(picked))))
            .unwrap_or(Interval::point(value));
        let ratio_ci95 = bootstrap(blocks.len(), resamples, seed, |picked, scratch| match centre {
            Centre::Median => {
                scratch.clear();
                scratch.extend(picked.iter().map(|&i| ratios[i]));
                order::median_of_scratch(scratch)
            }
            Centre::Mean => Some(
                mean_of(picked) / picked.iter().map(|&i| reference[i]).sum::<f64>() * picked.len() as f64,
            ),
        })?;
        Some(Self { ours: value, ours_ci95, reference: base, ratio, ratio_ci95, blocks: blocks.len() })
    }
}

/// Percentile interval (2.5 % … 97.5 %) of a statistic over resampled indices `0..n`; the second
/// argument of the statistic is scratch memory. The same seed gives the same interval.
fn bootstrap(
    n: usize,
    resamples: usize,
    seed: u64,
    mut statistic: impl FnMut(&[usize], &mut Vec<f64>) -> Option<f64>,
) -> Option<Interval> {
    if n == 0 || resamples == 0 {
        return None;
    }
    let mut rng = Rng::new(seed);
    let mut picked = vec![0; n];
    let mut scratch = Vec::with_capacity(n);
    let mut values = Vec::with_capacity(resamples);
    for _ in 0..resamples {
        picked.iter_mut().for_each(|slot| *slot = rng.below(n));
        values.push(statistic(&picked, &mut scratch)?);
    }
    values.sort_unstable_by(f64::total_cmp);
    Some(Interval {
        low: order::quantile_of_sorted(&values, 0.025)?,
        high: order::quantile_of_sorted(&values, 0.975)?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::rng::Rng;

    fn blocks(pairs: &[(f64, f64)]) -> Vec<Block> {
        pairs.iter().map(|&(ours, reference)| Block { ours, reference }).collect()
    }

    #[test]
    fn a_moved_processor_cancels() {
        // Ours costs 1.1 of the baseline, and the baseline changes fourfold in the middle of the
        // run.
        let run: Vec<Block> = (0..40)
            .map(|i| {
                let baseline = if i < 19 { 40.0 } else { 160.0 };
                Block { ours: 1.1 * baseline, reference: baseline }
            })
            .collect();
        let got = PairedRatio::of(&run, Centre::Median, 1000, 1).unwrap();
        assert!((got.ratio - 1.1).abs() < 1e-12);
        assert!((got.ratio_ci95.low - 1.1).abs() < 1e-12 && (got.ratio_ci95.high - 1.1).abs() < 1e-12);
        assert!((got.ours - 176.0).abs() < 1e-9 && got.reference == 160.0);
    }

    #[test]
    fn a_mean_adds_up() {
        let run = blocks(&[(0.0, 10.0), (0.0, 10.0), (30.0, 10.0)]);
        let got = PairedRatio::of(&run, Centre::Mean, 1000, 1).unwrap();
        assert_eq!((got.ours, got.reference, got.ratio), (10.0, 10.0, 1.0));
        assert!(got.ratio_ci95.low < 0.5 && got.ratio_ci95.high > 1.5, "{got:?}");
        assert_eq!(PairedRatio::of(&run, Centre::Median, 1000, 1).unwrap().ratio, 0.0);
    }

    #[test]
    fn what_has_no_ratio_is_refused() {
        assert_eq!(PairedRatio::of(&[], Centre::Median, 100, 1), None);
        assert_eq!(PairedRatio::of(&blocks(&[(1.0, 0.0)]), Centre::Median, 100, 1), None);
        assert_eq!(PairedRatio::of(&blocks(&[(f64::NAN, 1.0)]), Centre::Median, 100, 1), None);
    }

    /// The interval must hold the true ratio in about 95 of 100 worlds.
    #[test]
    fn coverage() {
        let mut rng = Rng::new(99);
        // Sum of 12 uniforms: near enough to a normal.
        let mut normal = move || (0..12).map(|_| rng.next_u64() as f64 / u64::MAX as f64).sum::<f64>() - 6.0;
        let worlds = 300;
        let mut held = 0;
        for world in 0..worlds {
            let run: Vec<Block> = (0..30)
                .map(|_| {
                    let reference = 100.0 + 20.0 * normal().abs();
                    Block { ours: reference * (1.2 + 0.05 * normal()), reference }
                })
                .collect();
            let ci = PairedRatio::of(&run, Centre::Median, 500, world).unwrap().ratio_ci95;
            held += u64::from(ci.low <= 1.2 && 1.2 <= ci.high);
        }
        assert!((worlds * 90 / 100..=worlds).contains(&held), "{held} of {worlds}");
    }

    proptest! {
        #[test]
        fn repeatable_and_around_the_ratio(
            pairs in prop::collection::vec((1.0..1e3f64, 1.0..1e3f64), 1..60), seed: u64,
        ) {
            let run = blocks(&pairs);
            let a = PairedRatio::of(&run, Centre::Median, 300, seed).unwrap();
            prop_assert_eq!(a, PairedRatio::of(&run, Centre::Median, 300, seed).unwrap());
            prop_assert!(a.ratio_ci95.low <= a.ratio_ci95.high);
            let ratios: Vec<f64> = run.iter().filter_map(Block::ratio).collect();
            let (min, max) = (order::sorted(&ratios)[0], order::sorted(&ratios)[ratios.len() - 1]);
            prop_assert!(min <= a.ratio_ci95.low && a.ratio_ci95.high <= max);
        }

        #[test]
        fn units_do_not_matter(pairs in prop::collection::vec((1.0..1e3f64, 1.0..1e3f64), 2..40)) {
            let run = blocks(&pairs);
            let scaled: Vec<Block> = run.iter().map(|b| Block { ours: b.ours * 8.0, reference: b.reference * 8.0 }).collect();
            let (a, b) = (PairedRatio::of(&run, Centre::Median, 200, 5).unwrap(), PairedRatio::of(&scaled, Centre::Median, 200, 5).unwrap());
            prop_assert_eq!((a.ratio, a.ratio_ci95), (b.ratio, b.ratio_ci95));
        }
    }
}

//! Compares one figure before and after.
//!
//! Blocks of two runs do not form pairs, so the blocks of each run are resampled independently. If
//! both runs have the same reference, the ratios to it are compared: what the machine did to both
//! sides cancels within each run. Otherwise the plain values are compared, and then chance must
//! also be ruled out by shuffling the blocks of both runs together.

use super::{Basis, Change, Judgement, Tolerance};
use crate::{
    figure::Stat,
    results::Item,
    rng::Rng,
    stats::{
        Block, Interval,
        order::{median_of_scratch, quantile_of_sorted},
        permutation,
    },
};

/// With fewer undisturbed blocks on a side, no change is judged.
pub const BLOCKS_MIN: usize = 10;
/// Resamples of an interval, and shuffles of a test.
const RESAMPLES: usize = 2000;
const SHUFFLES: usize = 999;
/// Chance must be less likely than this.
const CHANCE_MAX: f64 = 0.05;

/// One side: its centre, and how to resample it.
struct Side<'a> {
    blocks: &'a [Block],
    stat: Stat,
    basis: Basis,
    centre: f64,
    interval: Option<Interval>,
}

impl Side<'_> {
    /// Whether its blocks may be drawn from. Readings that are no samples, and documents without
    /// blocks, may not.
    fn can_be_drawn(&self) -> bool {
        self.stat != Stat::Max && !self.blocks.is_empty()
    }

    /// The compared values, block by block.
    fn values(&self) -> Vec<f64> {
        match self.basis {
            Basis::Ratio => self.blocks.iter().filter_map(Block::ratio).collect(),
            Basis::Value => self.blocks.iter().map(|block| block.ours).collect(),
        }
    }

    fn draw(&self, rng: &mut Rng, scratch: &mut Vec<f64>) -> Option<f64> {
        let pick = |rng: &mut Rng| self.blocks[rng.below(self.blocks.len())];
        if self.stat == Stat::Mean {
            let (mut ours, mut reference) = (0.0, 0.0);
            for _ in 0..self.blocks.len() {
                let block = pick(rng);
                ours += block.ours;
                reference += block.reference;
            }
            let count = self.blocks.len() as f64;
            return Some(if self.basis == Basis::Ratio { ours / reference } else { ours / count });
        }
        scratch.clear();
        for _ in 0..self.blocks.len() {
            let block = pick(rng);
            scratch.push(if self.basis == Basis::Ratio { block.ratio()? } else { block.ours });
        }
        median_of_scratch(scratch)
    }
}

fn side(item: &Item, basis: Basis) -> Side<'_> {
    let (centre, interval) = match (&item.beside, basis) {
        (Some(beside), Basis::Ratio) => (beside.ratio, beside.ratio_ci95),
        _ => (item.value, item.ci95),
    };
    Side { blocks: &item.blocks, stat: item.stat, basis, centre, interval }
}

/// Whether the ratios are compared: both sides have the same reference.
fn basis(old: &Item, new: &Item) -> Basis {
    match (&old.beside, &new.beside) {
        (Some(a), Some(b)) if a.name == b.name && old.stat != Stat::Max => Basis::Ratio,
        _ => Basis::Value,
    }
}

/// Compares two readings of one figure.
pub(super) fn judge(old: &Item, new: &Item, tolerance: &Tolerance, seed: u64) -> Change {
    let basis = basis(old, new);
    let (a, b) = (side(old, basis), side(new, basis));
    let mut change = Change {
        id: old.id.clone(),
        unit: old.unit.clone(),
        basis,
        beside: (basis == Basis::Ratio)
            .then(|| old.beside.as_ref().map(|beside| beside.name.clone()))
            .flatten(),
        old: old.value,
        new: new.value,
        change: None,
        change_ci95: None,
        difference: None,
        chance: None,
        blocks: [old.blocks.len(), new.blocks.len()],
        verdicts: [old.verdict, new.verdict],
        judgement: Judgement::Inconclusive,
        why: None,
    };
    if old.unit != new.unit || old.small_is_good != new.small_is_good {
        change.why = Some(format!("{} before and {} now: not the same figure", old.unit, new.unit));
        return change;
    }
    if !(a.centre > 0.0 && b.centre > 0.0 && old.value > 0.0) {
        return of_nothing(change, old, new, tolerance);
    }
    let ratio = b.centre / a.centre;
    change.change = Some(ratio);
    change.difference = Some(old.value * (ratio - 1.0));
    change.change_ci95 = interval(&a, &b, seed);
    if basis == Basis::Value && a.can_be_drawn() && b.can_be_drawn() {
        change.chance = permutation::medians(&a.values(), &b.values(), SHUFFLES, seed);
    }
    if is_one_measurement(old, new) {
        // However wide its own interval is: there is nothing between the two.
        change.change_ci95 = Some(Interval::point(1.0));
        change.judgement = Judgement::Same;
        change.why = Some("one measurement on both sides".to_owned());
        return change;
    }
    change.why = too_little(old).map(|why| format!("before: {why}")).or_else(|| too_little(new));
    if let Some(ci95) = change.change_ci95.filter(|_| change.why.is_none()) {
        let judged = within(old, ci95, tolerance);
        let by_chance = change.chance.is_some_and(|chance| chance >= CHANCE_MAX);
        if judged == Judgement::Inconclusive {
            change.why = Some("the interval straddles the tolerance: measure longer".to_owned());
        } else if by_chance && judged != Judgement::Same {
            change.why = Some("chance alone may make this difference".to_owned());
        } else {
            change.judgement = judged;
        }
    } else if change.why.is_none() {
        change.why = Some("the interval of one side is not known".to_owned());
    }
    change
}

/// Two copies of one reading, as when a file is compared with itself. Blocks are times in fractions
/// of a nanosecond: two runs don't agree in all of them by chance.
fn is_one_measurement(old: &Item, new: &Item) -> bool {
    !old.blocks.is_empty()
        && old.blocks == new.blocks
        && old.value == new.value
        && old.stat == new.stat
        && old.disturbed == new.disturbed
}

/// If a side is 0, there is no ratio, and only the difference is judged.
fn of_nothing(mut change: Change, old: &Item, new: &Item, tolerance: &Tolerance) -> Change {
    let difference = new.value - old.value;
    if !difference.is_finite() {
        change.why = Some("a value is not a number".to_owned());
        return change;
    }
    change.difference = Some(difference);
    if difference.abs() <= tolerance.absolute(&old.unit) {
        change.judgement = Judgement::Same;
    } else {
        change.why = Some("one side is 0, so there is no ratio".to_owned());
        change.judgement =
            if (difference > 0.0) == old.small_is_good { Judgement::Worse } else { Judgement::Better };
    }
    change
}

/// Why a side's blocks decide nothing, if so.
fn too_little(item: &Item) -> Option<String> {
    let blocks = item.blocks.len();
    if item.stat == Stat::Max || (blocks == 0 && item.disturbed == 0) {
        None
    } else if blocks < BLOCKS_MIN {
        Some(format!("only {blocks} undisturbed blocks of the {BLOCKS_MIN} needed"))
    } else if blocks <= item.disturbed {
        Some(format!("{} blocks of {} were disturbed", item.disturbed, blocks + item.disturbed))
    } else {
        None
    }
}

/// The 95 % interval of new by old.
fn interval(old: &Side<'_>, new: &Side<'_>, seed: u64) -> Option<Interval> {
    if old.stat == Stat::Max {
        return Some(Interval::point(new.centre / old.centre));
    }
    if old.can_be_drawn() && new.can_be_drawn() {
        let (mut rng, mut scratch) = (Rng::new(seed), Vec::new());
        let mut values = Vec::with_capacity(RESAMPLES);
        for _ in 0..RESAMPLES {
            let value = new.draw(&mut rng, &mut scratch)? / old.draw(&mut rng, &mut scratch)?;
            values.push(Some(value).filter(|value| value.is_finite())?);
        }
        values.sort_unstable_by(f64::total_cmp);
        return Some(Interval {
            low: quantile_of_sorted(&values, 0.025)?,
            high: quantile_of_sorted(&values, 0.975)?,
        });
    }
    // Without blocks: from end to end, which is wider than 95 %.
    let (a, b) = old.interval.zip(new.interval)?;
    (a.low > 0.0).then(|| Interval { low: b.low / a.high, high: b.high / a.low })
}

/// Whether both ends of the interval are within the tolerance.
fn within(old: &Item, ci95: Interval, tolerance: &Tolerance) -> Judgement {
    let (low, high) = (end(old, ci95.low, tolerance), end(old, ci95.high, tolerance));
    if low == high { low } else { Judgement::Inconclusive }
}

/// The judgement on one value of the change: it must exceed both tolerances to count.
fn end(old: &Item, change: f64, tolerance: &Tolerance) -> Judgement {
    let relative = change.ln().abs() > tolerance.relative.ln_1p();
    let absolute = (old.value * (change - 1.0)).abs() > tolerance.absolute(&old.unit);
    if !(relative && absolute) {
        Judgement::Same
    } else if (change > 1.0) == old.small_is_good {
        Judgement::Worse
    } else {
        Judgement::Better
    }
}

//! The verdict on one figure from its rounds.

use std::collections::BTreeSet;

use serde::Serialize;

use super::{
    Compared, LEAST,
    build::Reading,
    series::{ROUNDS_MIN, Series},
};
use crate::{
    acceptance::catalogue::Entry,
    compare::{Basis, Tolerance},
};

/// A ratio beyond this, or below its inverse, is cut, so that a value near 0 cannot decide.
const RATIO_MAX: f64 = 1000.0;

/// The outcome of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its interval was wholly below [`LEAST`] twice, or it can no longer be measured.
    Worse,
    /// The figure is not worse.
    NoWorse,
    /// Its interval is wholly above the inverse of [`LEAST`].
    Better,
    /// There is no interval, or one that decides nothing.
    Inconclusive,
}

impl Outcome {
    /// The name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worse => "WORSE",
            Self::NoWorse => "no worse",
            Self::Better => "better",
            Self::Inconclusive => "INCONCLUSIVE",
        }
    }
}

/// An outcome, and why.
pub type Judged = (Outcome, Option<String>);

/// Whether the interval is wholly below what a figure may lose, and few enough rounds were
/// disturbed to judge.
pub(super) fn is_below(series: &Series) -> bool {
    series.disturbed.len() < series.rounds.len()
        && series.ratio_ci95.is_some_and(|interval| interval.high < LEAST)
}

/// Whether the ratios to the reference are compared: the reference is neither a constant nor a part
/// of this project, and both builds have the same one. The best of several rivals changes its name
/// from run to run, so one common name suffices.
pub(super) fn basis(entry: &Entry, pairs: &[[Reading; 2]]) -> Basis {
    let names = |side: usize| -> Option<BTreeSet<&str>> {
        pairs.iter().map(|pair| pair[side].beside.as_ref().map(|beside| beside.name.as_str())).collect()
    };
    match (names(0), names(1)) {
        (Some(before), Some(now)) if !entry.is_beside_our_own() && !before.is_disjoint(&now) => Basis::Ratio,
        _ => Basis::Value,
    }
}

/// Now by before, above 1 if better.
pub(super) fn ratio(basis: Basis, before: &Reading, now: &Reading) -> f64 {
    let (a, b) = match (basis, &before.beside, &now.beside) {
        (Basis::Ratio, Some(a), Some(b)) => (a.ratio, b.ratio),
        _ => (before.value, now.value),
    };
    let (worth_before, worth_now) = if now.small_is_good { (b, a) } else { (a, b) };
    // Counts of ticks are 0 or one tick, by chance.
    let resolution = Tolerance::default().absolute(&now.unit);
    let is_nothing = a.min(b) <= 0.0 && (before.value - now.value).abs() <= resolution;
    if is_nothing || a == b {
        return 1.0;
    }
    let ratio = worth_now / worth_before;
    if ratio.is_nan() { 1.0 / RATIO_MAX } else { ratio.clamp(1.0 / RATIO_MAX, RATIO_MAX) }
}

/// Returns the outcome of a figure with its series: one, or two if the first was wholly below the
/// limit.
pub(super) fn compared(entry: &Entry, series: Vec<Series>) -> Compared {
    let (outcome, why) = judge(&series);
    let of = series.iter().find_map(|series| series.of.clone());
    let (unit, small_is_good) = of.unwrap_or_default();
    let basis = series.last().and_then(|series| series.basis).unwrap_or(Basis::Value);
    Compared { id: entry.id.to_owned(), unit, small_is_good, basis, series, outcome, why }
}

fn judge(series: &[Series]) -> Judged {
    let Some(first) = series.first() else { return (Outcome::Inconclusive, None) };
    if !is_below(first) {
        return once(first);
    }
    let below = format!("the first interval was wholly below {LEAST}");
    let Some(second) = series.get(1) else {
        return (Outcome::Inconclusive, Some(format!("{below}, and the run ended before a second")));
    };
    if is_below(second) {
        return (Outcome::Worse, Some(format!("{below}, and so was the second")));
    }
    match once(second) {
        (Outcome::Inconclusive, why) => {
            (Outcome::Inconclusive, Some(format!("{below}; the second time: {}", why.unwrap_or_default())))
        }
        (outcome, _) => (outcome, Some(format!("{below}, the second was not"))),
    }
}

/// Returns the outcome of one series whose interval, if it has one, is not wholly below the limit.
fn once(series: &Series) -> Judged {
    let unsure = |why: String| (Outcome::Inconclusive, Some(why));
    if series.is_unlike {
        return unsure("the two builds measure it in other units or directions".to_owned());
    }
    match &series.failed {
        [None, Some(reason)] if series.rounds.is_empty() && !series.is_ended => {
            return (Outcome::Worse, Some(format!("it cannot be measured now: {reason}")));
        }
        [Some(reason), _] if series.rounds.is_empty() => {
            return unsure(format!("the old build could not measure it: {reason}"));
        }
        _ => {}
    }
    let (rounds, disturbed) = (series.rounds.len(), series.disturbed.len());
    let Some(interval) = series.ratio_ci95 else {
        let ended = if series.is_ended { ", as the run was ended" } else { "" };
        let failed = series.failed.iter().flatten().next();
        let reason = failed.map_or_else(String::new, |reason| format!(" ({reason})"));
        return unsure(format!("only {rounds} undisturbed rounds of the {ROUNDS_MIN} needed{ended}{reason}"));
    };
    if disturbed >= rounds {
        return unsure(format!(
            "{disturbed} rounds of {} were disturbed: measure on a quieter machine",
            rounds + disturbed
        ));
    }
    // Too wide to find what it is there to find.
    let half_width = series.ratio.map_or(f64::INFINITY, |ratio| interval.relative_half_width(ratio));
    if interval.low < LEAST && half_width > 1.0 - LEAST {
        let percent = 100.0 * (1.0 - LEAST);
        return unsure(format!(
            "the interval is wider than the loss of {percent:.0} % that is searched: measure more rounds \
             (--rounds), or on a quieter machine"
        ));
    }
    let outcome = if interval.low > 1.0 / LEAST { Outcome::Better } else { Outcome::NoWorse };
    let open = (interval.low < LEAST).then(|| format!("a ratio of {:.3} is not ruled out", interval.low));
    (outcome, reference_moved(series).or(open))
}

/// Returns a note if the reference has changed: the ratio to it is then less meaningful.
fn reference_moved(series: &Series) -> Option<String> {
    let interval = series.reference_ci95?;
    let moved = interval.high < LEAST || interval.low > 1.0 / LEAST;
    moved.then(|| {
        format!(
            "its reference has changed too, to {:.3} … {:.3} of the earlier value: compare the values",
            interval.low, interval.high
        )
    })
}

//! The rounds of one figure.

use serde::{Serialize, Serializer, ser::SerializeTuple};

use super::{
    build::{Measures, NoReading, Reading},
    judge,
};
use crate::{acceptance::catalogue::Entry, compare::Basis, stats::Interval, stats::order};

/// The numbers of rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Rounds at most, disturbed ones included.
    pub rounds_max: usize,
}

/// With fewer there is no interval of 95 %.
pub(super) const ROUNDS_MIN: usize = 6;
/// The interval is narrow enough when half of it is below this share: a third of what may be lost.
const HALF_WIDTH: f64 = 0.01;
/// A build that fails this number of times at one figure does not measure it.
const FAILURES_MAX: usize = 2;

impl Default for Limits {
    fn default() -> Self {
        Self { rounds_max: 2 * ROUNDS_MIN }
    }
}

/// The results of both builds, one right after the other; in JSON `[before, now, ratio]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// The value of the old build.
    pub before: f64,
    /// The value of the new build.
    pub now: f64,
    /// Now by before, above 1 if better.
    pub ratio: f64,
}

impl Serialize for Round {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut tuple = serializer.serialize_tuple(3)?;
        tuple.serialize_element(&self.before)?;
        tuple.serialize_element(&self.now)?;
        tuple.serialize_element(&self.ratio)?;
        tuple.end()
    }
}

/// The rounds of one figure, and their summary.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Series {
    /// Median of the values of before.
    pub before: Option<f64>,
    /// The same for the new build.
    pub now: Option<f64>,
    /// Median of the rounds' ratios: now by before, above 1 if better.
    pub ratio: Option<f64>,
    /// Its 95 % interval; `null` of fewer than [`ROUNDS_MIN`] rounds.
    pub ratio_ci95: Option<Interval>,
    /// Undisturbed rounds, in order of time.
    pub rounds: Vec<Round>,
    /// Rounds in which a run had no fewer disturbed blocks than others.
    pub disturbed: Vec<Round>,
    /// Why a build of before, or of now, gave no figure in a run.
    pub failed: [Option<String>; 2],
    /// The interval of the reference, new by old, where ratios to the reference are compared.
    pub reference_ci95: Option<Interval>,
    /// The quotient that is compared.
    #[serde(skip)]
    pub basis: Option<Basis>,
    /// Unit and direction.
    #[serde(skip)]
    pub of: Option<(String, bool)>,
    /// The two builds do not mean the same by this name.
    #[serde(skip)]
    pub is_unlike: bool,
    /// Whether it was ended early.
    #[serde(skip)]
    pub is_ended: bool,
}

/// Measures one figure until its interval is narrow, or all rounds are used. A good result does not
/// end it, because that would make a false verdict likely. `tell` receives a description and the
/// share that is done, and returns whether to end.
pub(super) fn measure(
    entry: &Entry,
    limits: Limits,
    builds: &mut dyn Measures,
    tell: &mut dyn FnMut(&str, f64) -> bool,
) -> Series {
    let mut pairs: Vec<[Reading; 2]> = Vec::new();
    let mut failed = [None, None];
    let (mut failures, mut is_ended) = (0, false);
    for round in 0..limits.rounds_max.max(ROUNDS_MIN) {
        let share = round as f64 / limits.rounds_max as f64;
        if tell(&format!("{}: round {} of at most {}", entry.id, round + 1, limits.rounds_max), share) {
            is_ended = true;
            break;
        }
        match one_round(entry, round, builds) {
            Ok(pair) => pairs.push(pair),
            Err((_, NoReading::Ended)) => {
                is_ended = true;
                break;
            }
            Err((side, NoReading::Failed(reason))) => {
                failed[side] = Some(reason);
                failures += 1;
            }
        }
        let so_far = of(entry, &pairs);
        let narrow = so_far.ratio_ci95.zip(so_far.ratio).is_some_and(|(interval, ratio)| {
            interval.relative_half_width(ratio) <= HALF_WIDTH && so_far.disturbed.len() < so_far.rounds.len()
        });
        if narrow || failures >= FAILURES_MAX || so_far.is_unlike {
            break;
        }
    }
    Series { failed, is_ended, ..of(entry, &pairs) }
}

/// One run of each build. Which is first changes, so that a drift of the machine favours neither.
fn one_round(
    entry: &Entry,
    round: usize,
    builds: &mut dyn Measures,
) -> Result<[Reading; 2], (usize, NoReading)> {
    let first = round % 2;
    let mut run = |side| builds.measure(side, entry).map_err(|why| (side, why));
    let a = run(first)?;
    let b = run(1 - first)?;
    Ok(if first == 0 { [a, b] } else { [b, a] })
}

/// Summarises the readings.
fn of(entry: &Entry, pairs: &[[Reading; 2]]) -> Series {
    let Some([a, b]) = pairs.first() else { return Series::default() };
    let mut series = Series { of: Some((b.unit.clone(), b.small_is_good)), ..Series::default() };
    if a.unit != b.unit || a.small_is_good != b.small_is_good {
        series.is_unlike = true;
        return series;
    }
    let basis = judge::basis(entry, pairs);
    series.basis = Some(basis);
    let mut references = Vec::new();
    for [before, now] in pairs {
        let round = Round { before: before.value, now: now.value, ratio: judge::ratio(basis, before, now) };
        if before.is_disturbed || now.is_disturbed {
            series.disturbed.push(round);
        } else {
            series.rounds.push(round);
            let both = before.beside.as_ref().zip(now.beside.as_ref()).filter(|_| basis == Basis::Ratio);
            references.extend(both.map(|(a, b)| b.value / a.value));
        }
    }
    let column = |pick: fn(&Round) -> f64| series.rounds.iter().map(pick).collect::<Vec<f64>>();
    let ratios = column(|round| round.ratio);
    series.before = order::median(&column(|round| round.before));
    series.now = order::median(&column(|round| round.now));
    series.ratio_ci95 = order::median_interval(&ratios);
    series.ratio = order::median(&ratios);
    series.reference_ci95 = order::median_interval(&references);
    series
}

//! Applies thresholds to measured figures.

use serde::{Deserialize, Serialize};

use super::{Bounds, Threshold, Thresholds};
use crate::{
    compare::BLOCKS_MIN,
    figure::{Figure, Figures, Stat},
    layout::table::{Align, Table, three_digits},
    quantity,
    results::{Document, Item},
    stats::Interval,
    verdict::{Goal, Op, Verdict},
};

/// One figure and its bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judged {
    /// The ID.
    pub id: String,
    /// The entry that judged it.
    pub by: String,
    /// Unit of `value` and `value_bounds`.
    pub unit: String,
    /// The value.
    pub value: f64,
    /// Its interval, or the value itself where that is not known.
    pub value_ci95: Interval,
    /// The ratio to the reference, and its interval.
    pub ratio: Option<f64>,
    /// See `ratio`.
    pub ratio_ci95: Option<Interval>,
    /// The bounds of the value.
    pub value_bounds: Bounds,
    /// The bounds of the ratio.
    pub ratio_bounds: Bounds,
    /// The verdict.
    pub verdict: Verdict,
    /// The reason, where the numbers do not show it.
    pub why: Option<String>,
}

/// All figures of one document that have bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Judgements {
    /// The file.
    pub source: String,
    /// By figure.
    pub figures: Vec<Judged>,
    /// The worst of them; `FAIL` if nothing could be judged.
    pub verdict: Verdict,
}

/// The values that decide about one figure.
struct Reading {
    id: String,
    unit: String,
    value: (f64, Interval),
    ratio: Option<(f64, Interval)>,
    /// Undisturbed and disturbed blocks, and how many are needed; `None` where it does not rest on
    /// blocks.
    blocks: Option<(usize, usize, usize)>,
}

impl Bounds {
    /// The whole interval inside: pass. Wholly outside: fail.
    fn verdict(&self, ci95: Interval) -> Verdict {
        let upper = self.upper.map(|limit| Verdict::of(Goal::at_most(limit), ci95));
        let lower = self.lower.map(|limit| Verdict::of(Goal::at_least(limit), ci95));
        Verdict::overall(upper.into_iter().chain(lower))
    }
}

impl Threshold {
    /// The bounds of the value in this unit.
    fn value_in(&self, unit: &str) -> Bounds {
        let factor = quantity::unit(unit).filter(|(dimension, _)| Some(*dimension) == self.dimension);
        factor.map_or_else(Bounds::default, |(_, factor)| self.value.scaled(1.0 / factor))
    }

    fn judge(&self, reading: Reading) -> Judged {
        let value_bounds = self.value_in(&reading.unit);
        let mut verdicts = Vec::new();
        let mut why = None;
        if value_bounds.judges() {
            verdicts.push(value_bounds.verdict(reading.value.1));
        }
        match reading.ratio {
            Some((_, ci95)) if self.ratio.judges() => verdicts.push(self.ratio.verdict(ci95)),
            None if self.ratio.judges() => {
                why = Some(
                    "it is compared with nothing, so there is no ratio: give lower or upper with a unit"
                        .to_owned(),
                );
                verdicts.push(Verdict::Fail);
            }
            _ => {}
        }
        let mut verdict = Verdict::overall(verdicts);
        if let Some((blocks, disturbed, needed)) = reading.blocks
            && why.is_none()
            && (blocks < needed || blocks <= disturbed)
        {
            verdict = Verdict::Inconclusive;
            why = Some(format!(
                "{blocks} undisturbed blocks, {disturbed} disturbed: {needed} undisturbed ones are needed, and \
                 more of them than disturbed ones"
            ));
        }
        Judged {
            id: reading.id,
            by: self.pattern.clone(),
            unit: reading.unit,
            value: reading.value.0,
            value_ci95: reading.value.1,
            ratio: reading.ratio.map(|(ratio, _)| ratio),
            ratio_ci95: reading.ratio.map(|(_, ci95)| ci95),
            value_bounds,
            ratio_bounds: self.ratio,
            verdict,
            why,
        }
    }
}

fn of_item(item: &Item) -> Reading {
    let or_point = |ci95: Option<Interval>, value| ci95.unwrap_or(Interval::point(value));
    Reading {
        id: item.id.clone(),
        unit: item.unit.clone(),
        value: (item.value, or_point(item.ci95, item.value)),
        ratio: item.beside.as_ref().map(|beside| (beside.ratio, or_point(beside.ratio_ci95, beside.ratio))),
        blocks: (item.stat != Stat::Max && item.blocks.len() + item.disturbed > 0).then_some((
            item.blocks.len(),
            item.disturbed,
            BLOCKS_MIN,
        )),
    }
}

fn of_figure(figure: &Figure) -> Reading {
    let blocks = (figure.blocks.len(), figure.disturbed.len(), crate::stats::paired::MIN_BLOCKS);
    Reading {
        id: figure.id.clone(),
        unit: figure.unit.clone(),
        value: (figure.value, figure.ci95),
        ratio: Some((figure.ratio.value, figure.ratio.ci95)),
        blocks: (figure.stat != Stat::Max).then_some(blocks),
    }
}

impl Thresholds {
    /// Judges the figures of a document for which there is an entry.
    pub fn judge(&self, document: &Document) -> Judgements {
        let judge = |item: &Item| Some(self.find(&item.id)?.judge(of_item(item)));
        let figures: Vec<Judged> = document.items.iter().filter_map(judge).collect();
        let verdict = if figures.is_empty() {
            Verdict::Fail
        } else {
            Verdict::overall(figures.iter().map(|judged| judged.verdict))
        };
        Judgements { source: self.source.clone(), figures, verdict }
    }

    /// Judges figures by these entries instead of their built-in goals, where there is one.
    pub fn apply(&self, figures: &mut Figures) {
        for figure in &mut figures.figures {
            let Some(threshold) = self.find(&figure.id) else { continue };
            let judged = threshold.judge(of_figure(figure));
            figure.verdict = figure.counted(judged.verdict);
            // The goal of the table, where it can express the bound.
            let limit = match figure.goal.op {
                Op::AtMost => threshold.ratio.upper,
                Op::AtLeast => threshold.ratio.lower,
            };
            figure.goal.limit = limit.unwrap_or(figure.goal.limit);
            figure.judged = Some(Box::new(judged));
        }
    }
}

impl Bounds {
    /// `at least 1, at most 2, hoped for 1.5`.
    pub fn describe(&self, unit: &str) -> String {
        let parts = [("at least", self.lower), ("at most", self.upper), ("hoped for", self.target)];
        let shown = parts.into_iter().filter_map(|(word, value)| {
            let value = value?;
            Some(if unit.is_empty() {
                format!("{word} {value}")
            } else {
                format!("{word} {} {unit}", three_digits(value))
            })
        });
        shown.collect::<Vec<_>>().join(", ")
    }
}

impl Judged {
    /// The bounds, in words.
    pub fn asked(&self) -> String {
        let ratio = self.ratio_bounds.describe("");
        let ratio = if ratio.is_empty() { ratio } else { format!("ratio {ratio}") };
        let parts = [ratio, self.value_bounds.describe(&self.unit)];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }
}

impl Judgements {
    /// A table to print below the benchmark's own.
    pub fn to_text(&self) -> String {
        let mut table = Table::new([
            ("figure", Align::Left),
            ("value", Align::Right),
            ("ratio", Align::Right),
            ("asked", Align::Left),
            ("verdict", Align::Left),
        ]);
        for judged in &self.figures {
            table.row([
                judged.id.clone(),
                format!("{} {}", three_digits(judged.value), judged.unit),
                judged.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}")),
                judged.asked(),
                judged.verdict.to_string(),
            ]);
        }
        let mut text = format!("\njudged by {}\n", self.source);
        if table.is_empty() {
            text.push_str("nothing that was measured has a threshold there\n");
        } else {
            text.push_str(&table.render());
        }
        for judged in &self.figures {
            if let Some(why) = &judged.why {
                text.push_str(&format!("{}: {why}\n", judged.id));
            }
        }
        text.push_str(&format!("verdict: {}\n", self.verdict));
        text
    }
}

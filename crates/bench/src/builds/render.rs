//! A comparison of two builds as text.

use std::fmt::Write as _;

use super::{Compared, Comparison, LEAST, Outcome};
use crate::{
    compare::Basis,
    layout::table::{Align, Table, three_digits},
};

pub(super) fn text(all: &Comparison) -> String {
    let mut text = format!("{} against {}, measured in turn", all.now.name, all.before.name);
    if all.partial {
        text.push_str("; PARTIAL: the run was ended early");
    }
    let _ = writeln!(
        text,
        "\nratio: speed now by speed before, above 1 is better; WORSE: the interval lies wholly below {LEAST}, twice"
    );
    if !all.figures.is_empty() {
        text.push('\n');
        text.push_str(&table(&all.figures));
    }
    // Writing to a String cannot fail.
    for figure in &all.figures {
        if let Some(why) = &figure.why {
            let _ = writeln!(text, "{}: {why}", figure.id);
        }
    }
    for id in &all.not_before {
        let _ = writeln!(text, "{id}: not in {}", all.before.name);
    }
    let consequence = if all.missing_ok { "allowed" } else { "counts as a failure" };
    for id in &all.not_now {
        let _ = writeln!(text, "{id}: not in {}: {consequence}", all.now.name);
    }
    let _ = writeln!(
        text,
        "{} worse, {} no worse, {} better, {} inconclusive, {} not in {}\nverdict: {}",
        all.count(Outcome::Worse),
        all.count(Outcome::NoWorse),
        all.count(Outcome::Better),
        all.count(Outcome::Inconclusive),
        all.not_before.len(),
        all.before.name,
        all.verdict
    );
    text
}

fn table(figures: &[Compared]) -> String {
    let right = |name| (name, Align::Right);
    let mut table = Table::new([
        ("figure", Align::Left),
        right("before"),
        right("now"),
        ("unit", Align::Left),
        right("ratio"),
        ("95 % interval", Align::Left),
        ("of", Align::Left),
        right("rounds (disturbed)"),
        ("verdict", Align::Left),
    ]);
    let none = || "-".to_owned();
    for figure in figures {
        for (at, series) in figure.series.iter().enumerate() {
            let is_last = at + 1 == figure.series.len();
            table.row([
                figure.id.clone(),
                series.before.map_or_else(none, three_digits),
                series.now.map_or_else(none, three_digits),
                figure.unit.clone(),
                series.ratio.map_or_else(none, |ratio| format!("{ratio:.3}")),
                series.ratio_ci95.map_or_else(none, |ci| format!("{:.3} … {:.3}", ci.low, ci.high)),
                if figure.basis == Basis::Ratio { "ratio" } else { "value" }.to_owned(),
                format!("{} ({})", series.rounds.len(), series.disturbed.len()),
                if is_last { figure.outcome.name() } else { "once more" }.to_owned(),
            ]);
        }
    }
    table.render()
}

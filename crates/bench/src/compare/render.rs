//! A comparison as text.

use std::fmt::Write as _;

use super::{Basis, Change, Comparison, Judgement};
use crate::layout::table::{Align, Table, three_digits};

/// Longest circumstance that is shown whole.
const SHOWN_MAX: usize = 60;

pub(super) fn text(all: &Comparison) -> String {
    let mut text = head(all);
    if !all.figures.is_empty() {
        text.push('\n');
        text.push_str(&table(&all.figures));
    }
    // Writing to a String cannot fail.
    for change in &all.figures {
        if let Some(why) = &change.why {
            let _ = writeln!(text, "{}: {why}", change.id);
        }
    }
    let because =
        |reason: &Option<String>| reason.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
    for missing in &all.missing {
        let consequence = match (all.missing_ok, missing.disturbed) {
            (true, _) => "allowed",
            (false, true) => "inconclusive",
            (false, false) => "counts as a failure",
        };
        let _ = writeln!(
            text,
            "{}: not in {}{}: {consequence}",
            missing.id,
            all.new.name,
            because(&missing.reason)
        );
    }
    for added in &all.added {
        let _ = writeln!(text, "{}: not in {}{}", added.id, all.old.name, because(&added.reason));
    }
    let _ = writeln!(
        text,
        "{} worse, {} better, {} same, {} inconclusive, {} missing\nverdict: {}",
        all.count(Judgement::Worse),
        all.count(Judgement::Better),
        all.count(Judgement::Same),
        all.count(Judgement::Inconclusive),
        all.missing.len(),
        all.verdict
    );
    text
}

fn head(all: &Comparison) -> String {
    let mut text = format!("{} against {}, both {}\n", all.new.name, all.old.name, all.of);
    for side in [&all.old, &all.new] {
        if side.partial {
            let _ = writeln!(text, "{} is partial: its run was ended early", side.name);
        }
    }
    if all.differences.is_empty() {
        text.push_str("same machine, placement and versions\n");
    }
    for difference in &all.differences {
        let (old, new) = (shown(&difference.old), shown(&difference.new));
        let _ = writeln!(text, "not the same: {}: {old} before, {new} now", difference.what);
    }
    let _ = writeln!(
        text,
        "a change counts beyond {}; change = new / old, of the ratio to the reference where both runs have it, else of the value",
        all.tolerance.describe()
    );
    text
}

fn shown(text: &str) -> String {
    if text.chars().count() <= SHOWN_MAX {
        return text.to_owned();
    }
    let short: String = text.chars().take(SHOWN_MAX).collect();
    format!("{short}…")
}

fn table(figures: &[Change]) -> String {
    let right = |name| (name, Align::Right);
    let mut table = Table::new([
        ("figure", Align::Left),
        right("old"),
        right("new"),
        ("unit", Align::Left),
        right("change"),
        ("95 % interval", Align::Left),
        ("of", Align::Left),
        right("blocks"),
        ("judgement", Align::Left),
    ]);
    let none = || "-".to_owned();
    for change in figures {
        table.row([
            change.id.clone(),
            three_digits(change.old),
            three_digits(change.new),
            change.unit.clone(),
            change.change.map_or_else(none, |change| format!("{:+.1} %", 100.0 * (change - 1.0))),
            change.change_ci95.map_or_else(none, |ci| {
                format!("{:+.1} … {:+.1} %", 100.0 * (ci.low - 1.0), 100.0 * (ci.high - 1.0))
            }),
            if change.basis == Basis::Ratio { "ratio" } else { "value" }.to_owned(),
            format!("{}, {}", change.blocks[0], change.blocks[1]),
            change.judgement.name().to_owned(),
        ]);
    }
    table.render()
}

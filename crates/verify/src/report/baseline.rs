//! The comparison with an earlier run: figures that got worse, are missing, cannot be compared, or
//! got better.

use maud::{Markup, html};
use serde_json::Value;

use super::read::{Judged, Read};
use super::{Detail, number, steps};

/// So many rows of each kind; the document has all.
const MOST: usize = 60;
const MOST_IF_SHORT: usize = 10;

/// One figure.
struct Row {
    id: String,
    before: String,
    now: String,
    change: String,
    why: String,
}

/// Kinds of rows, the most important first, and what each means.
const KINDS: [(&str, &str); 4] =
    [("worse", "Worse"), ("missing", "Missing now"), ("inconclusive", "Inconclusive"), ("better", "Better")];

/// The section.
pub(super) fn section(document: &Value, detail: Detail) -> Option<Markup> {
    let sections = document.items("baseline.sections");
    if sections.is_empty() {
        return None;
    }
    let most = if detail == Detail::Short { MOST_IF_SHORT } else { MOST };
    let old = document.text("baseline.old").unwrap_or("an earlier run".into());
    let same: usize = sections.iter().map(|section| judged(section, "same").count()).sum();
    Some(html! {
        p { "This run beside " code { (old) } ": " (number::count(same as u64)) (if same == 1 { " figure is" } else { " figures are" }) " as before; what is not stands below. A figure that has the same reference beside it in both runs is compared by its ratio to that, as the machine may have changed between the runs." }
        ul.sections { @for section in sections { li {
            (steps::badge(section.verdict().unwrap_or(Judged::Unsure))) " " (section.text("name").unwrap_or_default())
            @if let Some(error) = section.text("error") { ": " (error) }
        } } }
        @for (kind, title) in KINDS {
            @let rows: Vec<Row> = sections.iter().flat_map(|section| rows_of(section, kind)).collect();
            @if !rows.is_empty() { (table(title, &rows, most)) }
        }
    })
}

fn judged<'a>(section: &'a Value, kind: &'a str) -> impl Iterator<Item = &'a Value> {
    let figures = section.items("comparison.figures").iter();
    figures.filter(move |figure| figure.at("judgement").as_str() == Some(kind))
}

fn rows_of(section: &Value, kind: &str) -> Vec<Row> {
    if kind == "missing" {
        let missing = section.items("comparison.missing").iter();
        return missing
            .map(|missing| Row {
                id: missing.text("id").unwrap_or_default().into(),
                before: String::new(),
                now: String::new(),
                change: String::new(),
                why: missing.text("reason").unwrap_or_default().into(),
            })
            .collect();
    }
    judged(section, kind).map(row).collect()
}

fn row(figure: &Value) -> Row {
    let unit = figure.text("unit").unwrap_or_default();
    let value = |field: &str| {
        figure.num(field).map_or("–".to_owned(), |value| format!("{}\u{a0}{unit}", number::three(value)))
    };
    let ends: Vec<f64> = figure.items("change_ci95").iter().filter_map(Value::as_f64).collect();
    let interval = match ends[..] {
        [low, high] => format!(" ({}–{})", number::times(low), number::times(high)),
        _ => String::new(),
    };
    Row {
        id: figure.text("id").unwrap_or_default().into(),
        before: value("old"),
        now: value("new"),
        change: figure
            .positive("change")
            .map_or(String::new(), |change| format!("{}{interval}", number::times(change))),
        why: figure.text("why").unwrap_or_default().into(),
    }
}

fn table(title: &str, rows: &[Row], most: usize) -> Markup {
    html! {
        h3 { (title) ": " (number::count(rows.len() as u64)) }
        div.scroll tabindex="0" role="region" aria-label=(title) {
            table {
                thead { tr {
                    th scope="col" { "Figure" } th scope="col" { "Before" } th scope="col" { "Now" }
                    th scope="col" { "Change (95\u{a0}%)" } th scope="col" { "Note" }
                } }
                tbody { @for row in rows.iter().take(most) { tr {
                    th scope="row" { (row.id) } td { (row.before) } td { (row.now) } td { (row.change) } td.left { (row.why) }
                } } }
            }
        }
        @if rows.len() > most { p { (number::count((rows.len() - most) as u64)) " more are in the document." } }
    }
}

//! Plots round trips over time, with spikes, periodic spikes and the noise of the idle machine.

use maud::{Markup, html};
use serde_json::Value;

use super::benchmarks::{of, step_ns, where_measured};
use super::number;
use super::plot::{RIGHT, TOP, across, c, frame, path, up};
use super::read::Read;
use super::scale::{Kind, Scale};
use super::spikes::{self, Spike};

/// Columns of the drawing: more than this no screen resolves.
const COLUMNS: usize = 420;
/// Room for a letter.
const LETTER: f64 = 13.0;

/// Shortest and longest by time, a column each: `(at, shortest, longest)`.
fn columns(jitter: &Value) -> Vec<(f64, f64, f64)> {
    let all: Vec<(f64, f64, f64)> = jitter
        .items("plot")
        .iter()
        .filter_map(|piece| Some((piece.num("at_ns")?, piece.positive("min_ns")?, piece.positive("max_ns")?)))
        .filter(|(at, ..)| *at >= 0.0)
        .collect();
    let each = all.len().div_ceil(COLUMNS).max(1);
    all.chunks(each)
        .map(|chunk| {
            let fold = |values: &dyn Fn(&(f64, f64, f64)) -> f64, pick: fn(f64, f64) -> f64| {
                chunk.iter().map(values).reduce(pick).unwrap_or(0.0)
            };
            (chunk[0].0, fold(&|piece| piece.1, f64::min), fold(&|piece| piece.2, f64::max))
        })
        .collect()
}

fn drawing(jitter: &Value, id: &str, columns: &[(f64, f64, f64)], spikes: &[Spike]) -> Option<Markup> {
    let end = jitter.positive("length_ns").into_iter().chain(columns.iter().map(|column| column.0));
    let x = Scale::over(Kind::Since, end)?;
    let median = jitter.positive("median_ns");
    let threshold = jitter.positive("threshold_ns");
    let tallest = spikes.iter().map(|spike| spike.height_ns + median.unwrap_or(0.0));
    let y = Scale::over(Kind::Time, columns.iter().flat_map(|column| [column.1, column.2]).chain(tallest))?;
    let place = |at: f64, value: f64| Some((across(x.at(at)?), up(y.at(value)?)));
    let top: Vec<_> = columns.iter().filter_map(|column| place(column.0, column.2)).collect();
    let below: Vec<_> = columns.iter().rev().filter_map(|column| place(column.0, column.1)).collect();
    let band: Vec<_> = top.iter().chain(&below).copied().collect();
    let marks: Vec<(char, f64, f64)> = spikes
        .iter()
        .filter_map(|spike| {
            let (x, y) = place(spike.at_ns, spike.height_ns + median.unwrap_or(0.0))?;
            Some((spike.letter, x, y))
        })
        .collect();
    let letters = side_by_side(&marks.iter().map(|mark| mark.1).collect::<Vec<_>>());
    let level = |ns: Option<f64>| ns.and_then(|ns| y.at(ns)).map(up);
    Some(html! {
        svg.wide viewBox="0 0 480 300" role="img" aria-labelledby={ (id) "-t" } aria-describedby={ (id) "-d" } {
            (frame(&x, &y, "time since the start", "round trip"))
            @if !band.is_empty() { path.band d={ (path(&band)) "Z" } {} path.crest d=(path(&top)) {} }
            @if let Some(y) = level(threshold) { line.threshold x1=(c(across(0.0))) x2=(c(RIGHT)) y1=(c(y)) y2=(c(y)) {} }
            @if let Some(y) = level(median) { line.median x1=(c(across(0.0))) x2=(c(RIGHT)) y1=(c(y)) y2=(c(y)) {} }
            @for ((letter, x, y), at) in marks.iter().zip(&letters) {
                path.leader d={ "M" (c(*at)) " " (c(TOP - 6.0)) "L" (c(*x)) " " (c(*y)) } {}
                circle.spike cx=(c(*x)) cy=(c(*y)) r="3.2" {}
                text.letter x=(c(*at)) y=(c(TOP - 9.0)) text-anchor="middle" { (letter) }
            }
        }
    })
}

/// Places for letters near their spikes (in order of time), so that none covers another.
fn side_by_side(wanted: &[f64]) -> Vec<f64> {
    let mut places: Vec<f64> = Vec::new();
    for wanted in wanted {
        places.push(places.last().map_or(*wanted, |before| wanted.max(before + LETTER)));
    }
    // Back from the right edge.
    let mut limit = RIGHT;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - LETTER;
    }
    places
}

fn legend(jitter: &Value, step: f64) -> Markup {
    let level = |field: &str| {
        jitter.positive(field).map_or(String::new(), |ns| format!(" ({})", number::time(ns, step)))
    };
    html! {
        ul.legend {
            li { svg.swatch viewBox="0 0 34 12" aria-hidden="true" { path.band d="M1 2H33V10H1z" {} } "from the shortest to the longest" }
            li { svg.swatch viewBox="0 0 34 12" aria-hidden="true" { line.median x1="1" x2="33" y1="6" y2="6" {} } "median" (level("median_ns")) }
            li { svg.swatch viewBox="0 0 34 12" aria-hidden="true" { line.threshold x1="1" x2="33" y1="6" y2="6" {} } "beyond it: a spike" (level("threshold_ns")) }
            li { svg.swatch viewBox="0 0 34 12" aria-hidden="true" { circle.spike cx="17" cy="6" r="3.4" {} } "the tallest, named below" }
        }
    }
}

fn named(spikes: &[Spike], step: f64) -> Markup {
    html! {
        @if !spikes.is_empty() {
            h4 { "The tallest spikes" }
            table.spikes {
                thead { tr { th scope="col" { span.hidden { "Letter" } } th scope="col" { "Beyond the median" } th scope="col" { "At" } th.left scope="col" { "May come from" } } }
                tbody {
                    @for spike in spikes {
                        tr {
                            th scope="row" { (spike.letter) }
                            td { (number::time(spike.height_ns, step)) }
                            td { (number::time(spike.at_ns, 0.0)) }
                            td.left { (spike.what) }
                        }
                    }
                }
            }
        }
    }
}

fn rhythms(jitter: &Value) -> Markup {
    let periods = jitter.items("periods");
    html! {
        h4 { "Rhythms" }
        @if periods.is_empty() { p { "None of the spikes comes at regular times." } } @else {
            ul {
                @for period in periods.iter().take(8) {
                    li {
                        @if let Some(name) = period.text("name") { (name.replace(" us", "\u{a0}µs").replace(" ms", "\u{a0}ms")) }
                        ": " (number::count(period.count("came"))) " of " (number::count(period.count("due"))) " came"
                        @if let Some(ns) = period.positive("height_max_ns") { ", the tallest " (number::time(ns, 0.0)) }
                        "."
                        @let told = period.text("name").is_some_and(|name| name.contains("idle"));
                        @if told { strong { " So it does not come from the interconnect." } }
                        @else if period.at("idle_too").as_bool() == Some(true) { strong { " The idle machine has it too: it does not come from the interconnect." } }
                    }
                }
            }
        }
    }
}

fn causes(jitter: &Value) -> Markup {
    let causes = jitter.items("causes");
    html! {
        @if !causes.is_empty() {
            h4 { "What all spikes may come from" }
            table.causes {
                thead { tr { th.left scope="col" { "Cause" } th scope="col" { "Spikes" } th scope="col" { "Time lost" } } }
                tbody {
                    @for entry in causes.iter().take(12) {
                        tr {
                            th scope="row" { (spikes::cause(&entry.text("cause").unwrap_or_default())) }
                            td { (number::count(entry.count("spikes"))) }
                            td { (entry.num("lost_ns").map_or_else(|| "–".into(), |ns| number::time(ns, 0.0))) }
                        }
                    }
                }
            }
        }
    }
}

/// What the machine does to a program by itself.
fn idle(jitter: &Value) -> Markup {
    let idle = jitter.items("idle");
    html! {
        @if !idle.is_empty() { h4 { "The idle machine, before the run" } }
        @for idle in idle.iter().take(8) {
            p.idle {
                "Processor " (idle.count("cpu")) ": "
                (idle.num("rate_per_s").map_or_else(|| "–".into(), number::three)) " detours a second beyond "
                (idle.num("threshold_ns").map_or_else(|| "–".into(), |ns| number::time(ns, idle.positive("step_ns").unwrap_or(0.0)))) ", the largest "
                (idle.num("largest_ns").map_or_else(|| "–".into(), |ns| number::time(ns, 0.0))) ", "
                (idle.num("loss_percent").map_or_else(|| "–".into(), number::three)) "\u{a0}% of the time lost."
            }
        }
    }
}

fn one(at: usize, jitter: &Value) -> Option<Markup> {
    let step = step_ns(jitter);
    let spikes = spikes::named(jitter);
    let columns = columns(jitter);
    let id = format!("jitter-{at}");
    let drawing = drawing(jitter, &id, &columns, &spikes)?;
    let said = format!(
        "{} round trips in {}, {}. The longest took {}; {} were spikes, in {} places.",
        number::count(jitter.count("kept.round_trips")),
        jitter.num("length_ns").map_or_else(|| "–".into(), |ns| number::time(ns, 0.0)),
        where_measured(jitter),
        jitter.num("rtt.max_ns").map_or_else(|| "–".into(), |ns| number::time(ns, step)),
        number::count(jitter.count("beyond")),
        number::count(jitter.count("spikes_found")),
    );
    Some(html! {
        div.sides {
            figure.plot id=(id) {
                figcaption { h3 id={ (id) "-t" } { "Round trips over time" } p.said id={ (id) "-d" } { (said) } }
                (drawing)
                (legend(jitter, step))
            }
            div { (named(&spikes, step)) (causes(jitter)) }
            div { (rhythms(jitter)) }
            div { (idle(jitter)) }
        }
    })
}

/// The section.
pub(super) fn section(document: &Value) -> Option<Markup> {
    let plots: Vec<Markup> =
        of(document, "jitter").iter().enumerate().filter_map(|(at, jitter)| one(at, jitter)).collect();
    (!plots.is_empty()).then(|| html! { @for plot in &plots { (plot) } })
}

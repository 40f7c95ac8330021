//! Plots cumulative distributions, with an axis that counts nines. The tail matters most.

use maud::{Markup, html};
use serde_json::Value;

use super::benchmarks::{half_round_trips, of, step_ns, where_measured};
use super::plot::{Look, Numbers, Plot, Series, plot};
use super::read::Read;
use super::scale::Kind;
use super::{Detail, number};

/// Points of a line, at most.
const MOST_POINTS: usize = 300;
/// Lines of a plot, at most.
const MOST_LINES: usize = 5;

/// Points of a distribution `[[ns, share]]`.
pub(super) fn points(list: &[Value]) -> Vec<(f64, f64)> {
    let every = list.len().div_ceil(MOST_POINTS).max(1);
    list.iter()
        .step_by(every)
        .filter_map(|point| Some((point.get(0)?.as_f64()?, point.get(1)?.as_f64()?)))
        .filter(|(ns, share)| ns.is_finite() && (0.0..=1.0).contains(share))
        .collect()
}

/// Points of a summary: its curve, or else what its percentiles say.
fn of_summary(summary: &Value) -> Vec<(f64, f64)> {
    let n = summary.num("n").unwrap_or(0.0);
    let known = |(field, share): (&str, f64)| Some((summary.positive(field)?, share));
    let first = known(("min_ns", 0.0));
    let last = (n > 1.0).then(|| known(("max_ns", 1.0 - 1.0 / n))).flatten();
    let mut between = points(summary.items("cdf"));
    if between.is_empty() {
        between = [("p50_ns", 0.5), ("p90_ns", 0.9), ("p99_ns", 0.99), ("p999_ns", 0.999)]
            .into_iter()
            .filter_map(known)
            .collect();
    }
    first.into_iter().chain(between).chain(last).collect()
}

fn looks(at: usize) -> Look {
    match at {
        0 => Look::Ours,
        1 => Look::Rival,
        other => Look::Other(other - 2),
    }
}

/// A row of the table behind.
fn row(name: &str, summary: &Value, step_ns: f64) -> Vec<String> {
    let time =
        |field: &str| summary.num(field).map_or_else(|| "–".to_owned(), |ns| number::time(ns, step_ns));
    let mut row = vec![name.to_owned(), number::count(summary.count("n"))];
    row.extend(["min_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"].map(time));
    row
}

fn head() -> Vec<String> {
    ["", "Samples", "Shortest", "50 %", "90 %", "99 %", "99.9 %", "Longest"].map(str::to_owned).to_vec()
}

/// A plot of several summaries.
fn several(
    id: String,
    title: &str,
    said: String,
    lines: &[(String, &Value, f64)],
    detail: Detail,
) -> Option<Markup> {
    let series: Vec<Series> = lines
        .iter()
        .enumerate()
        .map(|(at, (name, summary, _))| {
            let points = of_summary(summary);
            Series { name: name.clone(), look: looks(at), marked: points.len() < 12, points }
        })
        .collect();
    let numbers = Numbers {
        head: head(),
        rows: lines.iter().map(|(name, summary, step)| row(name, summary, *step)).collect(),
    };
    plot(&Plot {
        id,
        title,
        said,
        x: (Kind::Time, "at least so fast"),
        y: (Kind::Nines, "share of all"),
        series,
        numbers,
        detail,
    })
}

fn half_trips(at: usize, benchmark: &Value, detail: Detail) -> Option<Markup> {
    let rows = benchmark.items("rows");
    let usable: Vec<&Value> = rows
        .iter()
        .filter(|row| row.num("size_bytes").is_some_and(|size| size >= 1.0) && row.has("half_rtt"))
        .collect();
    // The smallest, the largest, and one between.
    let mut chosen = vec![0, usable.len() / 2, usable.len().saturating_sub(1)];
    chosen.dedup();
    let lines: Vec<(String, &Value, f64)> = chosen
        .into_iter()
        .filter_map(|at| usable.get(at))
        .map(|row| {
            let step = step_ns(benchmark) / (2 * row.count("batch").max(1)) as f64;
            (number::size(row.num("size_bytes").unwrap_or(0.0)), row.at("half_rtt"), step)
        })
        .collect();
    let batch = usable.first().map_or(1, |row| row.count("batch"));
    let shared = if batch > 1 {
        format!(" Short ones share a sample ({batch} of the smallest), so their tail is that of such groups.")
    } else {
        String::new()
    };
    several(
        format!("cdf-scipp-{at}"),
        "Half round trips",
        format!("Of three sizes, {}.{shared}", where_measured(benchmark)),
        &lines,
        detail,
    )
}

fn interrupts(at: usize, benchmark: &Value, detail: Detail) -> Option<Markup> {
    let figures = benchmark.items("figures");
    let step = |figure: &Value| step_ns(benchmark) / figure.count("batch").max(1) as f64;
    let lines: Vec<(String, &Value, f64)> = figures
        .iter()
        .take(MOST_LINES)
        .filter_map(|figure| Some((figure.text("name")?.into_owned(), figure.at("time"), step(figure))))
        .collect();
    let said = lines.first().and_then(|(name, summary, step)| {
        Some(format!("{name}: {} typically.", number::time(summary.positive("p50_ns")?, *step)))
    });
    several(
        format!("cdf-intr-{at}"),
        "Interrupts",
        format!("{} Half round trips, {}.", said.unwrap_or_default(), where_measured(benchmark)),
        &lines,
        detail,
    )
}

fn jitter(at: usize, benchmark: &Value, detail: Detail) -> Option<Markup> {
    let trips_made = benchmark.num("kept.round_trips").filter(|n| *n > 1.0);
    let mut points = points(benchmark.items("distribution"));
    // The longest of n was exceeded by less than one in n; that none ever will be is not known.
    if let (Some(last), Some(n)) = (points.last_mut(), trips_made) {
        last.1 = last.1.min(1.0 - 1.0 / n);
    }
    points.retain(|point| point.1 < 1.0);
    let step = step_ns(benchmark);
    let rtt = benchmark.at("rtt");
    let trips = number::count(benchmark.count("kept.round_trips"));
    plot(&Plot {
        id: format!("cdf-jitter-{at}"),
        title: "Every round trip of the jitter run",
        said: format!("{trips} whole round trips, {}.", where_measured(benchmark)),
        x: (Kind::Time, "at least so fast"),
        y: (Kind::Nines, "share of all"),
        series: vec![Series {
            name: "round trips".into(),
            look: Look::Ours,
            marked: points.len() < 12,
            points,
        }],
        numbers: Numbers { head: head(), rows: vec![row("round trip", rtt, step)] },
        detail,
    })
}

/// The section.
pub(super) fn section(document: &Value, detail: Detail) -> Option<Markup> {
    let mut plots: Vec<Markup> = Vec::new();
    plots.extend(
        half_round_trips(document).iter().enumerate().filter_map(|(at, one)| half_trips(at, one, detail)),
    );
    plots.extend(of(document, "intr").iter().enumerate().filter_map(|(at, one)| interrupts(at, one, detail)));
    plots.extend(of(document, "jitter").iter().enumerate().filter_map(|(at, one)| jitter(at, one, detail)));
    (!plots.is_empty()).then(|| html! {
        p.lead { "How many were at least so fast. The further right the line runs at the top, the worse the worst cases." }
        div.plots { @for plot in &plots { (plot) } }
    })
}

//! Plots values over message size, both axes logarithmic, each with the machine's baseline.

use maud::{Markup, html};
use serde_json::Value;

use super::benchmarks::{half_round_trips, of, step_ns, where_measured};
use super::plot::{Look, Numbers, Plot, Series, plot};
use super::read::Read;
use super::scale::Kind;
use super::{Detail, number};

/// Rows of a benchmark that are shown.
const MOST_ROWS: usize = 100;

fn rows(benchmark: &Value) -> impl Iterator<Item = &Value> {
    benchmark.items("rows").iter().take(MOST_ROWS)
}

/// A line from two fields of each row.
fn line(benchmark: &Value, name: &str, look: Look, value: impl Fn(&Value) -> Option<f64>) -> Series {
    let points = rows(benchmark).filter_map(|row| Some((row.num("size_bytes")?, value(row)?))).collect();
    Series { name: name.to_owned(), look, points, marked: look != Look::Baseline }
}

fn strings<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".into())
}

/// `8.2 % above`, or what fits.
fn beside(ratio: f64, what: &str) -> String {
    match (ratio - 1.0) * 100.0 {
        more if more.abs() < 0.5 => format!("equal to {what}"),
        more if more > 0.0 && more < 100.0 => format!("{more:.0} % above {what}"),
        more if more > 0.0 => format!("{} {what}", number::times(ratio)),
        less => format!("{:.0} % below {what}", -less),
    }
}

fn latency(document: &Value, at: usize, benchmark: &Value, detail: Detail) -> Option<Markup> {
    let step = |row: &Value| step_ns(benchmark) / (2 * row.count("batch").max(1)) as f64;
    let ours = line(benchmark, "median of tieline", Look::Ours, |row| row.positive("half_rtt.p50_ns"));
    let tail = line(benchmark, "99 % of tieline's are faster", Look::Other(0), |row| {
        row.positive("half_rtt.p99_ns")
    });
    let baseline =
        line(benchmark, "baseline: one cache line", Look::Baseline, |row| row.positive("line_floor_ns"));
    let longest = rows(benchmark).filter_map(|row| row.num("size_bytes")).fold(0.0, f64::max);
    let copies = fresh_copies(document, longest);
    let first = rows(benchmark).find(|row| row.num("size_bytes").is_some_and(|size| size >= 1.0))?;
    let ns = first.positive("half_rtt.p50_ns")?;
    let mut said = format!(
        "Half a round trip of {} takes {}",
        number::size(first.num("size_bytes")?),
        number::time(ns, step(first)),
    );
    if let Some(baseline_ns) = first.positive("line_floor_ns") {
        said.push_str(&format!(
            ", {} of one cache line at the same moment ({})",
            beside(ns / baseline_ns, "the price"),
            number::time(baseline_ns, step(first))
        ));
    }
    said.push_str(&format!(". Measured {}.", where_measured(benchmark)));
    let numbers = Numbers {
        head: strings([
            "Size",
            "Baseline",
            "Median",
            "Ratio to baseline",
            "90 %",
            "99 %",
            "99.9 %",
            "Longest",
            "Disturbed",
        ]),
        rows: rows(benchmark)
            .map(|row| {
                let time = |field: &str| or_dash(row.num(field).map(|ns| number::time(ns, step(row))));
                let ratio = row.positive("half_rtt.p50_ns").zip(row.positive("line_floor_ns"));
                vec![
                    or_dash(row.num("size_bytes").map(number::size)),
                    time("line_floor_ns"),
                    time("half_rtt.p50_ns"),
                    or_dash(ratio.map(|(ns, baseline)| number::times(ns / baseline))),
                    time("half_rtt.p90_ns"),
                    time("half_rtt.p99_ns"),
                    time("half_rtt.p999_ns"),
                    time("half_rtt.max_ns"),
                    format!("{} of {}", row.count("disturbed"), row.count("readings")),
                ]
            })
            .collect(),
    };
    plot(&Plot {
        id: format!("latency-{at}"),
        title: "Half round trip by size",
        said,
        x: (Kind::Size, "message"),
        y: (Kind::Time, "half round trip"),
        series: [Some(ours), Some(tail), copies, Some(baseline)].into_iter().flatten().collect(),
        numbers,
        detail,
    })
}

/// What it costs to copy bytes that the other processor has just written: no message of that size can be read
/// faster.
fn fresh_copies(document: &Value, longest_bytes: f64) -> Option<Series> {
    let limits = *of(document, "limits").first()?;
    let fresh = limits.items("copies").iter().filter(|copy| copy.at("temperature").as_str() == Some("fresh"));
    let points: Vec<(f64, f64)> = fresh
        .take(MOST_ROWS)
        .filter_map(|copy| Some((copy.num("size_bytes")?, copy.positive("time.p50_ns")?)))
        // Beyond the longest message there is nothing to compare it with.
        .filter(|(size, _)| *size <= longest_bytes)
        .collect();
    (!points.is_empty()).then(|| Series {
        name: "baseline: one copy of bytes that the other core has just written".into(),
        look: Look::Rival,
        points,
        marked: true,
    })
}

/// The row with the largest size, for the sentence.
fn largest(benchmark: &Value) -> Option<&Value> {
    rows(benchmark)
        .filter(|row| row.num("size_bytes").is_some())
        .max_by(|a, b| a.num("size_bytes").unwrap_or(0.0).total_cmp(&b.num("size_bytes").unwrap_or(0.0)))
}

fn interval(row: &Value) -> String {
    match (row.num("ratio"), &row.items("ratio_ci95")) {
        (Some(ratio), [low, high]) => match (low.as_f64(), high.as_f64()) {
            (Some(low), Some(high)) => format!("{} ({low:.2}–{high:.2})", number::times(ratio)),
            _ => number::times(ratio),
        },
        (Some(ratio), _) => number::times(ratio),
        _ => "–".into(),
    }
}

fn stores(at: usize, benchmark: &Value, detail: Detail) -> Option<Markup> {
    let ours = line(benchmark, "stores into remote memory", Look::Ours, |row| row.positive("bandwidth_gb_s"));
    let rival = line(benchmark, "best memcpy of that size", Look::Baseline, |row| row.positive("rival_gb_s"));
    let row = largest(benchmark)?;
    let ratio = row
        .positive("ratio")
        .map_or(String::new(), |ratio| format!(", {} the best copy of this machine", number::times(ratio)));
    let said = format!(
        "{} in blocks of {}{ratio}. Measured {}.",
        number::gb_s(row.positive("bandwidth_gb_s")?),
        number::size(row.num("size_bytes")?),
        where_measured(benchmark)
    );
    let step = step_ns(benchmark);
    let numbers = Numbers {
        head: strings([
            "Block",
            "Bandwidth",
            "Time",
            "Best copy",
            "Ratio (95 %)",
            "Best copy is",
            "Disturbed",
        ]),
        rows: rows(benchmark)
            .map(|row| {
                let batch = row.count("batch").max(1) as f64;
                vec![
                    or_dash(row.num("size_bytes").map(number::size)),
                    or_dash(row.num("bandwidth_gb_s").map(number::gb_s)),
                    or_dash(row.num("time_ns").map(|ns| number::time(ns, step / batch))),
                    or_dash(row.num("rival_gb_s").map(number::gb_s)),
                    interval(row),
                    or_dash(row.text("rival").map(Into::into)),
                    format!(
                        "{} of {}",
                        row.count("disturbed"),
                        row.count("disturbed").saturating_add(row.count("blocks"))
                    ),
                ]
            })
            .collect(),
    };
    plot(&Plot {
        id: format!("stores-{at}"),
        title: "Streaming stores by size",
        said,
        x: (Kind::Size, "block"),
        y: (Kind::Bandwidth, "bandwidth"),
        series: vec![ours, rival],
        numbers,
        detail,
    })
}

fn dma(at: usize, benchmark: &Value, detail: Detail) -> Option<Markup> {
    let ours = line(benchmark, "DMA queue", Look::Ours, |row| row.positive("bandwidth_gb_s"));
    let reference = line(benchmark, "memcpy, below 4 KiB with 10 ns for each entry", Look::Baseline, |row| {
        Some(row.positive("size_bytes")? / row.positive("reference_ns")?)
    });
    let row = largest(benchmark)?;
    let said = format!(
        "{} in entries of {}. Vectors of up to {} entries, {}.",
        number::gb_s(row.positive("bandwidth_gb_s")?),
        number::size(row.num("size_bytes")?),
        rows(benchmark).map(|row| row.count("entries")).max().unwrap_or(0),
        where_measured(benchmark)
    );
    let step = step_ns(benchmark);
    let numbers = Numbers {
        head: strings([
            "Entry",
            "Entries",
            "Vector",
            "An entry",
            "Bandwidth",
            "Time by reference (95 %)",
            "Reference",
        ]),
        rows: rows(benchmark)
            .map(|row| {
                let batch = row.count("batch").max(1) as f64;
                let entries = row.count("entries").max(1) as f64;
                vec![
                    or_dash(row.num("size_bytes").map(number::size)),
                    row.count("entries").to_string(),
                    or_dash(row.num("transfer_ns").map(|ns| number::time(ns, step / batch))),
                    or_dash(row.num("entry_ns").map(|ns| number::time(ns, step / batch / entries))),
                    or_dash(row.num("bandwidth_gb_s").map(number::gb_s)),
                    interval(row),
                    or_dash(row.text("reference").map(Into::into)),
                ]
            })
            .collect(),
    };
    plot(&Plot {
        id: format!("dma-{at}"),
        title: "DMA vectors by size of an entry",
        said,
        x: (Kind::Size, "entry"),
        y: (Kind::Bandwidth, "bandwidth"),
        series: vec![ours, reference],
        numbers,
        detail,
    })
}

fn limits(at: usize, benchmark: &Value, detail: Detail) -> Option<Markup> {
    let copies = benchmark.items("copies");
    let of_kind = |kind: &str| {
        copies
            .iter()
            .filter(move |copy| copy.at("temperature").as_str() == Some(kind.to_owned().as_str()))
            .take(MOST_ROWS)
            .collect::<Vec<_>>()
    };
    let speed = |copy: &Value| {
        Some((copy.num("size_bytes")?, copy.positive("size_bytes")? / copy.positive("time.p50_ns")?))
    };
    let series = [
        ("hot", "same buffers each time", Look::Ours),
        ("cold", "other buffers each time", Look::Other(0)),
        ("fresh", "bytes just written by the other core", Look::Rival),
    ]
    .into_iter()
    .map(|(kind, name, look)| Series {
        name: name.into(),
        look,
        points: of_kind(kind).into_iter().filter_map(speed).collect(),
        marked: true,
    })
    .collect();
    let step = step_ns(benchmark);
    let mut said = "memcpy of the C library, without any transport of tieline.".to_owned();
    for line in benchmark.items("lines").iter().take(4) {
        if let (Some(form), Some(ns)) = (line.text("form"), line.positive("half_rtt.p50_ns")) {
            said.push_str(&format!(" Cache line there ({form}): {}.", number::time(ns, step)));
        }
    }
    if let Some(ns) = benchmark.positive("wake.p50_ns") {
        said.push_str(&format!(" Waking a sleeper: {}.", number::time(ns, step)));
    }
    let numbers = Numbers {
        head: strings(["Copy", "Buffers", "Median", "99 %", "Bandwidth"]),
        rows: copies
            .iter()
            .take(MOST_ROWS)
            .map(|copy| {
                let batch = copy.count("batch").max(1) as f64;
                vec![
                    or_dash(copy.num("size_bytes").map(number::size)),
                    or_dash(copy.text("temperature").map(Into::into)),
                    or_dash(copy.num("time.p50_ns").map(|ns| number::time(ns, step / batch))),
                    or_dash(copy.num("time.p99_ns").map(|ns| number::time(ns, step / batch))),
                    or_dash(speed(copy).map(|(_, gb_s)| number::gb_s(gb_s))),
                ]
            })
            .collect(),
    };
    plot(&Plot {
        id: format!("limits-{at}"),
        title: "What the machine allows",
        said,
        x: (Kind::Size, "copy"),
        y: (Kind::Bandwidth, "bandwidth"),
        series,
        numbers,
        detail,
    })
}

/// The section.
pub(super) fn section(document: &Value, detail: Detail) -> Option<Markup> {
    let mut plots: Vec<Markup> = Vec::new();
    plots.extend(
        half_round_trips(document)
            .iter()
            .enumerate()
            .filter_map(|(at, one)| latency(document, at, one, detail)),
    );
    plots
        .extend(of(document, "scibench2").iter().enumerate().filter_map(|(at, one)| stores(at, one, detail)));
    plots.extend(of(document, "dma").iter().enumerate().filter_map(|(at, one)| dma(at, one, detail)));
    plots.extend(of(document, "limits").iter().enumerate().filter_map(|(at, one)| limits(at, one, detail)));
    (!plots.is_empty()).then(|| html! {
        p.lead { "Broken lines are what the machine itself did at that moment, without tieline: the bound that counts. Both axes are logarithmic." }
        div.plots { @for plot in &plots { (plot) } }
    })
}

//! The matrix of all pairs of nodes: rows write, columns own the memory. A cell shows its number,
//! and how it compares by shade; what is bad is framed, hatched and marked, so that it is found
//! without colour, too.

use maud::{Markup, html};
use serde_json::Value;

use super::Detail;
use super::facts::{Facts, Pair, PairFacts};
use super::read::{Judged, Read};
use super::{links, number};

/// More nodes than these fit no page: then those with the worst pairs are shown.
const MOST_NODES: usize = 64;
/// From here on cells are small and numbers have at most three characters.
const MANY_NODES: usize = 17;

/// A cell.
struct Cell {
    text: String,
    /// Shade, `a` (better than most) to `e` (far worse).
    shade: &'static str,
    judged: Option<Judged>,
}

/// What a matrix shows of a pair: its number, worse if larger, and its judgement.
struct Metric {
    id: &'static str,
    title: &'static str,
    said: String,
    /// Larger is better.
    more_is_better: bool,
    value: fn(&Facts, Pair) -> Option<f64>,
    judged: fn(&PairFacts) -> Option<Judged>,
    show: Show,
}

/// How numbers are written: divided by this, with this many characters at most.
struct Show {
    each: f64,
    narrow: bool,
    /// What the clock resolves; 0 where it says nothing.
    step: f64,
}

impl Show {
    fn text(&self, value: f64) -> String {
        let value = value / self.each;
        let text = number::resolved(value, self.step, self.each);
        if !self.narrow || text.chars().count() <= 3 {
            return text;
        }
        match value {
            _ if value >= 1e9 => "≫".into(),
            _ if value >= 1e6 => format!("{:.0}M", value / 1e6),
            _ if value >= 999.5 => format!("{:.0}k", value / 1e3),
            _ if value >= 9.95 => format!("{value:.0}"),
            _ if value >= 0.05 => format!("{value:.1}"),
            _ => "0".into(),
        }
    }
}

/// The shade for a value beside the typical one.
fn shade(value: f64, typical: f64, more_is_better: bool) -> &'static str {
    if !(typical > 0.0 && value > 0.0) {
        return "b";
    }
    let worse = if more_is_better { typical / value } else { value / typical };
    match worse {
        _ if worse < 0.9 => "a",
        _ if worse < 1.1 => "b",
        _ if worse < 1.3 => "c",
        _ if worse < 2.0 => "d",
        _ => "e",
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// One direction stands for both: a round trip takes them both.
fn latency(facts: &Facts, (from, to): Pair) -> Option<f64> {
    let of = |pair| facts.pairs.get(&pair).and_then(|pair: &PairFacts| pair.latency_ns);
    of((from, to)).or_else(|| of((to, from)))
}

fn bandwidth(facts: &Facts, pair: Pair) -> Option<f64> {
    facts.pairs.get(&pair)?.bandwidth
}

fn far_latency(facts: &Facts, pair: Pair) -> Option<f64> {
    facts.pairs.get(&pair)?.far_latency_ns
}

fn far_bandwidth(facts: &Facts, pair: Pair) -> Option<f64> {
    facts.pairs.get(&pair)?.far_bandwidth
}

/// How many times as long as bare loops of libfabric's calls a half round trip takes, and which share of
/// their bandwidth puts have.
fn latency_ratio(facts: &Facts, pair: Pair) -> Option<f64> {
    let pair = facts.pairs.get(&pair)?;
    Some(pair.far_latency_ns? / pair.provider_latency_ns?)
}

fn bandwidth_ratio(facts: &Facts, pair: Pair) -> Option<f64> {
    let pair = facts.pairs.get(&pair)?;
    Some(pair.far_bandwidth? / pair.provider_bandwidth?)
}

fn beside_the_provider(document: &Value, facts: &Facts, narrow: bool) -> Vec<Metric> {
    let provider = document.texts("between_hosts.providers").join(", ");
    type Value = fn(&Facts, Pair) -> Option<f64>;
    let ratios: [(&str, &str, &str, bool, Value); 2] = [
        ("matrix-far-latency-ratio", "Half round trip, libfabric alone = 1", "smaller", false, latency_ratio),
        ("matrix-far-bandwidth-ratio", "Bandwidth, libfabric alone = 1", "larger", true, bandwidth_ratio),
    ];
    let metric = |(id, title, better, more_is_better, value): (_, _, _, _, Value)| {
        facts.pairs.keys().find_map(|pair| value(facts, *pair))?;
        Some(Metric {
            id,
            title,
            said: format!(
                "Beside a bare loop of libfabric's calls ({provider}) between the same processes, right after it; {better} is better. \
                 Shown, not judged."
            ),
            more_is_better,
            value,
            judged: |_| None,
            show: Show { each: 1.0, narrow, step: 0.0 },
        })
    };
    ratios.into_iter().filter_map(metric).collect()
}

/// What was measured between nodes of two hosts. The step `hosts` compares it; no cell is judged.
fn between_hosts(document: &Value, facts: &Facts, narrow: bool) -> Vec<Metric> {
    let typical = |value: fn(&Facts, Pair) -> Option<f64>| {
        median(facts.pairs.keys().filter_map(|pair| value(facts, *pair)).collect())
    };
    let mut metrics = Vec::new();
    if let Some(typical_ns) = typical(far_latency) {
        let (unit, each) = number::common_time_unit(typical_ns);
        metrics.push(Metric {
            id: "matrix-far-latency",
            title: "Half round trip between hosts",
            said: format!(
                "In {unit}; smaller is better. Of a doorbell and its response. Typical is {}. Shown, not judged.",
                number::time(typical_ns, facts.step_ns.max(1.0))
            ),
            more_is_better: false,
            value: far_latency,
            judged: |_| None,
            show: Show { each, narrow, step: facts.step_ns },
        });
    }
    if let Some(typical) = typical(far_bandwidth) {
        let block = document
            .positive("between_hosts.block_bytes")
            .map_or(String::new(), |bytes| format!(" in blocks of {}", number::size(bytes)));
        metrics.push(Metric {
            id: "matrix-far-bandwidth",
            title: "Bandwidth between hosts",
            said: format!(
                "In GB/s{block}; larger is better. Typical is {}. Shown, not judged.",
                number::gb_s(typical / 1e9)
            ),
            more_is_better: true,
            value: far_bandwidth,
            judged: |_| None,
            show: Show { each: 1e9, narrow, step: 0.0 },
        });
    }
    metrics
}

fn checked(facts: &Facts, pair: Pair) -> Option<f64> {
    facts.pairs.get(&pair).map(|pair| pair.bytes_checked)
}

/// The nodes that are shown, and how many are not.
fn nodes(facts: &Facts) -> (Vec<u64>, usize) {
    let all: Vec<u64> = facts.nodes.iter().copied().collect();
    if all.len() <= MOST_NODES {
        return (all, 0);
    }
    let bad = |node: &u64| {
        facts.pairs.iter().filter(|((from, to), pair)| (from == node || to == node) && pair.is_bad()).count()
    };
    let mut ranked: Vec<(usize, u64)> = all.iter().map(|node| (bad(node), *node)).collect();
    ranked.sort_by_key(|(bad, node)| (std::cmp::Reverse(*bad), *node));
    let mut shown: Vec<u64> = ranked.into_iter().take(MOST_NODES).map(|(_, node)| node).collect();
    shown.sort_unstable();
    let hidden = all.len() - shown.len();
    (shown, hidden)
}

fn metrics(document: &Value, facts: &Facts, narrow: bool) -> Vec<Metric> {
    let typical = |value: fn(&Facts, Pair) -> Option<f64>| {
        median(facts.pairs.keys().filter_map(|pair| value(facts, *pair)).collect())
    };
    let mut metrics = Vec::new();
    if let Some(typical_ns) = typical(latency) {
        let (unit, each) = number::common_time_unit(typical_ns);
        metrics.push(Metric {
            id: "matrix-latency",
            title: "Half round trip",
            said: format!(
                "In {unit}; smaller is better. Typical is {}. One measurement stands for both directions, as a round trip takes them both.",
                number::time(typical_ns, facts.step_ns.max(1.0))
            ),
            more_is_better: false,
            value: latency,
            judged: |pair| pair.latency.filter(|_| pair.verdict != Some(Judged::Pass)).or(pair.latency),
            show: Show { each, narrow, step: facts.step_ns },
        });
    }
    if let Some(typical) = typical(bandwidth) {
        let block = document
            .positive("pairs.block_bytes")
            .map_or(String::new(), |bytes| format!(" in blocks of {}", number::size(bytes)));
        let bound = document.positive("pairs.copy_ns").zip(document.positive("pairs.block_bytes")).map_or(
            String::new(),
            |(ns, bytes)| {
                format!(" The same copy without a link, the upper bound: {}.", number::gb_s(bytes / ns))
            },
        );
        metrics.push(Metric {
            id: "matrix-bandwidth",
            title: "Bandwidth",
            said: format!(
                "In GB/s{block}; larger is better. Typical is {}.{bound}",
                number::gb_s(typical / 1e9)
            ),
            more_is_better: true,
            value: bandwidth,
            judged: |pair| pair.block,
            show: Show { each: 1e9, narrow, step: 0.0 },
        });
    }
    metrics.extend(between_hosts(document, facts, narrow));
    metrics.extend(beside_the_provider(document, facts, narrow));
    if let Some(typical) = typical(checked).filter(|bytes| *bytes > 0.0) {
        let (unit, each) = match typical {
            _ if typical >= 1e9 => ("GB", 1e9),
            _ if typical >= 1e5 => ("MB", 1e6),
            _ => ("kB", 1e3),
        };
        metrics.push(Metric {
            id: "matrix-data",
            title: "Checked data",
            said: format!("In {unit}, generated, moved and compared byte by byte. A cell with {} lost, changed or reordered something, or was not delivered.", Judged::Fail.symbol()),
            more_is_better: true,
            value: checked,
            judged: |pair| (!pair.wrong.is_empty()).then_some(Judged::Fail),
            show: Show { each, narrow, step: 0.0 },
        });
    }
    metrics
}

fn cell(metric: &Metric, facts: &Facts, pair: Pair, typical: f64) -> Cell {
    let known = facts.pairs.get(&pair);
    let mirrored = || facts.pairs.get(&(pair.1, pair.0));
    let judged = known
        .and_then(metric.judged)
        .or_else(|| (metric.id == "matrix-latency").then(mirrored).flatten().and_then(metric.judged))
        // A pair that could not even be measured is bad in every matrix.
        .or_else(|| {
            known
                .filter(|pair| {
                    pair.verdict == Some(Judged::Fail)
                        && pair.latency_ns.is_none()
                        && pair.bandwidth.is_none()
                })
                .map(|_| Judged::Fail)
        });
    match (metric.value)(facts, pair) {
        Some(value) => {
            let shade =
                if metric.id == "matrix-data" { "b" } else { shade(value, typical, metric.more_is_better) };
            Cell { text: metric.show.text(value), shade, judged }
        }
        None => Cell { text: "–".into(), shade: "n", judged },
    }
}

fn classes(cell: &Cell) -> String {
    match cell.judged {
        Some(Judged::Fail) => format!("{} x", cell.shade),
        Some(Judged::Unsure) => format!("{} q", cell.shade),
        _ => cell.shade.to_owned(),
    }
}

fn table(metric: &Metric, facts: &Facts, nodes: &[u64]) -> Markup {
    let typical =
        median(facts.pairs.keys().filter_map(|pair| (metric.value)(facts, *pair)).collect()).unwrap_or(0.0);
    let size = match nodes.len() {
        0..=10 => "few",
        11..MANY_NODES => "some",
        _ => "many",
    };
    html! {
        figure.matrix.(size) id=(metric.id) {
            figcaption { h3 { (metric.title) } p.said { (metric.said) } }
            div.scroll tabindex="0" role="region" aria-label={ "Matrix: " (metric.title) } {
                table.pairs {
                    caption.hidden { (metric.title) ": rows are the writing nodes, columns the nodes that own the memory. " (metric.said) }
                    thead {
                        tr {
                            th.corner { span { "to\u{a0}→" br; "from\u{a0}↓" } }
                            @for node in nodes { th scope="col" { span { (node) } } }
                        }
                    }
                    tbody {
                        @for from in nodes {
                            tr {
                                th scope="row" { (from) }
                                @for to in nodes {
                                    @if from == to { td.self {} } @else {
                                        @let cell = cell(metric, facts, (*from, *to), typical);
                                        td class=(classes(&cell)) {
                                            (cell.text)
                                            @if cell.judged == Some(Judged::Fail) { b { "✕" } }
                                            @if cell.judged == Some(Judged::Unsure) { b { "?" } }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn legend() -> Markup {
    let shades = [
        ("a", "over 10 % better than typical"),
        ("b", "typical, ±10 %"),
        ("c", "10–30 % worse"),
        ("d", "30 % to 2× worse"),
        ("e", "over 2× worse"),
    ];
    html! {
        ul.shades aria-label="Shades" {
            @for (class, name) in shades { li { span.cell.(class) aria-hidden="true" {} (name) } }
            li { span.cell.x aria-hidden="true" { b { "✕" } } "bad" }
            li { span.cell.q aria-hidden="true" { b { "?" } } "not sure" }
        }
    }
}

/// Everything that is known of the pairs that something contradicts.
fn bad_pairs(facts: &Facts) -> Markup {
    const MOST: usize = 40;
    let bad: Vec<(&Pair, &PairFacts)> = facts
        .pairs
        .iter()
        .filter(|(_, pair)| pair.is_bad() || pair.verdict == Some(Judged::Unsure))
        .collect();
    let ratios = |first: Option<f64>, again: &[f64]| {
        let first = first.map_or_else(|| "–".into(), number::times);
        again.iter().fold(first, |text, ratio| format!("{text}, again {}", number::times(*ratio)))
    };
    html! {
        @if !bad.is_empty() {
            h3 { "Suspect pairs" }
            div.scroll tabindex="0" role="region" aria-label="Suspect pairs" {
                table.badpairs {
                    thead { tr {
                        th scope="col" { "From → to" } th scope="col" { "Latency, others = 1" } th scope="col" { "Block time, others = 1" }
                        th scope="col" { "Stalls" } th.left scope="col" { "What was found" }
                    } }
                    tbody {
                        @for ((from, to), pair) in bad.iter().take(MOST) {
                            tr {
                                th scope="row" { (from) " → " (to) }
                                td { (ratios(pair.latency_ratio, &pair.latency_again)) }
                                td { (ratios(pair.block_ratio, &pair.block_again)) }
                                td { (pair.stalls) }
                                td.left { @for text in pair.problems.iter().chain(&pair.wrong) { p { (text) } } }
                            }
                        }
                    }
                }
            }
            @if bad.len() > MOST { p { "And " (bad.len() - MOST) " more, marked in the matrices." } }
        }
    }
}

/// The section.
pub(super) fn section(document: &Value, facts: &Facts, detail: Detail) -> Option<Markup> {
    let (nodes, hidden) = nodes(facts);
    if nodes.len() < 2 || facts.pairs.is_empty() {
        return None;
    }
    let mut metrics = metrics(document, facts, nodes.len() >= MANY_NODES);
    if detail == Detail::Short {
        metrics.truncate(1);
    }
    let wide = nodes.len() >= MANY_NODES;
    Some(html! {
        p.lead { "Rows write, columns own the memory. Each pair is judged beside all other pairs of the same run, so a slow machine makes no pair suspect." }
        @if hidden > 0 { p { "Shown are the " (nodes.len()) " nodes with the most bad pairs; " (hidden) " others are left out." } }
        (legend())
        p.said { "Shades are of one reading each. Only what is marked " (Judged::Fail.symbol()) " was confirmed by a further measurement." }
        div.matrices.wide[wide] {
            @for metric in &metrics { (table(metric, facts, &nodes)) }
            @if let Some(links) = links::table(document, &nodes) { (links) }
        }
        (bad_pairs(facts))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_cell_has_at_most_three_characters() {
        let show = Show { each: 1.0, narrow: true, step: 0.0 };
        for value in
            [0.0, 1e-9, 0.034, 0.5, 1.0, 9.99, 61.664, 99.97, 213.0, 999.6, 1234.0, 4.8e6, 1e12, 1e308]
        {
            assert!(show.text(value).chars().count() <= 4, "{value}: {}", show.text(value));
        }
        assert_eq!(show.text(61.664), "62");
        assert_eq!(show.text(14.62), "15");
        assert_eq!(show.text(4_849_990.0), "5M");
    }

    #[test]
    fn shades_follow_the_direction() {
        assert_eq!(shade(100.0, 100.0, false), "b");
        assert_eq!(shade(310.0, 100.0, false), "e");
        assert_eq!(shade(310.0, 100.0, true), "a");
        assert_eq!(shade(40.0, 100.0, true), "e");
        assert_eq!(shade(0.0, 100.0, true), "b");
    }
}

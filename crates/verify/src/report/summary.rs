//! The top of the page: the verdict, its reason, what to do, and the most important figures.

use maud::{Markup, html};
use serde_json::Value;

use super::benchmarks::{half_round_trips, of, step_ns};
use super::facts::Facts;
use super::number;
use super::read::{Judged, Read};
use super::suspects::{Suspect, Suspected};
use super::troubles::{self, Trouble};

/// A figure with its name and what it is compared with.
struct Tile {
    name: &'static str,
    value: String,
    beside: String,
    judged: Option<Judged>,
}

/// Suspects in the banner.
const MOST_BLAMED: usize = 5;

/// The sentence below the verdict.
fn headline(
    document: &Value,
    judged: Judged,
    facts: &Facts,
    suspects: &[Suspected],
    troubles: &[Trouble],
) -> String {
    let (nodes, pairs) = (facts.nodes.len(), facts.pairs.len());
    match judged {
        Judged::Pass if pairs > 0 => {
            format!("All {nodes} nodes and all {} pairs work as they should.", number::count(pairs as u64))
        }
        Judged::Pass => "Everything that was tested works as it should.".into(),
        Judged::Unsure => {
            let steps =
                document.items("steps").iter().filter(|step| step.verdict() == Some(Judged::Unsure)).count();
            let data = if facts.pairs.values().all(|pair| pair.wrong.is_empty()) {
                " No data was lost or changed."
            } else {
                ""
            };
            format!(
                "Nothing is known to be wrong, but {} could not be judged.{data}",
                counted(steps.max(1), "step", "steps")
            )
        }
        Judged::Fail => match suspects {
            [] => {
                let errors: Vec<&Trouble> = troubles.iter().filter(|trouble| trouble.is_error).collect();
                match errors[..] {
                    [] => "A test failed.".into(),
                    [one] => one.text.clone(),
                    _ => format!("{} were found.", counted(errors.len(), "problem", "problems")),
                }
            }
            [one] => format!("{}.", one.sentence()),
            many => format!("{} of this cluster are faulty.", kinds(many)),
        },
    }
}

/// `2 links and 1 node`.
fn kinds(suspects: &[Suspected]) -> String {
    let number =
        |is: fn(&Suspect) -> bool| suspects.iter().filter(|suspected| is(&suspected.suspect)).count();
    let kinds = [
        (number(|suspect| matches!(suspect, Suspect::Node(_))), "node", "nodes"),
        (number(|suspect| matches!(suspect, Suspect::Link(..))), "link", "links"),
        (number(|suspect| matches!(suspect, Suspect::Swapped(..))), "swapped pair", "swapped pairs"),
        (number(|suspect| matches!(suspect, Suspect::Other(_))), "other part", "other parts"),
    ];
    let named: Vec<String> = kinds
        .into_iter()
        .filter(|kind| kind.0 > 0)
        .map(|(number, one, many)| counted(number, one, many))
        .collect();
    named.join(" and ")
}

fn counted(number: usize, one: &str, many: &str) -> String {
    format!("{} {}", number::count(number as u64), if number == 1 { one } else { many })
}

/// The banner.
pub(super) fn banner(
    document: &Value,
    facts: &Facts,
    suspects: &[Suspected],
    troubles: &[Trouble],
) -> Markup {
    let judged = document.verdict().unwrap_or(Judged::Unsure);
    let env = super::environment::find(document);
    let host = document.items("status.nodes").iter().find_map(|node| node.text("status.info.host"));
    let said = [
        document.text("cluster").map(|name| format!("cluster {name}")),
        host.map(|host| format!("on {host}")),
        env.and_then(|env| number::date(env.num("started_unix_s")?)),
        document
            .num("duration_s")
            .filter(|s| *s >= 0.0)
            .map(|s| format!("took {}", number::time(s * 1e9, 0.0))),
        env.and_then(|env| env.text("versions.tieline")).map(|version| format!("tieline {version}")),
    ];
    html! {
        @if let Some(why) = partial(document) {
            p.partial role="note" { strong { "This result is partial. " } (why) }
        }
        div.verdict.(judged.class()) {
            p.word { span.symbol aria-hidden="true" { (judged.symbol()) } (judged.word()) }
            p.headline { (headline(document, judged, facts, suspects, troubles)) }
            @if let Some(busy) = document.text("busy") { p.busy role="note" { (sentence(&busy)) } }
            @if judged == Judged::Fail && suspects.len() > 1 {
                ul.blame {
                    @for suspected in suspects.iter().take(MOST_BLAMED) { li { (suspected.sentence()) } }
                    @if suspects.len() > MOST_BLAMED { li { "and " (suspects.len() - MOST_BLAMED) " more, below" } }
                }
            }
            p.about { @for (at, text) in said.into_iter().flatten().enumerate() { @if at > 0 { " · " } (text) } }
        }
    }
}

/// With a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Why the result is not whole.
fn partial(document: &Value) -> Option<String> {
    if let Some(why) = document.text("partial") {
        return Some(why.into());
    }
    let ended = |field: &str| document.at(field).as_bool() == Some(true);
    match () {
        () if ended("partial") => Some("It was ended early.".into()),
        () if ended("load.partial") => Some("The load test was ended early.".into()),
        () if ended("pairs.partial") => Some("The measurement of the pairs was ended early.".into()),
        () => None,
    }
}

/// A sentence with commands between backticks.
pub(super) fn prose(text: &str) -> Markup {
    html! { @for (at, part) in text.split('`').enumerate() { @if at % 2 == 1 { code { (part) } } @else { (part) } } }
}

/// What to do next.
pub(super) fn next(advice: &[String]) -> Markup {
    html! { ol.next { @for text in advice { li { (prose(text)) } } } }
}

/// The suspects, with the evidence, and everything else that is wrong.
pub(super) fn wrong(suspects: &[Suspected], troubles: &[Trouble]) -> Option<Markup> {
    const MOST_EVIDENCE: usize = 6;
    if suspects.is_empty() && troubles.is_empty() {
        return None;
    }
    Some(html! {
        @if !suspects.is_empty() {
            div.suspects {
                @for suspected in suspects.iter().take(24) {
                    div.suspect {
                        h3 { span aria-hidden="true" { "✕ " } (suspected.sentence()) }
                        ul { @for text in suspected.evidence.iter().take(MOST_EVIDENCE) { li { (prose(text)) } } }
                        @if suspected.evidence.len() > MOST_EVIDENCE { p { "And " (suspected.evidence.len() - MOST_EVIDENCE) " more." } }
                    }
                }
            }
        }
        @if !troubles.is_empty() {
            @if !suspects.is_empty() { h3 { "Also found" } }
            ul.troubles {
                @for trouble in troubles.iter().take(troubles::MOST) {
                    li { strong { (trouble.place) @if !trouble.is_error { " (warning)" } ": " } (prose(&trouble.text)) }
                }
            }
            @if troubles.len() > troubles::MOST { p { "And " (troubles.len() - troubles::MOST) " more." } }
        }
    })
}

fn tiles_of(document: &Value, facts: &Facts) -> Vec<Tile> {
    let mut tiles = Vec::new();
    let nodes = document.items("status.nodes");
    if !nodes.is_empty() {
        let answer = nodes.iter().filter(|node| node.has("status") && !node.has("error")).count();
        let judged = if answer == nodes.len() { Judged::Pass } else { Judged::Fail };
        tiles.push(Tile {
            name: "Nodes",
            value: format!("{answer} of {}", nodes.len()),
            beside: "respond".into(),
            judged: Some(judged),
        });
    }
    let (clean, pairs) = facts.clean();
    if pairs > 0 {
        let judged = if clean == pairs { Judged::Pass } else { Judged::Fail };
        tiles.push(Tile {
            name: "Pairs",
            value: format!("{clean} of {pairs}"),
            beside: "without a fault".into(),
            judged: Some(judged),
        });
    }
    let bytes: f64 = facts.pairs.values().map(|pair| pair.bytes_checked).sum();
    if bytes > 0.0 {
        let bad = facts.pairs.values().filter(|pair| !pair.wrong.is_empty()).count();
        let beside = if bad == 0 {
            "compared, nothing lost or changed".into()
        } else {
            format!("compared, {} with errors", counted(bad, "pair", "pairs"))
        };
        tiles.push(Tile {
            name: "Data",
            value: number::bytes(bytes),
            beside,
            judged: Some(if bad == 0 { Judged::Pass } else { Judged::Fail }),
        });
    }
    tiles.extend(latency_tile(document));
    tiles.extend(bandwidth_tile(document));
    tiles.extend(jitter_tile(document));
    tiles
}

fn latency_tile(document: &Value) -> Option<Tile> {
    let benchmark = *half_round_trips(document).first()?;
    let row =
        benchmark.items("rows").iter().find(|row| row.num("size_bytes").is_some_and(|size| size >= 1.0))?;
    let step = step_ns(benchmark) / (2 * row.count("batch").max(1)) as f64;
    let ns = row.positive("half_rtt.p50_ns")?;
    let baseline = row.positive("line_floor_ns");
    Some(Tile {
        name: "Half round trip",
        value: number::time(ns, step),
        beside: format!(
            "{}{}",
            number::size(row.num("size_bytes")?),
            baseline
                .map_or(String::new(), |baseline| format!(", {} its baseline", number::times(ns / baseline)))
        ),
        judged: document.at("latency").verdict(),
    })
}

fn bandwidth_tile(document: &Value) -> Option<Tile> {
    let benchmark = *of(document, "scibench2").first()?;
    let rows = benchmark
        .items("rows")
        .iter()
        .filter(|row| row.positive("bandwidth_gb_s").is_some() && row.num("size_bytes").is_some());
    let row = rows
        .max_by(|a, b| a.num("size_bytes").unwrap_or(0.0).total_cmp(&b.num("size_bytes").unwrap_or(0.0)))?;
    let ratio = row
        .positive("ratio")
        .map_or(String::new(), |ratio| format!(", {} the best copy", number::times(ratio)));
    Some(Tile {
        name: "Bandwidth",
        value: number::gb_s(row.num("bandwidth_gb_s")?),
        beside: format!("{}{ratio} (not judged)", number::size(row.num("size_bytes")?)),
        judged: None,
    })
}

fn jitter_tile(document: &Value) -> Option<Tile> {
    let benchmark = *of(document, "jitter").first()?;
    let step = step_ns(benchmark);
    let tail = benchmark
        .positive("rtt.p999_ns")
        .map_or(String::new(), |ns| format!("99.9\u{a0}% within {}", number::time(ns, step)));
    Some(Tile {
        name: "Longest round trip",
        value: number::time(benchmark.positive("rtt.max_ns")?, step),
        beside: format!("{tail} (not judged)").trim_start().to_owned(),
        judged: None,
    })
}

/// The figures that matter.
pub(super) fn tiles(document: &Value, facts: &Facts) -> Option<Markup> {
    let tiles = tiles_of(document, facts);
    (!tiles.is_empty()).then(|| html! {
        dl.tiles {
            @for tile in &tiles {
                div.tile {
                    dt { (tile.name) @if let Some(judged) = tile.judged { " " span.(judged.class()) title=(judged.word()) { span aria-hidden="true" { (judged.symbol()) } span.hidden { (judged.word()) } } } }
                    dd.value { (tile.value) }
                    dd.beside { (tile.beside) }
                }
            }
        }
    })
}

//! The machine, its settings, its clock, and whether its processors moved during the run.

use maud::{Markup, html};
use serde_json::Value;

use super::number;
use super::read::Read;

/// The record of the environment, wherever the document keeps one.
pub(super) fn find(document: &Value) -> Option<&Value> {
    let own = [document.at("environment"), document.at("latency.scipp.env"), document.at("env")];
    let of_benchmarks = document.items("benchmarks").iter().map(|benchmark| benchmark.at("env"));
    own.into_iter().chain(of_benchmarks).find(|env| env.is_object())
}

type Fact = (&'static str, Markup);

fn plain(text: impl AsRef<str>) -> Markup {
    html! { (text.as_ref()) }
}

/// Facts that the reader needs to compare this with another machine.
fn facts(env: &Value) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    let mut say = |name, value: Option<String>| facts.extend(value.map(|value| (name, plain(value))));
    let virtual_machine =
        if env.at("virtual_machine").as_bool() == Some(true) { " (a virtual machine)" } else { "" };
    say("Processor", env.text("cpu_model").map(|model| format!("{model}{virtual_machine}")));
    let allowed = env
        .text("cpus_allowed")
        .map_or(String::new(), |cpus| format!(", of which this run could use {cpus}"));
    say("Processors online", env.text("cpus_online").map(|cpus| format!("{cpus}{allowed}")));
    say("Caches", Some(env.texts("caches").join(", ")).filter(|text| !text.is_empty()));
    say("Memory", env.positive("memory_bytes").map(number::size));
    say("Kernel", env.text("kernel").map(Into::into));
    say("Clock", clock(env));
    say("Frequency governor", env.text("governor").map(Into::into));
    say("Huge pages", env.text("transparent_huge_pages").map(|text| chosen(&text)));
    say("Hyper-threading", env.text("smt").map(Into::into));
    let load: Vec<String> =
        env.items("load").iter().filter_map(Value::as_f64).map(|load| format!("{load:.2}")).collect();
    say("Load at the start", (load.len() == 3).then(|| format!("{} (1, 5, 15 minutes)", load.join(", "))));
    let versions = env.at("versions").as_object();
    say(
        "Versions",
        versions
            .map(|versions| {
                let each = versions.iter().take(20).filter_map(|(name, version)| {
                    Some(format!(
                        "{} {}",
                        super::read::shortened(name, 40),
                        super::read::shortened(version.as_str()?, 60)
                    ))
                });
                each.collect::<Vec<_>>().join(", ")
            })
            .filter(|text| !text.is_empty()),
    );
    facts
}

/// Of `always [madvise] never` the word in brackets.
fn chosen(text: &str) -> String {
    text.split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'))
        .map_or_else(|| text.to_owned(), |(word, _)| word.to_owned())
}

fn clock(env: &Value) -> Option<String> {
    let step_ns = env.positive("clock.step_ns")?;
    let mut text =
        format!("{}, a step is {step_ns:.2}\u{a0}ns", env.text("clock.source").unwrap_or("unknown".into()));
    if let Some(cost_ns) = env.positive("clock.cost_ns") {
        text.push_str(&format!(", a reading costs {}", number::time(cost_ns, 0.0)));
    }
    match env.at("clock.invariant").as_bool() {
        Some(true) => text.push_str("; one rate in all states of the processor"),
        Some(false) => text.push_str("; its rate changes with the processor's"),
        None => {}
    }
    Some(text)
}

/// What moved during the run: processors of a virtual machine do, and then a cache line costs several times
/// as much.
fn moved(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let (mut disturbed, mut readings) = (0, 0);
    let (mut low, mut high) = (f64::INFINITY, 0f64);
    for benchmark in super::benchmarks::half_round_trips(document) {
        for row in benchmark.items("rows") {
            disturbed = u64::saturating_add(disturbed, row.count("disturbed"));
            readings = u64::saturating_add(readings, row.count("readings"));
            if let Some(baseline) = row.positive("line_floor_ns") {
                (low, high) = (low.min(baseline), high.max(baseline));
            }
        }
    }
    for benchmark in ["scibench2", "dma"].iter().flat_map(|kind| super::benchmarks::of(document, kind)) {
        for row in benchmark.items("rows") {
            disturbed = disturbed.saturating_add(row.count("disturbed"));
            readings = readings.saturating_add(row.count("disturbed") + row.count("blocks"));
        }
    }
    if high > 0.0 {
        found.push(format!(
            "The price of a cache line between the two processors lay between {} and {} during the run{}.",
            number::time(low, 1.0),
            number::time(high, 1.0),
            if high > low * 2.0 {
                ": the processors were moved, so compare each figure only with its own baseline"
            } else {
                ""
            }
        ));
    }
    if readings > 0 {
        found.push(format!(
            "{} of {} readings were set apart because that price moved while they were taken.",
            number::count(disturbed),
            number::count(readings)
        ));
    }
    let stolen: Vec<f64> = document
        .items("benchmarks")
        .iter()
        .map(|benchmark| benchmark.at("env"))
        .chain([document.at("environment"), document.at("latency.scipp.env")])
        .filter_map(|env| env.num("steal_ms"))
        .collect();
    if !stolen.is_empty() {
        let ms: f64 = stolen.iter().sum();
        found.push(format!("The host took {} of processor time away.", number::time(ms.max(0.0) * 1e6, 1e6)));
    }
    found
}

/// The section.
pub(super) fn section(document: &Value) -> Option<Markup> {
    let env = find(document)?;
    let moved = moved(document);
    let mitigations = env.texts("mitigations");
    let argv = env.texts("argv").join(" ");
    Some(html! {
        dl.facts { @for (name, value) in facts(env) { div { dt { (name) } dd { (value) } } } }
        @if !moved.is_empty() {
            h3 { "Did the machine pause?" }
            ul { @for text in &moved { li { (text) } } }
        }
        @if !mitigations.is_empty() {
            details {
                summary { "Mitigations in the processor and the kernel (" (mitigations.len()) ")" }
                ul.mitigations { @for text in mitigations.iter().take(60) { li { (text) } } }
            }
        }
        @if env.has("kernel_command_line") || !argv.is_empty() {
            details {
                summary { "Command lines" }
                dl.facts {
                    @if let Some(line) = env.text("kernel_command_line") { div { dt { "Kernel" } dd.command { (line) } } }
                    @if !argv.is_empty() { div { dt { "This run" } dd.command { (argv) } } }
                }
            }
        }
    })
}

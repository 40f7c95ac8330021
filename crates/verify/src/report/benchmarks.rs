//! Finds the benchmark documents inside a document.

use serde_json::Value;

use super::read::Read;

/// Of each kind, no more are shown.
const MOST: usize = 3;

/// The benchmarks of a kind (`scipp`, `dma`, …), in order.
pub(super) fn of<'a>(document: &'a Value, kind: &str) -> Vec<&'a Value> {
    let schema = format!("tieline.{kind}/");
    let wanted = |value: &&Value| value.at("schema").as_str().is_some_and(|name| name.starts_with(&schema));
    document.items("benchmarks").iter().filter(wanted).take(MOST).collect()
}

/// Half round trips: of the benchmark, else of the verification's own short run.
pub(super) fn half_round_trips(document: &Value) -> Vec<&Value> {
    let found = of(document, "scipp");
    let own = document.at("latency.scipp");
    if found.is_empty() && own.is_object() { vec![own] } else { found }
}

/// `between nodes 4 and 8, processors 0 and 1`.
pub(super) fn where_measured(benchmark: &Value) -> String {
    let list = |name: &str| -> Vec<String> {
        benchmark.items(name).iter().filter_map(Value::as_u64).map(|number| number.to_string()).collect()
    };
    let mut text = match &list("nodes")[..] {
        [a, b] => format!("between nodes {a} and {b}"),
        _ => String::new(),
    };
    let mut cpus = list("cpus");
    cpus.extend(benchmark.at("cpu").as_u64().map(|cpu| cpu.to_string()));
    if !cpus.is_empty() {
        let name = if cpus.len() == 1 { "processor" } else { "processors" };
        let comma = if text.is_empty() { "" } else { ", " };
        text.push_str(&format!("{comma}{name} {}", cpus.join(" and ")));
    }
    text
}

/// The step of the clock that measured it, in ns; 0: not known.
pub(super) fn step_ns(benchmark: &Value) -> f64 {
    benchmark.positive("env.clock.step_ns").unwrap_or(0.0)
}

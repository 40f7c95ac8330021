//! The spikes of a jitter run: which are named on the page, and their possible causes.

use serde_json::Value;

use super::number;
use super::read::Read;

/// A spike that is pointed at.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spike {
    pub letter: char,
    pub at_ns: f64,
    pub height_ns: f64,
    pub what: String,
}

/// So many are pointed at.
const NAMED: usize = 5;

/// A cause in words.
pub(super) fn cause(word: &str) -> String {
    match word {
        "context_switch" => "another thread got the processor".into(),
        "steal" => "the host took the processor".into(),
        "interrupt" => "an interrupt was served".into(),
        "idle_machine" => "no longer than what an idle processor loses".into(),
        "unexplained" => "unexplained".into(),
        other => other.replace('_', " "),
    }
}

/// The tallest, in order of time, with letters.
pub(super) fn named(jitter: &Value) -> Vec<Spike> {
    let mut tallest: Vec<&Value> =
        jitter.items("spikes").iter().filter(|spike| spike.num("at_ns").is_some()).collect();
    tallest.retain(|spike| spike.positive("height_ns").is_some());
    tallest.sort_by(|a, b| b.num("height_ns").unwrap_or(0.0).total_cmp(&a.num("height_ns").unwrap_or(0.0)));
    tallest.truncate(NAMED);
    tallest.sort_by(|a, b| a.num("at_ns").unwrap_or(0.0).total_cmp(&b.num("at_ns").unwrap_or(0.0)));
    ('A'..='Z')
        .zip(tallest)
        .map(|(letter, spike)| {
            let rhythm = spike
                .at("period")
                .as_u64()
                .and_then(|at| jitter.items("periods").get(usize::try_from(at).ok()?));
            let rhythm = rhythm.and_then(|rhythm| rhythm.positive("period_ns"));
            let rhythm =
                rhythm.map_or(String::new(), |ns| format!(", one of those every {}", number::time(ns, 0.0)));
            Spike {
                letter,
                at_ns: spike.num("at_ns").unwrap_or(0.0),
                height_ns: spike.num("height_ns").unwrap_or(0.0),
                what: format!("{}{rhythm}", cause(&spike.text("cause").unwrap_or("unexplained".into()))),
            }
        })
        .collect()
}

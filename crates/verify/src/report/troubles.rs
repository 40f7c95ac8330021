//! Failures that are not among the evidence against a suspect, in the tests' own words.

use std::collections::BTreeMap;

use serde_json::Value;

use super::read::{Judged, Read};

/// One thing, and where it was seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trouble {
    pub place: String,
    pub text: String,
    pub is_error: bool,
}

/// So many are listed; the rest is counted.
pub(super) const MOST: usize = 60;

/// Errors of the exchange, each with its pairs.
fn exchange(document: &Value) -> BTreeMap<String, Vec<(u64, u64)>> {
    let mut by_error: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for pair in document.items("exchange.pairs") {
        if let Some(error) = pair.text("error") {
            by_error.entry(error.into()).or_default().push((pair.count("from"), pair.count("to")));
        }
    }
    by_error
}

/// All of a document, errors first.
pub(super) fn all(document: &Value) -> Vec<Trouble> {
    let mut found: Vec<Trouble> = Vec::new();
    let mut add = |place: String, text: String, is_error: bool| {
        // Each manager may say the same of a node that is gone.
        if !found.iter().any(|trouble| trouble.text == text) {
            found.push(Trouble { place, text, is_error });
        }
    };
    for text in document.texts("status.problems") {
        add("Status".into(), text.into(), true);
    }
    for node in document.items("diag.nodes") {
        let name = node.at("node").as_u64().map_or_else(|| "A node".into(), |node| format!("Node {node}"));
        for finding in node.items("findings") {
            let level = finding.text("level").unwrap_or_default();
            if let Some(text) = finding.text("text").filter(|_| level != "note") {
                add(name.clone(), text.into(), level == "error");
            }
        }
        for test in node.items("self_test") {
            if let Some(error) = test.text("error") {
                add(
                    name.clone(),
                    format!("self test `{}`: {error}", test.text("name").unwrap_or_default()),
                    true,
                );
            }
        }
    }
    for text in document.texts("diag.disagreements") {
        add("Topology".into(), text.into(), true);
    }
    for (error, pairs) in exchange(document) {
        let others = match pairs.len() - 1 {
            0 => String::new(),
            1 => " and 1 other pair".to_owned(),
            others => format!(" and {others} other pairs"),
        };
        add(
            "Exchange".into(),
            format!("from node {} to node {}{others}: {error}", pairs[0].0, pairs[0].1),
            true,
        );
    }
    for section in ["load", "pairs"] {
        if let Some(error) = document.text(&format!("{section}.error")) {
            add(super::steps::title(section).into(), error.into(), true);
        }
    }
    for instance in document.items("load.instances") {
        if let Some(error) = instance.text("error") {
            add(format!("Load test on node {}", instance.count("node")), error.into(), true);
        }
    }
    for step in document.items("steps") {
        let judged = step.verdict().unwrap_or(Judged::Unsure);
        let name = step.text("name").unwrap_or_default();
        // What these found is told by its own name above.
        let told = ["status", "diag", "exchange", "load", "pairs"].contains(&&*name);
        if judged == Judged::Unsure || judged == Judged::Fail && !told {
            let detail = step.text("detail").unwrap_or_default();
            add(super::steps::title(&name).into(), detail.into(), judged == Judged::Fail);
        }
    }
    for section in document.items("baseline.sections") {
        let judged = section.verdict().unwrap_or(Judged::Unsure);
        if judged != Judged::Pass {
            let name = section.text("name").unwrap_or_default();
            let of = |what: &str| {
                let figures = section.items("comparison.figures").iter();
                figures.filter(|figure| figure.at("judgement").as_str() == Some(what)).count()
            };
            let missing = section.items("comparison.missing").len();
            let why = section.text("error").map_or(String::new(), |why| format!("; {why}"));
            let said = format!(
                "{name}: {} worse, {missing} missing, {} inconclusive{why}",
                of("worse"),
                of("inconclusive")
            );
            add(super::steps::title("baseline").into(), said, judged == Judged::Fail);
        }
    }
    found.sort_by_key(|trouble| !trouble.is_error);
    found
}

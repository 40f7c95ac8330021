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

/// What was found so far, each text once.
#[derive(Default)]
struct Found(Vec<Trouble>);

impl Found {
    fn add(&mut self, place: impl Into<String>, text: impl Into<String>, is_error: bool) {
        let (place, text) = (place.into(), text.into());
        // Each manager may say the same of a node that is gone.
        if !self.0.iter().any(|trouble| trouble.text == text) {
            self.0.push(Trouble { place, text, is_error });
        }
    }
}

/// All of a document, errors first.
pub(super) fn all(document: &Value) -> Vec<Trouble> {
    let mut found = Found::default();
    for text in document.texts("status.problems") {
        found.add("Status", text, true);
    }
    in_diag(document, &mut found);
    in_transfers(document, &mut found);
    in_steps(document, &mut found);
    in_baseline(document, &mut found);
    let Found(mut found) = found;
    found.sort_by_key(|trouble| !trouble.is_error);
    found
}

/// Of the static test of each node.
fn in_diag(document: &Value, found: &mut Found) {
    for node in document.items("diag.nodes") {
        let name = node.at("node").as_u64().map_or_else(|| "A node".into(), |node| format!("Node {node}"));
        for finding in node.items("findings") {
            let level = finding.text("level").unwrap_or_default();
            if let Some(text) = finding.text("text").filter(|_| level != "note") {
                found.add(name.as_str(), text, level == "error");
            }
        }
        for test in node.items("self_test") {
            if let Some(error) = test.text("error") {
                let test = test.text("name").unwrap_or_default();
                found.add(name.as_str(), format!("self test `{test}`: {error}"), true);
            }
        }
    }
    for text in document.texts("diag.disagreements") {
        found.add("Topology", text, true);
    }
}

/// Of the checked exchange, the load and the speed of pairs.
fn in_transfers(document: &Value, found: &mut Found) {
    for (error, pairs) in exchange(document) {
        let others = match pairs.len() - 1 {
            0 => String::new(),
            1 => " and 1 other pair".to_owned(),
            others => format!(" and {others} other pairs"),
        };
        let (from, to) = &pairs[0];
        found.add("Exchange", format!("from node {from} to node {to}{others}: {error}"), true);
    }
    for section in ["load", "pairs"] {
        if let Some(error) = document.text(&format!("{section}.error")) {
            found.add(super::steps::title(section), error, true);
        }
    }
    for instance in document.items("load.instances") {
        if let Some(error) = instance.text("error") {
            found.add(format!("Load test on node {}", instance.count("node")), error, true);
        }
    }
}

/// Of steps that have not passed.
fn in_steps(document: &Value, found: &mut Found) {
    for step in document.items("steps") {
        let judged = step.verdict().unwrap_or(Judged::Unsure);
        let name = step.text("name").unwrap_or_default();
        // What these found is told by its own name.
        let told = ["status", "diag", "exchange", "load", "pairs"].contains(&&*name);
        if judged == Judged::Unsure || judged == Judged::Fail && !told {
            let detail = step.text("detail").unwrap_or_default();
            found.add(super::steps::title(&name), detail, judged == Judged::Fail);
        }
    }
}

/// Of the comparison with an earlier result.
fn in_baseline(document: &Value, found: &mut Found) {
    for section in document.items("baseline.sections") {
        let judged = section.verdict().unwrap_or(Judged::Unsure);
        if judged == Judged::Pass {
            continue;
        }
        let name = section.text("name").unwrap_or_default();
        let of = |what: &str| {
            let figures = section.items("comparison.figures").iter();
            figures.filter(|figure| figure.at("judgement").as_str() == Some(what)).count()
        };
        let (worse, inconclusive) = (of("worse"), of("inconclusive"));
        let missing = section.items("comparison.missing").len();
        let why = section.text("error").map_or(String::new(), |why| format!("; {why}"));
        let said = format!("{name}: {worse} worse, {missing} missing, {inconclusive} inconclusive{why}");
        found.add(super::steps::title("baseline"), said, judged == Judged::Fail);
    }
}

//! The suspects from all tests together, in plain words.

use std::collections::BTreeMap;

use serde_json::Value;

use super::facts::{Facts, PairFacts};
use super::number;
use super::read::{Judged, Read, shortened};

/// What is to blame.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Suspect {
    Node(u64),
    Link(u64, u64),
    Swapped(u64, u64),
    /// A kind that this version does not know.
    Other(String),
}

impl Suspect {
    fn of(value: &Value) -> Self {
        let ends = |name| {
            let ends: Vec<u64> = value.items(name).iter().filter_map(Value::as_u64).collect();
            (ends.len() == 2).then(|| (ends[0], ends[1]))
        };
        if let Some(node) = value.at("node").as_u64() {
            Self::Node(node)
        } else if let Some((a, b)) = ends("link") {
            Self::Link(a, b)
        } else if let Some((a, b)) = ends("swapped") {
            Self::Swapped(a, b)
        } else {
            Self::Other(
                value.as_str().map_or_else(
                    || shortened(&value.to_string(), 80).into(),
                    |text| shortened(text, 80).into(),
                ),
            )
        }
    }

    /// As a title.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Node(node) => format!("Node {node}"),
            Self::Link(a, b) => format!("Link {a}–{b}"),
            Self::Swapped(a, b) => format!("Nodes {a} and {b}"),
            Self::Other(text) => text.clone(),
        }
    }

    /// Whether it touches this pair.
    fn touches(&self, (from, to): (u64, u64)) -> bool {
        match self {
            Self::Node(node) => *node == from || *node == to,
            Self::Link(a, b) | Self::Swapped(a, b) => (*a, *b) == (from, to) || (*b, *a) == (from, to),
            Self::Other(_) => false,
        }
    }
}

/// One of them, with everything that contradicts it.
#[derive(Debug, Clone)]
pub(super) struct Suspected {
    pub suspect: Suspect,
    pub evidence: Vec<String>,
    /// What is wrong, in a few words each: `slow`, `loses data`.
    pub faults: Vec<String>,
}

impl Suspected {
    /// `Link 4–12 is slow and loses data`.
    pub(super) fn sentence(&self) -> String {
        let faults = match &self.faults[..] {
            [] => "is faulty".to_owned(),
            [first] => first.clone(),
            [first, rest @ ..] => {
                let (last, middle) =
                    rest.split_last().map_or(("", &[][..]), |(last, middle)| (last.as_str(), middle));
                let middle: String = middle.iter().map(|fault| format!(", {fault}")).collect();
                format!("{first}{middle} and {last}")
            }
        };
        let plural = matches!(self.suspect, Suspect::Swapped(..));
        let faults = if plural { faults.replacen("is faulty", "are swapped", 1) } else { faults };
        format!("{} {faults}", self.suspect.name())
    }
}

/// All of a document, each once, the one with most against it first.
pub(super) fn all(document: &Value, facts: &Facts) -> Vec<Suspected> {
    let mut by_suspect: BTreeMap<Suspect, Vec<String>> = BTreeMap::new();
    let lists = ["pairs.culprits", "load.culprits", "cable.culprits", "culprits"];
    for entry in lists.iter().flat_map(|list| document.items(list)) {
        let evidence = by_suspect.entry(Suspect::of(entry.at("suspect"))).or_default();
        for text in entry.texts("evidence") {
            // The whole repeats what its steps have said.
            if !evidence.iter().any(|known| *known == text) {
                evidence.push(text.into());
            }
        }
    }
    let mut suspects: Vec<Suspected> = by_suspect
        .into_iter()
        .map(|(suspect, evidence)| {
            let faults = faults(&suspect, &evidence, facts);
            Suspected { suspect, evidence, faults }
        })
        .collect();
    suspects.sort_by_key(|suspected| std::cmp::Reverse(suspected.evidence.len()));
    suspects
}

/// From figures where there are any, else from the words of the evidence.
fn faults(suspect: &Suspect, evidence: &[String], facts: &Facts) -> Vec<String> {
    if let Suspect::Swapped(..) = suspect {
        return vec!["each is reached in place of the other: their cables are swapped".into()];
    }
    let mut found = Vec::new();
    let says = |words: &[&str]| evidence.iter().any(|text| words.iter().any(|word| text.contains(word)));
    let of_pairs = || facts.pairs.iter().filter(|(pair, _)| suspect.touches(**pair)).map(|(_, pair)| pair);
    // Of the first reading, and those that confirmed it.
    let worst = |first: &dyn Fn(&PairFacts) -> Option<f64>, again: &dyn Fn(&PairFacts) -> Vec<f64>| {
        of_pairs().flat_map(|pair| first(pair).into_iter().chain(again(pair))).reduce(f64::max)
    };
    if says(&["not found", "cannot be reached", "not respond", "is down", "not connected"]) {
        found.push("cannot be reached".to_owned());
    }
    // What is not sure is evidence, but no headline.
    let sure = |judged: &dyn Fn(&PairFacts) -> Option<Judged>| {
        let known: Vec<Judged> = of_pairs().filter_map(judged).collect();
        known.is_empty() || known.contains(&Judged::Fail)
    };
    if says(&["latency:", "half round trip"]) && sure(&|pair| pair.latency) {
        let by = worst(&|pair| pair.latency_ratio, &|pair| pair.latency_again.clone())
            .filter(|ratio| *ratio > 1.05);
        let times = |by| format!("takes {} as long as the others to respond", number::times(by));
        found.push(by.map_or_else(|| "responds late".into(), times));
    }
    if says(&["bandwidth:", "block of"]) && sure(&|pair| pair.block) {
        let by =
            worst(&|pair| pair.block_ratio, &|pair| pair.block_again.clone()).filter(|ratio| *ratio > 1.05);
        let share = |by| format!("carries only {:.0}\u{a0}% of what the others carry", 100.0 / by);
        found.push(by.map_or_else(|| "is slow".into(), share));
    }
    if says(&["stalls of", "stall"]) {
        found.push("pauses now and then".into());
    }
    if says(&[" lost"]) {
        found.push("loses data".into());
    }
    if says(&["corrupt"]) {
        found.push("changes data".into());
    }
    if says(&["out of order"]) {
        found.push("delivers in the wrong order".into());
    }
    if found.is_empty() && says(&["outage", "failure"]) {
        found.push("fails under load".into());
    }
    found
}

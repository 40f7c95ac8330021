//! Reports counters over their limits, and the ports with the highest counts.

use std::collections::BTreeMap;

use serde::Serialize;
use topology::PortIx;

use super::{Finding, ReportError, Weight};
use crate::counting::Counters;
use crate::snapshot::Snapshot;

/// The number of worst ports that are listed.
const WORST: usize = 10;

/// What counters may reach: more than that is a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Thresholds(BTreeMap<&'static str, u64>);

/// Limits by name. They are those that the file of the stock diagnostics proposes.
const LIMITS: [(&str, u64); 12] = [
    ("symbol_errors", 10),
    ("link_recoveries", 10),
    ("link_downed", 10),
    ("receive_errors", 10),
    ("remote_physical_errors", 100),
    ("relay_errors", 100),
    ("discards", 100),
    ("transmit_constraint_errors", 100),
    ("receive_constraint_errors", 100),
    ("integrity_errors", 10),
    ("overrun_errors", 10),
    ("lane15_dropped", 100),
];

impl Default for Thresholds {
    fn default() -> Self {
        Self(LIMITS.into_iter().collect())
    }
}

impl Thresholds {
    /// Another limit for a counter, which is named as [`Counters::key`] takes it. False: there is no such
    /// counter.
    pub fn set(&mut self, name: &str, limit: u64) -> bool {
        Counters::key(name).is_some_and(|known| {
            self.0.insert(known, limit);
            true
        })
    }
}

/// What ports can be worst at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Category {
    /// One counter.
    Counter(&'static str),
    /// Errors of the cable and its ends.
    Integrity,
    /// Waiting and dropping for lack of room.
    Congestion,
    /// What was not let in or out.
    Security,
    /// What could not be passed on.
    Routing,
    /// Data sent and received.
    Data,
}

impl Category {
    /// The words of those that are no single counter.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("integrity", Self::Integrity),
        ("congestion", Self::Congestion),
        ("security", Self::Security),
        ("routing", Self::Routing),
        ("data", Self::Data),
    ];

    /// The category of a word: one of these, or the name of a counter.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        let own = Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, category)| *category);
        own.or_else(|| Counters::key(word).map(Self::Counter))
    }

    fn word(self) -> &'static str {
        match self {
            Self::Counter(name) => name,
            own => Self::WORDS.iter().find(|(_, known)| *known == own).map_or("", |(word, _)| word),
        }
    }

    /// The counters that are summed up.
    fn counters(self) -> &'static [&'static str] {
        match self {
            Self::Counter(_) => &[],
            Self::Integrity => &[
                "symbol_errors",
                "link_recoveries",
                "link_downed",
                "receive_errors",
                "integrity_errors",
                "overrun_errors",
            ],
            Self::Congestion => &["transmit_wait", "discards"],
            Self::Security => &["transmit_constraint_errors", "receive_constraint_errors"],
            Self::Routing => &["relay_errors"],
            Self::Data => &["transmit_data", "receive_data"],
        }
    }

    fn value(self, counters: &Counters) -> u64 {
        let wanted = |name: &str| match self {
            Self::Counter(one) => one == name,
            several => several.counters().contains(&name),
        };
        counters.all().filter(|(name, _)| wanted(name)).map(|(_, value)| value).fold(0, u64::saturating_add)
    }
}

/// Ports with most of something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Worst {
    /// The category of the counter.
    pub category: &'static str,
    /// Counted since an earlier snapshot, not since the counters were last cleared.
    pub since: bool,
    /// Ports with their values, at most ten, none with 0.
    pub ports: Vec<(String, u64)>,
}

/// The ports with most of a category.
///
/// # Errors
/// The snapshot has no counters.
pub fn worst(
    snapshot: &Snapshot,
    since: Option<&Snapshot>,
    category: Category,
) -> Result<Worst, ReportError> {
    let counters = snapshot.counters.as_ref().ok_or_else(|| ReportError::Lacks {
        what: "the list of the worst ports",
        needs: "counters",
        source_name: snapshot.source.clone(),
        hint: ": observe the live fabric, or a snapshot that was taken with counters",
    })?;
    let before = since.map(|since| earlier(since, snapshot));
    let mut values: Vec<(u64, PortIx)> = counters
        .iter()
        .map(|(port, counters)| {
            let now = category.value(counters);
            let then =
                before.as_ref().and_then(|before| before.get(port)).map_or(0, |old| category.value(old));
            // A counter that went back was cleared in between: what it shows came after that.
            (if now < then { now } else { now - then }, *port)
        })
        .filter(|(value, _)| *value > 0)
        .collect();
    values.sort_by_key(|(value, port)| (std::cmp::Reverse(*value), *port));
    let ports = values.into_iter().take(WORST).map(|(value, port)| (snapshot.place(port), value)).collect();
    Ok(Worst { category: category.word(), since: since.is_some(), ports })
}

/// Counters of an earlier snapshot by the ports of a later one.
pub(super) fn earlier(before: &Snapshot, now: &Snapshot) -> BTreeMap<PortIx, Counters> {
    let Some(counters) = &before.counters else { return BTreeMap::new() };
    counters
        .iter()
        .filter_map(|(port, counters)| {
            let node = now.graph.node_by_guid(before.graph.node_guid(before.graph.owner(*port)))?;
            Some((now.graph.port(node, before.graph.number(*port))?, *counters))
        })
        .collect()
}

/// Counters over what they may reach, and ports that were not counted.
pub(super) fn findings(
    snapshot: &Snapshot,
    since: Option<&Snapshot>,
    thresholds: &Thresholds,
) -> Vec<Finding> {
    let mut found = uncounted(snapshot);
    let Some(counters) = &snapshot.counters else { return found };
    let before = since.map(|since| earlier(since, snapshot)).unwrap_or_default();
    for (port, counters) in counters {
        let old: BTreeMap<&str, u64> = before.get(port).map(|old| old.all().collect()).unwrap_or_default();
        let over: Vec<String> = counters
            .all()
            .filter_map(|(name, value)| {
                let then = old.get(name).copied().unwrap_or(0);
                let grown = if value < then { value } else { value - then };
                (grown > *thresholds.0.get(name)?).then(|| format!("{} {grown}", Counters::specified(name)))
            })
            .collect();
        if over.is_empty() {
            continue;
        }
        let place = snapshot.place(*port);
        let to = snapshot.graph.peer(*port).map(|peer| format!(" (to {})", snapshot.place(peer)));
        let text = format!("{place}{}: {}", to.unwrap_or_default(), over.join(", "));
        found.push(Finding::failed("errors", vec![place], text));
    }
    found
}

/// What was to be counted, and was not.
fn uncounted(snapshot: &Snapshot) -> Vec<Finding> {
    let mut by_why: BTreeMap<&str, Vec<PortIx>> = BTreeMap::new();
    for (port, why) in &snapshot.uncounted {
        by_why.entry(why).or_default().push(*port);
    }
    let finding = |(why, ports): (&str, Vec<PortIx>)| {
        let places: Vec<String> = ports.iter().take(20).map(|port| snapshot.place(*port)).collect();
        let text = if ports.len() == 1 {
            format!("the counters of {} could not be read: it {why}", places[0])
        } else {
            format!(
                "the counters of {} ports could not be read; the first, {}, {why}",
                ports.len(),
                places[0]
            )
        };
        Finding { weight: Weight::Failed, kind: "not counted", places, text }
    };
    by_why.into_iter().map(finding).collect()
}

//! What is wrong with a fabric, and a summary of it, from a [`Snapshot`] that is live or from a file.
//!
//! Where to start reading: [`Report::of`]; then one file per kind of finding.

use std::collections::BTreeMap;

use serde::Serialize;
use topology::routing::{Checked, check};
use topology::{Kind, NodeIx, counted, verb};

use crate::snapshot::Snapshot;
use crate::vls;

mod components;
mod errors;
mod html;
mod links;
mod plan;
mod route;
mod since;
#[cfg(test)]
mod tests;
mod text;
pub mod watch;

pub use components::lost_switches;
pub use errors::{Category, Thresholds, Worst, worst};
pub use html::page;
pub use links::{LinkLine, links};
pub use route::{Route, Step, route};
pub use text::render;

/// The form's name.
pub const SCHEMA: &str = "tieline.fabric.observe/1";
/// Findings that are kept; the rest is counted.
const MOST: usize = 2_000;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Weight {
    /// Something is wrong.
    Failed,
    /// It could not be judged.
    Open,
    /// Something that should be known.
    Warning,
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How grave it is.
    pub weight: Weight,
    /// What kind of thing it is, in one word or two.
    pub kind: &'static str,
    /// The ports or nodes that it is about.
    pub places: Vec<String>,
    /// The finding as a sentence.
    pub text: String,
}

impl Finding {
    /// The kind as people read it; `kind` is what is in JSON.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.kind {
            "doubt" => "anomaly",
            "cut" => "partitioned",
            "packet size" => "MTU",
            "tables" => "LFTs",
            kind => kind,
        }
    }

    fn failed(kind: &'static str, places: Vec<String>, text: String) -> Self {
        Self { weight: Weight::Failed, kind, places, text }
    }

    fn warning(kind: &'static str, places: Vec<String>, text: String) -> Self {
        Self { weight: Weight::Warning, kind, places, text }
    }
}

/// What came of it all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Verdict {
    /// Nothing is wrong.
    Pass,
    /// Something is.
    Fail,
    /// Something could not be judged, and nothing is wrong with the rest.
    Inconclusive,
}

/// What the fabric is like.
#[derive(Debug, Clone, PartialEq, Serialize, Default)]
pub struct Summary {
    /// Where it comes from.
    pub source: String,
    /// Seconds since 1970; 0 if it is not known.
    pub taken: u64,
    /// How many hosts.
    pub hosts: usize,
    /// How many switches.
    pub switches: usize,
    /// How many routers.
    pub routers: usize,
    /// How many cables.
    pub links: usize,
    /// Cables by width and speed.
    pub rates: BTreeMap<String, usize>,
    /// Ports with a cable by their state, where it is known.
    pub states: BTreeMap<String, usize>,
    /// What the switches are wired as, and how sure that is, 0 to 1.
    pub shape: String,
    /// How sure that is, 0 to 1.
    pub shape_confidence: f64,
    /// What contradicts it.
    pub shape_against: Vec<String>,
    /// LIDs of the subnet managers that ports name.
    pub managers: Vec<String>,
    /// Ports whose counters are known.
    pub counted: Option<usize>,
    /// Tables were read.
    pub tables: bool,
}

/// The check of the forwarding tables in the switches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Routes {
    /// Pairs of a switch with CAs and a LID of a CA.
    pub pairs: u64,
    /// Of them those without a route.
    pub lost: u64,
    /// Of them those that no cables connect.
    pub cut: u64,
    /// Missing routes to switches, and from switches without CAs.
    pub lost_switches: u64,
    /// Most switches on a route.
    pub most_switches: u32,
    /// A credit loop: each port waits for the credits of the next, the last for those of the first.
    pub credit_loop: Vec<String>,
    /// VLs may break the credit loop: it is not judged.
    #[serde(skip)]
    pub loop_is_open: bool,
}

/// The options of a report.
#[derive(Debug, Clone, Default)]
pub struct Wanted<'a> {
    /// Judge by this plan: its file and its content.
    pub plan: Option<&'a Snapshot>,
    /// Say what changed since then.
    pub since: Option<&'a Snapshot>,
    /// How that snapshot is called in texts.
    pub since_name: Option<&'a str>,
    /// What counters may reach.
    pub thresholds: Thresholds,
    /// The two ends of the route to print.
    pub route: Option<(String, String)>,
    /// The ports with most of it.
    pub worst: Option<Category>,
    /// List all nodes.
    pub nodes: bool,
    /// List all cables.
    pub links: bool,
}

/// A node of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeLine {
    /// Host, switch or router.
    pub kind: &'static str,
    /// Its text.
    pub name: String,
    /// Its GUID.
    pub guid: String,
    /// LIDs of its ports, 0 left out.
    pub lids: Vec<u16>,
    /// Ports.
    pub ports: u8,
    /// Ports with a cable.
    pub cabled: usize,
}

/// All of it.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// What came of it.
    pub verdict: Verdict,
    /// What the fabric is like.
    pub summary: Summary,
    /// What was found, grave things first.
    pub findings: Vec<Finding>,
    /// Findings by kind, those too that are not listed.
    pub counts: BTreeMap<&'static str, u64>,
    /// Of the tables that are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routes: Option<Routes>,
    /// The route that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// The worst ports of a category.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst: Option<Worst>,
    /// All nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<Vec<NodeLine>>,
    /// All cables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<Vec<LinkLine>>,
    /// For the text: the earlier snapshot, and how many findings say what changed since then.
    #[serde(skip)]
    pub changes: Option<(String, usize)>,
}

/// Why a requested part of the report cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// A name that leads nowhere.
    #[error(transparent)]
    Name(#[from] crate::names::NameError),
    /// It needs what the snapshot lacks.
    #[error("{what} needs {needs}, which {source_name} does not hold{hint}")]
    Lacks {
        /// What was asked for.
        what: &'static str,
        /// What it needs.
        needs: &'static str,
        /// What was examined.
        source_name: String,
        /// What to do.
        hint: &'static str,
    },
}

impl Report {
    /// The report of a snapshot.
    ///
    /// # Errors
    /// A requested part of the report cannot be made.
    pub fn of(snapshot: &Snapshot, wanted: &Wanted<'_>) -> Result<Self, ReportError> {
        let mut findings: Vec<Finding> = concerns(snapshot);
        findings.extend(links::findings(snapshot));
        findings.extend(components::findings(snapshot));
        findings.extend(errors::findings(snapshot, wanted.since, &wanted.thresholds));
        let mut routes = None;
        if let Some(tables) = &snapshot.tables {
            let checked = check(&snapshot.graph, tables);
            findings.extend(route_findings(snapshot, &checked));
            routes = Some(Routes::of(snapshot, &checked));
        }
        if let Some(plan) = wanted.plan {
            findings.extend(plan::findings(snapshot, plan));
        }
        let mut changes = None;
        if let Some(since) = wanted.since {
            let changed = since::findings(since, snapshot);
            let name = wanted.since_name.unwrap_or("the earlier snapshot");
            changes = Some((name.to_owned(), changed.len()));
            findings.extend(changed);
        }
        let route = wanted.route.as_ref().map(|(a, b)| route(snapshot, a, b)).transpose()?;
        if let Some(route) = &route
            && let Some(why) = &route.broken
        {
            findings.push(Finding::failed("route", vec![route.from.clone(), route.to.clone()], why.clone()));
        }
        let worst = wanted.worst.map(|category| worst(snapshot, wanted.since, category)).transpose()?;
        let mut counts = BTreeMap::new();
        for finding in &findings {
            *counts.entry(finding.kind).or_default() += 1;
        }
        findings.sort_by_key(|finding| finding.weight);
        let verdict = match findings.first().map(|finding| finding.weight) {
            Some(Weight::Failed) => Verdict::Fail,
            Some(Weight::Open) => Verdict::Inconclusive,
            Some(Weight::Warning) | None => Verdict::Pass,
        };
        findings.truncate(MOST);
        Ok(Self {
            verdict,
            summary: summary(snapshot),
            findings,
            counts,
            routes,
            route,
            worst,
            nodes: wanted.nodes.then(|| node_lines(snapshot)),
            links: wanted.links.then(|| links(snapshot)),
            changes,
        })
    }
}

fn concerns(snapshot: &Snapshot) -> Vec<Finding> {
    let weight = |grave| if grave { Weight::Failed } else { Weight::Warning };
    let words = snapshot.concerns.iter().map(|concern| Finding {
        weight: weight(concern.grave),
        kind: "doubt",
        places: Vec::new(),
        text: concern.text.clone(),
    });
    let mut all: Vec<Finding> = words.collect();
    if snapshot.more_concerns > 0 {
        let text = format!("and {} more of these kinds", counted(snapshot.more_concerns, "anomaly"));
        all.push(Finding::warning("doubt", Vec::new(), text));
    }
    all
}

impl Routes {
    fn of(snapshot: &Snapshot, checked: &Checked) -> Self {
        Self {
            pairs: checked.pairs,
            lost: checked.lost,
            cut: checked.cut,
            lost_switches: checked.lost_switches,
            most_switches: checked.most_hops,
            credit_loop: checked.credit_loop.iter().map(|wait| snapshot.place(wait.port)).collect(),
            loop_is_open: !checked.credit_loop.is_empty()
                && vls::why_open(snapshot, &checked.credit_loop).is_some(),
        }
    }

    /// Whether there is a credit loop, as text.
    #[must_use]
    pub fn loop_text(&self) -> &'static str {
        match (self.credit_loop.is_empty(), self.loop_is_open) {
            (true, _) => "no credit loop between CAs",
            (false, false) => "a credit loop",
            (false, true) => "a possible credit loop",
        }
    }
}

fn route_findings(snapshot: &Snapshot, checked: &Checked) -> Vec<Finding> {
    let mut found = Vec::new();
    let graph = &snapshot.graph;
    let no_lid = graph
        .nodes()
        .filter(|node| graph.kind(*node) != Kind::Switch)
        .flat_map(|node| graph.cabled(node))
        .filter(|(near, _)| graph.lid(*near) == 0)
        .count();
    if no_lid > 0 {
        let text = format!(
            "{} {} no LID, so no forwarding table leads there: check that a subnet manager (SM) runs",
            counted(no_lid, "CA port"),
            verb(no_lid, "has", "have")
        );
        found.push(Finding::failed("no LID", Vec::new(), text));
    }
    if checked.lost > 0 {
        let first = checked.findings.iter().find(|one| snapshot_lid(snapshot, one.lid));
        let where_ = first.map_or_else(String::new, |one| {
            format!(
                "; the first: in switch {}, LID {} {}",
                crate::names::label(graph, one.switch),
                one.lid,
                crate::what_if::fault_words(one.fault, one.port)
            )
        });
        let text = format!(
            "the forwarding tables have no route for {} of {} of a leaf switch and a destination LID{where_}: let the subnet manager (SM) \
             sweep again; `tieline fabric route` shows whether there are routes",
            checked.lost,
            counted(checked.pairs, "pair")
        );
        found.push(Finding::failed("unreachable", Vec::new(), text));
    }
    if checked.lost_switches > 0 {
        let named = snapshot.tables.as_ref().map(|tables| lost_switches(graph, tables)).unwrap_or_default();
        let text = format!(
            "the forwarding tables lack {} to switches, or from switches without CAs: {}{}",
            counted(checked.lost_switches, "route"),
            named.join("; "),
            if checked.lost_switches > named.len() as u64 { "; …" } else { "" }
        );
        found.push(Finding::failed("switch unreachable", Vec::new(), text));
    }
    if checked.cut > 0 {
        let text = format!(
            "the fabric is partitioned: no cables connect {} of a switch and a CA: see the links that are down",
            counted(checked.cut, "pair")
        );
        found.push(Finding::failed("cut", Vec::new(), text));
    }
    if !checked.credit_loop.is_empty() {
        let places: Vec<String> = checked.credit_loop.iter().map(|wait| snapshot.place(wait.port)).collect();
        let text = format!(
            "{} can wait for each other's credits (deadlock), from {}",
            counted(places.len(), "cable"),
            places.first().cloned().unwrap_or_default()
        );
        let open = vls::why_open(snapshot, &checked.credit_loop);
        found.push(match open {
            None => {
                let next = "route with an engine without credit loops, such as `updn` or `dfsssp`";
                Finding::failed("credit loop", places, format!("{text}: {next}"))
            }
            Some(why) => {
                let text = format!("if all traffic uses one VL, {text}; {why}; not judged");
                Finding { weight: Weight::Open, kind: "credit loop", places, text }
            }
        });
    }
    found
}

/// Is it a LID that a port has?
fn snapshot_lid(snapshot: &Snapshot, lid: u16) -> bool {
    let tables = snapshot.tables.as_ref();
    let port = tables.and_then(|tables| tables.lids().port(lid));
    port.is_some_and(|port| snapshot.graph.lid(port) != 0)
}

fn summary(snapshot: &Snapshot) -> Summary {
    let graph = &snapshot.graph;
    let living = |kind| graph.nodes_of(kind).filter(|node| !graph.is_dead(*node)).count();
    let mut summary = Summary {
        source: snapshot.source.clone(),
        taken: snapshot.taken,
        hosts: living(Kind::Host),
        switches: living(Kind::Switch),
        routers: living(Kind::Router),
        links: graph.link_count(),
        counted: snapshot.counters.as_ref().map(BTreeMap::len),
        tables: snapshot.tables.is_some(),
        ..Summary::default()
    };
    for (a, b) in graph.links() {
        *summary.rates.entry(rate_word(snapshot.rate(a))).or_default() += 1;
        for port in [a, b] {
            if let Some(facts) = snapshot.port(port) {
                *summary.states.entry(facts.state_word()).or_default() += 1;
            }
        }
    }
    let recognised = topology::recognise::recognise(graph);
    summary.shape = recognised.shape.name();
    summary.shape_confidence = recognised.confidence;
    summary.shape_against = recognised.against;
    let mut lids: Vec<u16> = snapshot.ports.iter().flatten().map(|facts| facts.sm_lid).collect();
    lids.sort_unstable();
    lids.dedup();
    summary.managers = lids.into_iter().filter(|lid| *lid != 0).map(|lid| manager(snapshot, lid)).collect();
    summary
}

fn manager(snapshot: &Snapshot, lid: u16) -> String {
    let named = crate::names::find(&snapshot.graph, &format!("lid {lid}"));
    let place = match named {
        Ok(crate::names::Named::Port(port)) => snapshot.place(port),
        Ok(crate::names::Named::Node(node)) => crate::names::label(&snapshot.graph, node),
        Err(_) => "no node that was found".to_owned(),
    };
    format!("LID {lid} ({place})")
}

fn rate_word(rate: topology::LinkSpec) -> String {
    if rate.mbps() == 0 { "unknown".to_owned() } else { rate.to_string() }
}

fn node_lines(snapshot: &Snapshot) -> Vec<NodeLine> {
    let graph = &snapshot.graph;
    let line = |node: NodeIx| {
        let mut lids: Vec<u16> =
            graph.ports(node).map(|port| graph.lid(port)).filter(|lid| *lid != 0).collect();
        lids.dedup();
        NodeLine {
            kind: graph.kind(node).word(),
            name: crate::names::label(graph, node),
            guid: format!("{:#018x}", graph.node_guid(node)),
            lids,
            ports: graph.port_count(node),
            cabled: graph.cabled(node).count(),
        }
    };
    graph.nodes().filter(|node| !graph.is_dead(*node)).map(line).collect()
}

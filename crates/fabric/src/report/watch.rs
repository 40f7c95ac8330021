//! Reads counters again and again, and reports changes.

use std::collections::{BTreeMap, BTreeSet};

use mad::values::{PhysicalState, PortState};
use serde::Serialize;
use topology::{NodeIx, PortIx};

use crate::counters::Collected;
use crate::counting::Counters;
use crate::poll::PolledCable;
use crate::snapshot::Snapshot;

/// Counters that grow because the fabric is used, not because something is wrong.
const TRAFFIC: [&str; 8] = [
    "transmit_data",
    "receive_data",
    "transmit_packets",
    "receive_packets",
    "unicast_sent",
    "unicast_received",
    "multicast_sent",
    "multicast_received",
];

/// The differences from the previous reading.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Look {
    /// The number of the reading, from 1 on.
    pub look: u64,
    /// Ports that answered.
    pub counted: usize,
    /// Milliseconds that it took.
    pub took_ms: u64,
    /// By port: what grew, and by how much. Traffic is left out.
    pub grown: Vec<(String, BTreeMap<&'static str, u64>)>,
    /// Ports that do not respond any more, and why.
    pub lost: Vec<(String, String)>,
    /// Ports that respond again.
    pub back: Vec<String>,
    /// Cables whose state is another one: a port, the state before and now.
    pub links: Vec<(String, String, String)>,
    /// Nodes that do not respond any more, though some of their cables did before.
    pub nodes_gone: Vec<String>,
    /// Nodes that respond again.
    pub nodes_back: Vec<String>,
    /// Why no other node could be polled, if so: the local port has no active link. Then nothing else was
    /// polled.
    pub no_link: Option<String>,
    /// Whether it has one again.
    pub link_again: bool,
    /// Whether the previous reading had the same reason, which is printed once.
    #[serde(skip)]
    was_said: bool,
}

/// Looks again and again.
#[derive(Debug)]
pub struct Watch {
    look: u64,
    before: BTreeMap<PortIx, Counters>,
    missing: BTreeMap<PortIx, String>,
    states: BTreeMap<PortIx, (u8, u8)>,
    gone: BTreeSet<NodeIx>,
    no_link: Option<String>,
}

impl Watch {
    /// From a snapshot.
    #[must_use]
    pub fn new(snapshot: &Snapshot) -> Self {
        Self {
            look: 0,
            before: snapshot.counters.clone().unwrap_or_default(),
            missing: snapshot.uncounted.iter().cloned().collect(),
            states: snapshot
                .graph
                .links()
                .flat_map(|(a, b)| [a, b])
                .filter_map(|port| snapshot.port(port).map(|facts| (port, (facts.state, facts.physical))))
                .collect(),
            gone: BTreeSet::new(),
            no_link: None,
        }
    }

    /// A reading without an active link, and why ([`crate::poll::without_link`]): no other node is reported.
    pub fn without_link(&mut self, why: &str) -> Look {
        self.look += 1;
        let was_said = self.no_link.replace(why.to_owned()).as_deref() == Some(why);
        Look { look: self.look, no_link: Some(why.to_owned()), was_said, ..Look::default() }
    }

    /// What a further reading differs in.
    pub fn look(&mut self, snapshot: &Snapshot, collected: &Collected) -> Look {
        self.look += 1;
        let mut look = Look {
            look: self.look,
            counted: collected.readings.len(),
            took_ms: collected.took.as_millis().try_into().unwrap_or(u64::MAX),
            link_again: self.no_link.take().is_some(),
            ..Look::default()
        };
        for reading in &collected.readings {
            if self.missing.remove(&reading.port).is_some() {
                look.back.push(snapshot.place(reading.port));
            }
            let old = self.before.insert(reading.port, reading.counters);
            let Some(old) = old else { continue };
            let pairs = old.all().zip(reading.counters.all());
            let grown: BTreeMap<&'static str, u64> = pairs
                .filter(|((name, _), _)| !TRAFFIC.contains(name))
                .filter(|((_, old), (_, new))| old != new)
                // A counter that decreased was cleared: its value has grown since then.
                .map(|((name, old), (_, new))| (name, if new < old { new } else { new - old }))
                .filter(|(_, by)| *by > 0)
                .collect();
            if !grown.is_empty() {
                look.grown.push((snapshot.place(reading.port), grown));
            }
        }
        for (port, why) in &collected.missing {
            if self.missing.insert(*port, why.to_string()).is_none() {
                look.lost.push((snapshot.place(*port), why.to_string()));
            }
        }
        look
    }
}

impl Watch {
    /// The changes of cables, as part of that reading.
    pub fn cables(&mut self, snapshot: &Snapshot, seen: &[PolledCable], look: &mut Look) {
        let graph = &snapshot.graph;
        let words = |(state, physical)| format!("{} ({})", PortState(state), PhysicalState(physical));
        let mut silent: BTreeMap<NodeIx, bool> = BTreeMap::new();
        for PolledCable { port, states } in seen {
            let all = silent.entry(graph.owner(*port)).or_insert(true);
            *all &= states.is_none();
            let Some(now) = *states else { continue };
            if let Some(before) = self.states.insert(*port, now).filter(|before| *before != now) {
                let place = match graph.peer(*port) {
                    Some(peer) => format!("{} to {}", snapshot.place(*port), snapshot.place(peer)),
                    None => snapshot.place(*port),
                };
                look.links.push((place, words(before), words(now)));
            }
        }
        for (node, all) in silent {
            let name = crate::names::label(graph, node);
            if all && self.gone.insert(node) {
                look.nodes_gone.push(name);
            } else if !all && self.gone.remove(&node) {
                look.nodes_back.push(name);
            }
        }
    }
}

impl Look {
    /// In words: a line a port, or nothing if nothing differs.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        if let Some(why) = self.no_link.as_ref().filter(|_| !self.was_said) {
            text.push_str(&format!("{:>4}  {why}: nothing beyond it can be seen\n", self.look));
        }
        if self.link_again {
            text.push_str(&format!("{:>4}  there is an active link again\n", self.look));
        }
        for (place, grown) in &self.grown {
            let grown: Vec<String> =
                grown.iter().map(|(name, by)| format!("{} +{by}", Counters::specified(name))).collect();
            text.push_str(&format!("{:>4}  {place}: {}\n", self.look, grown.join(", ")));
        }
        for (place, why) in &self.lost {
            text.push_str(&format!("{:>4}  {place}: {why}\n", self.look));
        }
        for (place, before, now) in &self.links {
            text.push_str(&format!("{:>4}  {place}: the link changed from {before} to {now}\n", self.look));
        }
        for name in &self.nodes_gone {
            text.push_str(&format!("{:>4}  {name} no longer responds\n", self.look));
        }
        for name in &self.nodes_back {
            text.push_str(&format!("{:>4}  {name} responds again\n", self.look));
        }
        for place in &self.back {
            text.push_str(&format!("{:>4}  {place}: responds again\n", self.look));
        }
        text
    }
}

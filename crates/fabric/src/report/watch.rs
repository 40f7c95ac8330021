//! Counters read again and again: only what differs is said.

use std::collections::BTreeMap;

use serde::Serialize;
use topology::PortIx;

use crate::counters::Collected;
use crate::counting::Counters;
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

/// What differs from the look before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Look {
    /// Which look, from 1 on.
    pub look: u64,
    /// Ports that answered.
    pub counted: usize,
    /// Milliseconds that it took.
    pub took_ms: u64,
    /// By port: what grew, and by how much. Traffic is left out.
    pub grown: Vec<(String, BTreeMap<&'static str, u64>)>,
    /// Ports that do not answer any more, and why.
    pub lost: Vec<(String, String)>,
    /// Ports that answer again.
    pub back: Vec<String>,
}

/// Looks again and again.
#[derive(Debug)]
pub struct Watch {
    look: u64,
    before: BTreeMap<PortIx, Counters>,
    missing: BTreeMap<PortIx, String>,
}

impl Watch {
    /// From what a snapshot says.
    #[must_use]
    pub fn new(snapshot: &Snapshot) -> Self {
        Self {
            look: 0,
            before: snapshot.counters.clone().unwrap_or_default(),
            missing: snapshot.uncounted.iter().cloned().collect(),
        }
    }

    /// What a further reading differs in.
    pub fn look(&mut self, snapshot: &Snapshot, collected: &Collected) -> Look {
        self.look += 1;
        let mut look = Look {
            look: self.look,
            counted: collected.readings.len(),
            took_ms: collected.took.as_millis().try_into().unwrap_or(u64::MAX),
            grown: Vec::new(),
            lost: Vec::new(),
            back: Vec::new(),
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
                // One that went back was cleared by somebody: what it shows came after that.
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

impl Look {
    /// In words: a line a port, or nothing if nothing differs.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        for (place, grown) in &self.grown {
            let grown: Vec<String> = grown.iter().map(|(name, by)| format!("{name} +{by}")).collect();
            text.push_str(&format!("{:>4}  {place}: {}\n", self.look, grown.join(", ")));
        }
        for (place, why) in &self.lost {
            text.push_str(&format!("{:>4}  {place}: {why}\n", self.look));
        }
        for place in &self.back {
            text.push_str(&format!("{:>4}  {place}: answers again\n", self.look));
        }
        text
    }
}

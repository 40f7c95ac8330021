//! Checks forwarding tables, whatever engine made them. The check uses the tables alone.
//!
//! From every switch that carries hosts the route to every LID is followed, once where routes have joined.
//! What follows: pairs that do not reach each other, loops, and which cable waits for which. A cycle among
//! those is a credit loop (Dally and Seitz, "Deadlock-free message routing in multiprocessor interconnection
//! networks", 1987); it is looked for among the routes between hosts, VL by VL.

mod cycle;
mod mixed;
mod walk;

use rayon::prelude::*;

use super::tables::{NO_PATH, Tables};
use super::view::View;
use crate::{Graph, Kind, NodeIx, PortIx};
use cycle::Waits;
pub use mixed::{Dependencies, between};
use walk::Walker;

/// Findings of each kind that are named; the rest is counted.
const NAMED: usize = 20;

/// What is wrong on the path to a LID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The switch's table has no port for it.
    NoEntry,
    /// The port that the table names does not exist, or no cable is in it.
    DeadPort,
    /// The port leads to a host that does not respond to it.
    WrongEnd,
    /// The switch keeps it for itself and does not respond to it.
    WrongSwitch,
    /// The route comes back to this switch.
    Loop,
    /// The switch does not know the VL on which it came.
    NoVl,
}

/// Something wrong: at which switch, for which LID, by which port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Finding {
    /// The fault.
    pub fault: Fault,
    /// The switch whose entry it is.
    pub switch: NodeIx,
    /// For which LID.
    pub lid: u16,
    /// The port that its table names.
    pub port: u8,
    /// A switch from which traffic gets there.
    pub from: NodeIx,
}

/// A cable that waits in a credit loop: the port by which it leaves its switch, and the VL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Waiting {
    /// The port that sends.
    pub port: PortIx,
    /// The VL.
    pub vl: u8,
}

/// What the checker found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checked {
    /// Pairs of a switch that carries hosts and a LID of a host.
    pub pairs: u64,
    /// Of these pairs those that do not reach each other, though a path of cables exists.
    pub lost: u64,
    /// Of these pairs those that do not reach each other where one is an aggregation node's: the LID, or all
    /// that the switch carries. They are not among the lost ones.
    pub lost_aggregation: u64,
    /// Of these pairs those between which no path of cables exists.
    pub cut: u64,
    /// Pairs of a switch that carries hosts and a LID of a switch, and of a switch that carries none and a
    /// LID of a host, that do not reach each other, though cables would.
    pub lost_switches: u64,
    /// The first of what is wrong.
    pub findings: Vec<Finding>,
    /// One credit loop, if there is any: each waits for the next, and the last for the first.
    pub credit_loop: Vec<Waiting>,
    /// Data VLs in use.
    pub vls: u8,
    /// Most switches on a route between two hosts.
    pub most_hops: u32,
}

impl Checked {
    /// Nothing lost and nothing that can wait for itself?
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.lost == 0 && self.credit_loop.is_empty()
    }
}

/// Checks tables against a graph.
#[must_use]
pub fn check(graph: &Graph, tables: &Tables) -> Checked {
    check_lids(graph, tables, |_| true)
}

/// Checks the routes to some LIDs. A credit loop is only looked for among these.
#[must_use]
pub fn check_lids(graph: &Graph, tables: &Tables, is_wanted: impl Fn(u16) -> bool) -> Checked {
    let view = View::of(graph);
    let components = view.components();
    let ends: Vec<(u16, PortIx)> = tables.lids().iter().filter(|(lid, _)| is_wanted(*lid)).collect();
    let walker = Walker { graph, view: &view, tables, components: &components };
    // LIDs go in blocks: their entries are side by side in every table.
    let blocks: Vec<&[(u16, PortIx)]> = ends.chunk_by(|a, b| a.0 / 64 == b.0 / 64).collect();
    let parts = rayon::current_num_threads().max(1) * 2;
    let each = blocks.len().div_ceil(parts).max(1);
    let found: Vec<(Checked, Waits)> = blocks.par_chunks(each).map(|blocks| walker.walk(blocks)).collect();
    let mut checked = Checked::default();
    let mut waits: Option<Waits> = None;
    for (part, of_part) in found {
        checked.add(part);
        match &mut waits {
            Some(waits) => waits.add(&of_part),
            None => waits = Some(of_part),
        }
    }
    if let Some(waits) = waits {
        checked.credit_loop = waits.cycle(graph, &view);
    }
    checked
}

impl Checked {
    fn add(&mut self, part: Self) {
        self.pairs += part.pairs;
        self.lost += part.lost;
        self.lost_aggregation += part.lost_aggregation;
        self.cut += part.cut;
        self.lost_switches += part.lost_switches;
        self.vls = self.vls.max(part.vls);
        self.most_hops = self.most_hops.max(part.most_hops);
        let room = NAMED.saturating_sub(self.findings.len());
        self.findings.extend(part.findings.into_iter().take(room));
    }
}

/// Is it a host's or router's LID?
fn is_host(graph: &Graph, end: PortIx) -> bool {
    graph.kind(graph.owner(end)) != Kind::Switch
}

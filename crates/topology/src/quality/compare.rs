//! Two routings side by side.

use super::bandwidth::{Bandwidth, Pattern, bandwidth};
use super::loads::{Loads, loads};
use crate::Graph;
use crate::routing::{Checked, Tables, check};

/// Random patterns that are tried.
const PATTERNS: u32 = 200;
/// Shifts that are tried, at most about.
const SHIFTS: u32 = 200;

/// All that is measured of tables.
#[derive(Debug, Clone, PartialEq)]
pub struct Quality {
    /// Do they reach everyone, and can nothing wait for itself?
    pub checked: Checked,
    /// Destinations of ports, and hops.
    pub loads: Loads,
    /// Random pairs.
    pub bisection: Bandwidth,
    /// Everyone to the one so many places on.
    pub shifts: Bandwidth,
}

/// Measures tables. Random patterns come from the seed.
#[must_use]
pub fn quality(graph: &Graph, tables: &Tables, seed: u64) -> Quality {
    let hosts = tables.lids().iter().count() as u32;
    Quality {
        checked: check(graph, tables),
        loads: loads(graph, tables),
        bisection: bandwidth(graph, tables, Pattern::Bisection { count: PATTERNS, seed }),
        shifts: bandwidth(graph, tables, Pattern::Shifts { step: (hosts / SHIFTS).max(1) }),
    }
}

/// Two of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The quality of the first fabric.
    pub before: Quality,
    /// The quality of the second fabric.
    pub after: Quality,
    /// Entries that differ, and switches whose tables do.
    pub changed: (usize, usize),
    /// Blocks of tables that a manager would have to write.
    pub blocks: usize,
}

/// Compares two routings, each on its graph.
#[must_use]
pub fn compare(before: (&Graph, &Tables), after: (&Graph, &Tables), seed: u64) -> Comparison {
    let (mut entries, mut switches, mut last) = (0, 0, None);
    for change in before.1.changes(after.1) {
        entries += 1;
        if last.replace(change.switch) != Some(change.switch) {
            switches += 1;
        }
    }
    Comparison {
        before: quality(before.0, before.1, seed),
        after: quality(after.0, after.1, seed),
        changed: (entries, switches),
        blocks: before.1.blocks_to_write(after.1).count(),
    }
}

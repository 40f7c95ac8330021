//! All destinations, grouped by the switch that they are attached to.

use super::lids::Lids;
use super::plan::Plan;
use super::view::View;
use crate::Graph;

/// One LID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Destination {
    /// The LID.
    pub(crate) lid: u16,
    /// The port of its switch that leads to it; 0 is the switch itself.
    pub(crate) port: u8,
    /// What is balanced with it.
    pub(crate) class: u8,
    /// Its number in the plan.
    pub(crate) number: u32,
}

/// Destinations in compressed rows, in each row by class and number.
#[derive(Debug)]
pub(crate) struct Destinations {
    first: Vec<u32>,
    all: Vec<Destination>,
}

impl Destinations {
    pub(crate) fn of(graph: &Graph, view: &View, lids: &Lids, plan: &Plan) -> Self {
        let mut placed: Vec<(u32, Destination)> = Vec::new();
        for (lid, end) in lids.iter() {
            if let Some((row, port)) = view.attachment(graph, end) {
                let class = plan.class(lid) as u8;
                placed.push((row as u32, Destination { lid, port, class, number: plan.number(lid) }));
            }
        }
        placed.sort_by_key(|(row, one)| (*row, one.class, one.number, one.lid));
        let mut first = vec![0; view.rows() + 1];
        for (row, _) in &placed {
            first[*row as usize + 1] += 1;
        }
        for row in 0..view.rows() {
            first[row + 1] += first[row];
        }
        Self { first, all: placed.into_iter().map(|(_, one)| one).collect() }
    }

    /// Those at a row.
    pub(crate) fn at(&self, row: usize) -> &[Destination] {
        &self.all[self.range(row)]
    }

    /// Their places among [`all`](Self::all).
    pub(crate) fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.first[row] as usize..self.first[row + 1] as usize
    }

    /// All with their rows in the order in which they choose: of every switch the first, then of every switch the second, so that
    /// the hosts of a switch find different loads.
    pub(crate) fn in_turn(&self) -> Vec<(usize, &Destination)> {
        let mut all: Vec<(usize, usize, &Destination)> = Vec::new();
        for row in 0..self.first.len() - 1 {
            all.extend(self.at(row).iter().enumerate().map(|(turn, one)| (turn, row, one)));
        }
        // Switches themselves come last: hosts should find the routes empty.
        all.sort_by_key(|(turn, row, one)| (one.class == 2, *turn, *row));
        all.into_iter().map(|(_, row, one)| (row, one)).collect()
    }

    /// All, row after row.
    pub(crate) fn all(&self) -> &[Destination] {
        &self.all
    }
}

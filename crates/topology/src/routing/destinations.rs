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

/// Destinations by switch, in compressed rows; at each switch by class and number.
#[derive(Debug)]
pub(crate) struct Destinations {
    first: Vec<u32>,
    all: Vec<Destination>,
}

impl Destinations {
    pub(crate) fn of(graph: &Graph, view: &View, lids: &Lids, plan: &Plan) -> Self {
        let mut placed: Vec<(u32, Destination)> = Vec::new();
        for (lid, end) in lids.iter() {
            if let Some((sw, port)) = view.attachment(graph, end) {
                let class = plan.class(lid) as u8;
                placed.push((sw as u32, Destination { lid, port, class, number: plan.number(lid) }));
            }
        }
        placed.sort_by_key(|(sw, one)| (*sw, one.class, one.number, one.lid));
        let mut first = vec![0; view.switch_count() + 1];
        for (sw, _) in &placed {
            first[*sw as usize + 1] += 1;
        }
        for sw in 0..view.switch_count() {
            first[sw + 1] += first[sw];
        }
        Self { first, all: placed.into_iter().map(|(_, one)| one).collect() }
    }

    /// Those at a switch.
    pub(crate) fn at(&self, sw: usize) -> &[Destination] {
        &self.all[self.range(sw)]
    }

    /// Their places among [`all`](Self::all).
    pub(crate) fn range(&self, sw: usize) -> std::ops::Range<usize> {
        self.first[sw] as usize..self.first[sw + 1] as usize
    }

    /// All with their switches in the order in which they choose: of every switch the first, then of every
    /// switch the second, so that the hosts of a switch find different loads.
    pub(crate) fn in_turn(&self) -> Vec<(usize, &Destination)> {
        let mut all: Vec<(usize, usize, &Destination)> = Vec::new();
        for sw in 0..self.first.len() - 1 {
            all.extend(self.at(sw).iter().enumerate().map(|(turn, one)| (turn, sw, one)));
        }
        // Switches themselves come last: hosts should find the routes empty.
        all.sort_by_key(|(turn, sw, one)| (one.class == 2, *turn, *sw));
        all.into_iter().map(|(_, sw, one)| (sw, one)).collect()
    }

    /// All destinations, switch by switch.
    pub(crate) fn all(&self) -> &[Destination] {
        &self.all
    }
}

//! Ranks of switches: which direction is up.
//!
//! Every switch gets a rank; a cable leads up to the higher rank, and between equal ranks to the lower
//! switch. So there is no cycle of ups, and a path that goes up first and then only down can't wait for
//! itself (Schroeder et al., "Autonet", 1991).

use std::collections::VecDeque;

use super::view::View;
use crate::NodeIx;

/// Unreachable, or not ranked yet.
const FAR: u16 = u16::MAX;

/// Ranks of all switches, and what follows from them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranks {
    rank: Vec<u16>,
    top: u16,
    /// Switches from the highest down.
    order: Vec<u32>,
    /// Switches that carry the hosts, where that is known: then a leaf is one also if it hangs from the top.
    leaf: Vec<bool>,
    /// Cables between switches of one rank, among all cables between switches.
    level: (usize, usize),
}

impl Ranks {
    /// With these roots on top; the rank falls by one with each hop from them. Switches that no root reaches
    /// get ranks of their own, from their best-connected switch.
    #[must_use]
    pub fn of_roots(view: &View, roots: &[NodeIx]) -> Self {
        let switches: Vec<usize> = roots.iter().filter_map(|root| view.index_of(*root)).collect();
        let mut distance = vec![FAR; view.switch_count()];
        spread(view, &mut distance, &switches);
        while let Some(rest) = best_connected(view, &distance) {
            spread(view, &mut distance, &[rest]);
        }
        let far = distance.iter().copied().max().unwrap_or(0);
        Self::of_rank(view, distance.into_iter().map(|hops| far - hops).collect())
    }

    /// As in a tree: [leaves](crate::leaves) are the switches that carry the hosts, and the rank rises with
    /// each hop from them. A switch of the top with a few hosts (storage, an aggregation node) is no leaf.
    #[must_use]
    pub fn of_leaves(view: &View) -> Self {
        let hosts: Vec<u32> = (0..view.switch_count()).map(|sw| view.programs(sw)).collect();
        let beside = |sw| view.neighbours(sw).iter().map(|near| near.sw).collect();
        let (rank, leaf) =
            crate::leaves::ranks(&hosts, &(0..view.switch_count()).map(beside).collect::<Vec<_>>());
        let mut distance: Vec<u16> =
            rank.into_iter().map(|rank| u16::try_from(rank).unwrap_or(FAR)).collect();
        // What no leaf reaches has no hosts behind it either, or very few.
        while let Some(rest) = best_connected(view, &distance) {
            spread(view, &mut distance, &[rest]);
        }
        Self { leaf, ..Self::of_rank(view, distance) }
    }

    /// From a switch in the middle: one with the least sum of hops to all others, as far as a sample shows.
    #[must_use]
    pub fn of_centre(view: &View) -> Self {
        let switches = view.switch_count();
        let step = (switches / 64).max(1);
        let sum = |sw: usize| -> (usize, u64) {
            let mut distance = vec![FAR; switches];
            spread(view, &mut distance, &[sw]);
            let reached = distance.iter().filter(|hops| **hops != FAR);
            let (count, sum) = reached.fold((0, 0), |(count, sum), hops| (count + 1, sum + u64::from(*hops)));
            (switches - count, sum)
        };
        let centre = (0..switches).step_by(step).min_by_key(|sw| (sum(*sw), *sw));
        let roots: Vec<NodeIx> = centre.map(|sw| view.switch(sw)).into_iter().collect();
        Self::of_roots(view, &roots)
    }

    fn of_rank(view: &View, rank: Vec<u16>) -> Self {
        let mut order: Vec<u32> = (0..rank.len() as u32).collect();
        order.sort_by_key(|sw| (std::cmp::Reverse(rank[*sw as usize]), *sw));
        let mut level = (0, 0);
        for sw in 0..rank.len() {
            for near in view.neighbours(sw) {
                let cables = usize::from(near.cables);
                level.1 += cables;
                level.0 += if rank[near.sw as usize] == rank[sw] { cables } else { 0 };
            }
        }
        let leaf = rank.iter().map(|rank| *rank == 0).collect();
        Self { top: rank.iter().copied().max().unwrap_or(0), rank, order, leaf, level }
    }

    /// The rank of a switch: 0 is lowest.
    #[must_use]
    pub fn rank(&self, sw: usize) -> u16 {
        self.rank[sw]
    }

    /// Is it a leaf: a switch that carries hosts and that no route leads through?
    #[must_use]
    pub fn is_leaf(&self, sw: usize) -> bool {
        self.leaf[sw]
    }

    /// The highest rank.
    #[must_use]
    pub fn top(&self) -> u16 {
        self.top
    }

    /// Switches from the highest down: each comes after all that are above it.
    #[must_use]
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Does a cable from one switch to another lead up?
    #[must_use]
    pub fn is_up(&self, from: usize, to: usize) -> bool {
        (self.rank[to], std::cmp::Reverse(to)) > (self.rank[from], std::cmp::Reverse(from))
    }

    /// How much of the fabric contradicts that it is a tree: the share of cables between equal ranks.
    #[must_use]
    pub fn level_share(&self) -> f64 {
        if self.level.1 == 0 { 0.0 } else { self.level.0 as f64 / self.level.1 as f64 }
    }
}

/// Sets the hops from the nearest of some switches, where there is no smaller number yet.
fn spread(view: &View, distance: &mut [u16], from: &[usize]) {
    let mut queue = VecDeque::new();
    for sw in from {
        distance[*sw] = 0;
        queue.push_back(*sw);
    }
    while let Some(sw) = queue.pop_front() {
        let further = distance[sw].saturating_add(1).min(FAR - 1);
        for near in view.neighbours(sw) {
            let there = &mut distance[near.sw as usize];
            if *there == FAR {
                *there = further;
                queue.push_back(near.sw as usize);
            }
        }
    }
}

/// Of the switches without a distance the one with the most neighbours.
fn best_connected(view: &View, distance: &[u16]) -> Option<usize> {
    let rest = (0..view.switch_count()).filter(|sw| distance[*sw] == FAR);
    rest.max_by_key(|sw| (view.neighbours(*sw).len(), std::cmp::Reverse(*sw)))
}

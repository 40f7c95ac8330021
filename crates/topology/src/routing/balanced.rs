//! Ways up and down, one destination after the other by the ports that carry least.
//!
//! Where trunks between switches have different numbers of cables no plan says what share each should have. Here every switch
//! sends as much by each of its ports as by the others, and of ports that carry the same it takes the one behind which the way
//! carries least: so both the ways up and those down are filled evenly. It is sequential.

use super::destinations::{Destination, Destinations};
use super::ranks::Ranks;
use super::tables::{NO_PATH, Tables};
use super::view::View;
use super::ways::Ways;

/// Times that each destination chooses: the first did not know what the last would use.
const ROUNDS: usize = 2;

/// Fills tables. Rows from which no way goes up and down have no entry.
pub(crate) fn fill(
    view: &View,
    ranks: &Ranks,
    ways: &Ways,
    destinations: &Destinations,
    tables: &mut Tables,
) {
    let rows = view.rows();
    let mut balance = Balance {
        view,
        ranks,
        ways,
        load: vec![0; rows * view.stride()],
        cost: vec![0; rows],
        port: vec![NO_PATH; rows],
        behind: vec![0_u64; rows],
    };
    let near: Vec<Vec<u32>> = (0..rows).map(|to| balance.near(to)).collect();
    let (width, turns) = (tables.width(), destinations.in_turn());
    for round in 0..ROUNDS {
        for (to, one) in &turns {
            let (lid, near) = (usize::from(one.lid), &near[*to]);
            let bytes = tables.bytes_mut();
            if round > 0 {
                near.iter().for_each(|row| balance.port[*row as usize] = bytes[*row as usize * width + lid]);
                balance.count(*to, one, near, false);
            }
            balance.choose(*to, near);
            balance.count(*to, one, near, true);
            bytes[to * width + lid] = one.port;
            near.iter().for_each(|row| bytes[*row as usize * width + lid] = balance.port[*row as usize]);
        }
    }
}

/// What the ways so far use.
struct Balance<'a> {
    view: &'a View,
    ranks: &'a Ranks,
    ways: &'a Ways,
    /// Ways that use each cable, weighed by the hosts that they come from.
    load: Vec<u64>,
    /// Of the destination at hand: what the way from a row on carries, its port, and hosts behind the row.
    cost: Vec<u64>,
    port: Vec<u8>,
    behind: Vec<u64>,
}

impl Balance<'_> {
    /// Rows that have a way to one, near ones first.
    fn near(&self, to: usize) -> Vec<u32> {
        let hops = |row: &u32| self.ways.hops(*row as usize, to);
        let mut near: Vec<u32> =
            (0..self.view.rows() as u32).filter(|row| *row as usize != to && hops(row).is_some()).collect();
        near.sort_by_key(|row| (hops(row), *row));
        near
    }

    /// The port of each row.
    fn choose(&mut self, to: usize, near: &[u32]) {
        let stride = self.view.stride();
        self.cost[to] = 0;
        for row in near.iter().map(|row| *row as usize) {
            let mut best = (u64::MAX, u64::MAX, NO_PATH);
            for over in self.ways.over(self.view, self.ranks, row, to) {
                let behind = self.cost[over.row as usize];
                for port in self.view.cables(row, over) {
                    best = best.min((self.load[row * stride + usize::from(port)], behind, port));
                }
            }
            self.port[row] = best.2;
            self.cost[row] = best.0.saturating_add(best.1);
        }
    }

    /// Counts the ways to a destination, or takes them back. What is for switches alone is little, and is not counted.
    fn count(&mut self, to: usize, one: &Destination, near: &[u32], taken: bool) {
        if one.class == 2 {
            return;
        }
        let stride = self.view.stride();
        near.iter().for_each(|row| self.behind[*row as usize] = u64::from(self.view.programs(*row as usize)));
        self.behind[to] = 0;
        for row in near.iter().rev().map(|row| *row as usize) {
            let port = self.port[row];
            let (load, behind) = (&mut self.load[row * stride + usize::from(port)], self.behind[row]);
            *load = if taken { *load + behind } else { *load - behind };
            if let Some((over, _)) = self.view.beyond(row, port) {
                self.behind[over] += behind;
            }
        }
    }
}

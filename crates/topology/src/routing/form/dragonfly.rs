//! Routes of dragonflies: a local cable, a global cable, a local cable.
//!
//! Each part may be missing, none comes twice. What comes over a global cable continues on VL 1, all else is on VL 0, so that a
//! cable waits only for a later part of a route (Kim, Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly topology",
//! 2008).

use std::cell::RefCell;

use super::Form;
use crate::routing::destinations::Destination;
use crate::routing::tables::NO_PATH;
use crate::routing::view::View;
use crate::routing::vls::LEVELS;

/// Which group each switch is in, by rows: by the place among the graph's switches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Groups(pub Vec<u32>);

/// Not reached by any route.
const FAR: u32 = u32::MAX;

/// A dragonfly's routes on what is left of its cables.
pub(crate) struct DragonflyForm<'a> {
    groups: &'a Groups,
    view: &'a View,
    components: Vec<u32>,
    /// Routes that each cable carries so far.
    load: RefCell<Vec<u32>>,
}

impl<'a> DragonflyForm<'a> {
    pub(crate) fn of(groups: &'a Groups, view: &'a View) -> Self {
        let load = RefCell::new(vec![0; view.rows() * view.stride()]);
        Self { groups, view, components: view.components(), load }
    }

    fn local(&self, a: usize, b: usize) -> bool {
        self.groups.0[a] == self.groups.0[b]
    }

    /// The neighbour of one kind that is nearest by `cost`, by the cable that carries least: cost and port.
    fn best(&self, row: usize, local: bool, cost: &[u32]) -> (u32, u8) {
        let load = self.load.borrow();
        let mut best = (FAR, u32::MAX, NO_PATH);
        for near in self.view.neighbours(row) {
            let over = near.row as usize;
            if cost[over] == FAR || self.local(row, over) != local {
                continue;
            }
            for port in self.view.cables(row, *near) {
                best = best.min((cost[over] + 1, load[row * self.view.stride() + usize::from(port)], port));
            }
        }
        (best.0, best.2)
    }
}

impl Form for DragonflyForm<'_> {
    fn vls(&self) -> u8 {
        2
    }

    fn levels(&self) -> u8 {
        1
    }

    fn ports(&self, to: usize, _: &Destination, port: &mut [u8]) -> bool {
        port.fill(NO_PATH);
        let rows = self.view.rows();
        // The last part: within the destination's group.
        let mut last = vec![FAR; rows];
        last[to] = 0;
        for row in (0..rows).filter(|row| *row != to && self.local(*row, to)) {
            let direct = self.view.neighbours(row).iter().find(|near| near.row as usize == to);
            if let Some(near) = direct {
                (last[row], port[row]) = (1, near.port);
            }
        }
        // Over a global cable into that group, and to the switch where it begins.
        let mut global = vec![FAR; rows];
        for row in (0..rows).filter(|row| !self.local(*row, to)) {
            (global[row], port[row]) = self.best(row, false, &last);
        }
        for row in (0..rows).filter(|row| !self.local(*row, to)) {
            let (cost, by) = self.best(row, true, &global);
            if cost < global[row] {
                port[row] = by;
            }
        }
        // A neighbour may itself have found a shorter route by another neighbour: then it is no gateway for others.
        let gateway =
            |row: usize| self.view.beyond(row, port[row]).is_some_and(|(there, _)| !self.local(row, there));
        let mut good = true;
        let mut load = self.load.borrow_mut();
        for row in (0..rows).filter(|row| *row != to && self.components[*row] == self.components[to]) {
            let Some((over, _)) = self.view.beyond(row, port[row]) else {
                good = false;
                continue;
            };
            good &= self.local(row, to) || !self.local(row, over) || gateway(over);
            load[row * self.view.stride() + usize::from(port[row])] += self.view.hosts(row).max(1);
        }
        good
    }

    fn level(&self, _: usize, _: usize) -> u8 {
        0
    }

    fn vls_at(&self, row: usize, came: u8, goes: u8) -> [u8; LEVELS] {
        let global = |port: u8| self.view.beyond(row, port).map(|(there, _)| !self.local(row, there));
        [u8::from(global(came) == Some(true) && global(goes) == Some(false)); LEVELS]
    }
}

//! Routes of dragonflies: a local cable, a global cable, a local cable.
//!
//! Each part may be missing, none comes twice. What comes over a global cable continues on VL 1, all else is
//! on VL 0, so that a cable waits only for a later part of a route (Kim, Dally, Scott and Abts,
//! "Technology-driven, highly-scalable dragonfly topology", 2008).

use std::cell::RefCell;

use super::Form;
use crate::routing::destinations::Destination;
use crate::routing::tables::NO_PATH;
use crate::routing::view::View;
use crate::routing::vls::LEVELS;

/// The group of each switch, in the order of the graph's switches.
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
        let load = RefCell::new(vec![0; view.switch_count() * view.stride()]);
        Self { groups, view, components: view.components(), load }
    }

    fn local(&self, a: usize, b: usize) -> bool {
        self.groups.0[a] == self.groups.0[b]
    }

    /// The neighbour of one kind that is nearest by `cost`, by the cable that carries least: cost and port.
    fn best(&self, sw: usize, local: bool, cost: &[u32]) -> (u32, u8) {
        let load = self.load.borrow();
        let mut best = (FAR, u32::MAX, NO_PATH);
        for near in self.view.neighbours(sw) {
            let over = near.sw as usize;
            if cost[over] == FAR || self.local(sw, over) != local {
                continue;
            }
            for port in self.view.cables(sw, *near) {
                best = best.min((cost[over] + 1, load[sw * self.view.stride() + usize::from(port)], port));
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
        let switches = self.view.switch_count();
        // The last part: within the destination's group.
        let mut last = vec![FAR; switches];
        last[to] = 0;
        for sw in (0..switches).filter(|sw| *sw != to && self.local(*sw, to)) {
            let direct = self.view.neighbours(sw).iter().find(|near| near.sw as usize == to);
            if let Some(near) = direct {
                (last[sw], port[sw]) = (1, near.port);
            }
        }
        // Over a global cable into that group, and to the switch where it begins.
        let mut global = vec![FAR; switches];
        for sw in (0..switches).filter(|sw| !self.local(*sw, to)) {
            (global[sw], port[sw]) = self.best(sw, false, &last);
        }
        for sw in (0..switches).filter(|sw| !self.local(*sw, to)) {
            let (cost, by) = self.best(sw, true, &global);
            if cost < global[sw] {
                port[sw] = by;
            }
        }
        // A neighbour may itself have found a shorter route by another neighbour: then it is no gateway for
        // others.
        let gateway =
            |sw: usize| self.view.beyond(sw, port[sw]).is_some_and(|(there, _)| !self.local(sw, there));
        let mut good = true;
        let mut load = self.load.borrow_mut();
        for sw in (0..switches).filter(|sw| *sw != to && self.components[*sw] == self.components[to]) {
            let Some((over, _)) = self.view.beyond(sw, port[sw]) else {
                good = false;
                continue;
            };
            good &= self.local(sw, to) || !self.local(sw, over) || gateway(over);
            load[sw * self.view.stride() + usize::from(port[sw])] += self.view.hosts(sw).max(1);
        }
        good
    }

    fn level(&self, _: usize, _: usize) -> u8 {
        0
    }

    fn vls_at(&self, sw: usize, came: u8, goes: u8) -> [u8; LEVELS] {
        let global = |port: u8| self.view.beyond(sw, port).map(|(there, _)| !self.local(sw, there));
        [u8::from(global(came) == Some(true) && global(goes) == Some(false)); LEVELS]
    }
}

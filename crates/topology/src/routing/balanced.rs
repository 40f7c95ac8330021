//! The engine `balanced`: up-down routes, one destination after the other over the least loaded
//! ports.
//!
//! Where trunks between switches have different numbers of cables no plan says what share each should have.
//! Here every switch sends as much by each of its ports as by the others, and of ports that carry the same it
//! takes the one behind which the route carries least: so both the routes up and those down are filled
//! evenly. Then each destination chooses anew, by all that the whole route carries, of the uplinks that get
//! no more destinations by that than the fullest one of the switch has: the fullest uplink stays as it is,
//! and fewer routes meet further on. It is sequential.

use super::destinations::{Destination, Destinations};
use super::distances::Distances;
use super::ranks::Ranks;
use super::tables::{NO_PATH, Tables};
use super::view::View;

/// Times that each destination chooses by the next cable: the first did not know what the last would use.
const BY_CABLE: usize = 2;
/// And by the whole route.
const BY_PATH: usize = 2;

/// Fills tables. Switches from which no route goes up and down have no entry.
pub(crate) fn fill(
    view: &View,
    ranks: &Ranks,
    distances: &Distances,
    destinations: &Destinations,
    tables: &mut Tables,
) {
    let switches = view.switch_count();
    let mut balance = Balance {
        view,
        ranks,
        distances,
        load: vec![0; switches * view.stride()],
        count: vec![0; switches * view.stride()],
        most: Vec::new(),
        cost: vec![0; switches],
        port: vec![NO_PATH; switches],
        behind: vec![0_u64; switches],
    };
    let near: Vec<Vec<u32>> = (0..switches).map(|to| balance.near(to)).collect();
    let (width, turns) = (tables.width(), destinations.in_turn());
    for round in 0..BY_CABLE + BY_PATH {
        if round == BY_CABLE {
            balance.keep_fullest();
        }
        for (to, one) in &turns {
            let (lid, near) = (usize::from(one.lid), &near[*to]);
            let bytes = tables.bytes_mut();
            if round > 0 {
                near.iter().for_each(|sw| balance.port[*sw as usize] = bytes[*sw as usize * width + lid]);
                balance.count(*to, one, near, false);
            }
            balance.choose(*to, one, near);
            balance.count(*to, one, near, true);
            bytes[to * width + lid] = one.port;
            near.iter().for_each(|sw| bytes[*sw as usize * width + lid] = balance.port[*sw as usize]);
        }
    }
}

/// What the routes so far use.
struct Balance<'a> {
    view: &'a View,
    ranks: &'a Ranks,
    distances: &'a Distances,
    /// Routes that use each cable, weighed by the hosts that they come from.
    load: Vec<u64>,
    /// Destinations by each port.
    count: Vec<u32>,
    /// By switch, the most destinations that an uplink may have while routes are chosen as a whole; empty
    /// before.
    most: Vec<u32>,
    /// Of the destination at hand: what the route from a switch on carries, its port, and hosts behind the
    /// switch.
    cost: Vec<u64>,
    port: Vec<u8>,
    behind: Vec<u64>,
}

impl Balance<'_> {
    /// Switches that have a route to one, near ones first.
    fn near(&self, to: usize) -> Vec<u32> {
        let hops = |sw: &u32| self.distances.hops(*sw as usize, to);
        let mut near: Vec<u32> = (0..self.view.switch_count() as u32)
            .filter(|sw| *sw as usize != to && hops(sw).is_some())
            .collect();
        near.sort_by_key(|sw| (hops(sw), *sw));
        near
    }

    /// From here on routes are chosen as a whole, and no uplink gets more destinations than the fullest one
    /// of its switch has.
    fn keep_fullest(&mut self) {
        let (view, ranks, stride) = (self.view, self.ranks, self.view.stride());
        let fullest = |sw: usize| {
            let above = view.neighbours(sw).iter().filter(|near| ranks.is_up(sw, near.sw as usize));
            let ports = above.flat_map(|near| view.cables(sw, *near));
            ports.map(|port| self.count[sw * stride + usize::from(port)]).max().unwrap_or(0)
        };
        self.most = (0..view.switch_count()).map(fullest).collect();
    }

    /// The port of each switch. One that [is not counted](is_counted) may go by any.
    fn choose(&mut self, to: usize, one: &Destination, near: &[u32]) {
        let stride = self.view.stride();
        self.cost[to] = 0;
        for sw in near.iter().map(|sw| *sw as usize) {
            let mut best = ((u64::MAX, u64::MAX), NO_PATH, u64::MAX);
            for over in self.distances.over(self.view, self.ranks, sw, to) {
                let behind = self.cost[over.sw as usize];
                let is_uplink = self.ranks.is_up(sw, over.sw as usize);
                let most = self.most.get(sw).filter(|_| is_uplink && is_counted(one));
                for port in self.view.cables(sw, over) {
                    let at = sw * stride + usize::from(port);
                    if most.is_some_and(|most| self.count[at] >= *most) {
                        continue;
                    }
                    let (load, total) = (self.load[at], self.load[at].saturating_add(behind));
                    let order = if self.most.is_empty() { (load, behind) } else { (total, load) };
                    best = best.min((order, port, total));
                }
            }
            (self.port[sw], self.cost[sw]) = (best.1, best.2);
        }
    }

    /// Counts the routes to a destination, or takes them back.
    fn count(&mut self, to: usize, one: &Destination, near: &[u32], taken: bool) {
        if !is_counted(one) {
            return;
        }
        let stride = self.view.stride();
        near.iter().for_each(|sw| self.behind[*sw as usize] = u64::from(self.view.programs(*sw as usize)));
        self.behind[to] = 0;
        for sw in near.iter().rev().map(|sw| *sw as usize) {
            let port = self.port[sw];
            let count = &mut self.count[sw * stride + usize::from(port)];
            *count = if taken { *count + 1 } else { *count - 1 };
            let (load, behind) = (&mut self.load[sw * stride + usize::from(port)], self.behind[sw]);
            *load = if taken { *load + behind } else { *load - behind };
            if let Some((over, _)) = self.view.beyond(sw, port) {
                self.behind[over] += behind;
            }
        }
    }
}

/// What is for switches alone is little, and is not counted.
fn is_counted(one: &Destination) -> bool {
    one.class != 2
}

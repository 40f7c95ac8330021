//! Repairs tables: routes to and from switches without an up-down route, and between the few hosts
//! without one.
//!
//! A top switch that lost its cable to a pod still carries the traffic of the hosts. But it has no up-down
//! route into that pod, the pod has none to the switch, and managers have to reach it. Its routes go down and
//! up again in between. They use VL 1, which the hosts' traffic does not use: requests to the switch by their
//! service level, and its responses because they have the service level of the request. A route that would
//! close a credit loop on VL 1 is left out.
//!
//! Hosts at top switches (storage, aggregation nodes) have no up-down route to each other, nor have some
//! leaves of a damaged tree. All traffic to such a host uses VL 1, or the first VL after it where the routes
//! close no credit loop. Where that fits on no VL for some hosts (an aggregation node at each switch of a
//! deep tree), VLs are assigned by pairs: then only the routes that go down and up again use one of these
//! VLs, and the up-down routes stay on VL 0.

use super::destinations::{Destination, Destinations};
use super::distances::Distances;
use super::order::Order;
use super::ranks::Ranks;
use super::tables::{NO_PATH, Tables};
use super::view::View;
use super::vls::{Mapping, Service, VlAssignment};

mod pairs;

/// Not reached yet.
const FAR: u16 = u16::MAX;

/// Cables that are searched for one entry: a fabric with many dead cables has many cycles, and each is found
/// anew.
const MAX_SEARCHED: usize = 200;

/// What a repair needs to know.
pub(crate) struct Repairer<'a> {
    pub(crate) view: &'a View,
    pub(crate) ranks: &'a Ranks,
    pub(crate) distances: &'a Distances,
    pub(crate) destinations: &'a Destinations,
    pub(crate) prior: Option<&'a Tables>,
    /// By LID: whether it is on this VL; `None` if all are.
    pub(crate) only: Option<&'a [bool]>,
}

/// A switch without a route, and its ports to the nearest neighbours that have one.
pub(crate) struct Bridge {
    pub(crate) sw: usize,
    pub(crate) ports: Vec<u8>,
}

/// A missing entry: the switch, and the port to enter.
struct Step {
    sw: usize,
    port: u8,
}

impl<'a> Repairer<'a> {
    /// Adds the missing routes that close no credit loop: on a VL of their own, if there are two.
    pub(crate) fn repair(&self, vls: u8, tables: &mut Tables) {
        let left_out = self.by_destination(vls, tables);
        if left_out == 0 || vls < 2 {
            return;
        }
        let before = tables.clone();
        if pairs::repair(self, vls, tables) >= left_out {
            *tables = before;
        }
    }

    /// With a VL for each destination. Returns how many routes from hosts' switches to hosts are left out.
    fn by_destination(&self, vls: u8, tables: &mut Tables) -> usize {
        let components = self.view.components();
        let switches = self.view.switch_count();
        // Of VL 1 and those after it; of the only one there is.
        let mut apart: Vec<Order<'a>> = Vec::new();
        let mut levels = vec![0_u8; tables.width()];
        let mut left_out = 0;
        for (to, gaps) in self.distances.gaps(switches).into_iter().enumerate() {
            let gaps = gaps.into_iter().map(|sw| sw as usize);
            let missing: Vec<usize> = gaps.filter(|sw| components[*sw] == components[to]).collect();
            // Managers are on hosts: no switch talks to another, and no aggregation node to a switch.
            let from_programs = missing.iter().any(|sw| self.view.programs(*sw) > 0);
            let from_ends = missing.iter().any(|sw| self.view.hosts(*sw) > 0);
            let wanted = |one: &&Destination| {
                (if one.port == 0 { from_programs } else { !missing.is_empty() }) && self.is_mine(one)
            };
            let wanted: Vec<&Destination> = self.destinations.at(to).iter().filter(wanted).collect();
            let bridges = if wanted.is_empty() { Vec::new() } else { self.bridges(to, &missing) };
            for one in wanted {
                let mut steps = self.steps(one, &bridges, tables);
                if one.port == 0 {
                    self.only_for_hosts(&mut steps);
                }
                if vls < 2 || one.port != 0 && !from_ends {
                    self.one_by_one(one, &steps, self.order(&mut apart, 0, vls, tables), tables);
                    continue;
                }
                // Responses of switches without hosts are on the VL of the request, which is the first.
                let last = if one.port == 0 { 1 } else { vls - 1 };
                let fits = (1..=last).find(|vl| {
                    let order = self.order(&mut apart, usize::from(vl - 1), vls, tables);
                    self.all_or_none(to, one, &steps, order, tables)
                });
                levels[usize::from(one.lid)] = fits.unwrap_or(0);
                if fits.is_none() && one.port != 0 {
                    left_out += missing.iter().filter(|sw| self.view.hosts(**sw) > 0).count();
                }
            }
        }
        let count = levels.iter().copied().max().map_or(1, |level| level + 1);
        if count > 1 {
            let service = Service::Destination(levels);
            tables.set_vls(VlAssignment { count, service, mapping: Mapping::Same });
        }
        left_out
    }

    /// The dependencies on one of the VLs that are used for repairs.
    fn order<'b>(
        &self,
        apart: &'b mut Vec<Order<'a>>,
        at: usize,
        vls: u8,
        tables: &Tables,
    ) -> &'b mut Order<'a> {
        while apart.len() <= at {
            let order = Order::new(self.view, self.ranks).with_search_limit(MAX_SEARCHED);
            apart.push(if vls < 2 { self.with_all(order, tables) } else { order });
        }
        &mut apart[at]
    }

    fn is_mine(&self, one: &Destination) -> bool {
        self.only.is_none_or(|only| only[usize::from(one.lid)])
    }

    /// An order with all dependencies on the VL by the present tables.
    fn with_all(&self, mut order: Order<'a>, tables: &Tables) -> Order<'a> {
        for one in self.destinations.all().iter().filter(|one| self.is_mine(one)) {
            for sw in 0..self.view.switch_count() {
                let port = tables.table(sw)[usize::from(one.lid)];
                if let Some((cable, next)) = self.wait(sw, port, one, tables) {
                    // Up-down routes never close a cycle.
                    let kept = order.wait(cable, next);
                    debug_assert!(kept.is_ok());
                }
            }
        }
        order
    }

    /// For switches that have no route, near ones first: the ports that lead to the nearest switch that has
    /// one.
    pub(crate) fn bridges(&self, to: usize, missing: &[usize]) -> Vec<Bridge> {
        let mut far = vec![0_u16; self.view.switch_count()];
        for sw in missing {
            far[*sw] = FAR;
        }
        for (sw, far) in far.iter_mut().enumerate().filter(|(_, far)| **far != FAR) {
            *far = self.distances.hops(sw, to).unwrap_or(FAR);
        }
        let mut bridges = Vec::with_capacity(missing.len());
        let mut rest: Vec<usize> = missing.to_vec();
        while !rest.is_empty() {
            let found: Vec<(usize, u16)> =
                rest.iter().filter_map(|sw| Some((*sw, self.nearest(*sw, &far)?))).collect();
            // For the nearest alone it is certain that no later one is nearer.
            let Some(least) = found.iter().map(|(_, hops)| *hops).min() else { break };
            let nearest = found.into_iter().filter(|(_, hops)| *hops == least).map(|(sw, _)| sw);
            let begin = bridges.len();
            bridges.extend(nearest.map(|sw| {
                let near = self.view.neighbours(sw).iter().filter(|near| far[near.sw as usize] == least - 1);
                Bridge { sw, ports: near.flat_map(|near| self.view.cables(sw, *near)).collect() }
            }));
            for bridge in &bridges[begin..] {
                far[bridge.sw] = least;
            }
            rest.retain(|sw| far[*sw] == FAR);
        }
        bridges
    }

    /// One hop more than the nearest neighbour that has a route.
    fn nearest(&self, sw: usize, far: &[u16]) -> Option<u16> {
        let near = self.view.neighbours(sw).iter().map(|near| far[near.sw as usize]);
        near.filter(|hops| *hops < FAR - 1).min().map(|hops| hops + 1)
    }

    /// The steps to one LID: by the port of the former tables if it is among the best; else they are spread.
    fn steps(&self, one: &Destination, bridges: &[Bridge], tables: &Tables) -> Vec<Step> {
        let step = |bridge: &Bridge| {
            let before = self.prior.and_then(|prior| prior.port(tables.switches()[bridge.sw], one.lid));
            let spread = |port: u8| (u32::from(port) + one.number) % 251;
            let port =
                bridge.ports.iter().min_by_key(|port| (Some(**port) != before, spread(**port), **port));
            port.map(|port| Step { sw: bridge.sw, port: *port })
        };
        bridges.iter().filter_map(step).collect()
    }

    /// Keeps the steps that routes from hosts need.
    fn only_for_hosts(&self, steps: &mut Vec<Step>) {
        let mut needed = vec![false; self.view.switch_count()];
        for step in steps.iter().rev() {
            needed[step.sw] |= self.view.programs(step.sw) > 0;
            if let Some((over, _)) = self.view.beyond(step.sw, step.port).filter(|_| needed[step.sw]) {
                needed[over] = true;
            }
        }
        steps.retain(|step| needed[step.sw]);
    }

    /// Enters all steps to one LID if the routes close no cycle, else none.
    fn all_or_none(
        &self,
        to: usize,
        one: &Destination,
        steps: &[Step],
        order: &mut Order<'a>,
        tables: &mut Tables,
    ) -> bool {
        let width = tables.width();
        let lid = usize::from(one.lid);
        for step in steps {
            tables.bytes_mut()[step.sw * width + lid] = step.port;
        }
        let switches = (0..self.view.switch_count()).filter(|sw| *sw != to);
        let waits: Vec<_> =
            switches.filter_map(|sw| self.wait(sw, tables.table(sw)[lid], one, tables)).collect();
        let fits = order.wait_for_all(&waits);
        if !fits {
            for step in steps {
                tables.bytes_mut()[step.sw * width + lid] = NO_PATH;
            }
        }
        fits
    }

    /// The first cable of a route and the cable that it waits for; `None` if the route ends there.
    fn wait(&self, sw: usize, port: u8, one: &Destination, tables: &Tables) -> Option<(usize, usize)> {
        let (over, _) = self.view.beyond(sw, port)?;
        let next = tables.table(over)[usize::from(one.lid)];
        self.view.beyond(over, next)?;
        Some((self.view.channel(sw, port), self.view.channel(over, next)))
    }

    /// The missing entries of one LID, each with the rest of its route. An entry that would close a cycle
    /// stays empty.
    fn one_by_one(&self, one: &Destination, steps: &[Step], order: &mut Order<'a>, tables: &mut Tables) {
        let width = tables.width();
        let lid = usize::from(one.lid);
        for step in steps {
            tables.bytes_mut()[step.sw * width + lid] = step.port;
            let mut added = Vec::new();
            let mut sw = step.sw;
            // A step leads to earlier steps, and those to tables without loops.
            let whole = loop {
                let port = tables.table(sw)[lid];
                let Some((over, _)) = self.view.beyond(sw, port) else { break port == one.port };
                match self.wait(sw, port, one, tables).map(|wait| (wait, order.wait(wait.0, wait.1))) {
                    Some((wait, Ok(true))) => added.push(wait),
                    Some((_, Err(_))) => break false,
                    _ => {}
                }
                sw = over;
            };
            if !whole {
                added.into_iter().for_each(|(cable, next)| order.forget(cable, next));
                tables.bytes_mut()[step.sw * width + lid] = NO_PATH;
            }
        }
    }
}

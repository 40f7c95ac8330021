//! Repairs tables: routes to and from switches without an up-down route, and between the few hosts
//! without one.
//!
//! A switch at the top that lost its cable to a pod still carries all traffic between hosts that needs it; but its own table can't
//! name a way into that pod, nor the pod's a way to the switch, and managers want to talk to it. Such ways go down and up again
//! in between. They are on VL 1, where nothing of the hosts is: what is for such a switch by its service level, and the
//! switch's answers because they go out on the level of the question. On that VL too nothing may come to wait for itself;
//! what would is left out.
//!
//! Hosts at switches of the top (storage, aggregation nodes) can't reach each other up and down either, nor can some leaves of
//! a damaged tree. All that is for such a host is on VL 1, or the first after it where it closes no circle, wherever it comes
//! from. Where that fits on no VL for some hosts (an aggregation node at each switch of a deep tree), VLs are given pair by pair:
//! then only what goes down and up again is on one of these, and all else stays with the ways up and down.

use super::destinations::{Destination, Destinations};
use super::order::Order;
use super::ranks::Ranks;
use super::tables::{NO_PATH, Tables};
use super::view::View;
use super::vls::{Mapping, Service, VlAssignment};
use super::ways::Ways;

mod pairs;

/// Not reached yet.
const FAR: u16 = u16::MAX;

/// Cables to look at for one entry: a fabric with many dead cables has many circles, and each is found anew.
const PATIENCE: usize = 200;

/// What ways are mended with.
pub(crate) struct Mender<'a> {
    pub(crate) view: &'a View,
    pub(crate) ranks: &'a Ranks,
    pub(crate) ways: &'a Ways,
    pub(crate) destinations: &'a Destinations,
    pub(crate) prior: Option<&'a Tables>,
    /// By identifier: those that are on this VL, if not all are.
    pub(crate) only: Option<&'a [bool]>,
}

/// A row without a way, and the ports by which it would soonest get to one.
pub(crate) struct Bridge {
    pub(crate) row: usize,
    pub(crate) ports: Vec<u8>,
}

/// A way that is missing: from a row, by a port.
struct Step {
    row: usize,
    port: u8,
}

impl<'a> Mender<'a> {
    /// Adds what is missing, as far as it may: on a VL of its own, if there are two.
    pub(crate) fn mend(&self, vls: u8, tables: &mut Tables) {
        let left_out = self.by_destination(vls, tables);
        if left_out == 0 || vls < 2 {
            return;
        }
        let before = tables.clone();
        if pairs::mend(self, vls, tables) >= left_out {
            *tables = before;
        }
    }

    /// With a VL for each destination; how many ways from hosts' switches to hosts are left out.
    fn by_destination(&self, vls: u8, tables: &mut Tables) -> usize {
        let pieces = self.view.pieces();
        let rows = self.view.rows();
        // Of VL 1 and those after it; of the only one there is.
        let mut apart: Vec<Order<'a>> = Vec::new();
        let mut levels = vec![0_u8; tables.width()];
        let mut left_out = 0;
        for (to, gaps) in self.ways.gaps(rows).into_iter().enumerate() {
            let gaps = gaps.into_iter().map(|row| row as usize);
            let missing: Vec<usize> = gaps.filter(|row| pieces[*row] == pieces[to]).collect();
            // Managers are on hosts: no switch talks to another, and no aggregation node to a switch.
            let from_programs = missing.iter().any(|row| self.view.programs(*row) > 0);
            let from_ends = missing.iter().any(|row| self.view.hosts(*row) > 0);
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
                // Answers of switches without hosts are on the VL of the question, which is then the first.
                let last = if one.port == 0 { 1 } else { vls - 1 };
                let fits = (1..=last).find(|vl| {
                    let order = self.order(&mut apart, usize::from(vl - 1), vls, tables);
                    self.questions(to, one, &steps, order, tables)
                });
                levels[usize::from(one.lid)] = fits.unwrap_or(0);
                if fits.is_none() && one.port != 0 {
                    left_out += missing.iter().filter(|row| self.view.hosts(**row) > 0).count();
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

    /// What waits for what on one of the VLs that are mended on.
    fn order<'b>(
        &self,
        apart: &'b mut Vec<Order<'a>>,
        at: usize,
        vls: u8,
        tables: &Tables,
    ) -> &'b mut Order<'a> {
        while apart.len() <= at {
            let order = Order::new(self.view, self.ranks).with_patience(PATIENCE);
            apart.push(if vls < 2 { self.with_all(order, tables) } else { order });
        }
        &mut apart[at]
    }

    fn is_mine(&self, one: &Destination) -> bool {
        self.only.is_none_or(|only| only[usize::from(one.lid)])
    }

    /// An order with all that waits on the VL by the tables as they are.
    fn with_all(&self, mut order: Order<'a>, tables: &Tables) -> Order<'a> {
        for one in self.destinations.all().iter().filter(|one| self.is_mine(one)) {
            for row in 0..self.view.rows() {
                let port = tables.table(row)[usize::from(one.lid)];
                if let Some((cable, next)) = self.wait(row, port, one, tables) {
                    // Ways up and down never close a circle.
                    let kept = order.wait(cable, next);
                    debug_assert!(kept.is_ok());
                }
            }
        }
        order
    }

    /// For rows that have no way, near ones first: the ports that lead to the nearest that has one.
    pub(crate) fn bridges(&self, to: usize, missing: &[usize]) -> Vec<Bridge> {
        let mut far = vec![0_u16; self.view.rows()];
        for row in missing {
            far[*row] = FAR;
        }
        for (row, far) in far.iter_mut().enumerate().filter(|(_, far)| **far != FAR) {
            *far = self.ways.hops(row, to).unwrap_or(FAR);
        }
        let mut bridges = Vec::with_capacity(missing.len());
        let mut rest: Vec<usize> = missing.to_vec();
        while !rest.is_empty() {
            let found: Vec<(usize, u16)> =
                rest.iter().filter_map(|row| Some((*row, self.nearest(*row, &far)?))).collect();
            // Only the nearest are sure that no later one would have been nearer.
            let Some(least) = found.iter().map(|(_, hops)| *hops).min() else { break };
            let nearest = found.into_iter().filter(|(_, hops)| *hops == least).map(|(row, _)| row);
            let begin = bridges.len();
            bridges.extend(nearest.map(|row| {
                let near =
                    self.view.neighbours(row).iter().filter(|near| far[near.row as usize] == least - 1);
                Bridge { row, ports: near.flat_map(|near| self.view.cables(row, *near)).collect() }
            }));
            for bridge in &bridges[begin..] {
                far[bridge.row] = least;
            }
            rest.retain(|row| far[*row] == FAR);
        }
        bridges
    }

    /// One hop more than the nearest neighbour that has a way.
    fn nearest(&self, row: usize, far: &[u16]) -> Option<u16> {
        let near = self.view.neighbours(row).iter().map(|near| far[near.row as usize]);
        near.filter(|hops| *hops < FAR - 1).min().map(|hops| hops + 1)
    }

    /// The steps of one identifier: by the port of former tables if it is as good as any; else they are spread.
    fn steps(&self, one: &Destination, bridges: &[Bridge], tables: &Tables) -> Vec<Step> {
        let step = |bridge: &Bridge| {
            let before = self.prior.and_then(|prior| prior.port(tables.switches()[bridge.row], one.lid));
            let spread = |port: u8| (u32::from(port) + one.number) % 251;
            let port =
                bridge.ports.iter().min_by_key(|port| (Some(**port) != before, spread(**port), **port));
            port.map(|port| Step { row: bridge.row, port: *port })
        };
        bridges.iter().filter_map(step).collect()
    }

    /// Of steps that follow each other keeps those that ways from hosts need.
    fn only_for_hosts(&self, steps: &mut Vec<Step>) {
        let mut needed = vec![false; self.view.rows()];
        for step in steps.iter().rev() {
            needed[step.row] |= self.view.programs(step.row) > 0;
            if let Some((over, _)) = self.view.beyond(step.row, step.port).filter(|_| needed[step.row]) {
                needed[over] = true;
            }
        }
        steps.retain(|step| needed[step.row]);
    }

    /// All ways to a switch or host, with what was missing.
    fn questions(
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
            tables.bytes_mut()[step.row * width + lid] = step.port;
        }
        let rows = (0..self.view.rows()).filter(|row| *row != to);
        let waits: Vec<_> =
            rows.filter_map(|row| self.wait(row, tables.table(row)[lid], one, tables)).collect();
        let fits = order.wait_for_all(&waits);
        if !fits {
            for step in steps {
                tables.bytes_mut()[step.row * width + lid] = NO_PATH;
            }
        }
        fits
    }

    /// What the first cable of a way waits for: nothing if the way ends there.
    fn wait(&self, row: usize, port: u8, one: &Destination, tables: &Tables) -> Option<(usize, usize)> {
        let (over, _) = self.view.beyond(row, port)?;
        let next = tables.table(over)[usize::from(one.lid)];
        self.view.beyond(over, next)?;
        Some((self.view.channel(row, port), self.view.channel(over, next)))
    }

    /// What was missing on ways to one identifier, each entry with the rest of its way. What would close a circle stays empty.
    fn one_by_one(&self, one: &Destination, steps: &[Step], order: &mut Order<'a>, tables: &mut Tables) {
        let width = tables.width();
        let lid = usize::from(one.lid);
        for step in steps {
            tables.bytes_mut()[step.row * width + lid] = step.port;
            let mut added = Vec::new();
            let mut row = step.row;
            // A step follows steps that were taken, and those a table without loops.
            let whole = loop {
                let port = tables.table(row)[lid];
                let Some((over, _)) = self.view.beyond(row, port) else { break port == one.port };
                match self.wait(row, port, one, tables).map(|wait| (wait, order.wait(wait.0, wait.1))) {
                    Some((wait, Ok(true))) => added.push(wait),
                    Some((_, Err(_))) => break false,
                    _ => {}
                }
                row = over;
            };
            if !whole {
                added.into_iter().for_each(|(cable, next)| order.forget(cable, next));
                tables.bytes_mut()[step.row * width + lid] = NO_PATH;
            }
        }
    }
}

//! Tables from ways and a plan, one switch beside the other.
//!
//! Each entry takes the port that the plan names, if a legal shortest way leads there. What is left over is spread over the
//! ports that carry least; an entry of former tables is kept if it is still good. A switch looks at nothing that another
//! switch chose, so that the result does not depend on the number of threads, and a fault changes only what it must.

use std::cmp::Ordering;

use rayon::prelude::*;

use super::destinations::{Destination, Destinations};
use super::plan::{CLASSES, Plan};
use super::ranks::Ranks;
use super::tables::{NO_PATH, Tables};
use super::view::{Neighbour, View};
use super::ways::Ways;

/// All that an entry depends on.
pub(crate) struct Filler<'a> {
    pub(crate) view: &'a View,
    pub(crate) ranks: Option<&'a Ranks>,
    pub(crate) ways: &'a Ways,
    pub(crate) plan: &'a Plan,
    pub(crate) destinations: &'a Destinations,
    /// Take what the plan says? Otherwise every entry goes where least is.
    pub(crate) planned: bool,
    pub(crate) prior: Option<&'a Tables>,
}

/// An entry for which the plan names no good port.
struct Left {
    destination: Destination,
    row: u32,
}

/// The ports that lead to a row, kept for the next destination there.
struct Choice {
    row: u32,
    /// The neighbour that a port leads to, and the port.
    ports: Vec<(u32, u8)>,
}

/// Entries a port.
struct Load {
    stride: usize,
    of_class: Vec<u32>,
    all: Vec<u32>,
}

impl Load {
    fn add(&mut self, class: u8, port: u8) {
        self.of_class[usize::from(class) * self.stride + usize::from(port)] += 1;
        self.all[usize::from(port)] += 1;
    }

    fn of(&self, class: u8, port: u8) -> (u32, u32) {
        let port = usize::from(port);
        (self.of_class[usize::from(class) * self.stride + port], self.all[port])
    }
}

impl Filler<'_> {
    /// Fills all tables.
    pub(crate) fn fill(&self, tables: &mut Tables) {
        let rows: Vec<&mut [u8]> = tables.rows_mut().collect();
        rows.into_par_iter().enumerate().for_each(|(row, table)| self.row(row, table));
    }

    fn row(&self, row: usize, table: &mut [u8]) {
        let stride = self.view.stride();
        let mut load = Load { stride, of_class: vec![0; CLASSES * stride], all: vec![0; stride] };
        let mut left = Vec::new();
        let mut over = Vec::new();
        for there in 0..self.view.rows() {
            let destinations = self.destinations.at(there);
            if there == row {
                for one in destinations {
                    table[usize::from(one.lid)] = one.port;
                }
                continue;
            }
            if destinations.is_empty() || self.ways.hops(row, there).is_none() {
                continue;
            }
            let up = self.planned && self.ways.is_up(row, there);
            if !up {
                over.clear();
                over.extend(self.ways.over(self.view, self.ranks, row, there));
            }
            for one in destinations {
                let port = if up { self.up(row, there, one) } else { self.down(row, &over, one) };
                match port {
                    Some(port) => {
                        table[usize::from(one.lid)] = port;
                        load.add(one.class, port);
                    }
                    None => left.push(Left { destination: *one, row: there as u32 }),
                }
            }
        }
        left.sort_by_key(|left| (left.destination.class, left.destination.number, left.destination.lid));
        let prior = self.prior.and_then(|tables| Some(tables.table(tables.row(self.view.switch(row))?)));
        let mut choice = Choice { row: u32::MAX, ports: Vec::new() };
        for left in left {
            let port = self.kept(row, &left, prior).or_else(|| self.least(row, &left, &load, &mut choice));
            if let Some(port) = port {
                table[usize::from(left.destination.lid)] = port;
                load.add(left.destination.class, port);
            }
        }
    }

    /// The plan's port, if it leads on.
    #[inline]
    fn up(&self, row: usize, there: usize, one: &Destination) -> Option<u8> {
        let port = self.plan.up(row, one.number)?;
        let (over, _) = self.view.beyond(row, port)?;
        self.ways.leads(self.ranks, row, over, there).then_some(port)
    }

    /// The only port, or the plan's among several.
    fn down(&self, row: usize, over: &[Neighbour], one: &Destination) -> Option<u8> {
        let near = match over {
            [only] if only.cables == 1 => return Some(only.port),
            _ if !self.planned => return None,
            [only] => *only,
            several => *several.iter().find(|near| self.plan.distance(near.row as usize, one.number) == 0)?,
        };
        let cables = u32::from(near.cables);
        let cable = self.plan.cable(row, near.row as usize, one.number, cables);
        self.view.cables(row, near).nth(cable as usize)
    }

    /// The port of former tables, if it is still good.
    fn kept(&self, row: usize, left: &Left, prior: Option<&[u8]>) -> Option<u8> {
        let port = *prior?.get(usize::from(left.destination.lid)).filter(|port| **port != NO_PATH)?;
        let (over, _) = self.view.beyond(row, port)?;
        self.ways.leads(self.ranks, row, over, left.row as usize).then_some(port)
    }

    /// The port that carries least, and of those the one next to where the plan points.
    fn least(&self, row: usize, left: &Left, load: &Load, choice: &mut Choice) -> Option<u8> {
        if choice.row != left.row {
            choice.row = left.row;
            choice.ports.clear();
            for near in self.ways.over(self.view, self.ranks, row, left.row as usize) {
                choice.ports.extend(self.view.cables(row, near).map(|port| (near.row, port)));
            }
        }
        let one = &left.destination;
        let mut best: Option<(u32, u32, u8, u32)> = None;
        for (over, port) in &choice.ports {
            let (own, all) = load.of(one.class, *port);
            let better = match best {
                None => true,
                Some((least, of_least, at, than)) => match (own, all).cmp(&(least, of_least)) {
                    Ordering::Less => true,
                    Ordering::Greater => false,
                    Ordering::Equal => {
                        let distance = |over: u32| self.plan.distance(over as usize, one.number);
                        (distance(*over), *port) < (distance(than), at)
                    }
                },
            };
            if better {
                best = Some((own, all, *port, *over));
            }
        }
        best.map(|(_, _, port, _)| port)
    }
}

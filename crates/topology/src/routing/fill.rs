//! Fills the tables from distances and a plan, switches in parallel.
//!
//! Each entry takes the port that the plan names, if a legal shortest route leads there. What is left over is
//! spread over the ports that carry least; an entry of former tables is kept if it is still good. A switch
//! examines nothing that another switch chose, so that the result does not depend on the number of threads,
//! and a fault changes only what it must.
//!
//! There are tens of millions of entries, nearly all by the plan: what is the same for many of them is asked
//! once. Which place a destination's number names is the same for all switches of a level, and whether the
//! routes up lead on is the same for all hosts of a leaf.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use rayon::prelude::*;

use super::destinations::{Destination, Destinations};
use super::distances::{Distances, WIDTH};
use super::plan::{CLASSES, Plan};
use super::tables::{NO_PATH, Tables};
use super::view::{Neighbour, View};

/// Times that what is spread over ports is spread anew.
const AGAIN: usize = 2;

/// All that an entry depends on.
pub(crate) struct Filler<'a> {
    pub(crate) view: &'a View,
    pub(crate) distances: &'a Distances,
    pub(crate) plan: &'a Plan,
    pub(crate) destinations: &'a Destinations,
    /// Whether entries follow the plan. Otherwise every entry takes the least loaded port.
    pub(crate) planned: bool,
    pub(crate) prior: Option<&'a Tables>,
}

/// An entry for which the plan names no good port.
struct Left {
    destination: Destination,
    sw: u32,
}

/// The ports that lead to a switch, kept for the next destination there.
struct Choice {
    sw: u32,
    /// The neighbour that a port leads to, and the port.
    ports: Vec<(u32, u8)>,
}

/// Where all destinations find their route up, by the kind of switch: in the order of destinations.
type Places = BTreeMap<(u16, u32), Vec<u32>>;

/// What a switch has above it, as the plan says.
struct Above<'a> {
    ports: &'a [u8],
    /// Where each destination's port is among them.
    places: &'a [u32],
    /// The neighbours that they lead to.
    over: Vec<u32>,
    /// Is there a cable up in each of them?
    whole: bool,
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

    fn remove(&mut self, class: u8, port: u8) {
        self.of_class[usize::from(class) * self.stride + usize::from(port)] -= 1;
        self.all[usize::from(port)] -= 1;
    }

    fn of(&self, class: u8, port: u8) -> (u32, u32) {
        let port = usize::from(port);
        (self.of_class[usize::from(class) * self.stride + port], self.all[port])
    }
}

impl Filler<'_> {
    /// Fills all tables.
    pub(crate) fn fill(&self, tables: &mut Tables) {
        let places = self.places();
        let switches: Vec<&mut [u8]> = tables.rows_mut().collect();
        switches.into_par_iter().enumerate().for_each(|(sw, table)| self.fill_switch(sw, table, &places));
    }

    fn places(&self) -> Places {
        let switches = if self.planned { self.view.switch_count() } else { 0 };
        let mut kinds: Vec<_> =
            (0..switches).map(|sw| self.plan.kind(sw)).filter(|kind| kind.1 > 0).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let of_kind = |kind| {
            let places = self.destinations.all().iter().map(|one| self.plan.place(kind, one));
            (kind, places.collect())
        };
        kinds.into_iter().map(of_kind).collect()
    }

    fn above<'b>(&'b self, sw: usize, places: &'b Places) -> Above<'b> {
        let Some(places) = places.get(&self.plan.kind(sw)) else {
            return Above { ports: &[], places: &[], over: Vec::new(), whole: false };
        };
        let ports = self.plan.ports_up(sw);
        let mut over: Vec<u32> =
            ports.iter().filter_map(|port| self.beyond_up(sw, *port)).map(|over| over as u32).collect();
        let whole = over.len() == ports.len();
        over.sort_unstable();
        over.dedup();
        Above { ports, places, over, whole }
    }

    fn fill_switch(&self, sw: usize, table: &mut [u8], places: &Places) {
        let above = self.above(sw, places);
        let mut left = Vec::new();
        for begin in (0..self.view.switch_count()).step_by(WIDTH) {
            let chunk = begin / WIDTH;
            let onward = self.distances.onward(self.view, self.plan.ranks(), sw, chunk, &above.over);
            for there in begin..(begin + WIDTH).min(self.view.switch_count()) {
                let (destinations, column) = (self.destinations.at(there), there - begin);
                if there == sw {
                    for one in destinations {
                        table[usize::from(one.lid)] = one.port;
                    }
                    continue;
                }
                if destinations.is_empty() || self.distances.hops(sw, there).is_none() {
                    continue;
                }
                let up = self.distances.is_up(sw, there);
                if up && self.planned {
                    self.up(sw, there, &above, onward.climb[column], table, &mut left);
                } else {
                    let only = (!up && onward.below[column] == 1)
                        .then(|| self.view.neighbours(sw)[usize::from(onward.only[column])]);
                    self.other(sw, there, only, table, &mut left);
                }
            }
        }
        if !left.is_empty() {
            self.spread(sw, table, left);
        }
    }

    /// Routes up by the ports of the plan, if they lead on.
    #[inline]
    fn up(
        &self,
        sw: usize,
        there: usize,
        above: &Above<'_>,
        all_climb: bool,
        table: &mut [u8],
        left: &mut Vec<Left>,
    ) {
        let destinations = self.destinations.at(there);
        let Some(places) = above.places.get(self.destinations.range(there)) else {
            left.extend(destinations.iter().map(|one| Left { destination: *one, sw: there as u32 }));
            return;
        };
        for (one, place) in destinations.iter().zip(places) {
            let port = above.ports.get(*place as usize).copied().unwrap_or(0);
            let leads = |over| self.distances.climbs(sw, over, there);
            if port != 0 && above.whole && all_climb || self.beyond_up(sw, port).is_some_and(leads) {
                table[usize::from(one.lid)] = port;
            } else {
                left.push(Left { destination: *one, sw: there as u32 });
            }
        }
    }

    /// The neighbour above to which a port of the plan leads. All do, unless a cable was cut or moved since
    /// the plan was made.
    fn beyond_up(&self, sw: usize, port: u8) -> Option<usize> {
        let (over, _) = self.view.beyond(sw, port).filter(|_| port != 0)?;
        self.plan.ranks().is_up(sw, over).then_some(over)
    }

    /// Routes down, and all where there is no plan: the only port, or the plan's among several. `only` is the
    /// one neighbour that leads there, if that is known.
    fn other(
        &self,
        sw: usize,
        there: usize,
        only: Option<Neighbour>,
        table: &mut [u8],
        left: &mut Vec<Left>,
    ) {
        let destinations = self.destinations.at(there);
        let over: Vec<Neighbour> = match only {
            // Nearly always; and then there is nothing to remember.
            Some(near) if near.cables == 1 => Vec::new(),
            Some(near) => vec![near],
            None => self.distances.over(self.view, self.plan.ranks(), sw, there).collect(),
        };
        if let Some(near) = only.or(over.first().copied()).filter(|near| over.len() < 2 && near.cables == 1) {
            for one in destinations {
                table[usize::from(one.lid)] = near.port;
            }
            return;
        }
        for one in destinations {
            match self.down_by_plan(sw, &over, one).filter(|_| self.planned) {
                Some(port) => table[usize::from(one.lid)] = port,
                None => left.push(Left { destination: *one, sw: there as u32 }),
            }
        }
    }

    fn down_by_plan(&self, sw: usize, over: &[Neighbour], one: &Destination) -> Option<u8> {
        let near = match over {
            [only] => *only,
            several => *several.iter().find(|near| self.plan.distance(near.sw as usize, one) == 0)?,
        };
        let cables = u32::from(near.cables);
        let cable = self.plan.cable(sw, near.sw as usize, one, cables);
        self.view.cables(sw, near).nth(cable as usize)
    }

    /// The port that the plan names for one entry, if it leads on.
    pub(crate) fn plan_says(&self, sw: usize, there: usize, one: &Destination) -> Option<u8> {
        if !self.distances.is_up(sw, there) {
            let over: Vec<Neighbour> = self.distances.over(self.view, self.plan.ranks(), sw, there).collect();
            return self.down_by_plan(sw, &over, one);
        }
        let kind = self.plan.kind(sw);
        let place = (kind.1 > 0).then(|| self.plan.place(kind, one))?;
        let port = *self.plan.ports_up(sw).get(place as usize)?;
        self.beyond_up(sw, port).is_some_and(|over| self.distances.climbs(sw, over, there)).then_some(port)
    }

    /// What the plan does not place goes where least is.
    fn spread(&self, sw: usize, table: &mut [u8], mut left: Vec<Left>) {
        let mut load = self.load(sw, table);
        left.sort_by_key(|left| (left.destination.class, left.destination.number, left.destination.lid));
        let prior = self.prior.and_then(|tables| Some(tables.table(tables.index_of(self.view.switch(sw))?)));
        let mut choice = Choice { sw: u32::MAX, ports: Vec::new() };
        left.retain(|left| {
            let kept = self.kept(sw, left, prior);
            let port = kept.or_else(|| self.least(sw, left, &load, &mut choice));
            if let Some(port) = port {
                table[usize::from(left.destination.lid)] = port;
                load.add(left.destination.class, port);
            }
            kept.is_none() && port.is_some()
        });
        // The first did not know which ports the last would have no choice but to take.
        for _ in 0..AGAIN {
            for left in &left {
                let (class, entry) = (left.destination.class, &mut table[usize::from(left.destination.lid)]);
                load.remove(class, *entry);
                *entry = self.least(sw, left, &load, &mut choice).unwrap_or(*entry);
                load.add(class, *entry);
            }
        }
    }

    /// What is placed already.
    fn load(&self, sw: usize, table: &[u8]) -> Load {
        let stride = self.view.stride();
        let mut load = Load { stride, of_class: vec![0; CLASSES * stride], all: vec![0; stride] };
        let own = self.destinations.range(sw);
        let all = self.destinations.all();
        for one in all[..own.start].iter().chain(&all[own.end..]) {
            let port = table[usize::from(one.lid)];
            if port != NO_PATH {
                load.add(one.class, port);
            }
        }
        load
    }

    /// The port of former tables, if it is still good.
    fn kept(&self, sw: usize, left: &Left, prior: Option<&[u8]>) -> Option<u8> {
        let port = *prior?.get(usize::from(left.destination.lid)).filter(|port| **port != NO_PATH)?;
        let (over, _) = self.view.beyond(sw, port)?;
        self.distances.leads(self.plan.ranks(), sw, over, left.sw as usize).then_some(port)
    }

    /// The port that carries least, and of those the one next to where the plan points.
    fn least(&self, sw: usize, left: &Left, load: &Load, choice: &mut Choice) -> Option<u8> {
        if choice.sw != left.sw {
            choice.sw = left.sw;
            choice.ports.clear();
            for near in self.distances.over(self.view, self.plan.ranks(), sw, left.sw as usize) {
                choice.ports.extend(self.view.cables(sw, near).map(|port| (near.sw, port)));
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
                        let distance = |over: u32| self.plan.distance(over as usize, one);
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

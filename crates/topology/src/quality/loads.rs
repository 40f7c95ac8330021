//! The number of destinations per port, and the lengths of routes.

use std::collections::HashMap;

use rayon::prelude::*;

use super::paths::{Host, Paths};
use crate::routing::ranks::Ranks;
use crate::routing::{Tables, View};
use crate::{Graph, PortIx};

/// Destinations of the ports of switches that lead to switches. Counted are LIDs of hosts that some other
/// host's route leads through the port to, as `ibdmchk` counts them; not those that only stand in a table,
/// and not those of aggregation nodes, which `ibdmchk` takes for hosts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Loads {
    /// Ports by the number of their destinations: how many ports have so many.
    pub histogram: Vec<(u32, u32)>,
    /// Ports that lead up, as far as the fabric has an up: most and mean destinations, and the port with the
    /// most.
    pub up: Side,
    /// Ports that lead down.
    pub down: Side,
    /// Pairs of hosts by the cables between them, those of the hosts too: how many pairs have so many.
    pub hops: Vec<(u32, u64)>,
    /// Pairs of hosts (each direction is one) that the tables do not lead to each other.
    pub lost: u64,
    /// Pairs with the longest route: where from and where to.
    pub longest: Option<(PortIx, PortIx)>,
}

/// Ports of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Side {
    /// Most destinations of a port.
    pub most: u32,
    /// Destinations of a port in the mean, ports without any among them.
    pub mean: f64,
    /// The first port with the most.
    pub port: Option<PortIx>,
}

impl Loads {
    /// Most destinations of any port.
    #[must_use]
    pub fn most(&self) -> u32 {
        self.up.most.max(self.down.most)
    }
}

/// Counted by one thread.
#[derive(Clone)]
struct Counted {
    /// Per cable: LIDs.
    through: Vec<u32>,
    hops: Vec<u64>,
    lost: u64,
    longest: Option<(u32, PortIx, PortIx)>,
}

/// Counts destinations and hops.
#[must_use]
pub fn loads(graph: &Graph, tables: &Tables) -> Loads {
    let view = View::of(graph);
    let paths = Paths::of(graph, &view, tables);
    let parts = rayon::current_num_threads().max(1) * 2;
    let each = paths.hosts.len().div_ceil(parts).max(1);
    let counted: Vec<Counted> =
        paths.hosts.par_chunks(each).map(|hosts| count(&paths, tables, hosts)).collect();
    let channels = view.switch_count() * view.stride();
    let mut all = Counted { through: vec![0; channels], hops: Vec::new(), lost: 0, longest: None };
    for part in counted {
        all.through.iter_mut().zip(part.through).for_each(|(all, part)| *all += part);
        all.hops.resize(all.hops.len().max(part.hops.len()), 0);
        all.hops.iter_mut().zip(part.hops).for_each(|(all, part)| *all += part);
        all.lost += part.lost;
        if part.longest.map(|longest| longest.0) > all.longest.map(|longest| longest.0) {
            all.longest = part.longest;
        }
    }
    summary(graph, &view, &all)
}

/// The cables and hops of all routes to some hosts.
fn count(paths: &Paths<'_>, tables: &Tables, hosts: &[Host]) -> Counted {
    let switches = paths.view.switch_count();
    let mut counted = Counted {
        through: vec![0; switches * paths.view.stride()],
        hops: Vec::new(),
        lost: 0,
        longest: None,
    };
    let sources = sources(&paths.hosts);
    let mut hops = vec![0_u32; switches];
    let mut path = Vec::new();
    for host in hosts {
        for offset in 0..1_u16 << tables.lids().lmc() {
            let lid = host.lid + offset;
            hops.fill(0);
            for Source { sw, ports, first, last } in &sources {
                let far = follow(paths, host, lid, *sw, &mut hops, &mut path, &mut counted.through);
                // No route from a port to itself.
                let pairs = u64::from(*ports) - u64::from(*sw == host.sw);
                let Some(far) = far else {
                    counted.lost += pairs;
                    continue;
                };
                let cables = far as usize + 1;
                counted.hops.resize(counted.hops.len().max(cables + 1), 0);
                counted.hops[cables] += pairs;
                if pairs > 0 && Some(far) > counted.longest.map(|longest| longest.0) {
                    let from = if *first == host.end { *last } else { *first };
                    counted.longest = Some((far, from, host.end));
                }
            }
        }
    }
    counted
}

/// A switch with hosts, whose routes are the same: how many ports it has that they are at, the first and the
/// last of them.
#[derive(Debug, Clone, Copy)]
struct Source {
    sw: usize,
    ports: u32,
    first: PortIx,
    last: PortIx,
}

/// Switches with hosts, each once, wherever its hosts stand in the file.
fn sources(hosts: &[Host]) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    let mut place = HashMap::new();
    for host in hosts {
        let at = *place.entry(host.sw).or_insert(sources.len());
        if at == sources.len() {
            sources.push(Source { sw: host.sw, ports: 0, first: host.end, last: host.end });
        }
        sources[at].ports += 1;
        sources[at].last = host.end;
    }
    sources
}

/// Hops that mean that there is no route.
const LOST: u32 = u32::MAX;

/// Follows the route from a switch until it joins one that is known; `hops` are switches on the path to the
/// host, 0 where nothing is known yet. Every cable on it carries the LID.
fn follow(
    paths: &Paths<'_>,
    host: &Host,
    lid: u16,
    from: usize,
    hops: &mut [u32],
    path: &mut Vec<u32>,
    through: &mut [u32],
) -> Option<u32> {
    path.clear();
    let mut sw = from;
    let mut far = loop {
        if hops[sw] != 0 {
            break hops[sw];
        }
        let port = paths.port(sw, lid);
        // Until it is known the route from here counts as lost, which ends a loop.
        hops[sw] = LOST;
        path.push(sw as u32);
        if sw == host.sw && port == host.port {
            break 0;
        }
        match paths.view.beyond(sw, port) {
            Some((there, _)) => {
                through[paths.view.channel(sw, port)] += 1;
                sw = there;
            }
            None => break LOST,
        }
    };
    for sw in path.drain(..).rev() {
        far = if far == LOST { LOST } else { far + 1 };
        hops[sw as usize] = far;
    }
    (far != LOST).then_some(far)
}

fn summary(graph: &Graph, view: &View, counted: &Counted) -> Loads {
    let ranks = Ranks::of_leaves(view);
    let mut sides = [Side::default(); 2];
    let mut ports = [0_u32; 2];
    let mut sums = [0_u64; 2];
    let most = counted.through.iter().copied().max().unwrap_or(0);
    let mut histogram = vec![0_u32; most as usize + 1];
    for sw in 0..view.switch_count() {
        for port in 1..view.stride() as u8 {
            let Some((there, _)) = view.beyond(sw, port) else { continue };
            let count = counted.through[view.channel(sw, port)];
            let side = usize::from(!ranks.is_up(sw, there));
            histogram[count as usize] += 1;
            ports[side] += 1;
            sums[side] += u64::from(count);
            if count > sides[side].most {
                sides[side].most = count;
                sides[side].port = graph.port(view.switch(sw), port);
            }
        }
    }
    for side in 0..2 {
        sides[side].mean = sums[side] as f64 / f64::from(ports[side].max(1));
    }
    let hops = counted.hops.iter().enumerate().filter(|(_, pairs)| **pairs > 0);
    let histogram = histogram.into_iter().enumerate().filter(|(_, ports)| *ports > 0);
    Loads {
        histogram: histogram.map(|(count, ports)| (count as u32, ports)).collect(),
        up: sides[0],
        down: sides[1],
        hops: hops.map(|(cables, pairs)| (cables as u32, *pairs)).collect(),
        lost: counted.lost,
        longest: counted.longest.map(|(_, from, to)| (from, to)),
    }
}

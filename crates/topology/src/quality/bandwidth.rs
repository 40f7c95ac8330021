//! The bandwidth of a host when many hosts send at once.
//!
//! Static routes, equal links, endless messages: a flow gets the share of its most crowded cable, one over
//! the number of flows there. The mean of that over all flows and many patterns is what Hoefler, Schneider
//! and Lumsdaine call effective bisection bandwidth ("Multistage switches are not crossbars", 2008), and what
//! their simulator ORCS computes. It is not max-min fair: what a flow leaves unused is given to no other.

use rayon::prelude::*;
use seeded_random::SplitMix64;

use super::paths::Paths;
use crate::routing::{Tables, View};
use crate::{Graph, PortIx};

/// The pattern of sources and destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Hosts in random pairs, both of a pair sending to the other; so many patterns from this seed.
    Bisection {
        /// How many patterns.
        count: u32,
        /// From which they are made.
        seed: u64,
    },
    /// Every host sends to the one so many places after it, in the order of the graph; for each distance that
    /// is a multiple of `step`.
    Shifts {
        /// Every how-many-th distance.
        step: u32,
    },
}

/// What is left, 1 being all.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Bandwidth {
    /// Over all flows and patterns.
    pub mean: f64,
    /// Of the worst pattern.
    pub worst_pattern: f64,
    /// Of the worst flow.
    pub worst_flow: f64,
    /// The worst flow's ends: a pair that shares a cable with most others.
    pub worst_pair: Option<(PortIx, PortIx)>,
    /// How many patterns there were.
    pub patterns: u32,
    /// Flows that the tables lead nowhere; they count as nothing left.
    pub lost: u64,
}

/// Of one pattern.
struct One {
    sum: f64,
    flows: u64,
    lost: u64,
    crowd: u32,
    pair: Option<(PortIx, PortIx)>,
}

/// Computes what is left of a host's bandwidth under a pattern.
#[must_use]
pub fn bandwidth(graph: &Graph, tables: &Tables, pattern: Pattern) -> Bandwidth {
    let view = View::of(graph);
    let paths = Paths::of(graph, &view, tables);
    let hosts = paths.hosts.len();
    if hosts < 2 {
        return Bandwidth::default();
    }
    let count = match pattern {
        Pattern::Bisection { count, .. } => count,
        Pattern::Shifts { step } => (hosts as u32 - 1).div_ceil(step.max(1)),
    };
    let all: Vec<One> =
        (0..count).into_par_iter().map(|index| one(&paths, &flows(pattern, index, hosts))).collect();
    let mut result = Bandwidth { worst_pattern: f64::INFINITY, patterns: count, ..Bandwidth::default() };
    let (mut sum, mut flows, mut crowd) = (0.0, 0, 0);
    for one in &all {
        sum += one.sum;
        flows += one.flows;
        result.lost += one.lost;
        result.worst_pattern = result.worst_pattern.min(one.sum / one.flows.max(1) as f64);
        if one.crowd > crowd {
            crowd = one.crowd;
            result.worst_pair = one.pair;
        }
    }
    result.mean = sum / flows.max(1) as f64;
    result.worst_flow = 1.0 / f64::from(crowd.max(1));
    result
}

/// Sources and destinations by their places among the hosts.
fn flows(pattern: Pattern, index: u32, hosts: usize) -> Vec<(u32, u32)> {
    match pattern {
        Pattern::Shifts { step } => {
            let by = 1 + index as usize * step.max(1) as usize;
            (0..hosts).map(|host| (host as u32, ((host + by) % hosts) as u32)).collect()
        }
        Pattern::Bisection { seed, .. } => {
            let mut order: Vec<u32> = (0..hosts as u32).collect();
            SplitMix64::new(seed ^ u64::from(index).wrapping_mul(0xD134_2543_DE82_EF95)).shuffle(&mut order);
            let pairs = order.chunks_exact(2);
            pairs.flat_map(|pair| [(pair[0], pair[1]), (pair[1], pair[0])]).collect()
        }
    }
}

fn one(paths: &Paths<'_>, flows: &[(u32, u32)]) -> One {
    let mut crowd = vec![0_u16; paths.view.switch_count() * paths.view.stride()];
    let mut channels: Vec<u32> = Vec::with_capacity(flows.len() * 6);
    let mut ends = Vec::with_capacity(flows.len());
    let mut path = Vec::new();
    let mut result = One { sum: 0.0, flows: flows.len() as u64, lost: 0, crowd: 0, pair: None };
    for (from, to) in flows {
        let (from, to) = (&paths.hosts[*from as usize], &paths.hosts[*to as usize]);
        if paths.trace(from, to, to.lid, &mut path).is_none() {
            result.lost += 1;
            continue;
        }
        for channel in &path {
            crowd[*channel as usize] = crowd[*channel as usize].saturating_add(1);
        }
        channels.extend_from_slice(&path);
        ends.push((channels.len(), from.end, to.end));
    }
    let mut begin = 0;
    for (end, from, to) in ends {
        let most = channels[begin..end].iter().map(|channel| crowd[*channel as usize]).max().unwrap_or(1);
        begin = end;
        result.sum += 1.0 / f64::from(most);
        if u32::from(most) > result.crowd {
            result.crowd = u32::from(most);
            result.pair = Some((from, to));
        }
    }
    result
}

//! Which of several equal ports the engine `fattree` uses for a destination: a closed form over the tree's
//! positions.
//!
//! Destinations are numbered along the leaves. At each level the number's next digit says which of the planes
//! above the route leads through; all switches agree about the digit, so that routes to one destination join
//! early, routes to different ones stay apart, and the routes depend on the tree alone (D-Mod-K: Zahavi,
//! "D-Mod-K routing providing non-blocking traffic for shift permutations", 2010; for damaged trees Dmodc:
//! Gliksberg et al., IEEE Micro 40(1), 2020).
//!
//! A plane is what hangs together when all levels below are taken away. That holds in a damaged tree too, so
//! that a switch without one of its cables still knows which plane is missing.

use std::collections::BTreeMap;

use super::destinations::Destination;
use super::lids::Lids;
use super::ranks::Ranks;
use super::view::View;
use crate::{Graph, Kind, NodeIx};

/// Levels that a plan has at most; a graph with more is no tree worth planning.
const MOST_LEVELS: u16 = 8;
/// A plane that has less than one in this many of the largest plane's switches is a fragment, and gets no
/// digit.
const FRAGMENT: usize = 4;
/// Parts of a cable that means are counted in.
const PART: u32 = 64;
/// No position.
const NONE: u32 = u32::MAX;

/// What a destination is, for balancing each kind on its own.
pub(crate) const CLASSES: usize = 3;

/// Positions in the tree, and the numbers of all destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Position of a switch among the planes that its lower neighbours choose from.
    label: Vec<u32>,
    /// How many positions a switch's lower neighbours choose from.
    among: Vec<u32>,
    /// By class, rank and number: the destination's place among those that share its positions of all ranks
    /// below. Its digit for the rank is taken of that.
    index: [Vec<Vec<u32>>; CLASSES],
    /// Parallel cables between a rank and the next, as most trunks have them.
    cables: Vec<u32>,
    /// What trunks have beyond that in the mean, in parts of a cable ([`PART`]).
    beyond: Vec<u32>,
    ranks: Ranks,
    /// Per switch: how many positions it chooses from when it goes up, and where its ports begin in `ports`.
    up: Vec<(u32, u32)>,
    /// Ports by position and cable; 0 is none.
    ports: Vec<u8>,
    /// Number of the destination that has a LID.
    number: Vec<u32>,
    class: Vec<u8>,
    /// Switches along the leaves.
    along: Vec<u32>,
}

impl Plan {
    /// Of a graph with ranks. `apart` are hosts (storage, for example) that are numbered, and so balanced,
    /// among themselves.
    #[must_use]
    pub fn of(graph: &Graph, view: &View, ranks: &Ranks, lids: &Lids, apart: &[NodeIx]) -> Self {
        let tree = ranks.top() <= MOST_LEVELS && ranks.top() > 0;
        let shape = if tree { Shape::of(view, ranks) } else { Shape::none(view.switch_count()) };
        let levels = usize::from(ranks.top()) + 1;
        let mut plan = Self {
            index: Default::default(),
            cables: vec![1; levels],
            beyond: vec![0; levels],
            ranks: ranks.clone(),
            up: Vec::with_capacity(view.switch_count()),
            ports: Vec::new(),
            number: vec![0; usize::from(lids.top()) + 1],
            class: vec![0; usize::from(lids.top()) + 1],
            label: shape.label,
            among: shape.among,
            along: shape.along,
        };
        let rounds = if tree { plan.measure(view, ranks) } else { vec![(1, 1); levels] };
        plan.collect_ports(view, ranks);
        let counts = plan.count(graph, view, lids, apart);
        plan.index = counts.map(|count| indices(count + (1 << lids.lmc()), &rounds));
        plan
    }

    /// Cables of all levels. For each how many numbers go up before a port has the next, and from how many
    /// positions is chosen.
    fn measure(&mut self, view: &View, ranks: &Ranks) -> Vec<(u32, u32)> {
        let levels = self.cables.len();
        let mut cables = vec![BTreeMap::<u32, usize>::new(); levels];
        let mut widest = vec![1; levels];
        for sw in 0..view.switch_count() {
            let rank = usize::from(ranks.rank(sw));
            if self.label[sw] != NONE {
                widest[rank - 1] = self.among[sw].max(widest[rank - 1]);
            }
            let above = view.neighbours(sw).iter().filter(|near| ranks.is_up(sw, near.sw as usize));
            for near in above {
                *cables[rank].entry(u32::from(near.cables)).or_default() += 1;
            }
        }
        for (rank, trunks) in cables.iter().enumerate() {
            (self.cables[rank], self.beyond[rank]) = usual_cables(trunks);
        }
        (0..levels).map(|rank| (self.round(rank, widest[rank]), widest[rank])).collect()
    }

    fn collect_ports(&mut self, view: &View, ranks: &Ranks) {
        for sw in 0..view.switch_count() {
            let begin = self.ports.len() as u32;
            let planned = |near: u32| {
                let near = near as usize;
                ranks.rank(near) == ranks.rank(sw) + 1 && self.label[near] != NONE
            };
            let above: Vec<_> = view.neighbours(sw).iter().copied().filter(|near| planned(near.sw)).collect();
            // A leaf that hangs from the top is beside all planes: its hosts' routes go where least is.
            let above = if hangs_high(ranks, sw) { Vec::new() } else { above };
            let among = above.first().map_or(0, |near| self.among[near.sw as usize]);
            self.up.push((among, begin));
            let cables = self.cables[usize::from(ranks.rank(sw))];
            self.ports.resize(self.ports.len() + (among * cables) as usize, 0);
            for near in above {
                let label = self.label[near.sw as usize];
                for (cable, port) in view.cables(sw, near).enumerate().take(cables as usize) {
                    if label < among {
                        self.ports[begin as usize + (label * cables) as usize + cable] = port;
                    }
                }
            }
        }
    }

    /// Numbers the destinations along the leaves; how many there are of each class.
    fn count(&mut self, graph: &Graph, view: &View, lids: &Lids, apart: &[NodeIx]) -> [u32; CLASSES] {
        let mut special = vec![false; graph.node_count()];
        for node in apart {
            special[node.index()] = true;
        }
        let mut next = [0_u32; CLASSES];
        for sw in self.along.clone() {
            let switch = view.switch(sw as usize);
            for near in graph.ports(switch) {
                let end = if graph.number(near) == 0 { Some(near) } else { graph.peer(near) };
                let Some(end) = end else { continue };
                let owner = graph.owner(end);
                if graph.kind(owner) == Kind::Switch && owner != switch {
                    continue;
                }
                let Some(base) = lids.base(end) else { continue };
                let class = match graph.kind(owner) {
                    Kind::Switch => 2,
                    _ => u8::from(special[owner.index()] || graph.is_aggregation(owner)),
                };
                let several = if class == 2 { 1 } else { 1 << lids.lmc() };
                for lid in 0..several {
                    // The LIDs of one port take the routes of its neighbours: different planes.
                    self.number[usize::from(base) + lid] = next[usize::from(class)] + lid as u32;
                    self.class[usize::from(base) + lid] = class;
                }
                next[usize::from(class)] += 1;
            }
        }
        next
    }

    /// Number of a destination among those of its class.
    #[inline]
    pub(crate) fn number(&self, lid: u16) -> u32 {
        self.number[usize::from(lid)]
    }

    /// Hosts are 0, hosts apart and aggregation nodes 1, switches 2.
    #[inline]
    pub(crate) fn class(&self, lid: u16) -> usize {
        usize::from(self.class[usize::from(lid)])
    }

    /// The ranks, which define up and down.
    #[must_use]
    pub fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// How many switches it places.
    #[must_use]
    pub fn switch_count(&self) -> usize {
        self.label.len()
    }

    /// The ports by which a switch may go up, by their places; 0 where one is missing. Which of them a number
    /// takes is its [`place`](Self::place).
    #[inline]
    pub(crate) fn ports_up(&self, sw: usize) -> &[u8] {
        let (among, begin) = self.up[sw];
        let cables = self.cables[usize::from(self.ranks.rank(sw))];
        &self.ports[begin as usize..][..(among * cables) as usize]
    }

    /// Switches of one kind find a number at the same place among their [`ports_up`](Self::ports_up).
    #[inline]
    pub(crate) fn kind(&self, sw: usize) -> (u16, u32) {
        (self.ranks.rank(sw), self.up[sw].0)
    }

    /// A destination's place among those of its class that share its positions of all lower ranks.
    #[inline]
    fn index(&self, rank: usize, one: &Destination) -> u32 {
        let of_rank = self.index[usize::from(one.class)].get(rank);
        of_rank.and_then(|index| index.get(one.number as usize)).copied().unwrap_or(0)
    }

    /// How many numbers go up from a switch before a port has the next: one for each cable, those beyond the
    /// usual ones too.
    fn round(&self, rank: usize, among: u32) -> u32 {
        let usual = among.saturating_mul(self.cables[rank]);
        usual.saturating_add(among.saturating_mul(self.beyond[rank]).saturating_add(PART / 2) / PART)
    }

    /// The place of a number among the [`ports_up`](Self::ports_up) of switches of a [`kind`](Self::kind)
    /// that has any. Past their end are numbers for cables that some trunks have and others lack.
    pub(crate) fn place(&self, (rank, among): (u16, u32), one: &Destination) -> u32 {
        let rank = usize::from(rank);
        let rest = self.index(rank, one) % self.round(rank, among);
        let cables = self.cables[rank];
        if rest < among * cables { rest % among * cables + rest / among } else { u32::MAX }
    }

    /// How far a switch of the rank below, or of the same plane, is from where the number's digit points: 0
    /// is the right one.
    #[inline]
    pub(crate) fn distance(&self, sw: usize, one: &Destination) -> u32 {
        let label = self.label[sw];
        if label == NONE {
            return 0;
        }
        let among = self.among[sw];
        let rank = usize::from(self.ranks.rank(sw)) - 1;
        let digit = self.index(rank, one) % self.round(rank, among) % among;
        (label + among - digit) % among
    }

    /// The one of several cables between two switches that a number takes.
    #[inline]
    pub(crate) fn cable(&self, a: usize, b: usize, one: &Destination, cables: u32) -> u32 {
        let rank = usize::from(self.ranks.rank(a).min(self.ranks.rank(b)));
        let upper = if self.ranks.rank(a) < self.ranks.rank(b) { b } else { a };
        let among = if self.label[upper] == NONE { 1 } else { self.among[upper] };
        self.index(rank, one) % self.round(rank, among) / among % cables
    }
}

/// Places of numbers at each rank: at the lowest the numbers themselves, at each further rank one after the
/// other among those that go over the same positions below, by whatever cable. So the destinations of a
/// subtree that come to a switch have places in a row, and use all of its cables, however many hosts its
/// leaves have. `rounds` are those of [`Plan::measure`].
fn indices(count: u32, rounds: &[(u32, u32)]) -> Vec<Vec<u32>> {
    let mut index: Vec<u32> = (0..count).collect();
    let mut key: Vec<u32> = vec![0; count as usize];
    let mut all = Vec::with_capacity(rounds.len());
    for (round, among) in rounds {
        let mut known: BTreeMap<(u32, u32), (u32, u32)> = BTreeMap::new();
        let mut next = index.clone();
        for (next, key) in next.iter_mut().zip(&mut key) {
            let fresh = known.len() as u32;
            let (own, seen) =
                known.entry((*key, *next % (*round).max(1) % (*among).max(1))).or_insert((fresh, 0));
            (*key, *next) = (*own, *seen);
            *seen += 1;
        }
        all.push(std::mem::replace(&mut index, next));
    }
    all
}

/// How many cables most trunks of a rank have, from how many have so many: three of five have at least these,
/// so that the faults of a trunk do not count for all. And what they have beyond that in the mean, in parts
/// of a cable.
pub(crate) fn usual_cables(trunks: &BTreeMap<u32, usize>) -> (u32, u32) {
    let all: usize = trunks.values().sum();
    let (mut rest, mut usual, mut sum) = (all, 1, 0);
    for (cables, count) in trunks {
        if rest * 5 >= all * 3 {
            usual = *cables;
        }
        rest -= count;
        sum += *cables as usize * count;
    }
    let parts = (sum * PART as usize).div_ceil(all.max(1)) as u32;
    (usual, parts.saturating_sub(usual * PART))
}

/// Is it a leaf above the lowest rank? No route leads through it, so it joins no planes.
fn hangs_high(ranks: &Ranks, sw: usize) -> bool {
    ranks.rank(sw) > 0 && ranks.is_leaf(sw)
}

/// Positions of switches in planes.
struct Shape {
    label: Vec<u32>,
    among: Vec<u32>,
    along: Vec<u32>,
}

impl Shape {
    fn none(switches: usize) -> Self {
        Self { label: vec![NONE; switches], among: vec![1; switches], along: (0..switches as u32).collect() }
    }

    fn of(view: &View, ranks: &Ranks) -> Self {
        let mut shape = Self::none(view.switch_count());
        let pods: Vec<Vec<u32>> =
            (0..=ranks.top()).map(|top| view.components_of(|sw| ranks.rank(sw) <= top)).collect();
        let mut parents = view.components();
        for rank in 1..=ranks.top() {
            let planes = view.components_of(|sw| ranks.rank(sw) >= rank && !hangs_high(ranks, sw));
            shape.place(ranks, rank, &parents, &planes, &pods[usize::from(rank)]);
            parents = planes;
        }
        let mut along: Vec<u32> = shape.along.clone();
        // Within the largest pod first by the smaller ones that it is made of.
        along.sort_by_key(|sw| {
            let of_switch: Vec<u32> = pods.iter().rev().map(|pod| pod[*sw as usize]).collect();
            (ranks.rank(*sw as usize), of_switch, *sw)
        });
        shape.along = along;
        shape
    }

    /// Gives the switches of a rank their positions: plane by plane within what hangs together one level
    /// below, and within a plane one after the other in each pod.
    fn place(&mut self, ranks: &Ranks, rank: u16, parents: &[u32], planes: &[u32], pods: &[u32]) {
        let switches = (0..planes.len()).filter(|sw| ranks.rank(*sw) == rank && !hangs_high(ranks, *sw));
        // (parent, plane) → (switches, pod → switches)
        let mut members: BTreeMap<(u32, u32), BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
        for sw in switches {
            let plane = members.entry((parents[sw], planes[sw])).or_default();
            plane.entry(pods[sw]).or_default().push(sw as u32);
        }
        let mut largest: BTreeMap<u32, usize> = BTreeMap::new();
        for ((parent, _), pods) in &members {
            let size: usize = pods.values().map(Vec::len).sum();
            let most = largest.entry(*parent).or_default();
            *most = size.max(*most);
        }
        let mut next: BTreeMap<u32, u32> = BTreeMap::new();
        for ((parent, _), pods) in &members {
            let size: usize = pods.values().map(Vec::len).sum();
            if size * FRAGMENT < largest[parent] {
                continue;
            }
            let base = next.entry(*parent).or_default();
            for switch_and_place in pods.values().flat_map(|switches| switches.iter().enumerate()) {
                self.label[*switch_and_place.1 as usize] = *base + switch_and_place.0 as u32;
            }
            *base += pods.values().map(Vec::len).max().unwrap_or(0) as u32;
        }
        for ((parent, _), pods) in &members {
            for sw in pods.values().flatten() {
                self.among[*sw as usize] = next[parent];
            }
        }
    }
}

//! Which of equal ways a destination should take: a closed form over the tree's positions.
//!
//! Destinations are numbered along the leaves. At each level the number's next digit says which of the planes above the way
//! leads through; all switches agree about the digit, so that ways to one destination join early, ways to different ones
//! stay apart, and the way of one destination does not depend on any other (D-Mod-K: Zahavi, "D-Mod-K routing providing
//! non-blocking traffic for shift permutations", 2010; for damaged trees Dmodc: Gliksberg et al., IEEE Micro 40(1), 2020).
//!
//! A plane is what hangs together when all levels below are taken away. That holds in a damaged tree too, so that a switch
//! without one of its cables still knows which plane is missing.

use std::collections::BTreeMap;

use super::lids::Lids;
use super::ranks::Ranks;
use super::view::View;
use crate::{Graph, Kind, NodeIx};

/// Levels that a plan has at most; a graph with more is no tree worth planning.
const MOST_LEVELS: u16 = 8;
/// A plane that has less than one in this many of the largest plane's switches is a fragment, and gets no digit.
const FRAGMENT: usize = 4;
/// No position.
const NONE: u32 = u32::MAX;

/// What a destination is, for balancing each kind on its own.
pub(crate) const CLASSES: usize = 3;

/// Positions in the tree, and the numbers of all destinations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Position of a row among the planes that its lower neighbours choose from.
    label: Vec<u32>,
    /// How many positions a row's lower neighbours choose from.
    among: Vec<u32>,
    /// What a destination's number is divided by before its digit for this rank is taken.
    divisor: Vec<u32>,
    /// Parallel cables between a rank and the next.
    cables: Vec<u32>,
    ranks: Ranks,
    /// Per row: how many positions it chooses from when it goes up, and where its ports begin in `ports`.
    up: Vec<(u32, u32)>,
    /// Ports by position and cable; 0 is none.
    ports: Vec<u8>,
    /// Number of the destination that answers to an identifier.
    number: Vec<u32>,
    class: Vec<u8>,
    /// Rows along the leaves.
    along: Vec<u32>,
}

impl Plan {
    /// Of a graph with ranks. `apart` are hosts (storage, for example) that are numbered, and so balanced, among themselves.
    #[must_use]
    pub fn of(graph: &Graph, view: &View, ranks: &Ranks, lids: &Lids, apart: &[NodeIx]) -> Self {
        let tree = ranks.top() <= MOST_LEVELS && ranks.top() > 0;
        let shape = if tree { Shape::of(view, ranks) } else { Shape::none(view.rows()) };
        let levels = usize::from(ranks.top()) + 1;
        let mut plan = Self {
            divisor: vec![1; levels],
            cables: vec![1; levels],
            ranks: ranks.clone(),
            up: Vec::with_capacity(view.rows()),
            ports: Vec::new(),
            number: vec![0; usize::from(lids.top()) + 1],
            class: vec![0; usize::from(lids.top()) + 1],
            label: shape.label,
            among: shape.among,
            along: shape.along,
        };
        if tree {
            plan.measure(view, ranks);
        }
        plan.collect_ports(view, ranks);
        plan.count(graph, view, lids, apart);
        plan
    }

    /// Widths of all levels, from the bottom up.
    fn measure(&mut self, view: &View, ranks: &Ranks) {
        let levels = self.divisor.len();
        let mut cables = vec![BTreeMap::<u32, usize>::new(); levels];
        let mut widest = vec![1; levels];
        for row in 0..view.rows() {
            let rank = usize::from(ranks.rank(row));
            if self.label[row] != NONE {
                widest[rank - 1] = self.among[row].max(widest[rank - 1]);
            }
            let above = view.neighbours(row).iter().filter(|near| ranks.is_up(row, near.row as usize));
            for near in above {
                *cables[rank].entry(u32::from(near.cables)).or_default() += 1;
            }
        }
        for rank in 0..levels {
            let most = cables[rank].iter().max_by_key(|(cables, count)| (**count, **cables));
            self.cables[rank] = most.map_or(1, |(cables, _)| *cables);
            if rank + 1 < levels {
                let next = self.divisor[rank].saturating_mul(widest[rank]).saturating_mul(self.cables[rank]);
                self.divisor[rank + 1] = next;
            }
        }
    }

    fn collect_ports(&mut self, view: &View, ranks: &Ranks) {
        for row in 0..view.rows() {
            let begin = self.ports.len() as u32;
            let planned = |near: u32| {
                let near = near as usize;
                ranks.rank(near) == ranks.rank(row) + 1 && self.label[near] != NONE
            };
            let above: Vec<_> =
                view.neighbours(row).iter().copied().filter(|near| planned(near.row)).collect();
            let among = above.first().map_or(0, |near| self.among[near.row as usize]);
            self.up.push((among, begin));
            let cables = self.cables[usize::from(ranks.rank(row))];
            self.ports.resize(self.ports.len() + (among * cables) as usize, 0);
            for near in above {
                let label = self.label[near.row as usize];
                for (cable, port) in view.cables(row, near).enumerate().take(cables as usize) {
                    if label < among {
                        self.ports[begin as usize + (label * cables) as usize + cable] = port;
                    }
                }
            }
        }
    }

    /// Numbers the destinations along the leaves.
    fn count(&mut self, graph: &Graph, view: &View, lids: &Lids, apart: &[NodeIx]) {
        let mut special = vec![false; graph.node_count()];
        for node in apart {
            special[node.index()] = true;
        }
        let mut next = [0_u32; CLASSES];
        for row in self.along.clone() {
            let switch = view.switch(row as usize);
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
                    _ => u8::from(special[owner.index()]),
                };
                let several = if class == 2 { 1 } else { 1 << lids.lmc() };
                for lid in 0..several {
                    // The identifiers of one port take the ways of its neighbours: different planes.
                    self.number[usize::from(base) + lid] = next[usize::from(class)] + lid as u32;
                    self.class[usize::from(base) + lid] = class;
                }
                next[usize::from(class)] += 1;
            }
        }
    }

    /// Number of a destination among those of its class.
    #[inline]
    pub(crate) fn number(&self, lid: u16) -> u32 {
        self.number[usize::from(lid)]
    }

    /// Hosts are 0, hosts apart 1, switches 2.
    #[inline]
    pub(crate) fn class(&self, lid: u16) -> usize {
        usize::from(self.class[usize::from(lid)])
    }

    /// Which way is up.
    #[must_use]
    pub fn ranks(&self) -> &Ranks {
        &self.ranks
    }

    /// How many switches it places.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.label.len()
    }

    /// The ports by which a row may go up, by their places; 0 where one is missing. Which of them a number takes is its
    /// [`place`](Self::place).
    #[inline]
    pub(crate) fn ports_up(&self, row: usize) -> &[u8] {
        let (among, begin) = self.up[row];
        let cables = self.cables[usize::from(self.ranks.rank(row))];
        &self.ports[begin as usize..][..(among * cables) as usize]
    }

    /// All rows of the same answer find a number at the same place among their [`ports_up`](Self::ports_up).
    #[inline]
    pub(crate) fn kind(&self, row: usize) -> (u16, u32) {
        (self.ranks.rank(row), self.up[row].0)
    }

    /// The place of a number among the [`ports_up`](Self::ports_up) of rows of a [`kind`](Self::kind) that has any.
    pub(crate) fn place(&self, (rank, among): (u16, u32), number: u32) -> u32 {
        let rank = usize::from(rank);
        let rest = number / self.divisor[rank];
        let cables = self.cables[rank];
        rest % among * cables + rest / among % cables
    }

    /// How far a switch of the rank below, or of the same plane, is from where the number's digit points: 0 is the right one.
    #[inline]
    pub(crate) fn distance(&self, row: usize, number: u32) -> u32 {
        let label = self.label[row];
        if label == NONE {
            return 0;
        }
        let among = self.among[row];
        let digit = number / self.divisor[usize::from(self.ranks.rank(row)) - 1] % among;
        (label + among - digit) % among
    }

    /// Which of several cables between two rows a number takes.
    #[inline]
    pub(crate) fn cable(&self, a: usize, b: usize, number: u32, cables: u32) -> u32 {
        let rank = usize::from(self.ranks.rank(a).min(self.ranks.rank(b)));
        let upper = if self.ranks.rank(a) < self.ranks.rank(b) { b } else { a };
        let among = if self.label[upper] == NONE { 1 } else { self.among[upper] };
        number / self.divisor[rank] / among % cables
    }
}

/// Positions of switches in planes.
struct Shape {
    label: Vec<u32>,
    among: Vec<u32>,
    along: Vec<u32>,
}

impl Shape {
    fn none(rows: usize) -> Self {
        Self { label: vec![NONE; rows], among: vec![1; rows], along: (0..rows as u32).collect() }
    }

    fn of(view: &View, ranks: &Ranks) -> Self {
        let mut shape = Self::none(view.rows());
        let pods: Vec<Vec<u32>> =
            (0..=ranks.top()).map(|top| view.pieces_of(|row| ranks.rank(row) <= top)).collect();
        let mut parents = view.pieces();
        for rank in 1..=ranks.top() {
            let planes = view.pieces_of(|row| ranks.rank(row) >= rank);
            shape.place(ranks, rank, &parents, &planes, &pods[usize::from(rank)]);
            parents = planes;
        }
        let mut along: Vec<u32> = shape.along.clone();
        // Within the largest pod first by the smaller ones that it is made of.
        along.sort_by_key(|row| {
            let of_row: Vec<u32> = pods.iter().rev().map(|pod| pod[*row as usize]).collect();
            (ranks.rank(*row as usize), of_row, *row)
        });
        shape.along = along;
        shape
    }

    /// Gives the switches of a rank their positions: plane by plane within what hangs together one level below, and within a
    /// plane one after the other in each pod.
    fn place(&mut self, ranks: &Ranks, rank: u16, parents: &[u32], planes: &[u32], pods: &[u32]) {
        let rows = (0..planes.len()).filter(|row| ranks.rank(*row) == rank);
        // (parent, plane) → (switches, pod → rows)
        let mut members: BTreeMap<(u32, u32), BTreeMap<u32, Vec<u32>>> = BTreeMap::new();
        for row in rows {
            let plane = members.entry((parents[row], planes[row])).or_default();
            plane.entry(pods[row]).or_default().push(row as u32);
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
            for row_and_place in pods.values().flat_map(|rows| rows.iter().enumerate()) {
                self.label[*row_and_place.1 as usize] = *base + row_and_place.0 as u32;
            }
            *base += pods.values().map(Vec::len).max().unwrap_or(0) as u32;
        }
        for ((parent, _), pods) in &members {
            for row in pods.values().flatten() {
                self.among[*row as usize] = next[parent];
            }
        }
    }
}

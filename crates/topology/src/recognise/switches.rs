//! The graph of the switches alone: which switch is connected to which, by how many cables.

use crate::graph::{Graph, Kind, NodeIx};

/// The largest connected part of the switches.
pub(super) struct Switches<'a> {
    pub(super) graph: &'a Graph,
    /// The nodes of the graph.
    pub(super) nodes: Vec<NodeIx>,
    /// The others that each is wired to, each once, in growing order.
    pub(super) beside: Vec<Vec<u32>>,
    /// Hosts at each, without aggregation nodes.
    pub(super) hosts: Vec<u32>,
    /// Living switches with cables that are no part of it.
    pub(super) left_out: usize,
}

impl<'a> Switches<'a> {
    pub(super) fn of(graph: &'a Graph) -> Self {
        let wired = |node: &NodeIx| !graph.is_dead(*node) && graph.cabled(*node).next().is_some();
        let all: Vec<NodeIx> = graph.nodes_of(Kind::Switch).filter(wired).collect();
        let nodes = largest(graph, &all);
        let mut at = vec![u32::MAX; graph.node_count()];
        for (index, node) in nodes.iter().enumerate() {
            at[node.index()] = index as u32;
        }
        let (mut beside, mut hosts) = (Vec::new(), Vec::new());
        for node in &nodes {
            let others = graph.cabled(*node).map(|(_, peer)| graph.owner(peer));
            let (switches, ends): (Vec<_>, Vec<_>) =
                others.partition(|other| graph.kind(*other) == Kind::Switch);
            let mut row: Vec<u32> = switches
                .iter()
                .map(|other| at[other.index()])
                .filter(|other| *other != at[node.index()])
                .collect();
            row.sort_unstable();
            row.dedup();
            beside.push(row);
            hosts.push(ends.iter().filter(|end| !graph.is_aggregation(**end)).count() as u32);
        }
        let left_out = all.len() - nodes.len();
        Self { graph, nodes, beside, hosts, left_out }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Pairs that are wired to each other, each once, the smaller first.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let row = |(at, row): (usize, &'_ Vec<u32>)| {
            row.iter()
                .map(|other| *other as usize)
                .filter(|other| at < *other)
                .map(|other| (at, other))
                .collect::<Vec<_>>()
        };
        self.beside.iter().enumerate().flat_map(row)
    }

    pub(super) fn are_wired(&self, a: usize, b: usize) -> bool {
        self.beside[a].binary_search(&(b as u32)).is_ok()
    }

    /// How many both are wired to.
    pub(super) fn common(&self, a: usize, b: usize) -> usize {
        let (mut left, mut right) = (self.beside[a].as_slice(), self.beside[b].as_slice());
        let mut count = 0;
        while let (Some(x), Some(y)) = (left.first(), right.first()) {
            count += usize::from(x == y);
            if x <= y {
                left = &left[1..];
            }
            if y <= x {
                right = &right[1..];
            }
        }
        count
    }

    /// Steps from the nearest of these, along pairs that may be used; `u32::MAX` where none leads.
    pub(super) fn distances(&self, from: &[usize], may: impl Fn(usize, usize) -> bool) -> Vec<u32> {
        let mut far = vec![u32::MAX; self.len()];
        let mut queue = std::collections::VecDeque::from(from.to_vec());
        for at in from {
            far[*at] = 0;
        }
        while let Some(at) = queue.pop_front() {
            for other in self.beside[at].iter().map(|other| *other as usize) {
                if far[other] == u32::MAX && may(at, other) {
                    far[other] = far[at] + 1;
                    queue.push_back(other);
                }
            }
        }
        far
    }
}

fn largest(graph: &Graph, all: &[NodeIx]) -> Vec<NodeIx> {
    let mut seen = vec![false; graph.node_count()];
    let mut best = Vec::new();
    for start in all {
        if std::mem::replace(&mut seen[start.index()], true) {
            continue;
        }
        let mut part = vec![*start];
        let mut next = 0;
        while let Some(node) = part.get(next).copied() {
            next += 1;
            for (_, peer) in graph.cabled(node) {
                let other = graph.owner(peer);
                if graph.kind(other) == Kind::Switch && !std::mem::replace(&mut seen[other.index()], true) {
                    part.push(other);
                }
            }
        }
        if part.len() > best.len() {
            best = part;
        }
    }
    best.sort_unstable();
    best
}

/// Sets that grow together.
pub(super) struct Sets(Vec<u32>);

impl Sets {
    pub(super) fn new(count: usize) -> Self {
        Self((0..count as u32).collect())
    }

    pub(super) fn of(&mut self, at: usize) -> usize {
        let mut root = at;
        while self.0[root] as usize != root {
            root = self.0[root] as usize;
        }
        let mut at = at;
        while self.0[at] as usize != root {
            at = std::mem::replace(&mut self.0[at], root as u32) as usize;
        }
        root
    }

    pub(super) fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a.max(b)] = a.min(b) as u32;
    }

    /// The set of each, numbered from 0 on, and how many there are.
    pub(super) fn numbered(mut self) -> (Vec<u32>, u32) {
        let mut number = vec![u32::MAX; self.0.len()];
        let mut count = 0;
        let mut of = Vec::with_capacity(self.0.len());
        for at in 0..self.0.len() {
            let root = self.of(at);
            if number[root] == u32::MAX {
                number[root] = count;
                count += 1;
            }
            of.push(number[root]);
        }
        (of, count)
    }
}

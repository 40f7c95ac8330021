//! Single points of failure: cables and switches without which hosts that see each other would not.

use serde::Serialize;
use topology::{Graph, Kind, NodeIx, PortIx};

use crate::names;

/// Of each kind so many are named.
const NAMED: usize = 100;

/// What must not fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Single {
    /// Cables between switches, by one end.
    pub cables: Vec<String>,
    /// How many such cables there are.
    pub cable_count: usize,
    /// Switches that hold the fabric together. Those that only their own hosts need are not counted.
    pub switches: Vec<String>,
    /// How many such switches there are.
    pub switch_count: usize,
}

/// Where a switch is in the depth-first search.
struct Frame {
    node: NodeIx,
    by: Option<PortIx>,
    ports: Vec<(PortIx, PortIx)>,
    next: usize,
    children: u32,
    cuts: bool,
}

/// Finds them by one depth-first search over the switches (Tarjan, "A note on finding the bridges of a graph", 1974).
#[must_use]
pub fn single_points(graph: &Graph) -> Single {
    let mut search = Search {
        graph,
        order: vec![0; graph.node_count()],
        low: vec![0; graph.node_count()],
        hosts: vec![0; graph.node_count()],
        next: 0,
        cables: Vec::new(),
        switches: Vec::new(),
    };
    for node in graph.nodes_of(Kind::Switch) {
        if search.order[node.index()] == 0 && !graph.is_dead(node) {
            search.piece(node);
        }
    }
    search.cables.sort();
    search.switches.sort();
    let mut single = Single {
        cable_count: search.cables.len(),
        switch_count: search.switches.len(),
        cables: search.cables.iter().map(|port| names::place(graph, *port)).collect(),
        switches: search.switches.iter().map(|node| names::label(graph, *node)).collect(),
    };
    single.cables.truncate(NAMED);
    single.switches.truncate(NAMED);
    single
}

struct Search<'a> {
    graph: &'a Graph,
    order: Vec<u32>,
    low: Vec<u32>,
    /// Hosts at a switch and below it.
    hosts: Vec<u64>,
    next: u32,
    cables: Vec<PortIx>,
    switches: Vec<NodeIx>,
}

impl Search<'_> {
    fn open(&mut self, node: NodeIx, by: Option<PortIx>) -> Frame {
        self.next += 1;
        self.order[node.index()] = self.next;
        self.low[node.index()] = self.next;
        let graph = self.graph;
        let is_switch = |far: PortIx| graph.kind(graph.owner(far)) == Kind::Switch;
        let (ports, ends): (Vec<_>, Vec<_>) = graph.cabled(node).partition(|(_, far)| is_switch(*far));
        self.hosts[node.index()] = ends.len() as u64;
        Frame { node, by, ports, next: 0, children: 0, cuts: false }
    }

    /// One piece of the fabric. A part without hosts is nobody's loss.
    fn piece(&mut self, root: NodeIx) {
        let graph = self.graph;
        let mut stack = vec![self.open(root, None)];
        let mut cables: Vec<(PortIx, u64)> = Vec::new();
        let mut switches: Vec<NodeIx> = Vec::new();
        while let Some(top) = stack.last_mut() {
            let at = top.node.index();
            if let Some((near, far)) = top.ports.get(top.next).copied() {
                top.next += 1;
                let there = graph.owner(far);
                if Some(near) == top.by || there == top.node {
                    continue;
                }
                if self.order[there.index()] == 0 {
                    let frame = self.open(there, Some(far));
                    stack.push(frame);
                } else {
                    self.low[at] = self.low[at].min(self.order[there.index()]);
                }
                continue;
            }
            let Some(done) = stack.pop() else { break };
            if done.cuts && (done.by.is_some() || done.children > 1) {
                switches.push(done.node);
            }
            let Some(parent) = stack.last_mut() else { break };
            let (child, above) = (done.node.index(), parent.node.index());
            self.low[above] = self.low[above].min(self.low[child]);
            let hosts = self.hosts[child];
            self.hosts[above] += hosts;
            if hosts > 0 && self.low[child] >= self.order[above] {
                parent.children += 1;
                parent.cuts = true;
                if self.low[child] > self.order[above]
                    && let Some(port) = done.by
                {
                    cables.push((port, hosts));
                }
            }
        }
        let all = self.hosts[root.index()];
        self.cables.extend(cables.into_iter().filter(|(_, hosts)| *hosts < all).map(|(port, _)| port));
        self.switches.extend(switches);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use topology::build::{FatTree, Torus, fat_tree, torus};

    #[test]
    fn a_tree_with_several_roots_has_none_and_a_line_many() {
        let tree = fat_tree(&FatTree::new(4, 2)).unwrap();
        assert_eq!(single_points(&tree), Single::default());
        let line = torus(&Torus::new(&[5], 1).mesh()).unwrap();
        let single = single_points(&line);
        assert_eq!((single.cable_count, single.switch_count), (4, 3), "{single:?}");
    }

    #[test]
    fn a_tree_that_hangs_by_one_cable_says_which() {
        let tree = fat_tree(&FatTree::new(4, 2)).unwrap();
        let leaf = tree.nodes_of(Kind::Switch).next().unwrap();
        let up: Vec<PortIx> = tree
            .cabled(leaf)
            .filter(|(_, far)| tree.kind(tree.owner(*far)) == Kind::Switch)
            .map(|(near, _)| near)
            .collect();
        let hanging = tree.without(&up[1..], &[]);
        let single = single_points(&hanging);
        assert_eq!(single.cable_count, 1, "{single:?}");
        assert!(single.switch_count <= 1, "the switch above it at most: {single:?}");
    }
}

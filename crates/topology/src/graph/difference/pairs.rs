//! Matches the nodes of two graphs.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use super::super::{Graph, NodeIx, PortIx};
use crate::text::{counted, printable};

/// A GUID of a manufacturer begins with three bytes that are assigned to it (EUI-64); without them it was
/// made up on the spot.
const MADE_UP: u64 = 1 << 40;

/// Does a GUID name a device, wherever it is?
pub(super) fn is_given(guid: u64) -> bool {
    guid >= MADE_UP
}

/// Has the node a GUID of a manufacturer, and no other node the same?
pub(super) fn is_own(graph: &Graph, node: NodeIx) -> bool {
    let guid = graph.node_guid(node);
    let order = &graph.fixed.by_guid;
    let from = order.partition_point(|node| graph.node_guid(NodeIx(*node)) < guid);
    let same =
        order[from..].iter().map(|node| NodeIx(*node)).take_while(|node| graph.node_guid(*node) == guid);
    is_given(guid) && same.filter(|node| !graph.is_dead(*node)).take(2).count() == 1
}

/// Nodes of two graphs that are taken for the same, and nodes that cannot be distinguished.
pub(super) struct Pairs<'a> {
    pub(super) a: &'a Graph,
    pub(super) b: &'a Graph,
    to_b: Vec<Option<NodeIx>>,
    to_a: Vec<Option<NodeIx>>,
    unclear_a: Vec<bool>,
    unclear_b: Vec<bool>,
}

/// The only node of each side with some key; `None` if there are several.
type Only = (Option<Option<NodeIx>>, Option<Option<NodeIx>>);

impl<'a> Pairs<'a> {
    pub(super) fn of(a: &'a Graph, b: &'a Graph) -> Self {
        let mut pairs = Self {
            a,
            b,
            to_b: vec![None; a.node_count()],
            to_a: vec![None; b.node_count()],
            unclear_a: vec![false; a.node_count()],
            unclear_b: vec![false; b.node_count()],
        };
        let own = [a, b].map(|graph| graph.nodes().map(|node| is_own(graph, node)).collect::<Vec<_>>());
        pairs.by(|graph, node| is_own(graph, node).then(|| graph.node_guid(node)), |_, _| true);
        loop {
            let before = pairs.known().count();
            // Devices that have other GUIDs of their own are others, whatever they are called.
            let may = |a: NodeIx, b: NodeIx| !(own[0][a.index()] && own[1][b.index()]);
            pairs.by(|graph, node| Some(graph.name(node)).filter(|name| !name.trim().is_empty()), may);
            pairs.by(|graph, node| Some(graph.node_guid(node)).filter(|guid| *guid != 0), |_, _| true);
            pairs.by_cables();
            if pairs.known().count() == before {
                break;
            }
        }
        pairs.give_up(&own);
        pairs
    }

    /// Pairs what alone has a key on both sides, among what has no partner yet.
    fn by<K: Hash + Eq>(
        &mut self,
        key: impl Fn(&'a Graph, NodeIx) -> Option<K>,
        may: impl Fn(NodeIx, NodeIx) -> bool,
    ) {
        let mut only: HashMap<K, Only> = HashMap::new();
        for (graph, partner, second) in [(self.a, &self.to_b, false), (self.b, &self.to_a, true)] {
            for node in living(graph).filter(|node| partner[node.index()].is_none()) {
                let Some(key) = key(graph, node) else { continue };
                let row = only.entry(key).or_default();
                let side = if second { &mut row.1 } else { &mut row.0 };
                *side = Some(if side.is_none() { Some(node) } else { None });
            }
        }
        for (a, b) in only.into_values() {
            if let (Some(Some(a)), Some(Some(b))) = (a, b)
                && may(a, b)
            {
                self.join(a, b);
            }
        }
    }

    fn join(&mut self, a: NodeIx, b: NodeIx) {
        self.to_b[a.index()] = Some(b);
        self.to_a[b.index()] = Some(a);
    }

    /// Pairs what looks the same and is wired to the same port of a known node, and continues from there.
    fn by_cables(&mut self) {
        let mut rest: Vec<(NodeIx, NodeIx)> = self.known().collect();
        while let Some((one, other)) = rest.pop() {
            for (near, far) in self.a.cabled(one) {
                let here = self.b.port(other, self.a.number(near)).and_then(|port| self.b.peer(port));
                let Some(here) = here else { continue };
                let (a, b) = (self.a.owner(far), self.b.owner(here));
                let free = self.to_b[a.index()].is_none() && self.to_a[b.index()].is_none();
                if free && self.a.number(far) == self.b.number(here) && look(self.a, a) == look(self.b, b) {
                    self.join(a, b);
                    rest.push((a, b));
                }
            }
        }
    }

    /// Marks what could be any of several.
    fn give_up(&mut self, own: &[Vec<bool>; 2]) {
        // By name: how many have no GUID of their own, and how many there are, on both sides.
        let mut counts: HashMap<&str, [[usize; 2]; 2]> = HashMap::new();
        for (side, graph, partner) in [(0, self.a, &self.to_b), (1, self.b, &self.to_a)] {
            for node in living(graph).filter(|node| partner[node.index()].is_none()) {
                let count = &mut counts.entry(graph.name(node)).or_default()[side];
                count[0] += usize::from(!own[side][node.index()]);
                count[1] += 1;
            }
        }
        let unclear = |side: usize, graph: &Graph, partner: &[Option<NodeIx>]| -> Vec<bool> {
            let one = |node: NodeIx| {
                let Some(counts) = counts.get(graph.name(node)) else { return false };
                let other = counts[1 - side];
                let rivals = if own[side][node.index()] { other[0] } else { other[1] };
                partner[node.index()].is_none() && !graph.is_dead(node) && rivals > 0
            };
            graph.nodes().map(one).collect()
        };
        let (a, b) = (unclear(0, self.a, &self.to_b), unclear(1, self.b, &self.to_a));
        (self.unclear_a, self.unclear_b) = (a, b);
    }

    /// All pairs, in the order of the first graph.
    pub(super) fn known(&self) -> impl Iterator<Item = (NodeIx, NodeIx)> + '_ {
        self.a.nodes().filter_map(|node| self.to_b[node.index()].map(|other| (node, other)))
    }

    /// What only the first graph has.
    pub(super) fn missing(&self) -> impl Iterator<Item = NodeIx> + '_ {
        living(self.a).filter(|node| self.to_b[node.index()].is_none() && !self.unclear_a[node.index()])
    }

    /// What only the second graph has.
    pub(super) fn additional(&self) -> impl Iterator<Item = NodeIx> + '_ {
        living(self.b).filter(|node| self.to_a[node.index()].is_none() && !self.unclear_b[node.index()])
    }

    /// Are the owners of both ends known?
    pub(super) fn is_clear(&self, graph: &Graph, (a, b): (PortIx, PortIx)) -> bool {
        let unclear = if std::ptr::eq(graph, self.a) { &self.unclear_a } else { &self.unclear_b };
        ![a, b].iter().any(|port| unclear[graph.owner(*port).index()])
    }

    /// The port of the same number on the node's partner.
    pub(super) fn port_in_b(&self, port: PortIx) -> Option<PortIx> {
        self.b.port(self.to_b[self.a.owner(port).index()]?, self.a.number(port))
    }

    /// The same, from the second graph to the first.
    pub(super) fn port_in_a(&self, port: PortIx) -> Option<PortIx> {
        self.a.port(self.to_a[self.b.owner(port).index()]?, self.b.number(port))
    }

    /// Lists the nodes that can't be distinguished, name by name, with the number of their cables.
    pub(super) fn unclear(&self, found: &mut Vec<String>) {
        let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
        for (side, graph, unclear) in [(0, self.a, &self.unclear_a), (1, self.b, &self.unclear_b)] {
            for node in graph.nodes().filter(|node| unclear[node.index()]) {
                counts.entry(graph.name(node)).or_default()[side] += 1;
            }
        }
        if counts.is_empty() {
            return;
        }
        found.extend(counts.iter().map(|(name, [before, now])| {
            format!(
                "nodes `{}`: {before}, now {now}, have this name and no GUID of their own, and cannot be told apart",
                printable(name)
            )
        }));
        let cables = |graph: &Graph| graph.links().filter(|cable| !self.is_clear(graph, *cable)).count();
        found.push(format!(
            "not compared: {} of such nodes, now {}",
            counted(cables(self.a), "cable"),
            cables(self.b)
        ));
    }
}

fn living(graph: &Graph) -> impl Iterator<Item = NodeIx> + '_ {
    graph.nodes().filter(|node| !graph.is_dead(*node))
}

/// What must be equal in two nodes that only their cables distinguish.
fn look(graph: &Graph, node: NodeIx) -> (super::super::Kind, &str, u8, u64) {
    let guid = Some(graph.node_guid(node)).filter(|guid| is_given(*guid)).unwrap_or(0);
    (graph.kind(node), graph.name(node), graph.port_count(node), guid)
}

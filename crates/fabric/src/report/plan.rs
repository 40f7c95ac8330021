//! Compares a fabric with its plan: missing, extra and swapped cables. Nodes are matched by name,
//! or by GUID where several nodes have the name.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use topology::{Graph, NodeIx, PortIx};

use super::{Finding, rate_word};
use crate::names::{label, place, text};
use crate::snapshot::Snapshot;

/// Who is who in two graphs.
pub(super) struct Twins {
    /// Node of the second for each of the first.
    pub(super) there: Vec<Option<NodeIx>>,
    /// Nodes of the second that have none in the first.
    pub(super) rest: Vec<NodeIx>,
}

fn alone(graph: &Graph) -> HashMap<String, Option<NodeIx>> {
    let mut by_name = HashMap::new();
    for node in graph.nodes().filter(|node| !graph.is_dead(*node)) {
        by_name.entry(text(graph, node)).and_modify(|one| *one = None).or_insert(Some(node));
    }
    by_name
}

impl Twins {
    /// By names where they are one node's alone in both, else by GUIDs.
    pub(super) fn by_name(a: &Graph, b: &Graph) -> Self {
        let (mine, theirs) = (alone(a), alone(b));
        let named = |node| {
            let name = text(a, node);
            mine.get(&name).copied().flatten()?;
            theirs.get(&name).copied().flatten()
        };
        Self::of(a, b, |node| named(node).or_else(|| b.node_by_guid(a.node_guid(node))))
    }

    /// By GUIDs where there are any, else by names.
    pub(super) fn by_guid(a: &Graph, b: &Graph) -> Self {
        let theirs = alone(b);
        Self::of(a, b, |node| match a.node_guid(node) {
            0 => theirs.get(&text(a, node)).copied().flatten(),
            guid => b.node_by_guid(guid),
        })
    }

    fn of(a: &Graph, b: &Graph, twin: impl Fn(NodeIx) -> Option<NodeIx>) -> Self {
        let mut taken = BTreeSet::new();
        let there = a
            .nodes()
            .map(|node| {
                let one = twin(node).filter(|one| !a.is_dead(node) && !b.is_dead(*one))?;
                taken.insert(one).then_some(one)
            })
            .collect();
        let rest = b.nodes().filter(|node| !b.is_dead(*node) && !taken.contains(node)).collect();
        Self { there, rest }
    }

    /// The same port in the second graph.
    pub(super) fn port(&self, a: &Graph, b: &Graph, port: PortIx) -> Option<PortIx> {
        b.port(self.there[a.owner(port).index()]?, a.number(port))
    }
}

/// In what a fabric differs from its plan.
pub(super) fn findings(snapshot: &Snapshot, plan: &Snapshot) -> Vec<Finding> {
    let (graph, planned) = (&snapshot.graph, &plan.graph);
    let twins = Twins::by_name(planned, graph);
    let mut found = Vec::new();
    for node in planned.nodes().filter(|node| !planned.is_dead(*node)) {
        if twins.there[node.index()].is_none() {
            let name = label(planned, node);
            let text = format!("{} {name} is planned but not there", planned.kind(node).word());
            found.push(Finding::failed("missing node", vec![name], text));
        }
    }
    for node in &twins.rest {
        let name = label(graph, *node);
        let text = format!("{} {name} is there but not planned", graph.kind(*node).word());
        found.push(Finding::failed("extra node", vec![name], text));
    }
    Cables { graph, planned, twins: &twins, found: &mut found, told: BTreeSet::new() }
        .compare(snapshot, plan);
    found
}

struct Cables<'a> {
    graph: &'a Graph,
    planned: &'a Graph,
    twins: &'a Twins,
    found: &'a mut Vec<Finding>,
    /// Ports of the fabric that have been reported.
    told: BTreeSet<PortIx>,
}

impl Cables<'_> {
    fn compare(&mut self, snapshot: &Snapshot, plan: &Snapshot) {
        let (graph, planned) = (self.graph, self.planned);
        // Where each cable should lead, by ports of the fabric.
        let mut wanted: BTreeMap<PortIx, PortIx> = BTreeMap::new();
        let mut broken = Vec::new();
        for (a, b) in planned.links() {
            let here = |port| self.twins.port(planned, graph, port);
            match (here(a), here(b)) {
                (Some(one), Some(other)) => {
                    wanted.extend([(one, other), (other, one)]);
                    if graph.peer(one) == Some(other) {
                        self.rate(snapshot, plan, (a, one), (b, other));
                    } else {
                        broken.push((one, other));
                    }
                }
                // The missing node has been reported.
                (one, other) => self.told.extend(one.into_iter().chain(other)),
            }
        }
        for (a, b) in &broken {
            self.swapped(*a, *b, &wanted);
        }
        for (a, b) in broken {
            self.lost(a, b);
        }
        for (a, b) in graph.links() {
            let said = self.told.contains(&a) || self.told.contains(&b);
            let planned_so = wanted.get(&a) == Some(&b);
            let new = |port: PortIx| self.twins.rest.contains(&graph.owner(port));
            if said || planned_so || new(a) || new(b) {
                continue;
            }
            let places = vec![place(graph, a), place(graph, b)];
            let text = format!("a cable from {} to {} is there but not planned", places[0], places[1]);
            self.found.push(Finding::failed("extra", places, text));
        }
    }

    /// Two cables whose ends were swapped: A was to lead to B and C to D, and A leads to D and C to B.
    fn swapped(&mut self, a: PortIx, b: PortIx, wanted: &BTreeMap<PortIx, PortIx>) {
        let graph = self.graph;
        let Some(d) = graph.peer(a) else { return };
        let Some(c) = wanted.get(&d).copied() else { return };
        if self.told.contains(&a) || graph.peer(c) != Some(b) {
            return;
        }
        self.told.extend([a, b, c, d]);
        let places: Vec<String> = [a, b, c, d].iter().map(|port| place(graph, *port)).collect();
        let text = format!(
            "the cables in {} and {} are swapped: {} leads to {} and {} to {}",
            places[1], places[3], places[0], places[3], places[2], places[1]
        );
        self.found.push(Finding::failed("swapped", places, text));
    }

    /// A cable that is not where it should be.
    fn lost(&mut self, a: PortIx, b: PortIx) {
        let graph = self.graph;
        if self.told.contains(&a) && self.told.contains(&b) {
            return;
        }
        let places = vec![place(graph, a), place(graph, b)];
        let led: Vec<String> = [a, b]
            .iter()
            .filter_map(|port| Some((port, graph.peer(*port)?)))
            .map(|(port, peer)| format!("{} leads to {}", place(graph, *port), place(graph, peer)))
            .collect();
        if led.is_empty() {
            let text = format!("the cable from {} to {} is missing", places[0], places[1]);
            self.found.push(Finding::failed("missing", places, text));
        } else {
            let text = format!(
                "the cable from {} to {} is connected elsewhere: {}",
                places[0],
                places[1],
                led.join(", ")
            );
            self.found.push(Finding::failed("elsewhere", places, text));
        }
        self.told.extend([a, b]);
        self.told.extend([a, b].iter().filter_map(|port| graph.peer(*port)));
    }

    fn rate(&mut self, snapshot: &Snapshot, plan: &Snapshot, a: (PortIx, PortIx), b: (PortIx, PortIx)) {
        let (wanted, there) = (plan.rate(a.0), snapshot.rate(a.1));
        if wanted.mbps() == 0 || there.mbps() == 0 || wanted == there {
            return;
        }
        let places = vec![place(self.graph, a.1), place(self.graph, b.1)];
        let text = format!(
            "{} to {} runs at {}, but {} is planned",
            places[0],
            places[1],
            rate_word(there),
            rate_word(wanted)
        );
        let slower = there.mbps() < wanted.mbps();
        let finding = if slower { Finding::failed } else { Finding::warning };
        self.found.push(finding("rate", places, text));
    }
}

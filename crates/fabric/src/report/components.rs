//! Is the fabric one component? And do its forwarding tables lead to every switch?

use std::collections::BTreeMap;

use topology::routing::Tables;
use topology::{Graph, Kind, NodeIx, PortIx, counted, verb};

use super::Finding;
use crate::names;
use crate::snapshot::Snapshot;

/// Components that are named.
const NAMED: usize = 6;
/// Nodes of a component, and pairs of switches, that are named.
const FEW: usize = 3;

/// What cables and switches hold together.
struct Component {
    hosts: Vec<NodeIx>,
    switches: Vec<NodeIx>,
}

/// Number of a port's component. Switches pass on from any port to any other, hosts and routers from none.
fn numbered(graph: &Graph) -> Vec<Option<u32>> {
    let mut component = vec![None; graph.port_total()];
    let mut components = 0;
    for start in graph.nodes().flat_map(|node| graph.cabled(node)).map(|(near, _)| near) {
        if component[start.index()].is_some() {
            continue;
        }
        let number = components;
        components += 1;
        let mut open = vec![start];
        while let Some(port) = open.pop() {
            if component[port.index()].replace(number).is_some() {
                continue;
            }
            open.extend(graph.peer(port).filter(|peer| component[peer.index()].is_none()));
            let node = graph.owner(port);
            if graph.kind(node) == Kind::Switch {
                let others = graph.cabled(node).map(|(near, _)| near);
                open.extend(others.filter(|port| component[port.index()].is_none()));
            }
        }
    }
    component
}

/// The components; largest first.
fn components(graph: &Graph) -> Vec<Component> {
    let number = numbered(graph);
    let mut components: BTreeMap<u32, Component> = BTreeMap::new();
    for node in graph.nodes() {
        let mut own: Vec<u32> =
            graph.cabled(node).filter_map(|(near, _): (PortIx, PortIx)| number[near.index()]).collect();
        own.sort_unstable();
        own.dedup();
        for number in own {
            let component = components
                .entry(number)
                .or_insert_with(|| Component { hosts: Vec::new(), switches: Vec::new() });
            let kind =
                if graph.kind(node) == Kind::Switch { &mut component.switches } else { &mut component.hosts };
            kind.push(node);
        }
    }
    let mut components: Vec<Component> = components.into_values().collect();
    components.sort_by_key(|component| std::cmp::Reverse((component.hosts.len(), component.switches.len())));
    components
}

/// Components of which not all have the same hosts: two rails that share all their hosts are a fabric with
/// two of everything.
fn apart(components: &[Component]) -> bool {
    components.windows(2).any(|two| two[0].hosts != two[1].hosts || two[0].hosts.is_empty())
}

/// A fabric in components; nodes without a cable.
pub(super) fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let graph = &snapshot.graph;
    let mut found = Vec::new();
    let components = components(graph);
    if components.len() > 1 && apart(&components) {
        let mut words: Vec<String> =
            components.iter().take(NAMED).map(|component| component_words(graph, component)).collect();
        if components.len() > NAMED {
            words.push(format!("and {} more", components.len() - NAMED));
        }
        let places =
            components.iter().filter_map(|component| component.switches.first().or(component.hosts.first()));
        let places = places.take(NAMED).map(|node| names::label(graph, *node)).collect();
        let text = format!(
            "the fabric is in {} components that no cable connects: {}",
            components.len(),
            words.join("; ")
        );
        found.push(Finding::failed("cut", places, text));
    }
    let alone: Vec<NodeIx> =
        graph.nodes().filter(|node| !graph.is_dead(*node) && graph.cabled(*node).next().is_none()).collect();
    if !alone.is_empty() && graph.node_count() > 1 {
        let text = format!(
            "{} {} no cable: {}",
            counted(alone.len(), "node"),
            verb(alone.len(), "has", "have"),
            few(graph, &alone)
        );
        let places = alone.iter().take(NAMED).map(|node| names::label(graph, *node)).collect();
        found.push(Finding::warning("no cable", places, text));
    }
    found
}

fn component_words(graph: &Graph, component: &Component) -> String {
    let (hosts, switches) = (component.hosts.len(), component.switches.len());
    let named = if switches > 0 { &component.switches } else { &component.hosts };
    format!("{} and {} with {}", counted(hosts, "CA"), counted(switches, "switch"), few(graph, named))
}

fn few(graph: &Graph, nodes: &[NodeIx]) -> String {
    let mut words: Vec<String> = nodes.iter().take(FEW).map(|node| names::label(graph, *node)).collect();
    if nodes.len() > FEW {
        words.push("…".to_owned());
    }
    words.join(", ")
}

/// Switches to or from which tables lose ways, the first of them as `from A to B`.
#[must_use]
pub fn lost_switches(graph: &Graph, tables: &Tables) -> Vec<String> {
    let mut lost = Vec::new();
    for (lid, end) in tables.lids().iter() {
        let target = graph.owner(end);
        let to_switch = graph.kind(target) == Kind::Switch;
        for from in graph.nodes_of(Kind::Switch).filter(|from| *from != target && !graph.is_dead(*from)) {
            let carries = graph.cabled(from).any(|(_, far)| graph.kind(graph.owner(far)) != Kind::Switch);
            if carries == to_switch && !arrives(graph, tables, from, lid, end) {
                let to = names::label(graph, target);
                lost.push(format!("from {} to {to} (LID {lid})", names::label(graph, from)));
                if lost.len() == FEW {
                    return lost;
                }
            }
        }
    }
    lost
}

fn arrives(graph: &Graph, tables: &Tables, from: NodeIx, lid: u16, end: PortIx) -> bool {
    let mut at = from;
    for _ in 0..=graph.node_count() {
        let Some(out) = tables.port(at, lid).and_then(|out| graph.port(at, out)) else { return false };
        if out == end {
            return true;
        }
        let Some(peer) = graph.peer(out) else { return false };
        if peer == end || at == graph.owner(end) {
            return peer == end;
        }
        at = graph.owner(peer);
        if at == graph.owner(end) && graph.kind(at) == Kind::Switch {
            return tables.port(at, lid) == Some(0);
        }
        if graph.kind(at) != Kind::Switch {
            return false;
        }
    }
    false
}

//! The differences between two graphs, whatever the order of their nodes.

use super::{Graph, NodeIx, PortIx};
use crate::text::{counted, printable};

mod pairs;

use pairs::Pairs;

impl Graph {
    /// In what another graph differs, in words, at most so many: nodes (kind, ports, name), and cables by
    /// nodes and ports (missing, additional, other rate). LIDs don't count, and dead nodes are not there.
    ///
    /// A node is known again by its GUID if that is its alone, else by its name if that is, else by where it
    /// is wired to nodes that are known. GUIDs that no manufacturer assigned (`ibsim`'s) identify less than
    /// names. What can't be distinguished by all that is a difference too, with the number of nodes and
    /// cables that were not compared.
    #[must_use]
    pub fn differences(&self, other: &Self, most: usize) -> Vec<String> {
        if self == other {
            return Vec::new();
        }
        let pairs = Pairs::of(self, other);
        let mut found = Vec::new();
        nodes(&pairs, &mut found);
        cables(&pairs, &mut found);
        pairs.unclear(&mut found);
        found.truncate(most);
        found
    }
}

/// What is compared of a node, in words.
fn described(graph: &Graph, node: NodeIx) -> String {
    let (kind, name) = (graph.kind(node).word(), printable(graph.name(node)));
    format!("{kind} `{name}` of {}", counted(graph.port_count(node), "port"))
}

fn nodes(pairs: &Pairs<'_>, found: &mut Vec<String>) {
    let mut rows = Vec::new();
    for (node, other) in pairs.known() {
        let (one, two) = (described(pairs.a, node), described(pairs.b, other));
        if one != two {
            rows.push(format!("node {}: {one}, now {two}", label(pairs.a, node)));
        }
        let (guid, now) = (pairs.a.node_guid(node), pairs.b.node_guid(other));
        if pairs::is_given(guid) && pairs::is_given(now) && guid != now {
            rows.push(format!("node {}: GUID {guid:#018x}, now {now:#018x}", label(pairs.a, node)));
        }
    }
    rows.extend(
        pairs
            .missing()
            .map(|node| format!("node {} ({}) is missing", label(pairs.a, node), described(pairs.a, node))),
    );
    rows.sort();
    found.append(&mut rows);
    rows.extend(
        pairs.additional().map(|node| {
            format!("node {} ({}) is additional", label(pairs.b, node), described(pairs.b, node))
        }),
    );
    rows.sort();
    found.append(&mut rows);
}

fn cables(pairs: &Pairs<'_>, found: &mut Vec<String>) {
    let mut rows = Vec::new();
    for (a, b) in pairs.a.links().filter(|cable| pairs.is_clear(pairs.a, *cable)) {
        let rate = pairs.a.link(a).unwrap_or_default();
        let there = pairs
            .port_in_b(a)
            .filter(|port| pairs.port_in_b(b).is_some_and(|b| pairs.b.peer(*port) == Some(b)));
        match there.map(|port| pairs.b.link(port).unwrap_or_default()) {
            None => rows.push(format!("cable {} ({rate}) is missing", cable(pairs.a, a, b))),
            Some(now) if now != rate => {
                rows.push(format!("cable {}: {rate}, now {now}", cable(pairs.a, a, b)))
            }
            Some(_) => {}
        }
    }
    rows.sort();
    found.append(&mut rows);
    for (a, b) in pairs.b.links().filter(|cable| pairs.is_clear(pairs.b, *cable)) {
        let there = pairs
            .port_in_a(a)
            .filter(|port| pairs.port_in_a(b).is_some_and(|b| pairs.a.peer(*port) == Some(b)));
        if there.is_none() {
            let rate = pairs.b.link(a).unwrap_or_default();
            rows.push(format!("cable {} ({rate}) is additional", cable(pairs.b, a, b)));
        }
    }
    rows.sort();
    found.append(&mut rows);
}

/// A cable by its ends, in an order that does not depend on the order of nodes.
fn cable(graph: &Graph, a: PortIx, b: PortIx) -> String {
    let end = |port: PortIx| (label(graph, graph.owner(port)), graph.number(port));
    let (a, b) = (end(a).min(end(b)), end(a).max(end(b)));
    format!("{} port {} to {} port {}", a.0, a.1, b.0, b.1)
}

/// A node by its GUID, or by its name if it has none of its own.
fn label(graph: &Graph, node: NodeIx) -> String {
    if pairs::is_own(graph, node) {
        format!("{:#018x}", graph.node_guid(node))
    } else {
        format!("`{}`", printable(graph.name(node)))
    }
}

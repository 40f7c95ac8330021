//! In what two graphs differ, whatever the order of their nodes.

use std::collections::BTreeMap;

use super::{Graph, LinkSpec, NodeIx, PortIx};

/// A cable by the GUIDs and ports of its ends, the smaller first.
type Cable = [(u64, u8); 2];

impl Graph {
    /// In what another graph differs, in words, at most so many: nodes by their GUIDs (kind, ports, name), and cables by GUIDs
    /// and ports (missing, additional, other rate). Identifiers don't count, and dead nodes are not there.
    ///
    /// Nodes of the same GUID are not told apart.
    #[must_use]
    pub fn differences(&self, other: &Self, most: usize) -> Vec<String> {
        let mut found = Vec::new();
        compare(&self.described(), &other.described(), "node", &mut found);
        compare(&self.cables(), &other.cables(), "cable", &mut found);
        found.truncate(most);
        found
    }

    fn described(&self) -> BTreeMap<String, String> {
        let living = self.nodes().filter(|node| !self.is_dead(*node));
        let words = |node: NodeIx| {
            format!("{} `{}` of {} ports", self.kind(node).word(), self.name(node), self.port_count(node))
        };
        living.map(|node| (format!("{:#018x}", self.node_guid(node)), words(node))).collect()
    }

    fn cables(&self) -> BTreeMap<String, String> {
        let end = |port: PortIx| (self.node_guid(self.owner(port)), self.number(port));
        let key = |cable: Cable| {
            let [a, b] = cable;
            format!("{:#018x} port {} to {:#018x} port {}", a.0, a.1, b.0, b.1)
        };
        let row = |(a, b): (PortIx, PortIx)| {
            let cable = [end(a).min(end(b)), end(a).max(end(b))];
            let rate: LinkSpec = self.link(a).unwrap_or_default();
            (key(cable), rate.to_string())
        };
        self.links().map(row).collect()
    }
}

fn compare(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>, what: &str, found: &mut Vec<String>) {
    for (key, value) in a {
        match b.get(key) {
            None => found.push(format!("{what} {key} ({value}) is missing")),
            Some(other) if other != value => found.push(format!("{what} {key}: {value}, and here {other}")),
            Some(_) => {}
        }
    }
    let more = b.iter().filter(|row| !a.contains_key(row.0));
    found.extend(more.map(|(key, value)| format!("{what} {key} ({value}) is additional")));
}

//! Finds the channel adapters that are aggregation nodes.
//!
//! Switches that reduce data on the way (SHARP) have a channel adapter of their own on an inner port, after
//! those for cables. It is an end of traffic: it has a LID and is routed to. It is no host: no program runs
//! there, none of the traffic that is balanced begins or ends there, and a switch is no leaf for having one.

use super::{Graph, Kind, NodeIx};

/// The vendor whose switches have them.
const VENDOR: u32 = 0x2c9;
/// Models, as dumps give them: 0xcf08 in switches of EDR, 0xcf09 from HDR on.
const DEVICES: [u32; 2] = [0xcf08, 0xcf09];
/// What they describe themselves as, where a dump lost the model.
const WORDS: &str = "Aggregation Node";
/// One of so many switches may lack its aggregation node, which did not respond.
const LACKS: usize = 10;

impl Graph {
    /// Is it the aggregation node of a switch? By its model, by what it calls itself, or by where it is: if
    /// nearly all switches have an adapter at their last port, those without any other host too, these are no
    /// hosts.
    #[must_use]
    pub fn is_aggregation(&self, node: NodeIx) -> bool {
        self.fixed.aggregation[node.index()]
    }
}

/// The aggregation nodes of a graph that is made.
pub(super) fn found(graph: &Graph) -> Vec<bool> {
    let model = |node| graph.vendor(node) == VENDOR && DEVICES.contains(&graph.device(node));
    let named = |node| graph.kind(node) == Kind::Host && (model(node) || graph.name(node).contains(WORDS));
    let mut found: Vec<bool> = graph.nodes().map(named).collect();
    if !found.contains(&true) {
        by_place(graph).into_iter().for_each(|node| found[node.index()] = true);
    }
    found
}

/// Adapters of one port at the last ports of switches, if by that they are aggregation nodes.
fn by_place(graph: &Graph) -> Vec<NodeIx> {
    let is_switch = |node: NodeIx| graph.kind(node) == Kind::Switch;
    let (mut switches, mut alone, mut hosts) = (0, 0, 0);
    let mut last = Vec::new();
    for switch in graph.nodes_of(Kind::Switch) {
        let far = || graph.cabled(switch).map(|(_, far)| graph.owner(far));
        if !far().any(is_switch) {
            continue;
        }
        let own = graph.ports(switch).next_back().and_then(|port| graph.neighbour(port));
        let own = own.filter(|node| graph.kind(*node) == Kind::Host && graph.port_count(*node) == 1);
        let others = far().filter(|node| !is_switch(*node) && Some(*node) != own).count();
        switches += 1;
        hosts += others;
        alone += usize::from(own.is_some() && others == 0);
        last.extend(own);
    }
    // Hosts at the last ports of leaves alone are hosts, and so are those of a fabric that has no others.
    let all = (switches - last.len()) * LACKS <= switches;
    if switches > 1 && all && alone > 0 && hosts > last.len() { last } else { Vec::new() }
}

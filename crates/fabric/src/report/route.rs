//! The route between two ports, as the forwarding tables give it; without tables, a shortest path over the
//! cables.

use std::collections::VecDeque;

use serde::Serialize;
use topology::routing::Tables;
use topology::{Graph, Kind, NodeIx, PortIx};

use super::ReportError;
use crate::names;
use crate::snapshot::Snapshot;

/// A cable of a route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The port that sends.
    pub out: String,
    /// The port that receives.
    pub into: String,
    /// Width and speed.
    pub rate: String,
}

/// A route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Where it begins.
    pub from: String,
    /// Where it should end.
    pub to: String,
    /// Destination LID; 0 if only cables were followed.
    pub lid: u16,
    /// Cables, in order.
    pub steps: Vec<Step>,
    /// Whether the forwarding tables gave it, and not the cables alone.
    pub by_tables: bool,
    /// Why it does not reach its end, if so.
    pub broken: Option<String>,
}

/// The route between two ports.
///
/// # Errors
/// A name leads to nothing, or to several nodes.
pub fn route(snapshot: &Snapshot, from: &str, to: &str) -> Result<Route, ReportError> {
    let graph = &snapshot.graph;
    let (start, end) = (names::end(graph, from)?, names::end(graph, to)?);
    let mut route = Route {
        from: snapshot.place(start),
        to: snapshot.place(end),
        lid: 0,
        steps: Vec::new(),
        by_tables: snapshot.tables.is_some(),
        broken: None,
    };
    match &snapshot.tables {
        Some(tables) => follow(snapshot, tables, (start, end), &mut route),
        None => shortest(snapshot, (start, end), &mut route),
    }
    Ok(route)
}

fn step(snapshot: &Snapshot, route: &mut Route, port: PortIx) -> Option<PortIx> {
    let peer = snapshot.graph.peer(port)?;
    route.steps.push(Step {
        out: snapshot.place(port),
        into: snapshot.place(peer),
        rate: super::rate_word(snapshot.rate(port)),
    });
    Some(peer)
}

/// Follows the route by the table of each switch.
fn follow(snapshot: &Snapshot, tables: &Tables, (start, end): (PortIx, PortIx), route: &mut Route) {
    let graph = &snapshot.graph;
    let target = graph.owner(end);
    route.lid = graph.lid(end);
    if route.lid == 0 {
        route.broken = Some(format!("{} has no LID, so no forwarding table leads there", route.to));
        return;
    }
    let mut at = start;
    if graph.kind(graph.owner(start)) != Kind::Switch {
        if start == end {
            return;
        }
        let Some(peer) = step(snapshot, route, start) else {
            route.broken = Some(format!("{} has no cable", route.from));
            return;
        };
        at = peer;
    }
    let mut seen = vec![false; graph.node_count()];
    while at != end {
        let here = graph.owner(at);
        if here == target && graph.kind(here) == Kind::Switch {
            return;
        }
        let name = names::label(graph, here);
        if graph.kind(here) != Kind::Switch {
            route.broken =
                Some(format!("the route to {} (LID {}) ends at {}", route.to, route.lid, snapshot.place(at)));
            return;
        }
        if std::mem::replace(&mut seen[here.index()], true) {
            route.broken = Some(format!(
                "the route to {} (LID {}) returns to switch {name}: a forwarding loop",
                route.to, route.lid
            ));
            return;
        }
        let out = tables.port(here, route.lid);
        let next = out.and_then(|out| graph.port(here, out)).and_then(|port| step(snapshot, route, port));
        let Some(next) = next else {
            route.broken = Some(match out {
                None => format!("switch {name} has no LFT entry for LID {} ({})", route.lid, route.to),
                Some(out) => format!(
                    "switch {name} forwards LID {} ({}) to port {out}, which has no link",
                    route.lid, route.to
                ),
            });
            return;
        };
        at = next;
    }
}

/// Over the fewest cables.
fn shortest(snapshot: &Snapshot, (start, end): (PortIx, PortIx), route: &mut Route) {
    let graph = &snapshot.graph;
    let (from, to) = (graph.owner(start), graph.owner(end));
    let Some(ports) = search(graph, from, to) else {
        route.broken = Some(format!("no cables connect {} and {}", route.from, route.to));
        return;
    };
    for port in ports {
        step(snapshot, route, port);
    }
}

/// Ports by which the nodes on the shortest path are left.
fn search(graph: &Graph, from: NodeIx, to: NodeIx) -> Option<Vec<PortIx>> {
    let mut by: Vec<Option<PortIx>> = vec![None; graph.node_count()];
    let mut queue = VecDeque::from([from]);
    while let Some(node) = queue.pop_front() {
        if node == to {
            break;
        }
        // Hosts and routers pass nothing on.
        if node != from && graph.kind(node) != Kind::Switch {
            continue;
        }
        for (near, far) in graph.cabled(node) {
            let next = graph.owner(far);
            if next != from && by[next.index()].is_none() {
                by[next.index()] = Some(near);
                queue.push_back(next);
            }
        }
    }
    let mut ports = Vec::new();
    let mut at = to;
    while at != from {
        let port = by[at.index()]?;
        ports.push(port);
        at = graph.owner(port);
    }
    ports.reverse();
    Some(ports)
}

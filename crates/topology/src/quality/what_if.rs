//! The fabric after a fault, or before maintenance.

use std::sync::Arc;

use super::compare::{Comparison, compare};
use crate::routing::{Request, RouteError, Routing, route};
use crate::{Graph, NodeIx, PortIx};

/// The fabric without something.
#[derive(Debug, Clone)]
pub struct WhatIf {
    /// What is left.
    pub graph: Graph,
    /// Its routes.
    pub routing: Routing,
    /// Both, measured.
    pub comparison: Comparison,
    /// Ends of hosts and routers that no cable leads to any more. Not those of nodes that were taken out
    /// themselves, nor of the aggregation nodes of switches that were.
    pub cut_off: Vec<PortIx>,
}

/// Routes a fabric without some cables (named by either end) and nodes, and compares. The LIDs stay.
///
/// # Errors
/// The engine refuses what is left.
pub fn without(
    graph: &Graph,
    routing: &Routing,
    request: &Request<'_>,
    cables: &[PortIx],
    nodes: &[NodeIx],
) -> Result<WhatIf, RouteError> {
    let rest = graph.without(cables, nodes);
    let again = Request { plan: Some(&routing.plan), prior: Some(&routing.tables), ..*request };
    let after = route(&rest, routing.tables.lids(), &again)?;
    let comparison = compare((graph, &routing.tables), (&rest, &after.tables), 1);
    let ends = routing.tables.lids().iter().map(|(_, end)| end);
    let lost = |end: &PortIx| graph.peer(*end).is_some() && rest.peer(*end).is_none();
    let mut cut_off: Vec<PortIx> = ends.filter(|end| lost(end) && !rest.is_dead(rest.owner(*end))).collect();
    cut_off.dedup();
    Ok(WhatIf { graph: rest, routing: after, comparison, cut_off })
}

/// Takes a switch out for maintenance: routes lead around it, its own hosts stay reachable until it is gone.
/// What is returned is the fabric in that state: the switch is there, and nothing goes through it but what
/// begins or ends at it.
///
/// # Errors
/// The engine refuses what is left.
pub fn drain(
    graph: &Graph,
    routing: &Routing,
    request: &Request<'_>,
    switch: NodeIx,
) -> Result<WhatIf, RouteError> {
    let mut what_if = without(graph, routing, request, &[], &[switch])?;
    let mut tables = what_if.routing.tables.clone();
    restore(graph, routing, switch, &mut tables);
    what_if.comparison = compare((graph, &routing.tables), (graph, &tables), 1);
    what_if.routing.tables = tables;
    what_if.graph = graph.clone();
    Ok(what_if)
}

/// Puts back what leads to a switch and its hosts, and what it sends itself.
fn restore(graph: &Graph, before: &Routing, switch: NodeIx, tables: &mut crate::routing::Tables) {
    let lids = Arc::clone(tables.lids());
    let switches = tables.switches().to_vec();
    for (lid, end) in lids.iter() {
        let at_it = graph.owner(end) == switch || graph.neighbour(end) == Some(switch);
        for one in &switches {
            if at_it || *one == switch {
                let port = before.tables.port(*one, lid).unwrap_or(crate::routing::NO_PATH);
                tables.set(*one, lid, port);
            }
        }
    }
}

//! Which engine a fabric should have, by what it is recognised as.

use super::form::Line;
use super::{Engine, Grid, Groups, Request, RouteError, Routing, route};
use crate::graph::{Graph, Kind};
use crate::recognise::{self, Shape, recognise};
use crate::routing::Lids;
use std::sync::Arc;

/// An engine, with what it needs to know.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The engine.
    pub engine: Engine,
    /// Coordinates, if it is an engine for grids.
    pub grid: Option<Grid>,
    /// Groups, if it is one for dragonflies.
    pub groups: Option<Groups>,
    /// Why it was chosen.
    pub why: String,
}

/// Chooses an engine: the shape's own if the shape is sure and the engine can be told where all switches stand, otherwise the one
/// for any graph.
#[must_use]
pub fn choose(graph: &Graph) -> Choice {
    let seen = recognise(graph);
    let name = seen.shape.name();
    let any = |why: String| Choice { engine: Engine::Layered, grid: None, groups: None, why };
    if !seen.is_sure() {
        return any(format!("the fabric looks like nothing sure ({name}, {:.0} %)", seen.confidence * 100.0));
    }
    let why = format!("the fabric is a {name} ({:.0} %)", seen.confidence * 100.0);
    match seen.shape {
        Shape::Tree { .. } => Choice { engine: Engine::FatTree, grid: None, groups: None, why },
        Shape::Grid { sizes, lines, coordinates } => {
            let lines: Vec<Line> = lines.into_iter().map(line).collect();
            let at = |node: crate::NodeIx| coordinates.iter().map(|row| row[node.index()]).collect();
            match Grid::new(graph, &sizes, &lines, at) {
                Ok(grid) => Choice { engine: Engine::Grid, grid: Some(grid), groups: None, why },
                Err(error) => any(format!("{why}, but {error}")),
            }
        }
        Shape::Dragonfly { group, plus: false, .. } => {
            let of_switches = graph.nodes_of(Kind::Switch).map(|switch| group[switch.index()]);
            let groups = Groups(of_switches.collect());
            Choice { engine: Engine::Dragonfly, grid: None, groups: Some(groups), why }
        }
        Shape::Dragonfly { .. } | Shape::Unknown => any(why),
    }
}

fn line(seen: recognise::Line) -> Line {
    match seen {
        recognise::Line::Ring => Line::Ring,
        recognise::Line::Open => Line::Open,
        recognise::Line::Complete => Line::Complete,
    }
}

/// Routes by the engine that [`choose`] names; the first remark says why. What the shape's engine refuses (too few lanes) goes
/// to the one for any graph.
///
/// # Errors
/// As [`route`].
pub fn route_auto(graph: &Graph, lids: &Arc<Lids>, request: &Request<'_>) -> Result<Routing, RouteError> {
    let choice = choose(graph);
    let own = Request {
        engine: choice.engine,
        grid: choice.grid.as_ref(),
        groups: choice.groups.as_ref(),
        ..*request
    };
    let mut routing = match route(graph, lids, &own) {
        Err(RouteError::FewLanes { .. }) => {
            route(graph, lids, &Request { engine: Engine::Layered, ..*request })?
        }
        other => other?,
    };
    routing.remarks.insert(0, format!("engine {}: {}", choice.engine.word(), choice.why));
    Ok(routing)
}

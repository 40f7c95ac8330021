//! Routes: which way every switch sends what is for whom.
//!
//! [`route`] turns a graph into [`Tables`] by an [`Engine`]; [`check`] looks at tables of whatever origin and says what is wrong
//! with them. The checker knows nothing of the engines. What each engine does is told in `docs/routing.md`.

use std::sync::Arc;

pub mod check;
mod destinations;
mod fill;
pub mod lanes;
mod layered;
pub mod lids;
mod order;
pub mod plan;
pub mod ranks;
pub mod referee;
pub mod tables;
pub mod view;
mod ways;

pub use check::{Checked, check};
pub use lanes::Lanes;
pub use lids::{Lids, LidsError};
pub use plan::Plan;
pub use ranks::Ranks;
pub use tables::{Changed, NO_PATH, Tables};
pub use view::View;

use crate::{Graph, NodeIx};
use destinations::Destinations;
use fill::Filler;
use ways::Ways;

/// How routes are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Shortest ways, balanced. May wait for itself in a circle.
    MinHop,
    /// Up first, then down, from roots that are given or found.
    UpDown,
    /// Fat trees, damaged ones too.
    FatTree,
    /// Any graph: shortest ways, free of deadlock by lanes.
    Layered,
}

impl Engine {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::MinHop => "minhop",
            Self::UpDown => "updown",
            Self::FatTree => "fattree",
            Self::Layered => "layered",
        }
    }
}

/// What to route, and how.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The engine.
    pub engine: Engine,
    /// Roots of a tree, if they are known.
    pub roots: &'a [NodeIx],
    /// Hosts that are balanced among themselves: storage, gateways.
    pub apart: &'a [NodeIx],
    /// Positions in the tree from before a fault: then what the fault did not touch stays where it is.
    pub plan: Option<&'a Plan>,
    /// Tables from before a fault: entries that are still as good as others are kept.
    pub prior: Option<&'a Tables>,
    /// Virtual lanes that may be used.
    pub lanes: u8,
}

impl Request<'_> {
    /// By an engine, and nothing else known.
    #[must_use]
    pub fn by(engine: Engine) -> Self {
        Self { engine, roots: &[], apart: &[], plan: None, prior: None, lanes: 8 }
    }
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Routing {
    /// The tables.
    pub tables: Tables,
    /// Positions in the tree, for routing again after a fault.
    pub plan: Plan,
}

/// Why an engine refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The identifiers are of another graph.
    #[error("the identifiers are of another graph: they end at {0}, and the graph's ports do not")]
    Foreign(u16),
    /// Data lanes are 1 to 15.
    #[error("{0} lanes are not possible: a fabric has 1 to 15 data lanes")]
    Lanes(u8),
}

/// Computes the tables of all switches.
///
/// # Errors
/// The engine refuses the graph; the reason names what it lacks.
pub fn route(graph: &Graph, lids: &Arc<Lids>, request: &Request<'_>) -> Result<Routing, RouteError> {
    let view = View::of(graph);
    let mut tables = Tables::empty(Arc::clone(lids), view.switches());
    let ranks = ranks_for(&view, request);
    let plan = match request.plan {
        Some(plan) => plan.clone(),
        None => Plan::of(graph, &view, &ranks, lids, request.apart),
    };
    if request.engine == Engine::Layered {
        let destinations = Destinations::of(graph, &view, lids, &plan);
        layered::fill(&view, &ranks, &destinations, request.lanes, &mut tables)?;
        return Ok(Routing { tables, plan });
    }
    let ways = match request.engine {
        Engine::MinHop => Ways::shortest(&view),
        _ => Ways::up_down(&view, &ranks),
    };
    let destinations = Destinations::of(graph, &view, lids, &plan);
    let filler = Filler {
        view: &view,
        ranks: Some(&ranks),
        ways: &ways,
        plan: &plan,
        destinations: &destinations,
        planned: request.engine == Engine::FatTree,
        prior: request.prior,
    };
    filler.fill(&mut tables);
    Ok(Routing { tables, plan })
}

/// Share of cables between equal ranks above which leaves say nothing about which way is up.
const NO_TREE: f64 = 0.02;

fn ranks_for(view: &View, request: &Request<'_>) -> Ranks {
    if !request.roots.is_empty() {
        return Ranks::of_roots(view, request.roots);
    }
    let of_leaves = Ranks::of_leaves(view);
    let tree = of_leaves.top() > 0 && of_leaves.level_share() < NO_TREE;
    if tree || request.engine == Engine::FatTree { of_leaves } else { Ranks::of_centre(view) }
}

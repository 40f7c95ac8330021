//! Routing: forwarding tables for every switch.
//!
//! [`route`] turns a graph into [`Tables`] by an [`Engine`]; [`fn@check`] finds what is wrong with tables of
//! any origin. The checker knows nothing of the engines. `docs/routing.md` describes each engine.

use std::sync::Arc;

mod account;
pub mod auto;
mod balanced;
pub mod check;
mod complete;
mod destinations;
mod distances;
mod fill;
pub mod form;
mod layered;
pub mod lids;
mod order;
pub mod plan;
pub mod ranks;
pub mod referee;
mod repair;
pub mod tables;
pub mod view;
pub mod vls;

#[cfg(test)]
mod tests;

pub use account::{Account, account};
pub use auto::{Choice, Measured, choose, route_auto, route_measured};
pub use check::{Checked, check};
pub use form::{Grid, Groups};
pub use lids::{Lids, LidsError};
pub use plan::Plan;
pub use ranks::Ranks;
pub use tables::{Changed, NO_PATH, Tables};
pub use view::View;
pub use vls::VlAssignment;

use crate::{Graph, Kind, NodeIx, counted, printable, verb};
use destinations::Destinations;
use distances::{Distances, Missing};
use fill::Filler;
use form::{DragonflyForm, Form, GridForm};
use repair::Repairer;

/// How routes are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Engine {
    /// Shortest routes, balanced. Credit loops are possible.
    MinHop,
    /// Up first, then down, from roots that are given or found.
    UpDown,
    /// Fat trees, damaged ones too.
    FatTree,
    /// Up first, then down, one destination after the other over the least loaded ports: trees whose trunks
    /// differ.
    Balanced,
    /// Any graph: shortest routes, free of deadlock by virtual lanes (VLs).
    Layered,
    /// Grids, dimension by dimension: torus, mesh, HyperX, hypercube. Needs the coordinates.
    Grid,
    /// Dragonflies: local, global, local. Needs the groups.
    Dragonfly,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::MinHop,
        Self::UpDown,
        Self::FatTree,
        Self::Balanced,
        Self::Layered,
        Self::Grid,
        Self::Dragonfly,
    ];
    /// OpenSM's names of the engines that compute routes in the same manner.
    const OF_OPENSM: [(&'static str, Self); 5] = [
        ("updn", Self::UpDown),
        ("ftree", Self::FatTree),
        ("dfsssp", Self::Layered),
        ("dor", Self::Grid),
        ("torus-2QoS", Self::Grid),
    ];

    /// The engine of this name: its own [word](Self::word), or OpenSM's name for it, in any case of letters.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        let own = Self::ALL.into_iter().map(|engine| (engine.word(), engine));
        let mut all = own.chain(Self::OF_OPENSM);
        all.find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, engine)| engine)
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::MinHop => "minhop",
            Self::UpDown => "updown",
            Self::FatTree => "fattree",
            Self::Balanced => "balanced",
            Self::Layered => "layered",
            Self::Grid => "grid",
            Self::Dragonfly => "dragonfly",
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
    /// Data virtual lanes (VLs) that may be used.
    pub vls: u8,
    /// Coordinates, for the engine that needs them.
    pub grid: Option<&'a Grid>,
    /// Groups, for the engine that needs them.
    pub groups: Option<&'a Groups>,
}

impl Request<'_> {
    /// By an engine, and nothing else known.
    #[must_use]
    pub fn by(engine: Engine) -> Self {
        Self { engine, roots: &[], apart: &[], plan: None, prior: None, vls: 8, grid: None, groups: None }
    }
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct Routing {
    /// The tables.
    pub tables: Tables,
    /// Positions in the tree, for routing again after a fault.
    pub plan: Plan,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Why an engine refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The LIDs are of another graph.
    #[error("LID {0} belongs to a port that this graph lacks: assign the LIDs of this graph")]
    Foreign(u16),
    /// Data VLs are 1 to 15.
    #[error("{} are not possible: give 1 to 15 data VLs", counted(*.0, "VL"))]
    VlCount(u8),
    /// A root has to be a switch of the graph.
    #[error("`{name}` is a {kind} and cannot be a root: name a switch of the fabric")]
    NoRoot {
        /// What it is called.
        name: String,
        /// What it is.
        kind: &'static str,
    },
    /// A root has to be of the graph.
    #[error("node {0} cannot be a root, as the graph has no such node: name a switch of the graph")]
    ForeignRoot(u32),
    /// The routes of the shape need more VLs than there are.
    #[error(
        "the engine needs {}, and {have} {} given: give more, or take the engine `layered`, which needs only 1",
        counted(*need, "VL"),
        verb(*have, "is", "are")
    )]
    FewVls {
        /// How many it needs.
        need: u8,
        /// How many there are.
        have: u8,
    },
    /// The places of switches are not known.
    #[error(
        "the engine `{0}` needs {1}, which this fabric was not recognised to have: take the engine `auto`, or `layered`, which routes \
         any fabric"
    )]
    NoShape(&'static str, &'static str),
    /// What is known of the shape is of another graph.
    #[error("the shape has {switches}, and the graph has {1}: recognise the shape of this graph", switches = counted(*.0, "switch"))]
    ForeignShape(usize, usize),
}

/// Computes the tables of all switches.
///
/// # Errors
/// The engine refuses the graph; the reason names what it lacks.
pub fn route(graph: &Graph, lids: &Arc<Lids>, request: &Request<'_>) -> Result<Routing, RouteError> {
    if let Some((lid, _)) = lids.iter().find(|(_, port)| port.index() >= graph.port_total()) {
        return Err(RouteError::Foreign(lid));
    }
    for root in request.roots {
        if root.index() >= graph.node_count() {
            return Err(RouteError::ForeignRoot(root.0));
        }
        if graph.kind(*root) != Kind::Switch {
            let name = printable(graph.name(*root)).into_owned();
            return Err(RouteError::NoRoot { name, kind: graph.kind(*root).word() });
        }
    }
    let view = View::of(graph);
    let tables = Tables::empty(Arc::clone(lids), view.switches());
    let job = Job { graph, view: &view, lids, request };
    match request.engine {
        Engine::MinHop => Ok(job.shortest(tables)),
        Engine::Layered => job.layered(tables, None),
        Engine::Grid => {
            let grid = request.grid.ok_or(RouteError::NoShape("grid", "the coordinates of the switches"))?;
            job.sized(grid.places())?;
            job.layered(tables, Some(&GridForm::of(grid, &view)))
        }
        Engine::Dragonfly => {
            let groups =
                request.groups.ok_or(RouteError::NoShape("dragonfly", "the groups of the switches"))?;
            job.sized(groups.0.len())?;
            job.layered(tables, Some(&DragonflyForm::of(groups, &view)))
        }
        Engine::UpDown | Engine::FatTree | Engine::Balanced => Ok(job.up_down(tables)),
    }
}

/// Share of cables between equal ranks above which leaves do not tell which direction is up.
const NO_TREE: f64 = 0.02;

/// What all engines need.
struct Job<'a> {
    graph: &'a Graph,
    view: &'a View,
    lids: &'a Lids,
    request: &'a Request<'a>,
}

impl Job<'_> {
    fn shortest(&self, mut tables: Tables) -> Routing {
        let plan = self.plan();
        self.fill(&mut tables, &Distances::shortest(self.view), &plan);
        let given = !self.request.roots.is_empty();
        let unused = || "the given roots are not used: the engine minhop has none".to_owned();
        Routing { tables, plan, notes: given.then(unused).into_iter().collect() }
    }

    fn sized(&self, shape: usize) -> Result<(), RouteError> {
        let switches = self.view.switch_count();
        if shape == switches { Ok(()) } else { Err(RouteError::ForeignShape(shape, switches)) }
    }

    fn layered(&self, mut tables: Tables, form: Option<&dyn Form>) -> Result<Routing, RouteError> {
        let mut plan = self.plan();
        let mut distances = Distances::up_down(self.view, plan.ranks());
        let mut notes = self.of_roots();
        if self.missing(&distances, plan.ranks()) {
            plan = self.plan_of(&Ranks::of_centre(self.view));
            distances = Distances::up_down(self.view, plan.ranks());
            if !self.request.roots.is_empty() {
                notes.push(
                    "up/down routes from the given roots do not reach all switches: other roots were chosen"
                        .to_owned(),
                );
            }
        }
        let destinations = Destinations::of(self.graph, self.view, self.lids, &plan);
        let vls = self.request.vls;
        let filled = layered::fill(self.view, plan.ranks(), &destinations, vls, form, &mut tables)?;
        if filled.rest > 0 {
            notes.push(format!(
                "{} {} not reached from all switches by the routes of this shape: other routes were taken",
                counted(filled.rest, "LID"),
                verb(filled.rest, "is", "are")
            ));
        }
        let repairer = self.repairer(&distances, &destinations, &plan, Some(&filled.up_down));
        repairer.repair(1, &mut tables);
        complete::between_switches(self.view, &destinations, &mut tables);
        notes.extend(self.empty(&destinations, &tables));
        Ok(Routing { tables, plan, notes })
    }

    fn repairer<'b>(
        &'b self,
        distances: &'b Distances,
        destinations: &'b Destinations,
        plan: &'b Plan,
        only: Option<&'b [bool]>,
    ) -> Repairer<'b> {
        Repairer {
            view: self.view,
            ranks: plan.ranks(),
            distances,
            destinations,
            prior: self.request.prior,
            only,
        }
    }

    /// Notes on roots that are gone.
    fn of_roots(&self) -> Vec<String> {
        let gone = self.request.roots.iter().filter(|root| self.graph.is_dead(**root));
        gone.map(|root| format!("the root `{}` is not in the fabric", printable(self.graph.name(*root))))
            .collect()
    }

    /// Notes on entries that are left empty though cables lead there.
    fn empty(&self, destinations: &Destinations, tables: &Tables) -> Vec<String> {
        let empty = complete::empty(self.view, destinations, tables);
        let of_hosts = format!(
            "{} between switches and CAs left empty: a route there could close a credit loop",
            counted(empty.of_hosts, "LFT entry")
        );
        let between = format!(
            "{} between switches without CAs left empty: no up/down route leads there, and no CA sends there (normal for a tree)",
            counted(empty.between_switches, "LFT entry")
        );
        let both = [(empty.of_hosts, of_hosts), (empty.between_switches, between)];
        both.into_iter().filter(|one| one.0 > 0).map(|one| one.1).collect()
    }

    fn up_down(&self, mut tables: Tables) -> Routing {
        let mut notes = self.of_roots();
        let mut plan = self.plan();
        // A former plan, or given roots, may not fit a damaged fabric; and leaves may be wired as in no tree.
        let others: [fn(&View) -> Ranks; 2] = [Ranks::of_leaves, Ranks::of_centre];
        let mut others = others.into_iter().enumerate();
        loop {
            let distances = Distances::up_down(self.view, plan.ranks());
            let missing = Missing::of(self.view, plan.ranks(), &distances, &self.view.components());
            let few = missing.of_leaves as f64 <= missing.leaves as f64 * NO_TREE;
            let whole = few && self.tree(&distances, &plan, &missing, &mut tables);
            let other = if whole { None } else { others.by_ref().find_map(|one| self.other(one, &plan)) };
            let Some((ranks, last)) = other else {
                if !few {
                    self.tree(&distances, &plan, &missing, &mut tables);
                }
                let destinations = Destinations::of(self.graph, self.view, self.lids, &plan);
                notes.extend(self.of_missing(&missing));
                notes.extend(self.empty(&destinations, &tables));
                return Routing { tables, plan, notes };
            };
            self.of_change(missing.first, last, &mut notes);
            plan = self.plan_of(&ranks);
        }
    }

    /// Other ranks than a plan's, and whether they are the last that there are.
    fn other(&self, (at, ranks): (usize, fn(&View) -> Ranks), plan: &Plan) -> Option<(Ranks, bool)> {
        Some((ranks(self.view), at > 0)).filter(|(ranks, _)| ranks != plan.ranks())
    }

    /// Tables with up/down routes, and other routes between the few hosts that these do not join. False if
    /// some hosts have no route.
    fn tree(&self, distances: &Distances, plan: &Plan, missing: &Missing, tables: &mut Tables) -> bool {
        let destinations = Destinations::of(self.graph, self.view, self.lids, plan);
        *tables = Tables::empty(Arc::clone(tables.lids()), self.view.switches());
        if self.request.engine == Engine::Balanced {
            balanced::fill(self.view, plan.ranks(), distances, &destinations, tables);
        } else {
            self.fill(tables, distances, plan);
        }
        self.repairer(distances, &destinations, plan, None).repair(self.request.vls, tables);
        if self.request.engine != Engine::FatTree {
            complete::between_switches(self.view, &destinations, tables);
        }
        missing.pairs == 0 || complete::lost(self.graph, self.view, self.lids, &destinations, tables) == 0
    }

    /// The note on hosts without an up/down route between them.
    fn of_missing(&self, missing: &Missing) -> Option<String> {
        let (from, to) = missing.first?;
        let name = |sw| printable(self.graph.name(self.view.switch(sw)));
        Some(format!(
            "{} of switches with CAs {} no up/down route, for example from `{}` to `{}`: other routes were taken, on a VL of their own if one is free",
            counted(missing.pairs, "pair"),
            verb(missing.pairs, "has", "have"),
            name(from),
            name(to)
        ))
    }

    /// The note on ranks that are given up: once, with the reason.
    fn of_change(&self, first: Option<(usize, usize)>, last: bool, notes: &mut Vec<String>) {
        let name = |sw| printable(self.graph.name(self.view.switch(sw)));
        let why = first.map_or_else(String::new, |(from, to)| {
            format!("no up/down route leads from switch `{}` to `{}`: ", name(from), name(to))
        });
        let given = !self.request.roots.is_empty() && !notes.iter().any(|note| note.contains("roots"));
        if given {
            notes.push(format!("{why}the given roots are not used; ranks are counted from the leaves"));
        }
        if last {
            notes.push(format!("{why}not routed as a fat tree, new ranks were chosen; expect hot links"));
        }
    }

    fn missing(&self, distances: &Distances, ranks: &Ranks) -> bool {
        Missing::of(self.view, ranks, distances, &self.view.components()).pairs > 0
    }

    /// The plan from before, or one of the ranks that the engine begins with.
    fn plan(&self) -> Plan {
        match self.request.plan {
            Some(plan) if plan.switch_count() == self.view.switch_count() => plan.clone(),
            _ => self.plan_of(&self.ranks()),
        }
    }

    fn plan_of(&self, ranks: &Ranks) -> Plan {
        Plan::of(self.graph, self.view, ranks, self.lids, self.request.apart)
    }

    fn ranks(&self) -> Ranks {
        if !self.request.roots.is_empty() {
            return Ranks::of_roots(self.view, self.request.roots);
        }
        let of_leaves = Ranks::of_leaves(self.view);
        let tree = of_leaves.top() > 0 && of_leaves.level_share() < NO_TREE;
        let wanted = tree || matches!(self.request.engine, Engine::FatTree | Engine::Balanced);
        if wanted { of_leaves } else { Ranks::of_centre(self.view) }
    }

    fn fill(&self, tables: &mut Tables, distances: &Distances, plan: &Plan) {
        let filler = Filler {
            view: self.view,
            distances,
            plan,
            destinations: &Destinations::of(self.graph, self.view, self.lids, plan),
            planned: self.request.engine == Engine::FatTree,
            prior: self.request.prior,
        };
        filler.fill(tables);
    }
}

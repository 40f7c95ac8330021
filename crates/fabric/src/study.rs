//! Routes on paper: which engine fits a fabric, what its tables are worth, and what is left after a fault.
//!
//! Nothing here talks to anybody. What it computes with stands in [`topology::routing`] and [`topology::quality`].

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use topology::quality::{Bandwidth, Pattern, bandwidth, loads};
use topology::recognise::{Line as Recognised, Shape, recognise};
use topology::routing::check::Fault;
use topology::routing::form::Line;
use topology::routing::{
    Checked, Engine, Grid, Groups, Lids, LidsError, Request, RouteError, Routing, Tables, View, check, route,
};
use topology::{Graph, Kind, NodeIx, PortIx};

use crate::names::{self, NameError, Named};

mod single;

pub use single::{Single, single_points};

/// All engines.
pub const ENGINES: [Engine; 6] = [
    Engine::MinHop,
    Engine::UpDown,
    Engine::FatTree,
    Engine::Layered,
    Engine::Grid,
    Engine::Dragonfly,
];

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// A name leads nowhere.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Identifiers do not suffice.
    #[error(transparent)]
    Lids(#[from] LidsError),
    /// The engine refuses.
    #[error(transparent)]
    Route(#[from] RouteError),
}

/// What is known of a fabric's shape, for the engines that need it.
#[derive(Debug, Default)]
pub struct Known {
    /// The engine that fits.
    pub engine: Option<Engine>,
    /// Why that one, in words.
    pub why: String,
    grid: Option<Grid>,
    groups: Option<Groups>,
}

impl Known {
    /// Looks at a fabric.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let recognised = recognise(graph);
        let sure = recognised.is_sure();
        let why = format!("it looks like a {} ({:.0} % sure)", recognised.shape.name(), recognised.confidence * 100.0);
        let mut known = Self { why, ..Self::default() };
        match &recognised.shape {
            Shape::Tree { .. } => known.engine = sure.then_some(Engine::FatTree),
            Shape::Dragonfly { group, .. } => {
                let view = View::of(graph);
                let of_rows: Vec<u32> = view.switches().iter().map(|node| group[node.index()]).collect();
                if of_rows.iter().all(|group| *group != u32::MAX) {
                    known.groups = Some(Groups(of_rows));
                    known.engine = sure.then_some(Engine::Dragonfly);
                }
            }
            Shape::Grid { sizes, lines, coordinates } => {
                let word = |line: &Recognised| match line {
                    Recognised::Ring => Line::Ring,
                    Recognised::Open => Line::Open,
                    Recognised::Complete => Line::Complete,
                };
                let lines: Vec<Line> = lines.iter().map(word).collect();
                let at = |node: NodeIx| coordinates.iter().map(|row| row[node.index()]).collect();
                known.grid = Grid::new(graph, sizes, &lines, at).ok();
                known.engine = known.grid.as_ref().filter(|_| sure).map(|_| Engine::Grid);
            }
            Shape::Unknown => {}
        }
        if known.engine.is_none() {
            known.why = format!("{}: the engine for any graph is taken", known.why);
        }
        known
    }
}

/// How to route.
#[derive(Debug, Clone, Default)]
pub struct Wish {
    /// The engine; `None`: the one that fits.
    pub engine: Option<Engine>,
    /// Roots of a tree, by name.
    pub roots: Vec<String>,
    /// Data lanes; 0 is eight.
    pub lanes: u8,
    /// Two to this power identifiers a host.
    pub lmc: u8,
}

/// Tables, and how they came about.
#[derive(Debug)]
pub struct Routed {
    /// By which engine.
    pub engine: Engine,
    /// Why by that one.
    pub why: String,
    /// The tables.
    pub routing: Routing,
    /// What the checker says.
    pub checked: Checked,
    /// Seconds for the tables, and for checking them.
    pub seconds: [f64; 2],
}

/// Routes a fabric and checks the tables. What `before` says is kept where it is still as good.
///
/// # Errors
/// A name leads nowhere, or the engine refuses.
pub fn routed(
    graph: &Graph,
    lids: &Arc<Lids>,
    wish: &Wish,
    before: Option<&Routing>,
) -> Result<Routed, StudyError> {
    let known = if matches!(wish.engine, None | Some(Engine::Grid | Engine::Dragonfly)) {
        Known::of(graph)
    } else {
        Known::default()
    };
    let engine = wish.engine.or(known.engine).unwrap_or(Engine::Layered);
    let roots = nodes(graph, &wish.roots)?;
    let mut request = Request { roots: &roots, ..Request::by(engine) };
    request.lanes = if wish.lanes == 0 { request.lanes } else { wish.lanes };
    request.grid = known.grid.as_ref();
    request.groups = known.groups.as_ref();
    request.plan = before.map(|before| &before.plan);
    request.prior = before.map(|before| &before.tables);
    let begun = Instant::now();
    let mut engine = engine;
    let mut why = if wish.engine.is_some() { "it was asked for".to_owned() } else { known.why };
    let mut routing = match route(graph, lids, &request) {
        Err(error) if wish.engine.is_none() && engine != Engine::Layered => {
            why = format!("the engine `{}` refuses: {error}", engine.word());
            engine = Engine::Layered;
            route(graph, lids, &Request { engine, ..request })?
        }
        routing => routing?,
    };
    let mut took = begun.elapsed().as_secs_f64();
    let checking = Instant::now();
    let mut checked = check(graph, &routing.tables);
    if !checked.is_good() && wish.engine.is_none() && engine != Engine::Layered {
        why = format!("tables of the engine `{}` did not pass the checker", engine.word());
        engine = Engine::Layered;
        let again = Instant::now();
        routing = route(graph, lids, &Request { engine, ..request })?;
        took += again.elapsed().as_secs_f64();
        checked = check(graph, &routing.tables);
    }
    Ok(Routed { engine, why, routing, checked, seconds: [took, checking.elapsed().as_secs_f64()] })
}

fn nodes(graph: &Graph, named: &[String]) -> Result<Vec<NodeIx>, NameError> {
    let node = |name: &String| {
        names::find(graph, name).map(|named| match named {
            Named::Node(node) => node,
            Named::Port(port) => graph.owner(port),
        })
    };
    named.iter().map(node).collect()
}

/// A fabric without cables and nodes, by their names.
///
/// # Errors
/// A name leads nowhere.
pub fn without(graph: &Graph, parts: &[String]) -> Result<Graph, NameError> {
    let (mut links, mut gone) = (Vec::new(), Vec::new());
    for name in parts {
        match names::part(graph, name)? {
            Named::Node(node) => gone.push(node),
            Named::Port(port) => links.push(port),
        }
    }
    Ok(graph.without(&links, &gone))
}

/// What a fault is, in words.
#[must_use]
pub fn fault_words(fault: Fault, port: u8) -> String {
    match fault {
        Fault::NoEntry => "has no entry".to_owned(),
        Fault::DeadPort => format!("goes out by port {port}, where nothing is"),
        Fault::WrongEnd => format!("goes out by port {port}, to a host that does not answer to it"),
        Fault::WrongSwitch => "is kept by the switch, which does not answer to it".to_owned(),
        Fault::Loop => format!("goes out by port {port} and comes back"),
        Fault::NoLane => "came on a lane that the switch does not know".to_owned(),
    }
}

/// What the checker says, in a form that is printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// Nothing lost, no credit loop.
    pub good: bool,
    /// Pairs of a switch that carries hosts and an identifier of a host.
    pub pairs: u64,
    /// Of them those that the tables lose.
    pub lost: u64,
    /// Of them those between which there are no cables.
    pub cut: u64,
    /// Data lanes in use.
    pub lanes: u8,
    /// Most switches on a way.
    pub most_switches: u32,
    /// The first of what is wrong.
    pub findings: Vec<String>,
    /// A credit loop: each port (and lane) waits for the next.
    pub credit_loop: Vec<String>,
}

impl Judged {
    /// In words.
    #[must_use]
    pub fn of(graph: &Graph, checked: &Checked) -> Self {
        let finding = |one: &topology::routing::check::Finding| {
            format!(
                "switch {}: LID {} {}",
                names::label(graph, one.switch),
                one.lid,
                fault_words(one.fault, one.port)
            )
        };
        Self {
            good: checked.is_good(),
            pairs: checked.pairs,
            lost: checked.lost,
            cut: checked.cut,
            lanes: checked.lanes,
            most_switches: checked.most_hops,
            findings: checked.findings.iter().map(finding).collect(),
            credit_loop: checked
                .credit_loop
                .iter()
                .map(|wait| format!("{} lane {}", names::place(graph, wait.port), wait.lane))
                .collect(),
        }
    }
}

/// How good tables are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Quality {
    /// Most destinations of a port that leads up between switches, and where.
    pub most_up: u32,
    /// The port with the most.
    pub most_up_at: Option<String>,
    /// Destinations of a port that leads up, in the mean.
    pub mean_up: f64,
    /// Most destinations of a port that leads down.
    pub most_down: u32,
    /// The port with the most.
    pub most_down_at: Option<String>,
    /// Destinations of a port that leads down, in the mean.
    pub mean_down: f64,
    /// Pairs of hosts by the cables between them.
    pub hops: Vec<(u32, u64)>,
    /// Pairs of hosts that the tables do not lead to each other.
    pub lost: u64,
    /// A pair of hosts with the longest way.
    pub longest: Option<(String, String)>,
    /// Share of a host's bandwidth that is left in random pairs, in the mean: effective bisection bandwidth.
    pub bisection: f64,
    /// The same of the worst of the patterns.
    pub bisection_worst: f64,
    /// The same over shifts: each host to the one so many places after it.
    pub shift: f64,
    /// The same of the worst shift.
    pub shift_worst: f64,
    /// A pair of hosts that shares a cable with most others in these patterns.
    pub worst_pair: Option<(String, String)>,
    /// Cables and switches whose loss would cut hosts off from each other.
    pub single: Single,
}

/// Random patterns of the measurement of the bisection.
const PATTERNS: u32 = 100;
/// At most so many shifts are tried.
const SHIFTS: u32 = 64;

/// Measures tables.
#[must_use]
pub fn quality(graph: &Graph, tables: &Tables, seed: u64) -> Quality {
    let loads = loads(graph, tables);
    let hosts = graph.count(Kind::Host) as u32;
    // Large fabrics need fewer patterns: each has more flows.
    let count = (PATTERNS * 1_000 / hosts.max(1_000)).max(10);
    let random = bandwidth(graph, tables, Pattern::Bisection { count, seed });
    let shifts = bandwidth(graph, tables, Pattern::Shifts { step: hosts.div_ceil(SHIFTS).max(1) });
    let place = |port: PortIx| names::place(graph, port);
    let pair = |pair: Option<(PortIx, PortIx)>| pair.map(|(from, to)| (place(from), place(to)));
    let worse = |a: &Bandwidth, b: &Bandwidth| if a.worst_flow <= b.worst_flow { a.worst_pair } else { b.worst_pair };
    Quality {
        most_up: loads.up.most,
        most_up_at: loads.up.port.map(place),
        mean_up: loads.up.mean,
        most_down: loads.down.most,
        most_down_at: loads.down.port.map(place),
        mean_down: loads.down.mean,
        hops: loads.hops.clone(),
        lost: loads.lost,
        longest: pair(loads.longest),
        bisection: random.mean,
        bisection_worst: random.worst_pattern,
        shift: shifts.mean,
        shift_worst: shifts.worst_pattern,
        worst_pair: pair(worse(&random, &shifts)),
        single: single_points(graph),
    }
}

/// What a loss would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loss {
    /// What is taken away.
    pub without: Vec<String>,
    /// Hosts that no cable leads to any more.
    pub cut_off: Vec<String>,
    /// Entries of tables that have to change.
    pub entries: u64,
    /// Of how many switches.
    pub switches: u64,
    /// Blocks of 64 entries that a manager has to write.
    pub blocks: u64,
    /// Seconds to route again.
    pub seconds: f64,
    /// What the checker says of the new tables.
    pub judged: Judged,
    /// Before.
    pub before: Quality,
    /// After.
    pub after: Quality,
}

/// Routes before and after a loss.
///
/// # Errors
/// A name leads nowhere, or the engine refuses.
pub fn loss(graph: &Graph, wish: &Wish, parts: &[String], seed: u64) -> Result<Loss, StudyError> {
    let rest = without(graph, parts)?;
    let lids = Arc::new(Lids::of_graph(graph, wish.lmc)?);
    let before = routed(graph, &lids, wish, None)?;
    let same = Wish { engine: Some(before.engine), ..wish.clone() };
    // Shapes are recognised anew, and a shape that is none any more is no reason to refuse.
    let after = routed(&rest, &lids, &same, Some(&before.routing))
        .or_else(|_| routed(&rest, &lids, &Wish { engine: None, ..wish.clone() }, None))?;
    let (old, new) = (&before.routing.tables, &after.routing.tables);
    let mut switches: Vec<NodeIx> = Vec::new();
    let mut entries = 0;
    for change in old.changes(new).filter(|change| !rest.is_dead(change.switch)) {
        entries += 1;
        if switches.last() != Some(&change.switch) {
            switches.push(change.switch);
        }
    }
    let alone = |node: &NodeIx| {
        graph.kind(*node) != Kind::Switch
            && !rest.is_dead(*node)
            && graph.cabled(*node).next().is_some()
            && rest.cabled(*node).all(|(_, far)| rest.cabled(rest.owner(far)).count() == 0)
    };
    let mut cut_off: Vec<String> = graph.nodes().filter(alone).map(|node| names::label(graph, node)).collect();
    cut_off.sort();
    Ok(Loss {
        without: parts.to_vec(),
        cut_off,
        entries,
        switches: switches.len() as u64,
        blocks: old.blocks_to_write(new).filter(|(switch, _)| !rest.is_dead(*switch)).count() as u64,
        seconds: after.seconds[0],
        judged: Judged::of(&rest, &after.checked),
        before: quality(graph, old, seed),
        after: quality(&rest, new, seed),
    })
}

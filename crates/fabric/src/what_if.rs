//! Routes on paper: which engine fits a fabric, the quality of its tables, and what a fault changes.
//!
//! Nothing here talks to anybody. What it computes with is in [`topology::routing`] and
//! [`topology::quality`].

use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use topology::quality::{self as judge, Bandwidth, WhatIf};
use topology::routing::check::{Fault, Finding};
use topology::routing::{
    Checked, Choice, Engine, Lids, LidsError, Measured, Request, RouteError, Routing, Tables, check, choose,
    route, route_measured,
};
use topology::{Graph, Kind, NodeIx, PortIx, counted, verb};

use crate::names::{self, NameError, Named};
use crate::snapshot::Snapshot;
use crate::vls;

#[cfg(test)]
mod tests;
pub mod text;

/// All engines.
pub const ENGINES: [Engine; 7] = Engine::ALL;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum WhatIfError {
    /// A name leads nowhere.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A root that leads nowhere.
    #[error("--root: {0}")]
    Root(#[source] NameError),
    /// There are not enough LIDs.
    #[error(transparent)]
    Lids(#[from] LidsError),
    /// The engine refuses.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// No pair of hosts has a switch between it.
    #[error(
        "nothing to route: of {} and {} none are connected to each other: see how the file was read with `tieline fabric observe --from FILE`",
        counted(*switches, "switch"),
        counted(*hosts, "CA")
    )]
    Nothing {
        /// Switches there are.
        switches: usize,
        /// Hosts there are.
        hosts: usize,
    },
}

/// The options of a routing.
#[derive(Debug, Clone, Default)]
pub struct RouteOptions {
    /// The engine; `None` selects the one that fits.
    pub engine: Option<Engine>,
    /// Roots of a tree, by name.
    pub roots: Vec<String>,
    /// Data VLs; 0 is as many as are operational, and eight where that is not known.
    pub vls: u8,
    /// Data VLs that the ports between switches have been set to ([`Snapshot::operational_vls`]); 0 where it
    /// is not known.
    pub operational: u8,
    /// LMC: two to this power LIDs per CA port.
    pub lmc: u8,
}

impl RouteOptions {
    /// Data VLs that tables may use; 0 is what the engines take.
    fn vls(&self) -> u8 {
        if self.vls == 0 { self.operational } else { self.vls }
    }

    /// The warning if more VLs are requested than the fabric operates.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let (asked, have) = (self.vls, self.operational);
        (have > 0 && asked > have).then(|| {
            format!(
                "{} asked for, and ports between switches operate {have}: packets on the others are dropped: give --vls {have}, or have the subnet manager operate more (OpenSM: max_op_vls)",
                counted(asked, "VL")
            )
        })
    }
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
    /// The result of the checker.
    pub checked: Checked,
    /// Seconds for the tables, and for checking them.
    pub seconds: [f64; 2],
}

/// What an engine is asked, with what it refers to.
struct Question {
    known: Choice,
    engine: Engine,
    roots: Vec<NodeIx>,
    vls: u8,
}

impl Question {
    fn of(graph: &Graph, options: &RouteOptions) -> Result<Self, WhatIfError> {
        let shaped = matches!(options.engine, None | Some(Engine::Grid | Engine::Dragonfly));
        let plain =
            |engine| Choice { engine, grid: None, groups: None, why: "requested".to_owned(), is_whole: true };
        let known = if shaped { choose(graph) } else { plain(options.engine.unwrap_or(Engine::Layered)) };
        let engine = options.engine.unwrap_or(known.engine);
        let roots = options.roots.iter().map(|name| names::node(graph, name));
        let roots = roots.collect::<Result<_, _>>().map_err(WhatIfError::Root)?;
        Ok(Self { known, engine, roots, vls: options.vls() })
    }

    fn request(&self) -> Request<'_> {
        let mut request = Request { roots: &self.roots, ..Request::by(self.engine) };
        request.vls = if self.vls == 0 { request.vls } else { self.vls };
        request.grid = self.known.grid.as_ref();
        request.groups = self.known.groups.as_ref();
        request
    }
}

/// Routes a fabric and checks the tables. If no engine was asked for, the one that fits is measured, and
/// where it does badly the others are tried ([`route_measured`]).
///
/// # Errors
/// A name leads nowhere, or the engine refuses.
pub fn routed(graph: &Graph, lids: &Arc<Lids>, options: &RouteOptions) -> Result<Routed, WhatIfError> {
    let question = Question::of(graph, options)?;
    if options.engine.is_none() {
        let Measured { engine, why, routing, checked, seconds } =
            route_measured(graph, lids, &question.request(), &question.known)?;
        return Routed { engine, why, routing, checked, seconds }.said_of(graph, lids);
    }
    let begun = Instant::now();
    let routing = route(graph, lids, &question.request())?;
    let (took, begun) = (begun.elapsed().as_secs_f64(), Instant::now());
    let checked = check(graph, &routing.tables);
    let seconds = [took, begun.elapsed().as_secs_f64()];
    Routed { engine: question.engine, why: "requested".to_owned(), routing, checked, seconds }
        .said_of(graph, lids)
}

impl Routed {
    /// With what the file should have been asked about. Tables for nobody are refused.
    fn said_of(mut self, graph: &Graph, lids: &Lids) -> Result<Self, WhatIfError> {
        if self.checked.pairs == 0 {
            let (switches, hosts) = (graph.count(Kind::Switch), graph.count(Kind::Host));
            return Err(WhatIfError::Nothing { switches, hosts });
        }
        let notes = &mut self.routing.notes;
        if let Some(first) = lids.refused().first() {
            notes.push(format!(
                "{} {} a new LID, as another port has the recorded one; the first is {}",
                counted(lids.refused().len(), "port"),
                verb(lids.refused().len(), "gets", "get"),
                names::place(graph, *first)
            ));
        }
        notes.extend(speeds(graph));
        Ok(self)
    }
}

/// Notes on switches whose cables differ in bandwidth.
fn speeds(graph: &Graph) -> Option<String> {
    let mut rates = std::collections::BTreeMap::<u32, (usize, String)>::new();
    let is_switch = |port: PortIx| graph.kind(graph.owner(port)) == Kind::Switch;
    for (a, _) in graph.links().filter(|(a, b)| is_switch(*a) && is_switch(*b)) {
        let rate = graph.link(a).filter(|rate| rate.mbps() > 0);
        if let Some(rate) = rate {
            rates.entry(rate.mbps()).or_insert((0, rate.to_string())).0 += 1;
        }
    }
    let each = rates
        .values()
        .map(|(count, rate)| format!("{count} {} at {rate}", verb(*count, "runs", "run")))
        .collect::<Vec<_>>();
    (each.len() > 1).then(|| {
        format!(
            "cables between switches differ in rate ({}): routes and bandwidth shares treat them as equal",
            each.join(", ")
        )
    })
}

/// Cables and nodes by their names.
fn parts_of(graph: &Graph, parts: &[String]) -> Result<(Vec<PortIx>, Vec<NodeIx>), NameError> {
    let (mut cables, mut gone) = (Vec::new(), Vec::new());
    for name in parts {
        match names::part(graph, name)? {
            Named::Node(node) => gone.push(node),
            Named::Port(port) => cables.push(port),
        }
    }
    Ok((cables, gone))
}

/// A fabric without cables and nodes, by their names.
///
/// # Errors
/// A name leads nowhere.
pub fn without(graph: &Graph, parts: &[String]) -> Result<Graph, NameError> {
    let (cables, gone) = parts_of(graph, parts)?;
    Ok(graph.without(&cables, &gone))
}

/// What a fault is, in words.
#[must_use]
pub fn fault_words(fault: Fault, port: u8) -> String {
    match fault {
        Fault::NoEntry => "has no LFT entry".to_owned(),
        Fault::DeadPort => format!("is forwarded to port {port}, which has no link"),
        Fault::WrongEnd => format!("is forwarded to port {port}, to a CA that has another LID"),
        Fault::WrongSwitch => "is delivered to the switch itself, which has another LID".to_owned(),
        Fault::Loop => format!("is forwarded to port {port} and returns: a forwarding loop"),
        Fault::NoVl => "arrived on a VL that the switch does not map".to_owned(),
    }
}

/// The result of the checker, in a form that is printed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Judged {
    /// Every two hosts reach each other, and there is no credit loop.
    pub good: bool,
    /// Pairs of a switch with CAs and a LID of a CA.
    pub pairs: u64,
    /// Of them those without a route.
    pub lost: u64,
    /// Of them those without a route where one end is an aggregation node, which are not among the lost ones.
    pub lost_aggregation: u64,
    /// Of them those between which there are no cables.
    pub cut: u64,
    /// Missing routes to switches, and from switches without CAs: subnet managers reach those by directed
    /// routes only.
    pub lost_switches: u64,
    /// Data VLs in use.
    #[serde(rename = "lanes")]
    pub vls: u8,
    /// Most switches on a route.
    pub most_switches: u32,
    /// The first of what is wrong.
    pub findings: Vec<String>,
    /// A credit loop: each port (and VL) waits for the credits of the next.
    pub credit_loop: Vec<String>,
    /// Why it is not judged whether traffic uses VLs on which the credit loop is real; absent where that is
    /// known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_judged: Option<String>,
}

impl Judged {
    /// Of existing tables, which do not contain the VLs of the traffic.
    #[must_use]
    pub fn of_snapshot(snapshot: &Snapshot, checked: &Checked) -> Self {
        let open = || vls::why_open(snapshot, &checked.credit_loop);
        let not_judged = if checked.credit_loop.is_empty() { None } else { open() };
        Self { not_judged, ..Self::of(&snapshot.graph, checked) }
    }

    /// Nothing but the credit loop is wrong, and that is not judged.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.not_judged.is_some() && self.lost + self.cut + self.lost_switches == 0
    }

    /// The result of a check, with names of nodes.
    #[must_use]
    pub fn of(graph: &Graph, checked: &Checked) -> Self {
        let finding = |one: &Finding| {
            format!(
                "switch {}: LID {} {}",
                names::label(graph, one.switch),
                one.lid,
                fault_words(one.fault, one.port)
            )
        };
        Self {
            good: checked.is_good() && checked.cut == 0 && checked.pairs > 0,
            pairs: checked.pairs,
            lost: checked.lost,
            lost_aggregation: checked.lost_aggregation,
            cut: checked.cut,
            lost_switches: checked.lost_switches,
            vls: checked.vls,
            most_switches: checked.most_hops,
            findings: checked.findings.iter().map(finding).collect(),
            not_judged: None,
            credit_loop: checked
                .credit_loop
                .iter()
                .map(|wait| format!("{} VL {}", names::place(graph, wait.port), wait.vl))
                .collect(),
        }
    }
}

/// How good tables are.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Quality {
    /// Most LIDs routed over an uplink between switches.
    pub most_up: u32,
    /// The port with the most LIDs.
    pub most_up_at: Option<String>,
    /// LIDs routed over an uplink, on average.
    pub mean_up: f64,
    /// Most LIDs routed over a downlink.
    pub most_down: u32,
    /// The port with the most LIDs.
    pub most_down_at: Option<String>,
    /// LIDs routed over a downlink, on average.
    pub mean_down: f64,
    /// Hop histogram: numbers of cables, and the pairs of CAs with a route of that length.
    pub hops: Vec<(u32, u64)>,
    /// Pairs of CAs without a route.
    pub lost: u64,
    /// A pair of CAs with a longest route.
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
    /// Single points of failure.
    pub single: Single,
}

/// Cables and switches whose loss would part hosts from each other, and how many: worst first, at most a
/// hundred of each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Single {
    /// Switches, with the hosts on the smaller side. Their own hosts are not counted.
    pub switches: Vec<(String, u32)>,
    /// Cables between switches.
    pub cables: Vec<(String, u32)>,
    /// Hosts that have one cable.
    pub hosts_with_one_cable: u32,
}

/// Of each kind so many are named.
const NAMED: usize = 100;

impl Single {
    /// Of a fabric.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let found = judge::single_points(graph);
        let switches = found.switches.iter().take(NAMED);
        let cables = found.cables.iter().take(NAMED);
        Self {
            switches: switches.map(|(node, hosts)| (names::label(graph, *node), *hosts)).collect(),
            cables: cables.map(|(port, hosts)| (names::place(graph, *port), *hosts)).collect(),
            hosts_with_one_cable: found.hosts_with_one_cable,
        }
    }
}

/// Measures tables. Random patterns come from the seed.
#[must_use]
pub fn quality(graph: &Graph, tables: &Tables, seed: u64) -> Quality {
    Quality::of(graph, &judge::quality(graph, tables, seed))
}

impl Quality {
    /// The measured quality, with names of nodes.
    #[must_use]
    pub fn of(graph: &Graph, measured: &judge::Quality) -> Self {
        let (loads, random, shifts) = (&measured.loads, &measured.bisection, &measured.shifts);
        let place = |port: PortIx| names::place(graph, port);
        let pair = |pair: Option<(PortIx, PortIx)>| pair.map(|(from, to)| (place(from), place(to)));
        let worse = |a: &Bandwidth, b: &Bandwidth| {
            if a.worst_flow <= b.worst_flow { a.worst_pair } else { b.worst_pair }
        };
        Self {
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
            worst_pair: pair(worse(random, shifts)),
            single: Single::of(graph),
        }
    }
}

/// What a loss would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Loss {
    /// What is taken away.
    pub without: Vec<String>,
    /// By which engine both were routed.
    pub engine: &'static str,
    /// CAs that no cable connects any more.
    pub cut_off: Vec<String>,
    /// LFT entries that change.
    pub entries: usize,
    /// Of how many switches.
    pub switches: usize,
    /// LFT blocks of 64 entries that a subnet manager has to write.
    pub blocks: usize,
    /// The check of the new tables.
    pub judged: Judged,
    /// The quality before the loss.
    pub before: Quality,
    /// After.
    pub after: Quality,
}

/// Routes before and after. `drained`: switches are emptied, not gone: nothing goes through them but what
/// begins or ends there.
///
/// # Errors
/// A name leads nowhere, or the engine refuses.
pub fn loss(
    graph: &Graph,
    options: &RouteOptions,
    parts: &[String],
    drained: bool,
) -> Result<(Loss, WhatIf), WhatIfError> {
    let lids = Arc::new(Lids::of_graph(graph, options.lmc)?);
    let (cables, gone) = parts_of(graph, parts)?;
    let before = routed(graph, &lids, options)?;
    let mut question = Question::of(graph, &RouteOptions { engine: Some(before.engine), ..options.clone() })?;
    let ask = |question: &Question| match (gone.as_slice(), cables.as_slice()) {
        ([switch], []) if drained && graph.kind(*switch) == Kind::Switch => {
            judge::drain(graph, &before.routing, &question.request(), *switch)
        }
        (gone, cables) => judge::without(graph, &before.routing, &question.request(), cables, gone),
    };
    let what_if = match ask(&question) {
        // A shape with a hole may be none any more.
        Err(_) if options.engine.is_none() && question.engine != Engine::Layered => {
            question.engine = Engine::Layered;
            ask(&question)?
        }
        result => result?,
    };
    let compared = &what_if.comparison;
    let loss = Loss {
        without: parts.to_vec(),
        engine: question.engine.word(),
        cut_off: what_if.cut_off.iter().map(|port| names::place(graph, *port)).collect(),
        entries: compared.changed.0,
        switches: compared.changed.1,
        blocks: compared.blocks,
        judged: Judged::of(&what_if.graph, &compared.after.checked),
        before: Quality::of(graph, &compared.before),
        after: Quality::of(&what_if.graph, &compared.after),
    };
    Ok((loss, what_if))
}

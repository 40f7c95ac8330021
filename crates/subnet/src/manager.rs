//! The manager: what it is told, and what it does in which order.

use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use fabric::sweep::{self, Found, SweepError};
use mad::sm::{SmInfo, capability};
use mad::values::SmState;
use mad::windowed::{Limits, Outcome};
use mad::{Mad, MadTransport, Received, TransportError};
use topology::routing::check::Dependencies;
use topology::routing::{Engine, LidsError, RouteError, Tables};
use topology::{Graph, NodeIx};

use crate::asking::Asker;
use crate::lids;
use crate::model::Model;
use crate::record::{Record, RecordError};
use crate::report::{NAMED, Seconds, Sets};
use crate::routes::{Manner, Routes, Stage, stages};
use crate::set::{Set, Subject};
use crate::wanted::Step;

mod attend;
mod bring_up;
mod repair;

pub use attend::Event;

/// How to manage.
#[derive(Debug, Clone)]
pub struct Options {
    /// Requests in flight, and how long each may take.
    pub limits: Limits,
    /// The routing engine; `None` is the one that the recognised shape asks for.
    pub engine: Option<Engine>,
    /// The file that keeps LIDs by GUID; `None`: ports keep the LIDs that they have.
    pub record: Option<PathBuf>,
    /// Priority among subnet managers, 0 to 15; it is only reported, as managers do not hand over yet.
    pub priority: u8,
    /// Between two looks for changes that no trap told of.
    pub light_sweep: Duration,
    /// From the first trap until the change is looked at: the other end of a cable sends one, too.
    pub settle: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            engine: None,
            record: None,
            priority: 0,
            light_sweep: Duration::from_secs(10),
            settle: Duration::from_millis(5),
        }
    }
}

/// Why a fabric is not managed. Each names the thing, the cause and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    /// The sweep failed.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// Datagrams can't be sent.
    #[error(transparent)]
    Transport(#[from] TransportError),
    /// More ports than LIDs.
    #[error(transparent)]
    Lids(#[from] LidsError),
    /// The engine refuses.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// The file of LIDs.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// Another manager is master, or may be.
    #[error(
        "another subnet manager is at {place} ({what}): stop it first, as two that set one fabric undo each other's work"
    )]
    Other {
        /// Where.
        place: String,
        /// What it said.
        what: String,
    },
    /// No cable leads on.
    #[error(
        "this port has no link: nothing beyond it can be managed: check its cable, or manage from another port"
    )]
    NoLink,
    /// It was stopped.
    #[error("stopped before it was done: start it again, it continues from what the fabric has")]
    Stopped,
}

/// What is managed.
#[derive(Debug)]
struct Subnet {
    model: Model,
    routes: Routes,
    /// Of the tables that the switches hold: computed when there is time, for the next change.
    held: Dependencies,
}

/// A subnet manager. All datagrams go through the transport that its methods are given.
#[derive(Debug)]
pub struct Manager {
    options: Options,
    asker: Asker,
    record: Record,
    subnet: Option<Subnet>,
    activity: u32,
    /// Datagrams of sweeps, which have a client of their own.
    swept: u64,
    /// What came while nothing could be done about it.
    later: VecDeque<Received>,
}

/// What went wrong with requests: the first in words, all by number.
#[derive(Debug, Default)]
struct Failures {
    named: Vec<String>,
    count: usize,
}

impl Failures {
    fn add(&mut self, words: impl FnOnce() -> String) {
        if self.named.len() < NAMED {
            self.named.push(words());
        }
        self.count += 1;
    }
}

/// What was found and decided, before anything was set.
struct Prepared {
    model: Model,
    anomalies: Vec<String>,
    seconds: Seconds,
}

impl Manager {
    /// A manager that knows nothing yet but the LIDs in its file.
    ///
    /// # Errors
    /// The file can't be read, or is not of the form.
    pub fn new(options: Options) -> Result<Self, ManageError> {
        let record = options.record.as_deref().map(Record::read).transpose()?.unwrap_or_default();
        let asker = Asker::new(options.limits);
        Ok(Self { options, asker, record, subnet: None, activity: 0, swept: 0, later: VecDeque::new() })
    }

    /// What is known of the fabric; `None` before it was brought up.
    #[must_use]
    pub fn model(&self) -> Option<&Model> {
        self.subnet.as_ref().map(|subnet| &subnet.model)
    }

    /// The tables that the switches are to have; `None` before the fabric was brought up.
    #[must_use]
    pub fn tables(&self) -> Option<&Tables> {
        self.subnet.as_ref().map(|subnet| &subnet.routes.routing.tables)
    }

    /// Sweeps, decides LIDs, and reads the tables that switches have. Sets nothing.
    fn prepare<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        tell: &mut dyn FnMut(&str),
        stop: &dyn Fn() -> bool,
    ) -> Result<Prepared, ManageError> {
        let begun = transport.now();
        let of_sweep = sweep::Options { limits: self.options.limits, ..sweep::Options::default() };
        let mut progress = |at: &sweep::Progress| tell(&format!("sweep: {} nodes", at.nodes));
        let mut found = sweep::sweep(transport, &of_sweep, &mut progress, stop)?;
        self.swept += found.tally.sent;
        if found.graph.node_count() < 2 {
            return Err(ManageError::NoLink);
        }
        self.others(transport, &found, stop)?;
        let mut seconds = Seconds { sweep: elapsed(transport, begun), ..Seconds::default() };
        let begun = transport.now();
        let mut anomalies: Vec<String> = found.anomalies.iter().map(ToString::to_string).collect();
        let ids = lids::assign(&found.graph, &self.record)?;
        let held = if fabric::tables::has_lids(&found.graph) {
            tell("reading the forwarding tables (LFTs) of the switches");
            let read = fabric::tables::read(transport, &found, self.options.limits, stop)?;
            anomalies.extend(read.why_none.filter(|_| !stop()));
            read.tables.map(|tables| (tables, read.silent))
        } else {
            None
        };
        seconds.read_tables = elapsed(transport, begun);
        if stop() {
            return Err(ManageError::Stopped);
        }
        found.anomalies.clear();
        let tops: Vec<u16> =
            found.nodes.iter().map(|node| node.switch.map_or(0, |info| info.linear_top())).collect();
        let mut model = Model::new(found, ids);
        if let Some((tables, silent)) = held {
            take_over(&mut model, &tables, &silent, &tops);
        }
        Ok(Prepared { model, anomalies, seconds })
    }

    /// Is another manager master? One that is in standby is none: it looks whether this one lives.
    fn others<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        found: &Found,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let graph = &found.graph;
        let own = found.node(NodeIx(0)).map(|node| node.info.local_port());
        let is_sm =
            |port| found.port(port).is_some_and(|info| info.capability_mask() & capability::IS_SM != 0);
        let own_number = if graph.kind(NodeIx(0)) == topology::Kind::Switch { Some(0) } else { own };
        let all = graph.nodes().flat_map(|node| graph.ports(node).map(move |port| (node, port)));
        let others = all.filter(|(node, port)| {
            is_sm(*port) && !(*node == NodeIx(0) && Some(graph.number(*port)) == own_number)
        });
        let requests: Vec<(Subject, Mad)> = others
            .filter_map(|(node, port)| {
                let subject = Subject::Manager(port);
                Some((subject, subject.get(graph, &found.node(node)?.path)))
            })
            .collect();
        let mut master = None;
        let mut done = |subject: Subject, outcome: Outcome| {
            let Subject::Manager(port) = subject else { return };
            let what = match &outcome {
                Outcome::Answer(mad) => match mad.data::<SmInfo>().state() {
                    SmState::MASTER => "it is master".to_owned(),
                    SmState::DISCOVERING => "it is discovering, and may become master".to_owned(),
                    _ => return,
                },
                Outcome::Refused(_, status) => format!("it refused to say its state: {status}"),
                Outcome::Silent | Outcome::Unreachable => {
                    "its port says so, and it does not respond to SMInfo".to_owned()
                }
            };
            master.get_or_insert((fabric::names::place(graph, port), what));
        };
        self.asker.all(transport, requests.into_iter(), &mut done, stop)?;
        match master {
            Some((place, what)) => Err(ManageError::Other { place, what }),
            None => Ok(()),
        }
    }

    /// Every Set that bringing the fabric up would send, in its order; none is sent. `each` gets them with
    /// the graph that names their ports.
    ///
    /// # Errors
    /// As of [`bring_up`](Self::bring_up).
    pub fn plan<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        tell: &mut dyn FnMut(&str),
        each: &mut dyn FnMut(&Set, &Graph),
        stop: &dyn Fn() -> bool,
    ) -> Result<Planned, ManageError> {
        let Prepared { mut model, anomalies, .. } = self.prepare(transport, tell, stop)?;
        let routes = Routes::first(&model.graph, &model.lids, self.options.engine)?;
        let mut sets = Sets::default();
        let mut one = |set: &Set, graph: &Graph| {
            sets.count(set);
            each(set, graph);
        };
        let arm: Vec<Set> = model.port_sets(Step::Arm).collect();
        arm.iter().for_each(|set| one(set, &model.graph));
        model.switch_sets().for_each(|set| one(&set, &model.graph));
        let (manner, steps) = how(&model, &routes);
        for stage in &steps {
            model.written.to_write(&stage.tables).for_each(|set| one(&set, &model.graph));
            if steps.len() > 1 {
                assume_written(&mut model, &stage.tables);
            }
        }
        arm.iter().for_each(|set| assume(&mut model, set));
        model.port_sets(Step::Activate).for_each(|set| one(&set, &model.graph));
        let (engine, why) = (routes.engine.word(), routes.why);
        Ok(Planned { sets, engine, why, manner, lost_pairs: routes.checked.lost, findings: anomalies })
    }

    /// Sends Sets, and hands each response to `good`; what is refused or not answered goes to `failures`.
    fn send<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        model: &Model,
        work: Work<'_>,
        sets: impl Iterator<Item = Set>,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), ManageError> {
        let Work { good, counts, failures } = work;
        let graph = &model.graph;
        let mut unreachable = Vec::new();
        let requests = sets.filter_map(|set| {
            let path = match set.subject() {
                Subject::Port(port) => model.path_to(port),
                Subject::Switch(node) | Subject::Table(node, _) => model.path(node),
                Subject::Behind(_) | Subject::Manager(_) => None,
            };
            match path {
                Some(path) => {
                    counts.count(&set);
                    Some((set.subject(), set.datagram(graph, &path)))
                }
                None => {
                    unreachable.push(set.subject());
                    None
                }
            }
        });
        let mut done = |subject: Subject, outcome: Outcome| match outcome {
            Outcome::Answer(mad) => good(subject, Some(&mad)),
            outcome => {
                good(subject, None);
                failures.add(|| format!("Set of {}: {}", words(graph, subject), why(&outcome)));
            }
        };
        let whole = self.asker.all(transport, requests, &mut done, stop)?;
        for subject in unreachable {
            failures.add(|| format!("Set of {}: no cable that is up leads there", words(graph, subject)));
        }
        if whole { Ok(()) } else { Err(ManageError::Stopped) }
    }
}

/// What became of Sets goes here.
struct Work<'a> {
    good: &'a mut dyn FnMut(Subject, Option<&Mad>),
    counts: &'a mut Sets,
    failures: &'a mut Failures,
}

/// What [`Manager::plan`] found.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Planned {
    /// How many Sets there are.
    pub sets: Sets,
    /// The routing engine.
    pub engine: &'static str,
    /// Why that one.
    pub why: String,
    /// In which steps the tables would be written.
    pub manner: Manner,
    /// Pairs of a switch with CAs and a LID of a CA that have no route though cables lead there.
    pub lost_pairs: u64,
    /// What did not fit in the sweep.
    pub findings: Vec<String>,
}

fn elapsed<T: MadTransport + ?Sized>(transport: &T, since: Duration) -> f64 {
    transport.now().saturating_sub(since).as_secs_f64()
}

/// The steps in which the routes are written: with care only if anything passes the fabric.
fn how(model: &Model, routes: &Routes) -> (Manner, Vec<Stage>) {
    let target = &routes.routing.tables;
    let held = &model.written.tables;
    let careful = model.carries_traffic().then(|| {
        let dependencies = Dependencies::of(&model.graph, held);
        stages(&model.graph, &dependencies, held, target, &BTreeSet::new())
    });
    // Engines leave a credit loop only where they were asked for by name: then it is the user's.
    let at_once = || (Manner::AtOnce, vec![Stage { tables: target.clone(), after_drain: false }]);
    careful.flatten().unwrap_or_else(at_once)
}

/// What switches were found to hold, as far as they use it: entries beyond a switch's last are not known.
fn take_over(model: &mut Model, tables: &Tables, silent: &[NodeIx], tops: &[u16]) {
    let switches: Vec<NodeIx> = tables.switches().to_vec();
    for (row, node) in switches.iter().enumerate().filter(|(_, node)| !silent.contains(node)) {
        let top = usize::from(tops.get(node.index()).copied().unwrap_or(0));
        for block in 0..model.written.blocks() {
            let known = top > 0 && block * topology::routing::tables::BLOCK <= top;
            let entries = tables.block(row, block).filter(|_| known).and_then(|it| it.try_into().ok());
            model.written.confirm(*node, block as u16, entries.as_ref());
        }
    }
}

/// As if a Set had been answered.
fn assume(model: &mut Model, set: &Set) {
    if let Set::Port(port, info) = set
        && let Some(now) = model.ports.get_mut(port.index()).and_then(Option::as_mut)
    {
        let state =
            if info.state() == mad::values::PortState::NO_CHANGE { now.state() } else { info.state() };
        let mut to_be = *info;
        to_be.set_state(state).set_physical_state(now.physical_state()).set_down_default(now.down_default());
        to_be.set_width_enabled(now.width_enabled()).set_speed_enabled(now.speed_enabled());
        to_be.set_speed_ext_enabled(now.speed_ext_enabled()).set_speed_ext2_enabled(now.speed_ext2_enabled());
        *now = to_be;
    }
}

fn assume_written(model: &mut Model, tables: &Tables) {
    let sets: Vec<Set> = model.written.to_write(tables).collect();
    for set in sets {
        if let Set::Table(node, block, entries) = set {
            model.written.confirm(node, block, Some(&entries));
        }
    }
}

/// What a request was about, in words.
fn words(graph: &Graph, subject: Subject) -> String {
    match subject {
        Subject::Port(port) => format!("PortInfo of {}", fabric::names::place(graph, port)),
        Subject::Switch(node) => format!("SwitchInfo of {}", fabric::names::label(graph, node)),
        Subject::Table(node, block) => {
            format!("LFT block {block} of {}", fabric::names::label(graph, node))
        }
        Subject::Behind(port) => format!("NodeInfo behind {}", fabric::names::place(graph, port)),
        Subject::Manager(port) => format!("SMInfo of {}", fabric::names::place(graph, port)),
    }
}

fn why(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Answer(_) => "answered".to_owned(),
        Outcome::Refused(_, status) => format!("refused, {status}"),
        Outcome::Silent => "not answered".to_owned(),
        Outcome::Unreachable => "could not be delivered".to_owned(),
    }
}

/// LIDs and their GUIDs are kept before the first of them is set: else a restart could give others.
fn keep(manager: &mut Manager, model: &Model) -> Result<(), ManageError> {
    let updated = manager.record.updated(&lids::in_use(&model.graph, &model.lids));
    if let Some(path) = manager.options.record.as_deref().filter(|_| updated != manager.record) {
        updated.write(path)?;
    }
    manager.record = updated;
    Ok(())
}

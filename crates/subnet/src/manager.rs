//! The manager: what it is told, and what it does in which order.

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};
use std::path::PathBuf;
use std::time::Duration;

use fabric::sweep::SweepError;
use mad::windowed::{Limits, Outcome};
use mad::{Mad, MadTransport, Received, TransportError};
use topology::routing::check::Dependencies;
use topology::routing::{Engine, LidsError, RouteError, Tables};
use topology::{Graph, NodeIx};

use crate::asking::Asker;
use crate::model::Model;
use crate::record::{Record, RecordError};
use crate::report::{NAMED, Sets};
use crate::routes::{Manner, Routes, Stage, stages};
use crate::set::{Set, Subject};

mod attend;
mod bring_up;
mod plan;
mod prepare;
mod repair;

pub use attend::Event;
pub use plan::Planned;

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
    /// From the last trap until the change is looked at, at most ten times that from the first: the other end
    /// of a cable sends one, too.
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
    /// Switches whose mark of a changed port was cleared after their ports were read.
    unsure: BTreeSet<NodeIx>,
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

impl Manager {
    /// A manager that knows nothing yet but the LIDs in its file.
    ///
    /// # Errors
    /// The file can't be read, or is not of the form.
    pub fn new(options: Options) -> Result<Self, ManageError> {
        let record = options.record.as_deref().map(Record::read).transpose()?.unwrap_or_default();
        let asker = Asker::new(options.limits);
        Ok(Self {
            options,
            asker,
            record,
            subnet: None,
            activity: 0,
            swept: 0,
            later: VecDeque::new(),
            unsure: BTreeSet::new(),
        })
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

fn elapsed<T: MadTransport + ?Sized>(transport: &T, since: Duration) -> f64 {
    transport.now().saturating_sub(since).as_secs_f64()
}

/// The steps in which the routes are written: with care only if anything passes the fabric.
fn how<'a>(model: &Model, routes: &'a Routes) -> (Manner, Vec<Stage<'a>>) {
    let target = &routes.routing.tables;
    let held = &model.written.tables;
    let careful = model.carries_traffic().then(|| {
        let dependencies = Dependencies::of(&model.graph, held);
        stages(&model.graph, &dependencies, held, target, &BTreeSet::new())
    });
    // Engines leave a credit loop only where they were asked for by name: then it is the user's.
    let at_once = || (Manner::AtOnce, vec![Stage { tables: Cow::Borrowed(target), after_drain: false }]);
    careful.flatten().unwrap_or_else(at_once)
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

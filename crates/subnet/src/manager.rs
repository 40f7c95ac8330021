//! The manager: what it is told, and what it does in which order.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use fabric::sweep::SweepError;
use mad::windowed::{Limits, Outcome, Windowed};
use mad::{Guid, Lid, Mad, MadTransport, TransportError};
use topology::routing::check::Dependencies;
use topology::routing::{Engine, LidsError, RouteError, Tables};
use topology::{Graph, NodeIx, PortIx};

use crate::asking::Asker;
use crate::flaps::Flaps;
use crate::front::{Desk, Front};
use crate::model::Model;
use crate::partitions::Partitions;
use crate::peer::Peer;
use crate::protection::Protection;
use crate::qos::Qos;
use crate::record::{Record, RecordError};
use crate::report::{NAMED, Sets};
use crate::routes::{Manner, Routes, Stage, stages};
use crate::sa::registry::Registry;
use crate::sa::transfers::Transfers;
use crate::set::{Set, Subject};

mod attend;
mod bring_up;
mod groups;
mod keys;
mod others;
mod plan;
mod prepare;
mod protect;
mod qos;
mod repair;
mod roles;
mod serve;

use others::Watched;
pub use plan::Planned;
pub use roles::Event;

/// How long questions of others wait at most while something is computed.
const BREATH: Duration = Duration::from_millis(1);

/// How to manage.
#[derive(Debug, Clone)]
pub struct Options {
    /// Requests in flight, and how long each may take.
    pub limits: Limits,
    /// The routing engine; `None` is the one that the recognised shape asks for.
    pub engine: Option<Engine>,
    /// LMC, 0 to 7: ports of hosts get 2 to this power LIDs, each with a route of its own.
    pub lmc: u8,
    /// The key that ports ask for, if there is one.
    pub protection: Protection,
    /// SL-to-VL maps and VL arbitration; `None`: they stay as they are.
    pub qos: Option<Qos>,
    /// The file that keeps LIDs by GUID; `None`: ports keep the LIDs that they have.
    pub record: Option<PathBuf>,
    /// Which port is in which partition; `None`: P_Key tables stay as they are, and all ports are taken for
    /// full members of the partition of all.
    pub partitions: Option<Partitions>,
    /// Priority among subnet managers, 0 to 15: the highest manages, of equal ones that with the lowest GUID.
    pub priority: u8,
    /// SM_Key, by which managers trust each other; 0 trusts all. OpenSM passes over managers whose key is not
    /// its own, which is 1 unless it was configured.
    pub key: u64,
    /// Between two questions to another manager: to the master, in standby; as master to all that are known.
    pub poll: Duration,
    /// Questions in a row without a response after which a master counts as gone.
    pub patience: u32,
    /// A cable between switches that goes down twice in a minute is held back until it has been up for
    /// so long, twice as long each further time; zero: none is.
    pub quarantine: Duration,
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
            lmc: 0,
            protection: Protection::NONE,
            qos: None,
            record: None,
            partitions: None,
            priority: 0,
            key: 1,
            poll: Duration::from_millis(500),
            patience: 4,
            quarantine: Duration::from_secs(30),
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
    /// Another manager is master, or goes first.
    #[error(
        "another subnet manager is at {place} ({what}): stop it first, as two that set one fabric undo each other's work"
    )]
    Other {
        /// Where.
        place: String,
        /// What it said.
        what: String,
    },
    /// The ports obey another key.
    #[error(
        "{place} {} another M_Key than this manager's, and so refuses its Sets: give the M_Key of this fabric by --mkey-file",
        if *others == 0 { "has".to_owned() } else { format!("and {} have", topology::counted(*others, "other port")) }
    )]
    Key {
        /// One of them.
        place: String,
        /// How many more.
        others: usize,
    },
    /// The own port does not respond.
    #[error(
        "this port does not respond to management datagrams: if it has an M_Key that protects it from being read, give that by --mkey-file; else check the driver and the port"
    )]
    Mute,
    /// No cable leads on.
    #[error(
        "this port has no link: nothing beyond it can be managed: check its cable, or manage from another port"
    )]
    NoLink,
    /// It was stopped.
    #[error("stopped before it was done: start it again, it continues from what the fabric has")]
    Stopped,
}

impl ManageError {
    fn of_sweep(error: SweepError) -> Self {
        match error {
            SweepError::LocalUnresponsive => Self::Mute,
            error => Self::Sweep(error),
        }
    }
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
    /// What it is to others; `None` only while one of its methods has it.
    desk: Option<Desk>,
    /// Other managers that are known, by the GUIDs of their ports.
    peers: BTreeMap<Guid, Peer>,
    /// Asks them.
    watch: Windowed<Watched>,
    /// In standby: the one that is asked whether it lives.
    superior: Option<Peer>,
    /// As master: the other master that is to hand over before anything is set.
    waiting: Option<Guid>,
    /// Why the fabric is to be swept and brought up, if it is.
    pub(crate) need: Option<String>,
    /// The master that stopped responding: in the next sweep it is not asked.
    gone: Option<Guid>,
    /// The LIDs that ports have go before those that are recorded: another manager gave them.
    learns: bool,
    /// When the fabric is swept again, as not everything could be set, and after how long that was to be.
    again: Option<(Duration, Duration)>,
    /// LID of its port, as the last sweep found it or as it was given.
    own_lid: Lid,
    /// What the file of LIDs holds.
    written_record: Record,
    /// It was something in this fabric before: a link that is gone may come back.
    has_served: bool,
    /// Tables that subnet administration sends.
    transfers: Transfers,
    /// What ports have registered.
    pub(crate) registry: Registry,
    /// Cables that go down and up again and again.
    flaps: Flaps,
    /// It stays, and so has an administration at which ports register.
    stays: bool,
    /// What ports had registered at a former manager, or here before a restart, is lost.
    lost: bool,
    /// When multicast tables that could not be written are tried again, and after how long that was to be.
    pub(crate) groups_again: Option<(Duration, Duration)>,
    /// Datagrams of sweeps, which have a client of their own.
    swept: u64,
    /// Switches whose mark of a changed port was cleared after their ports were read.
    unsure: BTreeSet<NodeIx>,
    /// End ports that got a request with a wrong key: one with the right key ends their lease's time.
    confirm: BTreeSet<PortIx>,
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
        let once = Limits { window: 0, timeout: options.poll, retries: 0 };
        Ok(Self {
            asker,
            subnet: None,
            desk: Some(desk(&options)),
            peers: BTreeMap::new(),
            watch: Windowed::new(once),
            superior: None,
            waiting: None,
            need: None,
            gone: None,
            learns: false,
            again: None,
            own_lid: Lid(0),
            written_record: record.clone(),
            has_served: false,
            transfers: Transfers::default(),
            registry: Registry::new(options.partitions.as_ref()),
            flaps: Flaps::new(options.quarantine),
            stays: false,
            lost: true,
            groups_again: None,
            swept: 0,
            unsure: BTreeSet::new(),
            confirm: BTreeSet::new(),
            record,
            options,
        })
    }

    /// Does something with the transport behind its desk, which answers what others ask meanwhile.
    fn at_desk<T: MadTransport + ?Sized, R>(
        &mut self,
        transport: &mut T,
        act: impl FnOnce(&mut Self, &mut Front<'_, T>) -> R,
    ) -> R {
        let mut desk = self.desk.take().unwrap_or_else(|| desk(&self.options));
        let result = act(self, &mut Front::new(transport, &mut desk));
        self.desk = Some(desk);
        result
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
                Subject::Port(port)
                | Subject::Keys(port, _)
                | Subject::Levels(port, _)
                | Subject::Arbitration(port, _) => model.path_to(port),
                Subject::Switch(node) | Subject::Table(node, _) | Subject::Multicast(node, ..) => {
                    model.path(node)
                }
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

fn desk(options: &Options) -> Desk {
    Desk::new(options.priority, options.key, options.protection.key, options.lmc)
}

/// What became of Sets goes here.
struct Work<'a> {
    good: &'a mut dyn FnMut(Subject, Option<&Mad>),
    counts: &'a mut Sets,
    failures: &'a mut Failures,
}

/// Computes in another thread, and meanwhile lets what others ask be answered.
fn meanwhile<T: MadTransport + ?Sized, R: Send>(
    transport: &mut T,
    compute: impl FnOnce() -> R + Send,
) -> Result<R, TransportError> {
    std::thread::scope(|scope| {
        let (done, result) = std::sync::mpsc::sync_channel(1);
        let computing = scope.spawn(move || drop(done.send(compute())));
        loop {
            match result.recv_timeout(BREATH) {
                Ok(result) => return Ok(result),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    let _ = transport.receive(Duration::ZERO)?;
                }
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                    if let Err(panic) = computing.join() {
                        std::panic::resume_unwind(panic);
                    }
                    unreachable!("a computation that ends sends its result");
                }
            }
        }
    })
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
        Subject::Keys(port, block) => {
            format!("P_Key table block {block} of {}", fabric::names::place(graph, port))
        }
        Subject::Levels(port, came) => {
            format!("SL-to-VL map from port {came} to {}", fabric::names::place(graph, port))
        }
        Subject::Arbitration(port, block) => {
            format!("VL arbitration block {block} of {}", fabric::names::place(graph, port))
        }
        Subject::Multicast(node, position, block) => {
            format!("MFT block {block}, position {position}, of {}", fabric::names::label(graph, node))
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

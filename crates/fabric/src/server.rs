//! Serves a simulated fabric to other programs by the socket protocol of the simulator ibsim
//! ([`mad::ibsim`]).
//!
//! One thread, one epoll. As many clients as the system has descriptors; a client that sent nonsense,
//! vanished or reads nothing harms nobody else: its datagrams are dropped, as a network's are. Datagrams that
//! no agent responds to go to the programs behind the port that they arrive at: requests to the one that is
//! its subnet manager, responses to the one that asked.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use foreign::{Closer, Inbox};
use mad::TransportError;
use mad::ibsim::Packet;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::geteuid;
use topology::{Graph, PortIx};

mod clients;
pub mod command;
mod control;
mod deliver;
mod sockets;

use crate::agents::{Agents, Passed};
use clients::Clients;
use control::ControlSocket;

/// Datagrams of one socket before the next socket has its turn.
const TURN: usize = 64;
/// Longest sleep: what `stop` may have to wait.
const TICK: Duration = Duration::from_millis(100);

/// How to serve.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Base of the socket names; empty is the protocol's own, `sim`.
    pub base: String,
    /// Path of a stream socket on which commands are taken, a line each ([`command`]); made here, and removed
    /// at the end.
    pub control: Option<PathBuf>,
    /// Give the ports LIDs, tables and active links, as a manager would, instead of leaving that to one.
    pub bring_up: bool,
}

/// Why serving ended.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The sockets can't be made or waited for.
    #[error(transparent)]
    Socket(#[from] TransportError),
    /// There is nothing to serve.
    #[error("the fabric has no node: name a file with nodes")]
    Empty,
    /// A program sends descriptors that can't be closed. Only before Linux 6.16: later kernels refuse them.
    #[error(
        "a process sends this server descriptors that cannot be closed: end that process, then serve again, in a separate \
         network namespace or on Linux 6.16 or later"
    )]
    Flooded,
    /// More ports than addresses.
    #[error("the fabric has more ports than the {0} unicast LIDs: serve it with --bare")]
    TooManyPorts(u16),
}

/// Events, for callers that print them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Sockets are there: programs may come.
    Ready,
    /// A program came.
    Came {
        /// Its number.
        client: u32,
        /// The node where it is.
        node: String,
    },
    /// A program went, or is gone.
    Went {
        /// Its number.
        client: u32,
        /// It did not announce it.
        vanished: bool,
    },
    /// A program was refused.
    Refused {
        /// The reason.
        why: String,
    },
    /// Something came that is not of the protocol.
    Garbage {
        /// On which socket.
        on: &'static str,
        /// How many bytes.
        len: usize,
    },
    /// A command was carried out, or refused.
    Command {
        /// The command.
        line: String,
        /// Its response.
        answer: String,
    },
}

/// Counted while it served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Served {
    /// Datagrams that came.
    pub datagrams: u64,
    /// Of those, answered by an agent.
    pub answered: u64,
    /// Of those, handed to another program.
    pub handed: u64,
    /// Of those, lost.
    pub lost: u64,
    /// Responses that a program had no room for.
    pub dropped: u64,
    /// Traps that were handed to a manager.
    pub traps: u64,
    /// Programs that came.
    pub clients: u64,
}

/// Serves a fabric until `stop` returns true. `event` gets each event.
///
/// # Errors
/// When the sockets can't be made: another server has that base, the path of the control socket can't be
/// made.
pub fn serve(
    graph: Graph,
    options: &Options,
    event: &mut dyn FnMut(Event),
    stop: &dyn Fn() -> bool,
) -> Result<Served, ServeError> {
    let mut server = Server::new(graph, options)?;
    event(Event::Ready);
    while !stop() && !server.quit {
        server.turn(event)?;
    }
    Ok(server.served)
}

/// Who has something to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Control,
    Commands,
    Line(u32),
    Client(u32),
}

impl Source {
    fn to_data(self) -> epoll::EventData {
        let (kind, number) = match self {
            Self::Control => (0, 0),
            Self::Commands => (1, 0),
            Self::Line(number) => (2, number),
            Self::Client(number) => (3, number),
        };
        epoll::EventData::new_u64(u64::from(number) << 8 | kind)
    }

    fn from_data(data: epoll::EventData) -> Self {
        let (kind, number) = (data.u64() & 0xff, (data.u64() >> 8) as u32);
        match kind {
            0 => Self::Control,
            1 => Self::Commands,
            2 => Self::Line(number),
            _ => Self::Client(number),
        }
    }
}

struct Server {
    agents: Agents,
    base: String,
    epoll: OwnedFd,
    control: Inbox,
    closer: Closer,
    clients: Clients,
    commands: Option<ControlSocket>,
    started: Instant,
    served: Served,
    /// What a program gets later: by when and in which order, and to whom.
    late: BTreeMap<(Duration, u64), (u32, Packet)>,
    delayed: u64,
    /// What happens to the packet that is handed over now.
    passing: Passed,
    /// When it last looked for programs that are gone.
    kept_house: Duration,
    quit: bool,
}

fn failed(what: &str, error: Errno) -> TransportError {
    TransportError::Io {
        what: what.to_owned(),
        cause: error.into(),
        next: "check whether another server uses that name, or choose another one with --name",
    }
}

fn watch(epoll: &OwnedFd, fd: impl AsFd, source: Source) -> Result<(), TransportError> {
    epoll::add(epoll, fd, source.to_data(), epoll::EventFlags::IN).map_err(|e| failed("watch a socket", e))
}

impl Server {
    fn new(graph: Graph, options: &Options) -> Result<Self, ServeError> {
        if graph.node_count() == 0 {
            return Err(ServeError::Empty);
        }
        let base = if options.base.is_empty() { mad::ibsim::DEFAULT_BASE } else { &options.base };
        let mut agents = Agents::new(graph);
        if options.bring_up && !agents.bring_up() {
            return Err(ServeError::TooManyPorts(mad::Lid::LAST_UNICAST.0));
        }
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(|e| failed("create an epoll instance", e))?;
        let what = format!("open the socket {base}:ctl");
        let closer = Closer::new(geteuid().as_raw());
        let control =
            sockets::bound(&mad::ibsim::control_name(base), &closer).map_err(|e| failed(&what, e))?;
        let commands =
            options.control.as_deref().map(|path| ControlSocket::new(path, &closer)).transpose()?;
        let this = Self {
            agents,
            base: base.to_owned(),
            clients: Clients::default(),
            started: Instant::now(),
            served: Served::default(),
            late: BTreeMap::new(),
            delayed: 0,
            passing: Passed::default(),
            kept_house: Duration::ZERO,
            quit: false,
            epoll,
            control,
            closer,
            commands,
        };
        this.watch(this.control.as_fd(), Source::Control)?;
        if let Some(commands) = &this.commands {
            this.watch(commands.listener(), Source::Commands)?;
        }
        Ok(this)
    }

    fn watch(&self, fd: impl AsFd, source: Source) -> Result<(), TransportError> {
        watch(&self.epoll, fd, source)
    }

    /// Waits for something to happen, and does it.
    fn turn(&mut self, event: &mut dyn FnMut(Event)) -> Result<(), ServeError> {
        let mut ready = Vec::with_capacity(64);
        // A program had no room: the system does not report when there is room again.
        let tick = if self.flush_all(event) { Duration::from_millis(1) } else { TICK };
        let due = self.late.keys().next().map(|key| key.0.saturating_sub(self.now()));
        let tick = due.map_or(tick, |due| due.min(tick));
        let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(tick.subsec_nanos()) };
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut ready), Some(&wait)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(failed("wait for sockets", error).into()),
        }
        for one in ready {
            match Source::from_data(one.data) {
                Source::Control => self.control_messages(event)?,
                Source::Client(client) => self.packets(client, event)?,
                Source::Commands => self.accept_line()?,
                Source::Line(number) => self.read_line(number, event),
            }
        }
        self.send_late(event);
        self.send_traps(event);
        self.housekeeping(event);
        Ok(())
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    /// The port that a program is given which names this node (by text, GUID, or either followed by a slash
    /// and a port), or none.
    fn place(&self, named: &str) -> Option<PortIx> {
        if named.is_empty() {
            let graph = self.agents.graph();
            let host = graph.nodes_of(topology::Kind::Host).next();
            return host.or_else(|| graph.nodes().next()).and_then(|node| self.agents.place(node));
        }
        if let Some(node) = self.agents.node(named) {
            return self.agents.place(node);
        }
        let (node, port) = named.rsplit_once('/')?;
        self.agents.graph().port(self.agents.node(node)?, port.parse().ok()?)
    }
}

//! The node manager's event loop: one thread, one epoll set. It carries messages to the machine of
//! crate `proto` and carries out its outputs; it decides nothing itself.

mod agents;
mod announce;
mod forwards;
mod inputs;
mod network;
mod outputs;
mod revoked;
mod serve;
mod setup;
mod stored;
mod strangers;

pub(crate) use announce::Announcing;
pub use setup::settings_for;

use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foreign::Closer;
use link::page::PageWriter;
use proto::ids::NodeId;
use proto::manager::{Input, Manager, PeerConn, ProgramConn};
use proto::wire::agent::AgentNo;
use proto::wire::relay::ForwardNo;
use rustix::event::epoll;
use rustix::io::Errno;

use crate::agent::LocalAgent;
use crate::config::Settings;
use crate::connection::Connection;
use crate::descriptor::{DescriptorTable, Held};
use crate::door::Door;
use crate::error::{NodeError, Result};
use crate::forward::LocalForward;
use crate::in_flight::InFlight;
use crate::interrupt_sockets::InterruptSockets;
use crate::listener::{Listener, Spare};
use crate::lock::NodeLock;
use crate::log_gate::LogGate;
use crate::network::Network;
use crate::notify::notify;
use crate::runtime_dir::{ClusterDir, remove_files, remove_if_empty};
use crate::watch::Watch;

/// How long an orderly end may take before the loop is left in any case.
const STOP_LIMIT: Duration = Duration::from_secs(3);
/// Events taken from epoll at a time.
const EVENTS_AT_ONCE: usize = 64;

/// What a manager is started with.
#[derive(Debug, Clone)]
pub struct DaemonOptions {
    /// Where its sockets go.
    pub dir: ClusterDir,
    /// Whose manager it is.
    pub node: NodeId,
    /// What was configured.
    pub settings: Settings,
    /// End in an orderly way on SIGTERM, SIGINT and SIGHUP.
    pub signals: bool,
}

/// Ends a running manager in an orderly way, from another thread.
#[derive(Debug, Clone)]
pub struct StopHandle {
    writer: Arc<UnixStream>,
}

impl StopHandle {
    /// Asks the manager to end. A second time: at once.
    pub fn stop(&self) {
        use std::io::Write;
        // A full pipe has been written to before.
        let _ = (&*self.writer).write(b"x");
    }
}

/// What an epoll event is about; the number goes into its 64 bits of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Programs,
    Peers,
    Watch,
    Stop,
    /// Standard input, if this manager's life depends on another process.
    Lease,
    Program(ProgramConn),
    /// The pidfd of a program: it may die while a fork of it keeps the socket open.
    ProgramDeath(ProgramConn),
    Peer(PeerConn),
    /// Connections from other hosts.
    Network,
    /// A connection with another host.
    Remote(PeerConn),
    /// The stream to an agent's local end.
    Agent(AgentNo),
    /// The pidfd of an agent that runs here.
    AgentDeath(AgentNo),
    /// What an agent prints on its standard error.
    AgentErrors(AgentNo),
    /// The pidfd of the process of a forward.
    ForwardDeath(ForwardNo),
}

impl Key {
    fn encode(self) -> u64 {
        let (kind, number) = match self {
            Self::Programs => (0, 0),
            Self::Peers => (1, 0),
            Self::Watch => (2, 0),
            Self::Stop => (3, 0),
            Self::Lease => (7, 0),
            Self::Program(conn) => (4, conn.0),
            Self::ProgramDeath(conn) => (5, conn.0),
            Self::Peer(conn) => (6, conn.0),
            Self::Network => (8, 0),
            Self::Remote(conn) => (9, conn.0),
            Self::Agent(agent) => (10, agent.0),
            Self::AgentDeath(agent) => (11, agent.0),
            Self::AgentErrors(agent) => (12, agent.0),
            Self::ForwardDeath(forward) => (13, forward.0),
        };
        kind << 56 | number
    }

    fn decode(data: u64) -> Option<Self> {
        let number = data & ((1 << 56) - 1);
        Some(match data >> 56 {
            0 => Self::Programs,
            1 => Self::Peers,
            2 => Self::Watch,
            3 => Self::Stop,
            4 => Self::Program(ProgramConn(number)),
            5 => Self::ProgramDeath(ProgramConn(number)),
            6 => Self::Peer(PeerConn(number)),
            7 => Self::Lease,
            8 => Self::Network,
            9 => Self::Remote(PeerConn(number)),
            10 => Self::Agent(AgentNo(number)),
            11 => Self::AgentDeath(AgentNo(number)),
            12 => Self::AgentErrors(AgentNo(number)),
            13 => Self::ForwardDeath(ForwardNo(number)),
            _ => return None,
        })
    }
}

/// A program's connection.
#[derive(Debug)]
struct ProgramEnd {
    connection: Connection,
    /// Its process by the kernel's word, 0 if that is in a pid namespace that cannot be seen.
    pid: u32,
    /// Watched for its death; none if it cannot be had.
    pidfd: Option<OwnedFd>,
}

/// A manager that has started.
#[derive(Debug)]
pub struct Daemon {
    dir: ClusterDir,
    node: NodeId,
    lock: Option<NodeLock>,
    machine: Manager,
    page: PageWriter,
    /// The page's descriptor, as it is sent to programs.
    page_fd: Held,
    epoll: OwnedFd,
    own_uid: u32,
    /// Closes what others send: this thread never does.
    closer: Closer,
    door: Door,
    programs_listener: Listener,
    peers_listener: Listener,
    /// Other hosts, if this node has a certificate.
    network: Option<Network>,
    watch: Option<Watch>,
    stop_reader: UnixStream,
    stop_handle: StopHandle,
    spare: Spare,
    descriptors: DescriptorTable,
    interrupt_sockets: InterruptSockets,
    descriptor_limit: u64,
    in_flight: InFlight,
    /// When it was last looked at who has read what.
    counted_at: Option<Instant>,
    programs: HashMap<ProgramConn, ProgramEnd>,
    peers: HashMap<PeerConn, Connection>,
    agents: HashMap<AgentNo, LocalAgent>,
    forwards: HashMap<ForwardNo, LocalForward>,
    /// Connections that wait for a moment rather than for the kernel: few, and mostly none.
    timed: Vec<Key>,
    /// Inputs that carrying out has caused, for the machine after its present outputs.
    follow_up: Vec<Input>,
    /// Programs that are not listened to while their user has too much to be closed.
    put_off: BTreeSet<ProgramConn>,
    /// No program is accepted for a moment: what was refused has still to be closed.
    accepts_nothing: bool,
    /// What waits to be closed leaves no room for a message; when to look again.
    no_room_until: Option<Instant>,
    look_at_users_at: Option<Instant>,
    next_conn: u64,
    buffer: Vec<u8>,
    gate: LogGate,
    stopping: Option<Instant>,
    /// The process that it was started for has ended: nothing is to stay.
    lease_ended: bool,
    ended: bool,
}

impl Daemon {
    /// Takes the node's lock, makes its sockets and its state page. From then on programs can connect; they
    /// are answered by [`Self::run`].
    pub fn start(options: &DaemonOptions) -> Result<Self> {
        setup::start(options)
    }

    /// For ending it from another thread.
    pub fn stop_handle(&self) -> StopHandle {
        self.stop_handle.clone()
    }

    /// Runs until it is asked to end.
    pub fn run(mut self) -> Result<()> {
        tracing::info!(node = %self.node, cluster = %self.dir.cluster(), dir = %self.dir.path().display(), "started");
        notify("READY=1");
        self.look_for_peers();
        self.tell_of_revoked();
        self.look_for_hosts();
        let mut events = Vec::with_capacity(EVENTS_AT_ONCE);
        while !self.ended {
            let timeout = self.next_timeout().map(node_client::seqpacket::timespec);
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(self.io("wait for events in", errno)),
            }
            for event in &events {
                if let Some(key) = Key::decode(event.data.u64()) {
                    self.ready(key, event.flags);
                }
            }
            self.pass_time();
        }
        self.clean_up();
        Ok(())
    }

    fn io(&self, what: &'static str, errno: Errno) -> NodeError {
        NodeError::Io { what, path: self.dir.path().into(), source: errno.into() }
    }

    fn ready(&mut self, key: Key, flags: epoll::EventFlags) {
        match key {
            Key::Programs => self.accept_programs(),
            Key::Peers => self.accept_peers(),
            Key::Watch => self.directory_changed(),
            Key::Stop => self.stop_asked(),
            Key::Lease => self.lease_news(flags),
            Key::Program(conn) => {
                // An end is reported also to the one that does not want to read: what waits is dropped then,
                // and the rest is read.
                let end = epoll::EventFlags::HUP | epoll::EventFlags::ERR;
                if flags.intersects(end) && self.put_off.contains(&conn) {
                    return self.drop_program(conn);
                }
                if flags.contains(epoll::EventFlags::HUP)
                    && let Some(connection) = self.connection(key)
                {
                    connection.give_up_queue();
                }
                if flags.intersects(epoll::EventFlags::OUT | end) {
                    self.flush(key);
                    self.carry_out();
                }
                self.read_program(conn);
            }
            Key::ProgramDeath(conn) => self.program_died(conn),
            Key::Network => self.accept_hosts(),
            Key::Remote(conn) => self.remote_ready(conn),
            Key::Agent(agent) => self.agent_ready(agent, flags),
            Key::AgentDeath(agent) => self.agent_died(agent),
            Key::AgentErrors(agent) => self.agent_errors(agent),
            Key::ForwardDeath(forward) => self.forward_died(forward),
            Key::Peer(conn) => {
                if flags.contains(epoll::EventFlags::OUT) {
                    self.flush(key);
                }
                self.read_peer(conn);
            }
        }
    }

    /// Time until something is due; `None`: nothing is.
    fn next_timeout(&self) -> Option<Duration> {
        let machine = self.machine.next_timeout().into_iter().chain(self.next_timeout_of_hosts()).min();
        let machine = machine.map(|at| at.since(clock()));
        let mut next = machine;
        let now = Instant::now();
        let moments = self
            .timed
            .iter()
            .filter_map(|key| self.moment_of(*key))
            .chain(self.stopping)
            .chain(self.look_at_users_at);
        for moment in moments {
            let left = moment.saturating_duration_since(now);
            next = Some(next.map_or(left, |next: Duration| next.min(left)));
        }
        next
    }

    fn pass_time(&mut self) {
        if self.machine.next_timeout().is_some_and(|at| at <= clock()) {
            self.machine.handle_timeout(clock());
            self.carry_out();
        }
        if !self.timed.is_empty() {
            self.attend_timed();
            self.carry_out();
        }
        self.look_at_users();
        self.pass_time_of_hosts();
        if self.stopping.is_some_and(|limit| Instant::now() >= limit) {
            tracing::warn!(node = %self.node, "the orderly end took too long");
            self.ended = true;
        }
    }

    fn tell(&mut self, input: Input) {
        self.machine.handle(clock(), input);
        self.carry_out();
    }

    fn stop_asked(&mut self) {
        let mut bytes = [0; 64];
        let _ = self.stop_reader.read(&mut bytes);
        self.stop("asked to end");
    }

    fn lease_news(&mut self, flags: epoll::EventFlags) {
        let stdin = std::io::stdin();
        let _ = epoll::delete(&self.epoll, &stdin);
        let mut word = [0; 1];
        let released =
            flags.contains(epoll::EventFlags::IN) && rustix::io::read(&stdin, &mut word) == Ok(word.len());
        if !released {
            self.lease_ended = true;
            self.stop("the process that it was started for has ended");
        }
    }

    fn stop(&mut self, why: &str) {
        if self.stopping.is_some() {
            self.ended = true;
            return;
        }
        tracing::info!(node = %self.node, "ending: {why}");
        notify("STOPPING=1");
        self.stopping = Some(Instant::now() + STOP_LIMIT);
        self.tell(Input::Stop);
    }

    /// Sends the last messages as far as possible, and removes everything of this manager but its log.
    fn clean_up(&mut self) {
        for connection in self.connections() {
            connection.flush();
        }
        self.say_last_words();
        self.end_agents();
        self.end_forwards();
        // Our own removals are no news.
        self.watch = None;
        if let Some(lock) = self.lock.take()
            && lock.is_in_place()
        {
            remove_files(&self.dir, self.node, &lock);
            if self.lease_ended {
                // No process will look for it.
                let _ = std::fs::remove_file(self.dir.log_file(self.node));
            }
            lock.remove();
            remove_if_empty(&self.dir);
        }
        tracing::info!(node = %self.node, "ended");
    }

    fn connections(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.programs.values_mut().map(|end| &mut end.connection).chain(self.peers.values_mut())
    }

    fn connection(&mut self, key: Key) -> Option<&mut Connection> {
        match key {
            Key::Program(conn) => self.programs.get_mut(&conn).map(|end| &mut end.connection),
            Key::Peer(conn) => self.peers.get_mut(&conn),
            _ => None,
        }
    }

    fn moment_of(&self, key: Key) -> Option<Instant> {
        let connection = match key {
            Key::Program(conn) => self.programs.get(&conn).map(|end| &end.connection),
            Key::Peer(conn) => self.peers.get(&conn),
            _ => None,
        }?;
        [connection.retry_at, connection.close_at].into_iter().flatten().min()
    }
}

/// The machine's clock: CLOCK_MONOTONIC, which all processes of this computer share.
fn clock() -> proto::time::Instant {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    proto::time::Instant::from_nanos(seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or_default())
}

/// Watches a descriptor for input.
fn watch(
    epoll: &OwnedFd,
    fd: impl AsFd,
    key: Key,
    flags: epoll::EventFlags,
) -> std::result::Result<(), Errno> {
    epoll::add(epoll, fd, epoll::EventData::new_u64(key.encode()), flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_survive_the_kernel() {
        for key in [
            Key::Programs,
            Key::Peers,
            Key::Watch,
            Key::Stop,
            Key::Lease,
            Key::Program(ProgramConn(7)),
            Key::ProgramDeath(ProgramConn((1 << 56) - 1)),
            Key::Peer(PeerConn(0)),
            Key::Network,
            Key::Remote(PeerConn(9)),
            Key::Agent(AgentNo(1)),
            Key::AgentDeath(AgentNo(1)),
            Key::AgentErrors(AgentNo(1)),
            Key::ForwardDeath(ForwardNo(1)),
        ] {
            assert_eq!(Key::decode(key.encode()), Some(key));
        }
        assert_eq!(Key::decode(u64::MAX), None);
    }
}

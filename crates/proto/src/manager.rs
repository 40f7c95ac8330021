//! The state machine of a node manager: attached programs, objects, permissions, connections.
//!
//! A pure state machine. The driver (crate `node`) feeds it connections, decoded messages and time, and
//! carries out what it puts out. Descriptors are tokens: the driver has already examined each one and passes
//! its kind.
//!
//! # Words
//! An *object* is a segment, a copy of a group, or an interrupt. A *connection* is counted by the exporter
//! (the manager of the node where the object lives) and is called an *export* there; the same connection is
//! an *import* at the manager of the program that connected. A node connects to its own objects in the same
//! way, without a session.
//!
//! # Decisions
//! - **A program's socket closes**: its objects are withdrawn (importers see `OwnerDied`), its imports are
//!   released (`Released{died: true}`). A broken rule (a message that cannot be decoded, descriptors too
//!   many) closes its socket. A descriptor that is *missing* only refuses that request: it may have been lost
//!   at this process's descriptor limit, which is no reason to take everything from the program.
//! - **A session is lost**: requests under way fail with `Unreachable`, and programs are told nothing: the
//!   link word stays up and imports and exports stay, because data continues. Messages that could not be sent
//!   are kept, and sent when the session returns.
//! - **A session returns**: the importer's side resumes every connection, the exporter's side notes which.
//!   With the same incarnation, the importer's first heartbeat ends its list; with another one its programs
//!   need time to re-attach, so it has [`ManagerConfig::resume_grace`]. What was not resumed by then is over
//!   (`Disconnected{died: true}`). Group members follow the same rule.
//! - **A manager ends in order**: everything of its node is over at once: the link word goes down
//!   (`Event::Link`), imports are `NodeLost`, exports disconnected, members gone.
//! - **This manager was restarted**: programs re-attach and name their objects again, under the same
//!   incarnations. A `Resume` for an object that is not there yet waits until the grace is over. While a
//!   session is down, `ResumeImport` is granted at once and verified when the session returns; a node that is
//!   not even seen within the grace has gone (`NodeLost`). Owners name their connections with `ResumeExport`,
//!   so that the death of an importer in the gap is reported too: at once if it can be proved (the process is
//!   not there; its own manager confirms it), else when the grace is over.
//! - **A connection is resumed by the process that made it** and by no other (see `judge`).
//! - **A program that does not read** (it is stopped, or slow) is not cut off: new connections to its objects
//!   are refused meanwhile (`OwnerBusy`), so that no other program decides how much waits for it. Until the
//!   grace is over a re-attached data interrupt takes no new producers (`NotAvailable`), because the numbers
//!   of the old ones are not all known yet.
//! - **A connection from before a restart** continues when its importer resumes it, and is announced to its
//!   owner once more unless the owner has named it first: no matter which side is right about what has
//!   happened in between, both sides then know the same.
//! - **A manager that was itself held up** (a timer is served late) extends its time-outs: the reply is
//!   probably in its sockets.
//! - **Connection numbers** are never used again: 48 bits of a sequence that starts at a place drawn from the
//!   manager's incarnation, then 16 bits for the producer's number. So a `Resume` for a number of this
//!   manager's own life that is not in the table has been ended here, and one from before the restart can be
//!   distinguished from it.
//!
//! # Bounds
//! Every table has a limit, in [`Limits`] or as a constant beside the table. Every message costs O(log n),
//! plus what it sets in motion.
//!
//! Where to start reading: [`Manager::handle`], then `requests` (what programs ask for), `exports` and
//! `imports`, `peers` (with `handshake` and `peer_protocol`), `resume` and `judge`.

mod admin;
mod admission;
mod agent_stream;
mod agents;
mod audit;
mod by_network;
mod config;
mod descriptors;
mod exports;
mod far_status;
mod groups;
mod handshake;
mod hosts;
mod imports;
mod io;
mod judge;
mod objects;
mod peer_protocol;
mod peers;
mod pending;
mod programs;
mod questions;
mod quotas;
mod rails;
mod relay;
mod relay_data;
mod relay_needs;
mod relaying;
mod requests;
mod resume;
mod sharing;
mod status;
mod stop;
mod timers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use seeded_random::mix;

use crate::ids::{GroupId, NodeId};
use crate::time::Instant;
use crate::wire::program::{ConnectionId, Imported, RequestId};
use crate::wire::status::Counters;

pub use config::{Limits, ManagerConfig};
pub use io::{
    Credentials, Descriptor, DescriptorKind, FdToken, Input, LogLevel, Output, PeerConn, ProgramConn, Revoked,
};

use admission::Shares;
use agents::Agents;
use by_network::OwnerAsked;
use descriptors::Ledger;
use exports::Exports;
use imports::Imports;
use objects::Object;
use peers::{Peer, Socket};
use pending::Pending;
use programs::Program;
use questions::Question;
use quotas::Quotas;
use relay_data::HeldEnds;
use relay_needs::RelayNeeds;
use relaying::Forwards;
use resume::{Asker, Waiting};
use timers::Timers;

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A program has not sent a hello.
    ProgramHello(ProgramConn),
    /// An accepted peer has not sent a hello.
    PeerHello(PeerConn),
    /// A session's own timer.
    Session(NodeId),
    /// What a returned peer has not resumed is over.
    Sweep(NodeId),
    /// A node that a program named was never seen.
    Unseen(NodeId),
    /// A peer does not respond.
    Pending(RequestId),
    /// The owner of an object that is wanted on another host does not respond.
    OwnerAsked(ConnectionId),
    /// An owner does not answer a question of an importer on another host.
    Question(ConnectionId),
    /// A node that is reached by way of a relay is dialled without one.
    Direct(NodeId),
    /// Re-attaching programs are not waited for any longer.
    Grace,
}

/// The machine.
#[derive(Debug)]
pub struct Manager {
    config: ManagerConfig,
    own: NodeId,
    started: Instant,
    /// The moment of the input that is being handled.
    now: Instant,
    out: VecDeque<Output>,
    timers: Timers<Timer>,
    tokens: Ledger,
    programs: BTreeMap<ProgramConn, Program>,
    shares: Shares,
    quotas: Quotas,
    objects: BTreeMap<Imported, Object>,
    segments: u64,
    interrupts: u64,
    next_interrupt: u32,
    exports: Exports,
    imports: Imports,
    peers: BTreeMap<NodeId, Peer>,
    sockets: BTreeMap<PeerConn, Socket>,
    pending: BTreeMap<RequestId, Pending>,
    next_request: RequestId,
    waiting: BTreeMap<(Imported, Asker), Waiting>,
    /// Connections of other hosts whose owners have yet to say how they are reached.
    owners_asked: BTreeMap<ConnectionId, OwnerAsked>,
    /// Questions about rails that wait for owners.
    questions: BTreeMap<ConnectionId, Question>,
    next_question: u64,
    /// Descriptors of what waits.
    kept: BTreeSet<FdToken>,
    /// Connections between programs of this node that their owner has named and their importer not yet.
    local_unconfirmed: BTreeSet<ConnectionId>,
    /// Released by another node in the gap before this manager's start, and not yet named by the owner.
    gone_before: BTreeSet<(NodeId, ConnectionId)>,
    watchers: BTreeMap<GroupId, BTreeSet<ProgramConn>>,
    counters: Counters,
    agents: Agents,
    /// What this node forwards as a relay.
    forwards: Forwards,
    /// Ends of programs for which a relay was asked.
    held_ends: HeldEnds,
    /// What relays forward for programs of this node.
    relay_needs: RelayNeeds,
    /// What was logged of the last manager that was turned away.
    last_stranger: String,
    stopped: bool,
}

impl Manager {
    /// A manager that has just started.
    pub fn new(config: ManagerConfig, now: Instant) -> Self {
        let drawn = mix(config.info.incarnation);
        let mut timers = Timers::default();
        timers.set(Timer::Grace, now + config.resume_grace);
        Self {
            own: config.info.node,
            started: now,
            now,
            out: VecDeque::new(),
            timers,
            tokens: Ledger::default(),
            programs: BTreeMap::new(),
            shares: Shares::default(),
            quotas: Quotas::default(),
            objects: BTreeMap::new(),
            segments: 0,
            interrupts: 0,
            next_interrupt: objects::first_drawn_number(drawn),
            exports: Exports::new(drawn),
            imports: Imports::default(),
            peers: BTreeMap::new(),
            sockets: BTreeMap::new(),
            pending: BTreeMap::new(),
            next_request: 1,
            waiting: BTreeMap::new(),
            owners_asked: BTreeMap::new(),
            questions: BTreeMap::new(),
            next_question: 0,
            kept: BTreeSet::new(),
            local_unconfirmed: BTreeSet::new(),
            gone_before: BTreeSet::new(),
            watchers: BTreeMap::new(),
            counters: Counters::default(),
            agents: Agents::default(),
            forwards: Forwards::default(),
            held_ends: HeldEnds::default(),
            relay_needs: RelayNeeds::default(),
            last_stranger: String::new(),
            stopped: false,
            config,
        }
    }

    /// Feeds one input.
    pub fn handle(&mut self, now: Instant, input: Input) {
        self.now = self.now.max(now);
        match input {
            Input::ProgramConnected { program, credentials } => self.program_connected(program, credentials),
            Input::ProgramMessage { program, message, descriptors } => {
                self.program_message(program, message, &descriptors);
            }
            Input::ProgramGarbage { program, error, descriptors } => {
                self.program_garbage(program, &error, &descriptors);
            }
            Input::ProgramGone { program } => self.program_gone(program),
            Input::ProgramCrowded { program, crowded } => {
                if let Some(entry) = self.programs.get_mut(&program) {
                    entry.crowded = crowded;
                }
            }
            Input::ProcessGone { pid } => self.process_gone(pid),
            Input::PeerSeen { node } => self.peer_seen(node),
            Input::PeerConnected { peer, dialled, credentials } => {
                self.peer_connected(peer, dialled, &credentials);
            }
            Input::HostSeen { node } => self.host_seen(node),
            Input::HostConnected { peer, dialled, node, address } => {
                self.host_connected(peer, dialled, node, address);
            }
            Input::HostConnectedVia { peer, node, relay, address } => {
                self.host_connected_via(peer, node, relay, address);
            }
            Input::ForwardReady { forward, result } => self.forward_ready(forward, result),
            Input::ForwardGone { forward } => self.forward_gone(forward),
            Input::HostRevoked { node, revoked } => self.host_revoked(node, revoked),
            Input::DialFailed { node, why } => self.dial_failed(node, &why),
            Input::DialRefused { node, why } => self.dial_refused(node, &why),
            Input::PeerMessage { peer, message, descriptors } => {
                self.peer_message(peer, message, &descriptors);
            }
            Input::PeerGarbage { peer, error, descriptors } => self.peer_garbage(peer, &error, &descriptors),
            Input::PeerGone { peer } => self.peer_gone(peer),
            Input::AgentReady { agent, result } => self.agent_ready(agent, result),
            Input::AgentRead { agent, bytes } => self.agent_read(agent, bytes),
            Input::AgentReadEnd { agent } => self.agent_read_end(agent),
            Input::AgentWritten { agent, bytes } => self.agent_written(agent, bytes),
            Input::AgentGone { agent, end } => self.agent_gone(agent, end),
            Input::Stop => self.stop(),
        }
    }

    /// Lets time pass: heartbeats, limits, retries. Call when [`Self::next_timeout`] is due; harmless at
    /// other times.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        // Each timer that is due fires once; one that it sets anew for this very moment waits for the next
        // call.
        for (timer, due) in self.timers.take_due(self.now) {
            if self.now.since(due) < self.config.heartbeat_interval {
                self.fire(timer);
            } else {
                self.fire_late(timer);
            }
        }
    }

    fn fire(&mut self, timer: Timer) {
        match timer {
            Timer::ProgramHello(program) => self.program_silent(program),
            Timer::PeerHello(peer) => self.peer_silent(peer),
            Timer::Session(node) => self.with_session(node, |session, now, out| session.timeout(now, out)),
            Timer::Sweep(node) => self.sweep(node),
            Timer::Unseen(node) => self.never_seen(node),
            Timer::Pending(request) => self.pending_timed_out(request),
            Timer::OwnerAsked(connection) => self.owner_silent(connection),
            Timer::Question(connection) => self.refuse_question(connection, false),
            Timer::Direct(node) => self.try_direct(node),
            Timer::Grace => self.grace_over(),
        }
    }

    /// This process was held up: what the timer guards against has perhaps happened in time, and waits in its
    /// sockets.
    fn fire_late(&mut self, timer: Timer) {
        let more = match timer {
            // Sessions have a rule of their own.
            Timer::Session(_) | Timer::Direct(_) => return self.fire(timer),
            Timer::Grace | Timer::Sweep(_) | Timer::Unseen(_) => self.config.resume_grace,
            Timer::ProgramHello(_)
            | Timer::PeerHello(_)
            | Timer::Pending(_)
            | Timer::OwnerAsked(_)
            | Timer::Question(_) => self.config.heartbeat_interval,
        };
        self.timers.set(timer, self.now + more);
    }

    /// When [`Self::handle_timeout`] is wanted next.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The next thing to do; call until `None` after each input and timeout.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    fn log(&mut self, level: LogLevel, text: String) {
        self.out.push_back(Output::Log { level, text });
    }

    /// It has ended in an orderly way: what it gives back belongs to programs that may continue with the next
    /// manager of this node.
    pub fn has_stopped(&self) -> bool {
        self.stopped
    }

    /// Re-attaching programs are still waited for.
    fn in_grace(&self) -> bool {
        self.timers.contains(Timer::Grace)
    }
}

//! The inputs and outputs of the state machine.

use std::net::{IpAddr, SocketAddr};

use crate::fault::LinkFaults;
use crate::ids::NodeId;
use crate::wire::CodecError;
use crate::wire::agent::{AgentEnd, AgentNo};
use crate::wire::peer::PeerMessage;
use crate::wire::program::{ImportSlot, LossReason, Refusal, ToManager, ToProgram};
use crate::wire::relay::ForwardNo;

/// A descriptor that the driver holds. Each token that reaches the machine leaves it exactly once as
/// [`Output::CloseDescriptor`]; being sent does not consume it (the driver sends a duplicate).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FdToken(pub u64);

/// What the driver found a received descriptor to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DescriptorKind {
    /// A memfd.
    Memory {
        /// Its size.
        size_bytes: u64,
        /// Sealed against shrinking and growing, and against further seals or not as the sealer wished.
        size_sealed: bool,
        /// No writable mapping can be made any more (F_SEAL_FUTURE_WRITE or F_SEAL_WRITE).
        write_sealed: bool,
    },
    /// A memfd of huge pages. A process that can write it can give its pages back to the kernel (fallocate,
    /// FALLOC_FL_PUNCH_HOLE), and when the pool of huge pages is empty then, the next touch kills a process
    /// that has mapped it (SIGBUS). No seal stops that and leaves it writable. So it is shared only among
    /// programs of one user, which can kill each other anyway.
    HugeMemory {
        /// Its size.
        size_bytes: u64,
        /// As for other memory.
        size_sealed: bool,
    },
    /// A pidfd of this process; 0: of one that has no number here, or that was not asked for.
    Pid(u32),
    /// A UNIX datagram socket of a pollable interrupt. Programs have them from a manager only: with a
    /// program's [`Request::CreateInterrupt`](crate::wire::program::Request::CreateInterrupt) the driver puts
    /// them beside what the program sent, first the sending side, then, unless the owner has it already, the
    /// receiving one. The token of the sending side stands for as many sockets as it is sent times: each
    /// receiver gets one of its own.
    Event,
    /// Anything else.
    Other,
    /// It could not be examined: this process has no descriptor left to do so.
    Unseen,
}

/// A received descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// The driver's name for it.
    pub token: FdToken,
    /// What it is.
    pub kind: DescriptorKind,
}

/// The driver's number of a connection with a program. Never re-used while the manager runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramConn(pub u64);

/// The driver's number of a connection with another manager. Never re-used while the manager runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerConn(pub u64);

/// The credentials of the other end of a socket, from SO_PEERCRED and SO_PEERGROUPS.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    /// Effective user.
    pub uid: u32,
    /// Effective group and supplementary groups.
    pub gids: Vec<u32>,
    /// Process id.
    pub pid: u32,
}

/// Whose certificate was revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Revoked {
    /// That of the other node.
    Theirs,
    /// That of the other node, because it has left the cluster.
    Left,
    /// That of this node.
    Ours,
}

/// What happens to the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// A program's socket was accepted.
    ProgramConnected {
        /// Its number from now on.
        program: ProgramConn,
        /// From the kernel.
        credentials: Credentials,
    },
    /// A message from it (already decoded).
    ProgramMessage {
        /// The connection of the program.
        program: ProgramConn,
        /// The message.
        message: ToManager,
        /// What came beside it.
        descriptors: Vec<Descriptor>,
    },
    /// It sent something that is no message; the text gives the reason.
    ProgramGarbage {
        /// The connection of the program.
        program: ProgramConn,
        /// What is wrong with it.
        error: CodecError,
        /// What came beside it.
        descriptors: Vec<Descriptor>,
    },
    /// Its socket closed.
    ProgramGone {
        /// The connection of the program.
        program: ProgramConn,
    },
    /// It does not read its messages (it is stopped, or slow), and many wait for it; or it has caught up.
    ProgramCrowded {
        /// The connection of the program.
        program: ProgramConn,
        /// Much waits.
        crowded: bool,
    },
    /// The result of [`Output::CheckProcess`], given only if it is certain: no such process lives.
    ProcessGone {
        /// Its id.
        pid: u32,
    },
    /// Another manager's socket exists in the runtime directory (seen at start, or made later).
    PeerSeen {
        /// The node.
        node: NodeId,
    },
    /// A connection with another manager is established: dialled by us ([`Output::Dial`], then `dialled`
    /// names the node), or accepted.
    PeerConnected {
        /// Its number from now on.
        peer: PeerConn,
        /// The node that we dialled.
        dialled: Option<NodeId>,
        /// From the kernel.
        credentials: Credentials,
    },
    /// There is a manager of this node on another host, at an address that the driver knows.
    HostSeen {
        /// Whose.
        node: NodeId,
    },
    /// A connection with a manager on another host stands, and both sides have proved which node they are.
    HostConnected {
        /// Its number from now on.
        peer: PeerConn,
        /// Whom we dialled.
        dialled: Option<NodeId>,
        /// Whom its certificate names.
        node: NodeId,
        /// Of the other host.
        address: IpAddr,
    },
    /// As [`Self::HostConnected`], of a connection by way of a relay ([`Output::DialRelayed`]).
    HostConnectedVia {
        /// Its number from now on.
        peer: PeerConn,
        /// Whom we dialled, and whom its certificate names.
        node: NodeId,
        /// Who forwards.
        relay: NodeId,
        /// Of the relay's host.
        address: IpAddr,
    },
    /// The answer to [`Output::OpenForward`], before any other input: where the connections are to be made.
    /// After a refusal nothing follows.
    ForwardReady {
        /// The forward.
        forward: ForwardNo,
        /// What came of it.
        result: Result<SocketAddr, String>,
    },
    /// Its process has ended: the last input for it.
    ForwardGone {
        /// The forward.
        forward: ForwardNo,
    },
    /// The authority has revoked a certificate: nothing of a node on another host continues.
    HostRevoked {
        /// Which node.
        node: NodeId,
        /// Whose certificate it was, and why.
        revoked: Revoked,
    },
    /// Dialling failed.
    DialFailed {
        /// The node that we dialled.
        node: NodeId,
        /// The error of the kernel.
        why: String,
    },
    /// Whom we dialled does not accept this node's certificate.
    DialRefused {
        /// The node that we dialled.
        node: NodeId,
        /// Why not.
        why: String,
    },
    /// A message from it.
    PeerMessage {
        /// The connection of the peer.
        peer: PeerConn,
        /// The message.
        message: PeerMessage,
        /// What came beside it.
        descriptors: Vec<Descriptor>,
    },
    /// It sent something that is no message.
    PeerGarbage {
        /// The connection of the peer.
        peer: PeerConn,
        /// What is wrong with it.
        error: CodecError,
        /// What came beside it.
        descriptors: Vec<Descriptor>,
    },
    /// Its socket closed.
    PeerGone {
        /// The connection of the peer.
        peer: PeerConn,
    },
    /// The answer to [`Output::StartAgent`] (no descriptor) or [`Output::OpenAgent`] (the program's end of
    /// the stream), before any other input. After a refusal nothing follows.
    AgentReady {
        /// The agent.
        agent: AgentNo,
        /// What came of it.
        result: Result<Option<Descriptor>, Refusal>,
    },
    /// Bytes from its local end: not more than [`Manager::agent_room`](super::Manager::agent_room) allows.
    AgentRead {
        /// The agent.
        agent: AgentNo,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// No more bytes come from the program that has asked for it. (The end of an agent's output is its end.)
    AgentReadEnd {
        /// The agent.
        agent: AgentNo,
    },
    /// So many bytes of [`Output::ToAgent`] were taken by its local end.
    AgentWritten {
        /// The agent.
        agent: AgentNo,
        /// How many.
        bytes: u32,
    },
    /// Its local end is closed: the last input for it, exactly once. Of an agent that runs here: its process
    /// has ended, and all of its output was read, unless it was closed.
    AgentGone {
        /// The agent.
        agent: AgentNo,
        /// How it ended, if it ran here.
        end: Option<AgentEnd>,
    },
    /// The administrator asks for an orderly end (SIGTERM).
    Stop,
}

/// What the driver has to do, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Send to a program. `descriptors` are duplicated by the send.
    ToProgram {
        /// The connection of the program.
        program: ProgramConn,
        /// The message.
        message: ToProgram,
        /// What goes beside it.
        descriptors: Vec<FdToken>,
    },
    /// Send the state page beside this message (only [`ToProgram::Welcome`]).
    Welcome {
        /// The connection of the program.
        program: ProgramConn,
        /// The message.
        message: ToProgram,
    },
    /// Close a program's socket, after what was sent.
    CloseProgram {
        /// Whose. No input for it is wanted any more; one that comes is ignored.
        program: ProgramConn,
    },
    /// Send to another manager.
    ToPeer {
        /// The connection of the peer.
        peer: PeerConn,
        /// The message.
        message: PeerMessage,
        /// What goes beside it.
        descriptors: Vec<FdToken>,
    },
    /// Close a peer's socket, after what was sent.
    ClosePeer {
        /// Whose. No input for it is wanted any more; one that comes is ignored.
        peer: PeerConn,
    },
    /// Connect to the manager of this node (its socket in the runtime directory, or its address). Answered by
    /// exactly one [`Input::PeerConnected`], [`Input::HostConnected`], [`Input::DialFailed`] or
    /// [`Input::DialRefused`].
    Dial {
        /// The node.
        node: NodeId,
    },
    /// Connect to the manager of this node by way of a relay: at this port of the host to which `through`
    /// leads. Answered by exactly one [`Input::HostConnectedVia`], [`Input::DialFailed`] or
    /// [`Input::DialRefused`].
    DialRelayed {
        /// The node.
        node: NodeId,
        /// Who forwards.
        relay: NodeId,
        /// The connection with the relay's manager.
        through: PeerConn,
        /// Where the relay listens.
        port: u16,
    },
    /// Forward connections, by a process of their own. Answered by [`Input::ForwardReady`].
    OpenForward {
        /// The forward.
        forward: ForwardNo,
        /// Who connects, and the connection with its manager.
        from: (NodeId, PeerConn),
        /// Where that leads.
        to: (NodeId, PeerConn),
        /// The end point there; none: the manager.
        at: Option<SocketAddr>,
    },
    /// Another program is about to connect to a forward, which others have used.
    RenewForward {
        /// The forward.
        forward: ForwardNo,
    },
    /// A forward takes no more connections: its process ends with those that it has. [`Input::ForwardGone`]
    /// follows.
    DrainForward {
        /// The forward.
        forward: ForwardNo,
    },
    /// End a forward's process, and with it its connections. [`Input::ForwardGone`] follows.
    CloseForward {
        /// The forward.
        forward: ForwardNo,
    },
    /// See whether this process lives. If it certainly does not: [`Input::ProcessGone`]; in doubt, nothing.
    CheckProcess {
        /// Its id, as the manager sees it.
        pid: u32,
    },
    /// Run an agent on this host. Answered by [`Input::AgentReady`].
    StartAgent {
        /// The agent.
        agent: AgentNo,
    },
    /// Make a stream to a program, for an agent on another host. Answered by [`Input::AgentReady`].
    OpenAgent {
        /// The agent.
        agent: AgentNo,
    },
    /// Pass these on to its local end; never more than its window without [`Input::AgentWritten`].
    ToAgent {
        /// The agent.
        agent: AgentNo,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Nothing more is passed on to its local end: its input ends, after what was passed on.
    EndAgentInput {
        /// The agent.
        agent: AgentNo,
    },
    /// There is room again: read from its local end.
    ReadAgent {
        /// The agent.
        agent: AgentNo,
    },
    /// An agent that runs here: kill it. Another one: close the stream after what was passed on.
    /// [`Input::AgentGone`] follows.
    CloseAgent {
        /// The agent.
        agent: AgentNo,
    },
    /// Write the link word of this node in the state page: bumps the generation.
    SetLink {
        /// The node.
        node: NodeId,
        /// Its session is valid; it stays up until its manager ends in order.
        up: bool,
    },
    /// Write an import's word. `None`: alive (a slot is handed out); `Some`: ended.
    SetImport {
        /// The import.
        import: ImportSlot,
        /// Why it ended.
        ended: Option<LossReason>,
    },
    /// Write an import's word: its exporter lives, but the link was taken down (or is up again).
    SuspendImport {
        /// The import.
        import: ImportSlot,
        /// Down, or up again.
        suspended: bool,
    },
    /// Write the fault record of this node in the state page.
    SetFaults {
        /// The node.
        node: NodeId,
        /// What is done to what is sent there.
        faults: LinkFaults,
    },
    /// Close a descriptor.
    CloseDescriptor {
        /// The descriptor.
        token: FdToken,
    },
    /// Something an administrator should read in the log.
    Log {
        /// How much it matters.
        level: LogLevel,
        /// What happened.
        text: String,
    },
    /// The manager has ended: leave the loop.
    Exit,
}

/// How much a log line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogLevel {
    /// Normal course.
    Info,
    /// A person should check it.
    Warn,
}

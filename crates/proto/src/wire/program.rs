//! Messages between a program and the manager of its node.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::agent::{AgentEnd, AgentNo};
use super::network::{ImporterEnd, OwnerEnd, RailDown};

pub use super::refusal::Refusal;
use super::status::{NodeInfo, NodeStatus};
use crate::fault::LinkChange;
use crate::ids::{GroupId, InterruptNo, NodeId, SegmentKey};

/// Number of a request within one connection; the reply carries it again.
pub type RequestId = u64;

/// Index of an import (a connected segment or interrupt of this program) in the node's state page.
/// The manager hands it out; the word at this index shows whether the other end still lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ImportSlot(pub u32);

/// Names one connection cluster-wide, as its exporter counts them; a re-attaching importer shows it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ConnectionId(pub u64);

/// Distinguishes two objects that bore the same id one after the other on the same node. Drawn at random by
/// the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Incarnation(pub u64);

/// The importer of a connection, as its node's manager reports it (from the kernel). A connection is its own:
/// it is resumed for the same process of the same user only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Importer {
    /// Effective user.
    pub uid: u32,
    /// Process id, as its manager sees it; 0 if it cannot be seen from there.
    pub pid: u32,
}

/// The users that may connect besides the owner's uid.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Access {
    /// Further user ids.
    pub uids: Vec<u32>,
    /// Members of this group.
    pub gid: Option<u32>,
}

/// What a program sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToManager {
    /// First message. Descriptors: a pidfd of the program itself, or none. It counts only where the kernel
    /// does not tell the manager whose process it is (before Linux 6.5, in a pid namespace that the manager
    /// cannot see).
    Hello {
        /// What `status` shows, at most [`super::MAX_NAME_BYTES`] bytes.
        name: String,
        /// What a program that outlived its manager had: `Attach` lines follow as ordinary requests before
        /// others.
        reattach: bool,
    },
    /// Everything else; each is answered by exactly one [`ToProgram::Reply`] with the same id.
    Request {
        /// Echoed in the reply.
        id: RequestId,
        /// What is asked.
        body: Request,
    },
}

/// How an interrupt delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum InterruptKind {
    /// A counter: triggers are latched and counted.
    Plain,
    /// A ring for many producers: each trigger carries a message.
    Data,
}

/// A question or an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Reserves the key on this node and deposits the memory. Descriptors: the memfd, sealed against
    /// resizing. The manager checks size and seals. Reply: [`Reply::Done`].
    CreateSegment {
        /// What it is called.
        key: SegmentKey,
        /// The size in bytes.
        size_bytes: u64,
        /// The users that may connect.
        access: Access,
        /// Owner's random number for this object.
        incarnation: Incarnation,
        /// Already available (used when re-attaching).
        available: bool,
        /// Already shared (used when re-attaching).
        shared: bool,
    },
    /// Opens the segment to connections, or closes it to new ones. Of a shared segment programs that are
    /// attached to it may do so too; closing one that is closed is [`Refusal::NotAvailable`] then. Reply:
    /// [`Reply::Done`].
    SetAvailable {
        /// The segment.
        key: SegmentKey,
        /// Open or closed.
        available: bool,
        /// When closing: also end the connections there are (their importers see `Withdrawn`). Programs of
        /// this node that are attached stay so.
        disconnect: bool,
    },
    /// Forgets the segment. Reply: `Done`, or [`Refusal::Busy`] while it is connected and `force` is false.
    RemoveSegment {
        /// The segment.
        key: SegmentKey,
        /// Even while connected; importers see `Removed`.
        force: bool,
    },
    /// Asks for a segment of any node (this one included). Reply: [`Reply::Segment`] with the memfd, or
    /// [`Reply::OnOtherHost`].
    ConnectSegment {
        /// On which node.
        node: NodeId,
        /// The segment.
        key: SegmentKey,
    },
    /// Deposits an interrupt. Descriptors: trigger region (shared for writing) and waiter region (sealed, for
    /// reading). The sockets of a pollable one are made by the manager. Reply: [`Reply::InterruptCreated`].
    CreateInterrupt {
        /// A wish, or `None` for any free number.
        number: Option<InterruptNo>,
        /// Counter or messages.
        kind: InterruptKind,
        /// The users that may connect.
        access: Access,
        /// Owner's random number for this object.
        incarnation: Incarnation,
        /// It has a descriptor that can be polled.
        pollable: bool,
        /// The owner has that descriptor already (used when re-attaching).
        again: bool,
    },
    /// Forgets the interrupt; importers see `Removed`. Reply: `Done`.
    RemoveInterrupt {
        /// The interrupt.
        number: InterruptNo,
    },
    /// Asks for an interrupt of any node. Reply: [`Reply::Interrupt`] with its descriptors, or
    /// [`Reply::OnOtherHost`].
    ConnectInterrupt {
        /// On which node.
        node: NodeId,
        /// The interrupt.
        number: InterruptNo,
    },
    /// Gives up an import. Reply: `Done`.
    Disconnect {
        /// The import.
        import: ImportSlot,
    },
    /// A program that outlived its manager shows an import again. Reply: [`Reply::Resumed`], or
    /// [`Refusal::NotFound`] if the exporter died in between.
    ResumeImport {
        /// On which node.
        node: NodeId,
        /// As the exporter counts.
        connection: ConnectionId,
        /// Of the object.
        incarnation: Incarnation,
        /// What it is.
        what: Imported,
    },
    /// Is this node there? Reply: [`Reply::Probed`].
    Probe {
        /// The node.
        node: NodeId,
    },
    /// From now on events name joins and departures of the group's members. Reply: [`Reply::Members`].
    WatchGroup {
        /// The group.
        group: GroupId,
    },
    /// No more events for this group. Reply: `Done`.
    UnwatchGroup {
        /// The group.
        group: GroupId,
    },
    /// Reply: [`Reply::Info`].
    NodeInfo,
    /// Reply: [`Reply::Status`].
    Status,
    /// The state of a node on another host, from its manager. Reply: [`Reply::Status`].
    StatusOf {
        /// The node.
        node: NodeId,
    },
    /// Clears the counters. Reply: `Done`.
    ClearCounters,
    /// Does something to the link to a node, at this end (same uid as the manager, or root). Reply: `Done`.
    ChangeLink {
        /// The node at the other end.
        peer: NodeId,
        /// The change.
        change: LinkChange,
    },
    /// Ends the manager (same uid as the manager, or root). Reply: `Done`, then the socket closes.
    Shutdown,
    /// A program that outlived its manager names a connection to one of its objects (after it has created the
    /// object again). Reply: [`Reply::Done`]: it is kept, and if its importer does not show up within the
    /// manager's grace time, an [`Event::Disconnected`] follows. [`Refusal::NotFound`]: the importer is gone
    /// already.
    ResumeExport {
        /// The segment or interrupt.
        what: Imported,
        /// The importer.
        node: NodeId,
        /// As in [`Event::Connected`].
        connection: ConnectionId,
        /// As in [`Event::Connected`]: no other process can resume it.
        importer: Importer,
    },
    /// Lets programs of this node and of the owner's user attach to the segment, whether it is available or
    /// not. Reply: [`Reply::Done`].
    ShareSegment {
        /// The segment.
        key: SegmentKey,
    },
    /// Attaches to a shared segment of this node: a connection that does not depend on availability. Reply:
    /// [`Reply::Segment`] with the memfd.
    AttachSegment {
        /// The segment.
        key: SegmentKey,
    },
    /// Asks for an object of a node on another host, which was answered [`Reply::OnOtherHost`] before. Reply:
    /// [`Reply::ByNetwork`].
    ConnectByNetwork {
        /// On which node.
        node: NodeId,
        /// The object.
        what: Imported,
        /// This program's end of the link.
        end: ImporterEnd,
    },
    /// The owner's answer to [`Event::WantedByNetwork`]. Reply: `Done`, or [`Refusal::NotFound`] if the
    /// connection is over.
    AnswerByNetwork {
        /// As in the event.
        connection: ConnectionId,
        /// Its end of the link, or why it has none.
        end: Result<OwnerEnd, String>,
    },
    /// Runs an agent on the host of a node, which must be another host. It ends with this connection. Reply:
    /// [`Reply::Agent`].
    StartAgent {
        /// The node.
        node: NodeId,
    },
    /// Which rails of a connection to another host are not used now, for
    /// [`NodeStatus::reduced`](super::status::NodeStatus). Reply: `Done`.
    TellRails {
        /// The connection.
        import: ImportSlot,
        /// These and no others.
        down: Vec<RailDown>,
    },
    /// Asks the owner of an object on another host about the rails of a connection, when no rail carries the
    /// question. Reply: [`Reply::Answer`].
    AskOwner {
        /// The connection.
        import: ImportSlot,
        /// In the link's own form, at most [`MAX_QUESTION_BYTES`](super::network::MAX_QUESTION_BYTES).
        question: Vec<u8>,
    },
    /// The owner's answer to [`Event::Asked`]. Reply: `Done`, or [`Refusal::NotFound`] if it is not waited
    /// for any longer.
    AnswerImporter {
        /// As in the event.
        connection: ConnectionId,
        /// As in the event.
        number: u64,
        /// In the link's own form, at most [`MAX_ANSWER_BYTES`](super::network::MAX_ANSWER_BYTES).
        answer: Vec<u8>,
    },
}

/// What an import is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Imported {
    /// A segment.
    Segment(SegmentKey),
    /// An interrupt.
    Interrupt(InterruptNo),
}

impl std::fmt::Display for Imported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Segment(key) => key.fmt(f),
            Self::Interrupt(number) => write!(f, "interrupt {number}"),
        }
    }
}

/// What a manager sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToProgram {
    /// The reply to a hello. Descriptors: the node's state page, read-only.
    Welcome {
        /// Facts of the node.
        info: NodeInfo,
    },
    /// Hello was refused; the socket closes.
    Rejected(Refusal),
    /// The reply to one request.
    Reply {
        /// The request's id.
        id: RequestId,
        /// What came of it.
        result: Result<Reply, Refusal>,
    },
    /// Something happened.
    Event(Event),
}

/// Replies to successful requests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Done, nothing to add.
    Done,
    /// Descriptors: the segment's memfd.
    Segment {
        /// Where its life is shown.
        import: ImportSlot,
        /// For `ResumeImport`.
        connection: ConnectionId,
        /// The size in bytes.
        size_bytes: u64,
        /// Of the object.
        incarnation: Incarnation,
    },
    /// The interrupt exists under this number. Descriptors, if it is pollable: a sending socket, and, unless
    /// the owner has it already, the receiving one.
    InterruptCreated {
        /// As wished, or drawn.
        number: InterruptNo,
    },
    /// Descriptors: trigger region, waiter region, and, if `pollable`, a sending socket of this connection's
    /// own.
    Interrupt {
        /// Where its life is shown.
        import: ImportSlot,
        /// For `ResumeImport`.
        connection: ConnectionId,
        /// Of the object.
        incarnation: Incarnation,
        /// Counter or messages.
        kind: InterruptKind,
        /// Number of this producer in the ring of a data interrupt.
        producer: u16,
        /// A socket comes along.
        pollable: bool,
    },
    /// The node is on another host: ask again with an end point.
    OnOtherHost {
        /// This host's addresses for data, one of each rail ([`NodeInfo::rails`]).
        addresses: Vec<IpAddr>,
    },
    /// The object is reached over the network.
    ByNetwork {
        /// Where its life is shown.
        import: ImportSlot,
        /// For `ResumeImport`.
        connection: ConnectionId,
        /// Of a segment: its size in bytes.
        size_bytes: u64,
        /// Of the object.
        incarnation: Incarnation,
        /// The owner's end of the link.
        end: OwnerEnd,
    },
    /// The import continues in this slot.
    Resumed {
        /// In the new state page.
        import: ImportSlot,
    },
    /// Whether the node responds.
    Probed {
        /// Its session is valid.
        reachable: bool,
    },
    /// Nodes that hold a copy of the group, ascending.
    Members(Vec<NodeId>),
    /// Facts of this node.
    Info(NodeInfo),
    /// State of this node.
    Status(Box<NodeStatus>),
    /// Descriptors: a stream socket, whose other end is the agent's input and output. An
    /// [`Event::AgentEnded`] follows.
    Agent {
        /// As this manager counts.
        agent: AgentNo,
    },
    /// What the owner answers to [`Request::AskOwner`].
    Answer {
        /// In the link's own form.
        answer: Vec<u8>,
    },
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LossReason {
    /// The owner made the segment unavailable and asked to disconnect.
    Withdrawn,
    /// The owner removed it.
    Removed,
    /// The owning program died or detached.
    OwnerDied,
    /// The session to the owner's node was lost.
    NodeLost,
}

/// Messages to a program that are no replies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// A program connected to one of this program's objects. Descriptors: for a data interrupt, the
    /// producer's pidfd. When this node's manager was restarted, connections from before are announced again,
    /// under the same number.
    Connected {
        /// The segment or interrupt.
        what: Imported,
        /// From which node.
        node: NodeId,
        /// The connection, as this node counts.
        connection: ConnectionId,
        /// Number of the producer in the ring of a data interrupt.
        producer: u16,
        /// The importer, as its manager reports it.
        importer: Importer,
    },
    /// The program that has just connected (the [`Event::Connected`] before) is on another host: it waits for
    /// [`Request::AnswerByNetwork`].
    WantedByNetwork {
        /// The object.
        what: Imported,
        /// From which node.
        node: NodeId,
        /// As in `Connected`.
        connection: ConnectionId,
        /// The importer's end of the link.
        end: ImporterEnd,
        /// This host's addresses for data, one of each rail ([`NodeInfo::rails`]).
        addresses: Vec<IpAddr>,
    },
    /// An importer disconnected (or died).
    Disconnected {
        /// The segment or interrupt.
        what: Imported,
        /// From which node.
        node: NodeId,
        /// As in `Connected`.
        connection: ConnectionId,
        /// It died rather than disconnected.
        died: bool,
    },
    /// An import has ended. The state page showed it before this event was sent.
    Lost {
        /// The import.
        import: ImportSlot,
        /// The reason.
        reason: LossReason,
    },
    /// The session with a node came up for the first time (or again after a goodbye), or its manager was
    /// stopped. A session that is only lost is not reported: data continues.
    Link {
        /// To which node.
        node: NodeId,
        /// Whether it is up now.
        up: bool,
    },
    /// A watched group gained or lost a member.
    Member {
        /// The group.
        group: GroupId,
        /// Which node's copy.
        node: NodeId,
        /// Joined or left.
        joined: bool,
    },
    /// An agent of this program has ended; what it said last may still be in its socket.
    AgentEnded {
        /// As in [`Reply::Agent`].
        agent: AgentNo,
        /// How.
        end: AgentEnd,
    },
    /// A program that is attached to this program's segment has opened or closed it: what a restarted manager
    /// is to be told.
    Availability {
        /// The segment.
        key: SegmentKey,
        /// Open or closed.
        available: bool,
    },
    /// A program on another host asks about the rails of its connection to an object of this program, and
    /// waits for [`Request::AnswerImporter`].
    Asked {
        /// As in `Connected`.
        connection: ConnectionId,
        /// Of the question, as this manager counts.
        number: u64,
        /// In the link's own form.
        question: Vec<u8>,
    },
}

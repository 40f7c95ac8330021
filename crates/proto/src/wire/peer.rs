//! Messages between the managers of two nodes.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::agent::{AgentNo, FromAgent, ToAgent};
use super::network::{ImporterEnd, OwnerEnd};
use super::program::{
    ConnectionId, Imported, Importer, Incarnation, InterruptKind, LossReason, Refusal, RequestId,
};
use super::relay::Forward;
use super::status::NodeStatus;
use crate::ids::{GroupId, InterruptNo, NodeId, SegmentKey};

/// A heartbeat of the other side, for the measurement of round trips and of the offset between both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Echo {
    /// Its sequence.
    pub sequence: u64,
    /// Nanoseconds since it came.
    pub held_ns: u64,
    /// The sender's clock now, in nanoseconds since its own origin.
    pub clock_ns: u64,
}

/// The requester on whose behalf a manager asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requester {
    /// Effective user id, from the kernel.
    pub uid: u32,
    /// Effective group id and supplementary groups, from the kernel.
    pub gids: Vec<u32>,
    /// Process id as the requester's manager sees it: with the user it identifies the owner of a connection
    /// ([`Importer`]).
    pub pid: u32,
    /// Program name, for display only.
    pub name: String,
}

impl Requester {
    /// Whose its connections are.
    pub fn importer(&self) -> Importer {
        Importer { uid: self.uid, pid: self.pid }
    }
}

/// What managers say to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerMessage {
    /// First message of either side.
    Hello {
        /// The sending node.
        node: NodeId,
        /// Drawn at start; another value means that the manager was restarted.
        incarnation: Incarnation,
        /// Must be equal on both sides.
        cluster: String,
        /// Where it runs, for display.
        host: String,
    },
    /// The hello was not acceptable; the connection closes.
    Rejected(Refusal),
    /// I am alive.
    Heartbeat {
        /// Counts up.
        sequence: u64,
        /// The last one of the other side, if it came since the last one of this side.
        echo: Option<Echo>,
    },
    /// Last message of a manager that stops on purpose.
    Bye,
    /// Asks for something.
    Request {
        /// Echoed in the reply.
        id: RequestId,
        /// What is asked.
        body: PeerRequest,
    },
    /// Answers one request.
    Reply {
        /// The request's id.
        id: RequestId,
        /// What came of it.
        result: Result<PeerReply, Refusal>,
    },
    /// The exporter ends a connection.
    Lost {
        /// As the sender counts.
        connection: ConnectionId,
        /// The reason.
        reason: LossReason,
    },
    /// The importer ends a connection.
    Released {
        /// As the receiver counts.
        connection: ConnectionId,
        /// The importing program died.
        died: bool,
    },
    /// The sender's end of the link was taken down, or brought up.
    Carrier {
        /// Up.
        up: bool,
    },
    /// The sender's node holds a copy of the group, or no longer.
    Member {
        /// The group.
        group: GroupId,
        /// Joined or left.
        joined: bool,
    },
    /// For an agent that the receiver runs.
    ToAgent {
        /// As the receiver counts.
        agent: AgentNo,
        /// What is said.
        word: ToAgent,
    },
    /// From an agent that the sender runs.
    FromAgent {
        /// As the sender counts.
        agent: AgentNo,
        /// What is said.
        word: FromAgent,
    },
    /// The sender forwards connections between nodes that have no common link.
    Relays,
    /// The connection on which this is said goes by way of a relay.
    Via {
        /// That one.
        relay: NodeId,
    },
    /// A relay is needed no longer for this: the program whose end point it is has ended.
    ForwardOver {
        /// As the sender has asked for it.
        forward: Forward,
    },
    /// After a lost session with a relay: of the end points whose forwards the sender has asked for since it
    /// was started, these are needed.
    ForwardsKept {
        /// As the sender has asked for them.
        forwards: Vec<Forward>,
    },
}

/// What a manager asks another for, on behalf of a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerRequest {
    /// The descriptor of a segment.
    ConnectSegment {
        /// The segment.
        key: SegmentKey,
        /// The user on whose behalf.
        requester: Requester,
    },
    /// The descriptors of an interrupt. Descriptors: the producer's pidfd.
    ConnectInterrupt {
        /// The interrupt.
        number: InterruptNo,
        /// The user on whose behalf.
        requester: Requester,
    },
    /// An object for a program on another host, whose data travels over the network. Answered when the owner
    /// has been asked.
    ConnectByNetwork {
        /// The object.
        what: Imported,
        /// The user on whose behalf.
        requester: Requester,
        /// Its end of the link.
        end: ImporterEnd,
    },
    /// After a restart of a manager, or a lost session: the connection is still wanted.
    /// Descriptors: for an interrupt, the producer's pidfd.
    Resume {
        /// As the receiver counts.
        connection: ConnectionId,
        /// Of the object.
        incarnation: Incarnation,
        /// What it is.
        what: Imported,
        /// The user on whose behalf.
        requester: Requester,
    },
    /// The state of the node, for a program of the asking node.
    Status,
    /// Run an agent on the receiver's host.
    StartAgent {
        /// The user on whose behalf.
        requester: Requester,
    },
    /// Forward TCP connections, as a relay.
    Relay {
        /// Which.
        forward: Forward,
    },
    /// A program asks the owner of an object of the receiver's node about the rails of its connection.
    /// Answered when the owner has answered.
    AskOwner {
        /// As the receiver counts.
        connection: ConnectionId,
        /// In the link's own form.
        question: Vec<u8>,
    },
}

/// What comes back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PeerReply {
    /// Descriptors: the memfd.
    Segment {
        /// As the sender counts.
        connection: ConnectionId,
        /// The size in bytes.
        size_bytes: u64,
        /// Of the object.
        incarnation: Incarnation,
    },
    /// Descriptors: trigger region, waiter region, and, if `pollable`, a sending socket of this connection's
    /// own.
    Interrupt {
        /// As the sender counts.
        connection: ConnectionId,
        /// Of the object.
        incarnation: Incarnation,
        /// Counter or messages.
        kind: InterruptKind,
        /// Number of the producer.
        producer: u16,
        /// A socket comes along.
        pollable: bool,
    },
    /// The answer to [`PeerRequest::ConnectByNetwork`].
    ByNetwork {
        /// As the sender counts.
        connection: ConnectionId,
        /// Of a segment: its size in bytes.
        size_bytes: u64,
        /// Of the object.
        incarnation: Incarnation,
        /// The owner's end of the link.
        end: OwnerEnd,
    },
    /// The connection continues.
    Resumed,
    /// The state of the node.
    Status(Box<NodeStatus>),
    /// The agent runs.
    Agent {
        /// As the sender counts.
        agent: AgentNo,
    },
    /// The connections are forwarded.
    Relay {
        /// Where they are to be made: an address of the sender's host.
        at: SocketAddr,
    },
    /// The owner's, to [`PeerRequest::AskOwner`].
    Answer {
        /// In the link's own form.
        answer: Vec<u8>,
    },
}

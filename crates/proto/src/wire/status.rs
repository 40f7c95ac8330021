//! The status of a node; the same structures are printed as JSON.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::fault::LinkFaults;
use crate::ids::{AdapterNo, NodeId};

/// Facts that do not change while the manager runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    /// This node.
    pub node: NodeId,
    /// Its cluster.
    pub cluster: String,
    /// Host name.
    pub host: String,
    /// Version of tieline.
    pub version: String,
    /// Process id of the manager.
    pub manager_pid: u32,
    /// Drawn at start.
    pub incarnation: u64,
    /// Its adapters.
    pub adapters: Vec<AdapterInfo>,
    /// Programs of this node carry out the faults that are asked for.
    pub faults: bool,
    /// Addresses of this host that data to other hosts goes over, one of each rail, at most
    /// [`MAX_RAILS`](crate::wire::network::MAX_RAILS); none: this node is reached from no other host.
    /// Documents of before do not say.
    #[serde(default)]
    pub rails: Vec<IpAddr>,
}

/// One adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdapterInfo {
    /// From 0.
    pub number: AdapterNo,
    /// `shm`.
    pub kind: String,
    /// What its links can do: `map`, `put`, `get`, `atomics`, `doorbell`.
    pub capabilities: Vec<String>,
}

/// State of a session with another node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionState {
    /// Being set up.
    Connecting,
    /// Heartbeats arrive.
    Valid,
    /// No heartbeat for longer than the limit, or the connection broke.
    Lost,
    /// The other side was refused (version, cluster, user).
    Refused,
    /// The other manager ended in order.
    Stopped,
    /// The cluster's authority has revoked the certificate of the other node, which is on another host.
    Revoked,
}

/// What carries the data of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// Shared memory, within a host.
    #[default]
    Shm,
    /// libfabric, between hosts.
    Ofi,
}

impl LinkKind {
    /// As in messages and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Ofi => "ofi",
        }
    }
}

/// One link, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// The number of the adapter.
    pub adapter: AdapterNo,
    /// The node at the other end.
    pub peer: NodeId,
    /// Where that is.
    pub peer_host: String,
    /// That is another host. Documents of before do not say.
    #[serde(default)]
    pub other_host: bool,
    /// What carries the data. Documents of before do not say.
    #[serde(default)]
    pub kind: LinkKind,
    /// The session over it.
    pub session: SessionState,
    /// Why it is not valid, where it is not.
    pub reason: Option<String>,
    /// How often its state changed.
    pub generation: u64,
    /// Nanoseconds since the last change of state.
    pub since_ns: u64,
    /// Nanoseconds that it was down since this manager started, this time included.
    pub downtime_ns: u64,
    /// An administrator has taken it down, at either end.
    pub taken_down: bool,
    /// The node that is really at the other end: another than `peer` if cables are swapped.
    pub partner: NodeId,
    /// What is done on purpose to what is sent there.
    pub faults: LinkFaults,
    /// Heartbeats that arrived.
    pub heartbeats_received: u64,
    /// Heartbeats that were due and did not arrive.
    pub heartbeats_missed: u64,
    /// Nanoseconds from a heartbeat to its echo, through both managers, on the present connection: the last
    /// time. Documents of before do not say.
    #[serde(default)]
    pub round_trip_ns: Option<u64>,
    /// The same: the least.
    #[serde(default)]
    pub least_round_trip_ns: Option<u64>,
    /// The other manager's monotonic clock (CLOCK_MONOTONIC) less this one's, in nanoseconds. Documents of
    /// before do not say.
    #[serde(default)]
    pub clock_offset_ns: Option<i64>,
    /// By how much that may be wrong, in nanoseconds: half a round trip, and 1 ms for each second since.
    #[serde(default)]
    pub clock_error_ns: Option<u64>,
    /// The address of the other host over which the session goes, while it stands. Documents of before do not
    /// say.
    #[serde(default)]
    pub address: Option<IpAddr>,
    /// The third node by way of which the session goes, and new connections of programs. Documents of before
    /// do not say.
    #[serde(default)]
    pub via: Option<Via>,
}

/// A link that goes by way of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Via {
    /// The node that forwards.
    pub relay: NodeId,
    /// Nanoseconds since that began.
    pub since_ns: u64,
}

/// What a relay forwards for a pair of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayedPair {
    /// The one with the lower id.
    pub first: NodeId,
    /// The other one.
    pub second: NodeId,
    /// How many addresses are forwarded for them: managers and end points.
    pub forwards: u32,
    /// Nanoseconds since the oldest of these was asked for.
    pub since_ns: u64,
}

/// Counters of a node manager, since start or since they were cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Requests of programs.
    pub requests: u64,
    /// Of these, refused.
    pub refusals: u64,
    /// Connections given out to segments and interrupts of this node.
    pub connections: u64,
    /// Programs that attached.
    pub attaches: u64,
    /// Programs that went away without detaching.
    pub program_deaths: u64,
    /// Messages that could not be decoded, or broke a rule.
    pub protocol_errors: u64,
    /// Sessions that were lost.
    pub sessions_lost: u64,
}

/// One attached program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramStatus {
    /// As it named itself.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// User.
    pub uid: u32,
    /// Segments that it owns.
    pub segments: u32,
    /// Interrupts that it owns.
    pub interrupts: u32,
    /// Imports that it holds.
    pub imports: u32,
}

/// One segment of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentStatus {
    /// `segment 7` or `copy of group 1`.
    pub what: String,
    /// The size in bytes.
    pub size_bytes: u64,
    /// Open to connections.
    pub available: bool,
    /// Connections to it.
    pub connections: u32,
    /// Process id of its owner.
    pub owner_pid: u32,
    /// Programs of this node and of the owner's user may attach. Documents of before do not say.
    #[serde(default)]
    pub shared: bool,
    /// Of its connections, those of programs of this node that are attached to it.
    #[serde(default)]
    pub attached: u32,
}

/// A rail that connections do not use because it has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReducedRail {
    /// The node at its other end.
    pub peer: NodeId,
    /// Its number, from 1 on.
    pub rail: u8,
    /// How many connections of programs of this node do not use it.
    pub connections: u32,
    /// Nanoseconds since the first of them found that it has failed.
    pub since_ns: u64,
    /// Why, as that one says.
    pub why: String,
}

/// State of a node. Lists are cut so that the whole fits into one datagram; the totals are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Facts.
    pub info: NodeInfo,
    /// Nanoseconds since the manager started.
    pub uptime_ns: u64,
    /// Links, by peer: 250 always fit (where space is short, their reasons are cut or left out first).
    pub links: Vec<LinkStatus>,
    /// How many links there are.
    pub links_total: u64,
    /// Programs, at most [`MAX_LISTED`].
    pub programs: Vec<ProgramStatus>,
    /// How many programs there are.
    pub programs_total: u64,
    /// Segments, at most [`MAX_LISTED`].
    pub segments: Vec<SegmentStatus>,
    /// How many segments there are.
    pub segments_total: u64,
    /// How many interrupts there are.
    pub interrupts_total: u64,
    /// Rails to other hosts that connections of this node's programs do not use at present, though they are
    /// connected over them. Documents of before do not say.
    #[serde(default)]
    pub reduced: Vec<ReducedRail>,
    /// Pairs of other nodes for which this node is a relay. Documents of before do not say.
    #[serde(default)]
    pub relayed: Vec<RelayedPair>,
    /// Descriptors that the manager holds for programs.
    pub descriptors: u64,
    /// Counters.
    pub counters: Counters,
}

/// Longest list of programs and of segments in a [`NodeStatus`].
pub const MAX_LISTED: usize = 128;

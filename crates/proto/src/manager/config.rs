//! The configuration of a manager.

use std::time::Duration;

use crate::wire::program::Access;
use crate::wire::status::NodeInfo;

/// What does not change while a manager runs.
#[derive(Debug, Clone)]
pub struct ManagerConfig {
    /// Facts for programs and peers.
    pub info: NodeInfo,
    /// The manager's own uid.
    pub uid: u32,
    /// The users that may attach besides that uid (root always may).
    pub attach: Access,
    /// How often a heartbeat is sent.
    pub heartbeat_interval: Duration,
    /// After how long without one a session is lost.
    pub heartbeat_limit: Duration,
    /// How long after a start re-attaching programs are waited for before a peer's `Resume` is answered
    /// `NotFound`.
    pub resume_grace: Duration,
    /// Whether it runs agents for programs of other hosts.
    pub agents: bool,
    /// Whether it forwards connections between other nodes that have no common link.
    pub relay: bool,
    /// Limits; reaching one is [`crate::wire::program::Refusal::Limit`].
    pub limits: Limits,
}

/// Limits of one manager.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Programs.
    pub programs: u64,
    /// Segments and group copies of all programs.
    pub segments: u64,
    /// Interrupts of all programs.
    pub interrupts: u64,
    /// Imports of all programs; at most the slots of the state page.
    pub imports: u64,
    /// Connections of the programs of one other node to objects of this one.
    pub exports_of_node: u64,
    /// Requests of one program that wait for a peer.
    pub pending_per_program: u64,
}

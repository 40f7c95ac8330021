//! The trait by which a benchmark starts and stops a cluster. The binary and tests implement
//! [`ClusterControl`], because this crate must not depend on the node manager.

use std::error::Error;
use std::time::Duration;

use tieline::NodeId;

use crate::patterns::attach::Where;

/// Errors of the code that controls the cluster.
pub type ControlError = Box<dyn Error + Send + Sync>;

/// A running cluster.
#[derive(Debug, Clone)]
pub struct Running {
    /// The runtime directory and the name of the cluster.
    pub place: Where,
    /// Its nodes.
    pub nodes: Vec<NodeId>,
    /// Processes of their managers, in the same order.
    pub manager_pids: Vec<u32>,
}

/// Tests of a whole cluster; their code is in a crate above this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterTest {
    /// Every node sends checked data to every other for this time; the result is the bytes a second
    /// that were generated, moved and checked.
    Load(Duration),
    /// The whole verification, briefly, with all its hosts; seconds.
    VerifyQuick,
    /// Only the health of the cluster is tested; the result is in seconds.
    Health,
}

/// Starts and stops clusters of its own, apart from any that the user runs.
pub trait ClusterControl {
    /// Starts a new cluster of this number of nodes; returns as soon as all sessions between them
    /// are valid. There is one at a time.
    fn up(&mut self, nodes: usize) -> Result<Running, ControlError>;

    /// The same on hosts that share nothing (`tieline up --hosts-in-namespaces`), a node on each.
    fn up_hosts(&mut self, hosts: usize) -> Result<Running, ControlError>;

    /// Runs a test of the running cluster, and returns its result in the unit of the test. A test
    /// that does not pass is an error.
    fn test(&mut self, test: ClusterTest) -> Result<f64, ControlError>;

    /// Stops it, leaving nothing.
    fn down(&mut self) -> Result<(), ControlError>;
}

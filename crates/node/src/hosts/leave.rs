//! A node of this host leaves its cluster.

use std::time::{Duration, Instant};

use proto::ids::NodeId;
use trust::TrustError;
use trust::authority::Authority;
use trust::identity::Identity;
use trust::leave::{LeaveError, Leaving, forget};

use super::{HostsError, Result, connect, converse, own_node, with_port};
use crate::cluster::{NodeState, list_nodes};
use crate::runtime_dir::ClusterDir;

/// What is to be left, and how.
#[derive(Debug, Clone, Copy)]
pub struct LeaveOptions<'o> {
    /// Managers of this host are looked for there; it names the cluster.
    pub runtime: &'o ClusterDir,
    /// The node; none: the only one of this host.
    pub node: Option<NodeId>,
    /// The authority's host, with or without a port; none: the authority is not told, and only what this host
    /// has is removed.
    pub host: Option<&'o str>,
    /// How long the authority may take.
    pub limit: Duration,
}

/// Which node has left.
pub fn leave(options: LeaveOptions<'_>) -> Result<NodeId> {
    let (store, node) = own_node(options.runtime.cluster().as_str(), options.node)?;
    if Authority::is_in(&store) {
        return Err(TrustError::OwnNode { node }.into());
    }
    Identity::certificate(&store, node)?;
    let running = list_nodes(options.runtime).unwrap_or_default();
    if running.iter().any(|entry| entry.node == node && matches!(entry.state, NodeState::Running { .. })) {
        return Err(HostsError::Runs { node });
    }
    let Some(host) = options.host else {
        forget(&store, node)?;
        return Ok(node);
    };
    let at = with_port(host);
    let failed = |source: LeaveError| HostsError::Leave { node, at: at.clone(), source };
    let unreached = |source| HostsError::Unreached { node, source: Box::new(source) };
    // Its own limit is this function's.
    let now = proto::time::Instant::from_nanos(0);
    let mut leaving = Leaving::begin(store, node, now).map_err(failed)?;
    let until = Instant::now() + options.limit;
    let mut socket = connect(&at, until).map_err(unreached)?;
    socket
        .set_write_timeout(Some(options.limit))
        .map_err(|source| unreached(HostsError::Connect { at: at.clone(), source }))?;
    let answer = converse(&mut socket, &mut leaving.channel, until, &at, |error| failed(error.into()));
    let answer = answer.map_err(|error| match error {
        told @ HostsError::Leave { .. } => told,
        other => unreached(other),
    })?;
    leaving.finish(&answer).map_err(failed)?;
    Ok(node)
}

//! Starts, stops and lists the node managers of a cluster on this machine.
//!
//! Each manager is a process of its own, started from a given binary as `<binary> node run --id 4 …`. They
//! are found by the cluster's directory alone, so any process of the user can continue with what another one
//! began.

mod launch;
pub(crate) mod lease;
mod list;
mod ready;
mod stop;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use node_client::BlockingClient;
use proto::ids::{BROADCAST_NODE_ID, NodeId};
use proto::wire::program::{Reply, Request};
use proto::wire::status::NodeStatus;

use crate::error::{NodeError, Result};
use crate::lock::{is_held, pid_in_file};
use crate::runtime_dir::{ClusterDir, prepare, remove_stale};
use launch::Begun;

pub use launch::{Launcher, detach};
pub use lease::{ENV_LEASE, Lease};
pub use list::{ClusterEntry, NodeEntry, NodeState, list_clusters, list_nodes, shut_directories};
pub use stop::{DownReport, StopProgress, down};

/// How long a question to one manager may take here.
pub const ASK_LIMIT: Duration = Duration::from_secs(5);

/// What is to be brought up.
#[derive(Debug, Clone)]
pub struct UpOptions {
    /// The directory of the cluster.
    pub dir: ClusterDir,
    /// Which nodes; see [`node_ids`].
    pub nodes: Vec<NodeId>,
    /// What is run for each.
    pub launcher: Launcher,
    /// The configuration for all of them, if not the usual one.
    pub config: Option<PathBuf>,
    /// How long until all sessions have to be valid.
    pub limit: Duration,
    /// If it fails, logs and other files of the managers stay, for a caller that examines them and removes
    /// the directory.
    pub keep_files: bool,
    /// Called now and then; once it returns true, everything begun is undone, and that is the error.
    pub stop: fn() -> bool,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpProgress {
    /// It runs already.
    AlreadyRunning {
        /// The node.
        node: NodeId,
        /// The process ID of its manager, if known.
        pid: Option<u32>,
    },
    /// Its process was started.
    Started {
        /// The node.
        node: NodeId,
        /// The process ID of its manager.
        pid: u32,
    },
    /// So many nodes have valid sessions with all others.
    Ready {
        /// The number of nodes that are ready.
        ready: usize,
        /// Of how many.
        of: usize,
    },
}

/// What came of it.
#[derive(Debug, Clone)]
pub struct UpReport {
    /// Nodes whose managers were started.
    pub started: Vec<NodeId>,
    /// Nodes that ran already: those asked for, and others of the cluster.
    pub already_running: Vec<NodeId>,
    /// Until all sessions were valid.
    pub took: Duration,
}

/// The ids of `count` nodes from `first` on (by default 4): in fours, without the broadcast group, 260
/// after 248.
pub fn node_ids(count: usize, first: Option<NodeId>) -> Result<Vec<NodeId>> {
    let start = match first {
        Some(first) => first,
        None => NodeId::nth(0).map_err(|_| NodeError::NoId)?,
    };
    let mut ids = Vec::with_capacity(count.min(4096));
    let mut plain = start.get();
    while ids.len() < count {
        let id =
            NodeId::new(plain).map_err(|bad| NodeError::Ids { count, first: start, why: bad.to_string() })?;
        ids.push(id);
        plain += 4;
        if plain == BROADCAST_NODE_ID {
            plain += 8;
        }
    }
    Ok(ids)
}

/// Starts what does not run yet, and waits until all sessions between all nodes of the cluster are valid. If
/// it fails, or this process ends before that, what it has started ends too.
pub fn up(options: &UpOptions, progress: &mut dyn FnMut(UpProgress)) -> Result<UpReport> {
    let began = Instant::now();
    let dir = &options.dir;
    // A mistake in it is reported once, here, and not by every manager.
    let settings = crate::config::load(options.config.as_deref())?;
    prepare(dir, &settings.sharing())?;
    remove_stale(dir)?;
    let mut already_running: Vec<_> = dir.nodes_with("sock")?;
    already_running.retain(|node| is_held(dir, *node) != Some(false));
    // Whatever goes wrong from here on, and whatever ends this process: what was begun does not stay.
    let mut begun = Begun::new(dir, options.keep_files);
    for node in &options.nodes {
        if (options.stop)() {
            return Err(NodeError::Stopped);
        }
        if is_held(dir, *node) == Some(true) {
            progress(UpProgress::AlreadyRunning { node: *node, pid: pid_in_file(dir, *node) });
            if !already_running.contains(node) {
                already_running.push(*node);
            }
            continue;
        }
        start(options, &mut begun, *node, progress)?;
    }
    let mut all: Vec<_> = begun.nodes().chain(already_running.iter().copied()).collect();
    all.sort_unstable();
    all.dedup();
    ready::wait(options, &all, &mut begun, began + options.limit, progress)?;
    let started: Vec<_> = begun.nodes().collect();
    already_running.retain(|node| !started.contains(node));
    begun.complete();
    Ok(UpReport { started, already_running, took: began.elapsed() })
}

fn start(
    options: &UpOptions,
    begun: &mut Begun<'_>,
    node: NodeId,
    progress: &mut dyn FnMut(UpProgress),
) -> Result<()> {
    let pid = begun.start(&options.launcher, node, crate::config::named(options.config.as_deref()))?;
    progress(UpProgress::Started { node, pid });
    Ok(())
}

/// Asks a manager for the state of its node.
pub fn status(dir: &ClusterDir, node: NodeId) -> Result<NodeStatus> {
    let mut client = BlockingClient::open(dir, node, "tieline status", false, ASK_LIMIT)?;
    status_of(&mut client, Request::Status, ASK_LIMIT)
}

/// Asks the manager of `node` for its state, by way of the manager of `via`, which is on this host. `limit`
/// is for that of `node`.
pub fn status_by_way_of(dir: &ClusterDir, via: NodeId, node: NodeId, limit: Duration) -> Result<NodeStatus> {
    let mut client = BlockingClient::open(dir, via, "tieline status", false, ASK_LIMIT)?;
    status_of(&mut client, Request::StatusOf { node }, limit)
}

fn status_of(client: &mut BlockingClient, request: Request, limit: Duration) -> Result<NodeStatus> {
    match client.ask(request, &[], limit)?.0 {
        Reply::Status(status) => Ok(*status),
        other => {
            let what = format!("it replied to the status request with {other:?}");
            let what = what.chars().take(200).collect();
            Err(node_client::ClientError::Protocol { node: client.info().node, what }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(ids: &[NodeId]) -> Vec<u32> {
        ids.iter().map(|id| id.get()).collect()
    }

    #[test]
    fn ids_are_given_out_in_fours_around_the_broadcast_group() {
        assert_eq!(plain(&node_ids(3, None).unwrap()), [4, 8, 12]);
        assert_eq!(plain(&node_ids(3, NodeId::new(244).ok()).unwrap()), [244, 248, 260]);
        let by_default: Vec<_> = (0..70).map(|index| NodeId::nth(index).unwrap()).collect();
        assert_eq!(node_ids(70, None).unwrap(), by_default);
        let text = node_ids(2, NodeId::new(16_384).ok()).unwrap_err().to_string();
        assert!(text.contains("cannot start 2 nodes from node 16384 on"), "{text}");
    }
}

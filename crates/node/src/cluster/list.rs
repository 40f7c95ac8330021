//! Lists clusters and their managers.

use proto::ids::NodeId;

use crate::error::Result;
use crate::lock::{is_held, pid_in_file};
use crate::runtime_dir::{ClusterDir, ClusterName, ConnectError, RuntimeDirError, RuntimeRoot};

/// How a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// Its manager runs.
    Running {
        /// Its process; unknown to users who may not read the lock file.
        pid: Option<u32>,
    },
    /// Its manager died and left its files.
    Dead,
}

/// One node of a cluster on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeEntry {
    /// The node.
    pub node: NodeId,
    /// The state of the node.
    pub state: NodeState,
}

/// One cluster on this machine.
#[derive(Debug, Clone)]
pub struct ClusterEntry {
    /// Its name.
    pub cluster: ClusterName,
    /// Where it is.
    pub dir: ClusterDir,
    /// Its nodes, ascending.
    pub nodes: Vec<NodeEntry>,
}

/// The nodes of a cluster, ascending; none if it does not run.
pub fn list_nodes(dir: &ClusterDir) -> Result<Vec<NodeEntry>> {
    dir.check_for_program()?;
    let mut nodes = dir.nodes_with("sock")?;
    nodes.extend(dir.nodes_with("lock")?);
    nodes.sort_unstable();
    nodes.dedup();
    Ok(nodes.into_iter().map(|node| NodeEntry { node, state: state_of(dir, node) }).collect())
}

fn state_of(dir: &ClusterDir, node: NodeId) -> NodeState {
    match is_held(dir, node) {
        Some(true) => NodeState::Running { pid: pid_in_file(dir, node) },
        Some(false) => NodeState::Dead,
        // Another user's cluster, opened to this one: a process that answers is there.
        None => match dir.open().ok().flatten().map(|open| open.connect(node)) {
            Some(Ok(_) | Err(ConnectError::System(rustix::io::Errno::AGAIN))) => {
                NodeState::Running { pid: None }
            }
            _ => NodeState::Dead,
        },
    }
}

/// All clusters below a runtime directory that this user may look into, by name.
pub fn list_clusters(root: &RuntimeRoot) -> Result<Vec<ClusterEntry>> {
    let entries = match std::fs::read_dir(&root.path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => {
            return Err(RuntimeDirError::Io { what: "read", path: root.path.clone(), source }.into());
        }
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut clusters = Vec::new();
    // What is no directory, or belongs to another user, is no cluster of this user: see [`shut_directories`].
    for cluster in names.filter_map(|name| ClusterName::new(&name).ok()) {
        let dir = ClusterDir::below(root, cluster.clone());
        let Ok(nodes) = list_nodes(&dir) else { continue };
        if !nodes.is_empty() {
            clusters.push(ClusterEntry { cluster, dir, nodes });
        }
    }
    clusters.sort_by(|a, b| a.cluster.cmp(&b.cluster));
    Ok(clusters)
}

/// Directories below a runtime directory that this user may not look into: there may be clusters in them.
pub fn shut_directories(root: &RuntimeRoot) -> Vec<ClusterName> {
    let entries = std::fs::read_dir(&root.path).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| ClusterName::new(entry.file_name().to_str()?).ok());
    let is_shut = |name: &ClusterName| {
        std::fs::read_dir(root.path.join(name.as_str()))
            .is_err_and(|error| error.kind() == std::io::ErrorKind::PermissionDenied)
    };
    let mut shut: Vec<_> = names.filter(is_shut).collect();
    shut.sort();
    shut
}

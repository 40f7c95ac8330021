//! Which cluster is tested.

use std::path::PathBuf;

use tieline::{Node, NodeId, NodeOptions};

/// A cluster on this machine, and the nodes of it that are meant.
#[derive(Debug, Clone)]
pub struct Target {
    /// Where its sockets are; `None`: the default of this user.
    pub runtime_dir: Option<PathBuf>,
    /// Its name; `None`: the default.
    pub cluster: Option<String>,
    /// Its nodes, ascending.
    pub nodes: Vec<NodeId>,
}

impl Target {
    /// Attaches to one of its nodes.
    pub fn attach(&self, node: NodeId, name: &str) -> tieline::Result<Node> {
        Node::attach_with(&NodeOptions {
            node: Some(node),
            cluster: self.cluster.clone(),
            runtime_dir: self.runtime_dir.clone(),
            name: Some(name.to_owned()),
        })
    }
}

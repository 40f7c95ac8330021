//! The cluster under test.

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

    /// Why nothing can be sent from node to node, if there are fewer than two: a test of that has neither
    /// passed nor failed.
    pub fn lacks_a_peer(&self) -> Option<String> {
        let there = match self.nodes.as_slice() {
            [] => "none responds".to_owned(),
            [only] => format!("there is only node {only}"),
            _ => return None,
        };
        Some(format!("needs two nodes, and {there}: start another one with `tieline node start --node ID`"))
    }

    /// Does something for every node, so many at the same time, and gives the results in the order of the
    /// nodes.
    pub(crate) fn on_nodes<T: Send>(&self, at_a_time: usize, work: impl Fn(NodeId) -> T + Sync) -> Vec<T> {
        self.nodes.chunks(at_a_time.max(1)).flat_map(|nodes| at_once(nodes, &work)).collect()
    }

    /// Does something for every node, at the same time, and gives the results in the order of the nodes.
    pub(crate) fn on_each_node<T: Send>(&self, work: impl Fn(NodeId) -> T + Sync) -> Vec<T> {
        at_once(&self.nodes, &work)
    }
}

fn at_once<T: Send>(nodes: &[NodeId], work: &(impl Fn(NodeId) -> T + Sync)) -> Vec<T> {
    if let [only] = nodes {
        return vec![work(*only)];
    }
    std::thread::scope(|scope| {
        let started: Vec<_> = nodes
            .iter()
            .map(|node| (*node, std::thread::Builder::new().spawn_scoped(scope, move || work(*node))))
            .collect();
        let finish = |(node, thread): (NodeId, std::io::Result<std::thread::ScopedJoinHandle<'_, T>>)| {
            match thread {
                // A panic of one is a panic of all: it is a mistake of this program.
                Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                // No thread to be had: then one after the other.
                Err(_) => work(node),
            }
        };
        started.into_iter().map(finish).collect()
    })
}

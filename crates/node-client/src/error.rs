//! Errors between a program and the manager of its node.

use std::path::PathBuf;
use std::time::Duration;

use proto::ids::NodeId;
use proto::wire::program::Refusal;
use proto::wire::{CodecError, PROTOCOL_VERSION};
use rustix::io::Errno;

use crate::runtime_dir::{ClusterName, RuntimeDirError};

/// A request to the node manager, or the attachment itself, failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The cluster is not running.
    #[error(
        "no node manager of cluster `{cluster}` runs here (searched {dir}): start one with `tieline up`, or name another \
         cluster (`tieline clusters` lists them) with --cluster or TIELINE_CLUSTER, or another directory with --runtime-dir or \
         TIELINE_RUNTIME_DIR"
    )]
    NoManager {
        /// The cluster.
        cluster: ClusterName,
        /// Where its managers would be found.
        dir: PathBuf,
    },
    /// The program did not say which node it belongs to.
    #[error(
        "cluster `{cluster}` has several nodes here ({}): select one with --node or TIELINE_NODE", list(.nodes)
    )]
    SeveralNodes {
        /// The cluster.
        cluster: ClusterName,
        /// Its nodes on this machine.
        nodes: Vec<NodeId>,
    },
    /// The cluster runs, but not this node.
    #[error("cluster `{cluster}` has no node {node} here (there are: {}): choose one of these, or start it with \
             `tieline node start --node {node}`", list(.nodes))]
    NoSuchNode {
        /// The cluster.
        cluster: ClusterName,
        /// The node.
        node: NodeId,
        /// Its nodes on this machine.
        nodes: Vec<NodeId>,
    },
    /// `TIELINE_NODE` is no node id.
    #[error("TIELINE_NODE: {0}")]
    BadNode(String),
    /// The runtime directory is not acceptable.
    #[error(transparent)]
    RuntimeDir(#[from] RuntimeDirError),
    /// This user may not attach.
    #[error(
        "this user may not attach to node {node} ({why}): run as the user of its manager, or let its \
             administrator add the user under [access] in the configuration"
    )]
    Denied {
        /// The node.
        node: NodeId,
        /// In the refuser's words.
        why: String,
    },
    /// Another process listens on the manager's socket.
    #[error(
        "{path}: user {uid} listens there, in a directory of user {owner}: that is not the cluster's manager; remove that socket, \
         or name another directory with TIELINE_RUNTIME_DIR"
    )]
    ForeignManager {
        /// The socket.
        path: PathBuf,
        /// Who listens.
        uid: u32,
        /// Whose directory it is.
        owner: u32,
    },
    /// Program and manager are of different versions.
    #[error(
        "the manager speaks version {theirs} of the control protocol, this program version {PROTOCOL_VERSION}: \
             install the same tieline on both sides"
    )]
    Version {
        /// The manager's.
        theirs: u16,
    },
    /// The manager, or the manager of the other node, refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// No answer in time.
    #[error("node {node}: its manager did not respond to {what} within {} (it is stopped or overloaded): see `tieline node status --node \
             {node}`; a stopped process continues with `kill -CONT PID`", seconds(*.limit))]
    TimedOut {
        /// Whose manager.
        node: NodeId,
        /// What was asked.
        what: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// The manager of this program's node is not there at the moment. What is connected continues working,
    /// and an attached program attaches again by itself.
    #[error("the manager of node {node} has ended ({why}): start it with `tieline node start --node {node}`")]
    ManagerGone {
        /// The node.
        node: NodeId,
        /// As far as known.
        why: String,
    },
    /// Used in a child of the process that attached.
    #[error(
        "this process is a fork of process {parent}, whose attachment it cannot use: attach again in the child"
    )]
    Forked {
        /// Who attached.
        parent: u32,
    },
    /// The attachment has been closed.
    #[error("the attachment to node {node} is closed: attach again")]
    Closed {
        /// The node.
        node: NodeId,
    },
    /// The manager broke the protocol.
    #[error(
        "invalid reply from the manager of node {node} ({what}): see with `tieline query` whether both are of the same version, and with \
         `ss -xlp` which program listens"
    )]
    Protocol {
        /// The node.
        node: NodeId,
        /// What it did.
        what: String,
    },
    /// What is asked does not fit into a message.
    #[error(
        "request cannot be sent: {0}: see with `tieline query` whether the manager is of the version of `tieline --version`"
    )]
    Codec(#[from] CodecError),
    /// The manager's state page is not usable.
    #[error("state page of node {node}: {source}")]
    Page {
        /// The node.
        node: NodeId,
        /// The error.
        source: link::LinkError,
    },
    /// The system refused something.
    #[error("cannot {what}: {errno}{}", hint(*.errno))]
    Io {
        /// What was tried.
        what: &'static str,
        /// The error.
        errno: Errno,
    },
}

/// Result of a request.
pub type Result<T> = std::result::Result<T, ClientError>;

/// Ids as people read them.
pub(crate) fn list(nodes: &[NodeId]) -> String {
    let names: Vec<_> = nodes.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// A limit of time as people read it.
pub(crate) fn seconds(limit: Duration) -> String {
    if limit.as_millis().is_multiple_of(1000) {
        format!("{} s", limit.as_secs())
    } else {
        format!("{} ms", limit.as_millis())
    }
}

fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::MFILE => ": this process has no descriptor left, raise the limit with `ulimit -n`",
        Errno::NFILE => ": the system has no descriptor left, raise fs.file-max",
        Errno::NOMEM => ": out of memory",
        Errno::TOOMANYREFS => {
            ": too many descriptors of this user are on their way, raise the limit with `ulimit -n`"
        }
        _ => "",
    }
}

/// For `map_err`: names what was tried.
pub(crate) fn io(what: &'static str) -> impl FnOnce(Errno) -> ClientError {
    move |errno| ClientError::Io { what, errno }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32) -> NodeId {
        NodeId::new(id).unwrap()
    }

    #[test]
    fn errors_name_thing_cause_and_next_step() {
        let cluster = ClusterName::new("lab").unwrap();
        let nodes = vec![node(4), node(8)];
        let errors: Vec<(ClientError, &[&str])> = vec![
            (
                ClientError::NoManager { cluster: cluster.clone(), dir: "/run/x".into() },
                &["`lab`", "/run/x", "tieline up", "TIELINE_CLUSTER"],
            ),
            (
                ClientError::SeveralNodes { cluster: cluster.clone(), nodes: nodes.clone() },
                &["`lab`", "4, 8", "TIELINE_NODE"],
            ),
            (
                ClientError::NoSuchNode { cluster, node: node(12), nodes },
                &["no node 12", "4, 8", "tieline node start"],
            ),
            (ClientError::Denied { node: node(4), why: "uid 7".into() }, &["node 4", "uid 7", "[access]"]),
            (ClientError::Version { theirs: 9 }, &["version 9", "install the same"]),
            (
                ClientError::TimedOut { node: node(8), what: "a probe", limit: Duration::from_secs(2) },
                &["node 8", "a probe", "within 2 s", "tieline node status --node 8"],
            ),
            (
                ClientError::ManagerGone { node: node(4), why: "closed".into() },
                &["node 4", "closed", "node start"],
            ),
            (ClientError::Forked { parent: 77 }, &["77", "attach again"]),
            (ClientError::Io { what: "connect", errno: Errno::MFILE }, &["connect", "ulimit -n"]),
        ];
        for (error, parts) in errors {
            let text = error.to_string();
            for part in parts {
                assert!(text.contains(part), "`{text}` lacks `{part}`");
            }
        }
    }
}

//! Why a node manager could not start, or a cluster could not be brought up or down.

use std::path::PathBuf;

use node_client::ClientError;
use node_client::copy_plan::PlanError;
use node_client::runtime_dir::RuntimeDirError;
use proto::ids::NodeId;

use crate::config::ConfigError;
use crate::lock::LockError;

/// A node manager, or the handling of a cluster, failed.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The runtime directory is not acceptable.
    #[error(transparent)]
    RuntimeDir(#[from] RuntimeDirError),
    /// The node has a manager already.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The plan of copies that the environment names is none.
    #[error(transparent)]
    CopyPlan(#[from] PlanError),
    /// Copies cannot be measured.
    #[error("copies cannot be measured: {0}: name a plan with TIELINE_COPY_PLAN (`table`, `libc` or a file)")]
    Measure(shm::Error),
    /// A manager did not do what was asked.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The state page cannot be made.
    #[error(
        "node {node}: its shared status memory cannot be created: {source}: check the memory limits (`ulimit -v`, the cgroup's)"
    )]
    Page {
        /// The node.
        node: NodeId,
        /// The error.
        source: link::LinkError,
    },
    /// Keys, certificates, tokens.
    #[error(transparent)]
    Trust(#[from] trust::TrustError),
    /// The address for other hosts cannot be had.
    #[error(
        "node {node} cannot listen for other hosts at {address}: {source}: stop the program that uses the port, or correct the address"
    )]
    Listen {
        /// Which node.
        node: NodeId,
        /// Where.
        address: std::net::SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// A rail has an address that leads other hosts nowhere.
    #[error(
        "node {node}: rail {rail} is {kind} address, and other hosts know the node at {own}: give each rail under [node] in the \
         configuration an address at which they reach it"
    )]
    Rail {
        /// Which node.
        node: NodeId,
        /// The address.
        rail: std::net::IpAddr,
        /// Of which kind it is.
        kind: &'static str,
        /// By which the others know the node.
        own: std::net::IpAddr,
    },
    /// No id was given.
    #[error("--node is missing: give the ID of the node, or set `id` under [node] in the configuration")]
    NoId,
    /// Ids cannot be given out.
    #[error("cannot start {count} nodes from node {first} on: {why}: start fewer nodes")]
    Ids {
        /// How many were wanted.
        count: usize,
        /// The first node.
        first: NodeId,
        /// What is wrong.
        why: String,
    },
    /// The system refused.
    #[error("cannot {what} {path}: {source}{}", hint(what, .source))]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// A manager that was just started has ended.
    #[error("the manager of node {node} ended at its start ({status}). Its last output:\n{log}")]
    DiedAtStart {
        /// The node.
        node: NodeId,
        /// Exit status or signal.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// The sessions did not become valid in time.
    #[error(
        "nodes that have not connected within {} s: {}; those that were started are stopped again: start fewer nodes, or try when the \
         machine is idle; logs of nodes that ran before are in {dir}", .seconds, waiting(.nodes)
    )]
    NotReady {
        /// How long was waited.
        seconds: u64,
        /// Who waits, and for whom (empty: does not respond yet).
        nodes: Vec<(NodeId, Vec<NodeId>)>,
        /// Where the logs are.
        dir: PathBuf,
    },
    /// The caller has requested it.
    #[error("interrupted before the cluster was up; the nodes that were started are stopped again")]
    Stopped,
    /// A manager that runs does not respond.
    #[error(
        "the manager of node {node}{} holds its lock but does not respond (it may be stopped): continue it with `kill -CONT`, or end it \
         with `tieline node stop --node {node}`{}",
        .pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default(),
        .pid.map(|pid| format!(" or `kill -KILL {pid}`")).unwrap_or_default()
    )]
    NotAnswering {
        /// The node.
        node: NodeId,
        /// The process ID of its manager, if known.
        pid: Option<u32>,
    },
    /// What a manager's life depends on is not understood.
    #[error("the environment variable TIELINE_LEASE: `{place}` is not `stdin`: unset it (it is for tests)")]
    Lease {
        /// The text.
        place: String,
    },
    /// Too few descriptors to serve anybody.
    #[error(
        "a node manager needs at least {wanted} file descriptors, and this process may have {limit} (RLIMIT_NOFILE): raise the \
         limit with `ulimit -n`"
    )]
    FewDescriptors {
        /// What it may have.
        limit: u64,
        /// What it needs.
        wanted: u64,
    },
    /// A manager could not be ended.
    #[error("the manager of node {node} (process {pid}) cannot be ended: {why}")]
    NotStopped {
        /// The node.
        node: NodeId,
        /// The process ID of its manager.
        pid: u32,
        /// The reason.
        why: String,
    },
}

impl NodeError {
    /// Whether the user's input (configuration, environment, options) is wrong, rather than the state of the
    /// system.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Config(_) | Self::CopyPlan(_) | Self::NoId | Self::Ids { .. } | Self::Lease { .. }
        )
    }
}

/// Result about managers and clusters.
pub type Result<T> = std::result::Result<T, NodeError>;

fn hint(what: &str, source: &std::io::Error) -> &'static str {
    match rustix::io::Errno::from_io_error(source) {
        // The kernel says the same of both.
        Some(rustix::io::Errno::MFILE) if what == "watch" => {
            ": this user has no inotify instance left, raise fs.inotify.max_user_instances with `sysctl -w`; or this process no \
             descriptor, raise the limit with `ulimit -n`"
        }
        Some(rustix::io::Errno::MFILE) => {
            ": this process has no descriptor left, raise the limit with `ulimit -n`"
        }
        Some(rustix::io::Errno::NOSPC) => ": the file system there has no space, or no file, left",
        _ => "",
    }
}

fn waiting(nodes: &[(NodeId, Vec<NodeId>)]) -> String {
    let one = |(node, missing): &(NodeId, Vec<NodeId>)| {
        if missing.is_empty() {
            return format!("{node} (does not respond)");
        }
        let names: Vec<_> = missing.iter().map(ToString::to_string).collect();
        format!("{node} (for {})", names.join(" "))
    };
    // Nine say as much as sixty.
    let mut parts: Vec<_> = nodes.iter().take(9).map(one).collect();
    if nodes.len() > 9 {
        parts.push(format!("and {} more", nodes.len() - 9));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_or_a_file_system_lacks_is_named() {
        let error = |errno: rustix::io::Errno| NodeError::Io {
            what: "watch",
            path: "/run/x".into(),
            source: errno.into(),
        };
        let full = error(rustix::io::Errno::MFILE).to_string();
        assert!(full.contains("ulimit -n") && full.contains("fs.inotify.max_user_instances"), "{full}");
        assert!(error(rustix::io::Errno::NOSPC).to_string().contains("no space"));
        let config = NodeError::Lease { place: "x".into() };
        assert!(config.is_usage() && !error(rustix::io::Errno::MFILE).is_usage());
    }

    #[test]
    fn a_cluster_that_is_not_ready_says_who_waits_for_whom() {
        let node = |id| NodeId::new(id).unwrap();
        let error = NodeError::NotReady {
            seconds: 5,
            nodes: vec![(node(4), vec![node(8), node(12)]), (node(8), vec![])],
            dir: "/run/x".into(),
        };
        let text = error.to_string();
        for part in ["5 s", "4 (for 8 12)", "8 (does not respond)", "/run/x"] {
            assert!(text.contains(part), "`{text}` lacks `{part}`");
        }
    }
}

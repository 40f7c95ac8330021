//! Why hosts in namespaces cannot be made, entered or ended.

use std::path::PathBuf;

use node::NodeError;
use node_client::runtime_dir::{ClusterName, RuntimeDirError};
use rustix::io::Errno;

use crate::plan::{HOSTS_MAX, HOSTS_MIN, RAILS_MAX};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum NamespacesError {
    /// Not root.
    #[error(
        "{what}: only root may do that, and this process runs as user {uid}: run it as root, for example with sudo"
    )]
    NotRoot {
        /// What was asked for.
        what: &'static str,
        /// Who asks.
        uid: u32,
    },
    /// Too few or too many.
    #[error("{count} hosts in namespaces cannot be created: give a number from {HOSTS_MIN} to {HOSTS_MAX}")]
    Count {
        /// How many were wanted.
        count: usize,
    },
    /// No link has so many rails.
    #[error("hosts cannot have {rails} rails: give a number from 1 to {RAILS_MAX}")]
    Rails {
        /// How many were wanted.
        rails: usize,
    },
    /// The kernel refuses a namespace.
    #[error("cannot create {what}: {source}{}", hint(*.source))]
    Namespace {
        /// Which.
        what: &'static str,
        /// The error.
        source: Errno,
    },
    /// The file system of a host.
    #[error("cannot {what} {path} in a host: {source}{}", hint(*.source))]
    Mount {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// The error.
        source: Errno,
    },
    /// iproute2 is missing.
    #[error(
        "the network of the hosts cannot be created: the program `{program}` is not there: install the package iproute2"
    )]
    NoIp {
        /// Which of its programs.
        program: &'static str,
    },
    /// It says no.
    #[error("the network of the hosts cannot be created: `{program}` says: {said}{}", ip_hint(.said))]
    Ip {
        /// Which of its programs.
        program: &'static str,
        /// Its words.
        said: String,
    },
    /// All ranges that are tried belong to the machine.
    #[error(
        "too few free subnets between {first} and {last} for {rails} {}: remove an address from an interface of this machine",
        if *rails == 1 { "rail" } else { "rails" }
    )]
    NoRange {
        /// As many are needed.
        rails: usize,
        /// The first that was tried.
        first: String,
        /// The last.
        last: String,
    },
    /// There are hosts.
    #[error(
        "cluster `{cluster}` has hosts in namespaces already (process {pid} holds them): end them with `tieline down`, or give the new \
         ones another name with --cluster"
    )]
    InUse {
        /// The cluster.
        cluster: ClusterName,
        /// The hub.
        pid: u32,
    },
    /// There are nodes that are no hosts.
    #[error(
        "cluster `{cluster}` has nodes on this machine already: end them with `tieline down`, or give the hosts another name with \
         --cluster"
    )]
    HasNodes {
        /// The cluster.
        cluster: ClusterName,
    },
    /// A file that the hosts would not see.
    #[error("{path} is not seen in the hosts, which have a {place} of their own: put it elsewhere")]
    Hidden {
        /// The file.
        path: PathBuf,
        /// Which directory hides it.
        place: &'static str,
    },
    /// What the hub or a host has said.
    #[error("{0}")]
    Said(String),
    /// The hub is gone.
    #[error(
        "the process that holds the hosts ended while they were started ({status}). Its last output:\n{log}"
    )]
    HubEnded {
        /// How it ended.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// Too slow.
    #[error(
        "the hosts did not connect within {seconds} s; they were ended again: start fewer hosts, or try when the machine is idle"
    )]
    NotReady {
        /// How long was waited.
        seconds: u64,
    },
    /// The caller wants no more.
    #[error("interrupted before the hosts were up; what was started was ended again")]
    Stopped,
    /// Nothing to enter.
    #[error(
        "cluster `{cluster}` has no hosts in namespaces here (searched {dir}): start them with `tieline up --hosts-in-namespaces 3`, or \
         name their cluster with --cluster"
    )]
    NotUp {
        /// The cluster.
        cluster: ClusterName,
        /// Its directory.
        dir: PathBuf,
    },
    /// Still being started.
    #[error("the hosts of cluster `{cluster}` are just being started: wait until `tieline up` has ended")]
    NotYet {
        /// The cluster.
        cluster: ClusterName,
    },
    /// Another name.
    #[error("there is no host `{name}`: the hosts are {}", .hosts.join(", "))]
    NoHost {
        /// What was given.
        name: String,
        /// What there is.
        hosts: Vec<String>,
    },
    /// Its first process is gone.
    #[error(
        "{name} has ended: its first process was killed: end the others with `tieline down`, and start all again"
    )]
    HostGone {
        /// Which.
        name: String,
    },
    /// It cannot be ended.
    #[error("the hosts cannot be ended: process {pid}, which holds them, does not end: {why}")]
    NotStopped {
        /// The hub.
        pid: u32,
        /// Why.
        why: String,
    },
    /// The file that says where the hosts are.
    #[error("{path} is not what `tieline up` has written there: {why}: end the hosts with `tieline down`")]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The system refused.
    #[error("cannot {what} {path}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// The runtime directory.
    #[error(transparent)]
    RuntimeDir(#[from] RuntimeDirError),
    /// Node managers.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// Keys and certificates.
    #[error(transparent)]
    Hosts(#[from] node::hosts::HostsError),
}

impl NamespacesError {
    /// Whether the user's input is wrong, rather than the state of the system.
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Count { .. } | Self::Hidden { .. } | Self::NoHost { .. } => true,
            Self::Node(error) => error.is_usage(),
            _ => false,
        }
    }

    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { what, path, source }
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, NamespacesError>;

fn hint(source: Errno) -> &'static str {
    match source {
        Errno::PERM => {
            ": this process lacks the capability CAP_SYS_ADMIN: in a container, start that with more rights (`--privileged`)"
        }
        Errno::NOSPC => {
            ": a limit of the kernel is reached: start fewer hosts, or raise max_*_namespaces and mount-max in /proc/sys/user and /proc/sys/fs"
        }
        Errno::NOMEM => ": not enough memory: start fewer hosts",
        Errno::AGAIN => {
            ": there may be no further process: start fewer hosts, or raise the limit (`ulimit -u`, pids.max of the control group)"
        }
        Errno::INVAL | Errno::NODEV | Errno::NOSYS => {
            ": this kernel was built without it: try another kernel"
        }
        _ => "",
    }
}

fn ip_hint(said: &str) -> &'static str {
    if said.contains("qdisc kind is unknown") || said.contains("Failed to find specified qdisc") {
        ": this kernel lacks token buckets: load its module `sch_tbf`, or leave --rate out"
    } else if said.contains("not supported") || said.contains("Unknown device type") {
        ": this kernel lacks bridges or pairs of interfaces: load its modules `bridge` and `veth`"
    } else if said.contains("Cannot allocate memory") || said.contains("No buffer space") {
        ": not enough memory: start fewer hosts"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_lacks_is_named_with_what_to_do() {
        let error = |source| NamespacesError::Namespace { what: "a network namespace", source }.to_string();
        for (errno, next) in [
            (Errno::PERM, "--privileged"),
            (Errno::NOSPC, "start fewer hosts, or raise"),
            (Errno::NOMEM, "not enough memory: start fewer hosts"),
            (Errno::AGAIN, "pids.max"),
            (Errno::INVAL, "another kernel"),
        ] {
            let text = error(errno);
            assert!(text.starts_with("cannot create a network namespace: ") && text.contains(next), "{text}");
        }
        for (said, next) in [
            ("RTNETLINK answers: Operation not supported", "`bridge` and `veth`"),
            ("Error: Specified qdisc kind is unknown.", "load its module `sch_tbf`, or leave --rate out"),
            ("RTNETLINK answers: Cannot allocate memory", "start fewer hosts"),
        ] {
            let error = NamespacesError::Ip { program: "tc", said: said.into() }.to_string();
            assert!(error.contains(said) && error.contains(next), "{error}");
        }
    }
}

//! Why a request is refused.

use serde::{Deserialize, Serialize};

use crate::ids::NodeId;

/// Refusals; each becomes an error that names the thing, the cause and the next step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The id is taken.
    #[error("{what} exists already on this node (owner: {owner}): choose another id or remove it first")]
    InUse {
        /// The object, in words.
        what: String,
        /// Name and pid of its owner.
        owner: String,
    },
    /// Nothing of this name.
    #[error("no {what} on node {node}: create it and make it available there first")]
    NotFound {
        /// The object, in words.
        what: String,
        /// Where it was looked for.
        node: NodeId,
    },
    /// It exists, but is not open to connections.
    #[error(
        "{what} on node {node} is not available: its owner has to make it available (set_available, SCISetSegmentAvailable); connect \
         with a time-out to wait for it"
    )]
    NotAvailable {
        /// The object, in words.
        what: String,
        /// The node.
        node: NodeId,
    },
    /// It exists, but its owner keeps it to itself.
    #[error(
        "{what} of node {node} is not shared with other programs of the node: its owner has to share it first"
    )]
    NotShared {
        /// The object, in words.
        what: String,
        /// The node.
        node: NodeId,
    },
    /// The uid may not.
    #[error("user {uid} may not {what}: ask its owner to share it with this user, or run as the same user")]
    Denied {
        /// What was tried.
        what: String,
        /// The user ID.
        uid: u32,
    },
    /// No session.
    #[error("node {node} is not reachable ({why}): check it with `tieline status`")]
    Unreachable {
        /// The node.
        node: NodeId,
        /// Why, as far as known.
        why: String,
    },
    /// Still connected.
    #[error(
        "{what} is still in use by {connections} {}: let them disconnect first, or remove it by force (`remove(true)`, \
         SCI_FLAG_FORCE_REMOVE)",
        if *.connections == 1 { "connection" } else { "connections" }
    )]
    Busy {
        /// The object, in words.
        what: String,
        /// The number of connections.
        connections: u32,
    },
    /// A limit of this node.
    #[error("{what}: the limit of {limit} is reached: raise it in the configuration, or release some")]
    Limit {
        /// The resource that is limited.
        what: String,
        /// How many there may be.
        limit: u64,
    },
    /// The request itself is wrong.
    #[error("request refused: {0}")]
    Invalid(String),
    /// Other version.
    #[error(
        "the other side uses version {theirs} of the control protocol, this node manager version {ours}: install the same tieline on both sides"
    )]
    Version {
        /// The program's, or the other manager's.
        theirs: u16,
        /// The manager's.
        ours: u16,
    },
    /// The owner has not read its messages; no further importer is announced to it meanwhile.
    #[error(
        "the program that owns {what} on node {node} does not read its events (it is stopped or overloaded): let it continue, then \
         connect again"
    )]
    OwnerBusy {
        /// What was to be connected.
        what: String,
        /// The node.
        node: NodeId,
    },
    /// The manager's process may not open more files.
    #[error(
        "the node manager has no file descriptor left{}: start it with a higher `ulimit -n` (LimitNOFILE= of a service), or \
         release some", .limit.map(|limit| format!(" (its limit is {limit})")).unwrap_or_default()
    )]
    NoDescriptors {
        /// How many it may have, where that is known.
        limit: Option<u64>,
    },
    /// It is on another host, and nothing carries its data there.
    #[error("{what} of node {node} cannot be reached: the node is on another host{}, and {why}", host_in_words(.host))]
    NoDataLink {
        /// What was to be connected.
        what: String,
        /// Where.
        node: NodeId,
        /// The host's name, if it is known.
        host: String,
        /// What is missing, and the next step.
        why: String,
    },
    /// Its configuration does not allow agents.
    #[error(
        "node {node} runs no agents for other hosts (`agents = false` under [manager] in its configuration): allow them there and restart \
         its manager, or run the command on that host"
    )]
    NoAgents {
        /// The node.
        node: NodeId,
    },
}

fn host_in_words(host: &str) -> String {
    if host.is_empty() { String::new() } else { format!(" (`{host}`)") }
}

//! Errors of the Rust API, with object, cause and next step.

use link::LinkError;
use node_client::ClientError;
use proto::ids::{BadNodeId, NodeId};
use proto::wire::program::LossReason;

/// An operation of the API failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node manager could not be reached, or refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The link refused.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Memory of this program could not be made.
    #[error(transparent)]
    Memory(#[from] shm::Error),
    /// A message queue refused.
    #[error(transparent)]
    Messages(#[from] message_queue::Error),
    /// A number that is no node id.
    #[error(transparent)]
    NodeId(#[from] BadNodeId),
    /// The other end is gone; mapped memory stays readable.
    #[error("{what} of node {node} is gone: {}: connect again once it is available again", why(*reason))]
    Lost {
        /// The object, in words.
        what: String,
        /// Of which node.
        node: NodeId,
        /// The reason.
        reason: LossReason,
    },
    /// It is on another host, and no link for data leads there.
    #[error("{what} of node {node} is on another host and cannot be reached: {why}")]
    NoDataLink {
        /// The object, in words.
        what: String,
        /// Of which node.
        node: NodeId,
        /// What is missing, with the next step.
        why: String,
    },
    /// The life cycle does not allow this now.
    #[error("{what} is {state}: {next_step}")]
    WrongState {
        /// The object, in words.
        what: String,
        /// The state.
        state: &'static str,
        /// What to do first.
        next_step: &'static str,
    },
    /// In use right now.
    #[error("{what} is in use: wait until it is done, or abort it")]
    Busy {
        /// The object, in words.
        what: String,
    },
    /// No room.
    #[error("{what}: the limit of {limit} is reached: release some first")]
    Limit {
        /// The resource that is limited.
        what: String,
        /// How many there may be.
        limit: u64,
    },
    /// The receiver does not keep up.
    #[error("{what} is full: its owner has not taken the earlier messages yet; try again later")]
    Full {
        /// The object, in words.
        what: String,
    },
    /// A message is longer than what it is for.
    #[error("{what}: a message of {len} bytes is longer than the limit of {limit} bytes: send a shorter one")]
    TooLong {
        /// The object, in words.
        what: String,
        /// The message.
        len: usize,
        /// The limit.
        limit: usize,
    },
    /// What was waited for did not happen.
    #[error(
        "{what}: timed out: nothing happened within the time given; see with `tieline status` whether the other node runs"
    )]
    TimedOut {
        /// What was waited for.
        what: String,
    },
    /// Another thread ended the wait.
    #[error(
        "{what}: the wait was cancelled by another thread of this program: wait again if that is still wanted"
    )]
    Cancelled {
        /// What was waited for.
        what: String,
    },
    /// Used in a forked child.
    #[error("{what} belongs to the parent process: attach again in the child")]
    Forked {
        /// The object, in words.
        what: String,
    },
    /// A thread could not be started.
    #[error(
        "no thread for the {what} could be started ({source}): check the limits on processes and memory (`ulimit -a`)"
    )]
    Thread {
        /// The purpose of the thread.
        what: &'static str,
        /// From the kernel.
        source: std::io::Error,
    },
    /// The kernel refused.
    #[error("{what} failed: {source}: see the limits of this process (`ulimit -a`)")]
    System {
        /// The object, in words.
        what: &'static str,
        /// From the kernel.
        source: std::io::Error,
    },
    /// The call itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// The other side broke a rule of shared memory.
    #[error(
        "{what} of node {node}: invalid control data in shared memory ({detail}), so it is not used any more: restart the program at the \
         other end, then connect again"
    )]
    Corrupt {
        /// The object, in words.
        what: String,
        /// Of which node.
        node: NodeId,
        /// The rule that was broken.
        detail: String,
    },
    /// Stopped for a reason that was returned once already.
    #[error("{what} failed earlier, and that call returned the cause: create a new one")]
    Failed {
        /// The object, in words.
        what: String,
    },
}

impl Error {
    /// Whether the manager could not be asked, which does not mean that a link failed.
    pub const fn is_of_own_manager(&self) -> bool {
        matches!(self, Self::Client(error) if !matches!(error, ClientError::Refused(_)))
    }
}

/// Result of the API.
pub type Result<T> = std::result::Result<T, Error>;

pub(crate) const fn why(reason: LossReason) -> &'static str {
    match reason {
        LossReason::Withdrawn => "its owner withdrew it",
        LossReason::Removed => "its owner removed it",
        LossReason::OwnerDied => "the program that owned it ended",
        LossReason::NodeLost => "its node or this one was stopped, or left the cluster",
    }
}

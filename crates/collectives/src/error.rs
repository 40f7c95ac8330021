//! What can go wrong.

use crate::signature::Signature;

/// Why a group could not be made, or why a call failed. After a failed call the group is unusable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A member has ended or closed its queue.
    #[error("rank {rank} is gone: its process has ended or closed the queue; make a group without it")]
    Gone {
        /// Which.
        rank: usize,
    },
    /// Another member's call failed, and it said so.
    #[error(
        "rank {rank} gave up this group: see the error that its own call returned, then make a new group"
    )]
    GivenUp {
        /// Who said so.
        rank: usize,
    },
    /// A member made another call.
    #[error(
        "rank {rank} called {theirs}, this member {own}: make the same calls in the same order on all members"
    )]
    Mismatch {
        /// Which.
        rank: usize,
        /// Its call.
        theirs: Signature,
        /// The call of this member.
        own: Signature,
    },
    /// A message has a tag of the group and comes from no group.
    #[error(
        "rank {rank} sent a message that no call of a group sends: use the same version of tieline on all members"
    )]
    Foreign {
        /// Who sent it.
        rank: usize,
    },
    /// The message queue could not send or receive.
    #[error("no exchange with rank {rank}: {error}")]
    Messages {
        /// The other member.
        rank: usize,
        /// What the queue said.
        error: message_queue::Error,
    },
    /// The call did not end in time.
    #[error("the time limit passed in a wait for rank {rank}: see what it does, then make a new group")]
    TimedOut {
        /// For whom this member waited.
        rank: usize,
    },
    /// A call of this group failed before, and its messages may still arrive.
    #[error("the group is unusable since a call failed: make a new group with another context")]
    Broken,
    /// No member has the rank of the root.
    #[error("there is no rank {root} in a group of {members} members: give a root below {members}")]
    NoRoot {
        /// The root that was given.
        root: usize,
        /// Members of the group.
        members: usize,
    },
    /// The lengths that one member gave do not fit each other.
    #[error("the buffer has {got_bytes} bytes and needs {needed_bytes}: give one block for each member")]
    Length {
        /// Length of the buffer.
        got_bytes: usize,
        /// Length that the call needs.
        needed_bytes: usize,
    },
    /// The queue's own name is not in the list of members.
    #[error("this queue is not among the members: add its name to the list")]
    NotMember,
    /// A name is in the list of members twice.
    #[error("ranks {first} and {second} have the same name: name each member once")]
    Twice {
        /// The first of the two.
        first: usize,
        /// The other.
        second: usize,
    },
    /// More members than a group can have.
    #[error("a group of {members} members is too large: use {} at most", crate::MEMBERS_MAX)]
    TooMany {
        /// Members that were given.
        members: usize,
    },
    /// The call was made with a queue that the group was not made with.
    #[error("this is not the queue that the group was made with: pass that one")]
    WrongQueue,
}

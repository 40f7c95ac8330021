//! What can go wrong.

use rustix::io::Errno;

use crate::matching::PeerId;

/// Why an operation failed, or was not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The receive was too short; it holds the beginning of the message.
    #[error(
        "the message of {message_bytes} bytes was cut off: the receive has room for {room_bytes}; post a larger one"
    )]
    Truncated {
        /// Length of the message.
        message_bytes: usize,
        /// Length of the receive.
        room_bytes: usize,
    },
    /// The peer has ended, or closed its end point.
    #[error(
        "peer {peer} is gone: its process has ended or closed the end point; start it again and use its new name"
    )]
    PeerGone {
        /// Which.
        peer: PeerId,
    },
    /// The peer does what no end point does.
    #[error(
        "peer {peer} is wrong or hostile ({what}): nothing more is exchanged with it; restart its program"
    )]
    PeerWrong {
        /// Which.
        peer: PeerId,
        /// What it did.
        what: &'static str,
    },
    /// No number of a peer.
    #[error("there is no peer {peer}: use a number that the name of an end point was given")]
    NoSuchPeer {
        /// The number.
        peer: PeerId,
    },
    /// Nothing can be begun now.
    #[error("peer {peer} has no room now: try again after progress")]
    NotNow {
        /// Which.
        peer: PeerId,
    },
    /// The receive was cancelled.
    #[error("the receive was cancelled before a message came: nothing was received")]
    Cancelled,
    /// The request is none, or its end was already told.
    #[error("there is no such request: its end was told before; use each request once")]
    NoSuchRequest,
    /// A limit of this machine or of the settings.
    #[error("no way to peer {peer} could be made ({errno}): raise the limit of memory or descriptors")]
    NoWay {
        /// Which.
        peer: PeerId,
        /// The kernel's reason.
        errno: Errno,
    },
    /// The end point could not be made.
    #[error("the end point could not be made ({errno}): see the limits of memory, descriptors and threads")]
    NoEndpoint {
        /// The kernel's reason.
        errno: Errno,
    },
    /// A setting is out of its range.
    #[error("{name} {value}: that is out of its range; give a number from {least} to {most}")]
    Setting {
        /// Which.
        name: &'static str,
        /// What was given.
        value: usize,
        /// Least that it may be.
        least: usize,
        /// Most that it may be.
        most: usize,
    },
    /// What was waited for did not happen in time.
    #[error("the wait has reached its time limit: the operation goes on; wait again or cancel it")]
    TimedOut,
}

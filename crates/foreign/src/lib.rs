//! Descriptors that other users send: closes them in separate threads, or refuses them.
//!
//! **What it is for.** Closing a descriptor may sleep for as long as its sender likes: a TCP socket that
//! lingers, a file of a file system that its sender serves, a UNIX socket in whose queue such a one waits. It
//! sleeps in whichever thread drops the last reference: by `close`, by the end of a connection with unread
//! messages, or in `recvmsg` when what came along finds no room. A [`Foreign`] descriptor is therefore closed
//! by a [`Closer`], in a thread of its sender's user. [`refuse_descriptors`] keeps them out of a socket where
//! the kernel can (Linux 6.16).
//!
//! **What it must never do.** Close a descriptor of another user in the thread that drops it; give one user
//! the threads, or without end the descriptors, that others need.
//!
//! **Where to start reading.** [`Closer`].
#![forbid(unsafe_code)]

mod closer;
mod held;
mod receive;
pub mod trial;

use std::os::fd::{AsFd, OwnedFd};

pub use closer::{Closer, Load, MOST_THREADS, MOST_WAITING};
pub use held::Foreign;
pub use receive::{Inbox, Looked};

/// Names what tests have this process do without, separated by commas: `passrights`, `peerpidfd`, `acl`.
pub const ENV_WITHOUT: &str = "TIELINE_TEST_WITHOUT";

/// Most descriptors that a message can carry (SCM_MAX_FD in the kernel). A receiver with less room has the
/// kernel close the others, in the receiving thread.
pub const MOST_IN_MESSAGE: usize = 253;

/// Whether a test wants this process to do without something that the system has.
#[must_use]
pub fn is_without(what: &str) -> bool {
    std::env::var(ENV_WITHOUT).is_ok_and(|list| list.split(',').any(|word| word == what))
}

/// From now on the kernel refuses messages with descriptors to this UNIX socket (EPERM for the sender), or
/// takes them again. What is accepted by a listening socket is born as that is. False: this kernel can't
/// (before Linux 6.16).
pub fn refuse_descriptors(socket: impl AsFd, refuse: bool) -> bool {
    !is_without("passrights") && shm::socket::refuse_descriptors(socket.as_fd(), refuse).is_ok()
}

/// The user at the other end of a connected UNIX socket; the largest number if that can't be known.
pub fn peer_uid(socket: impl AsFd) -> u32 {
    shm::socket::peer(socket.as_fd()).map_or(u32::MAX, |peer| peer.uid)
}

/// A descriptor of the process at the other end of a connected UNIX socket, which can't be another's. `None`:
/// this kernel can't (before Linux 6.5), or the process is gone.
pub fn peer_process(socket: impl AsFd) -> Option<OwnedFd> {
    if is_without("peerpidfd") {
        return None;
    }
    shm::socket::peer_process(socket.as_fd()).ok()
}

//! How two end points find each other, and get the two ends of a lane.
//!
//! The engine only knows the trait [`Meeting`]. [`Datagrams`] meets others of this machine; crate `tieline`
//! has one that meets those of other hosts as well.

mod datagrams;
mod message;

use std::sync::Arc;

use rustix::io::Errno;
use shm::process::PidFd;
use shm::sync::AtomicU32;

use crate::lane::{Inlet, Outlet};
use crate::name::Name;
pub use datagrams::Datagrams;

/// Why a peer was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAsked {
    /// Try again later.
    NotNow,
    /// There is no such end point (any more).
    Nobody,
    /// Memory or descriptors are missing.
    Failed(Errno),
}

/// What has become known of a peer.
#[derive(Debug)]
pub enum Arrival<O, I> {
    /// Its messages come through this.
    Inlet {
        /// The peer.
        name: Name,
        /// Its process, if that is of this machine and known for certain.
        process: Option<PidFd>,
        /// The end of the lane.
        inlet: I,
    },
    /// It takes our messages.
    Outlet {
        /// The peer.
        name: Name,
        /// Its process.
        process: Option<PidFd>,
        /// The end of the lane.
        outlet: O,
    },
    /// It answered with something that is no end of a lane.
    Nonsense {
        /// The peer.
        name: Name,
    },
    /// It has no memory or descriptors for a lane at present: to be asked, or invited, again.
    NotYet {
        /// The peer.
        name: Name,
        /// Whether it was asked; else it was invited.
        is_ring: bool,
    },
    /// Its answer came, and this process had no descriptors for it.
    Failed {
        /// The peer.
        name: Name,
        /// What is missing.
        errno: Errno,
    },
}

/// Finds peers by their names.
pub trait Meeting {
    /// What sends to a peer.
    type Outlet: Outlet;
    /// What receives from a peer.
    type Inlet: Inlet;

    /// The name under which this end point is found.
    fn name(&self) -> Name;

    /// Asks a peer for a lane to it; the answer is an arrival. Does not wait.
    ///
    /// # Errors
    /// [`NotAsked`].
    fn ask(&mut self, peer: &Name) -> Result<(), NotAsked>;

    /// Gives a peer a lane to here, although its program makes no progress; our end is an arrival. The peer
    /// has its end among its arrivals before we have ours among ours. Does not wait.
    ///
    /// # Errors
    /// [`NotAsked`].
    fn invite(&mut self, peer: &Name) -> Result<(), NotAsked>;

    /// Whether the peer's end point is still there, as far as can be told.
    fn is_there(&self, peer: &Name) -> bool;

    /// Whether a peer has ended that nothing was exchanged with yet. Only for peers that are known to have
    /// been there: others may still come.
    fn has_ended(&self, peer: &Name) -> bool {
        let _ = peer;
        false
    }

    /// Whether something has arrived. Asked at each turn, so it must be cheap.
    fn has_arrivals(&self) -> bool;

    /// A word that is 0 while nothing has arrived, and whose sleepers are woken then; `None` if nobody wakes.
    fn arrivals_word(&self) -> Option<&AtomicU32>;

    /// The same word, for who sleeps without this; `None` if nobody wakes.
    fn arrivals_handle(&self) -> Option<Arc<AtomicU32>> {
        None
    }

    /// Whether something may arrive, or be sent by a peer, for which nobody wakes: then no sleep is long.
    fn has_silent_peers(&self) -> bool {
        false
    }

    /// Takes what has arrived.
    fn arrivals(&mut self) -> Vec<Arrival<Self::Outlet, Self::Inlet>>;
}

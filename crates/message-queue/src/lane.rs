//! What carries records from one end point to another, in their order and each once.
//!
//! On one machine this is a ring in shared memory ([`ring`]); crate `tieline` has one to other hosts. A lane
//! never waits; it reports that there is no room, or that the other side is wrong.

mod ring;

use std::fmt::Debug;

use shm::doorbell::{Signal, Waiter};
use shm::window::Window;

/// Why a record was not carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneError {
    /// There is no room now; nothing was sent.
    Full,
    /// The lane never takes a record of that size.
    TooLong,
    /// The other side is wrong or hostile: the lane is finished.
    Broken(&'static str),
}

/// What a record may take besides its bytes.
pub const RECORD_BYTES: usize = 72;

/// The end of a lane that sends.
pub trait Outlet: Debug {
    /// Sends a record of `len` bytes, which `fill` writes in place, all of them.
    ///
    /// # Errors
    /// [`LaneError`]; then `fill` was not called.
    fn send(&mut self, len: usize, fill: impl FnOnce(&Window<'_>)) -> Result<(), LaneError>;

    /// Whether records of so many bytes find room one after the other, each of which counts
    /// [`RECORD_BYTES`] more. If so, they do find it when they are sent next.
    ///
    /// # Errors
    /// [`LaneError`].
    fn find_room(&mut self, bytes: usize) -> Result<(), LaneError>;

    /// Says to the other side that nothing comes behind what was sent. Not needed where the other side finds
    /// that out by itself.
    fn close(&self) {}

    /// Whether the other side has ended, and takes nothing more. The memory that it has offered stays as it
    /// is.
    fn has_stopped(&self) -> bool {
        false
    }

    /// Whether the other side has ended and uses memory otherwise that it has offered. If not, what was read
    /// of that before this call was read in time.
    fn is_closed(&self) -> bool {
        false
    }

    /// Whether the other side goes on and uses memory otherwise that it has offered. If not, what was read of
    /// that before this call was read in time.
    fn has_taken_back(&self) -> bool {
        false
    }

    /// Longest record that it takes, in bytes.
    fn max_record_bytes(&self) -> usize;

    /// Memory that the lane takes on this side, in bytes.
    fn memory_bytes(&self) -> usize;

    /// Whether the other side has all that was sent, so that this process may end: asked again and again
    /// before the end point is closed. Also if the other side is gone.
    fn has_arrived(&mut self) -> bool {
        // In memory that both share it is there at once.
        true
    }
}

/// What was found at the end of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<R> {
    /// No record.
    Nothing,
    /// A record that stays where it is.
    Left,
    /// A record that was taken.
    Taken(R),
}

/// The end of a lane that receives.
pub trait Inlet: Debug {
    /// Shows the next record to `look`, and takes it if that returns something.
    ///
    /// The other side may change the bytes meanwhile if it is hostile: what is checked is copied first.
    ///
    /// # Errors
    /// [`LaneError::Broken`].
    fn take_if<R>(&mut self, look: impl FnOnce(&Window<'_>) -> Option<R>) -> Result<Found<R>, LaneError>;

    /// Whether another record is known to be there, without a look that would cost something.
    fn knows_more(&self) -> bool;

    /// Whether a look may well find another record, if the last ones came close behind each other.
    fn expects_more(&self) -> bool;

    /// Whether there is no record now.
    fn is_empty(&self) -> bool;

    /// For sleeping until the next record comes; `None` if the other side wakes nobody.
    fn waiter(&self) -> Option<Waiter<'_>>;

    /// Says to the other side that this one ends, takes no more, and uses memory otherwise that it has
    /// offered. Not needed where the other side finds that out by itself.
    fn close(&self) {}

    /// The same, but for the memory: that stays as it is.
    fn stop(&self) {}

    /// Whether the other side has said that it ends: what it has sent is there by then.
    fn is_closed(&self) -> bool {
        false
    }

    /// Says to the other side that this one uses memory otherwise that it has offered, and sends what the
    /// other side asks for.
    fn take_back(&self) {}

    /// The word that the other side changes when it rings, for who sleeps without this end; `None` if there
    /// is none, or it cannot be had now.
    fn signal(&self) -> Option<Signal> {
        None
    }

    /// Memory that the lane takes on this side, in bytes.
    fn memory_bytes(&self) -> usize;
}

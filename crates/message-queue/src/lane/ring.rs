//! The lane between two processes of one machine: a record ring.

use shm::doorbell::{Signal, Waiter};
use shm::ring::record::{Claim, Consumer, Producer};
use shm::ring::{PopError, PushError};
use shm::window::Window;

use super::{Found, Inlet, LaneError, Outlet};

/// After a record of so many bytes the lines of another one are asked for: the next is often as long, and the
/// receiver is busy with this one. Shorter ones find theirs owned by what a ring does for itself.
const OWN_AHEAD_FROM: usize = 512;
/// No more than that is asked for: a first-level cache has to hold it.
const OWN_AHEAD_MAX: usize = 16 << 10;

impl Outlet for Box<Producer> {
    #[inline]
    fn send(&mut self, len: usize, fill: impl FnOnce(&Window<'_>)) -> Result<(), LaneError> {
        self.push_with(len, fill).map_err(lane_error)?;
        self.ring_once();
        if len >= OWN_AHEAD_FROM {
            self.own_ahead(len.min(OWN_AHEAD_MAX));
        }
        Ok(())
    }

    fn find_room(&mut self, bytes: usize) -> Result<(), LaneError> {
        // One record of that length lies in one piece. Others that follow each other in its place take no
        // more lines: each rounds up to one more, and that is counted.
        self.reserve(bytes).map(Claim::discard).map_err(lane_error)
    }

    fn close(&self) {
        Producer::close(self);
    }

    fn has_stopped(&self) -> bool {
        Producer::has_stopped(self)
    }

    fn is_closed(&self) -> bool {
        Producer::is_closed(self)
    }

    fn has_taken_back(&self) -> bool {
        Producer::has_taken_back(self)
    }

    fn max_record_bytes(&self) -> usize {
        Producer::max_record_bytes(self)
    }

    fn memory_bytes(&self) -> usize {
        self.region().size_bytes()
    }
}

fn lane_error(error: PushError) -> LaneError {
    match error {
        PushError::Full => LaneError::Full,
        PushError::TooLong { .. } => LaneError::TooLong,
        PushError::Corrupt { what } => LaneError::Broken(what),
    }
}

impl Inlet for Box<Consumer> {
    #[inline]
    fn take_if<R>(&mut self, look: impl FnOnce(&Window<'_>) -> Option<R>) -> Result<Found<R>, LaneError> {
        match self.pop_if(look) {
            Ok(None) => Ok(Found::Nothing),
            Ok(Some(None)) => Ok(Found::Left),
            Ok(Some(Some(result))) => Ok(Found::Taken(result)),
            Err(PopError::Corrupt { what }) => Err(LaneError::Broken(what)),
            Err(PopError::TooSmall { .. }) => Err(LaneError::Broken("a record of another size")),
        }
    }

    #[inline]
    fn knows_more(&self) -> bool {
        Consumer::knows_more(self)
    }

    #[inline]
    fn expects_more(&self) -> bool {
        self.is_at_end_of_line()
    }

    fn is_empty(&self) -> bool {
        Consumer::is_empty(self)
    }

    fn waiter(&self) -> Option<Waiter<'_>> {
        Some(Consumer::waiter(self))
    }

    fn close(&self) {
        Consumer::close(self);
    }

    fn stop(&self) {
        Consumer::stop(self);
    }

    fn is_closed(&self) -> bool {
        Consumer::is_closed(self)
    }

    fn take_back(&self) {
        Consumer::take_back(self);
    }

    fn signal(&self) -> Option<Signal> {
        Consumer::signal(self).ok()
    }

    fn memory_bytes(&self) -> usize {
        self.region().size_bytes()
    }
}

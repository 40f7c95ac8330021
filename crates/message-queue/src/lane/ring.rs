//! The lane between two processes of one machine: a record ring.

use shm::ring::record::{Consumer, Producer};
use shm::ring::{PopError, PushError};
use shm::window::Window;

use super::{Found, Inlet, LaneError, Outlet};

impl Outlet for Box<Producer> {
    #[inline]
    fn send(&mut self, len: usize, fill: impl FnOnce(&Window<'_>)) -> Result<(), LaneError> {
        self.push_with(len, fill).map_err(|error| match error {
            PushError::Full => LaneError::Full,
            PushError::TooLong { .. } => LaneError::TooLong,
            PushError::Corrupt { what } => LaneError::Broken(what),
        })
    }

    fn max_record_bytes(&self) -> usize {
        Producer::max_record_bytes(self)
    }

    fn memory_bytes(&self) -> usize {
        self.region().size_bytes()
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

    fn memory_bytes(&self) -> usize {
        self.region().size_bytes()
    }
}

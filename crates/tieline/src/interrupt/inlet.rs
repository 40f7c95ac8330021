//! Puts messages for a data interrupt of this program into its ring that come from another host.

use ofi::Delivery;
use shm::doorbell::{Rang, Ringer};
use shm::ring::many::{ClaimError, Producer};

use super::latch::Latch;

/// Enters messages of other hosts, and wakes the owner.
#[derive(Debug)]
pub(crate) struct Inlet {
    producer: Producer,
    pub(super) latch: Option<Latch>,
}

impl Inlet {
    pub(super) fn new(producer: Producer, latch: Option<Latch>) -> Self {
        Self { producer, latch }
    }

    /// Longest message in bytes.
    pub(crate) fn message_bytes(&self) -> usize {
        self.producer.slot_bytes()
    }

    pub(super) fn ringer(&self) -> Ringer<'_> {
        self.producer.ringer()
    }

    /// Enters a message of another host. Never waits: a thread of the link calls it.
    pub(crate) fn take(&self, message: &[u8]) -> Delivery {
        match self.producer.send(message) {
            Ok(()) => {}
            Err(ClaimError::Full) => return Delivery::Full,
            Err(ClaimError::TooLong { .. }) => return Delivery::TooLong,
            Err(ClaimError::Lost | ClaimError::Corrupt { .. }) => return Delivery::Broken,
        }
        if self.ringer().ring_if_armed() == Rang::Eventfd
            && let Some(latch) = &self.latch
        {
            // The message is there, and found by the next look, if the descriptor is broken.
            drop(latch.ring());
        }
        Delivery::Taken
    }
}

//! The end that receives.

use super::producer::{self, Producer};
use super::slots;
use super::taker::{Next, Taker};
use super::{Popped, ProducerId};
use crate::doorbell::Waiter;
use crate::process::DeadProof;
use crate::region::MapAccess;
use crate::ring::PopError;
use crate::ring::ends::{self, What, word};
use crate::ring::mapped::Mapped;
use crate::ring::words::Words;
use crate::window::Window;
use crate::{Error, Result};
use rustix::fd::BorrowedFd;

/// Most slots that a ring can have.
pub(super) const MAX_SLOTS: u64 = 1 << 20;
/// Largest payload of a slot.
pub(super) const MAX_SLOT_BYTES: usize = 1 << 20;

/// Up to this size messages are copied word by word.
const SHORT_MAX_BYTES: usize = 64;

/// The end that receives. One thread at a time; move it where it is needed.
#[derive(Debug)]
pub struct Consumer {
    taker: Taker<Mapped>,
    own: Mapped,
}

impl Consumer {
    /// Makes a ring of at least `slots` slots (rounded up to a power of two, from 2 to 2^20) for messages of
    /// up to `slot_bytes` (at most 1 MiB). With 48, 112, 176, … bytes no memory is lost to alignment.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above these limits, and as [`crate::region::Region::create`].
    pub fn create(slots: usize, slot_bytes: usize) -> Result<Self> {
        let count = (slots as u64).clamp(2, MAX_SLOTS + 1).next_power_of_two();
        let size = slots::words(count, slot_bytes.min(MAX_SLOT_BYTES)).filter(|_| count <= MAX_SLOTS);
        let (Some(words), true) = (size, slot_bytes <= MAX_SLOT_BYTES) else {
            let available_bytes = MAX_SLOT_BYTES.saturating_mul(MAX_SLOTS as usize);
            let size_bytes = slots.saturating_mul(slot_bytes);
            return Err(Error::TooLarge { size_bytes, available_bytes, limit: "2^20 slots of 2^20 bytes" });
        };
        // The row of words begins in the head, at the tail.
        let data_bytes = (words - slots::FIRST_SLOT).saturating_mul(8);
        let shared = ends::create(What::ManySlots, count, slot_bytes as u64, data_bytes, true)?;
        let own = ends::create(What::ManyConsumer, count, slot_bytes as u64, 0, false)?;
        let row = producer::row(shared, count, slot_bytes as u64)?;
        row.set_up();
        Ok(Self { taker: Taker::new(row), own: ends::count_row(own)? })
    }

    /// The descriptor of the slots, for producers, which may write there.
    #[must_use]
    pub fn slots_fd(&self) -> BorrowedFd<'_> {
        self.taker.slots().data().region().fd()
    }

    /// The descriptor of the consumer's words, for producers, which can only read it.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.own.region().fd()
    }

    /// A producer in this process, for its other threads.
    ///
    /// # Errors
    /// As [`Producer::connect`].
    pub fn add_local(&self, id: ProducerId) -> Result<Producer> {
        Producer::connect(ends::duplicate(self.slots_fd())?, ends::duplicate(self.fd())?, id)
    }

    /// Takes the next message into `buffer`: its length and sender.
    ///
    /// # Errors
    /// [`PopError::TooSmall`]: the message stays where it is. [`PopError::Corrupt`]: a producer is wrong or
    /// hostile, and this ring is finished.
    #[inline]
    pub fn pop_into(&mut self, buffer: &mut [u8]) -> core::result::Result<Popped<usize>, PopError> {
        match self.taker.next()? {
            Next::Empty => Ok(Popped::Empty),
            Next::Pending(owner) => Ok(Popped::Pending(owner)),
            Next::Message { word, len, owner } => {
                let buffer_bytes = buffer.len();
                let Some(destination) = buffer.get_mut(..len) else {
                    return Err(PopError::TooSmall { record_bytes: len, buffer_bytes });
                };
                if len <= SHORT_MAX_BYTES {
                    self.taker.slots().data().read_short(word, destination);
                } else {
                    self.taker.slots().data().read_long(word, destination);
                }
                self.taker.release();
                Ok(Popped::Taken { value: len, producer: owner })
            }
        }
    }

    /// Takes the next message by showing it to `look` where it lies. Producers can still change it: copy out
    /// what is checked.
    ///
    /// # Errors
    /// [`PopError::Corrupt`].
    #[inline]
    pub fn pop_with<R>(
        &mut self,
        look: impl FnOnce(&Window<'_>, ProducerId) -> R,
    ) -> core::result::Result<Popped<R>, PopError> {
        match self.taker.next()? {
            Next::Empty => Ok(Popped::Empty),
            Next::Pending(owner) => Ok(Popped::Pending(owner)),
            Next::Message { word, len, owner } => {
                let value = look(&self.taker.slots().data().window(word, len, MapAccess::ReadOnly), owner);
                self.taker.release();
                Ok(Popped::Taken { value, producer: owner })
            }
        }
    }

    /// Throws away all claims of a producer whose process is proven to have ended: how many. Its committed
    /// messages stay.
    ///
    /// The caller vouches that the proof is of the process that had this id. Afterwards the id may be given
    /// out again.
    pub fn discard_claims(&mut self, _proof: &DeadProof, producer: ProducerId) -> u64 {
        self.taker.discard_all_of(producer)
    }

    /// Whether there is nothing to take now; a claim that is not committed is nothing. False also if the ring
    /// is found to be broken, so that the next pop says so.
    ///
    /// Look at this after arming [`Consumer::waiter`], whose fence pairs with the one of the producers'
    /// ringing.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taker.is_empty()
    }

    /// For sleeping until a message comes: producers have to ring [`Producer::ringer`].
    ///
    /// The death of a producer rings nothing: a process that watches its process must end the wait.
    #[inline]
    #[must_use]
    pub fn waiter(&self) -> Waiter<'_> {
        Waiter::new(self.taker.slots().data().head_u32(word::SIGNAL), self.own.head_u32(word::ARMED))
    }
}

/// A consumer and a producer with id 0 in this process, for threads and for tests; more with
/// [`Consumer::add_local`].
///
/// # Errors
/// As [`Consumer::create`], [`Producer::connect`].
pub fn pair(slots: usize, slot_bytes: usize) -> Result<(Consumer, Producer)> {
    let consumer = Consumer::create(slots, slot_bytes)?;
    let producer = consumer.add_local(0)?;
    Ok((consumer, producer))
}

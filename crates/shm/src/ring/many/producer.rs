//! One of the ends that send.

use super::slots::{self, Slots};
use super::{ClaimError, ProducerId};
use crate::doorbell::Ringer;
use crate::region::{MapAccess, Region};
use crate::ring::ends::{self, What, word};
use crate::ring::mapped::Mapped;
use crate::ring::words::Words;
use crate::window::Window;
use crate::{Error, Result};
use core::mem::ManuallyDrop;
use rustix::fd::OwnedFd;

/// One of the ends that send. Several threads may use it at once.
#[derive(Debug)]
pub struct Producer {
    slots: Slots<Mapped>,
    consumer: Mapped,
    id: ProducerId,
}

impl Producer {
    /// Connects as producer `id` with the descriptors of [`super::Consumer::slots_fd`] and
    /// [`super::Consumer::fd`].
    ///
    /// # Errors
    /// [`Error::Corrupt`] if they are not those regions or say impossible things, and as [`Region::open`].
    pub fn connect(slots: OwnedFd, consumer: OwnedFd, id: ProducerId) -> Result<Self> {
        // The sizes are taken from the region that only the consumer can write.
        let (theirs, count, slot_bytes) = ends::open(consumer, What::ManyConsumer, MapAccess::ReadOnly)?;
        let (shared, ..) = ends::open(slots, What::ManySlots, MapAccess::ReadWrite)?;
        Ok(Self { slots: row(shared, count, slot_bytes)?, consumer: ends::count_row(theirs)?, id })
    }

    /// Takes a slot, to be filled in place and then committed or discarded.
    ///
    /// # Errors
    /// [`ClaimError::Full`], [`ClaimError::Corrupt`].
    #[inline]
    pub fn claim(&self) -> core::result::Result<Claim<'_>, ClaimError> {
        Ok(Claim { position: self.slots.claim(self.id)?, producer: self })
    }

    /// Sends one message.
    ///
    /// # Errors
    /// [`ClaimError`]; nothing was sent.
    #[inline]
    pub fn send(&self, message: &[u8]) -> core::result::Result<(), ClaimError> {
        self.check_length(message.len())?;
        let claim = self.claim()?;
        let payload = self.slots.payload(claim.position);
        if message.len() <= SHORT_MAX_BYTES {
            self.slots.data().write_short(payload, message);
        } else {
            self.slots.data().write_long(payload, message);
        }
        claim.commit(message.len())
    }

    /// Largest message in bytes.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        self.slots.slot_bytes()
    }

    /// This producer's id.
    #[must_use]
    pub fn id(&self) -> ProducerId {
        self.id
    }

    /// Wakes the consumer: call it after a commit, and after a discard too, behind which other messages may
    /// wait.
    #[inline]
    #[must_use]
    pub fn ringer(&self) -> Ringer<'_> {
        Ringer::new(self.slots.data().head_u32(word::SIGNAL), self.consumer.head_u32(word::ARMED))
    }

    /// The slots' region: all words that this side can write.
    #[must_use]
    pub fn region(&self) -> &Region {
        self.slots.data().region()
    }

    fn check_length(&self, len_bytes: usize) -> core::result::Result<(), ClaimError> {
        let slot_bytes = self.slots.slot_bytes();
        if len_bytes <= slot_bytes { Ok(()) } else { Err(ClaimError::TooLong { len_bytes, slot_bytes }) }
    }
}

/// Up to this size messages are copied word by word.
const SHORT_MAX_BYTES: usize = 64;

/// The slots of a region; the sizes are not yet believed.
pub(super) fn row(region: Region, count: u64, slot_bytes: u64) -> Result<Slots<Mapped>> {
    let corrupt = Error::Corrupt { what: "slots of an impossible number or size" };
    if !count.is_power_of_two() || !(2..=super::consumer::MAX_SLOTS).contains(&count) {
        return Err(corrupt);
    }
    let slot_bytes =
        usize::try_from(slot_bytes).ok().filter(|&bytes| bytes <= super::consumer::MAX_SLOT_BYTES);
    let words = slot_bytes.and_then(|bytes| slots::words(count, bytes));
    let (Some(slot_bytes), Some(words)) = (slot_bytes, words) else { return Err(corrupt) };
    let data = Mapped::new(region, word::COUNT * 8, words).map_err(|_| corrupt)?;
    Ok(Slots::new(data, count, slot_bytes))
}

/// A slot that is being filled. Dropping it discards it.
#[derive(Debug)]
pub struct Claim<'a> {
    producer: &'a Producer,
    position: u64,
}

impl Claim<'_> {
    /// The slot's payload, to be filled. What it holds at first is left over from earlier messages.
    #[inline]
    #[must_use]
    pub fn window(&self) -> Window<'_> {
        let slots = &self.producer.slots;
        slots.data().window(slots.payload(self.position), slots.slot_bytes(), MapAccess::ReadWrite)
    }

    /// Sends the first `len` bytes.
    ///
    /// # Errors
    /// [`ClaimError::TooLong`] (the claim is discarded); [`ClaimError::Lost`] if the consumer discarded the
    /// claim.
    #[inline]
    pub fn commit(self, len: usize) -> core::result::Result<(), ClaimError> {
        self.producer.check_length(len)?;
        // From here on the slot is no longer ours, whether or not it worked.
        let claim = ManuallyDrop::new(self);
        let producer = claim.producer;
        if producer.slots.commit(claim.position, producer.id, len) { Ok(()) } else { Err(ClaimError::Lost) }
    }

    /// Sends nothing; the consumer skips the slot.
    pub fn discard(self) {}
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        // If the consumer discarded it already there is nothing left to do.
        self.producer.slots.discard(self.position, self.producer.id);
    }
}

//! The end that writes records.

use super::INLINE_BYTES;
use crate::doorbell::{Ringer, Waiter};
use crate::region::{MapAccess, Region};
use crate::ring::PushError;
use crate::ring::ends::{self, What, lines};
use crate::ring::mapped::Mapped;
use crate::ring::writer::{LineWriter, Refused};
use crate::window::Window;
use crate::{Error, Result};
use rustix::fd::{BorrowedFd, OwnedFd};

/// A producer that has no consumer yet.
#[derive(Debug)]
pub struct ProducerHalf {
    region: Region,
    lines: u64,
}

impl ProducerHalf {
    /// Makes a ring that takes at least `capacity_bytes` of memory for its data: a power of two, from 512
    /// bytes to 4 GiB.
    ///
    /// Records take more room than their payload: 8 bytes in 64 for long ones, one eighth for streams of
    /// words.
    ///
    /// # Errors
    /// [`Error::TooLarge`] above 4 GiB, and as [`Region::create`].
    pub fn create(capacity_bytes: usize) -> Result<Self> {
        let count = lines::for_capacity(capacity_bytes)?;
        let region = ends::create(What::RecordProducer, count, 0, lines::bytes(count), false)?;
        Ok(Self { region, lines: count })
    }

    /// The descriptor for the consumer, which can only read it.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    /// Connects with the consumer's descriptor.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if it is no consumer's region, and as [`Region::open`].
    pub fn connect(self, consumer: OwnedFd) -> Result<Producer> {
        let (theirs, ..) = ends::open(consumer, What::RecordConsumer, MapAccess::ReadOnly)?;
        let data = lines::row(self.region, self.lines)?;
        Ok(Producer { writer: LineWriter::new(data, ends::count_row(theirs)?, self.lines), rung: 0 })
    }
}

/// The end that writes records. One thread at a time; move it where it is needed.
///
/// Aligned, so that it shares no line, nor one that is fetched with it, with a consumer beside it: both
/// change with every record.
#[derive(Debug)]
#[repr(align(128))]
pub struct Producer {
    writer: LineWriter<Mapped, Mapped>,
    /// The sleep of the consumer that was rung for last.
    rung: u32,
}

impl Producer {
    /// Writes one record; the consumer can see it when this returns.
    ///
    /// # Errors
    /// [`PushError::Full`]: nothing was written, try again when the consumer has taken some.
    /// [`PushError::TooLong`]. [`PushError::Corrupt`]: the consumer is wrong or hostile, and this ring is
    /// finished.
    #[inline(always)]
    pub fn push(&mut self, record: &[u8]) -> core::result::Result<(), PushError> {
        if let Ok(word) = record.try_into() {
            self.writer.push_word(word).map_err(PushError::from)
        } else {
            self.push_other(record)
        }
    }

    /// As [`Producer::push`], for a record of any length.
    fn push_other(&mut self, record: &[u8]) -> core::result::Result<(), PushError> {
        if record.len() <= INLINE_BYTES {
            self.writer.push_short(record).map_err(PushError::from)
        } else {
            self.push_long(record)
        }
    }

    /// Writes as many of the records as find room, and returns their number. Their order is kept; the
    /// consumer sees them line by line, and all of them when this returns.
    ///
    /// # Errors
    /// As [`Producer::push`], if not even the first one was written.
    #[inline]
    pub fn push_batch<R: AsRef<[u8]>>(&mut self, records: &[R]) -> core::result::Result<usize, PushError> {
        let mut written = 0;
        let mut outcome = Ok(());
        while let Some(record) = records.get(written) {
            match self.writer.push_words_later(&records[written..]) {
                Ok(0) => {}
                Ok(count) => {
                    written += count;
                    continue;
                }
                Err(refused) => {
                    outcome = Err(refused.into());
                    break;
                }
            }
            let record = record.as_ref();
            outcome = if record.len() <= INLINE_BYTES {
                self.writer.push_short_later(record).map_err(PushError::from)
            } else {
                self.push_long(record)
            };
            if outcome.is_err() {
                break;
            }
            written += 1;
        }
        self.writer.announce();
        match outcome {
            Err(error) if written == 0 => Err(error),
            _ => Ok(written),
        }
    }

    /// Room for a record of up to `len` bytes, to be filled in place. Nothing is sent unless it is committed.
    ///
    /// # Errors
    /// As [`Producer::push`].
    pub fn reserve(&mut self, len: usize) -> core::result::Result<Claim<'_>, PushError> {
        self.check_length(len)?;
        let is_long = len > INLINE_BYTES;
        let word = if is_long { self.writer.place_long(len)? } else { self.writer.place_short(len)? };
        Ok(Claim { producer: self, word, len, is_long })
    }

    /// Writes one record of `len` bytes, which `fill` puts into the ring itself: all of them, for what they
    /// hold at first is left over from earlier records.
    ///
    /// # Errors
    /// As [`Producer::push`]; then `fill` was not called.
    #[inline]
    pub fn push_with(
        &mut self,
        len: usize,
        fill: impl FnOnce(&Window<'_>),
    ) -> core::result::Result<(), PushError> {
        if len <= INLINE_BYTES {
            let word = self.writer.place_short(len)?;
            fill(&self.writer.data().window(word, len, MapAccess::ReadWrite));
            self.writer.commit_short(len);
            return Ok(());
        }
        let claim = self.reserve(len)?;
        fill(&claim.window());
        claim.commit();
        Ok(())
    }

    /// Asks for the cache lines that a record of `len` bytes would be written to next, which the consumer has
    /// read last: for a producer that will write such a record and has nothing to do until then.
    #[inline]
    pub fn own_ahead(&self, len: usize) {
        self.writer.own_ahead(len);
    }

    /// Longest record that this ring takes, in bytes.
    #[must_use]
    pub fn max_record_bytes(&self) -> usize {
        self.writer.max_bytes()
    }

    /// Whether a record of `len` bytes would find room now. True also if the consumer is found to be broken,
    /// so that the next push says so.
    ///
    /// Look at this after arming [`Producer::room_waiter`]: arming ends with a sequentially consistent fence,
    /// and the consumer's ringing begins with one, so either this sees the room or the consumer sees the
    /// armed word.
    #[must_use]
    pub fn has_room(&self, len: usize) -> bool {
        self.writer.has_room(len)
    }

    /// Wakes the consumer: call it after a push. [`Ringer::ring_if_armed`] costs no system call while it is
    /// awake.
    #[inline]
    #[must_use]
    pub fn ringer(&self) -> Ringer<'_> {
        ends::ringer(self.writer.data(), self.writer.reader())
    }

    /// The same without a fence, and once for each sleep of the consumer: see [`Ringer::ring_once`].
    #[inline]
    pub fn ring_once(&mut self) {
        ends::ringer(self.writer.data(), self.writer.reader()).ring_once(&mut self.rung);
    }

    /// For sleeping until there is room: the consumer has to ring [`super::Consumer::room_ringer`].
    #[inline]
    #[must_use]
    pub fn room_waiter(&self) -> Waiter<'_> {
        ends::waiter(self.writer.data(), self.writer.reader())
    }

    /// Whether the consumer has said that it ends ([`super::Consumer::close`]). If not, what was read of its
    /// process's memory before this call was read in time.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        ends::is_closed(self.writer.reader())
    }

    /// Whether the consumer has said that it takes nothing more ([`super::Consumer::stop`]).
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        ends::has_stopped(self.writer.reader())
    }

    /// Says to the consumer that this end will be dropped: nothing comes behind what is in the ring.
    pub fn close(&self) {
        ends::close(self.writer.data());
    }

    /// Whether the consumer has taken back memory that this process may read
    /// ([`super::Consumer::take_back`]). If not, what was read of it before this call was read in time.
    #[must_use]
    pub fn has_taken_back(&self) -> bool {
        ends::has_taken_back(self.writer.reader())
    }

    /// This side's region: its descriptor, and all words that this side can write.
    #[must_use]
    pub fn region(&self) -> &Region {
        self.writer.data().region()
    }

    fn push_long(&mut self, record: &[u8]) -> core::result::Result<(), PushError> {
        self.check_length(record.len())?;
        self.writer.push_long(record).map_err(PushError::from)
    }

    fn check_length(&self, len_bytes: usize) -> core::result::Result<(), PushError> {
        let max_bytes = self.writer.max_bytes();
        if len_bytes <= max_bytes { Ok(()) } else { Err(PushError::TooLong { len_bytes, max_bytes }) }
    }
}

impl From<Refused> for PushError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Full => Self::Full,
            Refused::Corrupt => Self::Corrupt { what: "the consumer's count of lines given back" },
        }
    }
}

/// Room for one record that has not been sent. Dropping it gives the room back.
#[derive(Debug)]
pub struct Claim<'a> {
    producer: &'a mut Producer,
    word: usize,
    len: usize,
    is_long: bool,
}

impl Claim<'_> {
    /// The record's bytes, to be filled. What they hold at first is left over from earlier records.
    #[inline]
    #[must_use]
    pub fn window(&self) -> Window<'_> {
        self.producer.writer.data().window(self.word, self.len, MapAccess::ReadWrite)
    }

    /// Sends all of it.
    #[inline]
    pub fn commit(self) {
        let len = self.len;
        self.send(len);
    }

    /// Sends the first `len` bytes.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if that is more than was reserved; then nothing is sent.
    pub fn commit_first(self, len: usize) -> Result<()> {
        if len > self.len {
            return Err(Error::OutOfRange { offset: 0, len, size: self.len });
        }
        self.send(len);
        Ok(())
    }

    /// Sends nothing and gives the room back.
    pub fn discard(self) {}

    #[inline]
    fn send(self, len: usize) {
        if self.is_long {
            self.producer.writer.commit_long(len);
        } else {
            self.producer.writer.commit_short(len);
        }
    }
}

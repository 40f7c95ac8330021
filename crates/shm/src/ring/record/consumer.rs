//! The end that reads records.

use crate::Result;
use crate::doorbell::{Ringer, Waiter};
use crate::region::{MapAccess, Region};
use crate::ring::PopError;
use crate::ring::ends::{self, What, lines};
use crate::ring::mapped::Mapped;
use crate::ring::reader::{Found, Lies, LineReader, Take};
use crate::ring::words::Words;
use crate::window::Window;
use rustix::fd::{BorrowedFd, OwnedFd};

/// A consumer that has no producer yet.
#[derive(Debug)]
pub struct ConsumerHalf {
    region: Region,
}

impl ConsumerHalf {
    /// Makes the consumer's words; the producer decides how large the ring is.
    ///
    /// # Errors
    /// As [`Region::create`].
    pub fn create() -> Result<Self> {
        Ok(Self { region: ends::create(What::RecordConsumer, 0, 0, 0, false)? })
    }

    /// The descriptor for the producer, which can only read it.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    /// Connects with the producer's descriptor.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if it is no producer's region or says impossible things, and as
    /// [`Region::open`].
    pub fn connect(self, producer: OwnedFd) -> Result<Consumer> {
        let (theirs, count, _) = ends::open(producer, What::RecordProducer, MapAccess::ReadOnly)?;
        let data = lines::row(theirs, count)?;
        Ok(Consumer { reader: LineReader::new(data, ends::count_row(self.region)?, count) })
    }
}

/// The end that reads records. One thread at a time; move it where it is needed. Aligned as
/// [`super::Producer`] is.
#[derive(Debug)]
#[repr(align(128))]
pub struct Consumer {
    reader: LineReader<Mapped, Mapped>,
}

impl Consumer {
    /// Takes the next record into `buffer`: its length, or `None` if there is none now.
    ///
    /// # Errors
    /// [`PopError::TooSmall`]: the record stays where it is. [`PopError::Corrupt`]: the producer is wrong or
    /// hostile, and this ring is finished.
    #[inline(always)]
    pub fn pop_into(&mut self, buffer: &mut [u8]) -> core::result::Result<Option<usize>, PopError> {
        if let Some(first) = buffer.first_chunk_mut()
            && let Some(word) = self.reader.take_word()
        {
            *first = word.to_ne_bytes();
            return Ok(Some(8));
        }
        self.pop_other(buffer)
    }

    /// As [`Consumer::pop_into`], for any record, and with a look at what the producer has written.
    fn pop_other(&mut self, buffer: &mut [u8]) -> core::result::Result<Option<usize>, PopError> {
        let Some(found) = self.reader.next()? else { return Ok(None) };
        let buffer_bytes = buffer.len();
        let Some(destination) = buffer.get_mut(..found.len) else {
            return Err(PopError::TooSmall { record_bytes: found.len, buffer_bytes });
        };
        if found.is_long {
            self.reader.data().read_long(found.word, destination);
        } else {
            self.reader.data().read_short(found.word, destination);
        }
        self.reader.advance(found);
        Ok(Some(found.len))
    }

    /// Takes the next record by showing it to `look` where it lies: what that returns, or `None` if there is
    /// no record.
    ///
    /// The producer cannot know that it is being looked at, but a hostile one can change the bytes meanwhile:
    /// copy out what is checked.
    ///
    /// # Errors
    /// [`PopError::Corrupt`].
    #[inline]
    pub fn pop_with<R>(
        &mut self,
        look: impl FnOnce(&Window<'_>) -> R,
    ) -> core::result::Result<Option<R>, PopError> {
        let Some(found) = self.reader.next()? else { return Ok(None) };
        let result = look(&self.window(found));
        self.reader.advance(found);
        Ok(Some(result))
    }

    /// As [`Consumer::pop_with`], but the record is only taken if `look` returns something; else it stays the
    /// next. `None` if there is no record, `Some(None)` if it stays.
    ///
    /// # Errors
    /// [`PopError::Corrupt`].
    #[inline]
    pub fn pop_if<R>(
        &mut self,
        look: impl FnOnce(&Window<'_>) -> Option<R>,
    ) -> core::result::Result<Option<Option<R>>, PopError> {
        let Some(found) = self.reader.next()? else { return Ok(None) };
        let result = look(&self.window(found));
        if result.is_some() {
            self.reader.advance(found);
        }
        Ok(Some(result))
    }

    /// Whether another record is known to be there. A look at what the producer has written, which costs
    /// more, may find one even if not.
    #[inline]
    #[must_use]
    pub fn knows_more(&self) -> bool {
        self.reader.knows_more()
    }

    /// Whether the records that were taken filled a line: a producer that has more to say has begun another.
    #[inline]
    #[must_use]
    pub fn is_at_end_of_line(&self) -> bool {
        self.reader.is_at_end_of_line()
    }

    /// Takes up to `max` records that are there now, as [`Consumer::pop_with`] does, and returns their
    /// number.
    ///
    /// # Errors
    /// [`PopError::Corrupt`], if not even one was taken.
    #[inline]
    pub fn drain(
        &mut self,
        max: usize,
        mut look: impl FnMut(&Window<'_>),
    ) -> core::result::Result<usize, PopError> {
        Ok(self.reader.drain(max, &mut Show(&mut look))?)
    }

    /// Length of the next record in bytes, if there is one. It stays the next; a hostile producer may still
    /// change it.
    ///
    /// # Errors
    /// [`PopError::Corrupt`].
    #[inline]
    pub fn next_len(&mut self) -> core::result::Result<Option<usize>, PopError> {
        Ok(self.reader.next()?.map(|found| found.len))
    }

    /// Whether there is nothing to take now. False also if the producer is found to be broken, so that the
    /// next pop says so.
    ///
    /// Look at this after arming [`Consumer::waiter`]: arming ends with a sequentially consistent fence, and
    /// the producer's ringing begins with one, so either this sees the record or the producer sees the armed
    /// word.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.reader.is_empty()
    }

    /// Lets the producer have the room of all records taken so far.
    ///
    /// This happens by itself whenever an eighth of the ring was used up or a pop found nothing; call it
    /// before ringing [`Consumer::room_ringer`], or if a consumer stops in between.
    #[inline]
    pub fn give_back(&mut self) {
        self.reader.give_back();
    }

    /// For sleeping until a record comes: the producer has to ring [`super::Producer::ringer`].
    #[inline]
    #[must_use]
    pub fn waiter(&self) -> Waiter<'_> {
        ends::waiter(self.reader.own(), self.reader.data())
    }

    /// The word that the producer changes when it rings, for who sleeps without this end.
    ///
    /// # Errors
    /// As [`Region::map_part`].
    #[cfg(not(loom))]
    pub fn signal(&self) -> Result<crate::doorbell::Signal> {
        ends::signal(self.reader.data())
    }

    /// Wakes a producer that waits for room: call it after [`Consumer::give_back`].
    #[inline]
    #[must_use]
    pub fn room_ringer(&self) -> Ringer<'_> {
        ends::ringer(self.reader.own(), self.reader.data())
    }

    /// Says to the producer that this end will be dropped: before this process uses memory otherwise that the
    /// producer's process may read by itself.
    pub fn close(&self) {
        ends::close(self.reader.own());
    }

    /// Says to the producer that this end takes nothing more. Memory of this process that the producer's
    /// process may read by itself stays as it is.
    pub fn stop(&self) {
        ends::stop(self.reader.own());
    }

    /// Whether the producer has said that it ends ([`super::Producer::close`]): whatever it has pushed is in
    /// the ring by then.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        ends::is_closed(self.reader.data())
    }

    /// Says to the producer that memory of this process, which the producer's process may read by itself, is
    /// used otherwise from now on, though this end stays.
    pub fn take_back(&self) {
        ends::take_back(self.reader.own());
    }

    /// This side's region: its descriptor, and all words that this side can write.
    #[must_use]
    pub fn region(&self) -> &Region {
        self.reader.own().region()
    }

    #[inline]
    fn window(&self, found: Found) -> Window<'_> {
        self.reader.data().window(found.word, found.len, MapAccess::ReadOnly)
    }
}

/// Shows each record to a closure.
struct Show<'a, F>(&'a mut F);

impl<F: FnMut(&Window<'_>)> Take<Mapped> for Show<'_, F> {
    #[inline(always)]
    fn take(&mut self, lies: Lies<'_, Mapped>) {
        match lies {
            Lies::Word(word) => (self.0)(&Mapped::window_of(word)),
            Lies::Found(data, found) => (self.0)(&data.window(found.word, found.len, MapAccess::ReadOnly)),
        }
    }
}

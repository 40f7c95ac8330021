//! The end that reads bytes.

use crate::Result;
use crate::doorbell::{Ringer, Waiter};
use crate::region::{MapAccess, Region};
use crate::ring::StreamError;
use crate::ring::ends::{self, What, lines};
use crate::ring::mapped::Mapped;
use crate::ring::reader::{Found, LineReader};
use crate::ring::words::Words;
use rustix::fd::{BorrowedFd, OwnedFd};

/// A reader that has no writer yet.
#[derive(Debug)]
pub struct ReaderHalf {
    region: Region,
}

impl ReaderHalf {
    /// Makes the reader's words; the writer decides how large the ring is.
    ///
    /// # Errors
    /// As [`Region::create`].
    pub fn create() -> Result<Self> {
        Ok(Self { region: ends::create(What::ByteReader, 0, 0, 0, false)? })
    }

    /// The descriptor for the writer, which can only read it.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    /// Connects with the writer's descriptor.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if it is no writer's region or says impossible things, and as
    /// [`Region::open`].
    pub fn connect(self, writer: OwnedFd) -> Result<Reader> {
        let (theirs, count, _) = ends::open(writer, What::ByteWriter, MapAccess::ReadOnly)?;
        let data = lines::row(theirs, count)?;
        Ok(Reader {
            lines: LineReader::new(data, ends::count_row(self.region)?, count),
            current: None,
            read: 0,
        })
    }
}

/// The end that reads bytes. One thread at a time; move it where it is needed.
#[derive(Debug)]
pub struct Reader {
    lines: LineReader<Mapped, Mapped>,
    /// The piece that was read in part, and how many bytes of it. Kept here, not read again: what the writer
    /// does to its length meanwhile is of no concern.
    current: Option<(Found, usize)>,
    read: u64,
}

impl Reader {
    /// Reads as many bytes as there are and fit: how many, 0 if there are none now.
    ///
    /// # Errors
    /// [`StreamError::Corrupt`], if not even one byte was read: the writer is wrong or hostile, and this ring
    /// is finished.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> core::result::Result<usize, StreamError> {
        let mut filled = 0;
        while filled < buffer.len() {
            let (found, done) = match self.piece() {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            };
            let count = (found.len - done).min(buffer.len() - filled);
            self.copy_out(found, done, &mut buffer[filled..filled + count]);
            filled += count;
            self.go_past(found, done + count);
        }
        self.read += filled as u64;
        Ok(filled)
    }

    /// Reads into several buffers, one after the other.
    ///
    /// # Errors
    /// As [`Reader::read`].
    pub fn read_vectored(&mut self, buffers: &mut [&mut [u8]]) -> core::result::Result<usize, StreamError> {
        let mut read = 0;
        for buffer in buffers {
            let count = match self.read(buffer) {
                Ok(count) => count,
                Err(_) if read > 0 => break,
                Err(error) => return Err(error),
            };
            read += count;
            if count < buffer.len() {
                break;
            }
        }
        Ok(read)
    }

    /// Bytes read since the beginning of the stream.
    #[must_use]
    pub fn bytes_read(&self) -> u64 {
        self.read
    }

    /// Whether there is nothing to read now. False also if the writer is found to be broken, so that the next
    /// read says so.
    ///
    /// Look at this after arming [`Reader::waiter`], whose fence pairs with the one of the writer's ringing.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.current.is_none() && self.lines.is_empty()
    }

    /// Lets the writer have the room of everything that was read. Happens by itself whenever an eighth of the
    /// ring was used up or a read found nothing; call it before ringing [`Reader::room_ringer`].
    #[inline]
    pub fn give_back(&mut self) {
        self.lines.give_back();
    }

    /// For sleeping until bytes come: the writer has to ring [`super::Writer::ringer`].
    #[inline]
    #[must_use]
    pub fn waiter(&self) -> Waiter<'_> {
        ends::waiter(self.lines.own(), self.lines.data())
    }

    /// Wakes a writer that waits for room: call it after [`Reader::give_back`].
    #[inline]
    #[must_use]
    pub fn room_ringer(&self) -> Ringer<'_> {
        ends::ringer(self.lines.own(), self.lines.data())
    }

    /// This side's region: its descriptor, and all words that this side can write.
    #[must_use]
    pub fn region(&self) -> &Region {
        self.lines.own().region()
    }

    /// The piece to read from, and how many of its bytes were read before. A piece is never empty: that would
    /// be a read that makes no progress, so one is an error of the writer.
    #[inline]
    fn piece(&mut self) -> core::result::Result<Option<(Found, usize)>, StreamError> {
        if self.current.is_some() {
            return Ok(self.current);
        }
        match self.lines.next()? {
            Some(found) if found.len == 0 => Err(self.lines.break_off("an empty piece of a stream").into()),
            found => Ok(found.map(|found| (found, 0))),
        }
    }

    #[inline]
    fn go_past(&mut self, found: Found, done: usize) {
        if done == found.len {
            self.lines.advance(found);
            self.current = None;
        } else {
            self.current = Some((found, done));
        }
    }

    #[inline]
    fn copy_out(&self, found: Found, done: usize, destination: &mut [u8]) {
        let data = self.lines.data();
        if done == 0 && !found.is_long {
            data.read_short(found.word, destination);
        } else {
            data.read_long_from(found.word, done, destination);
        }
    }
}

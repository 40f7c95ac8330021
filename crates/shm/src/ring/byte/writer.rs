//! The end that writes bytes.

use crate::Result;
use crate::doorbell::{Ringer, Waiter};
use crate::region::{MapAccess, Region};
use crate::ring::StreamError;
use crate::ring::control::SHORT_MAX_BYTES;
use crate::ring::ends::{self, What, lines};
use crate::ring::mapped::Mapped;
use crate::ring::words::Words;
use crate::ring::writer::{LineWriter, Refused};
use rustix::fd::{BorrowedFd, OwnedFd};

/// Largest piece: large enough that announcing it costs nothing, small enough that reader and writer work at
/// the same time and the piece is still in the first two levels of cache when it is read.
const PIECE_MAX_BYTES: usize = 16 * 1024 - 8;

/// A writer that has no reader yet.
#[derive(Debug)]
pub struct WriterHalf {
    region: Region,
    lines: u64,
}

impl WriterHalf {
    /// Makes a ring that takes at least `capacity_bytes` of memory for its data: a power of two, from 512
    /// bytes to 4 GiB.
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`] above 4 GiB, and as [`Region::create`].
    pub fn create(capacity_bytes: usize) -> Result<Self> {
        let count = lines::for_capacity(capacity_bytes)?;
        let region = ends::create(What::ByteWriter, count, 0, lines::bytes(count), false)?;
        Ok(Self { region, lines: count })
    }

    /// The descriptor for the reader, which can only read it.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    /// Connects with the reader's descriptor.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if it is no reader's region, and as [`Region::open`].
    pub fn connect(self, reader: OwnedFd) -> Result<Writer> {
        let (theirs, ..) = ends::open(reader, What::ByteReader, MapAccess::ReadOnly)?;
        let data = lines::row(self.region, self.lines)?;
        // An eighth of the ring: a piece is given back as a whole.
        let piece_bytes =
            (lines::bytes(self.lines) / 8).saturating_sub(8).clamp(SHORT_MAX_BYTES, PIECE_MAX_BYTES);
        Ok(Writer {
            lines: LineWriter::new(data, ends::count_row(theirs)?, self.lines),
            piece_bytes,
            written: 0,
        })
    }
}

/// The end that writes bytes. One thread at a time; move it where it is needed.
#[derive(Debug)]
pub struct Writer {
    lines: LineWriter<Mapped, Mapped>,
    piece_bytes: usize,
    written: u64,
}

impl Writer {
    /// Writes as many of the bytes as find room: how many, 0 if the ring is full. The reader can see them
    /// when this returns.
    ///
    /// # Errors
    /// [`StreamError::Corrupt`]: the reader is wrong or hostile, and this ring is finished.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> core::result::Result<usize, StreamError> {
        if bytes.len() > SHORT_MAX_BYTES {
            return self.write_pieces(bytes);
        }
        self.write_small(bytes)
    }

    /// Writes as much as finds room of several buffers, one after the other.
    ///
    /// # Errors
    /// As [`Writer::write`], if not even one byte was written.
    pub fn write_vectored(&mut self, buffers: &[&[u8]]) -> core::result::Result<usize, StreamError> {
        let mut written = 0;
        for buffer in buffers {
            let count = match self.write(buffer) {
                Ok(count) => count,
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            };
            written += count;
            if count < buffer.len() {
                break;
            }
        }
        Ok(written)
    }

    /// Bytes written since the beginning of the stream.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Whether any write would take at least one byte now (a tiny one may succeed without). True also if the
    /// reader is found to be broken, so that the next write says so. Look at this after arming
    /// [`Writer::room_waiter`].
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.lines.has_room(SHORT_MAX_BYTES)
    }

    /// Wakes the reader: call it after a write.
    #[inline]
    #[must_use]
    pub fn ringer(&self) -> Ringer<'_> {
        ends::ringer(self.lines.data(), self.lines.reader())
    }

    /// For sleeping until there is room: the reader has to ring [`super::Reader::room_ringer`].
    #[inline]
    #[must_use]
    pub fn room_waiter(&self) -> Waiter<'_> {
        ends::waiter(self.lines.data(), self.lines.reader())
    }

    /// This side's region: its descriptor, and all words that this side can write.
    #[must_use]
    pub fn region(&self) -> &Region {
        self.lines.data().region()
    }

    /// Bytes that fit one line: all or none, so that a small write is one message.
    #[inline]
    fn write_small(&mut self, bytes: &[u8]) -> core::result::Result<usize, StreamError> {
        if bytes.is_empty() {
            return Ok(0);
        }
        match self.lines.push_short(bytes) {
            Ok(()) => {
                self.written += bytes.len() as u64;
                Ok(bytes.len())
            }
            Err(Refused::Full) => Ok(0),
            Err(Refused::Corrupt) => Err(BAD_READER),
        }
    }

    fn write_pieces(&mut self, bytes: &[u8]) -> core::result::Result<usize, StreamError> {
        let mut written = 0;
        while written < bytes.len() {
            let count = match self.write_piece(&bytes[written..]) {
                Ok(count) => count,
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            };
            if count == 0 {
                break;
            }
            written += count;
        }
        Ok(written)
    }

    fn write_piece(&mut self, bytes: &[u8]) -> core::result::Result<usize, StreamError> {
        if bytes.len() <= SHORT_MAX_BYTES {
            return self.write_small(bytes);
        }
        let want = bytes.len().min(self.piece_bytes);
        // Not pushed as a record: that would skip the lines at the ring's end where a stream can simply be
        // cut.
        let count = self.lines.room_for_part(want).map_err(|_| BAD_READER)?;
        if count == 0 {
            return Ok(0);
        }
        let word = match self.lines.place_long(count) {
            Ok(word) => word,
            Err(Refused::Full) => return Ok(0),
            Err(Refused::Corrupt) => return Err(BAD_READER),
        };
        self.lines.data().write_long(word, &bytes[..count]);
        self.lines.commit_long(count);
        self.written += count as u64;
        Ok(count)
    }
}

const BAD_READER: StreamError = StreamError::Corrupt { what: "the reader's count of lines given back" };

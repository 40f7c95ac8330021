//! A stream of bytes from one writer to one reader, usually in two processes.
//!
//! Built like the record ring (see [`super::record`]) and on the same lines: a small write lies in one cache
//! line with the word that announces it, a large one is cut into pieces, so that the reader can begin while
//! the rest is written. How the bytes were cut is not kept: a read may return less or more than a write put
//! in.
//!
//! ```
//! let (mut writer, mut reader) = shm::ring::byte::pair(4096)?;
//! assert_eq!(writer.write(b"hello, ")?, 7);
//! assert_eq!(writer.write(b"world")?, 5);
//! let mut buffer = [0; 64];
//! assert_eq!(reader.read(&mut buffer)?, 12);
//! assert_eq!(&buffer[..12], b"hello, world");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod reader;
mod writer;

pub use reader::{Reader, ReaderHalf};
pub use writer::{Writer, WriterHalf};

use super::ends;
use crate::Result;

/// Both ends in this process, for threads and for tests.
///
/// # Errors
/// As [`WriterHalf::create`], [`WriterHalf::connect`].
pub fn pair(capacity_bytes: usize) -> Result<(Writer, Reader)> {
    let writer = WriterHalf::create(capacity_bytes)?;
    let reader = ReaderHalf::create()?;
    let (for_writer, for_reader) = (ends::duplicate(reader.fd())?, ends::duplicate(writer.fd())?);
    Ok((writer.connect(for_writer)?, reader.connect(for_reader)?))
}

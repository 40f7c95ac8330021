//! Reads files whose path a user has given, with limits on size and time.
//!
//! What it is for: a path may lead to a directory, a device that never ends, a pipe to which nobody writes,
//! or a file that grows. Each of them ends here with an error in words, within bounded memory; no reader
//! waits forever for somebody who is not there. [`read`] takes files and pipes, such as `<(command)` of a
//! shell; [`read_regular`] files alone, for what several processes read or what is read again.
//!
//! What it must never do: read more than it was allowed to; cut off what is longer.
//!
//! Where to start reading: [`read`].
#![forbid(unsafe_code)]

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;

/// So long a pipe may have no writer before it has written anything: time for one who is being started.
const WRITER_TIMEOUT: Duration = Duration::from_secs(10);
/// Read at a time.
const PIECE_BYTES: usize = 64 << 10;

/// The bytes of a regular file or a pipe, at most so many.
///
/// # Errors
/// It can't be read; it is longer ([`ErrorKind::FileTooLarge`]); it is a directory or a device; or a pipe
/// that no process has open for writing ([`ErrorKind::TimedOut`]). A pipe with a writer is waited for as long
/// as that takes.
pub fn read(path: &Path, most_bytes: u64) -> Result<Vec<u8>> {
    let file = open(path)?;
    let there = file.metadata()?;
    if there.file_type().is_fifo() {
        pipe(file, most_bytes, WRITER_TIMEOUT)
    } else if there.is_file() {
        regular(file, there.len(), most_bytes)
    } else if there.is_dir() {
        Err(Error::new(ErrorKind::IsADirectory, "it is a directory"))
    } else {
        Err(Error::other("it is neither a regular file nor a pipe"))
    }
}

/// The text of a regular file of at most so many bytes.
///
/// # Errors
/// As of [`read`]; anything but a regular file is refused at once; and what is no UTF-8
/// ([`ErrorKind::InvalidData`]).
pub fn read_regular(path: &Path, most_bytes: u64) -> Result<String> {
    Ok(read_regular_with(path, most_bytes)?.0)
}

/// The same, with owner and permissions of the file that was read: for secrets, which others must not be able
/// to read. The path itself may lead to another file by then.
///
/// # Errors
/// As of [`read_regular`].
pub fn read_regular_with(path: &Path, most_bytes: u64) -> Result<(String, Metadata)> {
    let file = open(path)?;
    let there = file.metadata()?;
    if !there.is_file() {
        return Err(Error::other("it is not a regular file"));
    }
    Ok((text(regular(file, there.len(), most_bytes)?)?, there))
}

/// Bytes as text.
///
/// # Errors
/// They are none, from the byte on that is named.
pub fn text(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        let at_byte = error.utf8_error().valid_up_to();
        Error::new(ErrorKind::InvalidData, format!("it is not text: its byte {at_byte} is not UTF-8"))
    })
}

/// Without waiting for the other end of a pipe, and without making a terminal this process's own.
fn open(path: &Path) -> Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    // Where it is not waited for, a lease of another process is told as something that is busy.
    opened.map_err(|error| match error.kind() {
        ErrorKind::WouldBlock => Error::other("another process holds a lease on it (fcntl(2), F_SETLEASE)"),
        _ => error,
    })
}

fn too_long(most_bytes: u64) -> Error {
    let text = format!("it has more than {most_bytes} bytes, the limit");
    Error::new(ErrorKind::FileTooLarge, text)
}

/// Files of the kernel say a length of 0, and others may grow: so both the length and what comes are
/// examined.
fn regular(file: File, length: u64, most_bytes: u64) -> Result<Vec<u8>> {
    if length > most_bytes {
        return Err(too_long(most_bytes));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
    file.take(most_bytes.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most_bytes { Err(too_long(most_bytes)) } else { Ok(bytes) }
}

/// A pipe that was opened without waiting: with no writer a read gives nothing at once, with one that is
/// silent it would block.
fn pipe(mut file: File, most_bytes: u64, patience: Duration) -> Result<Vec<u8>> {
    let began = Instant::now();
    let mut piece = vec![0; PIECE_BYTES];
    let mut bytes = Vec::new();
    // Whether a writer has been seen, so that the end of what it wrote is the end.
    let mut is_written = false;
    loop {
        match file.read(&mut piece) {
            Ok(0) if is_written => return Ok(bytes),
            Ok(0) => {
                let left = patience.saturating_sub(began.elapsed());
                if left.is_zero() {
                    let text = "no process has this pipe open for writing: start the writer first";
                    return Err(Error::new(ErrorKind::TimedOut, text));
                }
                // With the writer that comes and goes, the kernel tells that the pipe was hung up.
                is_written = wait(&file, Some(left))?.contains(PollFlags::HUP);
            }
            Ok(count) => {
                is_written = true;
                bytes.extend_from_slice(&piece[..count]);
                if bytes.len() as u64 > most_bytes {
                    return Err(too_long(most_bytes));
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                is_written = true;
                wait(&file, None)?;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits until there is something to read, or its writer has gone; says what there is.
fn wait(file: &File, at_most: Option<Duration>) -> Result<PollFlags> {
    let limit = at_most.and_then(|limit| Timespec::try_from(limit).ok());
    let mut watched = [PollFd::new(file, PollFlags::IN)];
    match poll(&mut watched, limit.as_ref()) {
        // Interrupted: the caller looks again.
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(watched[0].revents()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;

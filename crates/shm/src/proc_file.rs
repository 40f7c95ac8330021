//! Small text files of the kernel, read without an allocator.

use core::fmt;
use rustix::fs::{Mode, OFlags};

/// A path put together on the stack.
pub(crate) struct PathBuffer {
    bytes: [u8; Self::BYTES],
    len: usize,
}

impl PathBuffer {
    /// Enough for the deepest control group anybody has; what does not fit is an error, never cut off.
    const BYTES: usize = 1024;

    pub(crate) fn new() -> Self {
        Self { bytes: [0; Self::BYTES], len: 0 }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        core::str::from_utf8(self.bytes.get(..self.len)?).ok()
    }
}

impl fmt::Write for PathBuffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

/// The beginning of the file, as much as the buffer holds; `None` if it cannot be read or is no text.
pub(crate) fn read<'a>(path: &str, buffer: &'a mut [u8]) -> Option<&'a str> {
    let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::retry_on_intr(|| rustix::io::read(&fd, &mut buffer[filled..])) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(_) => return None,
        }
    }
    core::str::from_utf8(&buffer[..filled]).ok()
}

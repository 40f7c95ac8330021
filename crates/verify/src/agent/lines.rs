//! Reads lines of a stream, none longer than a limit, with one read of the stream at most for each look.

use std::io::{ErrorKind, Read};

/// What one look gave.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// A line, without its end.
    Line(Vec<u8>),
    /// Nothing whole yet.
    Nothing,
    /// There will be no more. What is left without the end of a line is none.
    End,
    /// A line is longer than the limit.
    TooLong,
}

/// A reader of lines.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    stream: R,
    buffer: Vec<u8>,
    /// So much of it holds no end of a line.
    searched: usize,
    most_bytes: usize,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(stream: R, most_bytes: usize) -> Self {
        Self { stream, buffer: Vec::new(), searched: 0, most_bytes }
    }

    pub(crate) fn stream(&self) -> &R {
        &self.stream
    }

    /// The next line, if it is there or comes with one read of the stream.
    pub(crate) fn look(&mut self) -> Look {
        if let Some(line) = self.buffered() {
            return Look::Line(line);
        }
        if self.buffer.len() > self.most_bytes {
            return Look::TooLong;
        }
        let mut piece = [0; 16 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) => Look::End,
            Ok(read) => {
                self.buffer.extend_from_slice(piece.get(..read).unwrap_or_default());
                self.buffered().map_or(Look::Nothing, Look::Line)
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                Look::Nothing
            }
            Err(_) => Look::End,
        }
    }

    fn buffered(&mut self) -> Option<Vec<u8>> {
        let rest = self.buffer.get(self.searched..).unwrap_or_default();
        let Some(at) = rest.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            return None;
        };
        let mut line: Vec<u8> = self.buffer.drain(..=self.searched + at).collect();
        line.pop();
        self.searched = 0;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_and_none_is_longer_than_the_limit() {
        let mut lines = Lines::new(&b"one\n\ntwo\nrest"[..], 100);
        for line in ["one", "", "two"] {
            assert_eq!(lines.look(), Look::Line(line.into()));
        }
        assert_eq!((lines.look(), lines.look()), (Look::End, Look::End));
        let long = vec![b'x'; 100_000];
        let mut lines = Lines::new(long.as_slice(), 20_000);
        assert_eq!([lines.look(), lines.look(), lines.look()], [Look::Nothing, Look::Nothing, Look::TooLong]);
    }
}

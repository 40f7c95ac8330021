//! Lines of a file, and reading along a line.

use std::borrow::Cow;

use super::anomaly::{Anomalies, Cause};

/// Each line with its number from 1 on, without its end (that of Windows too) and without a byte-order mark.
pub(super) fn lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes
        .split(|byte| *byte == b'\n')
        .enumerate()
        .map(|(at, line)| (at + 1, line.strip_suffix(b"\r").unwrap_or(line)))
}

/// A line as text; what is none becomes an anomaly.
pub(super) fn text<'a>(number: usize, line: &'a [u8], anomalies: &mut Anomalies) -> Cow<'a, str> {
    let text = String::from_utf8_lossy(line);
    if matches!(text, Cow::Owned(_)) {
        anomalies.add(number, Cause::NotText, format_args!("`{text}`"));
    }
    text
}

/// Reading along a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor<'a>(pub(super) &'a str);

impl<'a> Cursor<'a> {
    /// Skips spaces.
    pub(super) fn spaces(&mut self) {
        self.0 = self.0.trim_start();
    }

    /// Takes this, if it is next.
    pub(super) fn take(&mut self, what: &str) -> bool {
        match self.0.strip_prefix(what) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    /// Takes all up to this, and it; nothing if it does not come.
    pub(super) fn until(&mut self, end: &str) -> Option<&'a str> {
        let (inside, rest) = self.0.split_once(end)?;
        self.0 = rest;
        Some(inside)
    }

    /// Takes the next word.
    pub(super) fn word(&mut self) -> &'a str {
        self.spaces();
        let end = self.0.find(char::is_whitespace).unwrap_or(self.0.len());
        let (word, rest) = self.0.split_at(end);
        self.0 = rest;
        word
    }

    /// Takes what is between these, if it begins next.
    pub(super) fn between(&mut self, begin: &str, end: &str) -> Option<&'a str> {
        let before = *self;
        if self.take(begin)
            && let Some(inside) = self.until(end)
        {
            return Some(inside);
        }
        *self = before;
        None
    }
}

/// A hexadecimal number, with `0x` or without.
pub(super) fn hex(text: &str) -> Option<u64> {
    let digits = text.trim();
    let digits = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")).unwrap_or(digits);
    // A sign is none of its digits, though the library's function takes one.
    digits
        .bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| u64::from_str_radix(digits, 16).ok())
        .flatten()
}

/// The number after this word, as in `lid 7`.
pub(super) fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let mut words = text.split_whitespace();
    words.find(|one| *one == word)?;
    words.next()
}

//! Splits a file into rows that are parsed one by one, because a tree of all values takes thirty
//! times the file's size.
//!
//! This knows as much of TOML as files of ours have: `key = value`, and arrays of tables in braces. Whatever
//! else there is, the file is left to the library as a whole.

use std::ops::Range;

/// The parts of a file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts {
    /// All of the version's statement.
    pub(super) version: Option<Range<usize>>,
    /// Each node's table, with its braces.
    pub(super) nodes: Vec<Range<usize>>,
    /// Each link's.
    pub(super) links: Vec<Range<usize>>,
}

/// The parts of a file; nothing if it has any others, or is not as ours are.
pub(super) fn split(text: &str) -> Option<Parts> {
    let mut scan = Scan { bytes: text.as_bytes(), at: 0 };
    let mut parts = Parts::default();
    let mut seen: Vec<&str> = Vec::new();
    loop {
        scan.blank();
        if scan.at == scan.bytes.len() {
            return parts.version.is_some().then_some(parts);
        }
        let begin = scan.at;
        let key = scan.key(text)?;
        if seen.contains(&key) {
            return None;
        }
        seen.push(key);
        match key {
            super::KEY => {
                scan.rest_of_line();
                // With its end, which is two bytes on Windows.
                scan.at = (scan.at + 1).min(scan.bytes.len());
                parts.version = Some(begin..scan.at);
            }
            "nodes" => parts.nodes = scan.array()?,
            "links" => parts.links = scan.array()?,
            _ => return None,
        }
    }
}

/// Reading along the bytes. All that it looks for is ASCII, so that it never stops within a character.
struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn next(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.next() == Some(byte)).then(|| self.at += 1)
    }

    fn spaces(&mut self) {
        while matches!(self.next(), Some(b' ' | b'\t')) {
            self.at += 1;
        }
    }

    fn rest_of_line(&mut self) {
        while !matches!(self.next(), None | Some(b'\n')) {
            self.at += 1;
        }
    }

    /// Skips white space, ends of lines and comments. What must not stand in a comment is the library's
    /// business: there it stops.
    fn blank(&mut self) {
        loop {
            match self.next() {
                Some(b' ' | b'\t' | b'\n') => self.at += 1,
                Some(b'\r') if self.bytes.get(self.at + 1) == Some(&b'\n') => self.at += 1,
                Some(b'#') => {
                    while matches!(self.next(), Some(byte) if byte >= b' ' && byte != 0x7f || byte == b'\t') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// `key =`
    fn key<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        let begin = self.at;
        while matches!(self.next(), Some(byte) if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        {
            self.at += 1;
        }
        let key = text.get(begin..self.at)?;
        self.spaces();
        self.take(b'=')?;
        self.spaces();
        Some(key)
    }

    /// `[ {…}, {…}, ]`, and nothing more on the line.
    fn array(&mut self) -> Option<Vec<Range<usize>>> {
        let mut rows = Vec::new();
        self.take(b'[')?;
        loop {
            self.blank();
            if self.take(b']').is_some() {
                break;
            }
            rows.push(self.table()?);
            self.blank();
            if self.take(b',').is_none() && self.next() != Some(b']') {
                return None;
            }
        }
        self.spaces();
        matches!(self.next(), None | Some(b'\n' | b'\r' | b'#')).then_some(rows)
    }

    /// A table in braces, to its closing brace.
    fn table(&mut self) -> Option<Range<usize>> {
        let begin = self.at;
        let mut depth = 0_u32;
        loop {
            match self.next()? {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.checked_sub(1)?,
                quote @ (b'"' | b'\'') => self.string(quote)?,
                b'#' => return None,
                _ if depth == 0 => return None,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(begin..self.at);
            }
        }
    }

    /// From a quote to the closing one of the same line. What begins with three is left to the library.
    fn string(&mut self, quote: u8) -> Option<()> {
        if self.bytes[self.at..].starts_with(&[quote; 3]) {
            return None;
        }
        loop {
            self.at += 1;
            match self.next()? {
                b'\n' => return None,
                b'\\' if quote == b'"' => self.at += 1,
                byte if byte == quote => return Some(()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_whatever_stands_in_their_strings() {
        let text = "# x\ntieline-topology = 1 # one\r\nnodes = [ {a = \"}\\\"]\"}, # {\n {b = '\\', c = [{d = 1}]} ]\nlinks=[]\n";
        let parts = split(text).unwrap();
        let rows: Vec<&str> = parts.nodes.iter().map(|row| &text[row.clone()]).collect();
        assert_eq!(rows, ["{a = \"}\\\"]\"}", "{b = '\\', c = [{d = 1}]}"]);
        assert!(parts.links.is_empty() && text[parts.version.unwrap()].starts_with("tieline-topology = 1"));
    }

    #[test]
    fn what_is_not_as_ours_is_left_to_the_library() {
        for text in [
            "nodes = []\n",
            "tieline-topology = 1\nnodes = []\nnodes = []\n",
            "tieline-topology = 1\n[[nodes]]\n",
            "tieline-topology = 1\nmore = 1\n",
            "tieline-topology = 1\nnodes = [1]\n",
            "tieline-topology = 1\nnodes = [{a = \"\"\"\n\"\"\"}]\n",
            "tieline-topology = 1\nnodes = [{a = \"\n\"}]\n",
            "tieline-topology = 1\nnodes = [{a = 1} {a = 1}]\n",
            "tieline-topology = 1\nnodes = [{a = 1}] links = []\n",
            "tieline-topology = 1\nnodes = [{a = 1",
        ] {
            assert_eq!(split(text), None, "{text}");
        }
    }
}

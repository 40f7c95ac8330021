//! What a program prints, kept in memory while it is short and in a temporary file after that.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::io::{Read, Seek, SeekFrom, Write};

use tempfile::SpooledTempFile;

/// So much of one stream stays in memory.
const IN_MEMORY_BYTES: usize = 256 << 10;
/// A shell's greeting before the marker is dropped; more than this before it, and there is no marker.
const BEFORE_BYTES_MAX: usize = 1 << 20;
/// Read at a time where two are compared.
const PIECE_BYTES: usize = 64 << 10;

/// One stream.
#[derive(Debug)]
pub struct Spool {
    /// What comes before this line is no part of it.
    marker: Option<Vec<u8>>,
    before: Vec<u8>,
    kept: SpooledTempFile,
    bytes: u64,
    hasher: DefaultHasher,
    /// The temporary file cannot be written.
    failed: Option<std::io::Error>,
}

impl Spool {
    /// A stream that begins behind this line, or at once.
    pub(crate) fn new(marker: Option<Vec<u8>>) -> Self {
        Self {
            marker,
            before: Vec::new(),
            kept: SpooledTempFile::new(IN_MEMORY_BYTES),
            bytes: 0,
            hasher: DefaultHasher::new(),
            failed: None,
        }
    }

    /// The next bytes of the stream.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        let Some(marker) = &self.marker else { return self.keep(piece) };
        // The marker may lie across two pieces.
        let from = self.before.len().saturating_sub(marker.len());
        self.before.extend_from_slice(piece);
        if let Some(at) = find(&self.before[from..], marker) {
            let behind = self.before.split_off(from + at + marker.len());
            self.marker = None;
            self.keep(&behind);
        } else if self.before.len() > BEFORE_BYTES_MAX {
            let keep = self.before.len() - marker.len();
            self.before.drain(..keep);
        }
    }

    fn keep(&mut self, piece: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        self.hasher.write(piece);
        match self.kept.write_all(piece) {
            Ok(()) => self.bytes += piece.len() as u64,
            Err(error) => self.failed = Some(error),
        }
    }

    /// Whether the marker has come; also where there is none.
    pub(crate) fn has_begun(&self) -> bool {
        self.marker.is_none()
    }

    /// What came before the marker: all there is, as long as it has not come.
    pub(crate) fn before(&self) -> &[u8] {
        &self.before
    }

    /// Why it is not complete.
    pub(crate) fn failed(&self) -> Option<&std::io::Error> {
        self.failed.as_ref()
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Cuts it off.
    pub(crate) fn truncate(&mut self, bytes: u64) {
        if bytes < self.bytes && self.kept.set_len(bytes).is_ok() {
            self.bytes = bytes;
            // What it stands for has changed.
            self.hasher = DefaultHasher::new();
            let mut rest = self.hasher.clone();
            // The file was written a moment ago; what cannot be read makes it differ from others.
            let _ = self.each_piece(|piece| {
                rest.write(piece);
                Ok(())
            });
            self.hasher = rest;
        }
    }

    /// Streams that are the same have the same one.
    pub(crate) fn hash(&self) -> u64 {
        self.hasher.finish()
    }

    /// The first bytes, so many at most.
    ///
    /// # Errors
    /// The temporary file cannot be read.
    pub fn first(&mut self, bytes: u64) -> std::io::Result<Vec<u8>> {
        let mut all = Vec::new();
        self.kept.seek(SeekFrom::Start(0))?;
        (&mut self.kept).take(bytes.min(self.bytes)).read_to_end(&mut all)?;
        Ok(all)
    }

    /// The last bytes, so many at most.
    pub(crate) fn last(&mut self, bytes: u64) -> std::io::Result<Vec<u8>> {
        let mut all = Vec::new();
        self.kept.seek(SeekFrom::Start(self.bytes.saturating_sub(bytes)))?;
        (&mut self.kept).take(bytes).read_to_end(&mut all)?;
        Ok(all)
    }

    /// Hands on all bytes, in pieces.
    ///
    /// # Errors
    /// The temporary file cannot be read, or what `take` says.
    pub fn each_piece(&mut self, mut take: impl FnMut(&[u8]) -> std::io::Result<()>) -> std::io::Result<()> {
        self.kept.seek(SeekFrom::Start(0))?;
        let mut piece = vec![0; PIECE_BYTES];
        let mut left = self.bytes;
        while left > 0 {
            let most = PIECE_BYTES.min(usize::try_from(left).unwrap_or(PIECE_BYTES));
            let read = self.kept.read(&mut piece[..most])?;
            if read == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            take(&piece[..read])?;
            left -= read as u64;
        }
        Ok(())
    }

    /// Whether two are the same, byte by byte.
    pub(crate) fn is_same(&mut self, other: &mut Self) -> bool {
        if self.bytes != other.bytes || self.hash() != other.hash() {
            return false;
        }
        let Ok(()) = other.kept.seek(SeekFrom::Start(0)).map(drop) else { return false };
        let mut theirs = vec![0; PIECE_BYTES];
        let same = self.each_piece(|piece| {
            other.kept.read_exact(&mut theirs[..piece.len()])?;
            if theirs[..piece.len()] == *piece { Ok(()) } else { Err(std::io::ErrorKind::InvalidData.into()) }
        });
        same.is_ok()
    }
}

/// Where `wanted` begins in `all`.
pub(crate) fn find(all: &[u8], wanted: &[u8]) -> Option<usize> {
    all.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_the_marker_is_dropped_however_it_is_cut() {
        let all = b"Welcome!\nMARK\nfirst\n\0\xff";
        for size in 1..all.len() {
            let mut spool = Spool::new(Some(b"MARK\n".to_vec()));
            assert!(!spool.has_begun());
            all.chunks(size).for_each(|piece| spool.push(piece));
            assert!(spool.has_begun());
            assert_eq!(spool.first(100).unwrap(), b"first\n\0\xff", "{size}");
        }
        let mut none = Spool::new(Some(b"MARK\n".to_vec()));
        none.push(&vec![b'x'; 3 << 20]);
        assert!(!none.has_begun() && none.before().len() < BEFORE_BYTES_MAX + 100 && none.bytes() == 0);
    }

    #[test]
    fn long_streams_are_the_same_or_not() {
        let long = vec![7_u8; 1 << 20];
        let of = |bytes: &[u8]| {
            let mut spool = Spool::new(None);
            spool.push(bytes);
            spool
        };
        assert!(of(&long).is_same(&mut of(&long)));
        let mut other = long.clone();
        other[900_000] = 8;
        assert!(!of(&long).is_same(&mut of(&other)) && !of(&long).is_same(&mut of(b"")));
        let mut cut = of(&other);
        cut.truncate(500_000);
        assert!(cut.is_same(&mut of(&long[..500_000])));
        assert_eq!(cut.last(3).unwrap(), [7, 7, 7]);
    }
}

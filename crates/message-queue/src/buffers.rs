//! The program's memory of one operation, in one piece or several.

use shm::lent::Piece;
use shm::process::{NotRead, ProcessMemory};
use shm::window::Window;

/// Memory that belongs to an operation until its completion.
#[derive(Debug)]
pub enum Buffers {
    /// Given away by the program, which gets it back with the completion.
    Owned(Vec<u8>),
    /// Lent by the program.
    Lent(Piece),
    /// Lent by the program in several pieces, which are one row of bytes.
    Scattered(Box<[Piece]>),
}

impl Default for Buffers {
    fn default() -> Self {
        Self::Owned(Vec::new())
    }
}

impl From<Vec<u8>> for Buffers {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Owned(bytes)
    }
}

impl Buffers {
    /// Length of all of it.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Owned(bytes) => bytes.len(),
            Self::Lent(piece) => piece.len(),
            Self::Scattered(pieces) => len_of(pieces),
        }
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, if the program gave them away.
    #[must_use]
    pub fn into_owned(self) -> Option<Vec<u8>> {
        match self {
            Self::Owned(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Address of the first byte, and whether all others follow it; else 0.
    #[must_use]
    pub fn address(&self) -> (u64, bool) {
        match self {
            Self::Owned(bytes) => (bytes.as_ptr().expose_provenance() as u64, true),
            Self::Lent(piece) => (piece.as_ptr().expose_provenance() as u64, true),
            Self::Scattered(_) => (0, false),
        }
    }

    /// Copies `len` bytes of a record, from `from` on, to `offset` on. Bytes that either side does not have
    /// are left out.
    #[inline]
    pub(crate) fn fill(&mut self, offset: usize, record: &Window<'_>, from: usize, len: usize) {
        match self {
            Self::Owned(bytes) => {
                let end = offset.saturating_add(len).min(bytes.len());
                if let Some(part) = bytes.get_mut(offset..end) {
                    // A record that is shorter was refused before.
                    let _ = record.get_from_ring(from, part);
                }
            }
            Self::Lent(piece) => piece.fill(offset, record, from, len),
            Self::Scattered(pieces) => {
                each(pieces, offset, len, |at, piece, within, len| {
                    piece.fill(within, record, from + at, len)
                });
            }
        }
    }

    /// The same to the beginning, where there is room for all of it.
    #[inline(always)]
    pub(crate) fn fill_front(&mut self, record: &Window<'_>, from: usize, len: usize) {
        match self {
            Self::Owned(bytes) => {
                if let Some(part) = bytes.get_mut(..len) {
                    // A record that is shorter was refused before.
                    let _ = record.get_from_ring(from, part);
                }
            }
            Self::Lent(piece) => piece.fill(0, record, from, len),
            Self::Scattered(_) => self.fill(0, record, from, len),
        }
    }

    /// Copies bytes that were kept to the beginning, as far as there is room.
    #[inline]
    pub(crate) fn fill_from(&mut self, kept: &[u8]) {
        match self {
            Self::Owned(bytes) => {
                let len = kept.len().min(bytes.len());
                bytes[..len].copy_from_slice(&kept[..len]);
            }
            Self::Lent(piece) => piece.write(0, kept),
            Self::Scattered(pieces) => {
                each(pieces, 0, kept.len(), |at, piece, within, len| {
                    piece.write(within, &kept[at..at + len]);
                });
            }
        }
    }

    /// Copies `len` bytes out of another process, or says why not; then the bytes are anything.
    pub(crate) fn fill_by_reading(
        &mut self,
        memory: &ProcessMemory,
        address: u64,
        len: usize,
    ) -> Result<(), NotRead> {
        match self {
            Self::Owned(bytes) => match bytes.get_mut(..len) {
                Some(bytes) => memory.read_into(address, bytes),
                None => Err(NotRead::NoSuchMemory),
            },
            Self::Lent(piece) => memory.read(address, std::slice::from_ref(piece), len),
            Self::Scattered(pieces) => memory.read(address, pieces, len),
        }
    }
}

#[cold]
fn len_of(pieces: &[Piece]) -> usize {
    pieces.iter().map(Piece::len).sum()
}

/// Where the bytes of a message come from.
pub trait Source {
    /// How many there are.
    fn len_bytes(&self) -> usize;
    /// Copies `len` bytes from `offset` on into a record, to `to` on.
    fn put_into(&self, offset: usize, len: usize, record: &Window<'_>, to: usize);
    /// A copy of all of it.
    fn to_vec(&self) -> Vec<u8>;
}

impl Source for [u8] {
    #[inline]
    fn len_bytes(&self) -> usize {
        self.len()
    }

    #[inline]
    fn put_into(&self, offset: usize, len: usize, record: &Window<'_>, to: usize) {
        let end = offset.saturating_add(len).min(self.len());
        if let Some(part) = self.get(offset..end) {
            // The record was reserved with this length.
            let _ = record.put_into_ring(to, part);
        }
    }

    fn to_vec(&self) -> Vec<u8> {
        self.into()
    }
}

impl Source for Buffers {
    #[inline]
    fn len_bytes(&self) -> usize {
        self.len()
    }

    #[inline]
    fn put_into(&self, offset: usize, len: usize, record: &Window<'_>, to: usize) {
        match self {
            Self::Owned(bytes) => bytes.as_slice().put_into(offset, len, record, to),
            Self::Lent(piece) => piece.put_into(offset, len, record, to),
            Self::Scattered(pieces) => each(pieces, offset, len, |at, piece, within, len| {
                piece.put_into(within, len, record, to + at);
            }),
        }
    }

    fn to_vec(&self) -> Vec<u8> {
        let mut all = vec![0; self.len()];
        match self {
            Self::Owned(bytes) => all.copy_from_slice(bytes),
            Self::Lent(piece) => piece.read(0, &mut all),
            Self::Scattered(pieces) => {
                each(pieces, 0, usize::MAX, |at, piece, within, len| {
                    piece.read(within, &mut all[at..at + len]);
                });
            }
        }
        all
    }
}

/// Shows the parts of the pieces that make up `len` bytes from `offset` on: which of these bytes is the
/// first, the piece, the place within it and how many. What lies outside is left out.
fn each(pieces: &[Piece], offset: usize, len: usize, mut show: impl FnMut(usize, &Piece, usize, usize)) {
    let end = offset.saturating_add(len);
    let mut begin = 0;
    for piece in pieces {
        let (from, to) = (offset.max(begin), end.min(begin + piece.len()));
        if from < to {
            show(from - offset, piece, from - begin, to - from);
        }
        begin += piece.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shm::region::{Region, RegionOptions};

    #[test]
    fn owned_memory_takes_what_fits() {
        let region = Region::create(&RegionOptions::new("record", 64)).unwrap();
        region.window().put(0, b"head-message").unwrap();
        let mut buffers = Buffers::from(vec![b'.'; 10]);
        buffers.fill(2, &region.window(), 5, 7);
        assert_eq!(buffers.to_vec(), b"..message.");
        buffers.fill(8, &region.window(), 5, 7);
        buffers.fill(11, &region.window(), 5, 7);
        assert_eq!(buffers.to_vec(), b"..messagme"[..8].iter().chain(b"me").copied().collect::<Vec<_>>());
        buffers.fill_from(b"0123456789abc");
        buffers.put_into(3, 4, &region.window(), 0);
        let mut back = [0; 5];
        region.window().get(0, &mut back).unwrap();
        assert_eq!(&back, b"3456-");
        assert_eq!((buffers.len(), buffers.into_owned().map(|bytes| bytes.len())), (10, Some(10)));
    }
}

//! The program's memory of one operation, in one piece or several.

use libc::iovec;
use shm::window::Window;

/// Memory that a program lends to an operation until its completion.
#[derive(Debug)]
pub(crate) struct Buffers {
    pieces: Pieces,
    len: usize,
}

#[derive(Debug)]
enum Pieces {
    One(*mut u8),
    Many(Box<[(*mut u8, usize)]>),
}

// SAFETY: the memory belongs to the operation, not to a thread; a program that uses several threads lends it to all of them.
unsafe impl Send for Buffers {}

impl Buffers {
    /// Memory in one piece.
    ///
    /// # Safety
    /// `len` bytes from `start` can be read, and written if something is to be received, until the value is dropped; nobody else writes
    /// them meanwhile.
    #[inline]
    pub(crate) unsafe fn one(start: *mut u8, len: usize) -> Self {
        Self { pieces: Pieces::One(start), len }
    }

    /// Memory in the pieces that a C array lists.
    ///
    /// # Safety
    /// As for [`Buffers::one`], of each piece; and `count` structures can be read from `list`.
    pub(crate) unsafe fn of_list(list: *const iovec, count: usize) -> Self {
        if count == 0 || list.is_null() {
            // SAFETY: no byte of it is ever used.
            return unsafe { Self::one(std::ptr::null_mut(), 0) };
        }
        // SAFETY: by the caller's word.
        let list = unsafe { std::slice::from_raw_parts(list, count) };
        if let [one] = list {
            // SAFETY: by the caller's word.
            return unsafe { Self::one(one.iov_base.cast(), one.iov_len) };
        }
        let pieces: Box<[_]> = list.iter().map(|piece| (piece.iov_base.cast(), piece.iov_len)).collect();
        let len = pieces.iter().map(|(_, len)| len).sum();
        Self { pieces: Pieces::Many(pieces), len }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Address of the first byte.
    #[inline]
    pub(crate) fn start(&self) -> *mut u8 {
        match &self.pieces {
            Pieces::One(start) => *start,
            Pieces::Many(pieces) => pieces.first().map_or(std::ptr::null_mut(), |(start, _)| *start),
        }
    }

    pub(crate) fn is_one_piece(&self) -> bool {
        matches!(self.pieces, Pieces::One(_))
    }

    /// Shows each piece of `len` bytes from `offset` on, with its place from `offset` on; what lies outside is left out.
    #[inline]
    fn each(&self, offset: usize, len: usize, mut show: impl FnMut(usize, *mut u8, usize)) {
        let end = offset.saturating_add(len).min(self.len);
        if offset >= end {
            return;
        }
        match &self.pieces {
            Pieces::One(start) => show(0, start.wrapping_add(offset), end - offset),
            Pieces::Many(pieces) => {
                let mut at = 0;
                for (start, piece_len) in pieces {
                    let (from, to) = (offset.max(at), end.min(at + piece_len));
                    if from < to {
                        show(from - offset, start.wrapping_add(from - at), to - from);
                    }
                    at += piece_len;
                }
            }
        }
    }

    /// Copies `len` bytes of a record, from `from` on, to `offset` on. Bytes that either side does not have are left out.
    #[inline]
    pub(crate) fn fill(&self, offset: usize, record: &Window<'_>, from: usize, len: usize) {
        self.each(offset, len, |at, start, len| {
            // SAFETY: the piece lies in memory that the program lent to be written to, and nobody else uses it meanwhile.
            let piece = unsafe { std::slice::from_raw_parts_mut(start, len) };
            // A record that is shorter than its head says was checked before; then nothing would be copied.
            let _ = record.get(from + at, piece);
        });
    }

    /// The same, of bytes that were kept.
    pub(crate) fn fill_from(&self, bytes: &[u8]) {
        self.each(0, bytes.len(), |at, start, len| {
            // SAFETY: the piece lies in memory that the program lent to be written to, and does not overlap memory of this crate.
            unsafe { std::ptr::copy_nonoverlapping(bytes[at..].as_ptr(), start, len) };
        });
    }

    /// Copies `len` bytes from `offset` on into a record.
    #[inline]
    pub(crate) fn put_into(&self, offset: usize, len: usize, record: &Window<'_>, to: usize) {
        self.each(offset, len, |at, start, len| {
            // SAFETY: the piece lies in memory that the program lent to be read, which nobody writes meanwhile.
            let piece = unsafe { std::slice::from_raw_parts(start, len) };
            // The record was reserved with this length.
            let _ = record.put(to + at, piece);
        });
    }

    /// Copies all of it to the beginning of `bytes`, as far as that reaches.
    #[inline]
    pub(crate) fn copy_to(&self, bytes: &mut [u8]) {
        let room = bytes.len();
        self.each(0, room, |at, start, len| {
            // SAFETY: the piece lies in memory that the program lent to be read; `at + len` is at most `room`.
            unsafe { std::ptr::copy_nonoverlapping(start, bytes.as_mut_ptr().add(at), len) };
        });
    }

    /// A copy of all of it.
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len];
        self.copy_to(&mut bytes);
        bytes
    }

    /// The pieces of the `len` bytes from `offset` on, for a system call.
    pub(crate) fn list(&self, offset: usize, len: usize) -> Vec<iovec> {
        let mut list = Vec::new();
        self.each(offset, len, |_, start, len| list.push(iovec { iov_base: start.cast(), iov_len: len }));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_row_of_bytes() {
        let (mut a, mut b, mut c) = (*b"abc", *b"", *b"defgh");
        let piece = |bytes: &mut [u8]| iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let list = [piece(&mut a), piece(&mut b), piece(&mut c)];
        // SAFETY: the arrays live to the end of this function.
        let buffers = unsafe { Buffers::of_list(list.as_ptr(), list.len()) };
        assert_eq!((buffers.len(), buffers.to_vec()), (8, b"abcdefgh".to_vec()));
        assert_eq!(buffers.list(2, 3).iter().map(|piece| piece.iov_len).collect::<Vec<_>>(), [1, 2]);
        assert!(buffers.list(8, 1).is_empty());
        buffers.fill_from(b"12345");
        assert_eq!((&a, &c), (b"123", b"45fgh"));
    }
}

//! The program's memory of one operation, in one piece or several, as C lends it.

use libc::iovec;
use message_queue::Buffers;
use shm::lent::Piece;

/// Memory in one piece.
///
/// # Safety
/// `len` bytes from `start` can be read, and written if something is to be received, until the completion has
/// been read (or, where there is none, for the call); nobody else writes them meanwhile.
#[inline]
pub(crate) unsafe fn one(start: *mut u8, len: usize) -> Buffers {
    // SAFETY: by the caller's word.
    Buffers::Lent(unsafe { Piece::new(start, len) })
}

/// Memory in the pieces that a C array lists.
///
/// # Safety
/// As for [`one`], of each piece; and `count` structures can be read from `list`.
pub(crate) unsafe fn of_list(list: *const iovec, count: usize) -> Buffers {
    if count == 0 || list.is_null() {
        return Buffers::default();
    }
    // SAFETY: by the caller's word.
    let list = unsafe { std::slice::from_raw_parts(list, count) };
    // SAFETY: by the caller's word.
    let piece = |piece: &iovec| unsafe { Piece::new(piece.iov_base.cast(), piece.iov_len) };
    match list {
        [only] => Buffers::Lent(piece(only)),
        list => Buffers::Scattered(list.iter().map(piece).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message_queue::buffers::Source;

    #[test]
    fn pieces_are_one_row_of_bytes() {
        let (mut a, mut b, mut c) = (*b"abc", *b"", *b"defgh");
        let piece = |bytes: &mut [u8]| iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let list = [piece(&mut a), piece(&mut b), piece(&mut c)];
        // SAFETY: the arrays live to the end of this function.
        let (all, first) = unsafe { (of_list(list.as_ptr(), list.len()), of_list(list.as_ptr(), 1)) };
        assert_eq!((all.len(), all.to_vec()), (8, b"abcdefgh".to_vec()));
        assert!(matches!(first, Buffers::Lent(piece) if piece.len() == 3));
    }
}

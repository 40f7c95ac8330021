//! Memory of the program that is lent to an operation for some time.
//!
//! An operation that goes on after the call that began it (a receive that waits for its message) needs memory
//! that the program promises to leave alone until the operation has ended. The promise is made once, where a
//! [`Piece`] is made; what is done with it is checked.

use crate::window::Window;

/// A range of the program's memory.
#[derive(Debug)]
pub struct Piece {
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to the operation, not to a thread: whoever made the piece has promised that
// nobody else uses it.
unsafe impl Send for Piece {}

impl Piece {
    /// Lends `len` bytes from `start`.
    ///
    /// # Safety
    /// Until the operation that gets the piece has ended, the bytes can be read, and written if something is
    /// to be received into them; nobody else writes them, and nobody else reads them if something is received
    /// into them.
    #[inline]
    #[must_use]
    pub unsafe fn new(start: *mut u8, len: usize) -> Self {
        Self { start, len }
    }

    /// Divides it: what is left begins `len` bytes later. At the end if there are not so many.
    #[must_use]
    pub fn split_off_front(&mut self, len: usize) -> Self {
        let len = len.min(self.len);
        let front = Self { start: self.start, len };
        // Within the memory, or one past its end.
        (self.start, self.len) = (self.start.wrapping_add(len), self.len - len);
        front
    }

    /// Number of bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address of the first byte.
    #[inline]
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start
    }

    /// Copies up to `len` bytes of a window of a ring, from `from` on, to `offset` on. What either side does
    /// not have is left out.
    #[inline]
    pub fn fill(&self, offset: usize, window: &Window<'_>, from: usize, len: usize) {
        let len = self.within(offset, len);
        if len > 0 {
            // SAFETY: the range lies in the memory that was lent to be written to, and nobody else uses it
            // meanwhile.
            let bytes = unsafe { core::slice::from_raw_parts_mut(self.start.add(offset), len) };
            // A window that is too short leaves the bytes alone: its user has checked its length before.
            let _ = window.get_from_ring(from, bytes);
        }
    }

    /// Copies up to `len` bytes from `offset` on into a window of a ring, to `to` on. What either side does
    /// not have is left out.
    #[inline]
    pub fn put_into(&self, offset: usize, len: usize, window: &Window<'_>, to: usize) {
        let len = self.within(offset, len);
        if len > 0 {
            // SAFETY: the range lies in the memory that was lent to be read, which nobody writes meanwhile.
            let bytes = unsafe { core::slice::from_raw_parts(self.start.add(offset), len) };
            // As in `fill`.
            let _ = window.put_into_ring(to, bytes);
        }
    }

    /// Copies `bytes` to `offset` on, as far as there is room.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let len = self.within(offset, bytes.len());
        if len > 0 {
            // SAFETY: the range lies in the memory that was lent to be written to, and cannot overlap a
            // slice.
            unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(offset), len) };
        }
    }

    /// Copies from `offset` on into `bytes`, as far as there are bytes.
    #[inline]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) {
        let len = self.within(offset, bytes.len());
        if len > 0 {
            // SAFETY: the range lies in the memory that was lent to be read, and cannot overlap a slice that
            // can be written.
            unsafe { core::ptr::copy_nonoverlapping(self.start.add(offset), bytes.as_mut_ptr(), len) };
        }
    }

    /// How many of `len` bytes from `offset` on lie in the piece.
    #[inline]
    fn within(&self, offset: usize, len: usize) -> usize {
        len.min(self.len.saturating_sub(offset))
    }
}

/// Memory that is never used otherwise again.
impl From<&'static mut [u8]> for Piece {
    fn from(bytes: &'static mut [u8]) -> Self {
        // SAFETY: the exclusive borrow lasts forever, so nobody else reads or writes the bytes.
        unsafe { Self::new(bytes.as_mut_ptr(), bytes.len()) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::region::{Region, RegionOptions};

    #[test]
    fn a_piece_is_divided_without_a_byte_in_both() {
        let mut rest = Piece::from(Box::leak(Box::new(*b"0123456789")).as_mut_slice());
        let front = rest.split_off_front(4);
        let all = rest.split_off_front(100);
        assert_eq!((front.len(), all.len(), rest.len()), (4, 6, 0));
        all.write(0, b"abcdefgh");
        front.write(2, b"xyz");
        let mut back = [0; 10];
        front.read(0, &mut back[..4]);
        all.read(0, &mut back[4..]);
        rest.read(0, &mut back);
        assert_eq!(&back, b"01xyabcdef");
    }

    #[test]
    fn copies_stay_within_the_piece() {
        let mut memory = *b"0123456789";
        // SAFETY: the array outlives the piece, and is only used through it until it is dropped.
        let piece = unsafe { Piece::new(memory.as_mut_ptr().add(2), 5) };
        let region = Region::create(&RegionOptions::new("lent", 64)).unwrap();
        region.window().put(0, b"abcdefgh").unwrap();
        piece.fill(3, &region.window(), 1, 7);
        piece.write(5, b"no room");
        let mut back = [0; 4];
        piece.read(2, &mut back);
        assert_eq!(&back, b"4bc\0");
        piece.put_into(1, 100, &region.window(), 8);
        let mut put = [0; 5];
        region.window().get(8, &mut put).unwrap();
        assert_eq!(&put, b"34bc\0");
        assert_eq!((piece.len(), piece.is_empty()), (5, false));
        assert_eq!(&memory, b"01234bc789");
    }
}

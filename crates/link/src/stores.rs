//! Stores that are carried out by the owner, one after the other.
//!
//! Packed as they travel: of each store 8 bytes of offset, 4 of length (little endian), and its bytes.

use shm::sync::{Ordering, fence};
use shm::window::Window;

use crate::error::{LinkError, Result, check_range};

/// Bytes before those of each store.
const HEAD_BYTES: usize = 12;
/// Longer stores are noted in pieces, so that a message can be cut between two.
const PIECE_BYTES: usize = 4096;

/// Stores in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stores {
    packed: Vec<u8>,
    end: usize,
    /// Where the last one begins in `packed`.
    last: usize,
}

impl Stores {
    /// None.
    #[must_use]
    pub const fn new() -> Self {
        Self { packed: Vec::new(), end: 0, last: 0 }
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.packed.is_empty()
    }

    /// The bytes that they take on their way.
    #[must_use]
    pub const fn packed_bytes(&self) -> usize {
        self.packed.len()
    }

    /// One past the last byte that one of them writes.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.end
    }

    /// Forgets them, and keeps the room.
    pub fn clear(&mut self) {
        self.packed.clear();
        (self.end, self.last) = (0, 0);
    }

    /// Adds one behind all others.
    pub fn push(&mut self, offset: usize, bytes: &[u8]) {
        self.end = self.end.max(offset.saturating_add(bytes.len()));
        if self.join(offset, bytes).is_some() {
            return;
        }
        for (index, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
            let at = (offset + index * PIECE_BYTES) as u64;
            self.last = self.packed.len();
            self.packed.extend_from_slice(&at.to_le_bytes());
            self.packed.extend_from_slice(&(piece.len() as u32).to_le_bytes());
            self.packed.extend_from_slice(piece);
        }
    }

    /// Makes it part of the last one, if it lies right behind that: bytes are stored from the lowest on.
    fn join(&mut self, offset: usize, bytes: &[u8]) -> Option<()> {
        let (last, _) = next(self.packed.get(self.last..)?)?;
        let len = last.bytes.len() + bytes.len();
        if last.offset + last.bytes.len() != offset || len > PIECE_BYTES {
            return None;
        }
        let place = self.packed.get_mut(self.last + 8..self.last + HEAD_BYTES)?;
        place.copy_from_slice(&(len as u32).to_le_bytes());
        self.packed.extend_from_slice(bytes);
        Some(())
    }

    /// The same, packed, in parts of whole stores, each at most `max_bytes` long, which is at least
    /// [`Stores::PART_BYTES`].
    pub fn parts(&self, max_bytes: usize) -> impl Iterator<Item = &[u8]> {
        let mut left = self.packed.as_slice();
        std::iter::from_fn(move || {
            let mut len = 0;
            while let Some((store, _)) = next(left.get(len..)?)
                && len + store.packed_bytes() <= max_bytes
            {
                len += store.packed_bytes();
            }
            let (part, rest) = left.split_at_checked(len).filter(|_| len > 0)?;
            left = rest;
            Some(part)
        })
    }

    /// The longest packed store.
    pub const PART_BYTES: usize = HEAD_BYTES + PIECE_BYTES;

    /// Carries out what is packed in `part`, a part of somebody else's: all of it, or nothing if it is not
    /// well-formed or leaves the memory. A reader that finds a byte of one store finds those of all stores
    /// before it, and within a store those at lower offsets; aligned words of 2, 4 and 8 bytes are stored
    /// whole.
    ///
    /// # Errors
    /// [`LinkError::OutOfRange`], also for what is not well-formed.
    pub fn carry_out(part: &[u8], memory: &Window<'_>) -> Result<()> {
        let size_bytes = memory.len();
        let mut left = part;
        while !left.is_empty() {
            let (store, rest) = next(left).ok_or(LinkError::OutOfRange {
                offset: size_bytes,
                len: left.len(),
                size_bytes,
            })?;
            check_range(store.offset, store.bytes.len(), size_bytes)?;
            left = rest;
        }
        left = part;
        while let Some((store, rest)) = next(left) {
            store_bytes(memory, store.offset, store.bytes)?;
            left = rest;
        }
        Ok(())
    }

    /// Carries out all of them.
    ///
    /// # Errors
    /// As [`Stores::carry_out`].
    pub fn carry_out_all(&self, memory: &Window<'_>) -> Result<()> {
        Self::carry_out(&self.packed, memory)
    }
}

struct Store<'a> {
    offset: usize,
    bytes: &'a [u8],
}

impl Store<'_> {
    const fn packed_bytes(&self) -> usize {
        HEAD_BYTES + self.bytes.len()
    }
}

/// The first store, and what follows. Nothing for what [`Stores::push`] does not write.
fn next(packed: &[u8]) -> Option<(Store<'_>, &[u8])> {
    let (offset, rest) = packed.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let (offset, len) = (u64::from_le_bytes(*offset), u32::from_le_bytes(*len));
    let (bytes, rest) = rest.split_at_checked(usize::try_from(len).ok()?)?;
    Some((Store { offset: usize::try_from(offset).ok()?, bytes }, rest))
}

/// Stores from the first byte on, in the widest words that are aligned.
fn store_bytes(memory: &Window<'_>, mut offset: usize, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        let fits = 1 << bytes.len().ilog2().min(3);
        let width = if offset == 0 { fits } else { fits.min(1 << offset.trailing_zeros().min(3)) };
        let (word, rest) = bytes.split_at(width);
        // Release: pairs with the Acquire loads of a program that polls one of these words. It finds
        // what was stored before.
        fence(Ordering::Release);
        match width {
            8 => memory.store_u64(offset, u64::from_ne_bytes(array(word)))?,
            4 => memory.store_u32(offset, u32::from_ne_bytes(array(word)))?,
            2 => memory.store_u16(offset, u16::from_ne_bytes(array(word)))?,
            _ => memory.store_u8(offset, word[0])?,
        }
        (offset, bytes) = (offset + width, rest);
    }
    Ok(())
}

fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| bytes[at])
}

#[cfg(test)]
mod tests {
    use shm::region::{Region, RegionOptions};

    use super::*;

    #[test]
    fn stores_are_carried_out_in_their_order_wherever_they_lie() {
        let region = Region::create(&RegionOptions::new("stores", 16 << 10)).unwrap();
        let mut stores = Stores::new();
        let mut wanted = vec![0_u8; 16 << 10];
        let mut put = |offset: usize, bytes: &[u8]| {
            stores.push(offset, bytes);
            wanted[offset..offset + bytes.len()].copy_from_slice(bytes);
        };
        for offset in 0..40 {
            for len in 1..40_usize {
                let bytes: Vec<u8> = (0..len).map(|at| (at * 3 + len + offset) as u8).collect();
                put(offset * 101, &bytes);
            }
        }
        put(7, &[9; 9000]);
        put(7, &[8; 3]);
        stores.carry_out_all(&region.window()).unwrap();
        let mut found = vec![0; 16 << 10];
        region.window().get(0, &mut found).unwrap();
        assert!(found == wanted);
        // In parts it is the same.
        region.window().fill(0, 16 << 10, 0).unwrap();
        let mut bytes = 0;
        for part in stores.parts(8192) {
            assert!(part.len() <= 8192);
            bytes += part.len();
            Stores::carry_out(part, &region.window()).unwrap();
        }
        assert_eq!(bytes, stores.packed_bytes());
        region.window().get(0, &mut found).unwrap();
        assert!(found == wanted);
    }

    #[test]
    fn stores_that_lie_one_behind_the_other_are_one() {
        let mut stores = Stores::new();
        for (offset, bytes) in
            [(7, vec![1; 3]), (10, vec![2; 5]), (15, vec![]), (15, vec![3; PIECE_BYTES - 8])]
        {
            stores.push(offset, &bytes);
        }
        assert_eq!(stores.packed_bytes(), Stores::PART_BYTES);
        // It is as long as one may be; and what lies before it is another.
        stores.push(7 + PIECE_BYTES, &[4]);
        stores.push(6, &[5]);
        assert_eq!(stores.packed_bytes(), Stores::PART_BYTES + 2 * (HEAD_BYTES + 1));
        assert_eq!((stores.end(), stores.parts(Stores::PART_BYTES).count()), (8 + PIECE_BYTES, 2));
    }

    #[test]
    fn what_is_not_well_formed_or_leaves_the_memory_changes_nothing() {
        let region = Region::create(&RegionOptions::new("stores", 4096)).unwrap();
        let mut stores = Stores::new();
        stores.push(0, &[1; 8]);
        let good = stores.packed.clone();
        stores.push(4090, &[2; 7]);
        assert_eq!(stores.end(), 4097);
        assert!(stores.carry_out_all(&region.window()).is_err());
        stores.clear();
        stores.push(usize::MAX - 3, &[2; 3]);
        assert!(stores.carry_out_all(&region.window()).is_err());
        for len in 1..good.len() {
            assert!(Stores::carry_out(&good[..len], &region.window()).is_err(), "{len}");
        }
        let long = [good.as_slice(), &[0; 5]].concat();
        assert!(Stores::carry_out(&long, &region.window()).is_err());
        assert_eq!(region.window().load_u64(0).unwrap(), 0);
        Stores::carry_out(&good, &region.window()).unwrap();
        assert_eq!(region.window().load_u64(0).unwrap(), u64::from_ne_bytes([1; 8]));
    }
}

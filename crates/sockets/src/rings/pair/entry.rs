//! The entry of an end in the user's registry.
//!
//! Any process of the user may write anything there. An entry is a hint where to look: whether it is true is
//! asked of the kernel.

use super::diag::Opposite;
use crate::rings::proc;

/// Header of an entry.
pub(super) const WORDS: usize = 8;
/// Bytes of an entry.
pub(super) const BYTES: usize = WORDS * size_of::<u64>();

/// First word of an entry: its kind and version.
const MAGIC: u64 = u64::from_le_bytes(*b"TLentry1");

/// One entry. The cookie of a socket is a number that no other socket of this kernel has had since it was
/// started (`SO_COOKIE`, socket(7)).
#[derive(Clone, Copy)]
pub(super) struct Entry(pub(super) [u64; WORDS]);

impl Entry {
    /// Of the end `cookie`, whose connection's other end is `other`: descriptor `number` of `process` is the
    /// socket `inode`, and, if it has made its region, its descriptor `region` is that. `processor`: see
    /// [`super::processor::only`].
    pub(super) fn new(
        cookie: u64,
        other: u64,
        inode: u64,
        process: u32,
        number: u32,
        region: Option<u32>,
        processor: Option<u32>,
    ) -> Self {
        let holder = u64::from(process) << 32 | u64::from(number);
        let [region, processor] = [region, processor].map(|number| number.map_or(0, |it| u64::from(it) + 1));
        let mut entry = Self([MAGIC, cookie, other, inode, holder, region, processor, 0]);
        entry.0[WORDS - 1] = entry.sum();
        entry
    }

    /// An entry may be read while another process writes it: the last word tells whether the others belong
    /// together (FNV-1a).
    fn sum(&self) -> u64 {
        let words = self.0.iter().take(WORDS - 1);
        words.fold(0xcbf2_9ce4_8422_2325, |sum, word| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3))
    }

    /// Whether it is whole.
    pub(super) fn is_whole(&self) -> bool {
        self.0[0] == MAGIC && self.0[WORDS - 1] == self.sum()
    }

    /// Whether it is the same. Word by word: comparing arrays would be the C library's.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(own, other)| own == other)
    }

    pub(super) fn cookie(&self) -> u64 {
        self.0[1]
    }

    pub(super) fn other(&self) -> u64 {
        self.0[2]
    }

    pub(super) fn process(&self) -> u32 {
        (self.0[4] >> 32) as u32
    }

    /// The descriptor of its region, if it has made one.
    pub(super) fn region(&self) -> Option<u32> {
        u32::try_from(self.0[5].checked_sub(1)?).ok()
    }

    /// The only processor that its thread may run on, if there is only one.
    pub(super) fn processor(&self) -> Option<u32> {
        u32::try_from(self.0[6].checked_sub(1)?).ok()
    }

    /// Whether it is of this end, which the kernel has named, and the process that it names has that socket.
    pub(super) fn is_of(&self, end: &Opposite) -> bool {
        let (process, number) = (self.process(), self.0[4] as u32);
        self.cookie() == end.cookie
            && self.0[3] == u64::from(end.inode)
            && i32::try_from(process).is_ok_and(|process| process > 0)
            && proc::is_socket(process, number, u64::from(end.inode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_says_what_it_was_made_of() {
        let entry = Entry::new(7, 8, 9, 10, 11, Some(0), Some(3));
        assert!(entry.is_whole());
        assert_eq!((entry.cookie(), entry.other(), entry.process(), entry.region()), (7, 8, 10, Some(0)));
        assert_eq!(entry.processor(), Some(3));
        let entry = Entry::new(7, 8, 9, 10, 11, None, None);
        assert_eq!((entry.region(), entry.processor()), (None, None));
    }

    #[test]
    fn an_entry_with_another_word_is_not_whole() {
        let entry = Entry::new(7, 8, 9, 10, 11, None, None);
        for at in 0..WORDS {
            let mut other = entry;
            other.0[at] ^= 1 << at;
            assert!(!other.is_whole(), "word {at}");
        }
        assert!(!Entry([0; WORDS]).is_whole());
    }

    #[test]
    fn a_number_that_is_no_descriptor_is_no_region_and_no_processor() {
        let mut entry = Entry::new(7, 8, 9, 10, 11, Some(1), None);
        (entry.0[5], entry.0[6]) = (u64::MAX, u64::MAX);
        assert_eq!((entry.region(), entry.processor()), (None, None));
    }
}

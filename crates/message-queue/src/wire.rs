//! The records in the rings, which begin with one word, the head. Both ends are processes of one machine, so
//! words are in its own byte order.
//!
//! | kind | meaning | id | then |
//! |---|---|---|---|
//! | `Eager` | a message, or its first part | sender's operation, if it wants to be told | tag, data if it has any, length if more follows, the bytes |
//! | `More` | the next part of the message that was begun | 0 | the bytes |
//! | `Offer` | a message that the receiver is to fetch | sender's operation | tag, data if it has any, length, address in the sender |
//! | `Done` | the operation is done: the receiver needs its memory no more | sender's operation | |
//! | `Ask` | the receiver cannot fetch: the message is to be sent through the ring | sender's operation | receiver's operation, bytes |
//! | `Part` | the next bytes of it | receiver's operation | the bytes |
//! | `Stopped` | no more parts come: the sender was told `Done` before all were sent | receiver's operation | |
//! | `Bye` | the end point is closed: nothing follows | 0 | |
//!
//! A tag that fits 32 bits stands in the place of the id, if the sender of an `Eager` message needs no
//! answer.
//!
//! The head of a message takes 8 bytes with such a tag, else 16, and 8 more with data: with up to 48 (40, 32)
//! bytes of payload it shares one cache line with the word that announces it. Of messages of 8 bytes three
//! share one.

use shm::window::Window;

/// Bytes of a head.
pub(crate) const WORD_BYTES: usize = 8;
/// Longest beginning of a record: head, tag, data, length, address.
pub(crate) const BEGINNING_WORDS: usize = 5;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Eager = 1,
    Offer = 2,
    Done = 3,
    Ask = 4,
    Part = 5,
    Bye = 6,
    More = 7,
    Stopped = 8,
}

/// An untagged message; else it is tagged.
pub(crate) const PLAIN: u8 = 1;
/// Data for the receiver's completion follow the tag.
pub(crate) const HAS_DATA: u8 = 2;
/// The sender wants a `Done` when the message has been taken out of the ring.
pub(crate) const TELL_TAKEN: u8 = 4;
/// The sender wants a `Done` when the message has met its receive.
pub(crate) const TELL_MATCHED: u8 = 8;
/// The message lies in one piece at the address of the offer.
pub(crate) const ONE_PIECE: u8 = 16;
/// Only the first part of the message is in this record.
pub(crate) const HAS_MORE: u8 = 32;
/// A message of a collective operation.
pub(crate) const GROUP: u8 = 64;
/// The id is the tag.
pub(crate) const SHORT_TAG: u8 = 128;

/// The beginning of each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) id: u32,
}

/// What the record of a whole message says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Simple {
    pub(crate) flags: u8,
    pub(crate) tag: u64,
    pub(crate) data: Option<u64>,
    /// Where its bytes begin.
    pub(crate) at: usize,
}

impl Head {
    #[inline]
    pub(crate) fn word(self) -> u64 {
        u64::from(self.kind as u8) | u64::from(self.flags) << 8 | u64::from(self.id) << 32
    }

    /// The head of a record, if it is one.
    #[inline]
    pub(crate) fn read(record: &Window<'_>) -> Option<Self> {
        let word = record.load_u64(0).ok()?;
        let kind = match word as u8 {
            1 => Kind::Eager,
            2 => Kind::Offer,
            3 => Kind::Done,
            4 => Kind::Ask,
            5 => Kind::Part,
            6 => Kind::Bye,
            7 => Kind::More,
            8 => Kind::Stopped,
            _ => return None,
        };
        let flags = (word >> 8) as u8;
        // Bits that mean nothing may mean something to another version.
        let rest = word >> 16 & 0xffff;
        (rest == 0).then_some(Self { kind, flags, id: (word >> 32) as u32 })
    }

    /// What a record says of itself, if it is a whole message whose sender needs no answer.
    #[inline]
    pub(crate) fn of_simple(record: &Window<'_>) -> Option<Simple> {
        const ANY_SPACE: u64 = ((PLAIN | GROUP) as u64) << 8;
        const WITH_DATA: u64 = (HAS_DATA as u64) << 8;
        const WITH_TAG: u64 = (SHORT_TAG as u64) << 8;
        const EAGER: u64 = Kind::Eager as u64;
        let word = record.load_u64(0).ok()?;
        let (low, high, flags) = (u64::from(word as u32), word >> 32, (word >> 8) as u8);
        let (tag, at) = match (low & !ANY_SPACE & !WITH_DATA, high) {
            (low, tag) if low == EAGER | WITH_TAG => (tag, WORD_BYTES),
            (EAGER, 0) => (record.load_u64(WORD_BYTES).ok()?, 2 * WORD_BYTES),
            _ => return None,
        };
        if low & WITH_DATA == 0 {
            return Some(Simple { flags, tag, data: None, at });
        }
        let data = record.load_u64(at).ok()?;
        Some(Simple { flags, tag, data: Some(data), at: at + WORD_BYTES })
    }

    #[inline]
    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The words before the payload of a record, on their way into a ring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beginning {
    words: [u64; BEGINNING_WORDS],
    count: usize,
}

impl Beginning {
    #[inline]
    pub(crate) fn new(head: Head) -> Self {
        Self { words: [head.word(), 0, 0, 0, 0], count: 1 }
    }

    /// With one more word. No record has more than [`BEGINNING_WORDS`].
    #[inline]
    pub(crate) fn with(mut self, word: u64) -> Self {
        if let Some(place) = self.words.get_mut(self.count) {
            *place = word;
            self.count += 1;
        }
        self
    }

    /// All of them.
    #[inline]
    pub(crate) fn words(&self) -> &[u64] {
        self.words.get(..self.count).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shm::region::{Region, RegionOptions};

    #[test]
    fn a_head_reads_back_and_nonsense_does_not() {
        let head = Head { kind: Kind::Ask, flags: TELL_TAKEN | ONE_PIECE, id: 0xfedc_ba98 };
        let region = Region::create(&RegionOptions::new("head", 64)).unwrap();
        let window = region.window();
        assert_eq!(Head::read(&window), None);
        let beginning = Beginning::new(head).with(7).with(u64::MAX);
        for (at, word) in beginning.words().iter().enumerate() {
            window.store_u64(at * 8, *word).unwrap();
        }
        assert_eq!(beginning.words().len(), 3);
        assert_eq!(Head::read(&window), Some(head));
        assert_eq!([8, 16, 24].map(|at| window.load_u64(at).unwrap()), [7, u64::MAX, 0]);
        assert_eq!(Head::read(&window.sub(0, 7).unwrap()), None);
        for bit in [3, 16, 31] {
            window.store_u64(0, head.word() ^ 1 << bit).unwrap();
            assert_eq!(Head::read(&window), None, "bit {bit}");
        }
        let simple = |kind, flags, id| {
            window.store_u64(0, Head { kind, flags, id }.word()).unwrap();
            Head::of_simple(&window)
        };
        for flags in [0, PLAIN, GROUP] {
            let is = |flags, tag, data, at| Some(Simple { flags, tag, data, at });
            assert_eq!(simple(Kind::Eager, flags, 0), is(flags, 7, None, 16));
            let with_tag = flags | SHORT_TAG;
            assert_eq!(simple(Kind::Eager, with_tag, u32::MAX), is(with_tag, u64::from(u32::MAX), None, 8));
            let (with_data, with_both) = (flags | HAS_DATA, with_tag | HAS_DATA);
            assert_eq!(simple(Kind::Eager, with_data, 0), is(with_data, 7, Some(u64::MAX), 24));
            assert_eq!(simple(Kind::Eager, with_both, 5), is(with_both, 5, Some(7), 16));
        }
        let others = [TELL_TAKEN, TELL_MATCHED, ONE_PIECE, HAS_MORE];
        let others = others.into_iter().flat_map(|flag| [flag, flag | SHORT_TAG]);
        let others = others.map(|flags| (Kind::Eager, flags, 0));
        for (kind, flags, id) in others.chain([(Kind::Offer, 0, 0), (Kind::Eager, 0, 1)]) {
            assert_eq!(simple(kind, flags, id), None, "{kind:?} {flags} {id}");
        }
    }
}

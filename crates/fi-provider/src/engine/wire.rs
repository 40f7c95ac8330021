//! What lies in the rings: records that begin with a head of three words. Both ends are processes of one machine, so words are in its own
//! byte order.
//!
//! | kind | meaning | id | word 1 | word 2 | then |
//! |---|---|---|---|---|---|
//! | `Eager` | a whole message | sender's operation, if it wants to be told | tag | data | the message |
//! | `Offer` | a message that the receiver is to fetch | sender's operation | tag | data | length, address in the sender |
//! | `Done` | the operation is done: the receiver needs its memory no more | sender's operation | 0 | 0 | |
//! | `Ask` | the receiver cannot fetch: the message is to be sent through the ring | sender's operation | receiver's operation | bytes | |
//! | `Part` | the next bytes of it | receiver's operation | 0 | 0 | the bytes |

use shm::window::Window;

/// Bytes of a head.
pub(crate) const HEAD_BYTES: usize = 24;
/// Bytes of an `Offer`.
pub(crate) const OFFER_BYTES: usize = HEAD_BYTES + 16;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Eager = 1,
    Offer = 2,
    Done = 3,
    Ask = 4,
    Part = 5,
}

/// A tagged message; else it is untagged.
pub(crate) const TAGGED: u8 = 1;
/// Word 2 is data for the receiver's completion.
pub(crate) const HAS_DATA: u8 = 2;
/// The sender wants a `Done` when the message has been taken out of the ring.
pub(crate) const TELL: u8 = 4;
/// The message lies in one piece at the address of the offer.
pub(crate) const ONE_PIECE: u8 = 8;

/// The beginning of each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) id: u32,
    pub(crate) first: u64,
    pub(crate) second: u64,
}

impl Head {
    #[inline]
    pub(crate) fn bytes(&self) -> [u8; HEAD_BYTES] {
        let word = u64::from(self.kind as u8) | u64::from(self.flags) << 8 | u64::from(self.id) << 32;
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(&word.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.first.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.second.to_ne_bytes());
        bytes
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
            _ => return None,
        };
        let (first, second) = (record.load_u64(8).ok()?, record.load_u64(16).ok()?);
        Some(Self { kind, flags: (word >> 8) as u8, id: (word >> 32) as u32, first, second })
    }

    #[inline]
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_reads_back_and_nonsense_does_not() {
        let head =
            Head { kind: Kind::Ask, flags: TELL | TAGGED, id: 0xfedc_ba98, first: u64::MAX - 1, second: 3 };
        let region = shm::region::Region::create(&shm::region::RegionOptions::new("head", 64)).unwrap();
        let window = region.window();
        assert_eq!(Head::read(&window), None);
        window.put(0, &head.bytes()).unwrap();
        assert_eq!(Head::read(&window), Some(head));
        assert_eq!(Head::read(&window.sub(0, 23).unwrap()), None);
    }
}

//! What an end point asks another one to do in its memory, as it travels: a message between end points that
//! no program's receive looks at, with a head and, if they are few, the bytes.
//!
//! The owner's own thread does it, while its program lets libfabric make progress, and answers with a message
//! whose data word is 0 or libfabric's number of an error, and whose bytes are what was asked for. Many bytes
//! to be written follow in a message of their own, straight into the owner's memory.

/// Bytes of a head.
pub(crate) const HEAD_BYTES: usize = 48;
/// Most bytes behind a head: a request always goes in one record of a ring.
pub(crate) const INLINE_MAX_BYTES: usize = 4096;
/// The tag of requests.
pub(crate) const REQUESTS: u64 = 0;

/// The tag of the answer to the request of this number.
pub(crate) fn answer_tag(id: u32) -> u64 {
    1 << 63 | u64::from(id)
}

/// The tag of the bytes that follow the request of this number.
pub(crate) fn payload_tag(id: u32) -> u64 {
    1 << 62 | u64::from(id)
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Write the bytes behind the head.
    Write,
    /// Write the bytes that follow in a message of their own.
    WriteLong,
    /// Answer with bytes.
    Read,
    /// Change elements by operands, which stand behind the head.
    Atomic,
    /// The same; answer with what there was before.
    Fetch,
    /// Change them if they compare so: behind the head stand the operands, and behind them what they are
    /// compared with. Answer with what there was before.
    Compare,
}

impl What {
    const ALL: [Self; 6] =
        [Self::Write, Self::WriteLong, Self::Read, Self::Atomic, Self::Fetch, Self::Compare];

    /// Whether the answer has bytes.
    pub(crate) fn gets_bytes(self) -> bool {
        matches!(self, Self::Read | Self::Fetch | Self::Compare)
    }

    /// Whether it is an atomic operation.
    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, Self::Atomic | Self::Fetch | Self::Compare)
    }
}

/// The head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) what: What,
    /// Libfabric's numbers of the elements' type and of the operation, if it is atomic.
    pub(crate) datatype: u8,
    pub(crate) op: u8,
    /// A number of the asking end point's, for the answer.
    pub(crate) id: u32,
    pub(crate) key: u64,
    pub(crate) address: u64,
    pub(crate) len: u64,
    /// A word for the owner's completion of a write.
    pub(crate) data: Option<u64>,
}

impl Head {
    pub(crate) fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let first = [self.what as u8, self.datatype, self.op, u8::from(self.data.is_some())];
        bytes[..4].copy_from_slice(&first);
        bytes[4..8].copy_from_slice(&self.id.to_le_bytes());
        for (at, word) in [self.key, self.address, self.len, self.data.unwrap_or(0)].into_iter().enumerate() {
            bytes[8 + 8 * at..16 + 8 * at].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The head of a message, and what stands behind it; `None` if it is none.
    pub(crate) fn decode(message: &[u8]) -> Option<(Self, &[u8])> {
        let (head, behind) = message.split_at_checked(HEAD_BYTES)?;
        let word = |at: usize| Some(u64::from_le_bytes(*head.get(at..)?.first_chunk()?));
        let what = *What::ALL.get(usize::from(head[0]))?;
        let has_data = match head[3] {
            0 => false,
            1 => true,
            _ => return None,
        };
        let data = word(32)?;
        let decoded = Self {
            what,
            datatype: head[1],
            op: head[2],
            id: u32::from_le_bytes(*head.get(4..)?.first_chunk()?),
            key: word(8)?,
            address: word(16)?,
            len: word(24)?,
            data: has_data.then_some(data),
        };
        (word(40)? == 0 && (has_data || data == 0)).then_some((decoded, behind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_as_it_was_written_and_no_other() {
        for (at, what) in What::ALL.into_iter().enumerate() {
            assert_eq!(what as usize, at);
            for data in [None, Some(0), Some(u64::MAX)] {
                let head = Head {
                    what,
                    datatype: 7,
                    op: 12,
                    id: u32::MAX - 1,
                    key: 3,
                    address: u64::MAX,
                    len: 9,
                    data,
                };
                let mut message = head.encode().to_vec();
                message.extend(b"behind");
                assert_eq!(Head::decode(&message), Some((head, &b"behind"[..])));
                assert_eq!(Head::decode(&message[..HEAD_BYTES - 1]), None);
                for (at, byte) in [(0, 6), (3, 2), (47, 1)] {
                    let mut other = message.clone();
                    other[at] = byte;
                    assert_eq!(Head::decode(&other), None, "byte {at}");
                }
            }
        }
    }
}

//! What can be chosen about an end point.

use std::time::Duration;

/// How a receiver gets the bytes of a message that was offered to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fetch {
    /// In the way that costs less of the two below: both are tried for each peer and size.
    #[default]
    Measured,
    /// Copied out of the sender's memory by the receiver, where the kernel allows that; else in parts.
    Read,
    /// Through the ring in parts: the sender copies them in while the receiver copies them out.
    InParts,
}

/// Choices of one end point. Both ends of a pair may choose differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Memory of a ring for one direction between two end points: rounded up to a power of two.
    ///
    /// With the 32 KiB of the default, 1,000 end points that have 20 active peers each take less than 1 GiB
    /// in all.
    pub ring_bytes: usize,
    /// Longest message that goes through the ring in one record (*eager*); a longer one is offered to the
    /// receiver, which fetches it (*rendezvous*). At most what a record of the ring takes.
    pub eager_max_bytes: usize,
    /// Longest part of an eager message in one record; a longer one has several, so that the receiver copies
    /// one while the sender writes the next.
    pub cut_bytes: usize,
    /// How offered messages come.
    pub fetch: Fetch,
    /// Parts that have not come for so long, and for as long as a copy of all would take, are not waited for:
    /// the receiver copies the message out of the sender's memory, where the kernel allows it.
    pub part_wait: Duration,
    /// Unexpected messages that are kept for all peers together: beyond, rings are read only as far as their
    /// next record is needed.
    pub unexpected: Bounds,
    /// Unexpected messages that are kept for one peer: beyond, its ring is read only as far as its next
    /// record is needed, so it has to wait, and nobody else has.
    ///
    /// While a receive waits that a later message of this peer could go to, or an operation with it is under
    /// way, its ring is read on: what is waited for may lie behind. As much is kept then as is left of the
    /// limit for all peers together, so one peer alone can have half of that and others still have theirs.
    /// Beyond, it is waited for until the program has received some of the messages before it; `stopped`
    /// names the peers.
    pub unexpected_per_peer: Bounds,
    /// Peers that may make themselves known.
    pub peers_max: u32,
}

/// A limit of what is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Number of messages.
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ring_bytes: 32 << 10,
            eager_max_bytes: 8 << 10,
            cut_bytes: 8 << 10,
            fetch: Fetch::Measured,
            part_wait: Duration::from_micros(10),
            unexpected: Bounds { messages: 1 << 16, bytes: 64 << 20 },
            unexpected_per_peer: Bounds { messages: 1 << 12, bytes: 4 << 20 },
            peers_max: 1 << 16,
        }
    }
}

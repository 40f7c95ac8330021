//! The trait that finds segments by name.

use std::os::fd::OwnedFd;

use proto::ids::{NodeId, SegmentKey};

/// What a directory hands out: the right to reach a piece of memory.
#[derive(Debug)]
pub struct Grant {
    /// The owner's node.
    pub node: NodeId,
    /// The size in bytes.
    pub size_bytes: u64,
    /// On links of one machine: the memory itself.
    pub memory: OwnedFd,
}

/// Finds segments. The node manager's client implements it; tests use one in memory.
pub trait Directory: Send + Sync {
    /// What went wrong, in the directory's own words.
    type Error: std::error::Error + Send + Sync + 'static;
    /// The life of a grant: shows whether the other end still lives.
    type Import: Send + Sync;

    /// Asks for a segment of a node.
    fn find(&self, node: NodeId, key: SegmentKey) -> Result<(Grant, Self::Import), Self::Error>;

    /// Gives a grant back.
    fn release(&self, import: &Self::Import) -> Result<(), Self::Error>;
}

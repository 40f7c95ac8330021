//! Errors of links.

use proto::ids::NodeId;

/// An operation on remote memory failed.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The link cannot do this at all.
    #[error("the {link} link cannot {what}: {why}: `tieline query` shows what it can")]
    NotSupported {
        /// The type of the link.
        link: &'static str,
        /// What was asked.
        what: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// The range lies outside of the remote memory.
    #[error(
        "{len} bytes at offset {offset} lie outside of remote memory of {size_bytes} bytes: check offset and length"
    )]
    OutOfRange {
        /// First byte.
        offset: usize,
        /// The number of bytes.
        len: usize,
        /// Size of the memory.
        size_bytes: usize,
    },
    /// Not a multiple of what the operation needs.
    #[error(
        "offset {offset} is not aligned to {align} bytes, which this operation needs: give a multiple of {align}"
    )]
    Misaligned {
        /// The offset.
        offset: usize,
        /// What it should be a multiple of.
        align: usize,
    },
    /// The memory itself is not acceptable.
    #[error("remote memory cannot be used: {0}")]
    Memory(#[from] shm::Error),
    /// The link is down.
    #[error(
        "the link to node {node} is down: see `tieline status`; if it was taken down on purpose, `tieline link up A B` brings it up"
    )]
    Down {
        /// The other end.
        node: NodeId,
    },
    /// What was put since the last barrier may be missing; the connection can go on.
    #[error(
        "what was put over the {link} link to node {node} may be missing, as one of its rails failed under it: resume the connection \
         (RemoteSegment::resume) and repeat what was put since the last barrier, or connect again"
    )]
    InDoubt {
        /// The type of the link.
        link: &'static str,
        /// The other end.
        node: NodeId,
    },
    /// The network between, or the other end, failed.
    #[error("the {link} link to node {node} failed: {why}")]
    Failed {
        /// The type of the link.
        link: &'static str,
        /// The other end.
        node: NodeId,
        /// The link's own error, with its next step.
        why: String,
    },
}

/// Result on a link.
pub type Result<T> = std::result::Result<T, LinkError>;

/// Whether a range lies within memory of that size.
pub fn check_range(offset: usize, len: usize, size_bytes: usize) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= size_bytes => Ok(()),
        _ => Err(LinkError::OutOfRange { offset, len, size_bytes }),
    }
}

//! Segments that several programs of one node share.

use std::os::fd::OwnedFd;
use std::time::Duration;

use proto::ids::SegmentKey;
use proto::wire::program::Request;

use crate::client::Client;
use crate::error::Result;
use crate::import::Import;

impl Client {
    /// Lets programs of this node and user attach to a segment of this program, whether it is available or
    /// not.
    pub fn share_segment(&self, key: SegmentKey) -> Result<()> {
        self.order(Request::ShareSegment { key }, &[])
    }

    /// Attaches to a shared segment of this node: its life, its memory, its size in bytes. A process that is
    /// attached may use [`Client::set_available`] on it. It ends with [`Client::disconnect`].
    pub fn attach_segment(&self, key: SegmentKey) -> Result<(Import, OwnedFd, u64)> {
        let answer = self.ask(Request::AttachSegment { key }, &[])?;
        self.segment_of(answer)
    }

    /// As [`Self::attach_segment`], but waits at most `limit` for the segment to exist and be shared. The
    /// error is then the last one seen.
    pub fn attach_segment_within(&self, key: SegmentKey, limit: Duration) -> Result<(Import, OwnedFd, u64)> {
        let answer = self.ask_until(Request::AttachSegment { key }, limit)?;
        self.segment_of(answer)
    }
}

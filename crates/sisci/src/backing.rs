//! The memory of a local segment.

use std::sync::Arc;
use std::time::Duration;

use tieline::{AttachedSegment, GroupMember, Segment, SegmentEvent, SegmentMemory};

use crate::callback::Reason;
use crate::code::{Code, Result};

/// The memory of a local segment.
#[derive(Debug)]
pub(crate) enum Backing {
    /// A segment of its own.
    Own(Segment),
    /// This node's copy of a group.
    Member(GroupMember),
    /// A segment that another program of the node has created and shares.
    Attached(AttachedSegment),
}

impl Backing {
    /// The segment, if this program has created it.
    fn own(&self) -> std::result::Result<&Segment, &AttachedSegment> {
        match self {
            Self::Own(segment) => Ok(segment),
            Self::Member(member) => Ok(member.segment()),
            Self::Attached(segment) => Err(segment),
        }
    }

    /// Whether it is a copy of a group.
    pub(crate) fn is_member(&self) -> bool {
        matches!(self, Self::Member(_))
    }

    pub(crate) fn memory(&self) -> &Arc<SegmentMemory> {
        match self.own() {
            Ok(segment) => segment.memory(),
            Err(attached) => attached.memory(),
        }
    }

    pub(crate) fn share(&self) -> Result<()> {
        match self {
            Self::Own(segment) => Ok(segment.share()?),
            Self::Member(_) => Err(Code::ILLEGAL_OPERATION
                .because("the copy of a group belongs to one program: the others connect to the group")),
            // It is shared, as requested.
            Self::Attached(_) => Ok(()),
        }
    }

    /// Whether other programs may have changed its state.
    pub(crate) fn is_shared(&self) -> bool {
        self.own().map_or(true, Segment::is_shared)
    }

    /// Prepares the memory; for a shared segment its creator does that.
    pub(crate) fn prepare(&self) -> tieline::Result<()> {
        self.own().map_or(Ok(()), Segment::prepare)
    }

    pub(crate) fn make_available(&self) -> tieline::Result<()> {
        match self.own() {
            Ok(segment) => segment.make_available(),
            Err(attached) => attached.make_available(),
        }
    }

    pub(crate) fn withdraw(&self, disconnect: bool) -> tieline::Result<()> {
        match self.own() {
            Ok(segment) => segment.withdraw(disconnect),
            Err(attached) => attached.withdraw(disconnect),
        }
    }

    /// Removes it; another program's is only let go.
    pub(crate) fn close(&self, force: bool) -> tieline::Result<()> {
        match self.own() {
            Ok(segment) => segment.close(force),
            Err(attached) => attached.detach(),
        }
    }

    /// Whether a connection has maps of it. Which processes are attached is not known.
    pub(crate) fn is_mapped(&self) -> tieline::Result<bool> {
        if self.is_shared() { Ok(true) } else { self.own().map_or(Ok(true), Segment::is_used) }
    }

    pub(crate) fn cancel_waits(&self) {
        match self.own() {
            Ok(segment) => segment.cancel_waits(),
            Err(attached) => attached.cancel_waits(),
        }
    }

    /// The next event of the segment, with the node that caused it.
    pub(crate) fn wait_event(&self, timeout: Duration) -> tieline::Result<(Reason, u32)> {
        match self.own() {
            Ok(segment) => Ok(match segment.wait_event(timeout)? {
                SegmentEvent::Connected { node } => (Reason::Connect, node.get()),
                SegmentEvent::Disconnected { node, died: false } => (Reason::Disconnect, node.get()),
                SegmentEvent::Disconnected { node, died: true } => (Reason::Lost, node.get()),
            }),
            Err(attached) => {
                attached.wait_lost(timeout)?;
                Ok((Reason::Lost, attached.node().get()))
            }
        }
    }
}

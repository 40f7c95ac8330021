//! Segments that other programs of this node share ([`Segment::share`](crate::Segment::share)),
//! used as own segments.
//!
//! Unlike a [`RemoteSegment`](crate::RemoteSegment) of one's own node it does not depend on the segment's
//! availability, which an attached program may change as well. The memory stays while it is held, also when
//! its owner is gone.

use std::sync::Arc;
use std::time::Duration;

use node_client::Import;
use proto::ids::{NodeId, SegmentId, SegmentKey};
use proto::wire::program::LossReason;
use shm::window::Window;

use crate::error::{Error, Result};
use crate::events::{Queue, Registration};
use crate::node::Node;
use crate::remote::{RemoteEvent, lost};
use crate::segment::SegmentMemory;

/// A segment of another program of this node that this program is attached to.
#[derive(Debug)]
pub struct AttachedSegment {
    node: Node,
    id: SegmentId,
    import: Import,
    memory: Arc<SegmentMemory>,
    events: Arc<Queue<RemoteEvent>>,
    _registration: Registration,
}

impl AttachedSegment {
    pub(crate) fn attach(node: &Node, id: SegmentId, timeout: Duration) -> Result<Self> {
        let key = SegmentKey::Segment(id);
        let (import, memory, size_bytes) = if timeout.is_zero() {
            node.client().attach_segment(key)?
        } else {
            node.client().attach_segment_within(key, timeout)?
        };
        let memory = match SegmentMemory::open(memory, size_bytes) {
            Ok(memory) => Arc::new(memory),
            Err(error) => {
                drop(node.client().disconnect(&import));
                return Err(error);
            }
        };
        let events = Arc::new(Queue::default());
        let registration = node.events().register_import(&import, &events);
        Ok(Self { node: node.clone(), id, import, memory, events, _registration: registration })
    }

    /// The node, which is this program's own.
    pub fn node(&self) -> NodeId {
        self.node.id()
    }

    /// Its id.
    pub fn id(&self) -> SegmentId {
        self.id
    }

    /// The size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.memory.size_bytes()
    }

    /// Its memory, for loads and stores. Others may write to it at any time.
    pub fn window(&self) -> Window<'_> {
        self.memory.window()
    }

    /// The memory by itself, which outlives the attachment where it is held.
    pub fn memory(&self) -> &Arc<SegmentMemory> {
        &self.memory
    }

    /// Whether the owner still has it: one load.
    pub fn check(&self) -> Result<()> {
        match lost(&self.import) {
            None => Ok(()),
            Some(reason) => Err(Error::Lost { what: self.what(), node: self.node.id(), reason }),
        }
    }

    /// Lets others connect, as its owner could.
    pub fn make_available(&self) -> Result<()> {
        self.set_available(true, false)
    }

    /// Refuses further connections, as its owner could. With `disconnect`, those who are connected see
    /// [`LossReason::Withdrawn`]; a process that is attached stays so.
    pub fn withdraw(&self, disconnect: bool) -> Result<()> {
        self.set_available(false, disconnect)
    }

    fn set_available(&self, available: bool, disconnect: bool) -> Result<()> {
        self.check()?;
        Ok(self.node.client().set_available(SegmentKey::Segment(self.id), available, disconnect)?)
    }

    /// Waits until its owner has removed it, or is gone. Returns once.
    pub fn wait_lost(&self, timeout: Duration) -> Result<LossReason> {
        let what = || format!("end of {}", self.what());
        let deadline = std::time::Instant::now().checked_add(timeout);
        loop {
            let left = deadline.map_or(timeout, |at| at.saturating_duration_since(std::time::Instant::now()));
            match self.events.wait(left, &what)? {
                Some(RemoteEvent::Lost(reason)) => return Ok(reason),
                // The link to one's own node cannot go down.
                Some(RemoteEvent::NotOperational | RemoteEvent::Operational) => {}
                None => return Err(Error::TimedOut { what: what() }),
            }
        }
    }

    /// Ends all waits with [`Error::Cancelled`], those of the future too.
    pub fn cancel_waits(&self) {
        self.events.cancel();
    }

    /// Ends the attachment while others may still hold this: its owner may then remove the segment. Again it
    /// does nothing.
    pub fn detach(&self) -> Result<()> {
        Ok(self.node.client().disconnect(&self.import)?)
    }

    fn what(&self) -> String {
        SegmentKey::Segment(self.id).to_string()
    }
}

impl Drop for AttachedSegment {
    fn drop(&mut self) {
        // A manager that is away, or an owner that is gone, needs no goodbye.
        drop(self.detach());
    }
}

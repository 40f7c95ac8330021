//! Memory of this program that other hosts may reach, and what opens it for them.

use std::sync::Arc;

use node_client::OwnLock;
use ofi::{Endpoint, Exported, MemoryCard, OfiError};

use super::of_parent;
use crate::segment::SegmentMemory;

/// Memory of this program that other hosts may reach.
#[derive(Debug)]
pub(crate) struct Reachable {
    memory: Arc<SegmentMemory>,
    /// One for each end point. Empty until a program of another host connects.
    exported: OwnLock<Vec<Exported>>,
}

impl Reachable {
    pub(crate) fn new(memory: &Arc<SegmentMemory>) -> Arc<Self> {
        Arc::new(Self { memory: Arc::clone(memory), exported: OwnLock::default() })
    }

    /// Nothing of what was given out is this one's any more.
    pub(super) fn take_all(&self) -> Vec<Exported> {
        self.exported.lock().map(|mut exported| std::mem::take(&mut *exported)).unwrap_or_default()
    }

    /// What was given out opens nothing any more, at once: the program goes on using the memory, and nobody
    /// else may write to it. A provider may end the connection by which a put comes that was under way.
    pub(crate) fn close(&self) {
        drop(self.take_all());
    }

    /// It cannot be reached at this end point any more.
    pub(super) fn withdraw_from(&self, end_point: &Endpoint) {
        let Some(mut exported) = self.exported.lock() else { return };
        let (withdrawn, kept) = exported.drain(..).partition(|exported| exported.is_of(end_point));
        *exported = kept;
        drop(exported);
        // The last user of the end point closes it, which takes a while: not behind the lock.
        drop::<Vec<Exported>>(withdrawn);
    }

    pub(super) fn card_at(&self, end_point: &Endpoint) -> Result<MemoryCard, OfiError> {
        let Some(mut exported) = self.exported.lock() else { return Err(of_parent()) };
        let known = exported.iter().position(|exported| exported.is_of(end_point));
        let index = match known {
            Some(index) => index,
            None => {
                exported.push(end_point.export(self.memory.shared_region())?);
                exported.len() - 1
            }
        };
        let mut card = exported[index].card().clone();
        // The region may be longer, by less than a page.
        card.size_bytes = self.memory.size_bytes() as u64;
        Ok(card)
    }
}

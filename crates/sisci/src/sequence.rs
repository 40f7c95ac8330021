//! `sci_sequence_t`: whether what was stored through a map could be relied on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shm::sync::plain::{Ordering, fence};
use tieline::SequenceStatus;

use crate::code::Result;
use crate::handle::{Handle, Handled, Kind};
use crate::library::Library;
use crate::map::{Map, Target};

/// `sci_sequence_status_t`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// `SCI_SEQ_OK`.
    Ok = 0,
    /// `SCI_SEQ_RETRIABLE`.
    Retriable,
    /// `SCI_SEQ_NOT_RETRIABLE`.
    NotRetriable,
    /// `SCI_SEQ_PENDING`.
    Pending,
}

/// Watches the memory behind one map.
#[derive(Debug)]
pub struct Sequence {
    map: Arc<Map>,
    /// Nothing to watch for memory of this program.
    watch: Mutex<Option<tieline::Sequence>>,
}

impl Handled for Sequence {
    const KIND: Kind = Kind::Sequence;
}

impl Sequence {
    fn lock(&self) -> MutexGuard<'_, Option<tieline::Sequence>> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happened since the last look. While the link is down nothing can be repeated yet.
    fn check(&self) -> Result<Status> {
        let mut watch = self.lock();
        let Some(watch) = watch.as_mut() else { return Ok(Status::Ok) };
        Ok(match watch.check()? {
            SequenceStatus::Ok if self.is_down() => Status::Pending,
            SequenceStatus::Ok => Status::Ok,
            SequenceStatus::Retriable if self.is_down() => Status::Pending,
            SequenceStatus::Retriable => Status::Retriable,
            SequenceStatus::Lost(_) => Status::NotRetriable,
        })
    }

    fn is_down(&self) -> bool {
        let Target::Remote(segment) = self.map.target() else { return false };
        segment.connection().is_ok_and(|connection| connection.segment.check().is_err())
    }

    /// Watches anew from now on.
    fn start(&self) -> Result<Status> {
        // What failed before does not count any more; what is so now does.
        match self.check()? {
            Status::Retriable => Ok(Status::Ok),
            status => Ok(status),
        }
    }
}

/// SCICreateMapSequence.
pub fn create(map: Handle<Map>) -> Result<Handle<Sequence>> {
    let library = Library::get()?;
    let map = library.maps.get(map)?;
    let watch = match map.target() {
        Target::Local(_) => None,
        Target::Remote(segment) => Some(segment.connection()?.segment.sequence()?),
    };
    library.sequences.insert(Arc::new(Sequence { map, watch: Mutex::new(watch) }))
}

/// SCIRemoveSequence.
pub fn remove(handle: Handle<Sequence>) -> Result<()> {
    Library::get()?.sequences.remove(handle).map(drop)
}

/// SCIStartSequence.
pub fn start(handle: Handle<Sequence>) -> Result<Status> {
    Library::get()?.sequences.get(handle)?.start()
}

/// SCICheckSequence: everything stored before is visible to the other side when it says that all is well.
pub fn check(handle: Handle<Sequence>) -> Result<Status> {
    let sequence = Library::get()?.sequences.get(handle)?;
    barrier();
    sequence.check()
}

/// SCIStoreBarrier, SCIFlush: what this thread has stored is visible to others before what it stores next.
pub fn barrier() {
    fence(Ordering::SeqCst);
}

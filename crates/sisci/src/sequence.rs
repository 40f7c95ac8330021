//! `sci_sequence_t`: whether stores through a map can be relied on.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shm::sync::plain::{Ordering, fence};
use tieline::SequenceStatus;

use crate::code::Result;
use crate::connection::Connection;
use crate::far;
use crate::group::{self, GroupWatch};
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

/// The watched memory.
#[derive(Debug)]
enum Watch {
    /// Memory of this program.
    Nothing,
    Segment(tieline::Sequence),
    Group(GroupWatch),
}

/// Watches the memory behind one map.
#[derive(Debug)]
pub struct Sequence {
    map: Arc<Map>,
    watch: Mutex<Watch>,
}

impl Handled for Sequence {
    const KIND: Kind = Kind::Sequence;
}

impl Sequence {
    fn lock(&self) -> MutexGuard<'_, Watch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The status since the last check. While the link is down, nothing can be repeated yet.
    fn check(&self) -> Result<Status> {
        let mut watch = self.lock();
        let (status, is_down) = match &mut *watch {
            Watch::Nothing => return Ok(Status::Ok),
            Watch::Segment(watch) => {
                if self.has_failed() {
                    return Ok(Status::NotRetriable);
                }
                (watch.check()?, self.is_down())
            }
            Watch::Group(watch) => (watch.check()?, watch.is_down()),
        };
        Ok(match status {
            SequenceStatus::Ok | SequenceStatus::Retriable if is_down => Status::Pending,
            SequenceStatus::Ok => Status::Ok,
            SequenceStatus::Retriable => Status::Retriable,
            SequenceStatus::Lost(_) => Status::NotRetriable,
        })
    }

    /// Waits until what was written to another host has arrived. A failure there is final: the
    /// connection does not stand again by itself.
    fn has_failed(&self) -> bool {
        let Target::Remote(segment) = self.map.target() else { return false };
        segment.connection().ok().and_then(Connection::far).is_some_and(|far| {
            // The failure is the connection's, or the status below says that the link is down.
            drop(far.settle());
            far.has_failed()
        })
    }

    fn is_down(&self) -> bool {
        let Target::Remote(segment) = self.map.target() else { return false };
        segment.connection().is_ok_and(|connection| connection.check().is_err())
    }

    /// Starts to watch again.
    fn start(&self) -> Result<Status> {
        // Earlier failures no longer count; the present state does.
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
        Target::Local(_) => Watch::Nothing,
        Target::Remote(segment) => match segment.connection()? {
            Connection::Segment { segment, .. } => Watch::Segment(segment.sequence()?),
            Connection::Far(far) => Watch::Segment(far.segment().sequence()?),
            Connection::Group(group) => Watch::Group(GroupWatch::start(group)?),
        },
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

/// SCICheckSequence: if it returns OK, everything stored before is visible to the other side.
pub fn check(handle: Handle<Sequence>) -> Result<Status> {
    let sequence = Library::get()?.sequences.get(handle)?;
    barrier();
    group::send_all();
    sequence.check()
}

/// SCIFlushReadBuffers: what is loaded next through the map is not older than this call.
pub fn refresh(handle: Handle<Sequence>) -> Result<()> {
    barrier();
    if handle.is_null() {
        return Ok(());
    }
    Library::get()?.sequences.get(handle)?.map.refresh()
}

/// SCIStoreBarrier, SCIFlush: what this thread has stored is visible to others before what it
/// stores next.
pub fn barrier() {
    fence(Ordering::SeqCst);
}

/// The same, and what was copied to other hosts has arrived there; and for a group: what is stored
/// next reaches every member that this process knows.
pub fn barrier_of(handle: Handle<Sequence>) -> Result<()> {
    barrier();
    far::settle_all(None)?;
    if !group::is_used() || handle.is_null() {
        return Ok(());
    }
    let sequence = Library::get().and_then(|library| library.sequences.get(handle));
    if let Ok(sequence) = sequence
        && let Target::Remote(segment) = sequence.map.target()
        && let Ok(Connection::Group(group)) = segment.connection()
    {
        // A function without an error argument: a process that cannot be followed now is followed
        // by the library's thread.
        drop(group.follow());
    }
    Ok(())
}

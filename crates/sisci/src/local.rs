//! `sci_local_segment_t`: memory of this program, from creation over preparation and availability
//! to removal.

use std::sync::Arc;

use proto::ids::{GroupId, SegmentId};
use shm::region::Reserve;
use shm::sync::plain::{AtomicU32, Ordering};
use shm::window::Window;
use tieline::{AttachedSegment, LocalMemory, SegmentMemory, SegmentOptions};

use crate::backing::Backing;
use crate::callback::{Callback, LocalSegmentFn, Reason};
use crate::code::{Code, Result, code_of};
use crate::descriptor::Descriptor;
use crate::flags;
use crate::handle::{Handle, Handled, Kind};
use crate::library::Library;
use crate::map::Maps;
use crate::register::Registration;
use crate::time::Until;
use crate::worker::Worker;

/// `SCI_FLAG_AUTO_ID` takes a free ID from the given one up to this number above it.
const AUTO_IDS: u32 = 128;
/// The only adapter that events name: links of all adapters lead to the same segments.
const EVENT_ADAPTER: u32 = 0;

/// A segment that this process has created, or is attached to.
#[derive(Debug)]
pub struct LocalSegment {
    _descriptor: Arc<Descriptor>,
    id: u32,
    size_bytes: usize,
    is_private: bool,
    backing: Backing,
    registration: Registration,
    /// Adapters, bit by bit.
    prepared: AtomicU32,
    available: AtomicU32,
    maps: Maps,
    worker: Worker,
}

impl Handled for LocalSegment {
    const KIND: Kind = Kind::LocalSegment;
}

impl LocalSegment {
    /// Whether it is this node's copy of a group.
    pub fn is_group_copy(&self) -> bool {
        self.backing.is_member()
    }

    /// Its id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Bytes, as requested.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Makes an object for a segment that another program has created.
    pub(crate) fn attached(descriptor: Arc<Descriptor>, segment: AttachedSegment) -> Self {
        let (id, size_bytes) = (segment.id().0, segment.size_bytes());
        let made = Self::new(descriptor, id, size_bytes, Backing::Attached(segment));
        // Its creator prepares it.
        made.prepared.store(u32::MAX, Ordering::Relaxed);
        made
    }

    fn new(descriptor: Arc<Descriptor>, id: u32, size_bytes: usize, backing: Backing) -> Self {
        Self {
            _descriptor: descriptor,
            id,
            size_bytes,
            is_private: false,
            backing,
            registration: Registration::new(false),
            prepared: AtomicU32::new(0),
            available: AtomicU32::new(0),
            maps: Maps::default(),
            worker: Worker::default(),
        }
    }

    /// Its memory.
    pub fn window(&self) -> Window<'_> {
        LocalMemory::window(&**self.memory())
    }

    /// Whether it has memory, for one that was created without.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    /// Its memory by itself.
    pub fn memory(&self) -> &Arc<SegmentMemory> {
        self.backing.memory()
    }

    /// Lets other programs of the node attach to it.
    pub fn share(&self) -> Result<()> {
        if self.is_private {
            let detail = format!("segment {} was created with SCI_FLAG_PRIVATE", self.id);
            return Err(Code::ILLEGAL_OPERATION.because(detail));
        }
        self.registration.check(self.id)?;
        self.backing.share()
    }

    /// Whether it may be a source of DMA.
    pub fn is_prepared(&self) -> bool {
        self.prepared.load(Ordering::Relaxed) != 0
    }

    pub(crate) fn maps(&self) -> &Maps {
        &self.maps
    }

    /// Ends waits and callbacks, and removes it, no matter which program uses it.
    pub fn stop(&self) {
        self.worker.stop(|| self.backing.cancel_waits());
        drop(self.backing.close(true));
        self.registration.end();
    }
}

fn bit(adapter: u32) -> u32 {
    1 << adapter
}

/// The arguments of SCICreateSegment.
#[derive(Debug)]
pub struct Wanted {
    /// The id, or with `AUTO_ID` the first to try.
    pub id: u32,
    /// The size in bytes.
    pub size_bytes: usize,
    /// The callback for events.
    pub callback: Option<Callback<LocalSegmentFn>>,
    /// `SCI_FLAG_…`.
    pub flags: u32,
}

/// SCICreateSegment.
pub fn create(descriptor: Handle<Descriptor>, wanted: &Wanted) -> Result<Handle<LocalSegment>> {
    let library = Library::get()?;
    let descriptor = library.descriptors.get(descriptor)?;
    if wanted.size_bytes == 0 {
        return Err(Code::ILLEGAL_PARAMETER.because("a segment needs at least one byte"));
    }
    let is_empty = wanted.flags & flags::EMPTY != 0;
    if is_empty && wanted.flags & flags::BROADCAST != 0 {
        return Err(
            Code::ILLEGAL_FLAG.because("the copy of a group has memory of its own: leave SCI_FLAG_EMPTY out")
        );
    }
    let (id, backing) = make_backing(library, wanted)?;
    let segment = LocalSegment {
        is_private: wanted.flags & flags::PRIVATE != 0,
        registration: Registration::new(is_empty),
        ..LocalSegment::new(descriptor, id, wanted.size_bytes, backing)
    };
    keep(library, segment, wanted.callback)
}

/// Gives it its handle, and the thread that calls back.
pub(crate) fn keep(
    library: &Library,
    segment: LocalSegment,
    callback: Option<Callback<LocalSegmentFn>>,
) -> Result<Handle<LocalSegment>> {
    let segment = Arc::new(segment);
    let handle = library.local_segments.insert(Arc::clone(&segment))?;
    if let Some(callback) = callback {
        let served = Arc::clone(&segment);
        segment
            .worker
            .start("sisci-segment", move || serve(&served, handle, &callback))
            .inspect_err(|_| drop(library.local_segments.remove(handle)))?;
    }
    Ok(handle)
}

fn make_backing(library: &Library, wanted: &Wanted) -> Result<(u32, Backing)> {
    let node = library.node()?;
    if wanted.flags & flags::BROADCAST != 0 {
        let member = node.create_group_copy(GroupId(wanted.id), wanted.size_bytes)?;
        return Ok((wanted.id, Backing::Member(member)));
    }
    let mut options = SegmentOptions::new(wanted.size_bytes);
    if wanted.flags & flags::EMPTY != 0 {
        // It has no memory until the program's own memory is registered.
        options.reserve = Reserve::Lazy;
    }
    if wanted.flags & flags::PRIVATE != 0 {
        // Other programs cannot connect to it, so it does not use up an ID.
        return Ok((wanted.id, Backing::Own(node.create_segment_with(&options)?)));
    }
    let tries = if wanted.flags & flags::AUTO_ID == 0 { 0 } else { AUTO_IDS };
    let mut id = wanted.id;
    loop {
        match node.create_segment_with(&options.clone().id(SegmentId(id))) {
            Err(error) if code_of(&error) == Code::SEGMENTID_USED && id.wrapping_sub(wanted.id) < tries => {
                id = id.wrapping_add(1);
            }
            made => return Ok((id, Backing::Own(made?))),
        }
    }
}

/// Life of the thread that calls back.
fn serve(segment: &LocalSegment, handle: Handle<LocalSegment>, callback: &Callback<LocalSegmentFn>) {
    while let Ok((reason, node)) = next_event(segment, Until::after(crate::time::INFINITE)) {
        if !callback.call(handle, reason, node, EVENT_ADAPTER, Code::OK) {
            return;
        }
    }
}

fn next_event(segment: &LocalSegment, until: Until) -> Result<(Reason, u32)> {
    loop {
        match segment.backing.wait_event(until.left()) {
            Err(tieline::Error::TimedOut { .. }) if !until.is_over() => {}
            result => return Ok(result?),
        }
    }
}

/// SCIPrepareSegment.
pub fn prepare(handle: Handle<LocalSegment>, adapter: u32) -> Result<()> {
    let library = Library::get()?;
    let segment = library.local_segments.get(handle)?;
    library.node_with(adapter)?;
    segment.registration.check(segment.id)?;
    segment.backing.prepare()?;
    segment.prepared.fetch_or(bit(adapter), Ordering::Relaxed);
    Ok(())
}

/// SCISetSegmentAvailable.
pub fn set_available(handle: Handle<LocalSegment>, adapter: u32) -> Result<()> {
    let library = Library::get()?;
    let segment = library.local_segments.get(handle)?;
    library.node_with(adapter)?;
    if segment.is_private {
        let detail = format!("segment {} was created with SCI_FLAG_PRIVATE", segment.id);
        return Err(Code::ILLEGAL_OPERATION.because(detail));
    }
    if segment.prepared.load(Ordering::Relaxed) & bit(adapter) == 0 {
        let detail = format!(
            "segment {} is not prepared for adapter {adapter}: call SCIPrepareSegment first",
            segment.id
        );
        return Err(Code::SEGMENT_NOT_PREPARED.because(detail));
    }
    segment.backing.make_available()?;
    segment.available.fetch_or(bit(adapter), Ordering::Relaxed);
    Ok(())
}

/// SCISetSegmentUnavailable.
pub fn set_unavailable(handle: Handle<LocalSegment>, adapter: u32, flags: u32) -> Result<()> {
    let library = Library::get()?;
    let segment = library.local_segments.get(handle)?;
    library.node_with(adapter)?;
    let before = segment.available.fetch_and(!bit(adapter), Ordering::Relaxed);
    let not_available = || {
        Code::ILLEGAL_OPERATION
            .because(format!("segment {} is not available on adapter {adapter}", segment.id))
    };
    // Another program may have made a shared one available: the node manager has its state.
    if before & bit(adapter) == 0 && !segment.backing.is_shared() {
        return Err(not_available());
    }
    if before & !bit(adapter) == 0 {
        let disconnect = flags & (flags::FORCE_DISCONNECT | flags::NOTIFY) != 0;
        match segment.backing.withdraw(disconnect) {
            Err(error) if code_of(&error) == Code::NO_SUCH_SEGMENT => return Err(not_available()),
            done => done?,
        }
    }
    Ok(())
}

/// SCIRemoveSegment.
pub fn remove(handle: Handle<LocalSegment>, flags: u32) -> Result<()> {
    let library = Library::get()?;
    let segment = library.local_segments.get(handle)?;
    let force = flags & flags::FORCE_REMOVE != 0;
    if !force {
        segment.maps.check_none(|| format!("segment {}", segment.id))?;
    }
    // A program that is connected to a group is not connected to this copy of it: a member leaves
    // when it likes.
    match segment.backing.close(force || segment.backing.is_member()) {
        // A connection that has no map keeps nothing: it learns of the removal.
        Err(error) if code_of(&error) == Code::BUSY && !segment.backing.is_mapped()? => {
            segment.backing.close(true)?;
        }
        closed => closed?,
    }
    library.local_segments.remove(handle)?;
    segment.stop();
    Ok(())
}

/// SCIWaitForLocalSegmentEvent: what happened, at which node, through which adapter.
pub fn wait_event(handle: Handle<LocalSegment>, timeout: u32) -> Result<(Reason, u32, u32)> {
    let segment = Library::get()?.local_segments.get(handle)?;
    if segment.worker.is_there() {
        return Err(Code::ILLEGAL_OPERATION
            .because("it has a callback, which gets its events: no thread can wait for them"));
    }
    let (reason, node) = next_event(&segment, Until::after(timeout))?;
    Ok((reason, node, EVENT_ADAPTER))
}

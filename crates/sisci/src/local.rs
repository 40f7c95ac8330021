//! `sci_local_segment_t`: memory of this program, from creation over preparation and availability to removal.

use std::sync::Arc;

use proto::ids::{GroupId, SegmentId};
use shm::region::Reserve;
use shm::sync::plain::{AtomicU32, AtomicUsize, Ordering};
use shm::window::Window;
use tieline::{GroupMember, LocalMemory, Segment, SegmentEvent, SegmentOptions};

use crate::callback::{Callback, LocalSegmentFn, Reason};
use crate::code::{Code, Result, code_of};
use crate::descriptor::Descriptor;
use crate::flags;
use crate::handle::{Handle, Handled, Kind};
use crate::library::Library;
use crate::register::Registration;
use crate::time::Until;
use crate::worker::Worker;

/// `SCI_FLAG_AUTO_ID` takes a free id from the one given up to so many above it.
const AUTO_IDS: u32 = 128;
/// The only adapter that events name: links of all adapters lead to the same segments.
const EVENT_ADAPTER: u32 = 0;

/// What stands behind the handle.
#[derive(Debug)]
enum Memory {
    /// A segment of its own.
    Own(Segment),
    /// This node's copy of a group.
    Member(GroupMember),
}

/// A segment that this process has created.
#[derive(Debug)]
pub struct LocalSegment {
    _descriptor: Arc<Descriptor>,
    id: u32,
    size_bytes: usize,
    is_private: bool,
    memory: Memory,
    registration: Registration,
    /// Adapters, bit by bit.
    prepared: AtomicU32,
    available: AtomicU32,
    /// Maps that there are.
    maps: AtomicUsize,
    worker: Worker,
}

impl Handled for LocalSegment {
    const KIND: Kind = Kind::LocalSegment;
}

impl LocalSegment {
    /// Its id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Bytes, as asked for.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// As the Rust API knows it.
    pub fn segment(&self) -> &Segment {
        match &self.memory {
            Memory::Own(segment) => segment,
            Memory::Member(member) => member.segment(),
        }
    }

    /// Its memory.
    pub fn window(&self) -> Window<'_> {
        self.segment().window()
    }

    /// Whether it has memory, for one that was created without.
    pub fn registration(&self) -> &Registration {
        &self.registration
    }

    /// For DMA.
    pub fn memory(&self) -> Arc<dyn LocalMemory> {
        Arc::<tieline::SegmentMemory>::clone(self.segment().memory())
    }

    /// Whether it may be a source of DMA.
    pub fn is_prepared(&self) -> bool {
        self.prepared.load(Ordering::Relaxed) != 0
    }

    /// Counts a map for as long as it lives.
    pub fn count_map(&self, there: bool) {
        if there {
            self.maps.fetch_add(1, Ordering::Relaxed);
        } else {
            self.maps.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Ends waits and callbacks, and removes it whoever uses it.
    pub fn stop(&self) {
        self.worker.stop(|| self.segment().cancel_waits());
        drop(self.segment().close(true));
        self.registration.end();
    }
}

fn bit(adapter: u32) -> u32 {
    1 << adapter
}

/// What SCICreateSegment is asked for.
#[derive(Debug)]
pub struct Wanted {
    /// The id, or with `AUTO_ID` the first to try.
    pub id: u32,
    /// Bytes.
    pub size_bytes: usize,
    /// Who is told of events.
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
            Code::ILLEGAL_FLAG.because("the copy of a group has memory of its own: leave SCI_FLAG_EMPTY")
        );
    }
    let (id, memory) = make_memory(library, wanted)?;
    let segment = Arc::new(LocalSegment {
        _descriptor: descriptor,
        id,
        size_bytes: wanted.size_bytes,
        is_private: wanted.flags & flags::PRIVATE != 0,
        memory,
        registration: Registration::new(is_empty),
        prepared: AtomicU32::new(0),
        available: AtomicU32::new(0),
        maps: AtomicUsize::new(0),
        worker: Worker::default(),
    });
    let handle = library.local_segments.insert(Arc::clone(&segment))?;
    if let Some(callback) = wanted.callback {
        let served = Arc::clone(&segment);
        segment
            .worker
            .start("sisci-segment", move || serve(&served, handle, &callback))
            .inspect_err(|_| drop(library.local_segments.remove(handle)))?;
    }
    Ok(handle)
}

fn make_memory(library: &Library, wanted: &Wanted) -> Result<(u32, Memory)> {
    let node = library.node()?;
    if wanted.flags & flags::BROADCAST != 0 {
        let member = node.create_group_copy(GroupId(wanted.id), wanted.size_bytes)?;
        return Ok((wanted.id, Memory::Member(member)));
    }
    let mut options = SegmentOptions::new(wanted.size_bytes);
    if wanted.flags & flags::EMPTY != 0 {
        // Until the program's own memory is registered there is none.
        options.reserve = Reserve::Lazy;
    }
    if wanted.flags & flags::PRIVATE != 0 {
        // Nobody can ask for it, so it takes no id that somebody could want.
        return Ok((wanted.id, Memory::Own(node.create_segment_with(&options)?)));
    }
    let tries = if wanted.flags & flags::AUTO_ID == 0 { 0 } else { AUTO_IDS };
    let mut id = wanted.id;
    loop {
        match node.create_segment_with(&options.clone().id(SegmentId(id))) {
            Err(error) if code_of(&error) == Code::SEGMENTID_USED && id.wrapping_sub(wanted.id) < tries => {
                id = id.wrapping_add(1);
            }
            made => return Ok((id, Memory::Own(made?))),
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
        match segment.segment().wait_event(until.left()) {
            Ok(SegmentEvent::Connected { node }) => return Ok((Reason::Connect, node.get())),
            Ok(SegmentEvent::Disconnected { node, died: false }) => {
                return Ok((Reason::Disconnect, node.get()));
            }
            Ok(SegmentEvent::Disconnected { node, died: true }) => return Ok((Reason::Lost, node.get())),
            Err(tieline::Error::TimedOut { .. }) if !until.is_over() => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// SCIPrepareSegment.
pub fn prepare(handle: Handle<LocalSegment>, adapter: u32) -> Result<()> {
    let library = Library::get()?;
    let segment = library.local_segments.get(handle)?;
    library.node_with(adapter)?;
    segment.registration.check(segment.id)?;
    segment.segment().prepare()?;
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
            "segment {} is not prepared for adapter {adapter}: SCIPrepareSegment comes first",
            segment.id
        );
        return Err(Code::SEGMENT_NOT_PREPARED.because(detail));
    }
    segment.segment().make_available()?;
    segment.available.fetch_or(bit(adapter), Ordering::Relaxed);
    Ok(())
}

/// SCISetSegmentUnavailable.
pub fn set_unavailable(handle: Handle<LocalSegment>, adapter: u32, flags: u32) -> Result<()> {
    let library = Library::get()?;
    let segment = library.local_segments.get(handle)?;
    library.node_with(adapter)?;
    let before = segment.available.fetch_and(!bit(adapter), Ordering::Relaxed);
    if before & bit(adapter) == 0 {
        let detail = format!("segment {} is not available on adapter {adapter}", segment.id);
        return Err(Code::ILLEGAL_OPERATION.because(detail));
    }
    if before == bit(adapter) {
        let disconnect = flags & (flags::FORCE_DISCONNECT | flags::NOTIFY) != 0;
        segment.segment().withdraw(disconnect)?;
    }
    Ok(())
}

/// SCIRemoveSegment.
pub fn remove(handle: Handle<LocalSegment>, flags: u32) -> Result<()> {
    let library = Library::get()?;
    let segment = library.local_segments.get(handle)?;
    let force = flags & flags::FORCE_REMOVE != 0;
    let maps = segment.maps.load(Ordering::Relaxed);
    if maps > 0 && !force {
        let detail =
            format!("segment {} is still mapped {maps} time(s): SCIUnmapSegment comes first", segment.id);
        return Err(Code::BUSY.because(detail));
    }
    segment.segment().close(force)?;
    library.local_segments.remove(handle)?;
    segment.stop();
    Ok(())
}

/// SCIWaitForLocalSegmentEvent: what happened, at which node, through which adapter.
pub fn wait_event(handle: Handle<LocalSegment>, timeout: u32) -> Result<(Reason, u32, u32)> {
    let segment = Library::get()?.local_segments.get(handle)?;
    if segment.worker.is_there() {
        return Err(Code::ILLEGAL_OPERATION.because("its events go to the callback that it was created with"));
    }
    let (reason, node) = next_event(&segment, Until::after(timeout))?;
    Ok((reason, node, EVENT_ADAPTER))
}

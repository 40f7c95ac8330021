//! `sci_dma_queue_t`: block copies between a local and a remote segment.
//!
//! Small transfers are copied by the caller before the start returns, because waking a thread takes
//! longer. Large ones, and those with a callback, are copied by a library thread that the queue
//! gets with the first of them.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use shm::region::MapAccess;
use shm::window::Window;
use tieline::{Direction, DmaEntry, DmaState, LocalMemory};

use crate::callback::{Callback, DmaFn};
use crate::code::{Code, Result, code_of};
use crate::descriptor::Descriptor;
use crate::flags;
use crate::handle::{Handle, Handled, Kind};
use crate::library::Library;
use crate::local::LocalSegment;
use crate::remote::RemoteSegment;
use crate::time;

/// Longest vector, and most entries of a queue.
pub const ENTRIES_MAX: usize = 1 << 16;
/// Transfers up to this size are copied by the caller.
const INLINE_BYTES: usize = 1 << 20;
/// Pieces of larger ones: an abort takes effect between two.
const PIECE_BYTES: usize = 1 << 20;

/// `sci_dma_queue_state_t`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// `SCI_DMAQUEUE_IDLE`.
    Idle = 0,
    /// `SCI_DMAQUEUE_GATHER`.
    Gather,
    /// `SCI_DMAQUEUE_POSTED`.
    Posted,
    /// `SCI_DMAQUEUE_DONE`.
    Done,
    /// `SCI_DMAQUEUE_ABORTED`.
    Aborted,
    /// `SCI_DMAQUEUE_ERROR`.
    Error,
}

impl From<DmaState> for State {
    fn from(state: DmaState) -> Self {
        match state {
            DmaState::Idle => Self::Idle,
            DmaState::Gathering => Self::Gather,
            DmaState::Posted => Self::Posted,
            DmaState::Done => Self::Done,
            DmaState::Aborted => Self::Aborted,
            DmaState::Failed => Self::Error,
        }
    }
}

/// The thread that copies the transfer of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copier {
    /// No owner.
    Nobody,
    Caller,
    Engine,
}

/// A queue.
#[derive(Debug)]
pub struct DmaQueue {
    _descriptor: Arc<Descriptor>,
    max_entries: usize,
    caller: tieline::DmaQueue,
    /// Made with the first transfer that needs it.
    engine: OnceLock<tieline::DmaQueue>,
    turn: Mutex<Copier>,
}

impl Handled for DmaQueue {
    const KIND: Kind = Kind::DmaQueue;
}

impl DmaQueue {
    fn turn(&self) -> MutexGuard<'_, Copier> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn queue(&self, copier: Copier) -> Option<&tieline::DmaQueue> {
        match copier {
            Copier::Nobody => None,
            Copier::Caller => Some(&self.caller),
            Copier::Engine => self.engine.get(),
        }
    }

    fn engine(&self) -> Result<&tieline::DmaQueue> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let made = Library::get()?.node()?.dma_engine(ENTRIES_MAX)?;
        // Under `turn`, so no other thread has made one since.
        Ok(self.engine.get_or_init(|| made))
    }

    fn state(&self) -> State {
        let copier = *self.turn();
        self.queue(copier).map_or(State::Idle, |queue| queue.poll().into())
    }

    /// Ends the transfers in progress.
    pub fn stop(&self) {
        for queue in [Some(&self.caller), self.engine.get()].into_iter().flatten() {
            queue.abort();
        }
    }
}

/// SCICreateDMAQueue.
pub fn create(descriptor: Handle<Descriptor>, adapter: u32, max_entries: u32) -> Result<Handle<DmaQueue>> {
    let library = Library::get()?;
    let descriptor = library.descriptors.get(descriptor)?;
    let node = library.node_with(adapter)?;
    let max_entries = usize::try_from(max_entries).unwrap_or(usize::MAX);
    if max_entries == 0 || max_entries > ENTRIES_MAX {
        let detail = format!("a DMA queue takes 1 to {ENTRIES_MAX} entries, not {max_entries}");
        return Err(Code::ILLEGAL_PARAMETER.because(detail));
    }
    let caller = node.dma_queue(ENTRIES_MAX)?;
    let (engine, turn) = (OnceLock::new(), Mutex::new(Copier::Nobody));
    library.dma_queues.insert(Arc::new(DmaQueue {
        _descriptor: descriptor,
        max_entries,
        caller,
        engine,
        turn,
    }))
}

/// SCIRemoveDMAQueue.
pub fn remove(handle: Handle<DmaQueue>) -> Result<()> {
    let library = Library::get()?;
    let queue = library.dma_queues.get(handle)?;
    if queue.state() == State::Posted {
        return Err(Code::BUSY.because("a transfer is in progress: wait for it, or call SCIAbortDMAQueue"));
    }
    library.dma_queues.remove(handle).map(drop)
}

/// Memory of the program that is no segment.
#[derive(Debug)]
struct PlainMemory {
    address: usize,
    size_bytes: usize,
}

impl LocalMemory for PlainMemory {
    fn window(&self) -> Window<'_> {
        let start = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: by SCIStartDmaTransferMem the program guarantees that these bytes stay mapped
        // until the transfer has ended; no Rust reference to them exists.
        unsafe { Window::from_raw(start, self.size_bytes, MapAccess::ReadWrite) }
    }
}

/// The place of a transfer's local bytes.
#[derive(Clone, Copy, Debug)]
pub enum Local {
    /// In a segment.
    Segment(Handle<LocalSegment>),
    /// At an address.
    Memory {
        /// First byte.
        address: usize,
        /// The number of bytes.
        size_bytes: usize,
    },
}

impl Local {
    fn memory(self, library: &Library) -> Result<Arc<dyn LocalMemory>> {
        match self {
            Self::Segment(handle) => {
                let segment = library.local_segments.get(handle)?;
                if !segment.is_prepared() {
                    let detail =
                        format!("segment {} is not prepared: call SCIPrepareSegment first", segment.id());
                    return Err(Code::SEGMENT_NOT_PREPARED.because(detail));
                }
                Ok(Arc::<tieline::SegmentMemory>::clone(segment.memory()))
            }
            Self::Memory { address: 0, .. } => {
                Err(Code::ILLEGAL_PARAMETER.because("the local address is NULL"))
            }
            Self::Memory { address, size_bytes } => Ok(Arc::new(PlainMemory { address, size_bytes })),
        }
    }
}

/// A transfer.
#[derive(Debug)]
pub struct Transfer<'a> {
    /// One end.
    pub local: Local,
    /// The remote segment.
    pub remote: Handle<RemoteSegment>,
    /// The ranges to copy.
    pub vector: &'a [DmaEntry],
    /// The callback at the end.
    pub callback: Option<Callback<DmaFn>>,
    /// `SCI_FLAG_…`.
    pub flags: u32,
}

/// The forms of SCIStartDmaTransfer.
pub fn start(handle: Handle<DmaQueue>, transfer: &Transfer<'_>) -> Result<()> {
    let library = Library::get()?;
    let queue = library.dma_queues.get(handle)?;
    if transfer.vector.is_empty() || transfer.vector.len() > ENTRIES_MAX {
        let detail = format!("a vector has 1 to {ENTRIES_MAX} entries, not {}", transfer.vector.len());
        return Err(Code::MAX_ENTRIES.because(detail));
    }
    let total = transfer.vector.iter().fold(0_usize, |total, entry| total.saturating_add(entry.size_bytes));
    let is_waited_for = transfer.flags & flags::DMA_WAIT != 0;
    let mut turn = take(&queue)?;
    if transfer.callback.is_none() && (is_waited_for || total <= INLINE_BYTES) {
        gather(library, &queue.caller, transfer)?;
        *turn = Copier::Caller;
        queue.caller.post()?;
        if is_waited_for || queue.caller.state() == DmaState::Posted {
            queue.caller.wait(None)?;
        }
        return ended(&queue.caller);
    }
    let engine = queue.engine()?;
    gather(library, engine, transfer)?;
    *turn = Copier::Engine;
    match transfer.callback {
        None => engine.post()?,
        Some(callback) => engine.post_with(move |state| {
            callback.call(handle, status_of(state));
        })?,
    };
    drop(turn);
    if is_waited_for {
        engine.wait(None)?;
    }
    Ok(())
}

/// The error of a transfer that has failed already.
fn ended(queue: &tieline::DmaQueue) -> Result<()> {
    match queue.state() {
        DmaState::Failed => Ok(queue.wait(None).map(drop)?),
        _ => Ok(()),
    }
}

fn status_of(state: DmaState) -> Code {
    match state {
        DmaState::Done => Code::OK,
        DmaState::Aborted => Code::CANCELLED,
        _ => Code::TRANSFER_FAILED,
    }
}

/// The queue for a new transfer; what it held before must have ended.
fn take(queue: &DmaQueue) -> Result<MutexGuard<'_, Copier>> {
    let turn = queue.turn();
    match queue.queue(*turn).map(tieline::DmaQueue::poll) {
        Some(DmaState::Posted) => {
            Err(Code::BUSY.because("the earlier transfer is in progress: wait for it first"))
        }
        _ => Ok(turn),
    }
}

fn gather(library: &Library, queue: &tieline::DmaQueue, transfer: &Transfer<'_>) -> Result<()> {
    let local = transfer.local.memory(library)?;
    let remote = library.remote_segments.get(transfer.remote)?;
    let direction = if transfer.flags & flags::DMA_READ == 0 { Direction::Push } else { Direction::Pull };
    let is_cut = |entry: &DmaEntry| entry.size_bytes > PIECE_BYTES;
    let piece_count: usize = transfer.vector.iter().map(|entry| entry.size_bytes.div_ceil(PIECE_BYTES)).sum();
    // More pieces than a queue holds: then an abort has to wait for a whole entry.
    if !transfer.vector.iter().any(is_cut) || piece_count > ENTRIES_MAX {
        return gather_each(queue, &local, &remote, direction, transfer.vector);
    }
    let pieces: Vec<DmaEntry> = transfer.vector.iter().flat_map(pieces).collect();
    gather_each(queue, &local, &remote, direction, &pieces)
}

/// Transfers to each copy of a group, or from one copy.
fn gather_each(
    queue: &tieline::DmaQueue,
    local: &Arc<dyn LocalMemory>,
    remote: &RemoteSegment,
    direction: Direction,
    vector: &[DmaEntry],
) -> Result<()> {
    let gather = |end: &tieline::RemoteSegment| Ok(queue.gather_memory(local, end, direction, vector)?);
    remote.connection()?.ends(direction == Direction::Pull, gather)
}

fn pieces(entry: &DmaEntry) -> impl Iterator<Item = DmaEntry> + use<> {
    let entry = *entry;
    (0..entry.size_bytes).step_by(PIECE_BYTES).map(move |done| DmaEntry {
        size_bytes: PIECE_BYTES.min(entry.size_bytes - done),
        // Saturating: an entry that lies outside stays outside, and is refused as a whole.
        local_offset: entry.local_offset.saturating_add(done),
        remote_offset: entry.remote_offset.saturating_add(done),
    })
}

/// SCIDMAQueueState.
pub fn state(handle: Handle<DmaQueue>) -> Result<State> {
    Ok(Library::get()?.dma_queues.get(handle)?.state())
}

/// SCIWaitForDMAQueue. A queue that has ended, or never began, is not waited for.
pub fn wait(handle: Handle<DmaQueue>, timeout: u32) -> Result<State> {
    let queue = Library::get()?.dma_queues.get(handle)?;
    let copier = *queue.turn();
    let Some(queue) = queue.queue(copier) else { return Ok(State::Idle) };
    match queue.wait(time::timeout(timeout)) {
        Ok(state) => Ok(state.into()),
        // The start, or an earlier wait, has returned the cause.
        Err(tieline::Error::Failed { .. }) => Ok(State::Error),
        Err(error) => Err(code_of(&error).because(error.to_string())),
    }
}

/// SCIAbortDMAQueue: when it returns, no byte is copied any more.
pub fn abort(handle: Handle<DmaQueue>) -> Result<()> {
    let queue = Library::get()?.dma_queues.get(handle)?;
    let copier = *queue.turn();
    if let Some(queue) = queue.queue(copier)
        && queue.abort() == DmaState::Posted
    {
        queue.wait(None)?;
    }
    Ok(())
}

/// SCIEnqueueDMATransfer (1.x): adds to what SCIPostDMAQueue starts; or with `DMA_POST` starts all
/// of it, with `DMA_WAIT` waits for the end, and with `DMA_RESET` then forgets it.
pub fn enqueue(handle: Handle<DmaQueue>, transfer: &Transfer<'_>) -> Result<State> {
    let library = Library::get()?;
    let queue = library.dma_queues.get(handle)?;
    let mut turn = take(&queue)?;
    // The engine: a caller that posts later may want to be called back.
    let engine = queue.engine()?;
    if engine.gathered() + transfer.vector.len() > queue.max_entries {
        return Err(
            Code::MAX_ENTRIES.because(format!("the queue was made for {} entries", queue.max_entries))
        );
    }
    gather(library, engine, transfer)?;
    *turn = Copier::Engine;
    if transfer.flags & flags::DMA_POST == 0 {
        return Ok(State::Gather);
    }
    engine.post()?;
    drop(turn);
    if transfer.flags & flags::DMA_WAIT == 0 {
        return Ok(queue.state());
    }
    engine.wait(None)?;
    if transfer.flags & flags::DMA_RESET != 0 {
        reset(handle)?;
    }
    Ok(queue.state())
}

/// SCIPostDMAQueue (1.x).
pub fn post(handle: Handle<DmaQueue>, callback: Option<Callback<DmaFn>>) -> Result<()> {
    let queue = Library::get()?.dma_queues.get(handle)?;
    let turn = queue.turn();
    let gathering = queue.queue(*turn).filter(|queue| queue.state() == DmaState::Gathering);
    let gathering = gathering.ok_or_else(|| Code::ILLEGAL_OPERATION.because("nothing was enqueued"))?;
    match callback {
        None => gathering.post()?,
        Some(callback) => gathering.post_with(move |state| {
            callback.call(handle, status_of(state));
        })?,
    };
    Ok(())
}

/// SCIResetDMAQueue (1.x): forgets transfers that have ended or were never posted.
pub fn reset(handle: Handle<DmaQueue>) -> Result<()> {
    let queue = Library::get()?.dma_queues.get(handle)?;
    let mut turn = take(&queue)?;
    if let Some(held) = queue.queue(*turn) {
        held.abort();
    }
    *turn = Copier::Nobody;
    Ok(())
}

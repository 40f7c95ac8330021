//! DMA queues: vectors of block copies between a local and a remote segment.
//!
//! By default the caller copies, in `post`, `poll` and `wait`: waking a thread costs more than copying a
//! page. A queue with an engine thread copies there instead, and can call back. An abort takes effect between
//! two entries.

mod phase;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use link::LinkError;
use shm::origin::Origin;
use shm::process::SignalsBlocked;
use shm::window::Window;

use crate::error::{Error, Result};
use crate::remote::{RemoteInner, RemoteSegment, forked};
use crate::segment::{Segment, SegmentMemory};
use phase::Phase;

/// How much one call of `post` or `poll` copies before it returns. Small vectors finish within `post`; a
/// large one lets the caller do something else in between.
const SLICE_BYTES: usize = 1 << 20;

/// Most entries of a queue.
const MAX_ENTRIES: usize = 1 << 20;

/// Room for so many is made with the queue; for more when they come.
const ENTRIES_AT_ONCE: usize = 4096;

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Local to remote.
    Push,
    /// Remote to local.
    Pull,
}

/// One entry of a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaEntry {
    /// How many bytes.
    pub size_bytes: usize,
    /// Where in the local segment.
    pub local_offset: usize,
    /// Where in the remote segment.
    pub remote_offset: usize,
}

/// The state of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DmaState {
    /// Nothing in it.
    Idle,
    /// Entries wait to be posted.
    Gathering,
    /// Copying.
    Posted,
    /// All copied and visible to the other side.
    Done,
    /// Stopped by [`DmaQueue::abort`]: the entries before that point are copied.
    Aborted,
    /// Stopped by an error, which `wait` returns.
    Failed,
}

/// Called once when a posted queue has ended, from the engine thread, with no lock held.
pub type DmaCallback = Box<dyn FnOnce(DmaState) + Send>;

/// Memory of this program that a DMA queue copies from or to, and keeps while it does.
pub trait LocalMemory: Send + Sync {
    /// All of it; always of the same length.
    fn window(&self) -> Window<'_>;
}

struct Batch {
    local: Arc<dyn LocalMemory>,
    remote: Arc<RemoteInner>,
    direction: Direction,
    /// One past its last entry in `Work::entries`.
    end: usize,
}

#[derive(Default)]
struct Work {
    entries: Vec<DmaEntry>,
    batches: Vec<Batch>,
    /// Next entry, next batch.
    at: (usize, usize),
    callback: Option<DmaCallback>,
    error: Option<Error>,
    closing: bool,
}

struct Inner {
    max_entries: usize,
    phase: Phase,
    work: Mutex<Work>,
    /// Told when work is posted, and when it has ended.
    changed: Condvar,
    has_engine: bool,
}

/// A queue of copies. May be used again after it is done, aborted or failed.
pub struct DmaQueue {
    origin: Origin,
    inner: Arc<Inner>,
    engine: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for DmaQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DmaQueue")
            .field("max_entries", &self.inner.max_entries)
            .field("state", &self.state())
            .finish()
    }
}

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> DmaState {
        self.phase.state()
    }

    /// Copies up to `budget` bytes; the state shows whether more is left.
    fn copy_slice(&self, work: &mut Work, mut budget: usize) {
        while let Some(batch) = work.batches.get(work.at.1) {
            let done = copy_batch(batch, &work.entries, &mut work.at.0, &mut budget, &self.phase);
            match done {
                Ok(Progress::Finished) => work.at.1 += 1,
                Ok(Progress::BudgetSpent) => return,
                Ok(Progress::Aborted) => return self.end(work, DmaState::Aborted),
                Err(error) => {
                    work.error = Some(error);
                    return self.end(work, DmaState::Failed);
                }
            }
        }
        self.end(work, DmaState::Done);
    }

    fn end(&self, work: &mut Work, state: DmaState) {
        work.entries.clear();
        work.batches.clear();
        work.at = (0, 0);
        self.phase.set(state);
        self.changed.notify_all();
    }
}

enum Progress {
    Finished,
    BudgetSpent,
    Aborted,
}

fn copy_batch(
    batch: &Batch,
    entries: &[DmaEntry],
    at: &mut usize,
    budget: &mut usize,
    phase: &Phase,
) -> Result<Progress> {
    batch.remote.check_usable()?;
    let local = batch.local.window();
    let memory = &*batch.remote.memory;
    let transfer = phase.transfer();
    for entry in entries.get(*at..batch.end).unwrap_or_default() {
        if phase.is_aborted(transfer) {
            return Ok(Progress::Aborted);
        }
        if *budget == 0 {
            return Ok(Progress::BudgetSpent);
        }
        let window = local.sub(entry.local_offset, entry.size_bytes).map_err(LinkError::from)?;
        match batch.direction {
            Direction::Push => memory.put_from(entry.remote_offset, window)?,
            Direction::Pull => memory.get_to(entry.remote_offset, window)?,
        }
        *budget = budget.saturating_sub(entry.size_bytes);
        *at += 1;
    }
    memory.barrier()?;
    Ok(Progress::Finished)
}

/// What a queue's entries are kept in cannot be had. Not by an abort of the whole program.
fn no_memory() -> Error {
    Error::Memory(shm::Error::System { what: "malloc", errno: rustix::io::Errno::NOMEM })
}

impl DmaQueue {
    pub(crate) fn new(max_entries: usize, engine: bool) -> Result<Self> {
        if max_entries == 0 || max_entries > MAX_ENTRIES {
            return Err(Error::Invalid(format!(
                "a DMA queue takes 1 to {MAX_ENTRIES} entries, not {max_entries}"
            )));
        }
        let mut work = Work::default();
        let room = work.entries.try_reserve_exact(max_entries.min(ENTRIES_AT_ONCE));
        room.and_then(|()| work.batches.try_reserve_exact(8)).map_err(|_| no_memory())?;
        let inner = Arc::new(Inner {
            max_entries,
            phase: Phase::new(),
            work: Mutex::new(work),
            changed: Condvar::new(),
            has_engine: engine,
        });
        let engine = if engine { Some(spawn_engine(&inner)?) } else { None };
        Ok(Self { origin: Origin::here(), inner, engine })
    }

    /// Adds a vector of entries, all between the same two segments. Checks every range now, so that a bad
    /// entry is an error here and not halfway through a transfer.
    pub fn gather(
        &self,
        local: &Segment,
        remote: &RemoteSegment,
        direction: Direction,
        vector: &[DmaEntry],
    ) -> Result<()> {
        let local: Arc<dyn LocalMemory> = Arc::<SegmentMemory>::clone(local.memory());
        self.gather_memory(&local, remote, direction, vector)
    }

    /// As [`Self::gather`], for memory that need not be a segment's.
    pub fn gather_memory(
        &self,
        local: &Arc<dyn LocalMemory>,
        remote: &RemoteSegment,
        direction: Direction,
        vector: &[DmaEntry],
    ) -> Result<()> {
        self.check_origin()?;
        let mut work = self.inner.lock();
        match self.inner.state() {
            DmaState::Posted => return Err(Error::Busy { what: "DMA queue".into() }),
            DmaState::Gathering => {}
            _ => work.error = None,
        }
        if work.entries.len() + vector.len() > self.inner.max_entries {
            return Err(Error::Limit {
                what: "entries of the DMA queue".into(),
                limit: self.inner.max_entries as u64,
            });
        }
        let (local_size, remote_size) = (local.window().len(), remote.size_bytes());
        for entry in vector {
            check(entry.local_offset, entry.size_bytes, local_size)?;
            check(entry.remote_offset, entry.size_bytes, remote_size)?;
        }
        work.entries.extend_from_slice(vector);
        let end = work.entries.len();
        work.batches.push(Batch {
            local: Arc::clone(local),
            remote: Arc::clone(&remote.inner),
            direction,
            end,
        });
        self.inner.phase.set(DmaState::Gathering);
        Ok(())
    }

    /// Starts the copies. Without an engine the first [`SLICE_BYTES`] are copied before this returns.
    pub fn post(&self) -> Result<DmaState> {
        self.start(None)
    }

    /// Starts the copies; `callback` is called once when they have ended. Needs an engine.
    pub fn post_with(&self, callback: impl FnOnce(DmaState) + Send + 'static) -> Result<DmaState> {
        if !self.inner.has_engine {
            return Err(Error::Invalid(
                "a DMA callback needs a queue with an engine thread: create one with `dma_engine`".into(),
            ));
        }
        self.start(Some(Box::new(callback)))
    }

    /// In a forked child the engine is missing, and its lock may be held by a thread that does not exist.
    fn check_origin(&self) -> Result<()> {
        if self.origin == Origin::here() { Ok(()) } else { Err(forked("DMA queue")) }
    }

    fn start(&self, callback: Option<DmaCallback>) -> Result<DmaState> {
        self.check_origin()?;
        let mut work = self.inner.lock();
        if self.inner.state() != DmaState::Gathering {
            return Err(Error::Invalid(format!(
                "nothing to post: the DMA queue is {:?}",
                self.inner.state()
            )));
        }
        work.callback = callback;
        self.inner.phase.set(DmaState::Posted);
        if self.inner.has_engine {
            self.inner.changed.notify_all();
        } else {
            self.inner.copy_slice(&mut work, SLICE_BYTES);
        }
        Ok(self.inner.state())
    }

    /// Copies a further slice if the caller copies; returns the state of the queue.
    pub fn poll(&self) -> DmaState {
        if self.check_origin().is_ok() && !self.inner.has_engine && self.inner.state() == DmaState::Posted {
            let mut work = self.inner.lock();
            if self.inner.state() == DmaState::Posted {
                self.inner.copy_slice(&mut work, SLICE_BYTES);
            }
        }
        self.inner.state()
    }

    /// Waits until the queue has ended. On a queue that has ended already (or never started) it returns at
    /// once.
    ///
    /// # Errors
    /// The error that stopped the copies, or [`Error::TimedOut`]: the copies then continue (with the next
    /// call, or in the engine).
    pub fn wait(&self, timeout: Option<Duration>) -> Result<DmaState> {
        self.check_origin()?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let left =
            || deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
        while self.poll() == DmaState::Posted {
            if left().is_zero() {
                return Err(Error::TimedOut { what: "DMA transfer".into() });
            }
            if self.inner.has_engine {
                let work = self.inner.lock();
                if self.inner.state() == DmaState::Posted {
                    // A minute at most, so that an endless time-out cannot overflow the clock.
                    drop(self.inner.changed.wait_timeout(work, left().min(Duration::from_secs(60))));
                }
            }
        }
        match self.inner.state() {
            DmaState::Failed => {
                Err(self.inner.lock().error.take().unwrap_or(Error::Failed { what: "DMA transfer".into() }))
            }
            state => Ok(state),
        }
    }

    /// Stops the copies after the entry in progress, also if another thread posts them at this moment. Does
    /// nothing to a queue that has ended.
    pub fn abort(&self) -> DmaState {
        if self.check_origin().is_err() {
            return self.inner.state();
        }
        // Before the lock, which an engine holds while it copies a slice.
        let Some(transfer) = self.inner.phase.abort() else { return self.inner.state() };
        let mut work = self.inner.lock();
        match self.inner.state() {
            // Another one: that which was to be aborted has ended meanwhile.
            _ if self.inner.phase.transfer() != transfer => {}
            DmaState::Gathering => self.inner.end(&mut work, DmaState::Aborted),
            DmaState::Posted if !self.inner.has_engine => self.inner.end(&mut work, DmaState::Aborted),
            // The engine ends it before its next entry.
            _ => {}
        }
        self.inner.state()
    }

    /// The state of the queue, without copying anything.
    pub fn state(&self) -> DmaState {
        self.inner.state()
    }

    /// How many entries wait to be posted.
    pub fn gathered(&self) -> usize {
        let work = self.inner.lock();
        if self.inner.state() == DmaState::Gathering { work.entries.len() } else { 0 }
    }

    /// How many entries fit in.
    pub fn max_entries(&self) -> usize {
        self.inner.max_entries
    }
}

impl Drop for DmaQueue {
    /// Posted copies of a queue with an engine are aborted and waited for: the segments may go away after
    /// this.
    fn drop(&mut self) {
        if self.origin != Origin::here() {
            // The engine stayed behind in the parent: waiting for it here would never end.
            return std::mem::forget(self.engine.take());
        }
        self.inner.phase.abort_all();
        self.inner.lock().closing = true;
        self.inner.changed.notify_all();
        if let Some(engine) = self.engine.take() {
            // A callback may drop the last handle of its own queue: then the engine ends by itself.
            if engine.thread().id() != std::thread::current().id() {
                drop(engine.join());
            }
        }
    }
}

fn check(offset: usize, len: usize, size_bytes: usize) -> Result<()> {
    match offset.checked_add(len) {
        Some(end) if end <= size_bytes => Ok(()),
        _ => Err(LinkError::OutOfRange { offset, len, size_bytes }.into()),
    }
}

fn spawn_engine(inner: &Arc<Inner>) -> Result<JoinHandle<()>> {
    let inner = Arc::clone(inner);
    let _quiet = SignalsBlocked::here();
    std::thread::Builder::new()
        .name("tieline-dma".into())
        .spawn(move || run_engine(&inner))
        .map_err(|source| Error::Thread { what: "DMA engine", source })
}

fn run_engine(inner: &Inner) {
    let mut work = inner.lock();
    loop {
        if inner.state() == DmaState::Posted {
            inner.copy_slice(&mut work, SLICE_BYTES);
            if inner.state() != DmaState::Posted
                && let Some(callback) = work.callback.take()
            {
                let state = inner.state();
                drop(work);
                // A callback that panics has printed so; the engine serves the next transfer all the same.
                drop(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| callback(state))));
                work = inner.lock();
                continue;
            }
            // Between two slices others get at the lock.
            if inner.state() == DmaState::Posted {
                drop(work);
                work = inner.lock();
                continue;
            }
        }
        if work.closing {
            return;
        }
        if inner.state() != DmaState::Posted {
            work = inner.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

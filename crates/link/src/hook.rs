//! A link around a link: counts, traces and injures what passes.
//!
//! What it injures are puts, gets and atomics: they can be delayed, lost, corrupted, cut off. It cannot stop a store
//! through a mapped pointer; while faults can be injected its [`RemoteMemory::map`] is therefore refused with the reason,
//! so that no test believes that a store was subject to faults when it was not. Without faults it adds one relaxed
//! increment per operation and maps like the link inside.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shm::sync::{AtomicU64, Ordering};
use shm::window::Window;

use crate::capability::Capabilities;
use crate::directory::Grant;
use crate::error::{LinkError, Result};
use crate::link::{Link, RemoteMemory};

/// What passed since the counters were made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Memories opened.
    pub opens: u64,
    /// Blocks written, lost ones included.
    pub puts: u64,
    /// Bytes in them.
    pub put_bytes: u64,
    /// Blocks read.
    pub gets: u64,
    /// Bytes in them.
    pub get_bytes: u64,
    /// Atomics.
    pub atomics: u64,
    /// Barriers.
    pub barriers: u64,
    /// Puts that a fault swallowed.
    pub lost: u64,
    /// Puts that a fault changed.
    pub corrupted: u64,
}

/// Which faults are injected. The choice is made by counting, not by chance, so that a test can say what must happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// Every n-th put is not carried out (0: none).
    pub lose_every: u64,
    /// Every n-th put has its first byte inverted (0: none).
    pub corrupt_every: u64,
    /// Each operation takes this much longer.
    pub delay: Option<Duration>,
    /// Every operation fails with [`LinkError::Injected`].
    pub cut: bool,
}

#[derive(Debug, Default)]
struct Shared {
    opens: AtomicU64,
    puts: AtomicU64,
    put_bytes: AtomicU64,
    gets: AtomicU64,
    get_bytes: AtomicU64,
    atomics: AtomicU64,
    barriers: AtomicU64,
    lost: AtomicU64,
    corrupted: AtomicU64,
    faults: Mutex<Faults>,
}

/// The wrapping link.
#[derive(Debug, Clone)]
pub struct HookLink {
    inside: Arc<dyn Link>,
    shared: Arc<Shared>,
    injecting: bool,
}

impl HookLink {
    /// Counts what passes through `inside`; costs next to nothing and cannot injure.
    pub fn counting(inside: Arc<dyn Link>) -> Self {
        Self { inside, shared: Arc::default(), injecting: false }
    }

    /// Counts, and can inject faults: maps are refused.
    pub fn injecting(inside: Arc<dyn Link>) -> Self {
        Self { inside, shared: Arc::default(), injecting: true }
    }

    /// Sets the faults from now on. An error if this hook was made for counting only.
    pub fn set_faults(&self, faults: Faults) -> Result<()> {
        if !self.injecting {
            return Err(LinkError::NotSupported {
                link: "hook",
                what: "inject faults",
                why: "it was made for counting only: open the link with fault injection",
            });
        }
        *self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
        Ok(())
    }

    /// What has passed so far.
    pub fn counts(&self) -> Counts {
        let read = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let shared = &*self.shared;
        Counts {
            opens: read(&shared.opens),
            puts: read(&shared.puts),
            put_bytes: read(&shared.put_bytes),
            gets: read(&shared.gets),
            get_bytes: read(&shared.get_bytes),
            atomics: read(&shared.atomics),
            barriers: read(&shared.barriers),
            lost: read(&shared.lost),
            corrupted: read(&shared.corrupted),
        }
    }
}

impl Link for HookLink {
    fn name(&self) -> &'static str {
        "hook"
    }

    fn capabilities(&self) -> Capabilities {
        let inside = self.inside.capabilities();
        if self.injecting { inside.without(Capabilities::MAP | Capabilities::COHERENT_LOADS) } else { inside }
    }

    fn open(&self, grant: Grant) -> Result<Arc<dyn RemoteMemory>> {
        let inside = self.inside.open(grant)?;
        self.shared.opens.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(HookMemory { inside, shared: Arc::clone(&self.shared), injecting: self.injecting }))
    }
}

#[derive(Debug)]
struct HookMemory {
    inside: Arc<dyn RemoteMemory>,
    shared: Arc<Shared>,
    injecting: bool,
}

/// What a fault does to one put.
enum Fate {
    Pass,
    Lose,
    Corrupt,
}

impl HookMemory {
    fn faults(&self) -> Result<Faults> {
        if !self.injecting {
            return Ok(Faults::default());
        }
        let faults = *self.shared.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if faults.cut {
            return Err(LinkError::Injected);
        }
        if let Some(delay) = faults.delay {
            std::thread::sleep(delay);
        }
        Ok(faults)
    }

    fn put_fate(&self, bytes: usize) -> Result<Fate> {
        let faults = self.faults()?;
        let number = self.shared.puts.fetch_add(1, Ordering::Relaxed) + 1;
        self.shared.put_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let hits = |every: u64| every != 0 && number.is_multiple_of(every);
        Ok(if hits(faults.lose_every) {
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            Fate::Lose
        } else if hits(faults.corrupt_every) && bytes > 0 {
            self.shared.corrupted.fetch_add(1, Ordering::Relaxed);
            Fate::Corrupt
        } else {
            Fate::Pass
        })
    }

    fn invert(&self, offset: usize) -> Result<()> {
        let mut byte = [0];
        self.inside.get(offset, &mut byte)?;
        self.inside.put(offset, &[!byte[0]])
    }

    fn got(&self, bytes: usize) -> Result<()> {
        self.faults()?;
        self.shared.gets.fetch_add(1, Ordering::Relaxed);
        self.shared.get_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(())
    }

    fn atomic(&self) -> Result<()> {
        self.faults()?;
        self.shared.atomics.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl RemoteMemory for HookMemory {
    fn size_bytes(&self) -> usize {
        self.inside.size_bytes()
    }

    fn map(&self) -> Result<Window<'_>> {
        if self.injecting {
            return Err(LinkError::NotSupported {
                link: "hook",
                what: "map memory while faults can be injected",
                why: "a store through a mapped pointer cannot be lost or delayed: use put and get",
            });
        }
        self.inside.map()
    }

    fn put(&self, offset: usize, from: &[u8]) -> Result<()> {
        match self.put_fate(from.len())? {
            Fate::Lose => Ok(()),
            Fate::Pass => self.inside.put(offset, from),
            Fate::Corrupt => self.inside.put(offset, from).and_then(|()| self.invert(offset)),
        }
    }

    fn get(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.got(into.len())?;
        self.inside.get(offset, into)
    }

    fn put_from(&self, offset: usize, source: Window<'_>) -> Result<()> {
        match self.put_fate(source.len())? {
            Fate::Lose => Ok(()),
            Fate::Pass => self.inside.put_from(offset, source),
            Fate::Corrupt => self.inside.put_from(offset, source).and_then(|()| self.invert(offset)),
        }
    }

    fn get_to(&self, offset: usize, target: Window<'_>) -> Result<()> {
        self.got(target.len())?;
        self.inside.get_to(offset, target)
    }

    fn fetch_add_u32(&self, offset: usize, add: u32) -> Result<u32> {
        self.atomic()?;
        self.inside.fetch_add_u32(offset, add)
    }

    fn fetch_add_u64(&self, offset: usize, add: u64) -> Result<u64> {
        self.atomic()?;
        self.inside.fetch_add_u64(offset, add)
    }

    fn compare_swap_u32(&self, offset: usize, expected: u32, new: u32) -> Result<u32> {
        self.atomic()?;
        self.inside.compare_swap_u32(offset, expected, new)
    }

    fn compare_swap_u64(&self, offset: usize, expected: u64, new: u64) -> Result<u64> {
        self.atomic()?;
        self.inside.compare_swap_u64(offset, expected, new)
    }

    fn barrier(&self) -> Result<()> {
        self.faults()?;
        self.shared.barriers.fetch_add(1, Ordering::Relaxed);
        self.inside.barrier()
    }
}

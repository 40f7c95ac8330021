//! A connected segment of another host, which cannot be mapped: copies to it go over libfabric.
//!
//! A copy-only map is a range of addresses without memory: a copy function finds the segment by
//! such an address, and a load or store of the program ends it with SIGSEGV. A [`Shadow`] has
//! memory here, whose stores are followed.

mod journal;
mod propagator;
mod shadow;

pub(crate) use journal::Journal;
use shadow::Shadow;

use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use link::LinkError;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use shm::region::MapAccess;
use shm::sync::{AtomicBool, AtomicU64, Ordering};
use shm::window::Window;
use tieline::{Error, RemoteSegment, Stores};

use crate::code::{Code, Result};
use crate::group;
use crate::library::Library;
use crate::own::Own;

/// Set to 1, it makes every map of a segment on another host a copy-only map.
const ENV_COPY_ONLY: &str = "TIELINE_SISCI_COPY_ONLY";
/// Set to 1, it makes every map of a segment on another host a shadow that loads and stores reach.
const ENV_SHADOW: &str = "TIELINE_SISCI_SHADOW";

/// Whether this process has ever connected to such a segment: most never do, and their flushes stay
/// as fast as they were.
static IS_USED: AtomicBool = AtomicBool::new(false);

/// Whether this process has ever connected to a segment of another host.
pub(crate) fn is_used() -> bool {
    // Relaxed: a thread that uses such a segment has got it after that was noted.
    IS_USED.load(Ordering::Relaxed)
}

/// All that are connected, for flushes and interrupts, which name no segment. Ended ones are
/// removed with the next new one.
#[derive(Debug, Default)]
pub struct FarSegments(Mutex<Vec<Weak<FarSegment>>>);

impl FarSegments {
    fn lock(&self) -> MutexGuard<'_, Vec<Weak<FarSegment>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on flushes and interrupts wait for what is written to it.
    pub(crate) fn add(&self, segment: RemoteSegment) -> Arc<FarSegment> {
        // Relaxed: a thread flushes what it has written itself, after it got the segment from here.
        IS_USED.store(true, Ordering::Relaxed);
        let far = Arc::new(FarSegment::new(segment));
        let mut connected = self.lock();
        connected.retain(|known| known.strong_count() > 0);
        connected.push(Arc::downgrade(&far));
        far
    }

    /// Those that are connected now. The lock is not held while the caller uses them.
    fn living(&self) -> Vec<Arc<FarSegment>> {
        self.lock().iter().filter_map(Weak::upgrade).collect()
    }
}

/// Addresses that lead nowhere.
#[derive(Debug)]
struct Addresses {
    start: usize,
    bytes: usize,
}

impl Addresses {
    fn reserve(bytes: usize) -> Result<Self> {
        let page = rustix::param::page_size();
        let bytes = bytes.checked_next_multiple_of(page).unwrap_or(bytes);
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so nothing that exists is replaced.
        let start = unsafe { mmap_anonymous(null_mut(), bytes, ProtFlags::empty(), flags) };
        let start = start.map_err(|errno| {
            let detail =
                format!("{bytes} bytes of addresses cannot be reserved for a copy-only map: {errno}");
            Code::NOSPC.because(detail)
        })?;
        Ok(Self { start: start.expose_provenance(), bytes })
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        // SAFETY: the range was reserved by `reserve` for this value alone, and holds no memory.
        let _ = unsafe { munmap(with_exposed_provenance_mut(self.start), self.bytes) };
    }
}

/// A segment of another host that this process is connected to.
#[derive(Debug)]
pub struct FarSegment {
    segment: RemoteSegment,
    /// Reserved with the first copy-only map.
    addresses: OnceLock<Addresses>,
    /// Made with the first map that is none.
    shadow: OnceLock<Shadow>,
    /// Blocks that were written, and as many of them as have arrived or were reported as failed.
    written: AtomicU64,
    settled: AtomicU64,
}

impl FarSegment {
    fn new(segment: RemoteSegment) -> Self {
        let (written, settled) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { segment, addresses: OnceLock::new(), shadow: OnceLock::new(), written, settled }
    }

    /// The segment of the Rust API.
    pub fn segment(&self) -> &RemoteSegment {
        &self.segment
    }

    /// Where a copy-only map of it begins.
    pub(crate) fn address(&self) -> Result<usize> {
        if let Some(addresses) = self.addresses.get() {
            return Ok(addresses.start);
        }
        let reserved = Addresses::reserve(self.segment.size_bytes())?;
        // Another thread may have been faster: then these are given back.
        Ok(self.addresses.get_or_init(|| reserved).start)
    }

    /// Where a map that loads and stores reach begins, or one that loads alone reach.
    pub(crate) fn shadow_address(self: &Arc<Self>, access: MapAccess) -> Result<usize> {
        let shadow = self.shadow()?;
        match access {
            MapAccess::ReadWrite => Ok(shadow.address()),
            MapAccess::ReadOnly => shadow.read_only_address(),
        }
    }

    fn shadow(self: &Arc<Self>) -> Result<&Shadow> {
        // One at a time: a second shadow would miss the stores to the first.
        static MAKING: Own<Mutex<()>> = Own::new();
        let making = MAKING.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shadow) = self.shadow.get() {
            return Ok(shadow);
        }
        let shadow = Shadow::new(self)?;
        shadow.start(Arc::downgrade(self))?;
        let shadow = self.shadow.get_or_init(|| shadow);
        drop(making);
        Ok(shadow)
    }

    /// Sends what was stored through the shadow.
    pub(crate) fn send(&self) {
        if let Some(shadow) = self.shadow.get() {
            shadow.send(self);
        }
    }

    /// Makes the shadow, if there is one, what the segment is now. Whether that has changed it.
    pub(crate) fn refresh(&self) -> Result<bool> {
        self.shadow.get().map_or(Ok(false), |shadow| shadow.refresh(self))
    }

    /// The same, if it delays nobody.
    fn refresh_if_quiet(&self) -> Result<bool> {
        self.shadow.get().map_or(Ok(false), |shadow| shadow.refresh_if_quiet(self))
    }

    /// Reads the whole segment.
    fn read(&self, into: &mut [u8]) -> Result<()> {
        Ok(self.segment.get(0, into)?)
    }

    /// Writes a block. It has arrived after the next [`Self::settle`] that succeeds.
    pub(crate) fn put_from(&self, offset: usize, source: Window<'_>) -> Result<()> {
        match self.shadow.get() {
            Some(shadow) => shadow.put_from(self, offset, source),
            None => self.put_now(offset, source),
        }
    }

    /// Reads a block: behind what was written before.
    pub(crate) fn get_to(&self, offset: usize, target: Window<'_>) -> Result<()> {
        self.send();
        Ok(self.segment.get_to(offset, target)?)
    }

    fn put_now(&self, offset: usize, source: Window<'_>) -> Result<()> {
        self.segment.put_from(offset, source)?;
        // Release: pairs with the Acquire in `wait_for_arrival`, so that who sees the count waits for
        // the block.
        self.written.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Has stores carried out there, after all blocks that were written before.
    fn store_all(&self, stores: &Stores) -> Result<()> {
        Ok(self.segment.store_all(stores)?)
    }

    /// Waits until all that was written has arrived. A failure of the connection is returned once;
    /// sequences report it until the segment is connected again.
    pub(crate) fn settle(&self) -> Result<()> {
        let sent = self.shadow.get().map_or(Ok(()), |shadow| shadow.flush(self));
        sent.and(self.wait_for_arrival())
    }

    fn wait_for_arrival(&self) -> Result<()> {
        // Acquire: pairs with the Release in `put_now`.
        let written = self.written.load(Ordering::Acquire);
        // Acquire: pairs with the Release below, after a wait of another thread.
        if self.settled.load(Ordering::Acquire) >= written {
            return Ok(());
        }
        let arrived = self.segment.barrier();
        // Over a link that was taken down nothing is settled: it may be up again later.
        if !matches!(arrived, Err(Error::Link(LinkError::Down { .. }))) {
            // Release: pairs with the Acquire above.
            self.settled.fetch_max(written, Ordering::Release);
        }
        Ok(arrived?)
    }

    /// Whether its connection has failed: then it must be connected again.
    pub(crate) fn has_failed(&self) -> bool {
        self.segment.connection_failure().is_some()
    }

    /// The offset of an address of a map of it.
    fn offset_of(&self, address: usize) -> Option<usize> {
        let in_copy_only = self.addresses.get().and_then(|addresses| {
            address.checked_sub(addresses.start).filter(|&offset| offset < addresses.bytes)
        });
        in_copy_only.or_else(|| self.shadow.get()?.offset_of(address))
    }
}

/// Whether a map of a segment on another host is made for copies only, though the program has not
/// asked for it.
pub(crate) fn copy_only_by_environment() -> bool {
    is_on(ENV_COPY_ONLY)
}

/// Whether maps of segments on other hosts are shadows that loads and stores reach.
pub(crate) fn shadow_by_environment() -> bool {
    is_on(ENV_SHADOW)
}

fn is_on(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value == "1")
}

/// Waits until all that this process has written to segments of other hosts has arrived: on one
/// node, or on all. Returns the first failure.
pub(crate) fn settle_all(node: Option<u32>) -> Result<()> {
    group::send_all();
    if !is_used() {
        return Ok(());
    }
    let is_meant = |far: &&Arc<FarSegment>| node.is_none_or(|node| far.segment.node().get() == node);
    let (living, mut settled) = (Library::get()?.far_segments.living(), Ok(()));
    for far in living.iter().filter(is_meant) {
        // All are waited for, also after a failure of one.
        settled = settled.and(far.settle());
    }
    settled
}

/// SCIMemWrite to an address of a map of such a segment. Nothing for other addresses.
pub(crate) fn write_through(to: usize, source: Window<'_>) -> Option<Result<()>> {
    if !is_used() {
        return None;
    }
    let living = Library::get().ok()?.far_segments.living();
    let (far, offset) = living.iter().find_map(|far| Some((far, far.offset_of(to)?)))?;
    Some(far.put_from(offset, source))
}

//! The link between nodes of one machine: the owner's memory is mapped, so a put is a copy and a barrier is a
//! fence.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use shm::region::{MapAccess, MemoryId, PartialMap, PartialMapOptions, Region};
use shm::sync::{AtomicU32, AtomicU64, Ordering, fence};
use shm::window::Window;

use crate::capability::Capabilities;
use crate::directory::Grant;
use crate::error::{LinkError, Result, check_range};
use crate::link::{Link, RemoteMemory};
use crate::stores::Stores;
use crate::uses::{Use, Uses};

/// The shared-memory link. What it opens owns the mapping.
#[derive(Debug, Clone, Default)]
pub struct ShmLink {
    uses: Uses,
}

impl ShmLink {
    /// Its name in messages and reports.
    pub const NAME: &'static str = "shm";
}

impl Link for ShmLink {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::MAP
            | Capabilities::PUT
            | Capabilities::GET
            | Capabilities::ATOMICS
            | Capabilities::DOORBELL
            | Capabilities::COHERENT_LOADS
    }

    fn open(&self, grant: Grant) -> Result<Arc<dyn RemoteMemory>> {
        let region = Region::open(grant.memory, MapAccess::ReadWrite)?;
        let promised = usize::try_from(grant.size_bytes).unwrap_or(usize::MAX);
        // The file is rounded up to pages; the owner's promise is what programs may touch.
        check_range(0, promised, region.size_bytes())?;
        let id = region.id()?;
        Ok(Arc::new_cyclic(|memory| {
            let told = self.uses.of(id, Weak::clone(memory));
            ShmMemory { region, size_bytes: promised, partial_maps: Mutex::default(), told }
        }))
    }

    fn is_used_here(&self, memory: MemoryId) -> bool {
        self.uses.is_told(memory)
    }
}

/// Memory of another node, mapped here.
#[derive(Debug)]
pub struct ShmMemory {
    region: Region,
    size_bytes: usize,
    partial_maps: Mutex<PartialMaps>,
    /// Declared after the region, so that it is dropped after the region's descriptor.
    told: Use,
}

/// Maps beside the region's own, which follow it.
#[derive(Debug, Default)]
struct PartialMaps {
    detached: bool,
    maps: Vec<Weak<PartialMap>>,
}

impl ShmMemory {
    /// Announces all uses once more.
    pub(crate) fn tell_again(&self) -> Result<()> {
        Ok(self.region.tell_use(true)?)
    }

    fn partial_maps(&self) -> MutexGuard<'_, PartialMaps> {
        self.partial_maps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn window(&self) -> Result<Window<'_>> {
        Ok(self.region.window().sub(0, self.size_bytes)?)
    }

    fn word_u32(&self, offset: usize) -> Result<&AtomicU32> {
        check_range(offset, 4, self.size_bytes)?;
        self.region.window().atomic_u32(offset).map_err(|error| aligned(error, offset, 4))
    }

    fn word_u64(&self, offset: usize) -> Result<&AtomicU64> {
        check_range(offset, 8, self.size_bytes)?;
        self.region.window().atomic_u64(offset).map_err(|error| aligned(error, offset, 8))
    }
}

/// The one error of `atomic_*` that the range check has not excluded is alignment.
fn aligned(error: shm::Error, offset: usize, align: usize) -> LinkError {
    if offset.is_multiple_of(align) {
        LinkError::Memory(error)
    } else {
        LinkError::Misaligned { offset, align }
    }
}

impl RemoteMemory for ShmMemory {
    fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    fn map(&self) -> Result<Window<'_>> {
        self.window()
    }

    fn put(&self, offset: usize, from: &[u8]) -> Result<()> {
        check_range(offset, from.len(), self.size_bytes)?;
        Ok(self.region.window().put(offset, from)?)
    }

    fn get(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        check_range(offset, into.len(), self.size_bytes)?;
        Ok(self.region.window().get(offset, into)?)
    }

    fn put_from(&self, offset: usize, source: Window<'_>) -> Result<()> {
        check_range(offset, source.len(), self.size_bytes)?;
        Ok(source.copy_to(0, &self.region.window(), offset, source.len())?)
    }

    fn get_to(&self, offset: usize, target: Window<'_>) -> Result<()> {
        check_range(offset, target.len(), self.size_bytes)?;
        Ok(self.region.window().copy_to(offset, &target, 0, target.len())?)
    }

    // The atomics are SeqCst: remote atomics are used to build locks and tickets by people who expect one
    // order.
    fn fetch_add_u32(&self, offset: usize, add: u32) -> Result<u32> {
        Ok(self.word_u32(offset)?.fetch_add(add, Ordering::SeqCst))
    }

    fn fetch_add_u64(&self, offset: usize, add: u64) -> Result<u64> {
        Ok(self.word_u64(offset)?.fetch_add(add, Ordering::SeqCst))
    }

    fn compare_swap_u32(&self, offset: usize, expected: u32, new: u32) -> Result<u32> {
        let word = self.word_u32(offset)?;
        let (Ok(was) | Err(was)) = word.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
        Ok(was)
    }

    fn compare_swap_u64(&self, offset: usize, expected: u64, new: u64) -> Result<u64> {
        let word = self.word_u64(offset)?;
        let (Ok(was) | Err(was)) = word.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst);
        Ok(was)
    }

    fn store_u32(&self, offset: usize, value: u32) -> Result<()> {
        // Release: pairs with the Acquire load of an owner that polls this word for data put before it.
        self.word_u32(offset)?.store(value, Ordering::Release);
        Ok(())
    }

    fn store_all(&self, stores: &Stores) -> Result<()> {
        stores.carry_out_all(&self.window()?)
    }

    fn barrier(&self) -> Result<()> {
        // Copies with non-temporal stores end with their own store fence; this one orders plain stores
        // through maps, and later loads, too.
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn map_part(&self, options: &PartialMapOptions) -> Result<Arc<PartialMap>> {
        check_range(options.offset, options.len, self.size_bytes)?;
        let mut partial = self.partial_maps();
        let map = Arc::new(self.region.map_part(options)?);
        if partial.detached {
            map.detach()?;
        }
        partial.maps.retain(|map| map.strong_count() > 0);
        partial.maps.push(Arc::downgrade(&map));
        Ok(map)
    }

    fn set_detached(&self, detached: bool) -> Result<()> {
        let mut partial = self.partial_maps();
        if detached { self.region.detach() } else { self.region.reattach() }?;
        // From here on new maps begin as the region is; a failure below is tried again with the next change.
        partial.detached = detached;
        for map in partial.maps.iter().filter_map(Weak::upgrade) {
            if detached { map.detach() } else { map.reattach(&self.region) }?;
        }
        Ok(())
    }

    fn tell_use(&self, is_used: bool) -> Result<()> {
        self.told.tell(&self.region, is_used)
    }
}

//! A link around another link: counts operations and injects faults.
//!
//! Puts, gets and atomics can be delayed, held up, lost, corrupted, duplicated, reordered, or refused because
//! the link is down ([`proto::fault::LinkFaults`], shown by a [`FaultSource`]). A store through a mapped
//! pointer does not pass through the injector: only [`RemoteMemory::set_detached`] affects it, which a
//! library thread calls when the link goes down. So loss, corruption and delay are faults of blocks, and
//! "down" is a fault of everything. Without faults the injector adds a few relaxed increments per operation.

mod injure;
mod late;
mod pace;
mod source;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use proto::ids::NodeId;
use shm::region::{MemoryId, PartialMap, PartialMapOptions};
use shm::sync::{AtomicBool, AtomicU64, Ordering};
use shm::window::Window;

pub use source::{Condition, FaultPanel, FaultSource};

use crate::capability::Capabilities;
use crate::directory::Grant;
use crate::error::{LinkError, Result, check_range};
use crate::link::{Link, RemoteMemory};
use crate::stores::Stores;
use injure::{Block, Dice, Fate};
use late::{Late, Queue};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What passed since the counters were made.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counts { $($(#[$doc])* pub $name: u64),* }

        #[derive(Debug, Default)]
        struct Counters { $($name: AtomicU64),* }

        impl Counters {
            fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed)),* }
            }
        }
    };
}

counters! {
    /// Memories opened.
    opens,
    /// Blocks written, lost ones included.
    puts,
    /// Bytes in them.
    put_bytes,
    /// Blocks read.
    gets,
    /// Bytes in them.
    get_bytes,
    /// Atomics.
    atomics,
    /// Barriers.
    barriers,
    /// Puts that a fault swallowed.
    lost,
    /// Puts that a fault changed.
    corrupted,
    /// Puts that arrived twice.
    duplicated,
    /// Puts that arrived after later ones.
    reordered,
    /// Operations that found the link down.
    refused,
}

/// The link around another link.
#[derive(Debug, Clone)]
pub struct FaultInjector {
    inside: Arc<dyn Link>,
    counters: Arc<Counters>,
    source: Option<Arc<dyn FaultSource>>,
    seed: u64,
}

impl FaultInjector {
    /// Counts what passes through `inside`; costs next to nothing and cannot inject faults.
    pub fn counting(inside: Arc<dyn Link>) -> Self {
        Self { inside, counters: Arc::default(), source: None, seed: 0 }
    }

    /// Counts, and injects the faults of `source` into puts. Which puts are hit depends on `seed` alone.
    pub fn injecting(inside: Arc<dyn Link>, source: Arc<dyn FaultSource>, seed: u64) -> Self {
        Self { inside, counters: Arc::default(), source: Some(source), seed }
    }

    /// What has passed so far.
    pub fn counts(&self) -> Counts {
        self.counters.read()
    }

    /// Puts itself around memory of this node that was opened in another way than by [`Link::open`].
    pub fn around(&self, inside: Arc<dyn RemoteMemory>, node: NodeId) -> Arc<dyn RemoteMemory> {
        let opens = self.counters.opens.fetch_add(1, Ordering::Relaxed);
        Arc::new(InjectorMemory {
            inside,
            node,
            counters: Arc::clone(&self.counters),
            source: self.source.clone(),
            dice: Mutex::new(Dice::new(self.seed ^ opens.rotate_left(32) ^ u64::from(node.get()))),
            late: Mutex::default(),
            holding: AtomicBool::new(false),
        })
    }
}

impl Link for FaultInjector {
    fn name(&self) -> &'static str {
        "injector"
    }

    fn capabilities(&self) -> Capabilities {
        self.inside.capabilities()
    }

    fn open(&self, grant: Grant) -> Result<Arc<dyn RemoteMemory>> {
        let node = grant.node;
        Ok(self.around(self.inside.open(grant)?, node))
    }

    fn is_used_here(&self, memory: MemoryId) -> bool {
        self.inside.is_used_here(memory)
    }
}

#[derive(Debug)]
struct InjectorMemory {
    inside: Arc<dyn RemoteMemory>,
    node: NodeId,
    counters: Arc<Counters>,
    source: Option<Arc<dyn FaultSource>>,
    dice: Mutex<Dice>,
    late: Mutex<Queue>,
    /// Whether `late` holds something: spares the lock where nothing is wrong.
    holding: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(word: &AtomicU64, by: u64) {
    word.fetch_add(by, Ordering::Relaxed);
}

impl InjectorMemory {
    /// How the link is; an error while it is down.
    fn condition(&self) -> Result<Condition> {
        let Some(source) = &self.source else { return Ok(Condition::default()) };
        let condition = source.condition(self.node);
        if condition.down {
            count(&self.counters.refused, 1);
            return Err(LinkError::Down { node: self.node });
        }
        Ok(condition)
    }

    /// Carries out an operation as slowly as the faults want it.
    fn paced<T>(&self, bytes: usize, work: impl FnOnce(&Condition) -> Result<T>) -> Result<T> {
        let condition = self.condition()?;
        if condition.faults.is_none() {
            return work(&condition);
        }
        pace::stall(&condition.faults);
        let started_ns = pace::now_ns();
        let result = work(&condition);
        pace::hold_up(&condition.faults, bytes, started_ns);
        result
    }

    fn put_block(&self, offset: usize, block: Block<'_>) -> Result<()> {
        count(&self.counters.puts, 1);
        count(&self.counters.put_bytes, block.len() as u64);
        self.paced(block.len(), |condition| {
            if condition.faults.is_none() {
                block.put(&*self.inside, offset)?;
                return self.release();
            }
            check_range(offset, block.len(), self.inside.size_bytes())?;
            let fate = lock(&self.dice).fate(&condition.faults, block.len());
            self.injure(fate, offset, block)
        })
    }

    fn injure(&self, fate: Fate, offset: usize, block: Block<'_>) -> Result<()> {
        match fate {
            Fate::Pass => {
                block.put(&*self.inside, offset)?;
                self.passed(offset, block, true)
            }
            Fate::Lose => {
                count(&self.counters.lost, 1);
                self.passed(offset, block, false)
            }
            Fate::Corrupt(at) => {
                count(&self.counters.corrupted, 1);
                let mut bytes = block.to_vec()?;
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = !*byte;
                }
                self.inside.put(offset, &bytes)?;
                self.passed(offset, block, true)
            }
            Fate::Duplicate(wait_puts) => {
                count(&self.counters.duplicated, 1);
                block.put(&*self.inside, offset)?;
                self.passed(offset, block, true)?;
                self.hold(Late { offset, bytes: block.to_vec()?, wait_puts })
            }
            Fate::Reorder(wait_puts) => {
                count(&self.counters.reordered, 1);
                self.passed(offset, block, false)?;
                self.hold(Late { offset, bytes: block.to_vec()?, wait_puts })
            }
        }
    }

    /// Keeps a put for later; those for which there is no room beside it go now.
    fn hold(&self, late: Late) -> Result<()> {
        self.arrive(|queue| queue.hold(late))
    }

    /// A put has passed those that are late, and has arrived or not.
    fn passed(&self, offset: usize, block: Block<'_>, arrived: bool) -> Result<()> {
        if !self.holding.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.arrive(|queue| queue.passed(offset, block.len(), arrived))
    }

    /// Lets what was kept arrive.
    fn release(&self) -> Result<()> {
        if !self.holding.load(Ordering::Relaxed) {
            return Ok(());
        }
        self.arrive(Queue::all)
    }

    /// Writes what the queue gives, outside of its lock.
    fn arrive(&self, take: impl FnOnce(&mut Queue) -> Vec<Late>) -> Result<()> {
        let arrived = {
            let mut queue = lock(&self.late);
            let arrived = take(&mut queue);
            self.holding.store(!queue.is_empty(), Ordering::Relaxed);
            arrived
        };
        arrived.iter().try_for_each(|late| self.inside.put(late.offset, &late.bytes))
    }

    fn got<T>(&self, bytes: usize, get: impl FnOnce() -> Result<T>) -> Result<T> {
        count(&self.counters.gets, 1);
        count(&self.counters.get_bytes, bytes as u64);
        // A read pushes the writes before it to their target, as on PCI Express.
        self.release()?;
        self.paced(bytes, |_| get())
    }

    fn atomic<T>(&self, operate: impl FnOnce() -> Result<T>) -> Result<T> {
        count(&self.counters.atomics, 1);
        self.release()?;
        self.paced(8, |_| operate())
    }
}

impl Drop for InjectorMemory {
    fn drop(&mut self) {
        // A put that is late is not a put that is lost.
        if self.condition().is_ok() {
            drop(self.release());
        }
    }
}

impl RemoteMemory for InjectorMemory {
    fn size_bytes(&self) -> usize {
        self.inside.size_bytes()
    }

    fn map(&self) -> Result<Window<'_>> {
        self.inside.map()
    }

    fn put(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.put_block(offset, Block::Bytes(from))
    }

    fn get(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.got(into.len(), || self.inside.get(offset, into))
    }

    fn put_from(&self, offset: usize, source: Window<'_>) -> Result<()> {
        self.put_block(offset, Block::Window(source))
    }

    fn get_to(&self, offset: usize, target: Window<'_>) -> Result<()> {
        self.got(target.len(), || self.inside.get_to(offset, target))
    }

    fn fetch_add_u32(&self, offset: usize, add: u32) -> Result<u32> {
        self.atomic(|| self.inside.fetch_add_u32(offset, add))
    }

    fn fetch_add_u64(&self, offset: usize, add: u64) -> Result<u64> {
        self.atomic(|| self.inside.fetch_add_u64(offset, add))
    }

    fn compare_swap_u32(&self, offset: usize, expected: u32, new: u32) -> Result<u32> {
        self.atomic(|| self.inside.compare_swap_u32(offset, expected, new))
    }

    fn compare_swap_u64(&self, offset: usize, expected: u64, new: u64) -> Result<u64> {
        self.atomic(|| self.inside.compare_swap_u64(offset, expected, new))
    }

    fn store_u32(&self, offset: usize, value: u32) -> Result<()> {
        self.atomic(|| self.inside.store_u32(offset, value))
    }

    fn store_all(&self, stores: &Stores) -> Result<()> {
        self.atomic(|| self.inside.store_all(stores))
    }

    fn barrier(&self) -> Result<()> {
        count(&self.counters.barriers, 1);
        self.condition()?;
        self.release()?;
        self.inside.barrier()
    }

    fn map_part(&self, options: &PartialMapOptions) -> Result<Arc<PartialMap>> {
        self.inside.map_part(options)
    }

    fn set_detached(&self, detached: bool) -> Result<()> {
        self.inside.set_detached(detached)
    }

    fn tell_use(&self, is_used: bool) -> Result<()> {
        self.inside.tell_use(is_used)
    }
}

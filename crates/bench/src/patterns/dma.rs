//! Vectors of block copies through a DMA queue, against plain memcpy of blocks of the same size in
//! the same order.
//!
//! Short entries are compared with copies between private buffers, each with an allowance for what
//! an entry costs besides: what a program that could write there by itself would pay. Long entries
//! are compared with memcpy from and to the very same memory, because from a few KiB on the kind of
//! pages and what lies in which cache decide. The figures of acceptance compare both with the best
//! of all kernels.

use std::{cell::RefCell, hint::black_box, time::Duration};

use shm::{
    copy::{self, Kernel, KernelId, evict},
    window::Window,
};
use tieline::{Direction, DmaEntry, DmaQueue, DmaState, Node, RemoteSegment, Segment};
use topology::counted;

use crate::{
    best::Field,
    error::{BenchError, Result},
    patterns::{
        pace::Pace,
        provider::Provider,
        put::{Only, able, name_of},
        rendezvous,
    },
    run::Sides,
    timer::Timer,
};

/// Entries of a long vector.
pub const ENTRIES: usize = 256;
/// From this size of an entry on, copies between private buffers are not comparable: they have
/// other pages and other caches.
const PRIVATE_BELOW_BYTES: usize = 4096;
/// A queue that takes longer than this has failed.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Entries.
    pub entries: usize,
    /// Bytes of an entry.
    pub size_bytes: usize,
}

impl Shape {
    /// Bytes of all entries.
    pub const fn total_bytes(&self) -> usize {
        self.entries * self.size_bytes
    }
}

/// The reference of a vector.
#[derive(Debug, Clone, Copy)]
pub enum Against<'a> {
    /// memcpy between private buffers, plus this number of ns an entry.
    Private {
        /// The time that an entry may take in addition to its copy.
        extra_ns: f64,
    },
    /// memcpy from the local segment into this map of the remote one.
    Same(Window<'a>),
    /// The best kernel from the local segment into this map of the remote one, and for short
    /// entries also memcpy between private buffers; each copy with this number of ns added, with
    /// all bytes hot or with none in any cache.
    Best {
        /// The map.
        map: Window<'a>,
        /// The time that an entry may take in addition to its copy.
        extra_ns: f64,
        /// No cache holds the bytes before a vector.
        cold: bool,
    },
    /// libfabric's own writes to the same host: see [`DmaSides::between_hosts`].
    Writes,
}

/// A vector, gathered, posted and waited for, in ns an entry, compared with its reference.
pub struct DmaSides<'a> {
    timer: &'a Timer,
    queue: DmaQueue,
    local: &'a Segment,
    remote: &'a RemoteSegment,
    vector: Vec<DmaEntry>,
    shape: Shape,
    against: Against<'a>,
    source: Vec<u8>,
    target: Vec<u8>,
    ours: Pace,
    plain: Pace,
    /// The kernels of [`Against::Best`].
    kernels: Vec<Kernel>,
    /// Of [`Against::Writes`].
    provider: Option<&'a RefCell<Provider>>,
}

impl std::fmt::Debug for DmaSides<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DmaSides").field("shape", &self.shape).finish_non_exhaustive()
    }
}

impl<'a> DmaSides<'a> {
    /// Entries one behind the other in both segments. The local bytes are those of
    /// [`rendezvous::fill`] of the total size, and have been transferred once when this returns, so
    /// that the owner of the remote segment can compare them.
    pub fn new(
        timer: &'a Timer,
        node: &Node,
        local: &'a Segment,
        remote: &'a RemoteSegment,
        shape: Shape,
        against: Against<'a>,
    ) -> Result<Self> {
        Self::with(timer, node, (local, remote), shape, against, None)
    }

    /// The same with a remote segment of another host, against libfabric's own writes.
    pub fn between_hosts(
        timer: &'a Timer,
        node: &Node,
        local: &'a Segment,
        remote: &'a RemoteSegment,
        shape: Shape,
        provider: &'a RefCell<Provider>,
    ) -> Result<Self> {
        Self::with(timer, node, (local, remote), shape, Against::Writes, Some(provider))
    }

    fn with(
        timer: &'a Timer,
        node: &Node,
        (local, remote): (&'a Segment, &'a RemoteSegment),
        shape: Shape,
        against: Against<'a>,
        provider: Option<&'a RefCell<Provider>>,
    ) -> Result<Self> {
        let Shape { entries, size_bytes } = shape;
        let vector = (0..entries)
            .map(|n| DmaEntry { size_bytes, local_offset: n * size_bytes, remote_offset: n * size_bytes })
            .collect();
        let private = match against {
            Against::Private { .. } => shape.total_bytes(),
            Against::Best { .. } if size_bytes < PRIVATE_BELOW_BYTES => shape.total_bytes(),
            Against::Best { .. } | Against::Same(_) | Against::Writes => 0,
        };
        if matches!(against, Against::Best { cold: true, .. }) && !copy::EVICTS {
            return Err(BenchError::Usage("lines cannot be evicted on this kind of processor".to_owned()));
        }
        let mut sides = Self {
            timer,
            queue: node.dma_queue(entries)?,
            local,
            remote,
            vector,
            shape,
            against,
            // 0x5a rather than 0: zeroed memory would be one shared page until it is written.
            source: vec![0x5a; private],
            target: vec![0xa5; private],
            ours: Pace::trial(),
            plain: Pace::trial(),
            kernels: if matches!(against, Against::Best { .. }) { able(size_bytes) } else { Vec::new() },
            provider,
        };
        let mut known = vec![0; shape.total_bytes()];
        rendezvous::fill(&mut known, shape.total_bytes() as u64);
        local.window().put(0, &known)?;
        drop(known);
        transfer(&sides.queue, local, remote, &sides.vector)?;
        let (ours_ns, plain_ns) = (sides.vector_ns()?, sides.copies_ns()?);
        sides.ours = Pace::of(ours_ns);
        sides.plain = Pace::of(plain_ns);
        Ok(sides)
    }

    /// Compares the whole vector through the remote segment, because the other end does not check
    /// it.
    pub fn check(&self) -> Result<()> {
        let mut back = vec![0; self.shape.total_bytes()];
        self.remote.get(0, &mut back)?;
        rendezvous::check("dma", &back, self.shape.total_bytes() as u64)
    }

    /// Vectors of one reading.
    pub fn vectors_per_reading(&self) -> u64 {
        if self.is_cold() { self.ours.prepared_events() } else { self.ours.events() }
    }

    /// Vectors that share a sample.
    pub const fn batch(&self) -> u32 {
        self.ours.batch()
    }

    /// The name of the reference in reports.
    pub fn reference_name(&self) -> String {
        let size_bytes = self.shape.size_bytes;
        match self.against {
            Against::Private { extra_ns } => {
                format!("memcpy of {} + {extra_ns} ns", counted(size_bytes, "byte"))
            }
            Against::Writes => {
                self.provider.map_or_else(String::new, |provider| provider.borrow().writes_name())
            }
            Against::Same(_) | Against::Best { .. } => {
                format!("memcpy of {} from and to the same memory", counted(size_bytes, "byte"))
            }
        }
    }

    const fn is_cold(&self) -> bool {
        matches!(self.against, Against::Best { cold: true, .. })
    }

    /// Time of a vector.
    fn vector_ns(&mut self) -> Result<f64> {
        let cold = self.is_cold();
        let Self { timer, queue, local, remote, vector, ours, against, shape, .. } = self;
        let event = || transfer(queue, local, remote, vector);
        match against {
            Against::Best { map, .. } if cold => {
                ours.read_prepared(timer, || evict_all(local, map, shape.total_bytes()), event)
            }
            _ => ours.read(timer, None, event),
        }
    }

    /// Time of as many plain copies.
    fn copies_ns(&mut self) -> Result<f64> {
        match self.against {
            Against::Private { .. } => self.private_ns(),
            Against::Same(map) | Against::Best { map, .. } => self.kernel_ns(map, KernelId::Libc),
            Against::Writes => {
                // An owner that is gone is the reason why writes to it fail.
                self.remote.check()?;
                let Shape { entries, size_bytes } = self.shape;
                let count = self.ours.events().max(1) * entries as u64;
                let provider =
                    self.provider.ok_or_else(|| BenchError::Usage("dma: no reference".to_owned()))?;
                Ok(provider.borrow_mut().write_ns("dma", size_bytes, count)? * entries as f64)
            }
        }
    }

    /// Time of as many copies between private buffers.
    fn private_ns(&mut self) -> Result<f64> {
        let cold = self.is_cold();
        // Through a black box: the size must not be known, or the copy would be a few inlined moves
        // and no memcpy.
        let size = black_box(self.shape).size_bytes;
        let Self { timer, source, target, plain, .. } = self;
        if cold {
            // Mutable in the copies, shared in what prepares them.
            let target = RefCell::new(target);
            let prepare = || {
                evict(source);
                evict(&target.borrow());
                Ok(())
            };
            return plain.read_prepared(timer, prepare, || {
                copy_all(&mut target.borrow_mut(), source, size);
                Ok(())
            });
        }
        plain.read(timer, None, || {
            copy_all(target, source, size);
            Ok(())
        })
    }

    /// Time of as many copies by one kernel from the local segment into the map of the remote one.
    fn kernel_ns(&mut self, map: Window<'a>, id: KernelId) -> Result<f64> {
        let cold = self.is_cold();
        let _only = Only::kernel(id)?;
        let Shape { entries, size_bytes: size } = black_box(self.shape);
        let Self { timer, local, plain, .. } = self;
        let from = local.window();
        let event = || {
            for n in 0..entries {
                from.copy_to(n * size, &map, n * size, size)?;
            }
            Ok(())
        };
        if cold {
            return plain.read_prepared(timer, || evict_all(local, &map, entries * size), event);
        }
        plain.read(timer, None, event)
    }

    const fn extra_ns(&self) -> f64 {
        match self.against {
            Against::Private { extra_ns } | Against::Best { extra_ns, .. } => extra_ns,
            Against::Same(_) | Against::Writes => 0.0,
        }
    }
}

fn copy_all(target: &mut [u8], source: &[u8], size: usize) {
    for (to, from) in target.chunks_exact_mut(size).zip(source.chunks_exact(size)) {
        to.copy_from_slice(black_box(from));
    }
    black_box(&target);
}

fn evict_all(local: &Segment, map: &Window<'_>, bytes: usize) -> Result<()> {
    local.window().evict(0, bytes)?;
    Ok(map.evict(0, bytes)?)
}

fn transfer(queue: &DmaQueue, local: &Segment, remote: &RemoteSegment, vector: &[DmaEntry]) -> Result<()> {
    queue.gather(local, remote, Direction::Push, vector)?;
    let mut state = queue.post()?;
    if state == DmaState::Posted {
        state = queue.wait(Some(TIMEOUT))?;
    }
    if state == DmaState::Done {
        return Ok(());
    }
    // The queue returns the cause.
    queue.wait(Some(TIMEOUT))?;
    Err(BenchError::OtherEnd { what: "dma", reason: format!("the queue ended as {state:?}") })
}

impl Sides for DmaSides<'_> {
    fn ours(&mut self) -> Result<f64> {
        Ok(self.vector_ns()? / self.shape.entries as f64)
    }

    fn reference(&mut self) -> Result<f64> {
        Ok(self.copies_ns()? / self.shape.entries as f64 + self.extra_ns())
    }
}

impl Field for DmaSides<'_> {
    fn others(&self) -> usize {
        // For short entries, memcpy between private buffers too.
        self.kernels.len() + usize::from(!self.source.is_empty())
    }

    fn name(&self, other: usize) -> String {
        let copy = self
            .kernels
            .get(other)
            .map_or_else(|| "memcpy of the C library, private buffers".to_owned(), name_of);
        let extra_ns = self.extra_ns();
        if extra_ns > 0.0 { format!("{copy} + {extra_ns} ns") } else { copy }
    }

    fn ours_ns(&mut self) -> Result<f64> {
        Ok(self.vector_ns()? / self.shape.entries as f64)
    }

    fn other_ns(&mut self, other: usize) -> Result<f64> {
        let ns = match (self.kernels.get(other).copied(), self.against) {
            (Some(kernel), Against::Best { map, .. }) => self.kernel_ns(map, kernel.id)?,
            _ => self.private_ns()?,
        };
        Ok(ns / self.shape.entries as f64 + self.extra_ns())
    }
}

//! The state of this library in a process: one attachment to its node, and the tables of all
//! objects.

use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

use node_client::ClientError;
use proto::ids::AdapterNo;
use shm::origin::Origin;
use shm::sync::plain::{AtomicPtr, Ordering};
use tieline::Node;

use crate::block::BlockTransfer;
use crate::channel::DmaChannel;
use crate::code::{Code, Failure, Result};
use crate::data_interrupt::{LocalDataInterrupt, RemoteDataInterrupt};
use crate::descriptor::Descriptor;
use crate::dma::DmaQueue;
use crate::far::{self, FarSegments};
use crate::handle::{Ended, Table};
use crate::interrupt::{LocalInterrupt, RemoteInterrupt};
use crate::local::LocalSegment;
use crate::map::Map;
use crate::remote::RemoteSegment;
use crate::sequence::Sequence;
use crate::standard;

/// More adapters than any node has: above this a number is a mistake.
const ADAPTERS_MAX: u32 = 16;

/// The state of an initialised process.
#[derive(Debug)]
pub struct Library {
    origin: Origin,
    node: Mutex<Option<Node>>,
    /// `sci_desc_t`.
    pub descriptors: Table<Descriptor>,
    /// `sci_local_segment_t`.
    pub local_segments: Table<LocalSegment>,
    /// `sci_remote_segment_t`.
    pub remote_segments: Table<RemoteSegment>,
    /// Id and node of those that were disconnected.
    pub disconnected: Ended<(u32, u32)>,
    /// Those of `remote_segments` that are on other hosts.
    pub far_segments: FarSegments,
    /// `sci_map_t`.
    pub maps: Table<Map>,
    /// `sci_sequence_t`.
    pub sequences: Table<Sequence>,
    /// `sci_dma_queue_t`.
    pub dma_queues: Table<DmaQueue>,
    /// `sci_local_interrupt_t`.
    pub local_interrupts: Table<LocalInterrupt>,
    /// `sci_remote_interrupt_t`.
    pub remote_interrupts: Table<RemoteInterrupt>,
    /// `sci_local_data_interrupt_t`.
    pub local_data_interrupts: Table<LocalDataInterrupt>,
    /// `sci_remote_data_interrupt_t`.
    pub remote_data_interrupts: Table<RemoteDataInterrupt>,
    /// `sci_block_transfer_t`.
    pub block_transfers: Table<BlockTransfer>,
    /// `sci_dma_channel_t`.
    pub dma_channels: Table<DmaChannel>,
    /// The one that was made before it.
    previous: AtomicPtr<Self>,
}

/// Null: not initialised. What it has pointed to once is never freed: another thread may be inside
/// of a call.
static LIBRARY: AtomicPtr<Library> = AtomicPtr::new(null_mut());

/// The last one that was made, from which all are reached: what nothing points to, programs' leak
/// checkers complain about.
static NEWEST: AtomicPtr<Library> = AtomicPtr::new(null_mut());

impl Library {
    fn new() -> Self {
        Self {
            origin: Origin::here(),
            node: Mutex::default(),
            descriptors: Table::default(),
            local_segments: Table::default(),
            remote_segments: Table::default(),
            disconnected: Ended::default(),
            far_segments: FarSegments::default(),
            maps: Table::default(),
            sequences: Table::default(),
            dma_queues: Table::default(),
            local_interrupts: Table::default(),
            remote_interrupts: Table::default(),
            local_data_interrupts: Table::default(),
            remote_data_interrupts: Table::default(),
            block_transfers: Table::default(),
            dma_channels: Table::default(),
            previous: AtomicPtr::new(null_mut()),
        }
    }

    /// The library of this process, if it has called SCIInitialize and not SCITerminate since. A
    /// forked child has not: the objects of its parent are not its own, and may be locked by a
    /// thread that the child does not have.
    pub fn get() -> Result<&'static Self> {
        // Acquire: pairs with the Release in `initialize`.
        let library = LIBRARY.load(Ordering::Acquire);
        // SAFETY: it is null or was made by `Box::into_raw` in `initialize` and is never freed.
        match unsafe { library.as_ref() } {
            Some(library) if library.origin == Origin::here() => Ok(library),
            _ => Err(Code::NOT_INITIALIZED.into()),
        }
    }

    /// Whether SCITerminate was not called since it was got.
    pub fn is_current(&self) -> bool {
        Self::get().is_ok_and(|current| std::ptr::eq(current, self))
    }

    /// SCIInitialize. A second call does nothing.
    pub fn initialize() {
        standard::keep_off();
        if Self::get().is_ok() {
            return;
        }
        let seen = LIBRARY.load(Ordering::Relaxed);
        let new = Box::into_raw(Box::new(Self::new()));
        // Release: pairs with the Acquire in `get`.
        if LIBRARY.compare_exchange(seen, new, Ordering::Release, Ordering::Relaxed).is_err() {
            // SAFETY: it was created two lines above, and no other code has it yet.
            drop(unsafe { Box::from_raw(new) });
            return;
        }
        let previous = NEWEST.swap(new, Ordering::Relaxed);
        // SAFETY: it was made above and is never freed.
        unsafe { &*new }.previous.store(previous, Ordering::Relaxed);
    }

    /// SCITerminate: gives back everything that the program has not, and ends waits and callbacks.
    pub fn terminate() {
        let Ok(library) = Self::get() else { return };
        // What was copied arrives. A failure has no one who could repeat it.
        drop(far::settle_all(None));
        LIBRARY.store(null_mut(), Ordering::Relaxed);
        // First the waits, so that no thread waits for an object that is removed; then users before
        // the objects that they use.
        library.local_interrupts.drain().iter().for_each(|thing| thing.stop());
        library.local_data_interrupts.drain().iter().for_each(|thing| thing.stop());
        drop((library.remote_interrupts.drain(), library.remote_data_interrupts.drain()));
        library.dma_queues.drain().iter().for_each(|queue| queue.stop());
        library.block_transfers.drain().iter().for_each(|transfer| transfer.stop());
        drop((library.sequences.drain(), library.maps.drain()));
        library.remote_segments.drain().iter().for_each(|segment| segment.stop());
        library.local_segments.drain().iter().for_each(|segment| segment.stop());
        drop((library.dma_channels.drain(), library.descriptors.drain()));
        *library.node.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The attachment to this program's node, made when it is first needed. Every function that
    /// opens descriptors calls this first.
    pub fn node(&self) -> Result<Node> {
        standard::keep_off();
        let mut node = self.node.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = &*node {
            return Ok(node.clone());
        }
        let attached = Node::attach().map_err(|error| match &error {
            // A program sees no difference between a driver that is not loaded and a manager that
            // does not run.
            tieline::Error::Client(ClientError::SeveralNodes { .. } | ClientError::BadNode(_)) => {
                Code::NO_SUCH_ADAPTERNO.because(error.to_string())
            }
            _ => Failure::from(error),
        })?;
        *node = Some(attached.clone());
        Ok(attached)
    }

    /// The attachment, if it has this adapter.
    pub fn node_with(&self, adapter: u32) -> Result<Node> {
        if adapter >= ADAPTERS_MAX {
            return Err(Code::ILLEGAL_ADAPTERNO.because(format!("adapters are 0 to {}", ADAPTERS_MAX - 1)));
        }
        let node = self.node()?;
        let info = node.info();
        if info.adapters.iter().any(|known| known.number == AdapterNo(adapter)) {
            return Ok(node);
        }
        let known: Vec<_> = info.adapters.iter().map(|adapter| adapter.number.to_string()).collect();
        let detail = format!("node {} has no adapter {adapter}, it has: {}", info.node, known.join(", "));
        Err(Code::NO_SUCH_ADAPTERNO.because(detail))
    }

    /// Whether anything made from this descriptor is still there.
    pub fn is_used(&self, descriptor: &Arc<Descriptor>) -> bool {
        // One reference is the table's, one the asker's.
        Arc::strong_count(descriptor) > 2
    }
}

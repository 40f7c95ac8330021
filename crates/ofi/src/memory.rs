//! Remote memory over libfabric, as every link has it.

use std::sync::Arc;

use link::error::Result;
use link::{Capabilities, LinkError, RemoteMemory, Stores};
use proto::ids::NodeId;
use shm::region::{PartialMap, PartialMapOptions};
use shm::window::Window;

use crate::CHUNK_BYTES;
use crate::card::MemoryCard;
use crate::error::OfiError;
use crate::message::{AtomicOp, Width};
use crate::peer::Peer;
use crate::rails::Rails;

/// Memory of a peer.
#[derive(Debug)]
pub struct OfiMemory {
    rails: Arc<Rails>,
    node: NodeId,
    /// One for each rail.
    cards: Vec<MemoryCard>,
    size_bytes: usize,
}

impl OfiMemory {
    /// Name of the link in messages and reports.
    pub const NAME: &str = "ofi";

    /// The memory of a card; the card has been checked when it was read.
    pub fn new(peer: Arc<Peer>, node: NodeId, card: MemoryCard) -> Self {
        let size_bytes = usize::try_from(card.size_bytes).unwrap_or(usize::MAX);
        Self { rails: Arc::new(Rails::from(peer)), node, cards: vec![card], size_bytes }
    }

    /// The same memory over several rails, by a card for each of them; `None`: there are not as many.
    pub fn over(rails: Arc<Rails>, node: NodeId, cards: Vec<MemoryCard>) -> Option<Self> {
        let size_bytes = cards.iter().map(|card| card.size_bytes).min()?;
        let size_bytes = usize::try_from(size_bytes).unwrap_or(usize::MAX);
        (cards.len() == rails.count()).then_some(Self { rails, node, cards, size_bytes })
    }

    /// What links over libfabric can do.
    pub fn capabilities() -> Capabilities {
        Capabilities::PUT | Capabilities::GET | Capabilities::ATOMICS | Capabilities::DOORBELL
    }

    fn range(&self, offset: usize, len: usize) -> Result<()> {
        link::error::check_range(offset, len, self.size_bytes)
    }

    fn word(&self, offset: usize, align: usize) -> Result<()> {
        self.range(offset, align)?;
        if offset.is_multiple_of(align) { Ok(()) } else { Err(LinkError::Misaligned { offset, align }) }
    }

    fn atomic(&self, offset: usize, width: Width, op: AtomicOp) -> Result<u64> {
        self.word(offset, width.bytes())?;
        self.rails.atomic(&self.cards, offset, width, op).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: OfiError) -> LinkError {
        Self::error(error, self.node)
    }

    /// What went wrong on the way to that node, as every link says it.
    pub fn error(error: OfiError, node: NodeId) -> LinkError {
        match error {
            OfiError::InDoubt { .. } => LinkError::InDoubt { link: Self::NAME, node },
            error => LinkError::Failed { link: Self::NAME, node, why: error.to_string() },
        }
    }
}

fn no_map<T>(what: &'static str) -> Result<T> {
    Err(LinkError::NotSupported {
        link: OfiMemory::NAME,
        what,
        why: "memory of another machine can be put to and got from, not mapped",
    })
}

impl RemoteMemory for OfiMemory {
    fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    fn map(&self) -> Result<Window<'_>> {
        no_map("map memory")
    }

    fn put(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.range(offset, from.len())?;
        self.rails.put(&self.cards, offset, from).map_err(|error| self.failed(error))
    }

    fn get(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.range(offset, into.len())?;
        self.rails.get(&self.cards, offset, into).map_err(|error| self.failed(error))
    }

    fn put_from(&self, offset: usize, source: Window<'_>) -> Result<()> {
        self.range(offset, source.len())?;
        self.rails.put_from(&self.cards, offset, &source).map_err(|error| self.failed(error))
    }

    fn try_put_from(&self, offset: usize, source: Window<'_>) -> Result<bool> {
        if source.len() > CHUNK_BYTES {
            return self.put_from(offset, source).map(|()| true);
        }
        self.range(offset, source.len())?;
        self.rails.try_put_from(&self.cards, offset, &source).map_err(|error| self.failed(error))
    }

    fn get_to(&self, offset: usize, target: Window<'_>) -> Result<()> {
        self.range(offset, target.len())?;
        self.rails.get_to(&self.cards, offset, &target).map_err(|error| self.failed(error))
    }

    fn fetch_add_u32(&self, offset: usize, add: u32) -> Result<u32> {
        Ok(self.atomic(offset, Width::Four, AtomicOp::FetchAdd { add: add.into() })? as u32)
    }

    fn fetch_add_u64(&self, offset: usize, add: u64) -> Result<u64> {
        self.atomic(offset, Width::Eight, AtomicOp::FetchAdd { add })
    }

    fn compare_swap_u32(&self, offset: usize, expected: u32, new: u32) -> Result<u32> {
        let op = AtomicOp::CompareSwap { expected: expected.into(), new: new.into() };
        Ok(self.atomic(offset, Width::Four, op)? as u32)
    }

    fn compare_swap_u64(&self, offset: usize, expected: u64, new: u64) -> Result<u64> {
        self.atomic(offset, Width::Eight, AtomicOp::CompareSwap { expected, new })
    }

    fn store_u32(&self, offset: usize, value: u32) -> Result<()> {
        self.atomic(offset, Width::Four, AtomicOp::Swap { new: value.into() }).map(drop)
    }

    fn store_all(&self, stores: &Stores) -> Result<()> {
        self.range(0, stores.end())?;
        self.rails.store_all(&self.cards, stores).map_err(|error| self.failed(error))
    }

    fn barrier(&self) -> Result<()> {
        self.rails.barrier().map_err(|error| self.failed(error))
    }

    fn has_arrived(&self) -> Result<bool> {
        self.rails.has_arrived().map_err(|error| self.failed(error))
    }

    fn map_part(&self, _options: &PartialMapOptions) -> Result<Arc<PartialMap>> {
        no_map("map memory once more")
    }

    fn set_detached(&self, _detached: bool) -> Result<()> {
        no_map("sever a map")
    }

    fn tell_use(&self, _is_used: bool) -> Result<()> {
        no_map("tell the owner of a use through a map")
    }
}

//! Remote memory over libfabric, as every link has it.

use std::sync::Arc;

use link::error::Result;
use link::{Capabilities, LinkError, RemoteMemory};
use proto::ids::NodeId;
use shm::region::{PartialMap, PartialMapOptions};
use shm::window::Window;

use crate::card::MemoryCard;
use crate::error::OfiError;
use crate::peer::Peer;

/// Memory of a peer.
#[derive(Debug)]
pub struct OfiMemory {
    peer: Arc<Peer>,
    node: NodeId,
    card: MemoryCard,
    size_bytes: usize,
}

impl OfiMemory {
    /// Name of the link in messages and reports.
    pub const NAME: &str = "ofi";

    /// The memory of a card; the card has been checked when it was read.
    pub fn new(peer: Arc<Peer>, node: NodeId, card: MemoryCard) -> Self {
        let size_bytes = usize::try_from(card.size_bytes).unwrap_or(usize::MAX);
        Self { peer, node, card, size_bytes }
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

    fn failed(&self, error: OfiError) -> LinkError {
        LinkError::Failed { link: Self::NAME, node: self.node, why: error.to_string() }
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
        self.peer.put(&self.card, offset, from).map_err(|error| self.failed(error))
    }

    fn get(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.range(offset, into.len())?;
        self.peer.get(&self.card, offset, into).map_err(|error| self.failed(error))
    }

    fn put_from(&self, offset: usize, source: Window<'_>) -> Result<()> {
        self.range(offset, source.len())?;
        self.peer.put_from(&self.card, offset, &source).map_err(|error| self.failed(error))
    }

    fn get_to(&self, offset: usize, target: Window<'_>) -> Result<()> {
        self.range(offset, target.len())?;
        self.peer.get_to(&self.card, offset, &target).map_err(|error| self.failed(error))
    }

    fn fetch_add_u32(&self, offset: usize, add: u32) -> Result<u32> {
        self.word(offset, 4)?;
        self.peer.fetch_add_u32(&self.card, offset, add).map_err(|error| self.failed(error))
    }

    fn fetch_add_u64(&self, offset: usize, add: u64) -> Result<u64> {
        self.word(offset, 8)?;
        self.peer.fetch_add_u64(&self.card, offset, add).map_err(|error| self.failed(error))
    }

    fn compare_swap_u32(&self, offset: usize, expected: u32, new: u32) -> Result<u32> {
        self.word(offset, 4)?;
        self.peer.compare_swap_u32(&self.card, offset, expected, new).map_err(|error| self.failed(error))
    }

    fn compare_swap_u64(&self, offset: usize, expected: u64, new: u64) -> Result<u64> {
        self.word(offset, 8)?;
        self.peer.compare_swap_u64(&self.card, offset, expected, new).map_err(|error| self.failed(error))
    }

    fn store_u32(&self, offset: usize, value: u32) -> Result<()> {
        self.word(offset, 4)?;
        self.peer.store_u32(&self.card, offset, value).map_err(|error| self.failed(error))
    }

    fn barrier(&self) -> Result<()> {
        self.peer.barrier().map_err(|error| self.failed(error))
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

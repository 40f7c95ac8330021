//! The contract of a link. Its tests are crate `conformance`, one body for every implementation.

use std::fmt::Debug;
use std::sync::Arc;

use shm::region::{MemoryId, PartialMap, PartialMapOptions};
use shm::window::Window;

use crate::capability::Capabilities;
use crate::directory::Grant;
use crate::error::Result;
use crate::stores::Stores;

/// A way from this node to the memory of others.
pub trait Link: Send + Sync + Debug {
    /// `shm`, `ofi`, `injector`: for messages and reports.
    fn name(&self) -> &'static str;

    /// What it can do. Does not change during the life of the link.
    fn capabilities(&self) -> Capabilities;

    /// Opens the memory that a directory granted.
    fn open(&self, grant: Grant) -> Result<Arc<dyn RemoteMemory>>;

    /// Whether anything that this link has opened tells ([`RemoteMemory::tell_use`]) that it uses the memory:
    /// the kernel says so of other processes only.
    fn is_used_here(&self, memory: MemoryId) -> bool;
}

/// Memory of another node (or of one's own: loopback works).
///
/// Ordering: `put`s of one thread to one memory become visible in their order, a later store through a map
/// after an earlier `put` too. [`RemoteMemory::barrier`] returns when everything this thread has written is
/// visible to the owner.
pub trait RemoteMemory: Send + Sync + Debug {
    /// The size in bytes.
    fn size_bytes(&self) -> usize;

    /// The memory in this address space; needs [`Capabilities::MAP`].
    fn map(&self) -> Result<Window<'_>>;

    /// Writes a block; needs [`Capabilities::PUT`]. When it returns, `from` may be changed.
    fn put(&self, offset: usize, from: &[u8]) -> Result<()>;

    /// Reads a block; needs [`Capabilities::GET`].
    fn get(&self, offset: usize, into: &mut [u8]) -> Result<()>;

    /// Writes a block out of shared memory of this node (a local segment).
    fn put_from(&self, offset: usize, source: Window<'_>) -> Result<()>;

    /// As [`RemoteMemory::put_from`], if the block can be begun now: whether it was. Of a link whose puts may
    /// have to wait for room only a block of up to 64 KiB, a longer one is put and waited for.
    fn try_put_from(&self, offset: usize, source: Window<'_>) -> Result<bool> {
        self.put_from(offset, source).map(|()| true)
    }

    /// Reads a block into shared memory of this node.
    fn get_to(&self, offset: usize, target: Window<'_>) -> Result<()>;

    /// Adds to 4 bytes, and returns what was there; needs [`Capabilities::ATOMICS`]; `offset` is a multiple
    /// of 4.
    fn fetch_add_u32(&self, offset: usize, add: u32) -> Result<u32>;

    /// Adds to 8 bytes, and returns what was there; `offset` is a multiple of 8.
    fn fetch_add_u64(&self, offset: usize, add: u64) -> Result<u64>;

    /// Puts `new` where `expected` is; returns what was there (equal to `expected`: it was swapped).
    fn compare_swap_u32(&self, offset: usize, expected: u32, new: u32) -> Result<u32>;

    /// Puts `new` where `expected` is; returns what was there (equal to `expected`: it was swapped).
    fn compare_swap_u64(&self, offset: usize, expected: u64, new: u64) -> Result<u64>;

    /// Stores 4 bytes at once and whole, after all that this thread has put; needs [`Capabilities::ATOMICS`];
    /// `offset` is a multiple of 4.
    fn store_u32(&self, offset: usize, value: u32) -> Result<()>;

    /// Has stores carried out by the owner's processor, in their order, after all that this thread has put;
    /// needs [`Capabilities::ATOMICS`]. They are there when this returns.
    fn store_all(&self, stores: &Stores) -> Result<()>;

    /// Everything that this thread has written to this memory is visible to its owner when this returns.
    fn barrier(&self) -> Result<()>;

    /// Whether that is so now, without a wait where the link can tell; else as [`RemoteMemory::barrier`].
    /// Asked again and again, it fails when a barrier would have given up.
    fn has_arrived(&self) -> Result<bool> {
        self.barrier().map(|()| true)
    }

    /// Maps a part of it once more, at a given address or for reading alone; needs [`Capabilities::MAP`]. The
    /// map follows [`RemoteMemory::set_detached`] for as long as this memory is held.
    fn map_part(&self, options: &PartialMapOptions) -> Result<Arc<PartialMap>>;

    /// While detached, loads and stores through maps of this memory lead nowhere (loads find zeros, stores
    /// vanish), as with the cable out; afterwards the maps reach the memory again, under the same address.
    /// Only for links that map.
    fn set_detached(&self, detached: bool) -> Result<()>;

    /// Tells the owner that the memory is used by this connection, or is so no more: for owners that ask
    /// before they take it away ([`Region::is_used_elsewhere`](shm::region::Region::is_used_elsewhere),
    /// [`Link::is_used_here`]). It ends with the connection, and with the process. In a forked child it does
    /// nothing.
    fn tell_use(&self, is_used: bool) -> Result<()>;
}

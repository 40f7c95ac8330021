//! `sci_dma_channel_t`. Every queue copies by itself, so a channel is only requested, assigned to
//! queues, and returned.

use std::sync::Arc;

use crate::code::Result;
use crate::descriptor::Descriptor;
use crate::dma::DmaQueue;
use crate::handle::{Handle, Handled, Kind};
use crate::library::Library;
use crate::local::{self, LocalSegment};
use crate::remote::RemoteSegment;

/// A channel.
#[derive(Debug)]
pub struct DmaChannel {
    _descriptor: Arc<Descriptor>,
    adapter: u32,
}

impl Handled for DmaChannel {
    const KIND: Kind = Kind::DmaChannel;
}

/// SCIRequestDMAChannel: there are as many as are wanted, of every kind and under every number.
pub fn request(descriptor: Handle<Descriptor>, adapter: u32) -> Result<Handle<DmaChannel>> {
    let library = Library::get()?;
    let descriptor = library.descriptors.get(descriptor)?;
    library.node_with(adapter)?;
    library.dma_channels.insert(Arc::new(DmaChannel { _descriptor: descriptor, adapter }))
}

/// SCIReturnDMAChannel.
pub fn give_back(handle: Handle<DmaChannel>) -> Result<()> {
    Library::get()?.dma_channels.remove(handle).map(drop)
}

/// SCIAssignDMAChannel.
pub fn assign(handle: Handle<DmaChannel>, queue: Handle<DmaQueue>) -> Result<()> {
    let library = Library::get()?;
    library.dma_channels.get(handle)?;
    library.dma_queues.get(queue).map(drop)
}

/// SCIPrepareLocalSegmentForDMA: programs call it in place of SCIPrepareSegment, so it does the
/// same.
pub fn prepare_local(handle: Handle<DmaChannel>, segment: Handle<LocalSegment>) -> Result<()> {
    let channel = Library::get()?.dma_channels.get(handle)?;
    local::prepare(segment, channel.adapter)
}

/// SCIUnprepareLocalSegmentForDMA. Programs have removed the segment before, or remove it next.
pub fn unprepare(handle: Handle<DmaChannel>) -> Result<()> {
    Library::get()?.dma_channels.get(handle).map(drop)
}

/// SCIPrepareRemoteSegmentForDMA.
pub fn prepare_remote(handle: Handle<DmaChannel>, segment: Handle<RemoteSegment>) -> Result<()> {
    let library = Library::get()?;
    library.dma_channels.get(handle)?;
    library.remote_segments.get(segment).map(drop)
}

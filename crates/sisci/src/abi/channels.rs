//! The C functions for DMA channels.

use super::{Out, call};
use crate::channel::{self, DmaChannel};
use crate::code::Code;
use crate::descriptor::Descriptor;
use crate::dma::DmaQueue;
use crate::handle::Handle;
use crate::local::LocalSegment;
use crate::remote::RemoteSegment;

export! {
    fn SCIRequestDMAChannel(
        sd: Handle<Descriptor>, channel: Out<Handle<DmaChannel>>, adapter: u32, _type: u32, _channel_id: u32,
        _flags: u32, error: Out<Code>,
    ) {
        call("SCIRequestDMAChannel", error, (), || {
            channel.needed("channel")?;
            channel.put(channel::request(sd, adapter)?);
            Ok(())
        })
    }

    fn SCIReturnDMAChannel(channel: Handle<DmaChannel>, error: Out<Code>) {
        call("SCIReturnDMAChannel", error, (), || channel::give_back(channel))
    }

    fn SCIAssignDMAChannel(channel: Handle<DmaChannel>, queue: Handle<DmaQueue>, _flags: u32, error: Out<Code>) {
        call("SCIAssignDMAChannel", error, (), || channel::assign(channel, queue))
    }

    fn SCIPrepareLocalSegmentForDMA(
        channel: Handle<DmaChannel>, segment: Handle<LocalSegment>, _flags: u32, error: Out<Code>,
    ) {
        call("SCIPrepareLocalSegmentForDMA", error, (), || channel::prepare_local(channel, segment))
    }

    fn SCIUnprepareLocalSegmentForDMA(
        channel: Handle<DmaChannel>, _segment: Handle<LocalSegment>, _flags: u32, error: Out<Code>,
    ) {
        call("SCIUnprepareLocalSegmentForDMA", error, (), || channel::unprepare(channel))
    }

    fn SCIPrepareRemoteSegmentForDMA(
        channel: Handle<DmaChannel>, segment: Handle<RemoteSegment>, _flags: u32, error: Out<Code>,
    ) {
        call("SCIPrepareRemoteSegmentForDMA", error, (), || channel::prepare_remote(channel, segment))
    }

    fn SCIUnprepareRemoteSegmentForDMA(
        channel: Handle<DmaChannel>, _segment: Handle<RemoteSegment>, _flags: u32, error: Out<Code>,
    ) {
        call("SCIUnprepareRemoteSegmentForDMA", error, (), || channel::unprepare(channel))
    }
}

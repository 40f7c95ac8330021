//! The C functions for local and remote segments.

use std::ffi::c_void;

use super::{Out, call, quiet};
use crate::callback::{Callback, LocalSegmentFn, NO_REASON, RemoteSegmentFn};
use crate::code::{Code, Result};
use crate::descriptor::Descriptor;
use crate::flags::USE_CALLBACK;
use crate::handle::Handle;
use crate::library::Library;
use crate::local::{self, LocalSegment};
use crate::register;
use crate::remote::{self, RemoteSegment};
use crate::share;

fn local_of<T>(handle: Handle<LocalSegment>, look: impl FnOnce(&LocalSegment) -> T) -> Result<T> {
    Library::get()?.local_segments.with(handle, |segment| look(segment))
}

fn remote_of<T>(handle: Handle<RemoteSegment>, look: impl FnOnce(&RemoteSegment) -> Result<T>) -> Result<T> {
    Library::get()?.remote_segments.with(handle, |segment| look(segment))?
}

export! {
    fn SCICreateSegment(
        sd: Handle<Descriptor>, segment: Out<Handle<LocalSegment>>, id: u32, size: usize,
        callback: Option<LocalSegmentFn>, argument: *mut c_void, flags: u32, error: Out<Code>,
    ) {
        call("SCICreateSegment", error, (), || {
            segment.needed("segment")?;
            let callback = Callback::wanted(callback, argument, flags & USE_CALLBACK != 0);
            segment.put(local::create(sd, &local::Wanted { id, size_bytes: size, callback, flags })?);
            Ok(())
        })
    }

    fn SCIPrepareSegment(segment: Handle<LocalSegment>, adapter: u32, _flags: u32, error: Out<Code>) {
        call("SCIPrepareSegment", error, (), || local::prepare(segment, adapter))
    }

    fn SCISetSegmentAvailable(segment: Handle<LocalSegment>, adapter: u32, _flags: u32, error: Out<Code>) {
        call("SCISetSegmentAvailable", error, (), || local::set_available(segment, adapter))
    }

    fn SCISetSegmentUnavailable(segment: Handle<LocalSegment>, adapter: u32, flags: u32, error: Out<Code>) {
        call("SCISetSegmentUnavailable", error, (), || local::set_unavailable(segment, adapter, flags))
    }

    fn SCIRemoveSegment(segment: Handle<LocalSegment>, flags: u32, error: Out<Code>) {
        call("SCIRemoveSegment", error, (), || local::remove(segment, flags))
    }

    fn SCIGetLocalSegmentSize(segment: Handle<LocalSegment>) -> usize {
        quiet("SCIGetLocalSegmentSize", 0, || local_of(segment, LocalSegment::size_bytes))
    }

    fn SCIGetLocalSegmentId(segment: Handle<LocalSegment>) -> u32 {
        quiet("SCIGetLocalSegmentId", 0, || local_of(segment, LocalSegment::id))
    }

    fn SCIWaitForLocalSegmentEvent(
        segment: Handle<LocalSegment>, node: Out<u32>, adapter: Out<u32>, timeout: u32, _flags: u32, error: Out<Code>,
    ) -> u32 {
        call("SCIWaitForLocalSegmentEvent", error, NO_REASON, || {
            let (reason, from, through) = local::wait_event(segment, timeout)?;
            node.put(from);
            adapter.put(through);
            Ok(reason as u32)
        })
    }

    fn SCIConnectSegment(
        sd: Handle<Descriptor>, segment: Out<Handle<RemoteSegment>>, node: u32, id: u32, adapter: u32,
        callback: Option<RemoteSegmentFn>, argument: *mut c_void, timeout: u32, flags: u32, error: Out<Code>,
    ) {
        call("SCIConnectSegment", error, (), || {
            segment.needed("segment")?;
            let callback = Callback::wanted(callback, argument, flags & USE_CALLBACK != 0);
            segment.put(remote::connect(sd, remote::Wanted { node, id, adapter, callback, timeout, flags })?);
            Ok(())
        })
    }

    fn SCIDisconnectSegment(segment: Handle<RemoteSegment>, _flags: u32, error: Out<Code>) {
        call("SCIDisconnectSegment", error, (), || remote::disconnect(segment))
    }

    fn SCIGetRemoteSegmentSize(segment: Handle<RemoteSegment>) -> usize {
        quiet("SCIGetRemoteSegmentSize", 0, || remote_of(segment, |it| Ok(it.connection()?.size_bytes())))
    }

    fn SCIGetRemoteSegmentId(segment: Handle<RemoteSegment>) -> u32 {
        quiet("SCIGetRemoteSegmentId", 0, || Ok(remote::name_of(segment)?.0))
    }

    fn SCIGetRemoteSegmentNodeId(segment: Handle<RemoteSegment>) -> u32 {
        quiet("SCIGetRemoteSegmentNodeId", 0, || Ok(remote::name_of(segment)?.1))
    }

    fn SCIWaitForRemoteSegmentEvent(
        segment: Handle<RemoteSegment>, status: Out<Code>, timeout: u32, _flags: u32, error: Out<Code>,
    ) -> u32 {
        call("SCIWaitForRemoteSegmentEvent", error, NO_REASON, || {
            let reason = remote::wait_event(segment, timeout)?;
            status.put(Code::OK);
            Ok(reason as u32)
        })
    }

    fn SCIShareSegment(segment: Handle<LocalSegment>, _flags: u32, error: Out<Code>) {
        call("SCIShareSegment", error, (), || share::share(segment))
    }

    fn SCIAttachLocalSegment(
        sd: Handle<Descriptor>, segment: Out<Handle<LocalSegment>>, id: u32, size: Out<usize>,
        callback: Option<LocalSegmentFn>, argument: *mut c_void, flags: u32, error: Out<Code>,
    ) {
        call("SCIAttachLocalSegment", error, (), || {
            segment.needed("segment")?;
            let callback = Callback::wanted(callback, argument, flags & USE_CALLBACK != 0);
            let (attached, size_bytes) = share::attach(sd, id, callback)?;
            segment.put(attached);
            size.put(size_bytes);
            Ok(())
        })
    }

    fn SCIRegisterSegmentMemory(
        address: *mut c_void, size: usize, segment: Handle<LocalSegment>, _flags: u32, error: Out<Code>,
    ) {
        call("SCIRegisterSegmentMemory", error, (), || register::register(segment, address.expose_provenance(), size))
    }

    fn SCIAttachPhysicalMemory(
        _ioaddress: u64, _address: *mut c_void, _bus: u32, _size: usize, segment: Handle<LocalSegment>, _flags: u32,
        error: Out<Code>,
    ) {
        call("SCIAttachPhysicalMemory", error, (), || {
            local_of(segment, |_| ())?;
            Err(Code::NOT_IMPLEMENTED.because("memory of devices cannot be shared: SCIRegisterSegmentMemory takes memory of the program"))
        })
    }
}

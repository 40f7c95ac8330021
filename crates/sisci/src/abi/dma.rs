//! The C functions for DMA queues.

use std::ffi::c_void;

use tieline::DmaEntry;

use super::{Out, call, quiet};
use crate::callback::{Callback, DmaFn};
use crate::code::{Code, Result};
use crate::descriptor::Descriptor;
use crate::dma::{self, DmaQueue, ENTRIES_MAX, Local, State, Transfer};
use crate::flags::USE_CALLBACK;
use crate::handle::Handle;
use crate::local::LocalSegment;
use crate::remote::RemoteSegment;

/// `dis_dma_vec_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VectorEntry {
    size: usize,
    local_offset: usize,
    remote_offset: usize,
    flags: u32,
}

fn wanted(callback: Option<DmaFn>, argument: *mut c_void, flags: u32) -> Option<Callback<DmaFn>> {
    Callback::wanted(callback, argument, flags & USE_CALLBACK != 0)
}

fn vector_of(vector: *const VectorEntry, length: usize) -> Result<Vec<DmaEntry>> {
    if vector.is_null() {
        return Err(Code::ILLEGAL_PARAMETER.because("the vector is NULL"));
    }
    if length > ENTRIES_MAX {
        return Err(
            Code::MAX_ENTRIES.because(format!("a vector has 1 to {ENTRIES_MAX} entries, not {length}"))
        );
    }
    // SAFETY: by the call the program guarantees that there are that many entries.
    let entry = |index| unsafe { vector.add(index).read_unaligned() };
    let entries = (0..length).map(entry).map(|entry| DmaEntry {
        size_bytes: entry.size,
        local_offset: entry.local_offset,
        remote_offset: entry.remote_offset,
    });
    Ok(entries.collect())
}

export! {
    fn SCICreateDMAQueue(
        sd: Handle<Descriptor>, queue: Out<Handle<DmaQueue>>, adapter: u32, max_entries: u32, _flags: u32,
        error: Out<Code>,
    ) {
        call("SCICreateDMAQueue", error, (), || {
            queue.needed("queue")?;
            queue.put(dma::create(sd, adapter, max_entries)?);
            Ok(())
        })
    }

    fn SCIRemoveDMAQueue(queue: Handle<DmaQueue>, _flags: u32, error: Out<Code>) {
        call("SCIRemoveDMAQueue", error, (), || dma::remove(queue))
    }

    fn SCIAbortDMAQueue(queue: Handle<DmaQueue>, _flags: u32, error: Out<Code>) {
        call("SCIAbortDMAQueue", error, (), || dma::abort(queue))
    }

    fn SCIStartDmaTransfer(
        queue: Handle<DmaQueue>, local: Handle<LocalSegment>, remote: Handle<RemoteSegment>, local_offset: usize,
        size: usize, remote_offset: usize, callback: Option<DmaFn>, argument: *mut c_void, flags: u32,
        error: Out<Code>,
    ) {
        call("SCIStartDmaTransfer", error, (), || {
            let vector = [DmaEntry { size_bytes: size, local_offset, remote_offset }];
            let callback = wanted(callback, argument, flags);
            dma::start(queue, &Transfer { local: Local::Segment(local), remote, vector: &vector, callback, flags })
        })
    }

    fn SCIStartDmaTransferMem(
        queue: Handle<DmaQueue>, address: *mut c_void, remote: Handle<RemoteSegment>, size: usize,
        remote_offset: usize, callback: Option<DmaFn>, argument: *mut c_void, flags: u32, error: Out<Code>,
    ) {
        call("SCIStartDmaTransferMem", error, (), || {
            let vector = [DmaEntry { size_bytes: size, local_offset: 0, remote_offset }];
            let local = Local::Memory { address: address.expose_provenance(), size_bytes: size };
            let callback = wanted(callback, argument, flags);
            dma::start(queue, &Transfer { local, remote, vector: &vector, callback, flags })
        })
    }

    fn SCIStartDmaTransferVec(
        queue: Handle<DmaQueue>, local: Handle<LocalSegment>, remote: Handle<RemoteSegment>, length: usize,
        vector: *mut VectorEntry, callback: Option<DmaFn>, argument: *mut c_void, flags: u32, error: Out<Code>,
    ) {
        call("SCIStartDmaTransferVec", error, (), || {
            let vector = vector_of(vector, length)?;
            let callback = wanted(callback, argument, flags);
            dma::start(queue, &Transfer { local: Local::Segment(local), remote, vector: &vector, callback, flags })
        })
    }

    fn DISStartDmaTransfer(
        queue: Handle<DmaQueue>, local: Handle<LocalSegment>, remote: Handle<RemoteSegment>, local_offset: usize,
        size: usize, remote_offset: usize, callback: Option<DmaFn>, argument: *mut c_void, flags: u32,
        error: Out<Code>,
    ) {
        SCIStartDmaTransfer(
            queue, local, remote, local_offset, size, remote_offset, callback, argument, flags, error,
        );
    }

    fn DISStartDmaTransferVec(
        queue: Handle<DmaQueue>, local: Handle<LocalSegment>, remote: Handle<RemoteSegment>, length: usize,
        vector: *mut VectorEntry, callback: Option<DmaFn>, argument: *mut c_void, flags: u32, error: Out<Code>,
    ) {
        SCIStartDmaTransferVec(queue, local, remote, length, vector, callback, argument, flags, error);
    }

    fn SCIDMAQueueState(queue: Handle<DmaQueue>) -> u32 {
        quiet("SCIDMAQueueState", State::Error as u32, || Ok(dma::state(queue)? as u32))
    }

    fn SCIWaitForDMAQueue(queue: Handle<DmaQueue>, timeout: u32, _flags: u32, error: Out<Code>) -> u32 {
        let name = "SCIWaitForDMAQueue";
        let mut failed = State::Error as u32;
        let waited = call(name, error, None, || match dma::wait(queue, timeout) {
            Err(failure) => {
                // Time that is over ends the wait, not the transfer.
                failed = dma::state(queue).map_or(failed, |state| state as u32);
                Err(failure)
            }
            waited => waited.map(|state| Some(state as u32)),
        });
        waited.unwrap_or(failed)
    }

    fn SCIEnqueueDMATransfer(
        queue: Handle<DmaQueue>, local: Handle<LocalSegment>, remote: Handle<RemoteSegment>, local_offset: u32,
        remote_offset: u32, size: u32, flags: u32, error: Out<Code>,
    ) -> u32 {
        call("SCIEnqueueDMATransfer", error, State::Error as u32, || {
            let (local_offset, remote_offset) = (local_offset as usize, remote_offset as usize);
            let vector = [DmaEntry { size_bytes: size as usize, local_offset, remote_offset }];
            let transfer =
                Transfer { local: Local::Segment(local), remote, vector: &vector, callback: None, flags };
            Ok(dma::enqueue(queue, &transfer)? as u32)
        })
    }

    fn SCIPostDMAQueue(
        queue: Handle<DmaQueue>, callback: Option<DmaFn>, argument: *mut c_void, flags: u32, error: Out<Code>,
    ) {
        call("SCIPostDMAQueue", error, (), || dma::post(queue, wanted(callback, argument, flags)))
    }

    fn SCIResetDMAQueue(queue: Handle<DmaQueue>, _flags: u32, error: Out<Code>) {
        call("SCIResetDMAQueue", error, (), || dma::reset(queue))
    }
}

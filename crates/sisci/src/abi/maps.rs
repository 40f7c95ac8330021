//! The C functions for maps, sequences and copies.

use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, with_exposed_provenance_mut};

use shm::sync::plain::{AtomicU32, Ordering};

use super::{Out, call, quiet};
use crate::code::{Code, Result};
use crate::copy;
use crate::flags;
use crate::handle::Handle;
use crate::library::Library;
use crate::local::LocalSegment;
use crate::map::{self, Map, Wanted};
use crate::remote::RemoteSegment;
use crate::sequence::{self, Sequence, Status};

/// The argument of SetSciMemCopyFunction, which has no effect: the library chooses its copies by
/// itself.
static MEM_COPY_FUNCTION: AtomicU32 = AtomicU32::new(0);

fn map_into(into: Out<Handle<Map>>, made: (Handle<Map>, usize)) -> *mut c_void {
    into.put(made.0);
    with_exposed_provenance_mut(made.1)
}

fn map_of<T>(handle: Handle<Map>, look: impl FnOnce(&Map) -> T) -> Result<T> {
    Library::get()?.maps.with(handle, |map| look(map))
}

export! {
    fn SCIMapLocalSegment(
        segment: Handle<LocalSegment>, map: Out<Handle<Map>>, offset: usize, size: usize, address: *mut c_void,
        flags: u32, error: Out<Code>,
    ) -> *mut c_void {
        call("SCIMapLocalSegment", error, null_mut(), || {
            map.needed("map")?;
            let wanted = Wanted { offset, size_bytes: size, address: address.addr(), flags };
            Ok(map_into(map, map::map_local(segment, &wanted)?))
        })
    }

    fn SCIMapRemoteSegment(
        segment: Handle<RemoteSegment>, map: Out<Handle<Map>>, offset: usize, size: usize, address: *mut c_void,
        flags: u32, error: Out<Code>,
    ) -> *mut c_void {
        call("SCIMapRemoteSegment", error, null_mut(), || {
            map.needed("map")?;
            let wanted = Wanted { offset, size_bytes: size, address: address.addr(), flags };
            Ok(map_into(map, map::map_remote(segment, &wanted)?))
        })
    }

    fn SCIUnmapSegment(map: Handle<Map>, _flags: u32, error: Out<Code>) {
        call("SCIUnmapSegment", error, (), || map::unmap(map))
    }

    fn SCIGetMapPointer(map: Handle<Map>) -> *mut c_void {
        quiet("SCIGetMapPointer", null_mut(), || map_of(map, |map| with_exposed_provenance_mut(map.address())))
    }

    fn SCIGetMapPhysAddr(map: Handle<Map>) -> u64 {
        quiet("SCIGetMapPhysAddr", 0, || map_of(map, |map| map.address() as u64))
    }

    fn SCICreateMapSequence(map: Handle<Map>, sequence: Out<Handle<Sequence>>, _flags: u32, error: Out<Code>) {
        call("SCICreateMapSequence", error, (), || {
            sequence.needed("sequence")?;
            sequence.put(sequence::create(map)?);
            Ok(())
        })
    }

    fn SCIRemoveSequence(sequence: Handle<Sequence>, _flags: u32, error: Out<Code>) {
        call("SCIRemoveSequence", error, (), || sequence::remove(sequence))
    }
}

export! {
    @held_off_briefly

    fn SCIStartSequence(sequence: Handle<Sequence>, _flags: u32, error: Out<Code>) -> u32 {
        call("SCIStartSequence", error, Status::NotRetriable as u32, || Ok(sequence::start(sequence)? as u32))
    }

    fn SCICheckSequence(sequence: Handle<Sequence>, _flags: u32, error: Out<Code>) -> u32 {
        call("SCICheckSequence", error, Status::NotRetriable as u32, || Ok(sequence::check(sequence)? as u32))
    }

    fn SCIStoreBarrier(sequence: Handle<Sequence>, _flags: u32) {
        quiet("SCIStoreBarrier", (), || sequence::barrier_of(sequence));
    }

    fn SCIFlush(sequence: Handle<Sequence>, _flags: u32) {
        quiet("SCIFlush", (), || sequence::barrier_of(sequence));
    }

    fn SCIFlushReadBuffers(sequence: Handle<Sequence>) {
        quiet("SCIFlushReadBuffers", (), || sequence::refresh(sequence));
    }

    fn SCICacheSync(map: Handle<Map>, _address: *mut c_void, _bytes: usize, flags: u32, error: Out<Code>) {
        call("SCICacheSync", error, (), || {
            // Caches are coherent: only the order is left to be kept. A NULL map is allowed.
            sequence::barrier_of(Handle::NULL)?;
            if map.is_null() {
                return Ok(());
            }
            let map = Library::get()?.maps.get(map)?;
            if flags & flags::CACHE_INVALIDATE != 0 { map.refresh() } else { Ok(()) }
        })
    }

    fn SCIMemCpy(
        sequence: Handle<Sequence>, memory: *mut c_void, map: Handle<Map>, offset: usize, size: usize, flags: u32,
        error: Out<Code>,
    ) {
        call("SCIMemCpy", error, (), || {
            copy::memcpy(sequence, memory.expose_provenance(), map, offset, size, flags)
        })
    }

    fn SCIMemCpy_dual(
        sequence1: Handle<Sequence>, map1: Handle<Map>, sequence2: Handle<Sequence>, map2: Handle<Map>,
        memory: *mut c_void, offset: usize, size: usize, flags: u32, error: Out<Code>,
    ) {
        call("SCIMemCpy_dual", error, (), || {
            let memory = memory.expose_provenance();
            copy::memcpy(sequence1, memory, map1, offset, size, flags)?;
            copy::memcpy(sequence2, memory, map2, offset, size, flags)
        })
    }

    fn SCIMemWrite(memory: *mut c_void, remote: *mut c_void, size: usize, _flags: u32, error: Out<Code>) {
        call("SCIMemWrite", error, (), || {
            copy::mem_write(memory.expose_provenance(), remote.expose_provenance(), size)
        })
    }

    fn SCIMemCopy(
        memory: *mut c_void, map: Handle<Map>, offset: u32, size: u32, flags: u32, error: Out<Code>,
    ) {
        call("SCIMemCopy", error, (), || {
            copy::memcpy(Handle::NULL, memory.expose_provenance(), map, offset as usize, size as usize, flags)
        })
    }
}

export! {
    fn SCITransferBlock(
        source: Handle<Map>, source_offset: u32, destination: Handle<Map>, destination_offset: u32, size: u32,
        _flags: u32, error: Out<Code>,
    ) {
        call("SCITransferBlock", error, (), || {
            let (from, to) = (source_offset as usize, destination_offset as usize);
            copy::transfer_block(source, from, destination, to, size as usize)
        })
    }

    fn SetSciMemCopyFunction(function: c_int) -> c_int {
        MEM_COPY_FUNCTION.store(function.cast_unsigned(), Ordering::Relaxed);
        0
    }

    fn GetSciMemCopyFunction() -> c_int {
        MEM_COPY_FUNCTION.load(Ordering::Relaxed).cast_signed()
    }
}

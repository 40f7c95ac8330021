//! Copies between this program's memory and maps.

use std::sync::Arc;

use shm::region::MapAccess;
use shm::window::Window;

use crate::code::{Code, Result};
use crate::far;
use crate::flags;
use crate::group;
use crate::handle::Handle;
use crate::library::Library;
use crate::map::{Map, Target};
use crate::sequence::{self, Sequence, Status};

/// The program's memory from an address on.
fn memory(address: usize, size_bytes: usize) -> Result<Window<'static>> {
    if address == 0 && size_bytes > 0 {
        return Err(Code::ILLEGAL_PARAMETER.because("the memory's address is NULL"));
    }
    let start = std::ptr::with_exposed_provenance_mut(address);
    // SAFETY: by the call the program guarantees that these bytes are mapped; the window does not
    // outlive it, and is not a Rust reference.
    Ok(unsafe { Window::from_raw(start, size_bytes, MapAccess::ReadWrite) })
}

/// The direction in which SCIMemCpy copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToMap,
    FromMap,
}

/// SCIMemCpy. A NULL sequence is allowed.
pub fn memcpy(
    sequence: Handle<Sequence>,
    address: usize,
    map: Handle<Map>,
    offset: usize,
    size_bytes: usize,
    flags: u32,
) -> Result<()> {
    let library = Library::get()?;
    let map = library.maps.get(map)?;
    let direction = if flags & flags::BLOCK_READ == 0 { Direction::ToMap } else { Direction::FromMap };
    transfer(&map, offset, memory(address, size_bytes)?, direction)?;
    if flags & flags::ERROR_CHECK != 0 {
        sequence::barrier();
        if !sequence.is_null() {
            let status = sequence::check(sequence)?;
            if status != Status::Ok {
                let next = match status {
                    Status::NotRetriable => "disconnect the segment, then connect to it again",
                    Status::Pending => "repeat the copy when the link is up again",
                    Status::Ok | Status::Retriable => "repeat the copy",
                };
                return Err(Code::TRANSFER_FAILED.because(format!("the sequence is {status:?}: {next}")));
            }
        } else if let Target::Remote(segment) = map.target() {
            let connection = segment.connection()?;
            if let Some(far) = connection.far() {
                far.settle()?;
            }
            connection.check()?;
        }
    }
    Ok(())
}

fn transfer(map: &Arc<Map>, offset: usize, memory: Window<'_>, direction: Direction) -> Result<()> {
    map.check(offset, memory.len())?;
    if direction == Direction::ToMap {
        map.check_writable()?;
    }
    match (map.target(), direction) {
        // Over the link, which may be down, or count, or lose on purpose.
        (Target::Remote(segment), Direction::ToMap) => {
            Ok(segment.connection()?.put_from(map.offset() + offset, memory)?)
        }
        (Target::Remote(segment), Direction::FromMap) => {
            Ok(segment.connection()?.get_to(map.offset() + offset, memory)?)
        }
        (Target::Local(_), Direction::ToMap) => Ok(memory.copy_to(0, &map.window(), offset, memory.len())?),
        (Target::Local(_), Direction::FromMap) => {
            Ok(map.window().copy_to(offset, &memory, 0, memory.len())?)
        }
    }
}

/// SCIMemWrite: to an address that lies in a map.
pub fn mem_write(from: usize, to: usize, size_bytes: usize) -> Result<()> {
    Library::get()?;
    if let Some(written) = group::write_through(to, memory(from, size_bytes)?) {
        return written;
    }
    if let Some(written) = far::write_through(to, memory(from, size_bytes)?) {
        return written;
    }
    let (from, to) = (memory(from, size_bytes)?, memory(to, size_bytes)?);
    Ok(from.copy_to(0, &to, 0, size_bytes)?)
}

/// SCITransferBlock: between two maps.
pub fn transfer_block(
    source: Handle<Map>,
    source_offset: usize,
    destination: Handle<Map>,
    destination_offset: usize,
    size_bytes: usize,
) -> Result<()> {
    let library = Library::get()?;
    let (source, destination) = (library.maps.get(source)?, library.maps.get(destination)?);
    source.check(source_offset, size_bytes)?;
    if source.is_copy_only() {
        return by_way_of_here(&source, source_offset, &destination, destination_offset, size_bytes);
    }
    transfer(
        &destination,
        destination_offset,
        source.window().sub(source_offset, size_bytes)?,
        Direction::ToMap,
    )
}

/// Bytes of another host that are kept here until they are passed on.
const PASSED_BYTES: usize = 1 << 16;

fn by_way_of_here(
    source: &Arc<Map>,
    source_offset: usize,
    destination: &Arc<Map>,
    destination_offset: usize,
    size_bytes: usize,
) -> Result<()> {
    destination.check(destination_offset, size_bytes)?;
    let mut passed = vec![0_u8; PASSED_BYTES.min(size_bytes)];
    let address = passed.as_mut_ptr().expose_provenance();
    for at in (0..size_bytes).step_by(PASSED_BYTES) {
        let piece_bytes = PASSED_BYTES.min(size_bytes - at);
        transfer(source, source_offset + at, memory(address, piece_bytes)?, Direction::FromMap)?;
        transfer(destination, destination_offset + at, memory(address, piece_bytes)?, Direction::ToMap)?;
    }
    Ok(())
}

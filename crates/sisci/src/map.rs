//! `sci_map_t`: a range of a segment in this program's address space.
//!
//! A segment is mapped once; a map is a place in it, so that maps may begin at any byte and be as many as one likes.

use std::sync::Arc;

use shm::region::MapAccess;
use shm::window::Window;

use crate::code::{Code, Result};
use crate::flags;
use crate::handle::{Handle, Handled, Kind};
use crate::library::Library;
use crate::local::LocalSegment;
use crate::remote::RemoteSegment;

/// Whose memory it is; held as long as the map is.
#[derive(Debug)]
pub enum Target {
    /// This program's.
    Local(Arc<LocalSegment>),
    /// Another program's.
    Remote(Arc<RemoteSegment>),
}

/// A range of a segment.
#[derive(Debug)]
pub struct Map {
    target: Target,
    offset: usize,
    size_bytes: usize,
    address: usize,
}

impl Handled for Map {
    const KIND: Kind = Kind::Map;
}

impl Map {
    fn new(target: Target, base: usize, segment_bytes: usize, wanted: &Wanted) -> Result<Arc<Self>> {
        let Wanted { offset, size_bytes, .. } = *wanted;
        if offset.checked_add(size_bytes).is_none_or(|end| end > segment_bytes) {
            let detail =
                format!("{size_bytes} bytes at offset {offset} of a segment of {segment_bytes} bytes");
            return Err(Code::OUT_OF_RANGE.because(detail));
        }
        if wanted.flags & flags::FIXED_MAP_ADDR != 0 {
            return Err(Code::NOT_IMPLEMENTED.because("maps at a given address are not there yet"));
        }
        match &target {
            Target::Local(segment) => segment.count_map(true),
            Target::Remote(segment) => segment.count_map(true),
        }
        Ok(Arc::new(Self { target, offset, size_bytes, address: base + offset }))
    }

    /// Whose memory.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Where it begins in the segment.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Bytes.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Where it begins in this program.
    pub fn address(&self) -> usize {
        self.address
    }

    /// The mapped memory.
    pub fn window(&self) -> Window<'_> {
        let start = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: `new` checked that the range lies in the segment, whose memory stays mapped while `target` is held; no Rust
        // reference to it exists.
        unsafe { Window::from_raw(start, self.size_bytes, MapAccess::ReadWrite) }
    }

    /// Checks a range of it.
    pub fn check(&self, offset: usize, size_bytes: usize) -> Result<()> {
        match offset.checked_add(size_bytes) {
            Some(end) if end <= self.size_bytes => Ok(()),
            _ => {
                let detail =
                    format!("{size_bytes} bytes at offset {offset} of a map of {} bytes", self.size_bytes);
                Err(Code::OUT_OF_RANGE.because(detail))
            }
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        match &self.target {
            Target::Local(segment) => segment.count_map(false),
            Target::Remote(segment) => segment.count_map(false),
        }
    }
}

/// What a map is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// Where it begins in the segment.
    pub offset: usize,
    /// Bytes.
    pub size_bytes: usize,
    /// Where it should begin in the program, with `FIXED_MAP_ADDR`.
    pub address: usize,
    /// `SCI_FLAG_…`.
    pub flags: u32,
}

/// SCIMapLocalSegment: the handle, and the address.
pub fn map_local(handle: Handle<LocalSegment>, wanted: &Wanted) -> Result<(Handle<Map>, usize)> {
    let library = Library::get()?;
    let segment = library.local_segments.get(handle)?;
    let (base, size_bytes) = (segment.window().as_ptr().expose_provenance(), segment.size_bytes());
    keep(library, Map::new(Target::Local(segment), base, size_bytes, wanted)?)
}

/// SCIMapRemoteSegment: the handle, and the address.
pub fn map_remote(handle: Handle<RemoteSegment>, wanted: &Wanted) -> Result<(Handle<Map>, usize)> {
    let library = Library::get()?;
    let segment = library.remote_segments.get(handle)?;
    let connection = segment.connection()?;
    connection.check()?;
    let (base, size_bytes) = (connection.address()?, connection.size_bytes());
    keep(library, Map::new(Target::Remote(segment), base, size_bytes, wanted)?)
}

fn keep(library: &Library, map: Arc<Map>) -> Result<(Handle<Map>, usize)> {
    let address = map.address();
    Ok((library.maps.insert(map)?, address))
}

/// SCIUnmapSegment.
pub fn unmap(handle: Handle<Map>) -> Result<()> {
    Library::get()?.maps.remove(handle).map(drop)
}

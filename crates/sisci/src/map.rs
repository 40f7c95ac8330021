//! `sci_map_t`: a range of a segment in this program's address space.
//!
//! A segment is mapped once; a map is a place in it, so that maps may begin at any byte and be as
//! many as one likes. Only what must lie at a given address, or must not be written, is mapped once
//! more. A segment of another host has no memory here: a copy-only map of it has addresses alone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shm::region::{MapAccess, PartialMap, PartialMapOptions};
use shm::sync::plain::{AtomicBool, Ordering};
use shm::window::Window;
use tieline::PartialRemoteMap;

use crate::code::{Code, Result};
use crate::far;
use crate::flags;
use crate::handle::{Handle, Handled, Kind};
use crate::library::Library;
use crate::local::LocalSegment;
use crate::remote::RemoteSegment;

/// The mapped memory, held as long as the map lives.
#[derive(Debug)]
pub enum Target {
    /// This program's.
    Local(Arc<LocalSegment>),
    /// Another program's.
    Remote(Arc<RemoteSegment>),
}

/// The number of maps of a segment.
#[derive(Debug, Default)]
pub(crate) struct Maps(Mutex<usize>);

impl Maps {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one. For the first, `tell` is called, never at the same time as for the end of the
    /// last.
    fn begin(&self, tell: impl FnOnce(bool)) {
        let mut maps = self.lock();
        *maps += 1;
        if *maps == 1 {
            tell(true);
        }
    }

    /// Removes one. For the last, `tell` is called.
    fn end(&self, tell: impl FnOnce(bool)) {
        let mut maps = self.lock();
        *maps = maps.saturating_sub(1);
        if *maps == 0 {
            tell(false);
        }
    }

    /// Refuses what needs a segment, named by `what`, that is mapped no more.
    pub(crate) fn check_none(&self, what: impl FnOnce() -> String) -> Result<()> {
        match *self.lock() {
            0 => Ok(()),
            maps => {
                let detail = format!("{} is still mapped {maps} time(s): call SCIUnmapSegment first", what());
                Err(Code::BUSY.because(detail))
            }
        }
    }
}

/// A range of a segment.
#[derive(Debug)]
pub struct Map {
    target: Target,
    offset: usize,
    size_bytes: usize,
    address: usize,
    access: MapAccess,
    /// Whether it keeps its segment from being removed or disconnected: until it is unmapped, even
    /// if a sequence that the program has forgotten holds on to the memory.
    is_counted: AtomicBool,
    _partial: Option<Partial>,
}

/// A mapping of the map's own; it ends with the map.
#[derive(Debug)]
enum Partial {
    Local(#[allow(dead_code, reason = "held for its Drop")] PartialMap),
    Remote(#[allow(dead_code, reason = "held for its Drop")] PartialRemoteMap),
}

impl Target {
    /// The number of bytes that can be mapped: whole pages, as an adapter maps them. Programs
    /// request the size of their structure even where the segment was created smaller. A group's
    /// map is watched byte for byte, and ends where its copies end.
    fn mappable_bytes(&self, segment_bytes: usize) -> usize {
        let is_group = match self {
            Self::Local(segment) => segment.is_group_copy(),
            Self::Remote(segment) => {
                segment.connection().is_ok_and(|connection| connection.group().is_some())
            }
        };
        let pages = segment_bytes.checked_next_multiple_of(rustix::param::page_size());
        if is_group { segment_bytes } else { pages.unwrap_or(segment_bytes) }
    }

    fn begin_map(&self) {
        match self {
            Self::Local(segment) => segment.maps().begin(|_| ()),
            Self::Remote(segment) => segment.maps().begin(|is_used| segment.tell_use(is_used)),
        }
    }

    fn end_map(&self) {
        match self {
            Self::Local(segment) => segment.maps().end(|_| ()),
            Self::Remote(segment) => segment.maps().end(|is_used| segment.tell_use(is_used)),
        }
    }

    /// Maps it once more: where that is, and what ends it.
    fn map_part(&self, options: &PartialMapOptions) -> Result<(usize, Partial)> {
        match self {
            Self::Local(segment) => {
                let map = segment.memory().map_part(options)?;
                Ok((map.as_ptr().expose_provenance(), Partial::Local(map)))
            }
            Self::Remote(segment) => {
                let map = segment.connection()?.map_part(options)?;
                Ok((map.as_ptr().expose_provenance(), Partial::Remote(map)))
            }
        }
    }
}

impl Handled for Map {
    const KIND: Kind = Kind::Map;
}

impl Map {
    fn new(target: Target, base: usize, segment_bytes: usize, wanted: &Wanted) -> Result<Arc<Self>> {
        let Wanted { offset, size_bytes, .. } = *wanted;
        let room = target.mappable_bytes(segment_bytes);
        if offset.checked_add(size_bytes).is_none_or(|end| end > room) {
            let detail =
                format!("{size_bytes} bytes at offset {offset} of a segment of {segment_bytes} bytes");
            return Err(Code::OUT_OF_RANGE.because(detail));
        }
        let is_fixed = wanted.flags & flags::FIXED_MAP_ADDR != 0;
        let access = wanted.access();
        let is_far = matches!(&target, Target::Remote(segment) if segment.connection()?.far().is_some());
        let (address, partial) = if is_fixed && is_far {
            return Err(Code::NOT_SUPPORTED.because(
                "the map of a segment on another host is not its memory, and cannot be at a given address: \
                 map it without SCI_FLAG_FIXED_MAP_ADDR",
            ));
        } else if (is_fixed || access == MapAccess::ReadOnly) && !is_far {
            let address = is_fixed.then_some(wanted.address);
            let options = PartialMapOptions { offset, len: size_bytes, address, access };
            let (address, partial) = target.map_part(&options)?;
            (address, Some(partial))
        } else {
            (base + offset, None)
        };
        target.begin_map();
        let is_counted = AtomicBool::new(true);
        Ok(Arc::new(Self { target, offset, size_bytes, address, access, is_counted, _partial: partial }))
    }

    /// From now on the end of the segment does not wait for it.
    fn uncount(&self) {
        if self.is_counted.swap(false, Ordering::Relaxed) {
            self.target.end_map();
        }
    }

    /// The memory that is mapped.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Its offset in the segment.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The size in bytes.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Its address in this program.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Whether it has addresses alone: the segment is on another host.
    pub fn is_copy_only(&self) -> bool {
        matches!(&self.target, Target::Remote(segment) if segment.connection().is_ok_and(|to| to.far().is_some()))
    }

    /// Makes what the program loads from it as new as the segment, if that is on another host.
    pub fn refresh(&self) -> Result<()> {
        match &self.target {
            Target::Remote(segment) => {
                segment.connection()?.far().map_or(Ok(()), |far| far.refresh().map(drop))
            }
            Target::Local(_) => Ok(()),
        }
    }

    /// The mapped memory, unless it is a copy-only map.
    pub fn window(&self) -> Window<'_> {
        let start = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: `new` checked that the range lies in the pages of the segment, whose memory stays
        // mapped while `target` is held (a mapping covers its last page whole), or in a mapping of
        // its own, which this map holds; no Rust reference to it exists.
        unsafe { Window::from_raw(start, self.size_bytes, self.access) }
    }

    /// Whether the program may store through it.
    pub fn check_writable(&self) -> Result<()> {
        match self.access {
            MapAccess::ReadWrite => Ok(()),
            MapAccess::ReadOnly => {
                Err(Code::ACCESS.because("the map was made with SCI_FLAG_READONLY_MAP: it cannot be written"))
            }
        }
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
        self.uncount();
    }
}

/// The arguments of a map.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The offset in the segment.
    pub offset: usize,
    /// The size in bytes.
    pub size_bytes: usize,
    /// The requested address in the program, with `FIXED_MAP_ADDR`.
    pub address: usize,
    /// `SCI_FLAG_…`.
    pub flags: u32,
}

impl Wanted {
    fn access(&self) -> MapAccess {
        if self.flags & flags::READONLY_MAP == 0 { MapAccess::ReadWrite } else { MapAccess::ReadOnly }
    }
}

/// SCIMapLocalSegment: the handle, and the address.
pub fn map_local(handle: Handle<LocalSegment>, wanted: &Wanted) -> Result<(Handle<Map>, usize)> {
    let library = Library::get()?;
    let segment = library.local_segments.get(handle)?;
    segment.registration().check(segment.id())?;
    let (base, size_bytes) = (segment.window().as_ptr().expose_provenance(), segment.size_bytes());
    keep(library, Map::new(Target::Local(segment), base, size_bytes, wanted)?)
}

/// SCIMapRemoteSegment: the handle, and the address.
pub fn map_remote(handle: Handle<RemoteSegment>, wanted: &Wanted) -> Result<(Handle<Map>, usize)> {
    let library = Library::get()?;
    let segment = library.remote_segments.get(handle)?;
    let connection = segment.connection()?;
    // A connected segment is mapped here: a link that is down does not prevent that, and sequences
    // report it.
    connection.check().or_else(|failure| if failure.is_away() { Ok(()) } else { Err(failure) })?;
    let is_for_copies = || wanted.flags & flags::COPY_ONLY_MAP != 0 || far::copy_only_by_environment();
    let base = match connection.far().filter(|_| !is_for_copies()) {
        None => connection.address()?,
        Some(far) if far::shadow_by_environment() => far.shadow_address(wanted.access())?,
        Some(_) => {
            return Err(Code::NOT_SUPPORTED.because(format!(
                "segment {} of node {} is on another host, whose memory cannot be loaded from and stored to: map it \
                 with SCI_FLAG_COPY_ONLY_MAP for SCIMemCpy, use DMA, which needs no map, or set \
                 TIELINE_SISCI_SHADOW=1 to have stores followed (docs/sisci.md)",
                segment.id(),
                segment.node()
            )));
        }
    };
    let size_bytes = connection.size_bytes();
    keep(library, Map::new(Target::Remote(segment), base, size_bytes, wanted)?)
}

fn keep(library: &Library, map: Arc<Map>) -> Result<(Handle<Map>, usize)> {
    let address = map.address();
    Ok((library.maps.insert(map)?, address))
}

/// SCIUnmapSegment.
pub fn unmap(handle: Handle<Map>) -> Result<()> {
    let map = Library::get()?.maps.remove(handle)?;
    map.uncount();
    Ok(())
}

//! A partial map, which is another mapping of a part of a region: at an address of the program's choice, or
//! read-only.

use core::ffi::c_void;
use core::ptr::{self, NonNull};

use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::{MapAccess, Region};
use crate::layout::round_up;
use crate::window::Window;
use crate::{Error, Result};

/// Which part of a region, where, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialMapOptions {
    /// First byte; with an address a multiple of the page size.
    pub offset: usize,
    /// How many; the mapping is rounded up to whole pages.
    pub len: usize,
    /// Where the mapping begins, a multiple of the page size; `None`: where the kernel finds room.
    pub address: Option<usize>,
    /// What may be done through it.
    pub access: MapAccess,
}

/// A mapping of a part of a region beside the region's own; unmapped when dropped. It does not need the
/// region to live.
#[derive(Debug)]
pub struct PartialMap {
    start: NonNull<u8>,
    mapped_bytes: usize,
    /// Where the mapping begins in the region, and where what was asked for begins in the mapping.
    file_offset: u64,
    lead: usize,
    len: usize,
    access: MapAccess,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is removed only by Drop.
unsafe impl Send for PartialMap {}
// SAFETY: all access through &PartialMap is checked and either atomic or tolerant of concurrent writers (see
// Window).
unsafe impl Sync for PartialMap {}

impl Region {
    /// Maps a part of the region once more. With an address, nothing that is mapped there already is
    /// replaced.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Empty`]; [`Error::Misaligned`] and [`Error::AddressTaken`] for an
    /// address; [`Error::ReadOnly`] for writing to a region that may only be read; [`Error::System`].
    pub fn map_part(&self, options: &PartialMapOptions) -> Result<PartialMap> {
        let PartialMapOptions { offset, len, address, access } = *options;
        self.window().sub(offset, len)?;
        if len == 0 {
            return Err(Error::Empty);
        }
        if access == MapAccess::ReadWrite && self.access != MapAccess::ReadWrite {
            return Err(Error::ReadOnly);
        }
        let page = rustix::param::page_size();
        let lead = offset % page;
        if address.is_some() && lead != 0 {
            return Err(Error::Misaligned { offset, align: page });
        }
        if let Some(address) = address.filter(|address| *address == 0 || !address.is_multiple_of(page)) {
            return Err(Error::AddressMisaligned { address, align: page });
        }
        let out_of_range = Error::OutOfRange { offset, len, size: self.size_bytes };
        let mapped_bytes = round_up(lead + len, page).ok_or(out_of_range)?;
        let (start, file_offset) = (address.unwrap_or(0), (offset - lead) as u64);
        let placement = if address.is_some() { MapFlags::FIXED_NOREPLACE } else { MapFlags::empty() };
        // SAFETY: with FIXED_NOREPLACE, and where the kernel chooses, nothing that exists is replaced.
        let mapped = unsafe {
            rustix::mm::mmap(
                ptr::with_exposed_provenance_mut(start),
                mapped_bytes,
                protection(access),
                MapFlags::SHARED | placement,
                self.fd.as_fd(),
                file_offset,
            )
        };
        let mapped = mapped.map_err(|errno| refused(address, errno))?;
        let start = NonNull::new(mapped.cast()).ok_or(refused(address, Errno::NOMEM))?;
        let map = PartialMap { start, mapped_bytes, file_offset, lead, len, access };
        match address {
            // A kernel before 4.17 takes the address for a wish.
            Some(wanted) if map.start.as_ptr().addr() != wanted => {
                Err(Error::AddressTaken { address: wanted, errno: Errno::EXIST })
            }
            _ => Ok(map),
        }
    }
}

/// Whose fault it is that the kernel does not map: with an address, the address.
fn refused(address: Option<usize>, errno: Errno) -> Error {
    match address {
        Some(address) => Error::AddressTaken { address, errno },
        None => Error::System { what: "mmap of a part of a region", errno },
    }
}

impl PartialMap {
    /// Address of the first byte that was asked for. Whatever is done through it is unchecked.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        // SAFETY: `lead` is less than a page, of which the mapping has at least one.
        unsafe { self.start.as_ptr().add(self.lead) }
    }

    /// What was asked for, with checked access.
    #[must_use]
    pub fn window(&self) -> Window<'_> {
        // SAFETY: the mapping holds `len` bytes behind its lead, has that access and lives as long as `self`.
        unsafe { Window::from_raw(self.as_ptr(), self.len, self.access) }
    }

    /// As [`Region::detach`], for this mapping.
    ///
    /// # Errors
    /// [`Error::System`]; the mapping is then as it was.
    pub fn detach(&self) -> Result<()> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the range is exactly this mapping, which `self` owns: nothing else is replaced.
        unsafe {
            rustix::mm::mmap_anonymous(self.address(), self.mapped_bytes, protection(self.access), flags)
        }
        .map(drop)
        .map_err(|errno| Error::System { what: "mmap of a sink", errno })
    }

    /// Undoes [`PartialMap::detach`]; `region` is the one that it was made of.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] if it is not; [`Error::System`]; the mapping then still leads nowhere.
    pub fn reattach(&self, region: &Region) -> Result<()> {
        let offset = usize::try_from(self.file_offset).unwrap_or(usize::MAX);
        if offset.checked_add(self.mapped_bytes).is_none_or(|end| end > region.mapped_bytes) {
            return Err(Error::OutOfRange { offset, len: self.mapped_bytes, size: region.mapped_bytes });
        }
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: as in `detach`; the part lies in the file, which is sealed against shrinking.
        unsafe {
            rustix::mm::mmap(
                self.address(),
                self.mapped_bytes,
                protection(self.access),
                flags,
                region.fd.as_fd(),
                self.file_offset,
            )
        }
        .map(drop)
        .map_err(|errno| Error::System { what: "mmap of a reattached region", errno })
    }

    fn address(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }
}

impl Drop for PartialMap {
    fn drop(&mut self) {
        // SAFETY: the range is exactly this mapping; a process that was given its address was told that it
        // ends here. It cannot fail for a range that was returned by mmap.
        let _ = unsafe { rustix::mm::munmap(self.address(), self.mapped_bytes) };
    }
}

fn protection(access: MapAccess) -> ProtFlags {
    match access {
        MapAccess::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        MapAccess::ReadOnly => ProtFlags::READ,
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::region::RegionOptions;

    const PAGE: usize = 4096;

    fn region() -> Region {
        Region::create(&RegionOptions::new("partial-test", 4 * PAGE)).unwrap()
    }

    fn anywhere(offset: usize, len: usize) -> PartialMapOptions {
        PartialMapOptions { offset, len, address: None, access: MapAccess::ReadWrite }
    }

    fn byte(map: &PartialMap, at: usize) -> u8 {
        map.window().load_u8(at).unwrap()
    }

    /// An address range that was free a moment ago.
    fn free_address(len: usize) -> usize {
        let map = region().map_part(&anywhere(0, len)).unwrap();
        map.as_ptr().addr()
    }

    #[test]
    fn a_part_is_the_same_memory_whatever_byte_it_begins_at() {
        let region = region();
        let map = region.map_part(&anywhere(PAGE + 77, 100)).unwrap();
        region.window().put(PAGE + 77, &[5]).unwrap();
        assert_eq!(byte(&map, 0), 5);
        map.window().store_u8(99, 9).unwrap();
        assert!(map.window().store_u8(100, 9).is_err());
        assert_eq!(region.window().load_u8(PAGE + 176), Ok(9));
    }

    #[test]
    fn an_address_is_taken_exactly_and_nothing_is_replaced() {
        let region = region();
        let address = free_address(2 * PAGE);
        let options = PartialMapOptions { address: Some(address), ..anywhere(PAGE, 2 * PAGE) };
        let map = region.map_part(&options).unwrap();
        assert_eq!(map.as_ptr().addr(), address);
        let again = region.map_part(&options).unwrap_err();
        assert!(matches!(again, Error::AddressTaken { .. }), "{again}");
        let beside = PartialMapOptions { address: Some(address + PAGE), ..options };
        assert!(matches!(region.map_part(&beside), Err(Error::AddressTaken { .. })));
        drop(map);
        assert!(region.map_part(&options).is_ok(), "free again");
    }

    #[test]
    fn what_cannot_be_mapped_is_refused() {
        let region = region();
        let at = |address, offset| PartialMapOptions { address: Some(address), ..anywhere(offset, PAGE) };
        for address in [0, 1, 0x7000_0000_0008] {
            let refused = region.map_part(&at(address, 0)).unwrap_err();
            assert_eq!(refused, Error::AddressMisaligned { address, align: PAGE });
        }
        let free = free_address(PAGE);
        assert_eq!(region.map_part(&at(free, 8)).unwrap_err(), Error::Misaligned { offset: 8, align: PAGE });
        // The upper half of the address space is the kernel's.
        let kernels = usize::MAX - PAGE + 1;
        assert!(matches!(region.map_part(&at(kernels, 0)), Err(Error::AddressTaken { .. })));
        assert_eq!(region.map_part(&anywhere(0, 0)).unwrap_err(), Error::Empty);
        assert!(matches!(region.map_part(&anywhere(PAGE, 4 * PAGE)), Err(Error::OutOfRange { .. })));
    }

    #[test]
    fn a_readers_region_is_mapped_for_reading_only() {
        let owner = region();
        owner.window().put(0, &[8]).unwrap();
        let reader = Region::open(owner.fd().try_clone_to_owned().unwrap(), MapAccess::ReadOnly).unwrap();
        assert_eq!(reader.map_part(&anywhere(0, 1)).unwrap_err(), Error::ReadOnly);
        let options = PartialMapOptions { access: MapAccess::ReadOnly, ..anywhere(0, 1) };
        assert_eq!(byte(&reader.map_part(&options).unwrap(), 0), 8);
    }

    #[test]
    fn it_follows_the_link_and_outlives_the_region() {
        let region = region();
        region.window().put(PAGE, &[3]).unwrap();
        let map = region.map_part(&anywhere(PAGE, PAGE)).unwrap();
        map.detach().unwrap();
        assert_eq!(byte(&map, 0), 0);
        map.reattach(&region).unwrap();
        assert_eq!(byte(&map, 0), 3);
        let small = Region::create(&RegionOptions::new("partial-test", PAGE)).unwrap();
        assert!(matches!(map.reattach(&small), Err(Error::OutOfRange { .. })));
        drop(region);
        assert_eq!(byte(&map, 0), 3);
    }
}

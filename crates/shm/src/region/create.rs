//! Creates a region step by step, so that every limit is met as a clear error.

use super::{MapAccess, PageSize, Region, RegionOptions, Reserve, available, map, numa};
use crate::layout::round_up;
use crate::sync::plain::AtomicU32;
use crate::{Error, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::Resource;

/// Longest name that the kernel takes for a memory file, in bytes.
const NAME_BYTES_MAX: usize = 249;
/// Memory is allocated in steps of this many bytes: a signal undoes only the step that it interrupts.
const ALLOCATE_STEP_BYTES: u64 = 64 << 20;

impl PageSize {
    /// Size of one page in bytes.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::Base => rustix::param::page_size(),
            Self::Huge2M => 2 << 20,
            Self::Huge1G => 1 << 30,
        }
    }

    fn flags(self) -> MemfdFlags {
        match self {
            Self::Base => MemfdFlags::empty(),
            Self::Huge2M => MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
            Self::Huge1G => MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB,
        }
    }

    fn is_huge(self) -> bool {
        self != Self::Base
    }
}

pub(super) fn create(options: &RegionOptions<'_>) -> Result<Region> {
    let size_bytes = options.size_bytes;
    let mapped_bytes = checked_size(options)?;
    let fd = memory_file(options)?;
    let file_bytes = mapped_bytes as u64;
    rustix::fs::ftruncate(&fd, file_bytes).map_err(|errno| step("ftruncate", size_bytes, errno))?;
    // Huge pages are reserved here, for the whole file: later touches find theirs.
    let start = map(&fd, mapped_bytes, MapAccess::ReadWrite).map_err(|errno| match errno {
        Errno::NOMEM if options.pages.is_huge() => no_huge_pages(options, mapped_bytes),
        errno => step("mmap", size_bytes, errno),
    })?;
    let region = Region {
        fd,
        start,
        mapped_bytes,
        size_bytes,
        access: MapAccess::ReadWrite,
        only_in_pid: AtomicU32::new(0),
    };
    // The place has to be known before the first page is allocated.
    if let Some(node) = options.numa_node {
        numa::bind(start, mapped_bytes, node)?;
    }
    if options.reserve == Reserve::Eager {
        allocate(&region.fd, options, file_bytes)?;
    }
    if options.lock {
        lock(&region)?;
    }
    // All that there will ever be: every holder of the descriptor could add a seal, and take writing away
    // from the others.
    let mut seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    // The mapping above stays writable.
    seals.set(SealFlags::FUTURE_WRITE, options.read_only_for_others);
    rustix::fs::fcntl_add_seals(&region.fd, seals)
        .map_err(|errno| step("fcntl(F_ADD_SEALS)", size_bytes, errno))?;
    Ok(region)
}

/// The size in whole pages, if there can be such a region at all.
fn checked_size(options: &RegionOptions<'_>) -> Result<usize> {
    let size_bytes = options.size_bytes;
    if size_bytes == 0 {
        return Err(Error::Empty);
    }
    let address_space = isize::MAX as usize;
    let too_large = |available_bytes, limit| Error::TooLarge { size_bytes, available_bytes, limit };
    let mapped_bytes = round_up(size_bytes, options.pages.bytes())
        .filter(|&bytes| bytes <= address_space)
        .ok_or_else(|| too_large(address_space, "the address space"))?;
    // A memory file is a file to this limit, and a process beyond it gets no error but is ended by SIGXFSZ.
    let files = rustix::process::getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
    if mapped_bytes as u64 > files {
        let available = usize::try_from(files).unwrap_or(usize::MAX);
        return Err(too_large(available, "the process's limit on files (RLIMIT_FSIZE, `ulimit -f`)"));
    }
    // Asked before anything is allocated: afterwards it is the kernel that decides who dies.
    if options.reserve == Reserve::Eager && !options.pages.is_huge() {
        let available = available::memory();
        if mapped_bytes > available.bytes {
            return Err(too_large(available.bytes, available.limit));
        }
    }
    Ok(mapped_bytes)
}

fn memory_file(options: &RegionOptions<'_>) -> Result<OwnedFd> {
    if options.name.len() > NAME_BYTES_MAX || options.name.contains('\0') {
        return Err(Error::BadName);
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | options.pages.flags();
    // Shared memory is never code; kernels before 6.3 do not know the flag that says so.
    let made = match rustix::fs::memfd_create(options.name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => rustix::fs::memfd_create(options.name, flags),
        made => made,
    };
    made.map_err(|errno| match errno {
        Errno::MFILE | Errno::NFILE => Error::of_new_descriptor("a region", errno),
        errno if options.pages.is_huge() => {
            Error::HugePagesUnsupported { page_kib: options.pages.bytes() >> 10, errno }
        }
        errno => step("memfd_create", options.size_bytes, errno),
    })
}

/// For a region of the usual pages that was made without memory.
pub(super) fn allocate_later(region: &Region) -> Result<()> {
    let options = RegionOptions::new("", region.size_bytes);
    checked_size(&options)?;
    allocate(&region.fd, &options, region.mapped_bytes as u64)
}

fn allocate(fd: &OwnedFd, options: &RegionOptions<'_>, file_bytes: u64) -> Result<()> {
    let mut offset = 0;
    while offset < file_bytes {
        let length = (file_bytes - offset).min(ALLOCATE_STEP_BYTES.max(options.pages.bytes() as u64));
        match rustix::fs::fallocate(fd, FallocateFlags::empty(), offset, length) {
            Ok(()) => offset += length,
            Err(Errno::INTR) => {}
            Err(Errno::NOSPC | Errno::NOMEM) if options.pages.is_huge() => {
                return Err(no_huge_pages(options, options.size_bytes));
            }
            Err(errno) => return Err(step("fallocate", options.size_bytes, errno)),
        }
    }
    Ok(())
}

fn lock(region: &Region) -> Result<()> {
    // SAFETY: the range is exactly the region's mapping.
    unsafe { rustix::mm::mlock(region.start.as_ptr().cast(), region.mapped_bytes) }.map_err(|errno| {
        match errno {
            // What a limit looks like: NOMEM with a limit, PERM with a limit of zero, AGAIN if some pages
            // were not locked.
            Errno::NOMEM | Errno::PERM | Errno::AGAIN => {
                let limit = rustix::process::getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX);
                Error::LockLimit { size_bytes: region.mapped_bytes, limit_bytes: limit }
            }
            errno => step("mlock", region.size_bytes, errno),
        }
    })
}

fn no_huge_pages(options: &RegionOptions<'_>, mapped_bytes: usize) -> Error {
    let page_bytes = options.pages.bytes();
    Error::NoHugePages {
        size_bytes: options.size_bytes,
        pages: mapped_bytes.div_ceil(page_bytes),
        page_kib: page_bytes >> 10,
    }
}

fn step(what: &'static str, size_bytes: usize, errno: Errno) -> Error {
    Error::Create { what, size_bytes, errno }
}

//! Memory that can be handed to another process as a descriptor.
//!
//! A region is a memory file without a name in any file system, sealed so that nobody can take the memory
//! away from under those who mapped it. [`Region::create`] makes one, the descriptor travels over a UNIX
//! socket, and [`Region::open`] checks what arrived: it trusts neither a size nor a promise that came with
//! it.

mod available;
mod create;
mod numa;
mod partial;
mod sink;
mod used;

pub use partial::{PartialMap, PartialMapOptions};
pub use used::MemoryId;

use crate::origin::Origin;
use crate::sync::plain::{AtomicU32, Ordering};
use crate::window::Window;
use crate::{Error, Result};
use core::ffi::c_void;
use core::ptr::{self, NonNull};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Size of the pages that a region is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageSize {
    /// The processor's usual pages.
    #[default]
    Base,
    /// Huge pages of 2 MiB from the kernel's pool.
    Huge2M,
    /// Huge pages of 1 GiB from the kernel's pool.
    Huge1G,
}

/// When a region's memory is allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reserve {
    /// At once: too little memory is an error of [`Region::create`], not a killed process later.
    #[default]
    Eager,
    /// When it is first touched. If memory runs out then, the toucher dies (SIGBUS, or the kernel's killer).
    Lazy,
}

/// What a region should be.
#[derive(Clone, Copy, Debug)]
pub struct RegionOptions<'a> {
    /// Shown in `/proc/<pid>/maps` and `/proc/<pid>/fd`; means nothing else. At most 249 bytes.
    pub name: &'a str,
    /// Size in bytes; the file is rounded up to whole pages.
    pub size_bytes: usize,
    /// Size of the pages.
    pub pages: PageSize,
    /// Whether the memory may never be swapped out (limited by RLIMIT_MEMLOCK).
    pub lock: bool,
    /// The memory node that the pages must come from.
    pub numa_node: Option<u32>,
    /// When memory is allocated.
    pub reserve: Reserve,
    /// Whether only the mapping that is made with it can ever write: any other process that maps its
    /// descriptor can only read.
    pub read_only_for_others: bool,
}

impl<'a> RegionOptions<'a> {
    /// Base pages, allocated at once, not locked, from any memory node.
    #[must_use]
    pub fn new(name: &'a str, size_bytes: usize) -> Self {
        let (pages, reserve) = (PageSize::default(), Reserve::default());
        Self { name, size_bytes, pages, lock: false, numa_node: None, reserve, read_only_for_others: false }
    }
}

/// What this side may do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapAccess {
    /// Read and write.
    ReadWrite,
    /// Only read: a store through a pointer ends the process.
    ReadOnly,
}

/// A mapped memory file: unmapped and closed when dropped.
#[derive(Debug)]
pub struct Region {
    fd: OwnedFd,
    start: NonNull<u8>,
    mapped_bytes: usize,
    size_bytes: usize,
    access: MapAccess,
    /// The only process that has the mapping, once [`Region::dont_fork`] was called; 0: children inherit it.
    only_in_pid: AtomicU32,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is removed only by Drop.
unsafe impl Send for Region {}
// SAFETY: all access through &Region is checked and either atomic or tolerant of concurrent writers (see
// Window).
unsafe impl Sync for Region {}

impl Region {
    /// Makes a region and maps it for reading and writing. Its bytes are zero. It is sealed against a change
    /// of its size and against further seals: a process that is given its descriptor could otherwise seal all
    /// others out.
    ///
    /// # Errors
    /// [`Error::Empty`], [`Error::BadName`], [`Error::TooLarge`] (before anything is allocated),
    /// [`Error::NoHugePages`], [`Error::HugePagesUnsupported`], [`Error::DescriptorLimit`],
    /// [`Error::LockLimit`], [`Error::NoSuchNumaNode`], [`Error::NumaUnsupported`], or [`Error::Create`] with
    /// the kernel's reason.
    pub fn create(options: &RegionOptions<'_>) -> Result<Self> {
        create::create(options)
    }

    /// Maps a region of another process, from a descriptor that is not trusted.
    ///
    /// Its size is the one that the kernel reports: a whole number of pages, at least what its creator asked
    /// for.
    ///
    /// # Errors
    /// [`Error::NotMemory`], [`Error::NotSealed`], [`Error::WrongSize`]; [`Error::ReadOnly`] if it should be
    /// mapped for writing and its owner sealed it; [`Error::System`] if the kernel does not map it.
    pub fn open(fd: OwnedFd, access: MapAccess) -> Result<Self> {
        // Only memory files have seals, so this also says that it is one. The seals come first: after them
        // the size cannot change any more.
        let seals = rustix::fs::fcntl_get_seals(&fd).map_err(|_| Error::NotMemory)?;
        for (seal, missing) in [(SealFlags::SHRINK, "shrinking"), (SealFlags::GROW, "growing")] {
            if !seals.contains(seal) {
                return Err(Error::NotSealed { missing });
            }
        }
        let stat = rustix::fs::fstat(&fd).map_err(|errno| Error::System { what: "fstat", errno })?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(Error::NotMemory);
        }
        let reported = u64::try_from(stat.st_size).unwrap_or(0);
        let size_bytes = usize::try_from(reported)
            .ok()
            .filter(|&size| size > 0 && isize::try_from(size).is_ok())
            .filter(|size| size.is_multiple_of(rustix::param::page_size()))
            .ok_or(Error::WrongSize { size_bytes: reported })?;
        let start = map(&fd, size_bytes, access).map_err(|errno| match errno {
            Errno::PERM | Errno::ACCESS => Error::ReadOnly,
            errno => Error::System { what: "mmap of a received region", errno },
        })?;
        Ok(Self { fd, start, mapped_bytes: size_bytes, size_bytes, access, only_in_pid: AtomicU32::new(0) })
    }

    /// The descriptor, to be passed to others.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Usable size in bytes: what was asked for at creation; for an opened region the size of the file.
    #[inline]
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Usable size in whole pages.
    pub(crate) fn mapped_bytes(&self) -> usize {
        self.mapped_bytes
    }

    /// Allocates what was reserved lazily: too little memory is an error here, not a killed process later.
    ///
    /// # Errors
    /// [`Error::TooLarge`], [`Error::Create`].
    pub fn allocate(&self) -> Result<()> {
        create::allocate_later(self)
    }

    /// What this side may do.
    #[inline]
    #[must_use]
    pub fn access(&self) -> MapAccess {
        self.access
    }

    /// Address of the first byte. Whatever is done through it is unchecked.
    #[inline]
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// All of it, with checked access.
    #[inline]
    #[must_use]
    pub fn window(&self) -> Window<'_> {
        // SAFETY: the mapping is at least `size_bytes` long, has that access and lives as long as `self`.
        unsafe { Window::from_raw(self.start.as_ptr(), self.size_bytes, self.access) }
    }

    /// The shareable type at `offset` (bytes). In a read-only region only load from it: a store ends the
    /// process.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Misaligned`].
    #[cfg(not(loom))]
    #[inline]
    pub fn view<T: crate::Shareable>(&self, offset: usize) -> Result<&T> {
        self.window().view(offset)
    }

    /// A child made by `fork` does not inherit this mapping: touching it there ends the child.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn dont_fork(&self) -> Result<()> {
        // SAFETY: the range is exactly this mapping; the advice changes nothing in this process.
        unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.mapped_bytes, Advice::LinuxDontFork) }
            .map_err(|errno| Error::System { what: "madvise(MADV_DONTFORK)", errno })?;
        self.only_in_pid.store(Origin::here().pid(), Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let only_in = self.only_in_pid.load(Ordering::Relaxed);
        if only_in != 0 && only_in != Origin::here().pid() {
            // A forked child: the mapping stayed with the parent, and the range may hold something else by
            // now.
            return;
        }
        // SAFETY: the range is exactly this mapping, and every borrow of it has ended with `self`. It cannot
        // fail for a range that was returned by mmap.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.mapped_bytes) };
    }
}

/// Maps a whole memory file.
fn map(fd: &OwnedFd, mapped_bytes: usize, access: MapAccess) -> core::result::Result<NonNull<u8>, Errno> {
    let protection = match access {
        MapAccess::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        MapAccess::ReadOnly => ProtFlags::READ,
    };
    // SAFETY: the kernel chooses the address, so nothing that exists is replaced.
    let start = unsafe {
        rustix::mm::mmap(ptr::null_mut::<c_void>(), mapped_bytes, protection, MapFlags::SHARED, fd, 0)
    }?;
    NonNull::new(start.cast()).ok_or(Errno::NOMEM)
}

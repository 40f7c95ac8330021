//! Makes a program's existing memory the memory of a region, at its own address, while the program
//! uses it.
//!
//! The pages are write-protected, copied into the region, and then replaced by a mapping of the region, which
//! the kernel does in one step. A thread that stores meanwhile faults, and the handler in [`faults`] makes it
//! try again until the replacement is done: no store is lost, no load sees anything else. What the kernel
//! writes for the program meanwhile (a `read` into these pages) fails with EFAULT instead, and pages that a
//! device writes by itself cannot be adopted safely.
//!
//! [`Adopted::release`] goes the other way: the pages become private memory again, with the content that they
//! have.

mod faults;
mod mappings;

use core::ffi::c_void;
use core::ptr;

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, MremapFlags, ProtFlags};

use crate::region::{MapAccess, Region};
use crate::{Error, Result};
use faults::Replacement;
use mappings::FileId;

/// Pages of this program that are memory of a region. Dropping it leaves them so.
#[derive(Debug)]
pub struct Adopted {
    start: usize,
    len: usize,
    file: FileId,
}

impl Region {
    /// Puts the region's memory in the place of the private memory at `address`, with the content that is
    /// there. The range is as long as the region's mapping: its size in whole pages. Children of `fork` share
    /// the memory from now on.
    ///
    /// # Safety
    /// The range is not the stack of a thread that runs, and no Rust reference to it relies on nobody else
    /// changing it.
    ///
    /// # Errors
    /// [`Error::AddressMisaligned`]; [`Error::NotAdoptable`] for what is not the program's own ordinary
    /// memory; [`Error::ReadOnly`]; [`Error::Create`] if there is not enough memory; [`Error::System`]. The
    /// program's memory is then as it was.
    pub unsafe fn adopt(&self, address: usize) -> Result<Adopted> {
        let (len, page) = (self.mapped_bytes(), rustix::param::page_size());
        if address == 0 || !address.is_multiple_of(page) {
            return Err(Error::AddressMisaligned { address, align: page });
        }
        if self.access() != MapAccess::ReadWrite {
            return Err(Error::ReadOnly);
        }
        let end = address.checked_add(len).ok_or(Error::NotAdoptable { address, why: "it wraps around" })?;
        // The address of what lies on it tells where this thread's stack is.
        if (address..end).contains(&(&raw const page).addr()) {
            return Err(Error::NotAdoptable { address, why: "this thread runs on it: it is its stack" });
        }
        let file = mappings::file_of(self.fd())?;
        let replacement = Replacement::begin()?;
        mappings::check_private(address, end)?;
        // All of it now: later a lack of memory would be a signal.
        self.allocate()?;
        let range = ptr::with_exposed_provenance_mut::<c_void>(address);
        let protected = replacement.protect(range, len)?;
        // SAFETY: both are mapped, `len` bytes long, and apart: the region's mapping is shared, the range is
        // private memory. Nobody writes to the range, which is protected; nobody else has the region's memory
        // yet, or it may change any time.
        unsafe { ptr::copy_nonoverlapping(range.cast::<u8>(), self.as_ptr(), len) };
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
        // SAFETY: the caller gives the range away; what it held was copied, and nobody has written to it
        // since.
        unsafe { rustix::mm::mmap(range, len, access, flags, self.fd(), 0) }
            .map_err(|errno| Error::System { what: "mmap over the memory to be shared", errno })?;
        protected.keep_replaced();
        Ok(Adopted { start: address, len, file })
    }
}

impl Adopted {
    /// Makes the pages private memory again, with the content that they have; a process that has mapped the
    /// region does not see what is stored there from now on. Does nothing where the program has unmapped or
    /// replaced some of them meanwhile.
    ///
    /// # Errors
    /// [`Error::System`]; the pages are then still the region's.
    pub fn release(self) -> Result<()> {
        let Self { start, len, file } = self;
        let replacement = Replacement::begin()?;
        if !mappings::is_whole(start, start + len, file)? {
            return Ok(());
        }
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping, at an address that the kernel chooses, touches nothing that exists.
        let fresh = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, access, MapFlags::PRIVATE) }
            .map_err(|errno| Error::System { what: "mmap of private memory", errno })?;
        let range = ptr::with_exposed_provenance_mut::<c_void>(start);
        let moved = replacement.protect(range, len).and_then(|protected| {
            // SAFETY: both are mapped, `len` bytes long, and apart. A process that has mapped the region
            // elsewhere may write meanwhile, as at any time; the copy is no Rust reference.
            unsafe { ptr::copy_nonoverlapping(range.cast::<u8>(), fresh.cast::<u8>(), len) };
            // SAFETY: the new mapping is ours, and the range is still the region's mapping, as was just
            // checked.
            unsafe { rustix::mm::mremap_fixed(fresh, len, len, MremapFlags::MAYMOVE, range) }
                .map_err(|errno| Error::System { what: "mremap of private memory", errno })?;
            protected.keep_replaced();
            Ok(())
        });
        if moved.is_err() {
            // SAFETY: the new mapping was not moved, and nobody else knows of it.
            let _ = unsafe { rustix::mm::munmap(fresh, len) };
        }
        moved
    }
}

/// A range that cannot be written; writable again when dropped.
#[derive(Debug)]
struct Protected<'a> {
    replacement: &'a Replacement,
    range: *mut c_void,
    len: usize,
}

impl Replacement {
    /// From now on, stores to the range wait.
    fn protect(&self, range: *mut c_void, len: usize) -> Result<Protected<'_>> {
        self.hold_up(range.addr(), range.addr() + len);
        let protected = Protected { replacement: self, range, len };
        // SAFETY: the range is memory of the program that can be read and written, and becomes so again.
        unsafe { rustix::mm::mprotect(range, len, MprotectFlags::READ) }
            .map_err(|errno: Errno| Error::System { what: "mprotect of the memory to be shared", errno })?;
        Ok(protected)
    }
}

impl Protected<'_> {
    /// What lies there now can be written.
    fn keep_replaced(self) {
        self.replacement.let_go();
        core::mem::forget(self);
    }
}

impl Drop for Protected<'_> {
    fn drop(&mut self) {
        let flags = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the range was readable and writable before it was protected. If the kernel does not do it,
        // the next store ends the program, which is better than one that is lost.
        let _ = unsafe { rustix::mm::mprotect(self.range, self.len, flags) };
        self.replacement.let_go();
    }
}

#[cfg(all(test, not(loom)))]
mod tests;

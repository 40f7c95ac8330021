//! Detects with one load that a forked child uses what its parent attached.
//!
//! A page that the kernel wipes in every forked child (`MADV_WIPEONFORK`, madvise(2), Linux 4.14) holds the
//! process's number. The child finds 0 there and writes its own.

use core::ptr::{null_mut, without_provenance_mut};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

use crate::sync::plain::{AtomicPtr, AtomicU32, Ordering};

const PAGE_BYTES: usize = 4096;
/// Stands for: this kernel cannot wipe pages on fork.
const UNSUPPORTED: *mut AtomicU32 = without_provenance_mut(1);

/// The page; null before the first use.
static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());

/// The process that something was made in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(u32);

impl Origin {
    /// This process.
    #[inline]
    #[must_use]
    pub fn here() -> Self {
        // Acquire: pairs with the Release in `make_page`: the page is mapped before its address is seen.
        let page = PAGE.load(Ordering::Acquire);
        if page.is_null() || page == UNSUPPORTED {
            return Self(slow_pid(page));
        }
        // SAFETY: neither null nor the marker, so it is what `make_page` stored: the start of a mapped,
        // aligned page that is never unmapped; a forked child inherits the mapping and finds it wiped.
        let word = unsafe { &*page };
        match word.load(Ordering::Relaxed) {
            0 => Self(mark(word)),
            pid => Self(pid),
        }
    }

    /// The process's number.
    #[must_use]
    pub fn pid(self) -> u32 {
        self.0
    }
}

fn own_pid() -> u32 {
    rustix::process::getpid().as_raw_nonzero().get().unsigned_abs()
}

#[cold]
fn mark(word: &AtomicU32) -> u32 {
    let pid = own_pid();
    // All threads of this process write the same.
    word.store(pid, Ordering::Relaxed);
    pid
}

#[cold]
fn slow_pid(page: *mut AtomicU32) -> u32 {
    if page.is_null() {
        make_page();
    }
    own_pid()
}

fn make_page() {
    let flags = MapFlags::PRIVATE;
    // SAFETY: a new private mapping, at an address that the kernel chooses, touches nothing that exists.
    let Ok(page) =
        (unsafe { mmap_anonymous(null_mut(), PAGE_BYTES, ProtFlags::READ | ProtFlags::WRITE, flags) })
    else {
        // Out of memory now; the next call tries again.
        return;
    };
    // SAFETY: the range is the mapping just made; the advice changes what a forked child sees of it, nothing
    // here.
    let wiped = unsafe { madvise(page, PAGE_BYTES, Advice::LinuxWipeOnFork) };
    let made = if wiped.is_ok() { page.cast::<AtomicU32>() } else { UNSUPPORTED };
    // Release: pairs with the Acquire in `Origin::here`.
    let was = PAGE.compare_exchange(null_mut(), made, Ordering::Release, Ordering::Relaxed);
    if was.is_err() || made == UNSUPPORTED {
        // SAFETY: the mapping made above, whose address nobody else has been given.
        let _ = unsafe { munmap(page, PAGE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_this_process_each_time() {
        for _ in 0..3 {
            assert_eq!(Origin::here().pid(), std::process::id());
        }
    }
}

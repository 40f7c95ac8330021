//! Replaces a mapping by private memory for a time, without changing its address.

use core::ptr;

use rustix::fd::AsFd;
use rustix::mm::{MapFlags, ProtFlags};

use super::{MapAccess, Region};
use crate::sync::plain::Ordering;
use crate::{Error, Result};

impl Region {
    /// From now on loads and stores through this mapping reach private memory of zeros instead of the region,
    /// which nobody sees: what a store meets when the cable is out. The address stays; no access in between
    /// can fault, because the kernel replaces a mapping in one step (mmap(2), MAP_FIXED).
    ///
    /// # Errors
    /// [`Error::System`]; the mapping is then as it was.
    pub fn detach(&self) -> Result<()> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: the range is exactly this mapping, which `self` owns: nothing else is replaced. Its bytes
        // change under those who hold a window, as they may at any time anyway; length and access stay as
        // they were.
        unsafe {
            rustix::mm::mmap_anonymous(
                self.start.as_ptr().cast(),
                self.mapped_bytes,
                protection(self.access),
                flags,
            )
        }
        .map_err(|errno| Error::System { what: "mmap of a sink", errno })?;
        self.keep_from_children()
    }

    /// Undoes [`Region::detach`]: the mapping reaches the region again. What was stored meanwhile is gone.
    ///
    /// # Errors
    /// [`Error::System`]; the mapping then still leads nowhere.
    pub fn reattach(&self) -> Result<()> {
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: as in `detach`; the file is as long as the mapping and sealed against shrinking.
        let start = unsafe {
            rustix::mm::mmap(
                self.start.as_ptr().cast(),
                self.mapped_bytes,
                protection(self.access),
                flags,
                self.fd.as_fd(),
                0,
            )
        }
        .map_err(|errno| Error::System { what: "mmap of a reattached region", errno })?;
        debug_assert!(ptr::eq(start.cast(), self.start.as_ptr()));
        self.keep_from_children()
    }

    /// A new mapping knows nothing of the advice that the old one had.
    fn keep_from_children(&self) -> Result<()> {
        if self.only_in_pid.load(Ordering::Relaxed) == 0 { Ok(()) } else { self.dont_fork() }
    }
}

fn protection(access: MapAccess) -> ProtFlags {
    match access {
        MapAccess::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        MapAccess::ReadOnly => ProtFlags::READ,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::region::RegionOptions;
    use crate::sync::{AtomicBool, AtomicU64};

    fn opened(owner: &Region) -> Result<Region> {
        let fd = owner.fd().try_clone_to_owned().map_err(|_| Error::NotMemory)?;
        Region::open(fd, MapAccess::ReadWrite)
    }

    #[test]
    fn stores_are_swallowed_and_the_memory_is_back_afterwards() {
        let owner = Region::create(&RegionOptions::new("sink-test", 3 * 4096)).unwrap();
        let other = opened(&owner).unwrap();
        owner.window().put(8, &[1, 2, 3]).unwrap();
        other.detach().unwrap();
        let mut seen = [9; 3];
        other.window().get(8, &mut seen).unwrap();
        assert_eq!(seen, [0; 3], "nothing of the other side is seen");
        other.window().put(8, &[7; 3]).unwrap();
        owner.window().get(8, &mut seen).unwrap();
        assert_eq!(seen, [1, 2, 3], "nothing reached it");
        other.reattach().unwrap();
        other.window().get(8, &mut seen).unwrap();
        assert_eq!(seen, [1, 2, 3]);
        other.window().put(9, &[5]).unwrap();
        owner.window().get(8, &mut seen).unwrap();
        assert_eq!(seen, [1, 5, 3]);
    }

    #[test]
    fn a_thread_that_stores_all_the_time_never_faults() {
        let owner = Region::create(&RegionOptions::new("sink-test", 3 * 4096)).unwrap();
        let other = opened(&owner).unwrap();
        let stop = AtomicBool::new(false);
        let stored = AtomicU64::new(0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let word = other.window().atomic_u64(4096).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    word.fetch_add(1, Ordering::Relaxed);
                    stored.fetch_add(1, Ordering::Relaxed);
                }
            });
            for _ in 0..300 {
                other.detach().unwrap();
                other.reattach().unwrap();
            }
            while stored.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
        });
        let arrived = owner.window().atomic_u64(4096).unwrap().load(Ordering::Relaxed);
        assert!(arrived <= stored.load(Ordering::Relaxed));
    }
}

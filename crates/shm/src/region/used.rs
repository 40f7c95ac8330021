//! Which regions other processes use, told through record locks of the memory file.
//!
//! The kernel keeps a lock of a process until the process takes it back, closes a descriptor of the file, or dies. So what is
//! told is never told by a process that is gone, and it takes no word in memory that a peer could leave wrong.

use super::Region;
use crate::{Error, Result};
use rustix::fs::FlockOperation;
use rustix::process::{Flock, FlockType};

impl Region {
    /// Tells the region's other processes that this one uses it, or that it does so no more. A process that closes another
    /// descriptor of the same memory takes back what it has told, and has to tell it again.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn tell_use(&self, is_used: bool) -> Result<()> {
        let lock =
            if is_used { FlockOperation::NonBlockingLockShared } else { FlockOperation::NonBlockingUnlock };
        rustix::fs::fcntl_lock(&self.fd, lock)
            .map_err(|errno| Error::System { what: "fcntl(F_SETLK) of a region", errno })
    }

    /// Whether another process has told that it uses the region. What this process has told does not count.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn is_used_elsewhere(&self) -> Result<bool> {
        rustix::process::fcntl_getlk(&self.fd, &Flock::from(FlockType::WriteLock))
            .map(|found| found.is_some())
            .map_err(|errno| Error::System { what: "fcntl(F_GETLK) of a region", errno })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{MapAccess, Region, RegionOptions};

    #[test]
    fn what_this_process_tells_is_taken_back_and_is_of_others_only() {
        let region = Region::create(&RegionOptions::new("used", 1)).unwrap();
        let opened = Region::open(region.fd().try_clone_to_owned().unwrap(), MapAccess::ReadWrite).unwrap();
        for is_used in [true, true, false, false] {
            opened.tell_use(is_used).unwrap();
            assert!(!region.is_used_elsewhere().unwrap());
        }
    }
}

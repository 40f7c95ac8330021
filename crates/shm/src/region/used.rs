//! Which regions other processes use, by record locks of the memory file.
//!
//! The kernel keeps a lock of a process until the process takes it back, closes a descriptor of the file, or
//! dies. So what is told is never told by a process that is gone, and it takes no word in memory that a peer
//! could leave wrong. A process that has a descriptor can lock: it can claim a use that it does not make, for
//! as long as it lives.

use super::Region;
use crate::{Error, Result};
use rustix::fs::FlockOperation;
use rustix::process::{Flock, FlockType};

/// Which memory a region is of, however often and by whomever it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryId {
    device: u64,
    inode: u64,
}

impl Region {
    /// Which memory it is of.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn id(&self) -> Result<MemoryId> {
        let stat = rustix::fs::fstat(&self.fd).map_err(|errno| Error::System { what: "fstat", errno })?;
        Ok(MemoryId { device: stat.st_dev, inode: stat.st_ino })
    }

    /// Tells the region's other processes that this one uses it, or that it does so no more. A process that
    /// closes another descriptor of the same memory takes back what it has told, and has to tell it again.
    ///
    /// # Errors
    /// [`Error::System`]; with [`Errno::AGAIN`](rustix::io::Errno::AGAIN) while another process holds a lock
    /// of its own kind, for one alone: that cannot be while any process tells that it uses the region.
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

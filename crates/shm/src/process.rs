//! Proof that a process has ended, by a pidfd and never by its PID; and threads with signals
//! blocked ([`SignalsBlocked`]).
//!
//! A number (pid) may belong to another process a moment later, and a time-out proves nothing about a process
//! that is only slow. A [`PidFd`] names one process forever, and the kernel makes it readable when all its
//! threads are gone.

mod inheritance;
mod memory;
mod namespaces;
mod signals;
// Its word is set before `main`, where no model of memory runs.
#[cfg(not(loom))]
mod startup;

pub use inheritance::pass_on_no_descriptor;
pub use memory::{NotRead, ProcessMemory};
pub use namespaces::{Namespaces, unshare};
pub use signals::SignalsBlocked;
#[cfg(not(loom))]
pub use startup::{environment, execute, stdout_was_closed};

use crate::proc_file;
use crate::{Error, Result};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags};
use rustix::time::Timespec;

/// A descriptor of a process.
#[derive(Debug)]
pub struct PidFd(OwnedFd);

/// Shows that a process had ended when this value was made. Only [`PidFd::proof_of_death`] and
/// [`DeadProof::of_number`] make one.
#[derive(Debug)]
pub struct DeadProof {
    // Private, so that nobody else can make one.
    _made_by_the_kernels_word: (),
}

impl PidFd {
    /// A descriptor of this process, to be sent to those who want to know when it ends.
    ///
    /// # Errors
    /// [`Error::DescriptorLimit`]; [`Error::NewDescriptor`], for instance if there is no such process.
    pub fn open_self() -> Result<Self> {
        Self::of_this().map_err(|errno| Error::of_new_descriptor("this process", errno))
    }

    /// The same, for those who have words of their own for the error.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn of_this() -> core::result::Result<Self, Errno> {
        // The plain call comes second: tools that examine programs (valgrind before 3.21) do not know it, and
        // say so loudly.
        let plain = |_| rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty());
        own_by_socket().or_else(plain).map(Self)
    }

    /// A descriptor of the process that has this number now. Only for a process that cannot have been
    /// replaced: an unreaped child of the caller, or one that is otherwise known to live.
    ///
    /// # Errors
    /// [`Error::DescriptorLimit`]; [`Error::NewDescriptor`], for instance if there is no such process.
    pub fn open(pid: Pid) -> Result<Self> {
        rustix::process::pidfd_open(pid, PidfdFlags::empty())
            .map(Self)
            .map_err(|errno| Error::of_new_descriptor("a process", errno))
    }

    /// Takes a received descriptor, if it is one of a process.
    ///
    /// It does not say of which process: compare [`PidFd::pid_of`] with the credentials of the sender's
    /// socket.
    ///
    /// # Errors
    /// [`Error::NotProcess`]: something else, or the descriptor of a single thread, which ends before its
    /// process does.
    pub fn from_fd(fd: OwnedFd) -> Result<Self> {
        // The kernel marks a descriptor of a single thread (PIDFD_THREAD) with O_EXCL.
        let flags = rustix::fs::fcntl_getfl(&fd).map_err(|_| Error::NotProcess)?;
        if flags.contains(OFlags::EXCL) || pid_line(fd.as_fd()).is_none() {
            return Err(Error::NotProcess);
        }
        Ok(Self(fd))
    }

    /// The process's number, while it exists and is visible from here.
    #[must_use]
    pub fn pid_of(&self) -> Option<u32> {
        // -1 after the process was reaped, 0 if it belongs to another PID namespace.
        pid_line(self.0.as_fd()).and_then(|pid| u32::try_from(pid).ok()).filter(|&pid| pid > 0)
    }

    /// Whether all threads of the process have ended, whether or not its parent has noticed.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn has_exited(&self) -> Result<bool> {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&at_once)))
            .map_err(|errno| Error::System { what: "poll of a process", errno })?;
        Ok(ready == 1 && fds[0].revents().contains(PollFlags::IN))
    }

    /// Proof that the process has ended, or `None` while that is not certain.
    #[must_use]
    pub fn proof_of_death(&self) -> Option<DeadProof> {
        matches!(self.has_exited(), Ok(true)).then_some(DeadProof { _made_by_the_kernels_word: () })
    }
}

/// A descriptor of this process, as the process at the other end of a socket that has both ends here. Linux
/// 6.5.
fn own_by_socket() -> core::result::Result<OwnedFd, Errno> {
    let (end, _other) = socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    crate::socket::peer_process(end.as_fd())
}

impl DeadProof {
    /// Proof that a process has ended of which nothing is known but its number, or `None` while that is not
    /// certain.
    ///
    /// The number must once have been the process's in this PID namespace. A process that has the number now
    /// and lives prevents the proof; and while this process may open no file, so does a dead one whose parent
    /// has not noticed.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Self> {
        let pid = i32::try_from(number).ok().and_then(Pid::from_raw)?;
        if rustix::process::test_kill_process(pid) == Err(Errno::SRCH) {
            return Some(Self { _made_by_the_kernels_word: () });
        }
        PidFd::open(pid).ok()?.proof_of_death()
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl From<PidFd> for OwnedFd {
    fn from(pidfd: PidFd) -> Self {
        pidfd.0
    }
}

/// The number after `Pid:` in `/proc/self/fdinfo/<fd>`, which only a descriptor of a process has.
fn pid_line(fd: BorrowedFd<'_>) -> Option<i64> {
    let mut path = proc_file::PathBuffer::new();
    core::fmt::Write::write_fmt(&mut path, format_args!("/proc/self/fdinfo/{}", fd.as_raw_fd())).ok()?;
    let mut buffer = [0; 512];
    let text = proc_file::read(path.as_str()?, &mut buffer)?;
    text.lines().find_map(|line| line.strip_prefix("Pid:")).and_then(|number| number.trim().parse().ok())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn both_ways_lead_to_this_process() {
        let own = Some(std::process::id());
        assert_eq!(PidFd::open_self().unwrap().pid_of(), own);
        match own_by_socket() {
            Ok(made) => assert_eq!(PidFd::from_fd(made).unwrap().pid_of(), own),
            // A kernel before 6.5.
            Err(errno) => assert_eq!(errno, Errno::NOPROTOOPT),
        }
    }
}

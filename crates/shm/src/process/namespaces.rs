//! Leaves namespaces of the kernel for new ones.

use rustix::io::Errno;
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// What a process can have apart from the others of its machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespaces {
    /// Network interfaces, addresses and abstract UNIX sockets.
    Network,
    /// Process IDs, of the processes that this thread starts from now on.
    ProcessesOfChildren,
    /// All that a host has for itself: network, mounts, host name, System V memory and message queues.
    OfAHost,
}

/// Puts this thread into new namespaces; other threads of the process stay where they are.
///
/// # Errors
/// The error of the kernel: `EPERM` without the capability `CAP_SYS_ADMIN`, `ENOSPC` at a limit of
/// `/proc/sys/user`.
pub fn unshare(what: Namespaces) -> Result<(), Errno> {
    let flags = match what {
        Namespaces::Network => UnshareFlags::NEWNET,
        Namespaces::ProcessesOfChildren => UnshareFlags::NEWPID,
        Namespaces::OfAHost => {
            UnshareFlags::NEWNET | UnshareFlags::NEWNS | UnshareFlags::NEWUTS | UnshareFlags::NEWIPC
        }
    };
    // SAFETY: the table of file descriptors stays shared (none of these flags is `FILES`), so no thread loses
    // sight of a descriptor of another one, which is all that this call could break.
    unsafe { unshare_unsafe(flags) }
}

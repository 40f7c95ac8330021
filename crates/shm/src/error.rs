//! Errors of shared memory, with the next step.

use rustix::io::Errno;

/// Result of this crate's functions.
pub type Result<T> = core::result::Result<T, Error>;

/// An error of this crate: it names the thing, the cause and, where there is one, the next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A region of no bytes was asked for.
    #[error("a region of 0 bytes cannot be created: ask for at least 1 byte")]
    Empty,
    /// The name of a region is longer than the kernel takes, or holds a zero byte.
    #[error("the region's name is not usable: at most 249 bytes and no zero byte")]
    BadName,
    /// The kernel would not make the region.
    #[error("cannot create a region of {size_bytes} bytes: {what} failed ({errno})")]
    Create {
        /// The system call that failed.
        what: &'static str,
        /// The size that was asked for.
        size_bytes: usize,
        /// The kernel's reason.
        errno: Errno,
    },
    /// More memory was asked for than there is, found before anything was allocated.
    #[error(
        "a region of {size_bytes} bytes is too large: {available_bytes} bytes are available under {limit}; make it smaller or raise that limit"
    )]
    TooLarge {
        /// The size that was asked for.
        size_bytes: usize,
        /// What could have been had.
        available_bytes: usize,
        /// The limit that was exceeded.
        limit: &'static str,
    },
    /// There are not enough free huge pages.
    #[error(
        "a region of {size_bytes} bytes needs {pages} free huge pages of {page_kib} KiB and there are fewer: write a larger number to /sys/kernel/mm/hugepages/hugepages-{page_kib}kB/nr_hugepages, or use base pages"
    )]
    NoHugePages {
        /// The size that was asked for.
        size_bytes: usize,
        /// How many pages of that size it takes.
        pages: usize,
        /// Size of one page in KiB.
        page_kib: usize,
    },
    /// The kernel has no huge pages of that size at all.
    #[error(
        "huge pages of {page_kib} KiB are not supported by this kernel or processor ({errno}): use base pages"
    )]
    HugePagesUnsupported {
        /// Size of one page in KiB.
        page_kib: usize,
        /// The kernel's reason.
        errno: Errno,
    },
    /// The process has no descriptor left.
    #[error(
        "no file descriptor left for {what}: the process may have {limit} (RLIMIT_NOFILE); raise it with `ulimit -n`, or close some"
    )]
    DescriptorLimit {
        /// What the descriptor was for.
        what: &'static str,
        /// The soft limit.
        limit: u64,
    },
    /// The whole system has no descriptor left.
    #[error(
        "no file descriptor left for {what} in the whole system: raise the sysctl fs.file-max, or close some"
    )]
    SystemDescriptorLimit {
        /// What the descriptor was for.
        what: &'static str,
    },
    /// The kernel gave no descriptor, for another reason than a limit.
    #[error("no file descriptor for {what} ({errno})")]
    NewDescriptor {
        /// What the descriptor was for.
        what: &'static str,
        /// The kernel's reason.
        errno: Errno,
    },
    /// Memory could not be locked.
    #[error(
        "cannot lock {size_bytes} bytes in memory: the limit is {limit_bytes} bytes (RLIMIT_MEMLOCK); raise it with `ulimit -l`, or do not lock"
    )]
    LockLimit {
        /// The size that should have been locked.
        size_bytes: usize,
        /// The soft limit.
        limit_bytes: u64,
    },
    /// The memory node does not exist or may not be used.
    #[error("NUMA node {node} does not exist here or may not be used: see /sys/devices/system/node/online")]
    NoSuchNumaNode {
        /// The node that was asked for.
        node: u32,
    },
    /// The kernel cannot place memory on a node.
    #[error("this kernel cannot place memory on a NUMA node ({errno}): leave the node out")]
    NumaUnsupported {
        /// The kernel's reason.
        errno: Errno,
    },
    /// A descriptor that should be a region is something else.
    #[error("the descriptor is not a memory file (memfd): a region was expected")]
    NotMemory,
    /// A memory file whose size its owner could still change.
    #[error(
        "the memory file is not sealed against {missing}: its owner could take the memory away, so it is refused"
    )]
    NotSealed {
        /// The missing seal.
        missing: &'static str,
    },
    /// A memory file has a size that cannot be used.
    #[error("the memory file has {size_bytes} bytes, which cannot be mapped as a region")]
    WrongSize {
        /// The size that the kernel reports.
        size_bytes: u64,
    },
    /// The region may only be read.
    #[error("the region is read-only here: its owner sealed it, or it was mapped for reading")]
    ReadOnly,
    /// A range of bytes does not lie in the window.
    #[error("{len} bytes at offset {offset} do not lie in a window of {size} bytes")]
    OutOfRange {
        /// First byte.
        offset: usize,
        /// Number of bytes.
        len: usize,
        /// Size of the window in bytes.
        size: usize,
    },
    /// An offset does not have the alignment of the type that should lie there.
    #[error("offset {offset} is not a multiple of {align}")]
    Misaligned {
        /// The offset.
        offset: usize,
        /// What it should be a multiple of, in bytes.
        align: usize,
    },
    /// An address at which memory should be mapped is not the beginning of a page.
    #[error(
        "address {address:#x} is not a multiple of {align}, or is 0: memory can only be mapped at whole pages"
    )]
    AddressMisaligned {
        /// The address.
        address: usize,
        /// The page size in bytes.
        align: usize,
    },
    /// Memory cannot be mapped at the address that was asked for.
    #[error(
        "nothing can be mapped at address {address:#x} ({errno}): something is mapped there, or the program \
         cannot use it; see /proc/self/maps"
    )]
    AddressTaken {
        /// The address.
        address: usize,
        /// The kernel's reason.
        errno: Errno,
    },
    /// Memory of the program that cannot become a region's.
    #[error(
        "the memory at {address:#x} cannot be shared: {why}; give private memory of the program, as malloc or mmap make it"
    )]
    NotAdoptable {
        /// The address.
        address: usize,
        /// The reason.
        why: &'static str,
    },
    /// The content of shared memory makes no sense: the other side is wrong or hostile.
    #[error(
        "invalid control data in shared memory: {what}: disconnect, and restart the program at the other end"
    )]
    Corrupt {
        /// What does not make sense.
        what: &'static str,
    },
    /// The processor number is not one that this thread may run on.
    #[error("cannot run on processor {cpu} ({errno}): see Cpus_allowed_list in /proc/self/status")]
    CpuNotAllowed {
        /// The processor.
        cpu: usize,
        /// The kernel's reason.
        errno: Errno,
    },
    /// A descriptor that should be a process is something else.
    #[error("the descriptor is not a process (pidfd)")]
    NotProcess,
    /// A system call failed that has no error of its own here.
    #[error("{what} failed ({errno}): see the limits of this process (`ulimit -a`)")]
    System {
        /// The system call or what it was for.
        what: &'static str,
        /// The kernel's reason.
        errno: Errno,
    },
}

impl Error {
    /// Turns the error of a call that makes a descriptor into [`Error::DescriptorLimit`] where that is the
    /// reason.
    pub(crate) fn of_new_descriptor(what: &'static str, errno: Errno) -> Self {
        match errno {
            Errno::MFILE => {
                let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
                Self::DescriptorLimit { what, limit: limit.current.unwrap_or(u64::MAX) }
            }
            Errno::NFILE => Self::SystemDescriptorLimit { what },
            errno => Self::NewDescriptor { what, errno },
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Every error names the thing, and those that the user can do something about name the next step.
    #[test]
    fn texts() {
        let errno = Errno::NOMEM;
        let (size_bytes, page_kib) = (4096, 2048);
        let cases = [
            (Error::Empty, "0 bytes", "ask for at least 1 byte"),
            (Error::BadName, "name", "at most 249 bytes"),
            (Error::Create { what: "mmap", size_bytes, errno }, "region of 4096 bytes", "mmap failed"),
            (
                Error::TooLarge { size_bytes, available_bytes: 9, limit: "a limit" },
                "9 bytes",
                "make it smaller or raise",
            ),
            (
                Error::NoHugePages { size_bytes, pages: 3, page_kib },
                "3 free huge pages of 2048 KiB",
                "nr_hugepages",
            ),
            (Error::HugePagesUnsupported { page_kib, errno }, "2048 KiB", "use base pages"),
            (Error::DescriptorLimit { what: "a region", limit: 20 }, "for a region", "RLIMIT_NOFILE"),
            (Error::LockLimit { size_bytes, limit_bytes: 7 }, "lock 4096 bytes", "RLIMIT_MEMLOCK"),
            (Error::NoSuchNumaNode { node: 5 }, "NUMA node 5", "/sys/devices/system/node/online"),
            (Error::NumaUnsupported { errno }, "NUMA", "leave the node out"),
            (Error::NotMemory, "memfd", "a region was expected"),
            (Error::NotSealed { missing: "growing" }, "sealed against growing", "refused"),
            (Error::WrongSize { size_bytes: 5 }, "5 bytes", "cannot be mapped"),
            (Error::ReadOnly, "read-only", "sealed"),
            (Error::OutOfRange { offset: 1, len: 2, size: 3 }, "2 bytes at offset 1", "window of 3 bytes"),
            (Error::Misaligned { offset: 3, align: 8 }, "offset 3", "multiple of 8"),
            (Error::AddressMisaligned { address: 0x1008, align: 4096 }, "address 0x1008", "whole pages"),
            (Error::AddressTaken { address: 0x1000, errno }, "address 0x1000", "/proc/self/maps"),
            (Error::NotAdoptable { address: 0x1000, why: "it holds code" }, "0x1000", "private memory"),
            (Error::Corrupt { what: "index 7" }, "index 7", "restart the program"),
            (Error::CpuNotAllowed { cpu: 9, errno }, "processor 9", "Cpus_allowed_list"),
            (Error::NotProcess, "process", "pidfd"),
            (Error::System { what: "fstat", errno }, "fstat", "failed"),
        ];
        for (error, thing, next_step) in cases {
            let text = error.to_string();
            assert!(text.contains(thing) && text.contains(next_step), "{error:?}: {text}");
        }
    }

    #[test]
    fn a_full_system_is_not_blamed_on_the_process() {
        let error = Error::of_new_descriptor("a region", Errno::NFILE);
        assert_eq!(error, Error::SystemDescriptorLimit { what: "a region" });
        assert!(error.to_string().contains("fs.file-max"), "{error}");
        let other = Error::of_new_descriptor("a process", Errno::SRCH);
        assert_eq!(other, Error::NewDescriptor { what: "a process", errno: Errno::SRCH });
    }
}

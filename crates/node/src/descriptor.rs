//! Descriptors of programs: what they are, and where they are kept.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use proto::manager::{Descriptor, DescriptorKind, FdToken};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat, fstatfs};
use rustix::net::{AddressFamily, SocketType, sockopt};

/// `f_type` of huge pages (HUGETLBFS_MAGIC, linux/magic.h).
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// Looks at a descriptor that somebody sent. Its nature cannot change later: seals only grow, and what is sealed stays.
pub fn inspect(fd: BorrowedFd<'_>) -> DescriptorKind {
    // Only a memfd knows seals (others answer EINVAL), so this is also the test whether it is one.
    if let Ok(seals) = fcntl_get_seals(fd) {
        let (Ok(stat), Ok(system)) = (fstat(fd), fstatfs(fd)) else { return DescriptorKind::Other };
        let size_bytes = u64::try_from(stat.st_size).unwrap_or_default();
        let size_sealed = seals.contains(SealFlags::SHRINK | SealFlags::GROW);
        if system.f_type as u64 == HUGETLBFS_MAGIC {
            return DescriptorKind::HugeMemory { size_bytes, size_sealed };
        }
        return DescriptorKind::Memory {
            size_bytes,
            size_sealed,
            write_sealed: seals.intersects(SealFlags::FUTURE_WRITE | SealFlags::WRITE),
        };
    }
    if let (Ok(AddressFamily::UNIX), Ok(SocketType::DGRAM)) =
        (sockopt::socket_domain(fd), sockopt::socket_type(fd))
    {
        return DescriptorKind::Event;
    }
    match std::fs::read_to_string(format!("/proc/self/fdinfo/{}", fd.as_raw_fd())) {
        Ok(text) => from_fdinfo(&text),
        Err(_) => DescriptorKind::Unseen,
    }
}

fn from_fdinfo(text: &str) -> DescriptorKind {
    for line in text.lines() {
        if let Some(pid) = line.strip_prefix("Pid:") {
            // -1: it has exited. 0: it lives in a pid namespace that is not visible from here, as its credentials then say.
            let pid = pid.trim().parse().ok();
            return pid.map_or(DescriptorKind::Other, DescriptorKind::Pid);
        }
    }
    DescriptorKind::Other
}

/// The descriptors that the manager holds, by token.
#[derive(Debug, Default)]
pub struct DescriptorTable {
    held: HashMap<FdToken, OwnedFd>,
    next: u64,
}

impl DescriptorTable {
    /// Looks at descriptors and keeps them.
    pub fn admit(&mut self, descriptors: Vec<OwnedFd>) -> Vec<Descriptor> {
        let mut admitted = Vec::with_capacity(descriptors.len());
        for fd in descriptors {
            let kind = inspect(fd.as_fd());
            self.next += 1;
            let token = FdToken(self.next);
            self.held.insert(token, fd);
            admitted.push(Descriptor { token, kind });
        }
        admitted
    }

    /// Those of a message, in order; unknown tokens are left out.
    pub fn get(&self, tokens: &[FdToken]) -> Vec<BorrowedFd<'_>> {
        tokens.iter().filter_map(|token| self.held.get(token)).map(AsFd::as_fd).collect()
    }

    /// Closes one.
    pub fn close(&mut self, token: FdToken) {
        self.held.remove(&token);
    }

    /// How many are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, fcntl_add_seals, ftruncate, memfd_create};

    #[test]
    fn memory_is_told_by_its_seals() {
        let fd = memfd_create("m", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, 4096).unwrap();
        let kind = |size_sealed, write_sealed| DescriptorKind::Memory {
            size_bytes: 4096,
            size_sealed,
            write_sealed,
        };
        assert_eq!(inspect(fd.as_fd()), kind(false, false));
        fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
        assert_eq!(inspect(fd.as_fd()), kind(false, false));
        fcntl_add_seals(&fd, SealFlags::GROW).unwrap();
        assert_eq!(inspect(fd.as_fd()), kind(true, false));
        fcntl_add_seals(&fd, SealFlags::FUTURE_WRITE).unwrap();
        assert_eq!(inspect(fd.as_fd()), kind(true, true));
    }

    #[test]
    fn huge_pages_are_told_from_others() {
        // No page is taken: the memory is neither sized nor mapped.
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        match memfd_create("huge", flags) {
            Ok(fd) => {
                let kind = DescriptorKind::HugeMemory { size_bytes: 0, size_sealed: false };
                assert_eq!(inspect(fd.as_fd()), kind);
            }
            Err(errno) => println!("skipped: this kernel has no huge pages ({errno})"),
        }
    }

    #[test]
    fn processes_events_and_others_are_told_apart() {
        let myself =
            rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty());
        assert_eq!(inspect(myself.unwrap().as_fd()), DescriptorKind::Pid(std::process::id()));
        let pair = |kind| {
            rustix::net::socketpair(AddressFamily::UNIX, kind, rustix::net::SocketFlags::CLOEXEC, None)
                .unwrap()
        };
        assert_eq!(inspect(pair(SocketType::DGRAM).1.as_fd()), DescriptorKind::Event);
        assert_eq!(inspect(pair(SocketType::STREAM).1.as_fd()), DescriptorKind::Other);
        // Whether it blocks is up to everybody who holds it.
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        assert_eq!(inspect(event.as_fd()), DescriptorKind::Other);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(inspect(file.as_fd()), DescriptorKind::Other);
        assert_eq!(from_fdinfo("pos:\t0\nPid:\t-1\nNSpid:\t-1\n"), DescriptorKind::Other);
    }

    #[test]
    fn tokens_are_never_given_twice() {
        let mut table = DescriptorTable::default();
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let first = table.admit(vec![null(), null()]);
        assert_eq!(table.get(&[first[1].token, FdToken(99)]).len(), 1);
        table.close(first[1].token);
        let second = table.admit(vec![null()]);
        assert!(second[0].token > first[1].token);
        assert_eq!(table.len(), 2);
    }
}

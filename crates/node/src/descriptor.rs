//! Descriptors of programs: their kinds, and where they are kept.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use foreign::{Closer, Foreign};
use proto::manager::{Descriptor, DescriptorKind, FdToken};
use rustix::fs::{SealFlags, fcntl_get_seals, fstat, fstatfs};
use rustix::net::{AddressFamily, SocketType, sockopt};

/// `f_type` of huge pages (HUGETLBFS_MAGIC, linux/magic.h).
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// Examines a received descriptor. Its nature cannot change later: seals only grow, and sealed properties
/// stay.
///
/// Nothing is called here that its sender could make sleep or take long, whatever it is: a file of a file
/// system whose server does not answer, an epoll set of a million entries. So the first question is one that
/// the kernel answers without asking any file.
pub fn inspect(fd: BorrowedFd<'_>) -> DescriptorKind {
    // Only files in memory have seals (others return EINVAL): what follows asks no file server.
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
        // From another manager, which has made it. Programs have no use for one that they make.
        return DescriptorKind::Event;
    }
    if is_process(fd) { DescriptorKind::Pid(0) } else { DescriptorKind::Other }
}

/// Whether it is a pidfd. Of which process is not asked: `/proc/self/fdinfo` would say it, and asks the file.
fn is_process(fd: BorrowedFd<'_>) -> bool {
    // The kernel makes up the names of what has no path; a path starts with a slash.
    let name = rustix::fs::readlink(format!("/proc/self/fd/{}", fd.as_raw_fd()), Vec::new());
    name.is_ok_and(|name| {
        let name = name.to_bytes();
        name == b"anon_inode:[pidfd]" || name.starts_with(b"pidfd:[")
    })
}

/// So many numbers before the reserve are for connections that are refused.
const NEAR: u64 = 64;

/// A descriptor of a program, which is closed in a separate thread when it has no user any more.
pub type Held = Arc<Foreign<OwnedFd>>;

/// The descriptors that the manager holds, by token.
#[derive(Debug)]
pub struct DescriptorTable {
    held: HashMap<FdToken, Held>,
    next: u64,
    closer: Closer,
    /// Numbers from here on are for descriptors that are just arriving, a message's worth: without room the
    /// kernel would close them in the receiving thread.
    line: u64,
    limit: u64,
    /// Something has arrived there, and may still be open.
    is_reserve_used: bool,
}

impl DescriptorTable {
    /// For a process that may have so many.
    pub fn new(limit: u64, closer: &Closer) -> Self {
        let reserve = (foreign::MOST_IN_MESSAGE as u64 + 1).min(limit / 4);
        Self {
            held: HashMap::new(),
            next: 0,
            closer: closer.clone(),
            line: limit - reserve,
            limit,
            is_reserve_used: false,
        }
    }

    /// Whether the process has so many descriptors that this one takes room which is reserved.
    pub fn is_over_the_line(&mut self, fd: BorrowedFd<'_>) -> bool {
        let is_over = u64::from(fd.as_raw_fd().unsigned_abs()) >= self.line;
        self.is_reserve_used |= is_over;
        is_over
    }

    /// Whether so many descriptors are open that a connection of which this one is should be refused: while
    /// such are being closed, the reserve stays free.
    pub fn is_near_the_line(&mut self, fd: BorrowedFd<'_>) -> bool {
        let near = self.line - (self.limit / 16).min(NEAR).min(self.line / 2);
        self.is_over_the_line(fd) || u64::from(fd.as_raw_fd().unsigned_abs()) >= near
    }

    /// Whether there is room for a message with as many descriptors as the kernel lets through.
    pub fn has_room_for_a_message(&mut self) -> bool {
        // The links themselves are asked, not what they lead to.
        let is_open = |number: u64| std::fs::symlink_metadata(format!("/proc/self/fd/{number}")).is_ok();
        self.is_reserve_used = self.is_reserve_used && (self.line..self.limit).any(is_open);
        if !self.is_reserve_used {
            return true;
        }
        // What lies there may stay for long. There is room if as much is free below.
        let reserve = self.limit - self.line;
        let numbers = self.line.saturating_sub(3 * reserve)..self.limit;
        let wanted = usize::try_from(reserve).unwrap_or(usize::MAX);
        numbers.filter(|number| !is_open(*number)).take(wanted).count() == wanted
    }

    /// Looks at descriptors that user `uid` sent, and keeps them. There are no more of them than a message of
    /// the protocol may have.
    pub fn admit(&mut self, descriptors: Vec<OwnedFd>, uid: u32) -> Vec<Descriptor> {
        let mut admitted = Vec::with_capacity(descriptors.len());
        for fd in descriptors {
            admitted.push(self.admit_as(fd, uid, inspect));
        }
        admitted
    }

    /// Keeps a pidfd that the kernel made for this process: of process `pid`, of user `uid`.
    pub fn admit_process(&mut self, pidfd: OwnedFd, pid: u32, uid: u32) -> Descriptor {
        self.admit_as(pidfd, uid, |_| DescriptorKind::Pid(pid))
    }

    fn admit_as(
        &mut self,
        fd: OwnedFd,
        uid: u32,
        look: impl FnOnce(BorrowedFd<'_>) -> DescriptorKind,
    ) -> Descriptor {
        let fd = Foreign::new(fd, uid, &self.closer);
        self.next += 1;
        let token = FdToken(self.next);
        if self.is_over_the_line(fd.as_fd()) {
            return Descriptor { token, kind: DescriptorKind::Unseen };
        }
        let kind = look(fd.as_fd());
        self.held.insert(token, Arc::new(fd));
        Descriptor { token, kind }
    }

    /// Those of a message, in order; unknown tokens are left out.
    pub fn get(&self, tokens: &[FdToken]) -> Vec<Held> {
        tokens.iter().filter_map(|token| self.held.get(token)).cloned().collect()
    }

    /// Gives one up.
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

    /// `f_type` of files that are kept in memory (linux/magic.h).
    const TMPFS_MAGIC: u64 = 0x0102_1994;

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
        assert_eq!(inspect(myself.unwrap().as_fd()), DescriptorKind::Pid(0));
        let pair = |kind| {
            rustix::net::socketpair(AddressFamily::UNIX, kind, rustix::net::SocketFlags::CLOEXEC, None)
                .unwrap()
        };
        assert_eq!(inspect(pair(SocketType::DGRAM).1.as_fd()), DescriptorKind::Event);
        assert_eq!(inspect(pair(SocketType::STREAM).1.as_fd()), DescriptorKind::Other);
        // Each holder can change whether it blocks.
        let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        assert_eq!(inspect(event.as_fd()), DescriptorKind::Other);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(inspect(file.as_fd()), DescriptorKind::Other);
        // Named as pidfds are: but by a path.
        let path = std::env::temp_dir().join(format!("pidfd:[{}]", std::process::id()));
        let file = std::fs::File::create(&path).unwrap();
        // Where files for some time are kept in memory, as on many systems, it is just that.
        let is_in_memory = fstatfs(&file).unwrap().f_type as u64 == TMPFS_MAGIC;
        let memory = DescriptorKind::Memory { size_bytes: 0, size_sealed: false, write_sealed: false };
        let wanted = if is_in_memory { memory } else { DescriptorKind::Other };
        assert_eq!(inspect(file.as_fd()), wanted);
        std::fs::remove_file(&path).unwrap();
    }

    /// How often this thread has called `read`; the call that finds it out is not among them yet.
    fn reads() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/thread-self/io").ok()?;
        text.lines().find_map(|line| line.strip_prefix("syscr: ")?.parse().ok())
    }

    /// To read `fdinfo` of an epoll set takes as long as it has entries, and sleeps while a thread of its
    /// maker holds its lock.
    #[test]
    fn no_file_is_asked_what_it_is() {
        let (Some(first), Some(second)) = (reads(), reads()) else {
            return println!("skipped: this kernel does not count what a thread reads");
        };
        let set = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC).unwrap();
        let file = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let myself =
            rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty());
        let kinds = [&set, &file, &myself.unwrap()].map(|fd| inspect(fd.as_fd()));
        assert_eq!(kinds, [DescriptorKind::Other, DescriptorKind::Other, DescriptorKind::Pid(0)]);
        assert_eq!(reads().unwrap() - second, second - first);
    }

    #[test]
    fn what_arrives_in_the_reserve_is_not_kept() {
        let closer = Closer::new(0);
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let line = u64::from(null().as_raw_fd().unsigned_abs());
        let mut table = DescriptorTable { line, limit: line + 900, ..DescriptorTable::new(1024, &closer) };
        let high = rustix::io::fcntl_dupfd_cloexec(null(), 700).unwrap();
        let admitted = table.admit(vec![high], 7);
        assert_eq!((admitted[0].kind, table.len()), (DescriptorKind::Unseen, 0));
    }

    #[test]
    fn there_is_room_for_a_message_unless_the_reserve_and_as_much_below_it_is_used() {
        let closer = Closer::new(0);
        // Numbers that nothing else in this process takes.
        let mut table = DescriptorTable { line: 900, limit: 930, ..DescriptorTable::new(1024, &closer) };
        let null = std::fs::File::open("/dev/null").unwrap();
        let at = |number| rustix::io::fcntl_dupfd_cloexec(&null, number).unwrap();
        let (near, over, mut beyond) = (at(860), at(920), vec![at(925)]);
        assert!(!table.is_near_the_line(null.as_fd()) && table.has_room_for_a_message());
        assert!(table.is_near_the_line(near.as_fd()) && !table.is_over_the_line(near.as_fd()));
        assert!(table.is_near_the_line(over.as_fd()));
        assert!(table.has_room_for_a_message(), "below");
        let below: Vec<_> = (0..89).map(|_| at(810)).collect();
        assert!(!table.has_room_for_a_message());
        beyond.extend((0..28).map(|_| at(900)));
        drop(over);
        assert!(!table.has_room_for_a_message());
        drop(below);
        assert!(table.has_room_for_a_message() && table.is_reserve_used);
        drop(beyond);
        assert!(table.has_room_for_a_message() && !table.is_reserve_used);
    }

    #[test]
    fn tokens_are_never_given_twice() {
        let mut table = DescriptorTable::new(1024, &Closer::new(0));
        let null = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let first = table.admit(vec![null(), null()], 7);
        assert_eq!(table.get(&[first[1].token, FdToken(99)]).len(), 1);
        table.close(first[1].token);
        let second = table.admit(vec![null()], 7);
        assert!(second[0].token > first[1].token);
        assert_eq!(table.len(), 2);
    }
}

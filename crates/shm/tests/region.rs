//! Regions: what they promise, and what they refuse from a peer.
#![cfg(not(loom))]
// A test fails by panicking, also in its helpers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

use rustix::fd::{FromRawFd, IntoRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use shm::Error;
use shm::region::{MapAccess, PageSize, Region, RegionOptions, Reserve};
use shm::sync::{AtomicU32, AtomicU64, Ordering};

fn region(size_bytes: usize) -> Region {
    Region::create(&RegionOptions::new("test", size_bytes)).unwrap()
}

fn second_descriptor(region: &Region) -> OwnedFd {
    rustix::io::fcntl_dupfd_cloexec(region.fd(), 0).unwrap()
}

fn memory_file(size_bytes: u64, seals: SealFlags) -> OwnedFd {
    let fd = rustix::fs::memfd_create("peer", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&fd, size_bytes).unwrap();
    rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
    fd
}

/// The `VmFlags` of the mapping that holds this address.
fn mapping_flags(region: &Region) -> Vec<String> {
    let start = format!("{:x}-", region.as_ptr().addr());
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let after = maps.lines().skip_while(|line| !line.trim_start_matches('0').starts_with(&start));
    let flags = after.skip(1).find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
    flags.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn what_one_side_writes_the_other_reads() {
    let ours = region(10_000);
    let theirs = Region::open(second_descriptor(&ours), MapAccess::ReadWrite).unwrap();
    assert_eq!(ours.size_bytes(), 10_000);
    let page = rustix::param::page_size();
    assert_eq!(theirs.size_bytes(), 10_000_usize.next_multiple_of(page), "an opened region has whole pages");
    assert_ne!(ours.as_ptr(), theirs.as_ptr());

    let mut bytes = vec![0xff; 10_000];
    theirs.window().get(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|&byte| byte == 0), "new memory is zero");
    ours.window().put(9_990, b"end of it!").unwrap();
    let mut end = [0; 10];
    theirs.window().get(9_990, &mut end).unwrap();
    assert_eq!(&end, b"end of it!");
    theirs.view::<AtomicU64>(64).unwrap().store(42, Ordering::Relaxed);
    assert_eq!(ours.view::<[AtomicU32; 2]>(64).unwrap()[0].load(Ordering::Relaxed), 42);
}

#[test]
fn a_view_is_checked_for_bounds_and_alignment() {
    let ours = region(4096);
    assert!(ours.view::<AtomicU64>(4088).is_ok());
    let error = ours.view::<AtomicU64>(4092).unwrap_err();
    assert_eq!(error, Error::OutOfRange { offset: 4092, len: 8, size: 4096 });
    assert_eq!(error.to_string(), "8 bytes at offset 4092 do not lie in a window of 4096 bytes");
    let error = ours.view::<AtomicU64>(4).unwrap_err();
    assert_eq!(error, Error::Misaligned { offset: 4, align: 8 });
    assert_eq!(
        ours.view::<AtomicU64>(usize::MAX).unwrap_err(),
        Error::OutOfRange { offset: usize::MAX, len: 8, size: 4096 }
    );
}

#[test]
fn a_region_that_cannot_be_is_refused() {
    assert_eq!(Region::create(&RegionOptions::new("none", 0)).unwrap_err(), Error::Empty);
    for name in ["a\0b", &"x".repeat(250)] {
        assert_eq!(Region::create(&RegionOptions::new(name, 1)).unwrap_err(), Error::BadName);
    }
    assert!(Region::create(&RegionOptions::new(&"x".repeat(249), 1)).is_ok());
    let error = Region::create(&RegionOptions::new("all", usize::MAX)).unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: "the address space", .. }), "{error}");
}

#[test]
fn more_memory_than_there_is_is_an_error_with_both_sizes_and_nobody_dies() {
    let size_bytes = 1 << 46;
    let error = Region::create(&RegionOptions::new("huge", size_bytes)).unwrap_err();
    let Error::TooLarge { size_bytes: asked, available_bytes, limit } = error else { panic!("{error}") };
    assert_eq!(asked, size_bytes);
    assert!(available_bytes < size_bytes && available_bytes > 0);
    let text = error.to_string();
    for part in [size_bytes.to_string(), available_bytes.to_string(), limit.to_owned()] {
        assert!(text.contains(&part), "{text}");
    }
    // The same without a reservation takes no memory until it is touched.
    let lazy = RegionOptions { reserve: Reserve::Lazy, ..RegionOptions::new("huge", size_bytes) };
    Region::create(&lazy).unwrap().window().store_u8(size_bytes - 1, 1).unwrap();
}

#[test]
fn eager_memory_is_there_and_lazy_memory_is_not() {
    let blocks = |reserve| {
        let options = RegionOptions { reserve, ..RegionOptions::new("blocks", 1 << 20) };
        let region = Region::create(&options).unwrap();
        rustix::fs::fstat(region.fd()).unwrap().st_blocks * 512
    };
    assert_eq!(blocks(Reserve::Eager), 1 << 20);
    assert_eq!(blocks(Reserve::Lazy), 0);
}

/// Works whether the pool is empty or not: it asks for one page more than there is.
#[test]
fn too_few_huge_pages_are_an_error_that_says_where_to_add_some() {
    for (pages, kib) in [(PageSize::Huge2M, 2048), (PageSize::Huge1G, 1_048_576)] {
        let directory = format!("/sys/kernel/mm/hugepages/hugepages-{kib}kB");
        let number = |file: &str| -> usize {
            let text = std::fs::read_to_string(format!("{directory}/{file}"));
            text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
        };
        let count = number("nr_hugepages") + number("nr_overcommit_hugepages") + 1;
        let options = RegionOptions { pages, ..RegionOptions::new("huge pages", count * pages.bytes()) };
        let error = Region::create(&options).unwrap_err();
        match error {
            Error::NoHugePages { pages, page_kib, .. } => {
                assert_eq!((pages, page_kib), (count, kib));
                assert!(error.to_string().contains(&format!("{directory}/nr_hugepages")), "{error}");
            }
            Error::HugePagesUnsupported { page_kib, .. } => {
                assert_eq!(page_kib, kib);
                assert!(!std::fs::exists(&directory).unwrap(), "{error}");
                assert!(error.to_string().contains("use base pages"), "{error}");
            }
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_memory_node_that_does_not_exist_is_named() {
    for node in [1023, 1024, u32::MAX] {
        let options = RegionOptions { numa_node: Some(node), ..RegionOptions::new("far", 4096) };
        match Region::create(&options).unwrap_err() {
            Error::NoSuchNumaNode { node: named } => assert_eq!(named, node),
            // A kernel without memory nodes cannot be asked.
            Error::NumaUnsupported { errno } => assert_eq!((errno, node), (Errno::NOSYS, 1023)),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn memory_can_be_placed_on_a_node_that_exists() {
    let options = RegionOptions { numa_node: Some(0), ..RegionOptions::new("near", 1 << 20) };
    match Region::create(&options) {
        Ok(region) => {
            region.window().fill(0, 1 << 20, 7).unwrap();
            let start = format!("{:x} ", region.as_ptr().addr());
            if let Ok(maps) = std::fs::read_to_string("/proc/self/numa_maps") {
                let line = maps.lines().find(|line| line.starts_with(&start)).unwrap();
                assert!(line.contains("bind:0"), "{line}");
            }
        }
        Err(error) => assert_eq!(error, Error::NumaUnsupported { errno: Errno::NOSYS }),
    }
}

#[test]
fn locked_memory_is_locked() {
    let options = RegionOptions { lock: true, ..RegionOptions::new("locked", 16 << 10) };
    let region = Region::create(&options).unwrap();
    assert!(mapping_flags(&region).contains(&"lo".to_owned()), "{:?}", mapping_flags(&region));
}

#[test]
fn readers_of_a_sealed_region_can_only_read() {
    let options = RegionOptions { read_only_for_others: true, ..RegionOptions::new("sealed", 4096) };
    let ours = Region::create(&options).unwrap();
    let error = Region::open(second_descriptor(&ours), MapAccess::ReadWrite).unwrap_err();
    assert_eq!(error, Error::ReadOnly);
    let reader = Region::open(second_descriptor(&ours), MapAccess::ReadOnly).unwrap();

    // The owner's mapping goes on writing, and the reader sees it.
    ours.window().put(0, b"from the owner").unwrap();
    let mut seen = [0; 14];
    reader.window().get(0, &mut seen).unwrap();
    assert_eq!(&seen, b"from the owner");

    // Neither a change of the protection nor a write to the descriptor gets around it.
    // SAFETY: the range is the reader's mapping; if this succeeded, the test would fail and touch nothing.
    let result = unsafe {
        let flags = rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE;
        rustix::mm::mprotect(reader.as_ptr().cast(), 4096, flags)
    };
    assert_eq!(result, Err(Errno::ACCESS));
    assert_eq!(rustix::io::pwrite(reader.fd(), b"x", 0), Err(Errno::PERM));
}

#[test]
fn nobody_who_was_given_a_region_can_seal_the_others_out() {
    let ours = region(4096);
    let given = second_descriptor(&ours);
    for seal in [SealFlags::FUTURE_WRITE, SealFlags::WRITE] {
        assert_eq!(rustix::fs::fcntl_add_seals(&given, seal), Err(Errno::PERM));
    }
    let other = Region::open(second_descriptor(&ours), MapAccess::ReadWrite).unwrap();
    other.window().put(0, b"written").unwrap();
}

#[test]
fn a_read_only_region_refuses_what_would_write() {
    let ours = region(4096);
    let reader = Region::open(second_descriptor(&ours), MapAccess::ReadOnly).unwrap();
    let window = reader.window();
    assert_eq!(window.put(0, b"x"), Err(Error::ReadOnly));
    assert_eq!(window.store_u64(0, 1), Err(Error::ReadOnly));
    assert_eq!(window.fill(0, 1, 1), Err(Error::ReadOnly));
    assert_eq!(ours.window().copy_to(0, &window, 0, 1), Err(Error::ReadOnly));
    assert_eq!(ours.window().read_only().store_u8(0, 1), Err(Error::ReadOnly));
    assert_eq!(reader.access(), MapAccess::ReadOnly);
    assert_eq!(
        Error::ReadOnly.to_string(),
        "the region is read-only here: its owner sealed it, or it was mapped for reading"
    );
}

#[test]
fn nobody_can_take_the_memory_away() {
    let ours = region(8192);
    assert_eq!(rustix::fs::ftruncate(ours.fd(), 4096), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(ours.fd(), 1 << 20), Err(Errno::PERM));
}

#[test]
fn a_descriptor_that_is_no_sealed_memory_is_refused() {
    let open = |fd| Region::open(fd, MapAccess::ReadOnly).unwrap_err();
    let page = rustix::param::page_size() as u64;
    let both = SealFlags::SHRINK | SealFlags::GROW;
    assert_eq!(open(memory_file(page, SealFlags::empty())), Error::NotSealed { missing: "shrinking" });
    assert_eq!(open(memory_file(page, SealFlags::GROW)), Error::NotSealed { missing: "shrinking" });
    assert_eq!(open(memory_file(page, SealFlags::SHRINK)), Error::NotSealed { missing: "growing" });
    assert_eq!(open(memory_file(0, both)), Error::WrongSize { size_bytes: 0 });
    assert_eq!(open(memory_file(page + 1, both)), Error::WrongSize { size_bytes: page + 1 });
    let all = i64::MAX as u64 & !(page - 1);
    assert!(matches!(open(memory_file(all, both)), Error::System { errno: Errno::NOMEM, .. }));

    let (reader, writer) = std::io::pipe().unwrap();
    let file = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    let raw = [
        IntoRawFd::into_raw_fd(OwnedFd::from(reader)),
        IntoRawFd::into_raw_fd(OwnedFd::from(writer)),
        IntoRawFd::into_raw_fd(file),
        IntoRawFd::into_raw_fd(null),
    ];
    for fd in raw {
        // SAFETY: each was just taken out of its owner.
        assert_eq!(open(unsafe { OwnedFd::from_raw_fd(fd) }), Error::NotMemory);
    }
}

#[test]
fn a_refused_descriptor_is_closed() {
    let fd = memory_file(4096, SealFlags::empty());
    let raw = fd.into_raw_fd();
    // SAFETY: just taken out of its owner.
    Region::open(unsafe { OwnedFd::from_raw_fd(raw) }, MapAccess::ReadOnly).unwrap_err();
    let link = std::fs::read_link(format!("/proc/self/fd/{raw}"));
    // The number may belong to another test's file by now, but not to the refused one.
    assert!(link.map_or(true, |target| !target.to_string_lossy().contains("memfd:peer")));
}

/// A real fork: the closure runs in the child, before it becomes another program.
#[test]
fn a_child_inherits_a_mapping_unless_told_otherwise() {
    use std::os::unix::process::CommandExt;

    let mapped_in_child = |region: &Region| {
        let address = region.as_ptr().addr();
        let mut command = std::process::Command::new("/bin/true");
        let look = move || {
            let start = std::ptr::with_exposed_provenance_mut(address);
            // SAFETY: this advice changes nothing; it only fails if nothing is mapped there.
            unsafe { rustix::mm::madvise(start, 4096, rustix::mm::Advice::Normal) }
                .map_err(|errno| std::io::Error::from_raw_os_error(errno.raw_os_error()))
        };
        // SAFETY: the closure makes one system call and nothing else between fork and exec.
        unsafe { command.pre_exec(look) };
        command.status().map(|status| status.success())
    };
    let ours = region(4096);
    ours.as_ptr().expose_provenance();
    assert!(mapped_in_child(&ours).unwrap());
    ours.dont_fork().unwrap();
    assert!(mapping_flags(&ours).contains(&"dc".to_owned()));
    let error = mapped_in_child(&ours).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::NOMEM.raw_os_error()), "{error}");
    ours.window().store_u8(0, 1).unwrap();
}

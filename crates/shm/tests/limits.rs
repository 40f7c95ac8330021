//! Limits of the process and of its control group, each met in a process of its own.
#![cfg(not(loom))]
// A test fails by panicking, also in its helpers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod common;

use rustix::process::{Resource, Rlimit};
use rustix::thread::CapabilitySet;
use shm::Error;
use shm::process::PidFd;
use shm::region::{Region, RegionOptions};
use std::path::{Path, PathBuf};

fn limit(resource: Resource, value: u64) {
    let limit = rustix::process::getrlimit(resource);
    rustix::process::setrlimit(resource, Rlimit { current: Some(value), maximum: limit.maximum }).unwrap();
}

#[test]
fn no_descriptor_left() {
    if !common::is_child("descriptors") {
        return common::must_pass_alone("no_descriptor_left", "descriptors");
    }
    limit(Resource::Nofile, 32);
    let mut regions = Vec::new();
    let error = loop {
        match Region::create(&RegionOptions::new("many", 4096)) {
            Ok(region) => regions.push(region),
            Err(error) => break error,
        }
        assert!(regions.len() < 32);
    };
    assert_eq!(error, Error::DescriptorLimit { what: "a region", limit: 32 });
    assert_eq!(
        error.to_string(),
        "no file descriptor left for a region: the process may have 32 (RLIMIT_NOFILE); raise it with `ulimit -n`, or close some"
    );
    let error = PidFd::open_self().unwrap_err();
    assert_eq!(error, Error::DescriptorLimit { what: "this process", limit: 32 });
    // With a descriptor free again it works again.
    regions.pop();
    Region::create(&RegionOptions::new("one", 4096)).unwrap();
}

#[test]
fn larger_than_a_file_may_be() {
    if !common::is_child("file size") {
        return common::must_pass_alone("larger_than_a_file_may_be", "file size");
    }
    // Without the look at the limit the kernel ends this process.
    limit(Resource::Fsize, 8192);
    let error = Region::create(&RegionOptions::new("large", 8193)).unwrap_err();
    assert!(matches!(error, Error::TooLarge { size_bytes: 8193, available_bytes: 8192, .. }), "{error}");
    assert!(error.to_string().contains("ulimit -f"), "{error}");
    Region::create(&RegionOptions::new("small", 8192)).unwrap();
}

#[test]
fn more_locked_memory_than_allowed() {
    if !common::is_child("locked") {
        return common::must_pass_alone("more_locked_memory_than_allowed", "locked");
    }
    // A process that may lock everything has no limit, so this process gives that right up.
    let mut capabilities = rustix::thread::capabilities(None).unwrap();
    capabilities.effective -= CapabilitySet::IPC_LOCK;
    rustix::thread::set_capabilities(None, capabilities).unwrap();
    let lock = |size_bytes| {
        Region::create(&RegionOptions { lock: true, ..RegionOptions::new("locked", size_bytes) })
    };

    limit(Resource::Memlock, 64 << 10);
    let error = lock(128 << 10).unwrap_err();
    assert_eq!(error, Error::LockLimit { size_bytes: 128 << 10, limit_bytes: 64 << 10 });
    let text = error.to_string();
    assert!(
        text.contains("RLIMIT_MEMLOCK") && text.contains("65536 bytes") && text.contains("ulimit -l"),
        "{text}"
    );
    lock(32 << 10).unwrap();
    limit(Resource::Memlock, 0);
    assert_eq!(lock(4096).unwrap_err(), Error::LockLimit { size_bytes: 4096, limit_bytes: 0 });
}

/// A group of the test's own, removed afterwards.
struct Group(PathBuf);

impl Group {
    const LIMIT: &str = "67108864";

    fn new() -> Option<Self> {
        let name = format!("tieline-test-{}", std::process::id());
        [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
            .iter()
            .find_map(|(mount, file)| {
                let group = Self(Path::new(mount).join(&name));
                std::fs::create_dir(&group.0).ok()?;
                std::fs::write(group.0.join(file), Self::LIMIT).ok()?;
                Some(group)
            })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn more_memory_than_the_control_group_allows() {
    const GROUP: &str = "TIELINE_SHM_TEST_GROUP";
    if common::is_child("group") {
        std::fs::write(std::env::var(GROUP).unwrap(), std::process::id().to_string()).unwrap();
        let error = Region::create(&RegionOptions::new("large", 256 << 20)).unwrap_err();
        let Error::TooLarge { size_bytes, available_bytes, limit } = error else { panic!("{error}") };
        assert_eq!(size_bytes, 256 << 20);
        assert!(available_bytes <= 64 << 20, "{error}");
        assert!(limit.contains("control group"), "{error}");
        Region::create(&RegionOptions::new("small", 16 << 20)).unwrap();
        return;
    }
    let Some(group) = Group::new() else {
        eprintln!("skipped: needs a writable memory control group");
        return;
    };
    let mut command = common::again("more_memory_than_the_control_group_allows", "group");
    let output = command.env(GROUP, group.0.join("cgroup.procs")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

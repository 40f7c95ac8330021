//! What an owner in another process hears of those who use its memory.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;

use link::shm_link::ShmLink;
use link::{Grant, Link, RemoteMemory};
use proto::ids::NodeId;
use shm::region::{MapAccess, Region, RegionOptions};

const REGION: &str = "TIELINE_LINK_TEST_REGION";

/// Memory of another node, and the link to it.
struct Used {
    link: ShmLink,
    region: Region,
}

impl Used {
    fn new() -> Self {
        Self {
            link: ShmLink::default(),
            region: Region::create(&RegionOptions::new("uses-test", 4096)).unwrap(),
        }
    }

    fn open(&self) -> Arc<dyn RemoteMemory> {
        let memory = self.region.fd().try_clone_to_owned().unwrap();
        self.link.open(Grant { node: NodeId::new(8).unwrap(), size_bytes: 4096, memory }).unwrap()
    }

    /// What another process hears; what this one knows is the same.
    fn is_used(&self) -> bool {
        let path = format!("/proc/{}/fd/{}", std::process::id(), self.region.fd().as_raw_fd());
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "each_connection_tells_for_itself", "--nocapture"]).env(REGION, path);
        let heard = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let here = self.link.is_used_here(self.region.id().unwrap());
        assert!(heard.contains(&format!("used: {here}")), "{heard}");
        here
    }
}

/// In the owner's place.
fn ask(path: &str) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let region = Region::open(file.into(), MapAccess::ReadWrite).unwrap();
    println!("used: {}", region.is_used_elsewhere().unwrap());
}

#[test]
fn each_connection_tells_for_itself() {
    if let Ok(path) = std::env::var(REGION) {
        return ask(&path);
    }
    let used = Used::new();
    let (first, second) = (used.open(), used.open());
    assert!(!used.is_used());
    first.tell_use(true).unwrap();
    second.tell_use(true).unwrap();
    assert!(used.is_used());
    first.tell_use(false).unwrap();
    assert!(used.is_used());
    second.tell_use(false).unwrap();
    assert!(!used.is_used());
}

/// The kernel forgets what a process has told when that closes any descriptor of the memory.
#[test]
fn a_connection_that_ends_takes_back_its_own_word_only() {
    let used = Used::new();
    let (first, second, third) = (used.open(), used.open(), used.open());
    first.tell_use(true).unwrap();
    second.tell_use(true).unwrap();
    drop(third);
    assert!(used.is_used());
    drop(second);
    assert!(used.is_used());
    drop(first);
    assert!(!used.is_used());
}

#[test]
fn memories_are_not_taken_for_each_other() {
    let used = Used::new();
    let other = Used { link: used.link.clone(), ..Used::new() };
    let (of_used, of_other) = (used.open(), other.open());
    of_used.tell_use(true).unwrap();
    assert!(used.is_used() && !other.is_used());
    of_other.tell_use(true).unwrap();
    drop(of_used);
    assert!(!used.is_used() && other.is_used());
}

/// Also while threads come and go: a process that tells is heard when all is quiet.
#[test]
fn what_is_told_beside_others_that_end_is_heard() {
    let used = Used::new();
    let kept = used.open();
    for _ in 0..20 {
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let opened = used.open();
                        opened.tell_use(true).unwrap();
                    }
                });
            }
            kept.tell_use(false).unwrap();
            kept.tell_use(true).unwrap();
        });
        assert!(used.is_used());
    }
}

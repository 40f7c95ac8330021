//! What processes tell of their use of a region, and what becomes of it when one of them is hostile or dies.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod common;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use shm::region::{MapAccess, Region, RegionOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Stdio};

const REGION: &str = "TIELINE_SHM_TEST_REGION";

fn region() -> Region {
    Region::create(&RegionOptions::new("used", 1)).unwrap()
}

fn file() -> OwnedFd {
    std::fs::File::options().read(true).write(true).open(std::env::var(REGION).unwrap()).unwrap().into()
}

/// Another process in this role, once it has done what it is for. It lives until it is killed.
fn other(test: &str, role: &str, region: &Region) -> Child {
    let path = format!("/proc/{}/fd/{}", std::process::id(), region.fd().as_raw_fd());
    let mut child = common::again(test, role).env(REGION, path).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("done")), "{test} as {role} ended early");
    child
}

fn stay() {
    println!("done");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_use_is_told_until_it_is_taken_back_or_its_process_is_dead() {
    const TEST: &str = "a_use_is_told_until_it_is_taken_back_or_its_process_is_dead";
    let roles = [("one", &[true][..]), ("again", &[true, true]), ("back", &[true, true, false])];
    for (role, told) in roles {
        if common::is_child(role) {
            let region = Region::open(file(), MapAccess::ReadWrite).unwrap();
            told.iter().for_each(|is_used| region.tell_use(*is_used).unwrap());
            return stay();
        }
    }
    let region = region();
    let one = other(TEST, "one", &region);
    let again = other(TEST, "again", &region);
    let back = other(TEST, "back", &region);
    assert!(region.is_used_elsewhere().unwrap());
    end(one);
    assert!(region.is_used_elsewhere().unwrap());
    end(again);
    assert!(!region.is_used_elsewhere().unwrap());
    end(back);
}

#[test]
fn what_this_process_tells_does_not_count_for_itself() {
    let region = region();
    let opened = Region::open(region.fd().try_clone_to_owned().unwrap(), MapAccess::ReadWrite).unwrap();
    assert_eq!(region.id(), opened.id());
    assert_ne!(region.id(), self::region().id());
    for is_used in [true, true, false, false] {
        opened.tell_use(is_used).unwrap();
        assert!(!region.is_used_elsewhere().unwrap());
    }
}

/// Otherwise one who has the region could keep the owner from hearing of another.
#[test]
fn nobody_is_kept_from_telling_while_anybody_tells() {
    const TEST: &str = "nobody_is_kept_from_telling_while_anybody_tells";
    let alone = |file: &OwnedFd| fcntl_lock(file, FlockOperation::NonBlockingLockExclusive);
    if common::is_child("refused") {
        assert_eq!(alone(&file()), Err(Errno::AGAIN));
        return stay();
    }
    if common::is_child("first") {
        let file = file();
        alone(&file).unwrap();
        return stay();
    }
    let region = region();
    region.tell_use(true).unwrap();
    end(other(TEST, "refused", &region));
    region.tell_use(false).unwrap();
    let first = other(TEST, "first", &region);
    assert!(region.is_used_elsewhere().unwrap());
    let refused = region.tell_use(true).unwrap_err();
    assert!(matches!(refused, shm::Error::System { errno: Errno::AGAIN, .. }), "{refused}");
    end(first);
    region.tell_use(true).unwrap();
}

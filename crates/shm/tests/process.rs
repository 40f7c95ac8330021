//! Proof of death, with processes that really die.
#![cfg(not(loom))]
// A test fails by panicking, also in its helpers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod common;

use rustix::fd::{AsFd, FromRawFd, OwnedFd};
use rustix::process::{Pid, PidfdFlags, WaitIdOptions};
use shm::Error;
use shm::process::PidFd;
use std::io::Read;
use std::os::fd::IntoRawFd;
use std::process::Child;

/// A process that lives until it is killed.
fn victim() -> (Child, PidFd) {
    let child = common::again("nothing_but_a_process", "victim").spawn().unwrap();
    let pidfd = PidFd::open(pid(&child)).unwrap();
    (child, pidfd)
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

#[test]
fn nothing_but_a_process() {
    if common::is_child("victim") {
        // Until it is killed, or the test that started it has ended.
        let _ = std::io::stdin().read(&mut [0]);
    }
}

#[test]
fn only_a_dead_process_is_proven_dead() {
    let (mut child, pidfd) = victim();
    assert_eq!(pidfd.pid_of(), Some(child.id()));
    assert_eq!(pidfd.has_exited(), Ok(false));
    assert!(pidfd.proof_of_death().is_none());

    child.kill().unwrap();
    // Until it is a zombie: its parent has not asked for its status yet, so its number cannot be anybody
    // else's.
    let exited = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::Pid(pid(&child)), exited).unwrap();
    assert_eq!(pidfd.has_exited(), Ok(true));
    assert!(pidfd.proof_of_death().is_some());
    assert_eq!(pidfd.pid_of(), Some(child.id()));

    child.wait().unwrap();
    assert!(pidfd.proof_of_death().is_some(), "for ever");
    assert_eq!(pidfd.pid_of(), None, "the number is free again");
}

#[test]
fn this_process_lives() {
    let ours = PidFd::open_self().unwrap();
    assert_eq!(ours.pid_of(), Some(std::process::id()));
    assert!(ours.proof_of_death().is_none());
    let copy = rustix::io::fcntl_dupfd_cloexec(ours.as_fd(), 0).unwrap();
    assert_eq!(PidFd::from_fd(copy).unwrap().pid_of(), Some(std::process::id()));
}

#[test]
fn what_is_no_process_proves_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    // Readable, as the descriptor of a dead process would be.
    drop(writer);
    let null = std::fs::File::open("/dev/null").unwrap();
    for fd in [OwnedFd::from(reader).into_raw_fd(), null.into_raw_fd()] {
        // SAFETY: each was just taken out of its owner.
        let error = PidFd::from_fd(unsafe { OwnedFd::from_raw_fd(fd) }).unwrap_err();
        assert_eq!(error, Error::NotProcess);
    }
}

#[test]
fn a_single_thread_is_no_process() {
    // PIDFD_THREAD has the value of O_EXCL; kernels before 6.9 do not know it.
    let thread_only = PidfdFlags::from_bits_retain(rustix::fs::OFlags::EXCL.bits());
    match rustix::process::pidfd_open(rustix::process::getpid(), thread_only) {
        Ok(fd) => assert_eq!(PidFd::from_fd(fd).unwrap_err(), Error::NotProcess),
        Err(errno) => assert_eq!(errno, rustix::io::Errno::INVAL),
    }
}

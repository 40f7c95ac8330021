//! The doorbell between two processes.
#![cfg(not(loom))]
// A test fails by panicking, also in its helpers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

mod common;

use shm::Shareable;
use shm::doorbell::{ASLEEP, Deadline, Rang, Ringer, Spin, WaitOutcome, Waiter};
use shm::layout::CacheLine;
use shm::region::{MapAccess, Region, RegionOptions};
use shm::sync::{AtomicU32, Ordering};
use std::os::fd::IntoRawFd;

const ROUNDS: u32 = 2_000;
const WATCHDOG_NS: u64 = 60_000_000_000;
const REGION: &str = "TIELINE_SHM_TEST_REGION";

#[derive(Shareable)]
#[repr(C)]
struct Bells {
    there: Bell,
    back: Bell,
}

#[derive(Shareable)]
#[repr(C)]
struct Bell {
    signal: CacheLine<AtomicU32>,
    armed: CacheLine<AtomicU32>,
}

impl Bell {
    fn ring(&self) -> Rang {
        Ringer::new(&self.signal, &self.armed).ring()
    }

    fn wait(&self, seen: u32, spin: &mut Spin) {
        let outcome =
            Waiter::new(&self.signal, &self.armed).wait(seen, spin, Some(Deadline::after_ns(WATCHDOG_NS)));
        assert_eq!(outcome, WaitOutcome::Changed(seen + 1));
    }
}

fn echo() {
    let file = std::fs::File::options().read(true).write(true).open(std::env::var(REGION).unwrap()).unwrap();
    // SAFETY: just taken out of its owner.
    let fd = unsafe { rustix::fd::FromRawFd::from_raw_fd(file.into_raw_fd()) };
    let region = Region::open(fd, MapAccess::ReadWrite).unwrap();
    let bells = region.view::<Bells>(0).unwrap();
    let mut spin = Spin::never();
    for round in 0..ROUNDS {
        if round == ROUNDS / 2 {
            spin = Spin::new();
        }
        bells.there.wait(round, &mut spin);
        bells.back.ring();
    }
}

#[test]
fn two_processes_wake_each_other() {
    if common::is_child("echo") {
        return echo();
    }
    let region = Region::create(&RegionOptions::new("bells", size_of::<Bells>())).unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), rustix::fd::AsRawFd::as_raw_fd(&region.fd()));
    let mut child = common::again("two_processes_wake_each_other", "echo").env(REGION, path).spawn().unwrap();
    let bells = region.view::<Bells>(0).unwrap();
    // The first ring meets a sleeper of another process: the futex is a shared one.
    while bells.there.armed.load(Ordering::Acquire) != ASLEEP {
        assert!(child.try_wait().unwrap().is_none(), "the other process ended early");
        std::thread::yield_now();
    }
    assert_eq!(bells.there.ring(), Rang::Sleeper);
    let mut spin = Spin::never();
    bells.back.wait(0, &mut spin);
    for round in 1..ROUNDS {
        if round == ROUNDS / 2 {
            spin = Spin::new();
        }
        bells.there.ring();
        bells.back.wait(round, &mut spin);
    }
    assert!(child.wait().unwrap().success());
}

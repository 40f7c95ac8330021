//! What the tests of the rings share.
#![allow(dead_code, reason = "each test uses some of it")]

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use shm::process::{DeadProof, PidFd};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The bytes of message `number`, of `len` bytes: they say which message they belong to.
pub(crate) fn message(number: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(number);
    let mut bytes = number.to_ne_bytes().to_vec();
    bytes.resize_with(len.max(8), || random.next() as u8);
    bytes.truncate(len);
    bytes
}

/// A small generator with a seed, so that what fails can be repeated.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        ((self.next() >> 32) as usize) % limit
    }

    pub(crate) fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }
}

/// Lets the other side run: tests may share one processor.
pub(crate) fn give_way(turns: &mut u32) {
    *turns += 1;
    if turns.is_multiple_of(8) { std::thread::yield_now() } else { std::hint::spin_loop() }
}

/// Runs the test in a thread of its own and fails if that does not end. The time is generous: it only ends
/// what hangs.
pub(crate) fn must_end(test: impl FnOnce() + Send + 'static) {
    let (ended, wait) = channel();
    let thread = std::thread::spawn(move || {
        test();
        let _ = ended.send(());
    });
    match wait.recv_timeout(Duration::from_secs(300)) {
        Ok(()) => {}
        Err(RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
        Err(RecvTimeoutError::Timeout) => panic!("the test hangs"),
    }
}

/// A proof of death, of a real process.
pub(crate) fn proof_of_death() -> &'static DeadProof {
    static PROOF: OnceLock<DeadProof> = OnceLock::new();
    PROOF.get_or_init(|| {
        let mut child = Command::new("true").spawn().unwrap();
        let process = process_of(&child);
        let proof = wait_for_death(&process);
        child.wait().unwrap();
        proof
    })
}

/// The descriptor of a child that has not been waited for.
pub(crate) fn process_of(child: &Child) -> PidFd {
    PidFd::open(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()).unwrap()
}

pub(crate) fn wait_for_death(process: &PidFd) -> DeadProof {
    loop {
        if let Some(proof) = process.proof_of_death() {
            return proof;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs the test `name` of this binary in a process of its own, with `value` in [`CHILD`]; its output can be
/// read.
pub(crate) fn run_in_child(name: &str, value: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--ignored"])
        .env(CHILD, value)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Environment of a test that runs in a child.
pub(crate) const CHILD: &str = "TIELINE_RING_TEST_CHILD";

/// A descriptor of another process.
pub(crate) fn descriptor_of(pid: u32, fd: i32, writable: bool) -> OwnedFd {
    open(&format!("/proc/{pid}/fd/{fd}"), writable)
}

pub(crate) fn open(path: &str, writable: bool) -> OwnedFd {
    let flags = if writable { OFlags::RDWR } else { OFlags::RDONLY };
    rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty()).unwrap()
}

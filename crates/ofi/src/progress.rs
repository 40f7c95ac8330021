//! The thread that makes progress while the program computes: it lets puts of peers complete where a provider's progress is manual,
//! rings doorbells and carries out atomic operations.
//!
//! It sleeps on the provider's descriptor. While threads of the program make progress themselves it leaves them the work, so that two
//! threads do not wake for each completion; it looks after them again every [`NAP`].

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shm::sync::{Ordering, spin_loop};

use crate::engine::Engine;

/// How long the work is left to others without a look, and how often a provider without a descriptor is asked.
const NAP: Duration = Duration::from_micros(100);
/// After something has ended the next is often near: how long it is looked for before sleep.
const SPIN: Duration = Duration::from_micros(20);
/// A provider may forget to make its descriptor readable: so long at most nobody looks.
const LONGEST_SLEEP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Runs until the engine is to stop; `stop` becomes readable then.
pub(crate) fn run(engine: &Engine, stop: &OwnedFd) {
    let mut seen = engine.others_work.load(Ordering::Relaxed);
    let mut idle_since = None;
    while !engine.is_stopping.load(Ordering::Acquire) {
        if engine.progress() > 0 {
            idle_since = None;
            continue;
        }
        let now = engine.others_work.load(Ordering::Relaxed);
        let is_left_to_others = now != seen && !engine.events.has_sleepers();
        seen = now;
        if is_left_to_others {
            engine.events.nap(NAP);
            continue;
        }
        if idle_since.get_or_insert_with(Instant::now).elapsed() < SPIN {
            spin_loop();
            continue;
        }
        match engine.port.wait_fd() {
            Some(fd) if engine.port.may_sleep() => {
                let mut fds =
                    [PollFd::new(&fd, PollFlags::IN), PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)];
                // An error, such as a signal, only makes it look early.
                let _ = poll(&mut fds, Some(&LONGEST_SLEEP));
            }
            Some(_) => {}
            None => engine.events.nap(NAP),
        }
    }
}

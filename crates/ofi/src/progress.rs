//! The thread that makes progress while the program computes: it lets puts of peers complete where a
//! provider's progress is manual, rings doorbells and carries out atomic operations.
//!
//! It sleeps on the provider's descriptor. While threads of the program make progress themselves it leaves
//! them the work, so that two threads do not wake for each completion. It looks after them again after
//! [`NAP`], and after ever longer times while it finds one at work each time: on a virtual machine a look
//! takes some 20 µs of the processor that the other thread may be on.

use std::time::{Duration, Instant};

use shm::sync::{Ordering, spin_loop};

use crate::engine::Engine;
use crate::spin::Spin;

/// How long the work is left to others without a look, and how often a provider without a descriptor is
/// asked.
const NAP: Duration = Duration::from_micros(100);
/// The same while a thread of the program is found at work each time. A peer's put may wait so long when that
/// thread ends its work, and no longer than the thread has been at it.
const LONGEST_NAP: Duration = Duration::from_micros(1600);
/// How long it sleeps at most while the provider has no room for something.
const ROOM_NAP: Duration = Duration::from_millis(1);
/// After so many naps in a row because a thread of the program has the descriptor the next one lasts until
/// that has woken.
const NAPS: u32 = 16;
/// After something has ended the next is often near: how long at most it is looked for before sleep.
const SPIN: Duration = Duration::from_micros(20);

/// Runs until the engine is to stop, and is kicked then.
pub(crate) fn run(engine: &Engine) {
    let mut seen = engine.others_work.load(Ordering::Relaxed);
    let spin = Spin::up_to(SPIN);
    let (mut naps, mut nap) = (0, NAP);
    // Since when nothing has ended, and how long to look on.
    let mut idle: Option<(Instant, Duration)> = None;
    while !engine.is_stopping.load(Ordering::Acquire) {
        // Before a look at the queue: a thread of the program may have been interrupted while it holds the
        // provider's locks.
        let now = engine.others_work.load(Ordering::Relaxed);
        let is_left_to_others = now != seen && !engine.events.has_sleepers();
        seen = now;
        if is_left_to_others {
            naps = 0;
            let is_at_work = engine.at_work.load(Ordering::Relaxed) > 0;
            nap = if is_at_work { (2 * nap).min(LONGEST_NAP) } else { NAP };
            engine.events.nap(nap);
            continue;
        }
        nap = NAP;
        if engine.progress() > 0 {
            if let Some((since, limit)) = idle.take() {
                spin.learn(limit, Some(since.elapsed()).filter(|waited| *waited <= limit));
            }
            continue;
        }
        let (since, limit) = *idle.get_or_insert_with(|| (Instant::now(), spin.limit()));
        if since.elapsed() < limit {
            spin_loop();
            continue;
        }
        let (fd, poller) = (engine.port.wait_fd(), engine.events.try_poller());
        naps = if poller.is_some() { 0 } else { naps + 1 };
        match (fd, &poller) {
            (Some(fd), Some(_)) if engine.port.may_sleep() => {
                let longest = if engine.has_put_off() { ROOM_NAP } else { Duration::MAX };
                engine.events.poll_once(fd, longest);
            }
            (Some(_), Some(_)) => {}
            (Some(_), None) if naps > NAPS => engine.events.long_nap(),
            _ => engine.events.nap(NAP),
        }
    }
}

//! Threads that wait until a completion arrives on any rail.
//!
//! One of them sleeps on the descriptors of all providers, and wakes the others when it has woken. What a
//! thread that waits for one rail alone has dealt with wakes it, too.

use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shm::sync::{AtomicUsize, Ordering, spin_loop};

use super::core::Core;
use crate::error::{OfiError, Result};
use crate::lasting::Lasting;
use crate::peer::Peer;

/// Nobody sleeps longer without a look.
const LOOK: Duration = Duration::from_millis(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Held by the thread that sleeps on the descriptors.
    poller: Mutex<()>,
    /// The others, and how often they were woken.
    sleepers: AtomicUsize,
    woken: Mutex<u64>,
    wakes: Condvar,
}

impl Waiting {
    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            *self.woken.lock().unwrap_or_else(PoisonError::into_inner) += 1;
            self.wakes.notify_all();
        }
    }

    /// Until the thread that sleeps on the descriptors has woken, or a moment; unless it is `ready`.
    fn sleep(&self, ready: impl FnOnce() -> Result<bool>) -> Result<bool> {
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let seen = *self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        let is_ready = ready();
        if matches!(is_ready, Ok(false)) {
            let woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
            drop(self.wakes.wait_timeout_while(woken, LOOK, |woken| *woken == seen));
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        is_ready
    }
}

impl Core {
    /// Makes progress on all rails until `ready`, unless nothing ends, and no bytes travel, for as long as a
    /// single operation may take.
    pub(super) fn wait_for_any(&self, mut ready: impl FnMut() -> Result<bool>) -> Result<()> {
        let settings = self.first.inside.engine.settings;
        let started = Instant::now();
        let new_wait = |at: Instant| (at, Lasting::new(settings.give_up_after));
        let (mut ended, mut wait) = (None, new_wait(started));
        loop {
            let mut is_new = false;
            let peers = self.peers();
            for peer in &peers {
                let engine = &peer.inside.engine;
                // Relaxed: the progress thread only needs to see that it changes.
                engine.others_work.fetch_add(1, Ordering::Relaxed);
                is_new |= engine.progress() > 0;
            }
            if is_new {
                self.waiting.wake();
            }
            if ready()? {
                return Ok(());
            }
            // What ends may make room for others first: only a time in which nothing ends is too long.
            let ends = peers.iter().map(|peer| peer.state.chunks_ended.load(Ordering::Relaxed));
            let (ends, now) = (Some(ends.fold(0, u64::wrapping_add)), Instant::now());
            if ends != ended {
                (ended, wait) = (ends, new_wait(now));
            }
            // Where no chunk is under way, questions are what travels.
            let has_chunks = |peer: &Peer| peer.state.chunk_bytes.load(Ordering::Relaxed) > 0;
            let bytes = |peer: &Arc<Peer>| Some(peer.state.carried().filter(|_| has_chunks(peer))?.bytes);
            let carried = || peers.iter().filter_map(bytes).reduce(u64::wrapping_add);
            if wait.1.rest(now.duration_since(wait.0), carried).is_none() {
                return Err(self.none_has_room(settings.give_up_after));
            }
            if is_new || now.duration_since(started) < settings.spin {
                spin_loop();
            } else if self.sleep(&peers, &mut ready)? {
                return Ok(());
            }
        }
    }

    /// Until any rail may have something, or a moment; whether it is `ready` already.
    fn sleep(&self, peers: &[Arc<Peer>], ready: impl FnOnce() -> Result<bool>) -> Result<bool> {
        let poller = match self.waiting.poller.try_lock() {
            Ok(poller) => poller,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return self.waiting.sleep(ready),
        };
        let engines = || peers.iter().map(|peer| &peer.inside.engine);
        // Their progress threads are not to wake for what this one is waiting for.
        let rights: Vec<_> = engines().map(|engine| engine.events.try_poller()).collect();
        let kicks =
            || engines().zip(&rights).filter_map(|(engine, right)| right.as_ref().map(|_| &engine.events));
        kicks().for_each(|events| events.wants_kick(true));
        let is_ready = ready();
        if matches!(is_ready, Ok(false)) && engines().all(|engine| engine.port.may_sleep()) {
            let fds = engines().filter_map(|engine| engine.port.wait_fd());
            let fds = fds.chain(kicks().map(|events| events.kick_fd()));
            let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
            let limit = Timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
            // An error, such as a signal, only makes the caller look early.
            let _ = poll(&mut fds, Some(&limit));
        }
        kicks().for_each(|events| {
            events.wants_kick(false);
            events.take_kick();
        });
        drop(rights);
        engines().for_each(|engine| engine.events.end_long_nap());
        drop(poller);
        // What there is they see themselves, or one of them is the next that sleeps on the descriptors.
        self.waiting.wake();
        is_ready
    }

    #[cold]
    fn none_has_room(&self, limit: Duration) -> OfiError {
        self.end(OfiError::TimedOut {
            what: "a put",
            peer: self.first.name().to_owned(),
            limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            state: "no rail confirmed what it had",
        })
    }
}

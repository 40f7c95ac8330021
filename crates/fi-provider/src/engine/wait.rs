//! Waits for completions, in which the thread sleeps until a peer or another thread wakes it. The domain is
//! left while a thread sleeps: what it sleeps on are words that stay in memory (`message_queue::Alarm`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libc::c_int;
use message_queue::{Alarm, Armed, Patience, Waiting};
use shm::doorbell::Sleep;
use shm::sync::{AtomicBool, AtomicU32, Ordering, futex};

use super::endpoint::Endpoint;
use super::state::{Domain, Shared, State};

/// Wakes the threads of this process that wait for one queue or counter.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rings: Arc<AtomicU32>,
    /// Waits are to end although there is nothing.
    is_signalled: AtomicBool,
    /// What waits have learnt.
    patience: Mutex<Patience>,
}

impl Bell {
    #[cold]
    pub(crate) fn ring(&self) {
        // Sequentially consistent, for signals, which come from outside of the domain, too: see `signal`.
        self.rings.fetch_add(1, Ordering::SeqCst);
        futex::wake(&self.rings, i32::MAX.unsigned_abs());
    }

    /// Ends a wait: one that lasts, or else the next.
    pub(crate) fn signal(&self) {
        // Before the ring: a sleeper reads the value that it sleeps on first and looks at this then.
        self.is_signalled.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Whether a wait is to end, for one of them.
    pub(crate) fn take_signal(&self) -> bool {
        self.is_signalled.load(Ordering::SeqCst) && self.is_signalled.swap(false, Ordering::SeqCst)
    }

    /// Has an alarm go off when this is rung next.
    pub(crate) fn join(&self, alarm: &mut Alarm) {
        alarm.add(Arc::clone(&self.rings), self.rings.load(Ordering::SeqCst));
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Awaited {
    /// Completions of this queue.
    Queue(u32),
    /// A change of this counter.
    Counter(u32),
}

impl State {
    /// Has peers and threads of this process wake whoever waits for this. `Err` if it cannot sleep; what the
    /// alarm has then is not enough to wake it. Of a sleep that does not `last`, [`State::wake_up`] is to be
    /// called in any case.
    pub(crate) fn fall_asleep(
        &mut self,
        awaited: Awaited,
        sleep: &Sleep,
        lasts: bool,
        is_over: impl FnOnce(&Shared) -> bool,
    ) -> Result<Alarm, Armed> {
        let mut alarm = Alarm::default();
        let bell = match awaited {
            Awaited::Queue(number) => self.shared.queues.get_mut(number).map(|queue| queue.bell_wanted()),
            Awaited::Counter(number) => {
                self.shared.counters.get_mut(number).map(|counter| counter.bell_wanted())
            }
        };
        let Some(bell) = bell else { return Err(Armed::Awake) };
        bell.join(&mut alarm);
        let is_signalled = bell.is_signalled.load(Ordering::SeqCst);
        if is_signalled || is_over(&self.shared) {
            return Err(Armed::Awake);
        }
        let mut armed = Armed::Asleep;
        self.each(awaited, |endpoint, _| {
            if armed == Armed::Asleep {
                armed = endpoint.arm(&mut alarm, sleep, lasts);
            }
        });
        if armed == Armed::Asleep { Ok(alarm) } else { Err(armed) }
    }

    /// The sleep has ended.
    pub(crate) fn wake_up(&mut self, awaited: Awaited, sleep: &Sleep) {
        self.each(awaited, |endpoint, _| endpoint.disarm(sleep));
    }

    /// Looks whether peers have ended, who wake nobody.
    pub(crate) fn watch(&mut self, awaited: Awaited) {
        self.each(awaited, Endpoint::watch);
    }
}

/// Sleeps until there may be something, for `limit` at most: whether it could.
fn sleep(domain: &Domain, awaited: Awaited, limit: Duration, is_over: impl FnOnce(&Shared) -> bool) -> bool {
    let sleep = Sleep::new();
    let asleep = domain.lock().fall_asleep(awaited, &sleep, false, is_over);
    let could = match asleep {
        Ok(alarm) => alarm.sleep(limit),
        Err(armed) => armed == Armed::Awake,
    };
    domain.lock().wake_up(awaited, &sleep);
    could
}

/// Looks until `look` returns something, and sleeps in between: `None` after `timeout` milliseconds, or if
/// the wait is ended by a signal. A negative time is no limit. `is_over` says whether `look` would find
/// something now, from within the domain.
pub(crate) fn wait<R>(
    domain: &Domain,
    awaited: Awaited,
    bell: &Bell,
    timeout: c_int,
    mut look: impl FnMut() -> Option<R>,
    is_over: impl Fn(&Shared) -> bool,
) -> Option<R> {
    let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
    let learnt = || bell.patience.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut waiting, mut patience) = (Waiting::new(limit), *learnt());
    let result = loop {
        if let Some(found) = look() {
            waiting.went_on(&mut patience);
            break Some(found);
        }
        if limit == Some(Duration::ZERO) || bell.take_signal() {
            break None;
        }
        match waiting.pause(&mut patience, |limit| sleep(domain, awaited, limit, &is_over)) {
            Ok(true) => domain.lock().watch(awaited),
            Ok(false) => {}
            Err(_) => break None,
        }
    };
    *learnt() = patience;
    result
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Far longer than a ring takes: who sleeps for all of it was not woken.
    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn who_sleeps_on_a_bell_is_woken_by_a_ring_and_does_not_sleep_after_one() {
        let (bell, mut alarm) = (Bell::default(), Alarm::default());
        bell.join(&mut alarm);
        // A kernel that cannot sleep so says that at once.
        let sleep = || {
            let began = Instant::now();
            let _ = alarm.sleep(LIMIT);
            began.elapsed() < LIMIT
        };
        std::thread::scope(|scope| {
            let sleeps = scope.spawn(sleep);
            std::thread::sleep(Duration::from_millis(30));
            bell.ring();
            assert!(sleeps.join().unwrap(), "nobody has woken it");
        });
        assert!(sleep(), "it has rung already");
        assert!(!bell.take_signal());
        bell.signal();
        assert_eq!((bell.take_signal(), bell.take_signal()), (true, false));
    }
}

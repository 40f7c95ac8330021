//! Waits for completions, in which the thread sleeps until a peer or another thread wakes it. The domain is
//! left while a thread sleeps: what it sleeps on are words that stay in memory (`message_queue::Alarm`).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use libc::c_int;
use message_queue::{Alarm, Armed, Patience, Waiting};
use shm::doorbell::{SURE_AFTER_NS, Sleep};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// Completions of this queue.
    Queue(u32),
    /// A change of this counter.
    Counter(u32),
}

impl State {
    /// Has peers and threads of this process wake whoever waits for this, by the alarm. If it cannot sleep,
    /// what the alarm has then is not enough to wake it. Of a sleep that does not `last`, [`State::wake_up`]
    /// is to be called in any case.
    pub(crate) fn fall_asleep(
        &mut self,
        alarm: &mut Alarm,
        awaited: Awaited,
        (sleep, lasts): (&Sleep, bool),
        is_over: impl FnOnce(&Shared) -> bool,
    ) -> Armed {
        let bell = match awaited {
            Awaited::Queue(number) => self.shared.queues.get_mut(number).map(|queue| queue.bell_wanted()),
            Awaited::Counter(number) => {
                self.shared.counters.get_mut(number).map(|counter| counter.bell_wanted())
            }
        };
        let Some(bell) = bell else { return Armed::Awake };
        bell.join(alarm);
        let is_signalled = bell.is_signalled.load(Ordering::SeqCst);
        if is_signalled || is_over(&self.shared) {
            return Armed::Awake;
        }
        let mut armed = Armed::Asleep;
        self.each(awaited, |endpoint, _| {
            if armed == Armed::Asleep {
                armed = endpoint.arm(alarm, sleep, lasts);
            }
        });
        armed
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

/// A peer may miss who is armed in that very moment, so no sleep is longer.
const SLEEP_MAX: Duration = Duration::from_nanos(SURE_AFTER_NS);

/// Sleeps if that is all right: whether it could, or need not.
fn may_sleep(alarm: &Alarm, armed: Armed, limit: Duration) -> bool {
    if armed == Armed::Asleep { alarm.sleep(limit.min(SLEEP_MAX)) } else { armed == Armed::Awake }
}

/// Sleeps until there may be something, for `limit` at most: whether it could.
fn sleep(domain: &Domain, awaited: Awaited, limit: Duration, is_over: impl FnOnce(&Shared) -> bool) -> bool {
    let (sleep, mut alarm) = (Sleep::new(), Alarm::default());
    let armed = domain.lock().fall_asleep(&mut alarm, awaited, (&sleep, false), is_over);
    let could = may_sleep(&alarm, armed, limit);
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
            Ok(0) => {}
            Ok(_) => domain.lock().watch(awaited),
            Err(_) => break None,
        }
    };
    *learnt() = patience;
    result
}

/// One of several things that are waited for at once.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) domain: Arc<Domain>,
    pub(crate) awaited: Awaited,
}

impl Member {
    pub(crate) fn is(&self, domain: &Arc<Domain>, awaited: Awaited) -> bool {
        Arc::ptr_eq(&self.domain, domain) && self.awaited == awaited
    }

    /// Whether something has come after a turn of progress, or a signal: the program is told.
    pub(crate) fn take_news(&self) -> bool {
        let mut state = self.domain.lock();
        state.progress_for(self.awaited);
        let is_signalled = state.shared.bell(self.awaited).is_some_and(|bell| bell.take_signal());
        state.shared.take_news(self.awaited) || is_signalled
    }

    /// As [`State::fall_asleep`].
    pub(crate) fn fall_asleep(&self, alarm: &mut Alarm, sleep: &Sleep, lasts: bool) -> Armed {
        let is_over = |shared: &Shared| shared.has_news(self.awaited);
        self.domain.lock().fall_asleep(alarm, self.awaited, (sleep, lasts), is_over)
    }
}

/// The same for all of them, as far as all can sleep.
pub(crate) fn fall_asleep(members: &[Member], alarm: &mut Alarm, sleep: &Sleep, lasts: bool) -> Armed {
    let each = members.iter().map(|member| member.fall_asleep(alarm, sleep, lasts));
    each.into_iter().find(|armed| *armed != Armed::Asleep).unwrap_or(Armed::Asleep)
}

/// Waits until something has come of one of `members`, who may change meanwhile: whether it has. Times are as
/// in [`wait`].
pub(crate) fn wait_any(members: impl Fn() -> Vec<Member>, learnt: &Mutex<Patience>, timeout: c_int) -> bool {
    let limit = u64::try_from(timeout).ok().map(Duration::from_millis);
    let learnt = || learnt.lock().unwrap_or_else(PoisonError::into_inner);
    let (mut waiting, mut patience) = (Waiting::new(limit), *learnt());
    let has_come = loop {
        let all = members();
        if all.iter().any(Member::take_news) {
            waiting.went_on(&mut patience);
            break true;
        }
        if limit == Some(Duration::ZERO) {
            break false;
        }
        let sleep = |limit| {
            let (sleep, mut alarm) = (Sleep::new(), Alarm::default());
            let armed = fall_asleep(&all, &mut alarm, &sleep, false);
            let could = may_sleep(&alarm, armed, limit);
            all.iter().for_each(|member| member.domain.lock().wake_up(member.awaited, &sleep));
            could
        };
        match waiting.pause(&mut patience, sleep) {
            Ok(0) => {}
            Ok(_) => all.iter().for_each(|member| member.domain.lock().watch(member.awaited)),
            Err(_) => break false,
        }
    };
    *learnt() = patience;
    has_come
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

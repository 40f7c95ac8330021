//! Closes descriptors in threads that may sleep, a few for each user.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Resource, getrlimit};
use shm::process::SignalsBlocked;

/// Threads of all users but the own one and root, of whom each has one.
pub const MOST_THREADS: usize = 16;
/// Threads of the own user, and of root: they could end this process as well, so this is for mistakes.
const MOST_OWN_THREADS: usize = 8;
/// As many of one user wait to be closed as there may be before nothing more should be taken from that user;
/// fewer in a process that may have few open files.
pub const MOST_WAITING: usize = 256;
/// However many open files this process may have, no user needs more of them to wait.
const MOST_IN_ALL: usize = 4096;
/// Closing takes microseconds, and the return of a large memory's pages milliseconds. What takes so long is
/// held up by somebody.
const SLOW: Duration = Duration::from_millis(250);
/// More than [`MOST_WAITING`] are closed in milliseconds. When there are more for so long, somebody holds
/// them up one by one.
const LONG: Duration = Duration::from_secs(1);
/// How long a thread without work stays.
const IDLE: Duration = Duration::from_secs(1);

/// How a user stands with a [`Closer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Load {
    /// Nothing more to say.
    #[default]
    Light,
    /// More than [`MOST_WAITING`] wait: take no more descriptors for the moment.
    Heavy,
    /// And nothing gets closed, or too little: somebody holds it up. Take nothing from this user, not even
    /// connections.
    Stuck,
}

/// Closes descriptors that others have sent. A clone is the same closer.
#[derive(Debug, Clone)]
pub struct Closer {
    shared: Arc<Shared>,
}

/// How many may wait.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Of one user, with nothing more to say.
    light: usize,
    /// Of one user, whatever the reason.
    user: usize,
    /// Of all users but the own one and root.
    others: usize,
}

impl Bounds {
    /// For a process that may have so many open files. All others together get an eighth, or little more than
    /// they need to be distinguished.
    fn of(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let light = (limit / 16).clamp(16, MOST_WAITING);
        let user = (limit / 16).clamp(2 * light, MOST_IN_ALL);
        Self { light, user, others: (limit / 8).max(2 * user) }
    }
}

#[derive(Debug)]
struct Shared {
    own_uid: u32,
    bounds: Bounds,
    /// A fork has no threads of its parent's.
    process: u32,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    users: BTreeMap<u32, User>,
    /// What waits of users other than the own one and root.
    waiting_of_others: usize,
    /// Since when that is more than it may be.
    others_over: Option<Instant>,
    /// Threads of users other than the own one and root.
    threads_of_others: usize,
    next_thread: u64,
}

#[derive(Debug, Default)]
struct User {
    waiting: VecDeque<OwnedFd>,
    threads: usize,
    /// Of those, the ones that wait for work.
    idle: usize,
    /// Since when each of the others has been at its present one.
    closing: BTreeMap<u64, Instant>,
    /// Since when something waits although there can be no thread for it.
    without_thread: Option<Instant>,
    /// Since when there is more than little.
    over: Option<Instant>,
}

impl User {
    /// Whether each thread has been at the same descriptor for long.
    fn is_held_up(&self, now: Instant) -> bool {
        let slow = |since: &Instant| now.saturating_duration_since(*since) >= SLOW;
        let none = self.threads == 0 && self.without_thread.as_ref().is_some_and(slow);
        none || (self.threads > 0 && self.closing.len() == self.threads && self.closing.values().all(slow))
    }

    fn load(&self, bounds: Bounds, now: Instant) -> Load {
        let for_long = |since: Instant| now.saturating_duration_since(since) >= LONG;
        if self.waiting.len() <= bounds.light {
            Load::Light
        } else if self.waiting.len() > bounds.user || self.over.is_some_and(for_long) || self.is_held_up(now)
        {
            Load::Stuck
        } else {
            Load::Heavy
        }
    }
}

impl Closer {
    /// For a process of user `own_uid`, with the limit of open files that it has now. Threads are made when
    /// there is something to close.
    #[must_use]
    pub fn new(own_uid: u32) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let (state, work, process) = (Mutex::default(), Condvar::new(), std::process::id());
        Self { shared: Arc::new(Shared { own_uid, bounds: Bounds::of(limit), process, state, work }) }
    }

    /// The one of this process, for libraries.
    #[must_use]
    pub fn of_process() -> Self {
        static ONE: OnceLock<Closer> = OnceLock::new();
        ONE.get_or_init(|| Self::new(rustix::process::geteuid().as_raw())).clone()
    }

    /// Closes a descriptor of user `uid`, at some time. Never waits for it.
    pub fn close(&self, uid: u32, fd: OwnedFd) {
        if std::process::id() != self.shared.process {
            // A fork: its parent has the descriptor as well, and what is locked here may never be unlocked.
            return drop(fd);
        }
        let (own, bounds) = (self.is_own(uid), self.shared.bounds);
        let mut state = self.lock();
        if !own {
            state.waiting_of_others += 1;
            if state.waiting_of_others > bounds.others {
                state.others_over.get_or_insert_with(Instant::now);
            }
        }
        let user = state.users.entry(uid).or_default();
        user.waiting.push_back(fd);
        if user.waiting.len() > bounds.light {
            user.over.get_or_insert_with(Instant::now);
        }
        if user.idle > 0 {
            self.shared.work.notify_all();
        } else {
            self.see_to_a_thread(&mut state, uid);
        }
    }

    /// How much of a user's is yet to be closed. Of the own user and root alone it does not depend on what
    /// there is of others.
    #[must_use]
    pub fn load_of(&self, uid: u32) -> Load {
        let (now, bounds, state) = (Instant::now(), self.shared.bounds, self.lock());
        let load = state.users.get(&uid).map_or(Load::Light, |user| user.load(bounds, now));
        let crowded = !self.is_own(uid) && state.waiting_of_others > bounds.others;
        if crowded { load.max(Load::Heavy) } else { load }
    }

    /// Users whose descriptors can't be closed at present, ascending; not the own one, and not root.
    #[must_use]
    pub fn stuck_users(&self) -> Vec<u32> {
        let (now, bounds, state) = (Instant::now(), self.shared.bounds, self.lock());
        let users = state
            .users
            .iter()
            .filter(|(uid, user)| !self.is_own(**uid) && user.load(bounds, now) == Load::Stuck);
        users.map(|(&uid, _)| uid).collect()
    }

    /// Whether somebody has more to close than is closed at once: what is held up is to be examined again
    /// soon.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let (bounds, state) = (self.shared.bounds, self.lock());
        state.others_over.is_some() || state.users.values().any(|user| user.waiting.len() > bounds.light)
    }

    /// Whether something of others than the own user and root waits to be closed.
    #[must_use]
    pub fn has_of_others(&self) -> bool {
        self.lock().waiting_of_others > 0
    }

    /// Whether nothing of any other user can be closed, because all threads for them are held up, or more
    /// waits than there may be, and for long or twice as much.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        let (now, bounds, state) = (Instant::now(), self.shared.bounds, self.lock());
        let for_long = state.others_over.is_some_and(|since| now.saturating_duration_since(since) >= LONG);
        if for_long || state.waiting_of_others > 2 * bounds.others {
            return true;
        }
        let others = state.users.iter().filter(|(uid, _)| !self.is_own(**uid));
        let held_up: usize =
            others.filter(|(_, user)| user.is_held_up(now)).map(|(_, user)| user.threads).sum();
        held_up >= MOST_THREADS
    }

    /// Whether nothing of a user is left to be closed.
    #[must_use]
    pub fn is_done_with(&self, uid: u32) -> bool {
        let state = self.lock();
        state.users.get(&uid).is_none_or(|user| user.waiting.is_empty() && user.closing.is_empty())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_own(&self, uid: u32) -> bool {
        uid == 0 || uid == self.shared.own_uid
    }

    fn see_to_a_thread(&self, state: &mut State, uid: u32) {
        let (own, now) = (self.is_own(uid), Instant::now());
        let room = state.threads_of_others < MOST_THREADS;
        let Some(user) = state.users.get_mut(&uid) else { return };
        let wanted = user.threads == 0 || (own && user.threads < MOST_OWN_THREADS && user.is_held_up(now));
        if !wanted {
            return;
        }
        let number = state.next_thread;
        let made = (own || room) && {
            let closer = self.clone();
            let thread = std::thread::Builder::new().name("closer".into()).stack_size(64 * 1024);
            // A program's handlers are not to run in this thread; one that can't be made is tried again with
            // the next descriptor.
            let _quiet = SignalsBlocked::here();
            thread.spawn(move || closer.work(uid, number)).is_ok()
        };
        if !made {
            user.without_thread.get_or_insert(now);
            return;
        }
        user.without_thread = None;
        user.threads += 1;
        state.next_thread += 1;
        state.threads_of_others += usize::from(!own);
    }

    /// What a thread does: closes what there is of its user's, and ends when there has been nothing for a
    /// while.
    fn work(&self, uid: u32, number: u64) {
        let mut state = self.lock();
        loop {
            if let Some(fd) = self.next_of(&mut state, uid, number) {
                drop(state);
                // Here, and nowhere else, it may sleep.
                drop(fd);
                state = self.lock();
                if let Some(user) = state.users.get_mut(&uid) {
                    user.closing.remove(&number);
                }
                continue;
            }
            let Some(user) = state.users.get_mut(&uid) else { return };
            user.idle += 1;
            let waited = self.shared.work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
            state = waited.0;
            let Some(user) = state.users.get_mut(&uid) else { return };
            user.idle -= 1;
            if waited.1.timed_out() && user.waiting.is_empty() {
                return self.leave(&mut state, uid);
            }
        }
    }

    /// What a thread closes next.
    fn next_of(&self, state: &mut State, uid: u32, number: u64) -> Option<OwnedFd> {
        let user = state.users.get_mut(&uid)?;
        let fd = user.waiting.pop_front()?;
        user.closing.insert(number, Instant::now());
        if user.waiting.len() <= self.shared.bounds.light {
            user.over = None;
        }
        if !self.is_own(uid) {
            state.waiting_of_others -= 1;
            if state.waiting_of_others <= self.shared.bounds.others {
                state.others_over = None;
            }
        }
        Some(fd)
    }

    fn leave(&self, state: &mut State, uid: u32) {
        if let Some(user) = state.users.get_mut(&uid) {
            user.threads -= 1;
            if user.threads == 0 {
                state.users.remove(&uid);
            }
        }
        if self.is_own(uid) {
            return;
        }
        state.threads_of_others -= 1;
        // Its place goes to somebody who has been waiting for one.
        let waits = |user: &User| user.threads == 0 && !user.waiting.is_empty();
        let next = state.users.iter().find(|(_, user)| waits(user)).map(|(&uid, _)| uid);
        if let Some(next) = next {
            self.see_to_a_thread(state, next);
        }
    }
}

#[cfg(test)]
mod tests;

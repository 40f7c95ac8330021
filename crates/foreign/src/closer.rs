//! Closing in threads that may sleep, a few for each user.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use shm::process::SignalsBlocked;

/// Threads of all users but the own one and root, of whom each has one.
pub const MOST_THREADS: usize = 16;
/// Threads of the own user, and of root: they could end this process as well, so this is for mistakes.
const MOST_OWN_THREADS: usize = 8;
/// As many of one user wait to be closed as there may be before nothing more should be taken from that user.
pub const MOST_WAITING: usize = 256;
/// Closing takes microseconds, and the return of a large memory's pages milliseconds. What takes so long is held up by somebody.
const SLOW: Duration = Duration::from_millis(250);
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
    /// And nothing gets closed: somebody holds it up. Take nothing from this user, not even connections.
    Stuck,
}

/// Closes descriptors that others have sent. A clone is the same closer.
#[derive(Debug, Clone)]
pub struct Closer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    own_uid: u32,
    /// A fork has no threads of its parent's.
    process: u32,
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Debug, Default)]
struct State {
    users: BTreeMap<u32, User>,
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
}

impl User {
    /// Whether each thread has been at the same descriptor for long.
    fn is_held_up(&self, now: Instant) -> bool {
        let slow = |since: &Instant| now.saturating_duration_since(*since) >= SLOW;
        let none = self.threads == 0 && self.without_thread.as_ref().is_some_and(slow);
        none || (self.threads > 0 && self.closing.len() == self.threads && self.closing.values().all(slow))
    }

    fn load(&self, now: Instant) -> Load {
        if self.waiting.len() <= MOST_WAITING {
            Load::Light
        } else if self.is_held_up(now) {
            Load::Stuck
        } else {
            Load::Heavy
        }
    }
}

impl Closer {
    /// For a process of user `own_uid`. Threads are made when there is something to close.
    #[must_use]
    pub fn new(own_uid: u32) -> Self {
        let (state, work, process) = (Mutex::default(), Condvar::new(), std::process::id());
        Self { shared: Arc::new(Shared { own_uid, process, state, work }) }
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
        let mut state = self.lock();
        let user = state.users.entry(uid).or_default();
        user.waiting.push_back(fd);
        if user.idle > 0 {
            self.shared.work.notify_all();
        } else {
            self.see_to_a_thread(&mut state, uid);
        }
    }

    /// How much of a user's is yet to be closed.
    #[must_use]
    pub fn load_of(&self, uid: u32) -> Load {
        self.lock().users.get(&uid).map_or(Load::Light, |user| user.load(Instant::now()))
    }

    /// Users whose descriptors can't be closed at present, ascending; not the own one, and not root.
    #[must_use]
    pub fn stuck_users(&self) -> Vec<u32> {
        let (now, state) = (Instant::now(), self.lock());
        let users =
            state.users.iter().filter(|(uid, user)| !self.is_own(**uid) && user.load(now) == Load::Stuck);
        users.map(|(&uid, _)| uid).collect()
    }

    /// Whether somebody has more to close than is closed at once: what is held up is to be looked at again soon.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.lock().users.values().any(|user| user.waiting.len() > MOST_WAITING)
    }

    /// Whether all threads for other users are held up, so that nothing of any other user can be closed.
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        let (now, state) = (Instant::now(), self.lock());
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
            // A program's handlers are not to run in this thread; one that can't be made is tried again with the next descriptor.
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

    /// What a thread does: closes what there is of its user's, and ends when there has been nothing for a while.
    fn work(&self, uid: u32, number: u64) {
        let mut state = self.lock();
        loop {
            let Some(user) = state.users.get_mut(&uid) else { return };
            if let Some(fd) = user.waiting.pop_front() {
                user.closing.insert(number, Instant::now());
                drop(state);
                // Here, and nowhere else, it may sleep.
                drop(fd);
                state = self.lock();
                if let Some(user) = state.users.get_mut(&uid) {
                    user.closing.remove(&number);
                }
                continue;
            }
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

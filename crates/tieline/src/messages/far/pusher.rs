//! The thread that puts what could not be put at once, for programs that make no further call: a short
//! message has been sent for them when it was composed.
//!
//! It is started when it is first needed, and ends when it has had nothing to do for a while. Programs that
//! make calls mostly put everything themselves before it looks.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use shm::process::SignalsBlocked;

use super::pair::Pair;

/// Between two looks; longer each time while something cannot be put, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);
/// The thread ends after that.
const IDLE: Duration = Duration::from_secs(1);
/// Stack of the thread.
const STACK_BYTES: usize = 256 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Pusher {
    state: Mutex<State>,
    came: Condvar,
    /// When the queue has ended.
    ended: OnceLock<Instant>,
}

#[derive(Debug, Default)]
struct State {
    behind: Vec<Weak<Pair>>,
    has_thread: bool,
}

impl Pusher {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The queue ends.
    pub(super) fn end(&self) {
        self.ended.get_or_init(Instant::now);
    }

    /// When it has ended, if it has.
    pub(super) fn ended(&self) -> Option<Instant> {
        self.ended.get().copied()
    }

    /// Something of a pair is to be put. If no thread can be started, the program's next call does it.
    pub(super) fn add(self: &Arc<Self>, pair: Weak<Pair>) {
        let mut state = self.state();
        state.behind.push(pair);
        if state.has_thread {
            drop(state);
            return self.came.notify_one();
        }
        let pusher = Arc::clone(self);
        let _quiet = SignalsBlocked::here();
        let thread = std::thread::Builder::new().name("tieline-push".to_owned()).stack_size(STACK_BYTES);
        state.has_thread = thread.spawn(move || pusher.run()).is_ok();
    }

    fn run(&self) {
        let mut pause = FIRST_PAUSE;
        let mut behind: Vec<Weak<Pair>> = Vec::new();
        loop {
            if behind.is_empty() {
                let Some(next) = self.next() else { return };
                (behind, pause) = (next, FIRST_PAUSE);
            }
            std::thread::sleep(pause);
            behind.append(&mut self.state().behind);
            let count = behind.len();
            behind.retain(|pair| pair.upgrade().is_some_and(|pair| pair.is_still_behind()));
            pause = if behind.len() < count { FIRST_PAUSE } else { (2 * pause).min(LONGEST_PAUSE) };
        }
    }

    /// Pairs that are behind, once there are any; `None`: the thread has ended.
    fn next(&self) -> Option<Vec<Weak<Pair>>> {
        let mut state = self.state();
        if state.behind.is_empty() {
            let is_none = |state: &mut State| state.behind.is_empty();
            let waited = self.came.wait_timeout_while(state, IDLE, is_none);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if state.behind.is_empty() {
            // Under the lock: whoever adds one from here on starts another thread.
            state.has_thread = false;
            return None;
        }
        Some(std::mem::take(&mut state.behind))
    }
}

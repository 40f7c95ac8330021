//! Sleeping without the end point: whoever holds it arms it ([`Endpoint::arm`](crate::Endpoint::arm)), and
//! another thread, or the same one after it has let others use the end point, sleeps on the words that wake.

use std::sync::Arc;
use std::time::Duration;

use shm::doorbell::{Deadline, Signal};
use shm::sync::AtomicU32;
use shm::sync::futex::AnyOf;

/// The words that wake a sleeper, with what they held when they were added. They stay in memory as long as
/// this.
#[derive(Debug, Default)]
pub struct Alarm {
    signals: Vec<(Arc<Signal>, u32)>,
    words: Vec<(Arc<AtomicU32>, u32)>,
}

/// Whether a sleep can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Armed {
    /// It can: peers ring.
    Asleep,
    /// Something has arrived.
    Awake,
    /// Something goes on for which nobody wakes, such as a send that waits for room: it is to be looked again
    /// after a short time.
    Restless,
}

impl Alarm {
    /// Adds a word of this process: whoever changes it wakes its sleepers.
    pub fn add(&mut self, word: Arc<AtomicU32>, expected: u32) {
        self.words.push((word, expected));
    }

    pub(crate) fn add_signal(&mut self, signal: Arc<Signal>, expected: u32) {
        self.signals.push((signal, expected));
    }

    /// Sleeps until one of the words is changed and its sleepers are woken, for `limit` at most: whether it
    /// could. It cannot with more than 128 words, nor on a kernel before Linux 5.16.
    #[must_use]
    pub fn sleep(&self, limit: Duration) -> bool {
        if !AnyOf::may_wait() {
            return false;
        }
        let mut any = AnyOf::new();
        let signals = self.signals.iter().map(|(signal, expected)| Some((signal.word()?, *expected)));
        let words = self.words.iter().map(|(word, expected)| Some((word.as_ref(), *expected)));
        for one in signals.chain(words) {
            let Some((word, expected)) = one else { return false };
            if !any.add(word, expected) {
                return false;
            }
        }
        let until = Deadline::after_ns(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        any.wait(until).is_some()
    }
}

//! What an end point does for who sleeps until something comes: for messages, and for operations on memory.

use message_queue::{Alarm, Armed};
use shm::doorbell::Sleep;

use super::Endpoint;
use crate::engine::state::Shared;

impl Endpoint {
    /// Looks whether one of the peers has ended.
    #[cold]
    pub(crate) fn watch(&mut self, shared: &mut Shared) {
        self.inside(shared, |inner, told| inner.watch(told));
        if let Some(memory) = &mut self.memory {
            memory.watch(shared);
        }
    }

    /// Has peers ring for a sleep, as [`message_queue::Endpoint::arm`].
    pub(crate) fn arm(&mut self, alarm: &mut Alarm, sleep: &Sleep, lasts: bool) -> Armed {
        let of_messages = self.inner.as_mut().map(|inner| inner.arm(alarm, sleep, lasts));
        match of_messages.unwrap_or(Armed::Asleep) {
            Armed::Asleep => {
                self.memory.as_mut().map_or(Armed::Asleep, |memory| memory.arm(alarm, sleep, lasts))
            }
            other => other,
        }
    }

    /// The sleep has ended.
    pub(crate) fn disarm(&mut self, sleep: &Sleep) {
        if let Some(inner) = &mut self.inner {
            inner.disarm(sleep);
        }
        if let Some(memory) = &mut self.memory {
            memory.disarm(sleep);
        }
    }
}

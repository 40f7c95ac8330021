//! A session through a relay: the state by which its owner looks for one.

use std::time::Duration;

use super::{Session, Transport};
use crate::time::Instant;
use crate::wire::status::SessionState;

impl Session {
    /// How long it has not been valid.
    pub fn down_for(&self, now: Instant) -> Duration {
        self.down_since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// This side dials, waits for its next attempt, and nobody has said that there is no use in one.
    pub fn waits_to_dial(&self) -> bool {
        let may = matches!(self.state, SessionState::Connecting | SessionState::Lost);
        self.dials() && may && self.transport == Transport::None
    }

    /// There is another way than the peer's own addresses. True: its owner dials there, which is this
    /// session's attempt.
    pub fn dial_other_way(&mut self) -> bool {
        let waits = self.waits_to_dial();
        if waits {
            (self.transport, self.redial_at) = (Transport::Dialling, None);
        }
        waits
    }
}

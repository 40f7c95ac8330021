//! Sequences: did anything fail since the last check?

use std::sync::Arc;

use proto::wire::program::LossReason;

use crate::error::Result;
use crate::remote::RemoteInner;

/// What a check found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceStatus {
    /// The link was up and the owner lived the whole time: stores have arrived (after a barrier).
    Ok,
    /// The link changed its state in between: what was stored may be missing; start anew and repeat it.
    Retriable,
    /// The other end is gone.
    Lost(LossReason),
}

/// Watches one remote segment between two checks.
#[derive(Debug)]
pub struct Sequence {
    remote: Arc<RemoteInner>,
    seen: Seen,
}

/// The state page when it was read last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// The incarnation of the manager that wrote the page.
    incarnation: u64,
    generation: u64,
    up: bool,
    /// Stores vanished: on nodes with faults, from a moment after the link went down to a moment after it was
    /// up again.
    detached: bool,
}

impl Seen {
    fn now(remote: &RemoteInner) -> Result<Self> {
        let (incarnation, link) = remote.link_word()?;
        Ok(Self { incarnation, generation: link.generation, up: link.up, detached: remote.leads_nowhere() })
    }

    /// Whether stores may be missing. A manager that was restarted begins to count anew (from 0, before its
    /// first session with that node): its death is no failure of the link.
    fn failed_since(self, earlier: Self) -> bool {
        if self.detached || earlier.detached {
            return true;
        }
        if self.incarnation != earlier.incarnation || earlier.generation == 0 {
            return self.generation > 0 && !self.up;
        }
        self.generation != earlier.generation
    }
}

impl Sequence {
    pub(crate) fn start(remote: &Arc<RemoteInner>) -> Result<Self> {
        if let Some(failure) = remote.failure() {
            return Err(failure);
        }
        Ok(Self { seen: Seen::now(remote)?, remote: Arc::clone(remote) })
    }

    /// Says what happened since the start or the last check, and starts anew. A connection to another host
    /// that has failed stays [`SequenceStatus::Retriable`]: connect again, or
    /// [resume](crate::RemoteSegment::resume) it where that is possible.
    pub fn check(&mut self) -> Result<SequenceStatus> {
        if let Some(reason) = self.remote.lost() {
            return Ok(SequenceStatus::Lost(reason));
        }
        let now = Seen::now(&self.remote)?;
        let failed = now.failed_since(std::mem::replace(&mut self.seen, now));
        let failed = failed || self.remote.failure().is_some();
        Ok(if failed { SequenceStatus::Retriable } else { SequenceStatus::Ok })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seen(incarnation: u64, generation: u64, up: bool) -> Seen {
        Seen { incarnation, generation, up, detached: false }
    }

    #[test]
    fn what_was_stored_while_the_maps_led_nowhere_is_missing() {
        let (stands, detached) = (seen(1, 3, true), Seen { detached: true, ..seen(1, 3, true) });
        assert!(detached.failed_since(stands));
        assert!(
            stands.failed_since(detached),
            "the link stood at the last look, and stores vanished all the same"
        );
        assert!(!stands.failed_since(stands));
    }

    #[test]
    fn a_change_of_the_link_is_a_failure_and_a_restarted_manager_is_none() {
        assert!(!seen(1, 1, true).failed_since(seen(1, 1, true)));
        assert!(seen(1, 2, false).failed_since(seen(1, 1, true)));
        assert!(seen(1, 3, true).failed_since(seen(1, 1, true)), "down and up again is a failure too");
        assert!(!seen(2, 0, false).failed_since(seen(1, 1, true)), "not seen again yet");
        assert!(!seen(2, 1, true).failed_since(seen(2, 0, false)), "seen again");
        assert!(!seen(2, 1, true).failed_since(seen(1, 7, true)));
        assert!(seen(2, 2, false).failed_since(seen(1, 7, true)));
    }
}

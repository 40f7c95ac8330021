//! How long a removal waits for its reply.
//!
//! A program that removes many objects while its manager is stopped or hangs must not wait the whole limit
//! for each of them: after a request has timed out, further removals wait only briefly, until a message from
//! the manager arrives. A removal whose reply is not waited for is carried out nevertheless, as soon as the
//! manager reads it.

use std::time::Duration;

use crate::blocking::DEFAULT_LIMIT;

/// How long a removal waits for a silent manager. Far more than a running manager takes; little for a program
/// with many objects.
pub(crate) const SILENT_TIMEOUT: Duration = Duration::from_millis(200);

/// Whether the manager replies in time.
#[derive(Debug, Default)]
pub(crate) struct Responsiveness {
    /// Messages received; grows only.
    heard: u64,
    silent: bool,
}

impl Responsiveness {
    /// A message from the manager arrived.
    pub(crate) fn hear(&mut self) {
        self.heard += 1;
        self.silent = false;
    }

    /// Messages so far, to be compared after a wait.
    pub(crate) fn heard(&self) -> u64 {
        self.heard
    }

    /// A reply did not come within `limit`; `heard_before` is [`Self::heard`] from the beginning of the wait.
    /// A wait shorter than [`SILENT_TIMEOUT`], or one during which other messages arrived, does not make the
    /// manager silent.
    pub(crate) fn time_out(&mut self, limit: Duration, heard_before: u64) {
        self.silent |= limit >= SILENT_TIMEOUT && self.heard == heard_before;
    }

    /// How long the next removal waits.
    pub(crate) fn detach_timeout(&self) -> Duration {
        if self.silent { SILENT_TIMEOUT } else { DEFAULT_LIMIT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detach_from_a_silent_manager_is_brief_until_it_sends_something() {
        let mut responsiveness = Responsiveness::default();
        assert_eq!(responsiveness.detach_timeout(), DEFAULT_LIMIT);
        responsiveness.time_out(DEFAULT_LIMIT, responsiveness.heard());
        assert_eq!(responsiveness.detach_timeout(), SILENT_TIMEOUT);
        responsiveness.time_out(SILENT_TIMEOUT, responsiveness.heard());
        assert_eq!(responsiveness.detach_timeout(), SILENT_TIMEOUT);
        responsiveness.hear();
        assert_eq!(responsiveness.detach_timeout(), DEFAULT_LIMIT);
    }

    #[test]
    fn a_short_or_overtaken_timeout_does_not_make_the_manager_silent() {
        let mut responsiveness = Responsiveness::default();
        responsiveness.time_out(SILENT_TIMEOUT / 2, responsiveness.heard());
        assert_eq!(responsiveness.detach_timeout(), DEFAULT_LIMIT);
        let before = responsiveness.heard();
        responsiveness.hear();
        responsiveness.time_out(DEFAULT_LIMIT, before);
        assert_eq!(responsiveness.detach_timeout(), DEFAULT_LIMIT);
    }
}

//! How long a detach waits for its answer.
//!
//! A program that ends many things while its manager is stopped or hangs must not wait the whole limit for each of them:
//! once the manager has let a request time out, further goodbyes give it only a moment, until something comes from it.
//! A goodbye whose answer is not waited for is carried out nevertheless, as soon as the manager reads it.

use std::time::Duration;

use crate::visit::DEFAULT_LIMIT;

/// How long a goodbye waits for a manager that is silent. Far more than one takes that is there; little for who
/// says many goodbyes.
pub(crate) const BRIEFLY: Duration = Duration::from_millis(200);

/// What a line knows of its manager's readiness to answer.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// Messages received; grows only.
    heard: u64,
    silent: bool,
}

impl Patience {
    /// Something came from the manager.
    pub(crate) fn hear(&mut self) {
        self.heard += 1;
        self.silent = false;
    }

    /// To be kept while an answer is waited for.
    pub(crate) fn heard(&self) -> u64 {
        self.heard
    }

    /// An answer did not come within `limit`; `heard_before` is [`Self::heard`] of when the waiting began. A shorter
    /// wait than that of a goodbye, or one during which others were answered, says nothing about the manager.
    pub(crate) fn time_out(&mut self, limit: Duration, heard_before: u64) {
        self.silent |= limit >= BRIEFLY && self.heard == heard_before;
    }

    /// How long the next goodbye waits.
    pub(crate) fn of_goodbye(&self) -> Duration {
        if self.silent { BRIEFLY } else { DEFAULT_LIMIT }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goodbye_to_who_is_silent_is_brief_until_something_is_heard() {
        let mut patience = Patience::default();
        assert_eq!(patience.of_goodbye(), DEFAULT_LIMIT);
        patience.time_out(DEFAULT_LIMIT, patience.heard());
        assert_eq!(patience.of_goodbye(), BRIEFLY);
        patience.time_out(BRIEFLY, patience.heard());
        assert_eq!(patience.of_goodbye(), BRIEFLY);
        patience.hear();
        assert_eq!(patience.of_goodbye(), DEFAULT_LIMIT);
    }

    #[test]
    fn an_impatient_or_an_overtaken_request_says_nothing_about_the_manager() {
        let mut patience = Patience::default();
        patience.time_out(BRIEFLY / 2, patience.heard());
        assert_eq!(patience.of_goodbye(), DEFAULT_LIMIT);
        let before = patience.heard();
        patience.hear();
        patience.time_out(DEFAULT_LIMIT, before);
        assert_eq!(patience.of_goodbye(), DEFAULT_LIMIT);
    }
}

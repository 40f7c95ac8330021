//! The counters of one peer.

use serde::{Deserialize, Serialize};

/// Counters of the exchange with one peer, both directions, as one instance sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ledger {
    /// Blocks that were sent and acknowledged as right.
    pub blocks_sent: u64,
    /// Bytes in them.
    pub bytes_sent: u64,
    /// Blocks that came and were right.
    pub blocks_checked: u64,
    /// Bytes in them.
    pub bytes_checked: u64,
    /// Blocks sent again: because the answer was late, or because it was "wrong". Late answers are no
    /// failures.
    pub retries: u64,
    /// Puts that never arrived: words that are missing before later ones, and blocks of which the old content
    /// was found.
    pub lost: u64,
    /// Blocks and words that arrived changed.
    pub corrupt: u64,
    /// Blocks that arrived after the word that announces them.
    pub out_of_order: u64,
    /// Times during which nothing got through, or the session with the peer's manager was lost.
    pub failures: u64,
    /// The longest of them, in nanoseconds.
    pub longest_failure_ns: u64,
    /// Puts that the link refused.
    pub refused: u64,
}

impl Ledger {
    /// Nothing went wrong.
    pub fn is_clean(&self) -> bool {
        self.failures == 0 && self.lost == 0 && self.corrupt == 0 && self.out_of_order == 0
    }

    /// Everything of both. Those of another host may be anything.
    pub fn add(&mut self, other: &Self) {
        self.blocks_sent = self.blocks_sent.saturating_add(other.blocks_sent);
        self.bytes_sent = self.bytes_sent.saturating_add(other.bytes_sent);
        self.blocks_checked = self.blocks_checked.saturating_add(other.blocks_checked);
        self.bytes_checked = self.bytes_checked.saturating_add(other.bytes_checked);
        self.retries = self.retries.saturating_add(other.retries);
        self.lost = self.lost.saturating_add(other.lost);
        self.corrupt = self.corrupt.saturating_add(other.corrupt);
        self.out_of_order = self.out_of_order.saturating_add(other.out_of_order);
        self.failures = self.failures.saturating_add(other.failures);
        self.longest_failure_ns = self.longest_failure_ns.max(other.longest_failure_ns);
        self.refused = self.refused.saturating_add(other.refused);
    }
}

/// Times without success: counted, and the longest kept.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outage {
    since_ns: Option<u64>,
}

impl Outage {
    /// Nothing gets through, and has not since then.
    pub(super) fn begin(&mut self, since_ns: u64, ledger: &mut Ledger) {
        if self.since_ns.is_none() {
            self.since_ns = Some(since_ns);
            ledger.failures += 1;
        }
    }

    /// Something got through, or the run ends. Returns whether nothing had before.
    pub(super) fn end(&mut self, now_ns: u64, ledger: &mut Ledger) -> bool {
        let Some(since_ns) = self.since_ns.take() else { return false };
        let lasted_ns = now_ns.saturating_sub(since_ns);
        ledger.longest_failure_ns = ledger.longest_failure_ns.max(lasted_ns);
        true
    }

    #[cfg(test)]
    pub(super) fn lasts(&self) -> bool {
        self.since_ns.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outages_are_counted_once_and_the_longest_is_kept() {
        let (mut outage, mut ledger) = (Outage::default(), Ledger::default());
        outage.begin(10, &mut ledger);
        outage.begin(20, &mut ledger);
        assert!(outage.lasts());
        outage.end(110, &mut ledger);
        outage.end(500, &mut ledger);
        outage.begin(600, &mut ledger);
        outage.end(650, &mut ledger);
        assert_eq!((ledger.failures, ledger.longest_failure_ns), (2, 100));
        assert!(!ledger.is_clean());
    }
}

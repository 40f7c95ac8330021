//! How much is kept of messages without a receive.

use crate::matching::PeerId;
use crate::settings::{Bounds, Settings};

/// What a kept message costs besides its bytes: about its entry in the matcher.
const ENTRY_BYTES: usize = 128;

#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    messages: usize,
    bytes: usize,
}

impl Kept {
    fn has_room(self, bounds: Bounds, bytes: usize) -> bool {
        // Something always fits: else a message that is longer than the limit would never come.
        self.messages == 0
            || self.messages < bounds.messages && self.bytes.saturating_add(bytes) <= bounds.bytes
    }
}

/// The messages that are kept, counted.
#[derive(Debug)]
pub(crate) struct Unexpected {
    all: Kept,
    of_peer: Vec<Kept>,
    bounds: Bounds,
    bounds_per_peer: Bounds,
}

impl Unexpected {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            all: Kept::default(),
            of_peer: Vec::new(),
            bounds: settings.unexpected,
            bounds_per_peer: settings.unexpected_per_peer,
        }
    }

    /// Whether one more message of the peer may be kept. `is_awaited`: a receive waits that a later message
    /// of the peer could go to.
    ///
    /// Beyond its own limit a peer that is awaited may have as much as is left for all: so one alone gets
    /// half of what there is, each of two a third, and there is always something left for others (the
    /// dynamic threshold of A. K. Choudhury and E. L. Hahne, "Dynamic queue length thresholds for
    /// shared-memory packet switches", IEEE/ACM Transactions on Networking 6(2), 1998, with a factor of 1).
    pub(crate) fn has_room(&self, peer: PeerId, bytes: usize, is_awaited: impl FnOnce() -> bool) -> bool {
        let bytes = bytes + ENTRY_BYTES;
        let of_peer = self.of_peer.get(peer as usize).copied().unwrap_or_default();
        // A peer of which nothing is kept may have its first, so that greedy ones do not stop all others.
        if of_peer.messages == 0 {
            return true;
        }
        self.all.has_room(self.bounds, bytes)
            && (of_peer.has_room(self.bounds_per_peer, bytes)
                || of_peer.has_room(self.left(), bytes) && is_awaited())
    }

    /// What is left for all peers.
    fn left(&self) -> Bounds {
        Bounds {
            messages: self.bounds.messages.saturating_sub(self.all.messages),
            bytes: self.bounds.bytes.saturating_sub(self.all.bytes),
        }
    }

    pub(crate) fn add(&mut self, peer: PeerId, bytes: usize) {
        let at = peer as usize;
        if self.of_peer.len() <= at {
            self.of_peer.resize_with(at + 1, Kept::default);
        }
        for kept in [&mut self.all, &mut self.of_peer[at]] {
            kept.messages += 1;
            kept.bytes += bytes + ENTRY_BYTES;
        }
    }

    pub(crate) fn remove(&mut self, peer: PeerId, bytes: usize) {
        let of_peer = self.of_peer.get_mut(peer as usize);
        for kept in [Some(&mut self.all), of_peer].into_iter().flatten() {
            kept.messages = kept.messages.saturating_sub(1);
            kept.bytes = kept.bytes.saturating_sub(bytes + ENTRY_BYTES);
        }
    }

    /// Messages and bytes that are kept.
    pub(crate) fn kept(&self) -> (usize, usize) {
        (self.all.messages, self.all.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unexpected(per_peer: usize, all: usize) -> Unexpected {
        let bounds = |messages| Bounds { messages, bytes: 10_000 };
        let settings = Settings {
            unexpected: bounds(all),
            unexpected_per_peer: bounds(per_peer),
            ..Settings::default()
        };
        Unexpected::new(&settings)
    }

    #[test]
    fn a_greedy_peer_has_its_limit_and_others_theirs() {
        let mut unexpected = unexpected(2, 9);
        for _ in 0..2 {
            assert!(unexpected.has_room(7, 10, || false));
            unexpected.add(7, 10);
        }
        assert!(!unexpected.has_room(7, 10, || false) && unexpected.has_room(3, 10, || false));
        // One that is awaited gets as much as is left, and no more.
        let mut more = 0;
        while unexpected.has_room(7, 10, || true) {
            unexpected.add(7, 10);
            more += 1;
        }
        assert_eq!(more, 3);
        // Of what is left another one has its own limit, awaited or not.
        for _ in 0..2 {
            assert!(unexpected.has_room(3, 10, || false));
            unexpected.add(3, 10);
        }
        assert!(!unexpected.has_room(3, 10, || true));
        unexpected.remove(7, 10);
        assert_eq!(unexpected.kept(), (6, 6 * (10 + ENTRY_BYTES)));
    }

    #[test]
    fn at_the_limit_of_all_each_peer_may_have_one() {
        let mut unexpected = unexpected(2, 4);
        for peer in [1, 1, 2, 2] {
            assert!(unexpected.has_room(peer, 10, || false));
            unexpected.add(peer, 10);
        }
        assert!(!unexpected.has_room(1, 10, || true) && !unexpected.has_room(2, 10, || true));
        assert!(unexpected.has_room(3, 10, || false));
        unexpected.add(3, 10);
        assert!(!unexpected.has_room(3, 10, || true) && unexpected.has_room(4, 10, || false));
        unexpected.remove(1, 10);
        unexpected.remove(1, 10);
        assert!(unexpected.has_room(1, 10, || false));
    }

    #[test]
    fn bytes_count_too_but_the_first_message_always_fits() {
        let mut unexpected = unexpected(100, 100);
        assert!(unexpected.has_room(0, 1 << 20, || false));
        unexpected.add(0, 9_000);
        assert!(unexpected.has_room(0, 500, || false) && !unexpected.has_room(0, 1_000, || false));
    }
}

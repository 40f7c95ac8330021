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
    pub(crate) fn has_room(&self, peer: PeerId, bytes: usize, is_awaited: impl FnOnce() -> bool) -> bool {
        let bytes = bytes + ENTRY_BYTES;
        let of_peer = self.of_peer.get(peer as usize).copied().unwrap_or_default();
        // A peer of which nothing is kept may have its first, so that a greedy one does not stop all others.
        let in_all = of_peer.messages == 0 || self.all.has_room(self.bounds, bytes);
        in_all && (of_peer.has_room(self.bounds_per_peer, bytes) || is_awaited())
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
        let mut unexpected = unexpected(2, 3);
        for _ in 0..2 {
            assert!(unexpected.has_room(7, 10, || false));
            unexpected.add(7, 10);
        }
        assert!(!unexpected.has_room(7, 10, || false) && unexpected.has_room(7, 10, || true));
        assert!(unexpected.has_room(3, 10, || false));
        unexpected.add(3, 10);
        // All together have reached the limit: a waiting receive does not help any more, but a new peer may
        // have one.
        assert!(!unexpected.has_room(7, 10, || true) && !unexpected.has_room(3, 10, || true));
        assert!(unexpected.has_room(4, 10, || false));
        unexpected.remove(7, 10);
        assert!(unexpected.has_room(7, 10, || false) && unexpected.has_room(3, 10, || false));
        assert_eq!(unexpected.kept(), (2, 2 * (10 + ENTRY_BYTES)));
    }

    #[test]
    fn bytes_count_too_but_the_first_message_always_fits() {
        let mut unexpected = unexpected(100, 100);
        assert!(unexpected.has_room(0, 1 << 20, || false));
        unexpected.add(0, 9_000);
        assert!(unexpected.has_room(0, 500, || false) && !unexpected.has_room(0, 1_000, || false));
    }
}

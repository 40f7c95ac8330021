//! How long something is waited for: a limit that begins anew while bytes travel to or from the peer, so that
//! a slow network is not taken for one that has failed. Without input, output and clock.

use std::time::Duration;

/// Fewer bytes within the limit are no progress: a peer that lets a byte pass now and then does not keep a
/// wait for ever.
const LEAST_BYTES: u64 = 1024;
/// It is looked at that often within the limit.
const LOOKS: u32 = 4;
/// No operation has more bytes before it, in slots and in the kernel's buffers: when so many have travelled,
/// and it has not ended, they are those of others, and it has waited for long enough.
const MOST_BYTES: u64 = 16 << 20;

/// Of one wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lasting {
    limit: Duration,
    /// Since the wait began, as the next one.
    ends: Duration,
    next_look: Duration,
    /// When enough had travelled last.
    seen_bytes: Option<u64>,
    /// When it was first looked at.
    first_bytes: Option<u64>,
}

impl Lasting {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { limit, ends: limit, next_look: limit / LOOKS, seen_bytes: None, first_bytes: None }
    }

    /// After so much time: how long to wait until this is asked again; `None`: it has taken too long.
    /// `carried` says how many bytes have travelled, if that is known.
    #[inline]
    pub(crate) fn rest(
        &mut self,
        waited: Duration,
        carried: impl FnOnce() -> Option<u64>,
    ) -> Option<Duration> {
        if waited >= self.next_look {
            self.look(waited, carried());
        }
        let rest = self.ends.min(self.next_look).saturating_sub(waited);
        (waited < self.ends).then_some(rest)
    }

    #[cold]
    fn look(&mut self, waited: Duration, bytes: Option<u64>) {
        if let Some(now) = bytes {
            let first_bytes = *self.first_bytes.get_or_insert(now);
            let before = *self.seen_bytes.get_or_insert(now);
            if now >= before.saturating_add(LEAST_BYTES) {
                self.seen_bytes = Some(now);
                if now.saturating_sub(first_bytes) < MOST_BYTES {
                    self.ends = waited.saturating_add(self.limit);
                }
            }
        }
        self.next_look = waited.saturating_add(self.limit / LOOKS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    /// How long it waits if so many bytes travel in a second, until that ends.
    fn waits(rate: u64, until: Duration) -> Duration {
        let (mut lasting, mut waited) = (Lasting::new(LIMIT), Duration::ZERO);
        let carried = |at: Duration| Some((at.min(until).as_secs_f64() * rate as f64) as u64);
        for _ in 0..10_000 {
            let Some(rest) = lasting.rest(waited, || carried(waited)) else { return waited };
            assert!(!rest.is_zero());
            waited += rest;
        }
        Duration::MAX
    }

    #[test]
    fn a_wait_lasts_as_long_as_bytes_travel_and_no_longer() {
        let second = Duration::from_secs(1);
        assert_eq!(waits(0, Duration::ZERO), LIMIT);
        // A little for long, and much for no longer than what it may wait for.
        assert!(waits(1000, Duration::MAX) > 4 * 3600 * second);
        assert!(waits(100_000, Duration::MAX) < 190 * second);
        assert_eq!(waits(1_000_000_000, Duration::MAX), LIMIT);
        // What travelled before the first look says nothing.
        assert_eq!(waits(100_000, 2 * second), LIMIT);
        assert_eq!(waits(1000, 62 * second), Duration::from_millis(72_500));
        assert_eq!(waits(10, Duration::MAX), LIMIT, "too little");
    }

    #[test]
    fn without_a_number_of_bytes_the_limit_counts() {
        let mut lasting = Lasting::new(LIMIT);
        assert_eq!(lasting.rest(Duration::ZERO, || panic!("too early")), Some(LIMIT / 4));
        assert_eq!(lasting.rest(LIMIT / 2, || None), Some(LIMIT / 4));
        assert_eq!(lasting.rest(LIMIT, || None), None);
        assert_eq!(lasting.rest(Duration::MAX, || None), None);
    }
}

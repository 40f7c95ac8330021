//! How fast a rail carries chunks, measured while it has some: without input, output and clock.
//!
//! Only while something is under way time counts, from a look to a later one by which enough was confirmed. A
//! rail that was not measured for a while counts as unknown, and is tried again: it may have been slow for a
//! time only.

use crate::port::SEND_SLOT_BYTES;

/// So much is confirmed between two looks that make a measurement, unless the rail has nothing left before.
const WINDOW_BYTES: u64 = 4 * SEND_SLOT_BYTES as u64;
/// As much of a new measurement counts.
const LEARN: f64 = 0.125;
/// No measurement counts as more than so many times what is known: two looks right behind each other, after a
/// thread was held up, see at once what has come in a long time.
const FASTER: f64 = 2.0;
/// A rate is steady when so many bytes were confirmed at it: a network that limits the rate lets some pass
/// at once before.
const STEADY_BYTES: u64 = 4 << 20;
/// After that time without a measurement nothing is known.
const STALE_NS: u64 = 1_000_000_000;

/// Of one rail. Times are in nanoseconds since any moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace {
    begun_bytes: u64,
    /// When a measurement began, and how much had been confirmed by then.
    since: Option<(u64, u64)>,
    /// Bytes per nanosecond, and when that was known last.
    measured: Option<(f64, u64)>,
    /// Bytes that were confirmed since nothing was known.
    known_bytes: u64,
}

impl Pace {
    /// A chunk was begun, and with it so much is under way.
    pub(crate) fn begin(&mut self, now_ns: u64, bytes: u64, under_way: u64) {
        if self.rate(now_ns).is_none() {
            self.known_bytes = 0;
        }
        self.begun_bytes += bytes;
        // By now some of it may have been confirmed, and others may have begun more.
        let confirmed = self.begun_bytes.saturating_sub(under_way.max(bytes));
        self.since.get_or_insert((now_ns, confirmed));
    }

    /// So much is under way at this time.
    pub(crate) fn look(&mut self, now_ns: u64, under_way: u64) {
        let Some((began_ns, before)) = self.since else { return };
        let confirmed = self.begun_bytes.saturating_sub(under_way);
        let done = confirmed.saturating_sub(before);
        if done >= WINDOW_BYTES || (under_way == 0 && done > 0) {
            let rate = done as f64 / now_ns.saturating_sub(began_ns).max(1) as f64;
            let before = self.measured.map_or(rate, |(before, _)| before);
            // A little: a thread that was interrupted looks late, and buffers on the way take some at once.
            self.measured = Some((before + (rate.min(before * FASTER) - before) * LEARN, now_ns));
            self.since = Some((now_ns, confirmed));
            self.known_bytes += done;
        }
        if under_way == 0 {
            self.since = None;
        }
    }

    /// Bytes per nanosecond, if that is known.
    pub(crate) fn rate(&self, now_ns: u64) -> Option<f64> {
        let (rate, at_ns) = self.measured?;
        (now_ns.saturating_sub(at_ns) < STALE_NS || self.since.is_some()).then_some(rate)
    }
}

impl Pace {
    /// Whether the rate that is known is more than that of a first burst.
    pub(crate) fn is_steady(&self, now_ns: u64) -> bool {
        self.known_bytes >= STEADY_BYTES && self.rate(now_ns).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: u64 = SEND_SLOT_BYTES as u64;

    /// A rail that carries a chunk in so many nanoseconds, with two under way.
    fn carry(pace: &mut Pace, from_ns: u64, chunk_ns: u64, chunks: u64) -> u64 {
        pace.begin(from_ns, CHUNK, CHUNK);
        for nth in 1..=chunks {
            let now_ns = from_ns + nth * chunk_ns;
            pace.begin(now_ns, CHUNK, 2 * CHUNK);
            pace.look(now_ns, CHUNK);
        }
        pace.look(from_ns + (chunks + 1) * chunk_ns, 0);
        from_ns + (chunks + 1) * chunk_ns
    }

    #[test]
    fn what_a_rail_carries_while_it_has_work_is_its_rate() {
        let mut pace = Pace::default();
        assert!(pace.rate(0).is_none());
        let mut now_ns = carry(&mut pace, 1000, 500, 40);
        let is_about = |pace: &Pace, now_ns, chunk_ns: f64| {
            let rate = pace.rate(now_ns).unwrap();
            (rate * chunk_ns / CHUNK as f64 - 1.0).abs() < 0.1
        };
        assert!(is_about(&pace, now_ns, 500.0), "{pace:?}");
        // A pause does not count; another rate is learnt.
        now_ns = carry(&mut pace, now_ns + 900_000, 2000, 120);
        assert!(is_about(&pace, now_ns, 2000.0), "{pace:?}");
        // After a long one nothing is known.
        assert!(pace.rate(now_ns + STALE_NS).is_none());
    }

    #[test]
    fn a_rate_is_steady_after_more_than_a_burst_until_nothing_is_known() {
        let mut pace = Pace::default();
        let mut now_ns = carry(&mut pace, 0, 500, 40);
        assert!(!pace.is_steady(now_ns));
        now_ns = carry(&mut pace, now_ns, 500, 40);
        assert!(pace.is_steady(now_ns) && !pace.is_steady(now_ns + STALE_NS));
        now_ns = carry(&mut pace, now_ns + STALE_NS, 500, 40);
        assert!(!pace.is_steady(now_ns));
    }

    #[test]
    fn what_comes_at_once_behind_a_pause_is_no_rate() {
        let mut pace = Pace::default();
        let now_ns = carry(&mut pace, 0, 500, 40);
        let before = pace.rate(now_ns).unwrap();
        pace.begin(now_ns, 16 * CHUNK, 16 * CHUNK);
        // The first half took its time; the other one is seen a nanosecond later.
        pace.look(now_ns + 8 * 500, 8 * CHUNK);
        pace.look(now_ns + 8 * 500 + 1, 0);
        let after = pace.rate(now_ns + 8 * 500 + 1).unwrap();
        assert!(after > before * 0.9 && after < before * 1.2, "{before} and then {after}");
    }

    #[test]
    fn a_rail_that_stalls_with_work_keeps_what_is_known() {
        let mut pace = Pace::default();
        let now_ns = carry(&mut pace, 0, 500, 8);
        pace.begin(now_ns, CHUNK, CHUNK);
        pace.look(now_ns + 5 * STALE_NS, CHUNK);
        assert!(pace.rate(now_ns + 5 * STALE_NS).is_some());
    }
}

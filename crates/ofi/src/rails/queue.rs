//! How much a rail has under way, and how long its chunks are: without input, output and clock.
//!
//! What is short waits for what rails have under way ([`shorts`](super::shorts)), so that is to be little;
//! but a rail must not be idle while there is more for it. How much that takes depends on its rate and
//! latency, and on how late threads wake, so it is found by trying, as Linux does for network interfaces (T.
//! Herbert, dynamic queue limits, `lib/dynamic_queue_limits.c`): the limit rises while rails run empty for
//! too large a share of the time although somebody has more for them, and else falls.

use crate::port::SEND_SLOT_BYTES;
use crate::slots::SLOTS_OF_A_PEER;

/// A chunk takes no longer on its rail, unless it is the shortest one: one more or less is what a limit is
/// told apart by.
const CHUNK_NS: f64 = 300_000.0;
const LEAST_CHUNK_BYTES: usize = 16 * 1024;
/// A rail has no more slots.
const MOST_BYTES: u64 = SLOTS_OF_A_PEER as u64 * SEND_SLOT_BYTES as u64;
/// The share of the time for which a rail may be empty although there is more for it: above the first a limit
/// rises, below the second it falls.
const TOO_IDLE: f64 = 0.02;
const BUSY: f64 = 0.01;
/// That is looked at over so many chunks.
const WINDOW_CHUNKS: u64 = 64;
/// A limit rises and falls by this part of it, or a chunk.
const RISE: u64 = 4;
const FALL: u64 = 8;

/// How long chunks are to be for rails of which the fastest carries so many bytes per nanosecond.
pub(crate) fn chunk_bytes(rate: Option<f64>) -> usize {
    let most = rate.map_or(SEND_SLOT_BYTES, |rate| (rate * CHUNK_NS) as usize);
    1 << most.clamp(LEAST_CHUNK_BYTES, SEND_SLOT_BYTES).ilog2()
}

/// Of one rail. Times are in nanoseconds since any moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Queue {
    limit_bytes: u64,
    /// Somebody has a chunk for which there was no room: when that was found last, and what was under way
    /// then.
    refused: Option<(u64, u64)>,
    /// What was begun in this window, and for how long the rail was empty although there was more for it.
    begun_bytes: u64,
    idle_ns: f64,
}

impl Default for Queue {
    fn default() -> Self {
        Self { limit_bytes: MOST_BYTES, refused: None, begun_bytes: 0, idle_ns: 0.0 }
    }
}

impl Queue {
    /// Whether a chunk of this length has room beside what is under way. One always has in a rail that is
    /// empty. `rate` in bytes per nanosecond, if that is known.
    pub(crate) fn has_room(
        &mut self,
        now_ns: u64,
        under_way: u64,
        chunk_bytes: usize,
        rate: Option<f64>,
    ) -> bool {
        if under_way > 0 && under_way.saturating_add(chunk_bytes as u64) > self.limit_bytes {
            self.refused = Some((now_ns, under_way));
            return false;
        }
        let refused = self.refused.take();
        if let (Some((at_ns, then)), Some(rate), 0) = (refused, rate, under_way) {
            let since_ns = now_ns.saturating_sub(at_ns) as f64;
            self.idle_ns += (since_ns - then as f64 / rate).max(0.0);
        }
        true
    }

    /// A chunk was begun.
    pub(crate) fn begun(&mut self, bytes: usize, chunk_bytes: usize, rate: Option<f64>) {
        let chunk = chunk_bytes as u64;
        self.begun_bytes += bytes as u64;
        if self.begun_bytes < WINDOW_CHUNKS * chunk {
            return;
        }
        if let Some(rate) = rate {
            let share = self.idle_ns / (self.idle_ns + self.begun_bytes as f64 / rate);
            if share > TOO_IDLE {
                self.limit_bytes = (self.limit_bytes + chunk.max(self.limit_bytes / RISE)).min(MOST_BYTES);
            } else if share < BUSY {
                self.limit_bytes -= chunk.max(self.limit_bytes / FALL).min(self.limit_bytes);
            }
            self.limit_bytes = self.limit_bytes.max(2 * chunk);
        }
        (self.begun_bytes, self.idle_ns) = (0, 0.0);
    }

    /// Nobody may begin anything at present: that a rail runs empty says nothing.
    pub(crate) fn pauses(&mut self) {
        self.refused = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNK: usize = SEND_SLOT_BYTES;

    /// A rail that takes so long for a chunk, and a thread that always has more for it, but sees only after
    /// `late_ns` that one was confirmed: the share of some seconds in which the rail had work, and the most
    /// that it had under way in the last tenth of one.
    fn carry(queue: &mut Queue, chunk_ns: u64, late_ns: impl Fn(u64) -> u64) -> (f64, u64) {
        let (mut now_ns, end_ns) = (0, 10_000_000_000);
        let rate = Some(CHUNK as f64 / chunk_ns as f64);
        // When each chunk that is under way is confirmed.
        let mut ends = std::collections::VecDeque::new();
        let (mut carried, mut most) = (0, 0);
        while now_ns < end_ns {
            while ends.front().is_some_and(|end| *end <= now_ns) {
                ends.pop_front();
                carried += 1;
            }
            let has_slot = |ends: &std::collections::VecDeque<u64>| ends.len() < SLOTS_OF_A_PEER as usize;
            while has_slot(&ends) && queue.has_room(now_ns, (ends.len() * CHUNK) as u64, CHUNK, rate) {
                let begins = ends.back().copied().unwrap_or(now_ns).max(now_ns);
                ends.push_back(begins + chunk_ns);
                queue.begun(CHUNK, CHUNK, rate);
            }
            if now_ns > end_ns - 100_000_000 {
                most = most.max(ends.len() as u64);
            }
            let next = ends.front().copied().unwrap_or(now_ns).max(now_ns);
            now_ns = next + late_ns(carried);
        }
        (carried as f64 * chunk_ns as f64 / end_ns as f64, most)
    }

    #[test]
    fn a_rail_whose_thread_wakes_soon_has_two_chunks_under_way_and_is_never_idle() {
        let (share, most) = carry(&mut Queue::default(), 250_000, |_| 50_000);
        assert!(share > 0.98 && most == 2, "{share} {most}");
    }

    #[test]
    fn a_rail_whose_thread_wakes_late_has_as_many_as_that_takes() {
        let (share, most) = carry(&mut Queue::default(), 250_000, |_| 1_400_000);
        assert!(share > 0.93 && (6..=10).contains(&most), "{share} {most}");
        // And one that is fast.
        let (share, most) = carry(&mut Queue::default(), 10_000, |_| 60_000);
        assert!(share > 0.93 && (7..=10).contains(&most), "{share} {most}");
    }

    #[test]
    fn a_thread_that_wakes_late_now_and_then_raises_no_limit() {
        let mut queue = Queue::default();
        let (share, _) = carry(&mut queue, 250_000, |_| 3_000_000);
        assert!(share > 0.95, "{share}");
        let late = |nth| if nth % 1000 == 0 { 3_000_000 } else { 50_000 };
        let (share, most) = carry(&mut queue, 250_000, late);
        assert!(share > 0.97 && most <= 3, "{share} {most}");
    }

    #[test]
    fn a_limit_falls_where_blocks_never_reach_it() {
        let mut queue = Queue::default();
        for _ in 0..40 * WINDOW_CHUNKS {
            assert!(queue.has_room(1, 0, CHUNK, Some(1.0)));
            queue.begun(CHUNK, CHUNK, Some(1.0));
        }
        assert_eq!(queue.limit_bytes, 2 * CHUNK as u64);
    }

    #[test]
    fn a_rail_that_is_empty_because_nobody_may_begin_anything_is_not_idle() {
        let mut queue = Queue { limit_bytes: 3 * CHUNK as u64, ..Queue::default() };
        for round in 0..10 * WINDOW_CHUNKS {
            assert!(!queue.has_room(round * 1_000_000, 3 * CHUNK as u64, CHUNK, Some(1.0)));
            queue.pauses();
            assert!(queue.has_room((round + 1) * 1_000_000, 0, CHUNK, Some(1.0)));
            queue.begun(CHUNK, CHUNK, Some(1.0));
        }
        assert_eq!(queue.limit_bytes, 2 * CHUNK as u64);
    }

    #[test]
    fn chunks_of_slow_rails_are_short() {
        let bytes = [None, Some(10.0), Some(0.25), Some(0.125), Some(0.05), Some(0.0)].map(chunk_bytes);
        assert_eq!(bytes, [65_536, 65_536, 65_536, 32_768, 16_384, 16_384]);
    }
}

//! Puts that a fault delays: when they arrive, and after which others.
//!
//! A late put that the next one lets go is late by nanoseconds, which has no effect. So it stays away for
//! several puts, longer than a protocol has under way at one time; or until a put to the same place, which it
//! then overwrites: the newer data by the older, as on a link that reorders.

/// A put that is to arrive (once more) later.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Late {
    pub(super) offset: usize,
    pub(super) bytes: Vec<u8>,
    /// Puts that still go before it.
    pub(super) wait_puts: u32,
}

/// Bytes that are held back at one time; beyond that the oldest arrive.
pub(super) const MAX_HELD_BYTES: usize = 4 << 20;

/// In the order in which they were put.
#[derive(Debug, Default)]
pub(super) struct Queue(Vec<Late>);

impl Queue {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Holds one back; what has no room beside it arrives now.
    pub(super) fn hold(&mut self, late: Late) -> Vec<Late> {
        self.0.push(late);
        let mut over = self.bytes().saturating_sub(MAX_HELD_BYTES);
        let mut first_kept = 0;
        for held in &self.0 {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(held.bytes.len());
            first_kept += 1;
        }
        self.0.drain(..first_kept).collect()
    }

    fn bytes(&self) -> usize {
        self.0.iter().map(|late| late.bytes.len()).sum()
    }

    /// One more put has passed, and, if `arrived`, written this range: what arrives after it.
    pub(super) fn passed(&mut self, offset: usize, len: usize, arrived: bool) -> Vec<Late> {
        for late in &mut self.0 {
            let overlaps = late.offset < offset + len && offset < late.offset + late.bytes.len();
            late.wait_puts = if arrived && overlaps { 0 } else { late.wait_puts.saturating_sub(1) };
        }
        self.0.extract_if(.., |late| late.wait_puts == 0).collect()
    }

    /// Everything.
    pub(super) fn all(&mut self) -> Vec<Late> {
        std::mem::take(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn late(offset: usize, len: usize, wait_puts: u32) -> Late {
        Late { offset, bytes: vec![1; len], wait_puts }
    }

    fn places(arrived: &[Late]) -> Vec<usize> {
        arrived.iter().map(|late| late.offset).collect()
    }

    #[test]
    fn each_arrives_when_its_puts_have_passed_or_when_its_place_is_written() {
        let mut queue = Queue::default();
        assert_eq!(queue.hold(late(0, 8, 3)), []);
        assert_eq!(queue.hold(late(100, 8, 2)), []);
        assert_eq!(queue.hold(late(200, 8, 9)), []);
        assert_eq!(queue.passed(8, 92, true), [], "a neighbour is no overlap");
        assert_eq!(places(&queue.passed(50, 1, true)), [100]);
        assert_eq!(places(&queue.passed(207, 8, true)), [0, 200]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_put_that_is_itself_held_back_or_lost_lets_nothing_go_early() {
        let mut queue = Queue::default();
        queue.hold(late(0, 8, 3));
        assert_eq!(queue.passed(0, 8, false), []);
        assert_eq!(places(&queue.passed(0, 8, true)), [0]);
    }

    #[test]
    fn no_more_is_kept_than_there_is_room_for() {
        let mut queue = Queue::default();
        assert_eq!(queue.hold(late(0, MAX_HELD_BYTES, 9)), []);
        assert_eq!(places(&queue.hold(late(1, 10, 9))), [0]);
        assert_eq!(queue.bytes(), 10);
        assert_eq!(places(&queue.all()), [1]);
    }
}

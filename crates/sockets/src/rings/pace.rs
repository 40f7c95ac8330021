//! How the recent reads and writes of a connection went, and what follows: whether to spin, and for
//! how long.
//!
//! What is wrong here is slow, and nothing else: nothing in it sees a byte or a word of a ring. The caller
//! says what there is, and a [`Clock`] how long that took.

use super::spin::{Clock, SpinHistory};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Cycles of spinning before anything is asked, as long as that keeps paying: as long as an answer takes,
/// also one that was held up a little. How many loads that are depends on the processor.
const AT_ONCE_CYCLES: u64 = 10_000;
/// Loads between two readings of the clock.
const AT_ONCE: u32 = 250;
/// Reads in a row that found something within [`SOON`] loads, and answered nothing, until they are taken for
/// a stream.
const STREAM: u32 = 64;
const SOON: u32 = 100;
/// Fewer bytes than these are few.
const FEW_BYTES: u64 = 512;
/// So long the writer of a stream may get ahead.
const PAUSES_OF_STREAM: u32 = 16;
/// Calls for which two ends that were seen on one processor are taken to stay there: at first, and
/// at most. Each time that they are seen there again it is for twice as many.
const TOGETHER: u32 = 31;
const MAX_TOGETHER: u32 = 1023;
/// Reads for which a descriptor that did not want to wait is taken to stay so: it only goes without a spin.
const NONBLOCKING: u32 = 100;
/// Reads that find nothing, after large ones, until that is taken for the end of a stream.
const DRY: u32 = 16;
/// Bytes of a large read.
pub(crate) const BULK_BYTES: isize = 16 << 10;
/// Cycles that one write waits for room in a full ring, also one that may not wait: some hundred
/// microseconds, as long as a reader at work may take for what the kernel holds before it. What such a write
/// says then costs more. They are counted from when the ring was first full, or a reader that takes one byte
/// now and then would keep a write that may not wait.
const ROOM_CYCLES: u64 = 1_000_000;

/// What is known of one connection. Zeroes are nothing.
pub(crate) struct Pace {
    /// Spinning has found something, and spinning without asking first has since.
    at_once: AtomicU32,
    /// The last read from the kernel was a large one: there may be more, for which nobody has to sleep.
    bulk: AtomicU32,
    /// Where the reader was when it last found nothing, and such reads that are taken for pauses of a stream.
    dry_at: AtomicU64,
    dry: AtomicU32,
    /// Reads until it is asked again whether they may wait.
    nonblocking: AtomicU32,
    /// Reads in a row, up to some, that found something soon, since the last write.
    stream: AtomicU32,
    /// Something was read from the ring since the last write.
    asked: AtomicU32,
    /// Reads until it is asked again whether both ends are on one processor.
    together: AtomicU32,
    /// How many these were when both ends were last seen on one processor.
    together_before: AtomicU32,
    /// How long reads spin before they sleep.
    pub(crate) history: SpinHistory,
    /// As that, of writes that wait for room.
    full: SpinHistory,
}

/// A wait for room: what was seen meanwhile.
pub(crate) enum Room {
    Some,
    NotYet,
    /// Readers sleep, or take nothing any more.
    Never,
}

impl Pace {
    pub(crate) fn reset(&self) {
        let flags = [&self.at_once, &self.bulk, &self.dry, &self.nonblocking, &self.stream, &self.asked];
        flags.iter().for_each(|flag| flag.store(0, Ordering::Relaxed));
        self.together.store(0, Ordering::Relaxed);
        self.together_before.store(0, Ordering::Relaxed);
        self.dry_at.store(0, Ordering::Relaxed);
        self.history.reset();
        self.full.reset();
    }

    /// Spins where a short spin was enough the last time: nothing is asked before, not even whether the
    /// program wants to wait. One miss is the last such for a while.
    #[inline(always)]
    pub(crate) fn finds_at_once(&self, clock: &impl Clock, is_there: impl Fn() -> bool) -> bool {
        if self.at_once.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut start = None;
        loop {
            for load in 0..AT_ONCE {
                if is_there() {
                    if load >= SOON || start.is_some() {
                        self.stream.store(0, Ordering::Relaxed);
                    }
                    return true;
                }
            }
            let now = clock.now();
            if now.wrapping_sub(*start.get_or_insert(now)) > AT_ONCE_CYCLES {
                break;
            }
        }
        self.at_once.store(0, Ordering::Relaxed);
        self.stream.store(0, Ordering::Relaxed);
        false
    }

    /// A spin has found something: the next read begins with one.
    pub(crate) fn has_found(&self) {
        self.at_once.store(1, Ordering::Relaxed);
    }

    /// A read begins. One that keeps up with a stream of small messages lets the writer get ahead for some:
    /// who looks at each of them as soon as it is written takes the line of the cache away from the writer
    /// each time, which costs both more than the messages.
    #[inline(always)]
    pub(crate) fn lets_stream_go(&self, clock: &impl Clock, unread: impl FnOnce() -> u64) {
        let stream = self.stream.load(Ordering::Relaxed);
        if stream < STREAM {
            self.stream.store(stream + 1, Ordering::Relaxed);
        } else if unread() < FEW_BYTES {
            (0..PAUSES_OF_STREAM).for_each(|_| clock.pause());
        }
    }

    /// Bytes were taken from the ring.
    #[inline(always)]
    pub(crate) fn has_read(&self) {
        self.asked.store(1, Ordering::Relaxed);
    }

    /// Whether a write that begins is the first since bytes were taken from the ring: an answer.
    #[inline(always)]
    pub(crate) fn answers(&self) -> bool {
        let is_answer = self.asked.load(Ordering::Relaxed) != 0;
        if is_answer {
            self.asked.store(0, Ordering::Relaxed);
        }
        is_answer
    }

    /// Bytes were put into the ring.
    #[inline(always)]
    pub(crate) fn has_written(&self) {
        if self.stream.load(Ordering::Relaxed) != 0 {
            self.stream.store(0, Ordering::Relaxed);
        }
    }

    /// So much came from the kernel (below 0: an error). While a reader sleeps its writer goes on giving
    /// everything to the kernel; who only takes what the kernel has for sure does not count as asleep, which
    /// costs a few questions before.
    pub(crate) fn sees_bulk(&self, result: isize) {
        let is_bulk = u32::from(result >= BULK_BYTES);
        if self.bulk.load(Ordering::Relaxed) != is_bulk {
            self.bulk.store(is_bulk, Ordering::Relaxed);
        }
    }

    /// Whether the kernel may have more of a large transfer.
    pub(crate) fn is_bulk(&self) -> bool {
        self.bulk.load(Ordering::Relaxed) != 0 && self.together.load(Ordering::Relaxed) == 0
    }

    /// Whether it is worth asking whether a read may wait.
    pub(crate) fn may_be_blocking(&self) -> bool {
        !counts_down(&self.nonblocking)
    }

    /// A read may not wait: it is not asked again for a while.
    pub(crate) fn is_nonblocking(&self) {
        self.nonblocking.store(NONBLOCKING, Ordering::Relaxed);
    }

    /// Whether both ends are taken to be on one processor. Counts down, with each read.
    #[inline(always)]
    pub(crate) fn is_together(&self) -> bool {
        counts_down(&self.together)
    }

    /// Whether both ends were seen on one processor, or not.
    pub(crate) fn has_seen(&self, is_together: bool) {
        let before = self.together_before.load(Ordering::Relaxed);
        if !is_together {
            if before != 0 {
                self.together_before.store(0, Ordering::Relaxed);
            }
            return;
        }
        let calls = (2 * before + 1).clamp(TOGETHER, MAX_TOGETHER);
        self.together_before.store(calls, Ordering::Relaxed);
        self.together.store(calls, Ordering::Relaxed);
    }

    /// As [`Self::is_together`], without a count.
    pub(crate) fn stays_together(&self) -> bool {
        self.together.load(Ordering::Relaxed) > 0
    }

    /// A read has found nothing in the ring, at this position: whether much has come, through the ring or
    /// by the kernel, since it was last found dry, or shortly before.
    pub(crate) fn is_of_stream(&self, head: u64) -> bool {
        let came = head.wrapping_sub(self.dry_at.load(Ordering::Relaxed));
        if came >= BULK_BYTES as u64 || self.bulk.load(Ordering::Relaxed) != 0 {
            self.dry.store(DRY, Ordering::Relaxed);
        }
        self.dry_at.store(head, Ordering::Relaxed);
        counts_down(&self.dry)
    }

    /// Waits for room in a full ring, spinning. `since` is when this write has first found it full.
    pub(crate) fn gets_room(
        &self,
        clock: &impl Clock,
        since: &mut Option<u64>,
        look: impl Fn() -> Room,
    ) -> bool {
        let start = *since.get_or_insert(clock.now());
        let is_over = || clock.now().wrapping_sub(start) > ROOM_CYCLES;
        if is_over() || self.full.cycles(clock) == 0 {
            return false;
        }
        loop {
            match look() {
                Room::Some => {
                    self.full.hit();
                    return true;
                }
                Room::NotYet if !is_over() => clock.pause(),
                _ => {
                    self.full.miss();
                    return false;
                }
            }
        }
    }
}

/// Takes one of what is left; whether there was any.
#[inline(always)]
pub(crate) fn counts_down(left: &AtomicU32) -> bool {
    let count = left.load(Ordering::Relaxed);
    if count > 0 {
        left.store(count - 1, Ordering::Relaxed);
    }
    count > 0
}

#[cfg(test)]
mod tests {
    use super::super::spin::fake::Fake;
    use super::*;

    fn pace() -> Pace {
        Pace {
            at_once: AtomicU32::new(0),
            bulk: AtomicU32::new(0),
            dry_at: AtomicU64::new(0),
            dry: AtomicU32::new(0),
            nonblocking: AtomicU32::new(0),
            stream: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            together: AtomicU32::new(0),
            together_before: AtomicU32::new(0),
            history: SpinHistory::new(),
            full: SpinHistory::new(),
        }
    }

    #[test]
    fn a_read_spins_first_until_that_misses_once() {
        let (pace, clock) = (pace(), Fake::new());
        assert!(!pace.finds_at_once(&clock, || true), "nothing has been found by spinning yet");
        pace.has_found();
        assert!(pace.finds_at_once(&clock, || true));
        clock.step_by(AT_ONCE_CYCLES / 4);
        assert!(!pace.finds_at_once(&clock, || false));
        let spun = clock.read();
        assert!((AT_ONCE_CYCLES..2 * AT_ONCE_CYCLES).contains(&spun), "{spun} cycles");
        assert!(!pace.finds_at_once(&clock, || true), "after a miss it is asked first");
    }

    #[test]
    fn a_reader_that_keeps_up_lets_its_writer_get_ahead_until_it_answers() {
        let (pace, clock) = (pace(), Fake::new());
        let reads = |count| (0..count).for_each(|_| pace.lets_stream_go(&clock, || 14));
        reads(STREAM);
        assert_eq!(clock.pauses(), 0);
        reads(2);
        assert_eq!(clock.pauses(), 2 * u64::from(PAUSES_OF_STREAM));
        pace.lets_stream_go(&clock, || FEW_BYTES);
        assert_eq!(clock.pauses(), 2 * u64::from(PAUSES_OF_STREAM), "there is enough to read");
        pace.has_written();
        reads(STREAM);
        assert_eq!(clock.pauses(), 2 * u64::from(PAUSES_OF_STREAM), "that was an answer: no stream");
    }

    #[test]
    fn a_stream_ends_with_a_spin_that_lasts() {
        let (pace, clock) = (pace(), Fake::new());
        (0..STREAM).for_each(|_| pace.lets_stream_go(&clock, || 14));
        pace.has_found();
        let loads = core::cell::Cell::new(0);
        let comes_late = || {
            loads.set(loads.get() + 1);
            loads.get() > SOON
        };
        assert!(pace.finds_at_once(&clock, comes_late));
        pace.lets_stream_go(&clock, || 14);
        assert_eq!(clock.pauses(), 0);
    }

    #[test]
    fn the_first_write_after_a_read_is_an_answer() {
        let pace = pace();
        assert!(!pace.answers());
        pace.has_read();
        assert!(pace.answers());
        assert!(!pace.answers());
    }

    #[test]
    fn pauses_of_a_stream_are_few_and_come_after_much() {
        let pace = pace();
        assert!(!pace.is_of_stream(100));
        let much = 100 + BULK_BYTES as u64;
        assert!((0..DRY).all(|_| pace.is_of_stream(much)));
        assert!(!pace.is_of_stream(much), "it has ended");
        pace.sees_bulk(BULK_BYTES);
        assert!(pace.is_of_stream(much), "much has come by the kernel");
        pace.sees_bulk(0);
        assert!((1..DRY).all(|_| pace.is_of_stream(much)));
        assert!(!pace.is_of_stream(much), "that has ended, too");
    }

    #[test]
    fn a_write_waits_for_room_while_that_pays_and_no_longer_than_its_time() {
        let (pace, clock) = (pace(), Fake::new());
        clock.step_by(1000);
        let mut since = None;
        assert!(pace.gets_room(&clock, &mut since, || Room::Some));
        assert!(!pace.gets_room(&clock, &mut since, || Room::Never), "who sleeps makes no room");
        assert!(!pace.gets_room(&clock, &mut since, || Room::NotYet));
        let spent = clock.read() - since.unwrap();
        assert!((ROOM_CYCLES..ROOM_CYCLES + 100_000).contains(&spent), "{spent} cycles");
        assert!(!pace.gets_room(&clock, &mut since, || Room::Some), "its time is over");
        let mut later = None;
        let misses = (0..8).filter(|_| !pace.gets_room(&clock, &mut later, || Room::Never)).count();
        assert_eq!(misses, 8);
        assert!(
            !pace.gets_room(&clock, &mut later, || Room::Some),
            "after some misses it is left for a while"
        );
    }

    #[test]
    fn ends_that_stay_on_one_processor_are_looked_at_ever_less_often() {
        let pace = pace();
        let calls = || {
            pace.has_seen(true);
            (0..).take_while(|_| pace.is_together()).count()
        };
        assert_eq!(
            [calls(), calls(), calls(), calls(), calls(), calls(), calls()],
            [31, 63, 127, 255, 511, 1023, 1023]
        );
        pace.has_seen(false);
        assert_eq!(calls(), 31, "they were apart");
        pace.reset();
        assert_eq!(calls(), 31, "another connection");
    }

    #[test]
    fn large_reads_and_shared_processors_are_remembered() {
        let pace = pace();
        pace.sees_bulk(BULK_BYTES);
        assert!(pace.is_bulk());
        pace.has_seen(true);
        assert!(!pace.is_bulk() && pace.stays_together());
        assert!((0..TOGETHER).all(|_| pace.is_together()));
        assert!(!pace.is_together() && pace.is_bulk());
        pace.sees_bulk(-1);
        assert!(!pace.is_bulk());
        pace.is_nonblocking();
        assert!((0..NONBLOCKING).all(|_| !pace.may_be_blocking()));
        assert!(pace.may_be_blocking());
    }
}

//! The stores to a shadow map, in their order, on their way from signal handlers to the thread that
//! sends them.
//!
//! A handler neither locks a mutex nor allocates: the journal is a ring of words that is made
//! beforehand. Handlers write one at a time; one thread at a time reads.

use rustix::thread::sched_yield;
use shm::clock::Deadline;
use shm::sync::plain::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use shm::sync::{futex, plain};
use tieline::Stores;

use crate::code::{Code, Result};

/// The room for stores that were not sent yet, in words of 8 bytes.
const WORDS: usize = 1 << 17;
/// Longer stores are noted in pieces.
const PIECE_BYTES: usize = 1 << 12;
/// A record's first word has the length of the store in this many low bits, and its offset above.
const LENGTH_BITS: u32 = 16;
/// Nothing more lies before the end of the ring.
const SKIP: u64 = u64::MAX;

/// The ring. Positions are counted in words, without end.
#[derive(Debug)]
pub(crate) struct Journal {
    words: Box<[AtomicU64]>,
    /// Bytes of the segment. What lies behind its end, in its last page, is memory of this program
    /// alone.
    size_bytes: usize,
    is_taken: AtomicBool,
    /// What was noted.
    head: AtomicUsize,
    /// What was read.
    tail: AtomicUsize,
    /// 1 while the thread that reads sleeps.
    is_asleep: AtomicU32,
    /// Nobody reads any more: what is noted is dropped.
    is_closed: AtomicBool,
}

/// The right to note stores. No other store is noted while it lives.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Journal);

impl Journal {
    /// For a segment of so many bytes.
    pub(crate) fn new(size_bytes: usize) -> Result<Self> {
        let mut words = Vec::new();
        words.try_reserve_exact(WORDS).map_err(|_| {
            Code::NOSPC.because("no memory for a journal of stores, 1 MiB: use a copy-only map")
        })?;
        words.resize_with(WORDS, || AtomicU64::new(0));
        Ok(Self {
            size_bytes,
            words: words.into_boxed_slice(),
            is_taken: AtomicBool::new(false),
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            is_asleep: AtomicU32::new(0),
            is_closed: AtomicBool::new(false),
        })
    }

    /// Waits for the turn. All signals but faults must be blocked: the thread that has it must not
    /// wait for itself.
    pub(crate) fn turn(&self) -> Turn<'_> {
        loop {
            if let Some(turn) = self.try_turn() {
                return turn;
            }
            sched_yield();
        }
    }

    /// The turn, unless another thread has it. The thread that reads must not wait for it: who has it
    /// may be waiting for room.
    pub(crate) fn try_turn(&self) -> Option<Turn<'_>> {
        // Acquire: pairs with the Release in `Turn::drop`.
        let taken = self.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        // Made only then: dropping one ends the turn.
        taken.is_ok().then(|| Turn(self))
    }

    fn word(&self, position: usize) -> &AtomicU64 {
        // The number of words is a power of two, so the index lies in the ring.
        &self.words[position & (WORDS - 1)]
    }

    /// Whether all that was noted was read.
    pub(crate) fn is_empty(&self) -> bool {
        // Acquire: pairs with the Release in `Turn::append`.
        self.head.load(Ordering::Acquire) == self.tail.load(Ordering::Relaxed)
    }

    /// From now on what is noted is dropped, and nobody waits for room.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.wake();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    /// Lets the thread that reads look again.
    fn wake(&self) {
        // SeqCst, here and in `wait`: either the reader sees what is new, or this sees it asleep.
        plain::fence(Ordering::SeqCst);
        if self.is_asleep.load(Ordering::SeqCst) != 0 {
            self.is_asleep.store(0, Ordering::SeqCst);
            futex::wake(&self.is_asleep, 1);
        }
    }

    /// Sleeps until something was noted, the journal is closed, or the time is over.
    pub(crate) fn wait(&self, until: Deadline) {
        self.is_asleep.store(1, Ordering::SeqCst);
        plain::fence(Ordering::SeqCst);
        if self.is_empty() && !self.is_closed() {
            futex::wait(&self.is_asleep, 1, Some(until));
        }
        self.is_asleep.store(0, Ordering::SeqCst);
    }

    /// Adds the next stores to `into`, as long as it stays below `room_bytes`: the place up to which
    /// they were read. They are read again until [`Self::forget`]. Only one thread at a time.
    pub(crate) fn next(&self, into: &mut Stores, room_bytes: usize) -> Option<ReadTo> {
        let head = self.head.load(Ordering::Acquire);
        let begin = self.tail.load(Ordering::Relaxed);
        let mut at = begin;
        let mut bytes = [0; PIECE_BYTES];
        while let Some(record) = self.record(at, head)
            && (at == begin || into.packed_bytes() + record.len < room_bytes)
        {
            let bytes = bytes.get_mut(..record.len).unwrap_or_default();
            self.read(record.at, bytes);
            into.push(record.offset, bytes);
            at = record.end;
        }
        (at != begin).then_some(ReadTo(at))
    }

    /// Calls `each` with all stores that were noted and not read yet, in their order. The caller has
    /// the turn, or nothing is noted.
    pub(crate) fn each_pending(&self, mut each: impl FnMut(usize, &[u8])) {
        let head = self.head.load(Ordering::Acquire);
        let mut at = self.tail.load(Ordering::Relaxed);
        let mut bytes = [0; PIECE_BYTES];
        while let Some(record) = self.record(at, head) {
            let bytes = &mut bytes[..record.len.min(PIECE_BYTES)];
            self.read(record.at, bytes);
            each(record.offset, bytes);
            at = record.end;
        }
    }

    /// The room of what [`Self::next`] has read is free again.
    pub(crate) fn forget(&self, read: ReadTo) {
        // Release: pairs with the Acquire in `Turn::room`. What was read there comes before what is
        // written there next.
        self.tail.store(read.0, Ordering::Release);
    }

    fn record(&self, mut at: usize, head: usize) -> Option<Record> {
        if at == head {
            return None;
        }
        let mut first = self.word(at).load(Ordering::Relaxed);
        if first == SKIP {
            at = at.next_multiple_of(WORDS);
            if at == head {
                return None;
            }
            first = self.word(at).load(Ordering::Relaxed);
        }
        let len = (first & ((1 << LENGTH_BITS) - 1)) as usize;
        Some(Record {
            offset: (first >> LENGTH_BITS) as usize,
            len,
            at: at + 1,
            end: at + 1 + len.div_ceil(8),
        })
    }

    fn read(&self, at: usize, into: &mut [u8]) {
        for (index, bytes) in into.chunks_mut(8).enumerate() {
            let word = self.word(at + index).load(Ordering::Relaxed).to_ne_bytes();
            bytes.copy_from_slice(&word[..bytes.len()]);
        }
    }
}

/// How far the journal was read.
#[derive(Debug)]
pub(crate) struct ReadTo(usize);

/// One store.
struct Record {
    offset: usize,
    len: usize,
    /// Where its bytes begin.
    at: usize,
    end: usize,
}

impl Turn<'_> {
    /// Notes a store. Waits for room if there is none.
    pub(crate) fn note(&self, offset: usize, bytes: &[u8]) {
        let inside = self.0.size_bytes.saturating_sub(offset);
        let bytes = bytes.get(..inside).unwrap_or(bytes);
        for (index, piece) in bytes.chunks(PIECE_BYTES).enumerate() {
            self.append(offset + index * PIECE_BYTES, piece);
        }
        self.0.wake();
    }

    fn append(&self, offset: usize, piece: &[u8]) {
        let journal = self.0;
        let needed = 1 + piece.len().div_ceil(8);
        let head = journal.head.load(Ordering::Relaxed);
        let before_end = WORDS - (head & (WORDS - 1));
        let skipped = if needed > before_end { before_end } else { 0 };
        if !self.room(head, skipped + needed) {
            return;
        }
        let begin = head + skipped;
        if skipped > 0 {
            journal.word(head).store(SKIP, Ordering::Relaxed);
        }
        let first = (offset as u64) << LENGTH_BITS | piece.len() as u64;
        journal.word(begin).store(first, Ordering::Relaxed);
        for (index, bytes) in piece.chunks(8).enumerate() {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            journal.word(begin + 1 + index).store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        // Release: pairs with the Acquire loads of `head`: the record comes before its announcement.
        journal.head.store(begin + needed, Ordering::Release);
    }

    /// Waits until there is room for this many words. False: the journal is closed.
    fn room(&self, head: usize, needed: usize) -> bool {
        let journal = self.0;
        loop {
            if journal.is_closed() {
                return false;
            }
            // Acquire: pairs with the Release in `forget`.
            if head + needed - journal.tail.load(Ordering::Acquire) <= WORDS {
                return true;
            }
            journal.wake();
            sched_yield();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `turn`.
        self.0.is_taken.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_come_in_their_order_until_they_are_forgotten() {
        let journal = Journal::new(1 << 30).unwrap();
        assert!(journal.is_empty());
        {
            let turn = journal.turn();
            assert!(journal.try_turn().is_none());
            turn.note(8, &[1, 2, 3]);
            turn.note(11, &[4]);
            turn.note(8, &[5]);
            turn.note(1 << 29, &[6; 9]);
        }
        let mut pending = Vec::new();
        journal.each_pending(|offset, bytes| pending.push((offset, bytes.len())));
        assert_eq!(pending, [(8, 3), (11, 1), (8, 1), (1 << 29, 9)]);
        let mut wanted = Stores::new();
        wanted.push(8, &[1, 2, 3, 4]);
        wanted.push(8, &[5]);
        wanted.push(1 << 29, &[6; 9]);
        for _ in 0..2 {
            let mut stores = Stores::new();
            let _read = journal.next(&mut stores, 1000).unwrap();
            assert_eq!(stores, wanted);
        }
        // No more than fits, but one at least.
        let mut stores = Stores::new();
        journal.forget(journal.next(&mut stores, 0).unwrap());
        wanted.clear();
        wanted.push(8, &[1, 2, 3]);
        assert_eq!(stores, wanted);
        journal.forget(journal.next(&mut stores, 1000).unwrap());
        assert!(journal.is_empty() && journal.next(&mut stores, 1000).is_none());
    }

    #[test]
    fn nothing_is_lost_when_the_ring_is_full_and_goes_round() {
        let journal = std::sync::Arc::new(Journal::new(1 << 30).unwrap());
        let count = 40_000_usize;
        let bytes = |number: usize| vec![number as u8; 1 + number * 7 % 300];
        let writers = std::sync::Arc::clone(&journal);
        let writer = std::thread::spawn(move || {
            (0..count).for_each(|number| writers.turn().note(number << 10, &bytes(number)));
        });
        let (mut found, mut wanted) = (Stores::new(), Stores::new());
        (0..count).for_each(|number| wanted.push(number << 10, &bytes(number)));
        while found.packed_bytes() < wanted.packed_bytes() {
            match journal.next(&mut found, usize::MAX) {
                Some(read) => journal.forget(read),
                None => journal.wait(Deadline::after_ns(1_000_000)),
            }
        }
        writer.join().unwrap();
        assert!(found == wanted && journal.is_empty());
    }

    #[test]
    fn threads_note_one_at_a_time() {
        const THREADS: usize = 4;
        const COUNT: usize = 3000;
        let (journal, gate) = (Journal::new(1 << 30).unwrap(), std::sync::Barrier::new(THREADS + 1));
        let (journal, gate) = (&journal, &gate);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                scope.spawn(move || {
                    for _round in 0..100 {
                        gate.wait();
                        for number in 0..COUNT {
                            let offset = (number * THREADS + thread) << 4;
                            journal.turn().note(offset, &offset.to_le_bytes());
                        }
                        gate.wait();
                    }
                });
            }
            for _round in 0..100 {
                gate.wait();
                gate.wait();
                let mut next = [0; THREADS];
                journal.each_pending(|offset, bytes| {
                    let next = &mut next[(offset >> 4) % THREADS];
                    let is_next = (offset >> 4) / THREADS == *next && bytes == offset.to_le_bytes();
                    *next = if is_next { *next + 1 } else { usize::MAX / 2 };
                });
                assert_eq!(next, [COUNT; THREADS]);
                let read = journal.next(&mut Stores::new(), usize::MAX);
                read.into_iter().for_each(|read| journal.forget(read));
            }
        });
    }

    #[test]
    fn nobody_waits_for_room_in_a_closed_journal() {
        let journal = Journal::new(1 << 30).unwrap();
        journal.close();
        for _ in 0..1000 {
            journal.turn().note(0, &[0; PIECE_BYTES]);
        }
        assert!(journal.is_empty());
    }
}

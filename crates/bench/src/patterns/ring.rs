//! Records of 8 bytes through the ring, one at a time and in batches, compared with values of 8
//! bytes through a rival's ring.
//!
//! Every payload is read and checked.
//!
//! The consumer measures the time (from its first record to its last): a producer only knows what
//! it has handed over.

use std::sync::{Arc, Mutex, PoisonError};

use shm::{
    clock::now_ticks,
    ring::{
        PopError, PushError,
        record::{self, Consumer, Producer},
    },
};

use rival::Rival;

use crate::{
    baseline::line::fastest,
    best::Field,
    error::{BenchError, Result},
    pinned_pair::PinnedPair,
    poll::Poll,
    timer::Timer,
};

mod rival;

const WHAT: &str = "record ring";
/// Room of the ring: more than the caches of a core would only hide a slow consumer, much less
/// makes both wait.
pub const CAPACITY_BYTES: usize = 64 << 10;
/// Slots of the rings of others: as many bytes as ours, and far fewer, whichever is better.
const RIVAL_SLOTS: [usize; 2] = [CAPACITY_BYTES / 8, 1024];
/// Records of one reading: a few milliseconds.
pub const RECORDS: u64 = 256 << 10;
/// Records that a batch hands over at once.
pub const BATCH: usize = 16;

/// The way in which records are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Each by itself, announced at once; taken one by one.
    Single,
    /// [`BATCH`] at a time; taken as many as there are.
    Batched,
}

/// Our ring and those of others, between the same two threads. Times are of a record.
pub struct RingField<'a, 'env> {
    timer: &'a Timer,
    pair: &'a mut PinnedPair<'env>,
    producer: Arc<Mutex<Producer>>,
    consumer: Consumer,
    way: Way,
    poll: Poll,
    rivals: Vec<Rival>,
    /// Records so far: the next one's payload.
    sent: u64,
}

impl std::fmt::Debug for RingField<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingField").field("way", &self.way).finish_non_exhaustive()
    }
}

impl<'a, 'env> RingField<'a, 'env> {
    /// Fresh rings between the two threads.
    pub fn new(timer: &'a Timer, pair: &'a mut PinnedPair<'env>, way: Way) -> Result<Self> {
        let (producer, consumer) = record::pair(CAPACITY_BYTES)?;
        let producer = Arc::new(Mutex::new(producer));
        let rivals = RIVAL_SLOTS.map(Rival::new).into();
        let mut field = Self { timer, pair, producer, consumer, way, poll: Poll::Paused, rivals, sent: 0 };
        // Each waits in the way that is faster for it.
        field.poll = fastest(|poll| {
            field.poll = poll;
            field.ring_ns(RECORDS / 4)
        })?
        .0;
        for rival in 0..field.rivals.len() {
            field.rivals[rival].poll = fastest(|poll| {
                field.rivals[rival].poll = poll;
                field.rival_ns(rival, RECORDS / 4)
            })?
            .0;
        }
        Ok(field)
    }

    /// The way in which both sides of our ring wait for each other.
    pub const fn poll(&self) -> Poll {
        self.poll
    }

    fn rival_ns(&mut self, rival: usize, records: u64) -> Result<f64> {
        let took = self.rivals[rival].transfer(self.pair, self.way, records)?;
        Ok(self.timer.ns(took.ticks) / took.records as f64)
    }

    /// Sends and takes `records`; returns the time of one.
    fn ring_ns(&mut self, records: u64) -> Result<f64> {
        let first = self.sent;
        self.sent += records;
        let (way, poll) = (self.way, self.poll);
        let (producer, consumer) = (Arc::clone(&self.producer), &mut self.consumer);
        let near = || match way {
            Way::Single => take_single(consumer, poll, first, records),
            Way::Batched => take_batched(consumer, poll, first, records),
        };
        let far = move || {
            let mut producer = producer.lock().unwrap_or_else(PoisonError::into_inner);
            match way {
                Way::Single => send_single(&mut producer, poll, first, records),
                Way::Batched => send_batched(&mut producer, poll, first, records),
            }
        };
        let (took, ()) = self.pair.both(WHAT, near, far)?;
        Ok(self.timer.ns(took.ticks) / took.records as f64)
    }
}

impl Field for RingField<'_, '_> {
    fn others(&self) -> usize {
        self.rivals.len()
    }

    fn name(&self, other: usize) -> String {
        self.rivals[other].name()
    }

    fn ours_ns(&mut self) -> Result<f64> {
        self.ring_ns(RECORDS)
    }

    fn other_ns(&mut self, other: usize) -> Result<f64> {
        self.rival_ns(other, RECORDS)
    }
}

fn send_single(producer: &mut Producer, poll: Poll, first: u64, records: u64) -> Result<()> {
    for payload in first..first + records {
        let record = payload.to_le_bytes();
        let mut pushed = producer.push(&record);
        if pushed == Err(PushError::Full) {
            poll.until(WHAT, || {
                pushed = producer.push(&record);
                pushed != Err(PushError::Full)
            })?;
        }
        pushed.map_err(other_end)?;
    }
    Ok(())
}

fn send_batched(producer: &mut Producer, poll: Poll, first: u64, records: u64) -> Result<()> {
    let mut next = first;
    let end = first + records;
    while next < end {
        let batch: [[u8; 8]; BATCH] = std::array::from_fn(|at| (next + at as u64).to_le_bytes());
        let mut left = &batch[..(end - next).min(BATCH as u64) as usize];
        next += left.len() as u64;
        while !left.is_empty() {
            let mut pushed = Ok(0);
            poll.until(WHAT, || {
                pushed = producer.push_batch(left);
                !matches!(pushed, Ok(0) | Err(PushError::Full))
            })?;
            left = &left[pushed.map_err(other_end)?.min(left.len())..];
        }
    }
    Ok(())
}

/// The time and the number of records taken, after the first ones.
#[derive(Debug, Clone, Copy)]
struct Took {
    records: u64,
    ticks: u64,
}

fn take_single(consumer: &mut Consumer, poll: Poll, first: u64, records: u64) -> Result<Took> {
    let mut record = [0; 8];
    let mut start = 0;
    for payload in first..first + records {
        let mut taken = consumer.pop_into(&mut record);
        if taken == Ok(None) {
            poll.until(WHAT, || {
                taken = consumer.pop_into(&mut record);
                taken != Ok(None)
            })?;
        }
        taken.map_err(other_end)?;
        check(u64::from_le_bytes(record), payload)?;
        if payload == first {
            start = now_ticks();
        }
    }
    Ok(Took { records: records - 1, ticks: now_ticks().saturating_sub(start).max(1) })
}

fn take_batched(consumer: &mut Consumer, poll: Poll, first: u64, records: u64) -> Result<Took> {
    let mut expected = first;
    let mut wrong = None;
    let (mut start, mut before_start) = (0, 0);
    let end = first + records;
    while expected < end {
        let mut taken = Ok(0);
        poll.until(WHAT, || {
            taken = consumer.drain(BATCH * 4, |record| {
                let got = record.load_u64(0).unwrap_or(u64::MAX);
                if got != expected && wrong.is_none() {
                    wrong = Some((got, expected));
                }
                expected += 1;
            });
            taken != Ok(0)
        })?;
        taken.map_err(other_end)?;
        if start == 0 {
            start = now_ticks();
            before_start = expected - first;
        }
    }
    let took = Took {
        records: records.saturating_sub(before_start),
        ticks: now_ticks().saturating_sub(start).max(1),
    };
    wrong.map_or(Ok(took), |(got, want)| check(got, want).map(|()| took))
}

fn check(got: u64, want: u64) -> Result<()> {
    if got == want { Ok(()) } else { Err(wrong(got, want)) }
}

#[cold]
fn wrong(got: u64, want: u64) -> BenchError {
    let (got, want_bytes) = (got.to_le_bytes(), want.to_le_bytes());
    let at = got.iter().zip(&want_bytes).position(|(g, w)| g != w).unwrap_or(0);
    BenchError::WrongData { what: WHAT, message: want, size_bytes: 8, at, want: want_bytes[at], got: got[at] }
}

trait RingError: std::error::Error {}
impl RingError for PushError {}
impl RingError for PopError {}

fn other_end(error: impl RingError) -> BenchError {
    BenchError::OtherEnd { what: WHAT, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_deliver_everything_and_give_a_rate() {
        let Ok(cpus) = crate::cpus::pair(None, "test") else {
            println!("skipped: needs two processors");
            return;
        };
        let timer = Timer::new().unwrap();
        crate::pinned_pair::on(cpus, |pair| {
            for way in [Way::Single, Way::Batched] {
                let mut field = RingField::new(&timer, pair, way)?;
                assert!(field.ring_ns(100_000)? > 0.0);
                // A number that is no multiple of the batch.
                assert!(field.ring_ns(1003)? > 0.0);
                assert!((0..field.others()).all(|other| field.other_ns(other).is_ok_and(|ns| ns > 0.0)));
            }
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_wrong_payload_is_told() {
        let (mut producer, mut consumer) = record::pair(CAPACITY_BYTES).unwrap();
        producer.push(&7u64.to_le_bytes()).unwrap();
        let result = take_single(&mut consumer, Poll::Tight, 6, 1);
        assert!(
            matches!(result, Err(BenchError::WrongData { message: 6, at: 0, want: 6, got: 7, .. })),
            "{result:?}"
        );
        for payload in [0u64, 1, 9] {
            producer.push(&payload.to_le_bytes()).unwrap();
        }
        let result = take_batched(&mut consumer, Poll::Tight, 0, 3);
        assert!(
            matches!(result, Err(BenchError::WrongData { message: 2, want: 2, got: 9, .. })),
            "{result:?}"
        );
    }
}

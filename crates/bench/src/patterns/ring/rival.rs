//! Values of 8 bytes through the ring of the crate `rtrb`, by the same two ways as our records.

use std::sync::{Arc, Mutex, PoisonError};

use rtrb::{Consumer, Producer, RingBuffer};
use shm::clock::now_ticks;

use super::{BATCH, Took, WHAT, Way, check};
use crate::{error::Result, pinned_pair::PinnedPair, poll::Poll};

/// Both ends of one ring.
#[derive(Debug)]
pub(super) struct Rival {
    producer: Arc<Mutex<Producer<u64>>>,
    consumer: Consumer<u64>,
    pub(super) slots: usize,
    pub(super) poll: Poll,
    sent: u64,
}

impl Rival {
    pub(super) fn new(slots: usize) -> Self {
        let (producer, consumer) = RingBuffer::new(slots);
        Self { producer: Arc::new(Mutex::new(producer)), consumer, slots, poll: Poll::Paused, sent: 0 }
    }

    pub(super) fn name(&self) -> String {
        format!("crate rtrb, {} slots", self.slots)
    }

    /// Sends and takes this number of values.
    pub(super) fn transfer(&mut self, pair: &mut PinnedPair<'_>, way: Way, values: u64) -> Result<Took> {
        let first = self.sent;
        self.sent += values;
        let poll = self.poll;
        let producer = Arc::clone(&self.producer);
        let consumer = &mut self.consumer;
        let near = || match way {
            Way::Single => take_single(consumer, poll, first, values),
            Way::Batched => take_batched(consumer, poll, first, values),
        };
        let far = move || {
            let mut producer = producer.lock().unwrap_or_else(PoisonError::into_inner);
            match way {
                Way::Single => send_single(&mut producer, poll, first, values),
                Way::Batched => send_batched(&mut producer, poll, first, values),
            }
        };
        Ok(pair.both(WHAT, near, far)?.0)
    }
}

fn send_single(producer: &mut Producer<u64>, poll: Poll, first: u64, values: u64) -> Result<()> {
    for value in first..first + values {
        if producer.push(value).is_err() {
            poll.until(WHAT, || producer.push(value).is_ok())?;
        }
    }
    Ok(())
}

fn send_batched(producer: &mut Producer<u64>, poll: Poll, first: u64, values: u64) -> Result<()> {
    let (mut next, end) = (first, first + values);
    while next < end {
        let count = BATCH.min((end - next) as usize);
        let batch: [u64; BATCH] = std::array::from_fn(|at| next + at as u64);
        let mut is_sent = || producer.push_entire_slice(&batch[..count]).is_ok();
        if !is_sent() {
            poll.until(WHAT, is_sent)?;
        }
        next += count as u64;
    }
    Ok(())
}

fn take_single(consumer: &mut Consumer<u64>, poll: Poll, first: u64, values: u64) -> Result<Took> {
    let mut start = 0;
    for value in first..first + values {
        let mut taken = consumer.pop();
        if taken.is_err() {
            poll.until(WHAT, || {
                taken = consumer.pop();
                taken.is_ok()
            })?;
        }
        check(taken.unwrap_or(u64::MAX), value)?;
        if value == first {
            start = now_ticks();
        }
    }
    Ok(Took { records: values - 1, ticks: now_ticks().saturating_sub(start).max(1) })
}

fn take_batched(consumer: &mut Consumer<u64>, poll: Poll, first: u64, values: u64) -> Result<Took> {
    let (mut expected, end) = (first, first + values);
    let (mut wrong, mut start, mut before_start) = (None, 0, 0);
    while expected < end {
        // Values that the consumer has seen already cost no access to the producer's line.
        let mut there = consumer.cached_slots();
        if there == 0 {
            poll.until(WHAT, || {
                there = consumer.slots();
                there > 0
            })?;
        }
        let Ok(chunk) = consumer.read_chunk(there.min(BATCH * 4)) else { continue };
        for value in chunk {
            if value != expected && wrong.is_none() {
                wrong = Some((value, expected));
            }
            expected += 1;
        }
        if start == 0 {
            (start, before_start) = (now_ticks(), expected - first);
        }
    }
    let ticks = now_ticks().saturating_sub(start).max(1);
    let took = Took { records: values.saturating_sub(before_start), ticks };
    wrong.map_or(Ok(took), |(got, want)| check(got, want).map(|()| took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_deliver_everything_in_order() {
        let Ok(cpus) = crate::cpus::pair(None, "test") else {
            println!("skipped: needs two processors");
            return;
        };
        crate::pinned_pair::on(cpus, |pair| {
            for way in [Way::Single, Way::Batched] {
                let mut rival = Rival::new(1024);
                for values in [50_000, 1003] {
                    let took = rival.transfer(pair, way, values)?;
                    assert!(took.records < values && took.ticks > 0);
                }
            }
            Ok(())
        })
        .unwrap();
        let (mut producer, mut consumer) = RingBuffer::new(8);
        producer.push(7).unwrap();
        assert!(take_single(&mut consumer, Poll::Tight, 6, 1).is_err());
        producer.push(9).unwrap();
        assert!(take_batched(&mut consumer, Poll::Tight, 0, 1).is_err());
    }
}

//! The record ring against a model, under stress, and at its limits.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests, with helpers outside test functions")]

mod ring_support;

use proptest::prelude::*;
use ring_support::{Random, give_way, message, must_end, open};
use shm::doorbell::{Sleep, Spin, WaitOutcome};
use shm::ring::record::{Consumer, ConsumerHalf, INLINE_BYTES, Producer, ProducerHalf, pair};
use shm::ring::{PopError, PushError};
use shm::sync::Ordering;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    PushBatch(Vec<usize>),
    /// Reserve so much, and send so much of it.
    Reserve(usize, Option<usize>),
    PopInto,
    PopIntoTooSmall,
    PopWith,
    Drain(usize),
    GiveBack,
}

fn length() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(8), 4 => 0..=16usize, 3 => 17..=INLINE_BYTES, 2 => INLINE_BYTES + 1..=200, 1 => 200..=700usize]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => length().prop_map(Step::Push),
        2 => prop::collection::vec(length(), 0..20).prop_map(Step::PushBatch),
        2 => (0..20usize).prop_map(|count| Step::PushBatch(vec![8; count])),
        3 => (length(), prop::option::of(0..=700usize)).prop_map(|(len, sent)| Step::Reserve(len, sent)),
        5 => Just(Step::PopInto),
        1 => Just(Step::PopIntoTooSmall),
        3 => Just(Step::PopWith),
        2 => (0..20usize).prop_map(Step::Drain),
        1 => Just(Step::GiveBack),
    ]
}

struct Machine {
    producer: Producer,
    consumer: Consumer,
    model: VecDeque<Vec<u8>>,
    number: u64,
}

impl Machine {
    fn new(capacity: usize) -> Self {
        let (producer, consumer) = pair(capacity).unwrap();
        Self { producer, consumer, model: VecDeque::new(), number: 0 }
    }

    fn message(&mut self, len: usize) -> Vec<u8> {
        self.number += 1;
        message(self.number, len)
    }

    /// What a push of that many bytes may say.
    fn check_refusal(&mut self, len: usize, error: PushError) {
        let max_bytes = self.producer.max_record_bytes();
        if len > max_bytes {
            assert_eq!(error, PushError::TooLong { len_bytes: len, max_bytes });
            return;
        }
        assert_eq!(error, PushError::Full);
        // In a ring that was emptied, every record that is allowed finds room.
        while !self.model.is_empty() {
            self.step(Step::PopInto);
        }
        self.step(Step::PopInto);
        assert!(self.producer.has_room(len));
        self.producer.reserve(len).unwrap().discard();
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Push(len) => {
                let bytes = self.message(len);
                let expected = len <= self.producer.max_record_bytes() && self.producer.has_room(len);
                let pushed = self.producer.push(&bytes);
                assert_eq!(pushed.is_ok(), expected, "{len} bytes, {pushed:?}");
                match pushed {
                    Ok(()) => self.model.push_back(bytes),
                    Err(error) => self.check_refusal(len, error),
                }
            }
            Step::PushBatch(lens) => {
                let records: Vec<_> = lens.iter().map(|&len| self.message(len)).collect();
                match self.producer.push_batch(&records) {
                    Ok(count) => self.model.extend(records.into_iter().take(count)),
                    Err(error) => self.check_refusal(lens[0], error),
                }
            }
            Step::Reserve(len, sent) => self.reserve(len, sent),
            Step::PopInto => {
                let mut buffer = [0; 700];
                let popped = self.consumer.pop_into(&mut buffer).unwrap().map(|len| buffer[..len].to_vec());
                assert_eq!(popped, self.model.pop_front());
            }
            Step::PopIntoTooSmall => {
                let Some(record_bytes) = self.model.front().map(Vec::len).filter(|&len| len > 0) else {
                    return;
                };
                let error = self.consumer.pop_into(&mut vec![0; record_bytes - 1]).unwrap_err();
                assert_eq!(error, PopError::TooSmall { record_bytes, buffer_bytes: record_bytes - 1 });
                assert_eq!(self.consumer.next_len(), Ok(Some(record_bytes)));
            }
            Step::PopWith => {
                let popped = self.consumer.pop_with(|record| {
                    let mut bytes = vec![0; record.len()];
                    record.get(0, &mut bytes).unwrap();
                    bytes
                });
                assert_eq!(popped.unwrap(), self.model.pop_front());
            }
            Step::Drain(max) => {
                let mut taken = Vec::new();
                let count = self.consumer.drain(max, |record| {
                    let mut bytes = vec![0; record.len()];
                    record.get(0, &mut bytes).unwrap();
                    taken.push(bytes);
                });
                assert_eq!(count, Ok(max.min(self.model.len())));
                assert_eq!(taken, self.model.drain(..taken.len()).collect::<Vec<_>>());
            }
            Step::GiveBack => self.consumer.give_back(),
        }
        assert_eq!(self.consumer.is_empty(), self.model.is_empty());
    }

    fn reserve(&mut self, len: usize, sent: Option<usize>) {
        let bytes = self.message(len);
        match self.producer.reserve(len) {
            Ok(claim) => {
                claim.window().put(0, &bytes).unwrap();
                assert!(claim.window().put(1, &bytes).is_err() || bytes.is_empty());
                match sent {
                    None => claim.discard(),
                    Some(sent) if sent > len => assert!(claim.commit_first(sent).is_err()),
                    Some(sent) => {
                        claim.commit_first(sent).unwrap();
                        self.model.push_back(bytes[..sent].to_vec());
                    }
                }
            }
            Err(error) => self.check_refusal(len, error),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_queue(capacity in 1..2000usize, steps in prop::collection::vec(step(), 1..300)) {
        let mut machine = Machine::new(capacity);
        for step in steps {
            machine.step(step);
        }
        while !machine.model.is_empty() {
            machine.step(Step::PopInto);
        }
        machine.step(Step::PopInto);
    }
}

fn stress(capacity: usize, count: u64, longest: usize) {
    let (mut producer, mut consumer) = pair(capacity).unwrap();
    let sender = std::thread::spawn(move || {
        let (mut random, mut turns) = (Random::new(7), 0);
        let mut number = 0;
        while number < count {
            let batch: Vec<_> = (number..count.min(number + 1 + random.below(20) as u64))
                .map(|number| message(number, lengths(number, longest)))
                .collect();
            let mut done = 0;
            while done < batch.len() {
                let pushed = if random.below(2) == 0 {
                    producer.push(&batch[done]).map(|()| 1)
                } else {
                    producer.push_batch(&batch[done..])
                };
                match pushed {
                    Ok(count) => done += count,
                    Err(error) => assert_eq!(error, PushError::Full),
                }
                give_way(&mut turns);
            }
            number += batch.len() as u64;
        }
    });
    let (mut buffer, mut turns) = (vec![0; longest + 1], 0);
    for number in 0..count {
        let len = loop {
            match consumer.pop_into(&mut buffer).unwrap() {
                Some(len) => break len,
                None => give_way(&mut turns),
            }
        };
        assert_eq!(buffer[..len], message(number, lengths(number, longest)));
    }
    sender.join().unwrap();
    assert_eq!(consumer.pop_into(&mut buffer), Ok(None));
}

fn lengths(number: u64, longest: usize) -> usize {
    let mut random = Random::new(number ^ 0xabcd);
    if random.below(4) == 0 { random.below(longest + 1) } else { random.below(24).min(longest) }
}

#[test]
fn two_threads_small_records_tiny_ring() {
    must_end(|| stress(512, 100_000, INLINE_BYTES));
}

#[test]
fn two_threads_all_sizes() {
    must_end(|| stress(4096, 60_000, 2040));
}

#[test]
fn two_threads_large_ring() {
    must_end(|| stress(1 << 20, 60_000, 3000));
}

/// Both sides sleep whenever there is nothing to do, and nobody sleeps forever.
#[test]
fn the_word_that_a_producer_rings_is_there_without_the_ring() {
    let (mut producer, consumer) = pair(4096).unwrap();
    let (signal, sleep) = (consumer.signal().unwrap(), Sleep::new());
    let value = || signal.word().unwrap().load(Ordering::Relaxed);
    let before = sleep.arm(&consumer.waiter());
    assert_eq!((value(), sleep.look(|| !consumer.is_empty())), (before, false));
    producer.push(&[1; 8]).unwrap();
    for _ in 0..2 {
        producer.ring_once();
        assert_eq!((value(), sleep.look(|| !consumer.is_empty())), (before + 1, true));
    }
    // Who was armed for another sleep since stays armed.
    let other = Sleep::new();
    assert_eq!(other.arm(&consumer.waiter()), before + 1);
    sleep.disarm(&consumer.waiter());
    producer.ring_once();
    assert_eq!(value(), before + 2);
    other.disarm(&consumer.waiter());
    producer.ring_once();
    drop((producer, consumer));
    assert_eq!(value(), before + 2);
}

#[test]
fn sleeping_sides_are_woken() {
    must_end(|| {
        let (mut producer, mut consumer) = pair(512).unwrap();
        const COUNT: u64 = 20_000;
        let sender = std::thread::spawn(move || {
            let mut spin = Spin::default();
            for number in 0..COUNT {
                while let Err(error) = producer.push(&number.to_ne_bytes()) {
                    assert_eq!(error, PushError::Full);
                    let outcome = producer.room_waiter().wait_until(&mut spin, None, || producer.has_room(8));
                    assert!(!matches!(outcome, WaitOutcome::TimedOut));
                }
                let _ = producer.ringer().ring_if_armed();
            }
        });
        let mut spin = Spin::default();
        let mut buffer = [0; 8];
        for number in 0..COUNT {
            while consumer.pop_into(&mut buffer).unwrap().is_none() {
                // The pop gave everything back: the producer may be waiting for that.
                let _ = consumer.room_ringer().ring_if_armed();
                consumer.waiter().wait_until(&mut spin, None, || !consumer.is_empty());
            }
            assert_eq!(u64::from_ne_bytes(buffer), number);
        }
        sender.join().unwrap();
    });
}

#[test]
fn sizes_and_limits() {
    assert_eq!(pair(1).unwrap().0.max_record_bytes(), 512 / 2 - 8);
    assert_eq!(pair(513).unwrap().0.max_record_bytes(), 1024 / 2 - 8);
    assert!(matches!(ProducerHalf::create(usize::MAX), Err(shm::Error::TooLarge { .. })));
    // Per-connection structures stay small: they are what a node with many connections is made of. They are
    // aligned, so that two ends that lie side by side have no line in common.
    assert!(size_of::<Producer>() <= 256, "{}", size_of::<Producer>());
    assert!(size_of::<Consumer>() <= 256, "{}", size_of::<Consumer>());
    assert!(align_of::<Producer>() >= 128 && align_of::<Consumer>() >= 128);
}

#[test]
fn errors_name_thing_cause_and_next_step() {
    let (mut producer, mut consumer) = pair(512).unwrap();
    let long = producer.push(&[0; 300]).unwrap_err().to_string();
    assert!(
        long.contains("300 bytes") && long.contains("248 bytes") && long.contains("larger ring"),
        "{long}"
    );
    while producer.push(&[0; 56]).is_ok() {}
    let full = producer.push(&[0; 56]).unwrap_err().to_string();
    assert!(full.contains("full") && full.contains("try again"), "{full}");
    let small = consumer.pop_into(&mut [0; 8]).unwrap_err().to_string();
    assert!(small.contains("56 bytes") && small.contains("buffer 8"), "{small}");
}

#[test]
fn wrong_regions_are_refused() {
    let (one, other) = (ProducerHalf::create(512).unwrap(), ConsumerHalf::create().unwrap());
    let producers = rustix::io::dup(one.fd()).unwrap();
    let consumers = rustix::io::dup(other.fd()).unwrap();
    assert!(matches!(one.connect(producers), Err(shm::Error::Corrupt { .. })));
    assert!(matches!(other.connect(consumers), Err(shm::Error::Corrupt { .. })));
    let no_memory = open("/dev/null", false);
    assert_eq!(ConsumerHalf::create().unwrap().connect(no_memory).unwrap_err(), shm::Error::NotMemory);
}

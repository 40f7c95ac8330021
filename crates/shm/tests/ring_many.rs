//! The ring for many producers against a model, under stress, and with deaths.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests, with helpers outside test functions")]

mod ring_support;

use proptest::prelude::*;
use ring_support::{Random, give_way, message, must_end, proof_of_death};
use shm::ring::PopError;
use shm::ring::many::{Claim, ClaimError, Consumer, Popped, Producer, pair};
use std::collections::VecDeque;

const SLOT_BYTES: usize = 100;
const PRODUCERS: u16 = 3;

#[derive(Clone, Debug)]
enum Step {
    Send(u16, usize),
    Claim(u16),
    /// Commit, discard or drop one of the open claims.
    Commit(usize, usize),
    Discard(usize),
    /// A producer dies with all its claims, which are found and discarded; another gets its id.
    Die(u16),
    Pop,
    PopTooSmall,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..PRODUCERS, 0..=SLOT_BYTES + 2).prop_map(|(producer, len)| Step::Send(producer, len)),
        3 => (0..PRODUCERS).prop_map(Step::Claim),
        3 => (any::<usize>(), 0..=SLOT_BYTES).prop_map(|(which, len)| Step::Commit(which, len)),
        1 => any::<usize>().prop_map(Step::Discard),
        1 => (0..PRODUCERS).prop_map(Step::Die),
        7 => Just(Step::Pop),
        1 => Just(Step::PopTooSmall),
    ]
}

#[derive(Debug)]
enum Entry {
    Claimed(u64),
    Ready(Vec<u8>),
    Discarded,
}

struct Machine<'a> {
    consumer: Consumer,
    producers: &'a [Producer],
    claims: Vec<(u64, Claim<'a>)>,
    model: VecDeque<(u16, Entry)>,
    slots: usize,
    number: u64,
}

impl<'a> Machine<'a> {
    fn step(&mut self, step: Step) {
        match step {
            Step::Send(producer, len) => self.send(producer, len),
            Step::Claim(producer) => {
                let producers = self.producers;
                match producers[usize::from(producer)].claim() {
                    Ok(claim) => {
                        self.number += 1;
                        self.claims.push((self.number, claim));
                        self.model.push_back((producer, Entry::Claimed(self.number)));
                        assert!(self.model.len() <= self.slots);
                    }
                    Err(error) => self.check_refusal(&error),
                }
            }
            Step::Commit(which, len) => {
                if let Some((number, claim)) = self.take_claim(which) {
                    let bytes = message(number, len);
                    claim.window().put(0, &bytes).unwrap();
                    claim.commit(len).unwrap();
                    self.resolve(number, Entry::Ready(bytes));
                }
            }
            Step::Discard(which) => {
                if let Some((number, claim)) = self.take_claim(which) {
                    if which % 2 == 0 {
                        claim.discard()
                    } else {
                        drop(claim)
                    }
                    self.resolve(number, Entry::Discarded);
                }
            }
            Step::Die(producer) => self.die(producer),
            Step::Pop => self.pop(),
            Step::PopTooSmall => self.pop_too_small(),
        }
        let next = self.model.iter().find(|(_, entry)| !matches!(entry, Entry::Discarded));
        let any_discarded_first = matches!(self.model.front(), Some((_, Entry::Discarded)));
        let ready = matches!(next, Some((_, Entry::Ready(_))));
        // A discarded claim in front may hide what is behind it: then the ring says "look".
        assert_eq!(self.consumer.is_empty(), !ready && !any_discarded_first);
    }

    fn send(&mut self, producer: u16, len: usize) {
        self.number += 1;
        let bytes = message(self.number, len);
        match self.producers[usize::from(producer)].send(&bytes) {
            Ok(()) => self.model.push_back((producer, Entry::Ready(bytes))),
            Err(error) if len > SLOT_BYTES => {
                assert_eq!(error, ClaimError::TooLong { len_bytes: len, slot_bytes: SLOT_BYTES });
            }
            Err(error) => self.check_refusal(&error),
        }
    }

    fn check_refusal(&self, error: &ClaimError) {
        assert_eq!(*error, ClaimError::Full);
        assert_eq!(self.model.len(), self.slots);
    }

    fn take_claim(&mut self, which: usize) -> Option<(u64, Claim<'a>)> {
        (!self.claims.is_empty()).then(|| self.claims.swap_remove(which % self.claims.len()))
    }

    fn resolve(&mut self, number: u64, to: Entry) {
        let is_it = |(_, entry): &&mut (u16, Entry)| matches!(entry, Entry::Claimed(n) if *n == number);
        self.model.iter_mut().find(is_it).unwrap().1 = to;
    }

    fn die(&mut self, producer: u16) {
        let mut dead = 0;
        for (owner, entry) in &mut self.model {
            if let Entry::Claimed(number) = entry
                && *owner == producer
            {
                dead += 1;
                let at = self.claims.iter().position(|(n, _)| n == number).unwrap();
                // A process that dies runs no destructor.
                std::mem::forget(self.claims.swap_remove(at));
                *entry = Entry::Discarded;
            }
        }
        assert_eq!(self.consumer.discard_claims(proof_of_death(), producer), dead);
    }

    fn skip_discarded(&mut self) {
        while matches!(self.model.front(), Some((_, Entry::Discarded))) {
            self.model.pop_front();
        }
    }

    fn pop(&mut self) {
        self.skip_discarded();
        let mut buffer = [0; SLOT_BYTES];
        let popped = self.consumer.pop_into(&mut buffer).unwrap();
        match self.model.front() {
            None => assert_eq!(popped, Popped::Empty),
            Some((owner, Entry::Claimed(_))) => assert_eq!(popped, Popped::Pending(*owner)),
            Some((owner, Entry::Ready(bytes))) => {
                assert_eq!(popped, Popped::Taken { value: bytes.len(), producer: *owner });
                assert_eq!(buffer[..bytes.len()], *bytes);
                self.model.pop_front();
            }
            Some((_, Entry::Discarded)) => unreachable!("skipped"),
        }
    }

    fn pop_too_small(&mut self) {
        self.skip_discarded();
        match self.model.front() {
            Some((_, Entry::Ready(bytes))) if !bytes.is_empty() => {
                let (record_bytes, buffer_bytes) = (bytes.len(), bytes.len() - 1);
                let error = self.consumer.pop_into(&mut vec![0; buffer_bytes]).unwrap_err();
                assert_eq!(error, PopError::TooSmall { record_bytes, buffer_bytes });
            }
            _ => self.pop(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_queue_of_claims(slots in 1..12usize, steps in prop::collection::vec(step(), 1..300)) {
        let consumer = Consumer::create(slots, SLOT_BYTES).unwrap();
        let producers: Vec<_> = (0..PRODUCERS).map(|id| consumer.add_local(id).unwrap()).collect();
        let (slots, claims, model) = (slots.next_power_of_two().max(2), Vec::new(), VecDeque::new());
        let mut machine = Machine { consumer, producers: &producers, claims, model, slots, number: 0 };
        for step in steps {
            machine.step(step);
        }
    }
}

/// Every message arrives once, and those of one producer in order; claims are discarded in between.
#[test]
fn three_producers_and_a_consumer() {
    const COUNT: u64 = 30_000;
    must_end(|| {
        let mut consumer = Consumer::create(16, 64).unwrap();
        let senders = [0u16, 1, 2].map(|id| {
            let producer = consumer.add_local(id).unwrap();
            std::thread::spawn(move || {
                let (mut random, mut turns) = (Random::new(u64::from(id)), 0);
                let mut number = 0;
                while number < COUNT {
                    let bytes = message(number, 8 + (number % 57) as usize);
                    let sent = match random.below(8) {
                        0 => producer.claim().map(drop).and(Err(ClaimError::Full)),
                        1 => producer.claim().and_then(|claim| {
                            claim.window().put(0, &bytes).unwrap();
                            claim.commit(bytes.len())
                        }),
                        _ => producer.send(&bytes),
                    };
                    match sent {
                        Ok(()) => number += 1,
                        Err(error) => assert_eq!(error, ClaimError::Full),
                    }
                    give_way(&mut turns);
                }
            })
        });
        let (mut next, mut buffer, mut turns) = ([0; 3], [0; 64], 0);
        while next.iter().sum::<u64>() < 3 * COUNT {
            match consumer.pop_into(&mut buffer).unwrap() {
                Popped::Taken { value: len, producer } => {
                    let number = &mut next[usize::from(producer)];
                    assert_eq!(buffer[..len], message(*number, 8 + (*number % 57) as usize));
                    *number += 1;
                }
                Popped::Empty | Popped::Pending(_) => give_way(&mut turns),
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert_eq!(consumer.pop_into(&mut buffer), Ok(Popped::Empty));
    });
}

#[test]
fn a_claim_that_was_discarded_cannot_be_committed() {
    let (mut consumer, producer) = pair(4, 48).unwrap();
    let claim = producer.claim().unwrap();
    assert_eq!(consumer.discard_claims(proof_of_death(), producer.id()), 1);
    assert_eq!(claim.commit(8), Err(ClaimError::Lost));
    assert_eq!(consumer.pop_into(&mut [0; 48]), Ok(Popped::Empty));
    // Not even when the slot is claimed again.
    let lost = producer.claim().unwrap();
    consumer.discard_claims(proof_of_death(), producer.id());
    assert_eq!(consumer.pop_into(&mut [0; 48]), Ok(Popped::Empty));
    for _ in 0..3 {
        producer.send(b"in between").unwrap();
    }
    let other = producer.claim().unwrap();
    drop(lost);
    other.commit(0).unwrap();
}

#[test]
fn errors_name_thing_cause_and_next_step() {
    let (_consumer, producer) = pair(2, 48).unwrap();
    let long = producer.send(&[0; 49]).unwrap_err().to_string();
    assert!(
        long.contains("49 bytes") && long.contains("48 bytes") && long.contains("larger slots"),
        "{long}"
    );
    producer.send(&[]).unwrap();
    producer.send(&[]).unwrap();
    let full = producer.send(&[]).unwrap_err().to_string();
    assert!(full.contains("all slots are taken") && full.contains("try again"), "{full}");
    assert!(ClaimError::Lost.to_string().contains("attach again"));
}

#[test]
fn limits_and_sizes() {
    assert!(matches!(Consumer::create(1 << 21, 48), Err(shm::Error::TooLarge { .. })));
    assert!(matches!(Consumer::create(2, (1 << 20) + 1), Err(shm::Error::TooLarge { .. })));
    let (_, producer) = pair(0, 0).unwrap();
    assert_eq!(producer.slot_bytes(), 0);
    assert!(
        size_of::<Producer>() <= 192 && size_of::<Consumer>() <= 224,
        "{} {}",
        size_of::<Producer>(),
        size_of::<Consumer>()
    );
}

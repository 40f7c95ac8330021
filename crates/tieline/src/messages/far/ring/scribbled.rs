//! A peer that writes over all of the memory that it can reach while records go both ways: with a fixed seed,
//! thousands of rounds.

use std::collections::BTreeSet;

use message_queue::lane::{Found, LaneError};
use seeded_random::SplitMix64;
use shm::region::Region;

use super::super::forms::{CREDIT_AT, RING_AT, TAIL_AT, store};
use super::tests::{Way, memory, message};
use super::{Incoming, Outgoing, Ring};

const RING_BYTES: usize = 4096;
const KEYS: [u64; 2] = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];

/// One side of a pair.
struct Side<'a> {
    own: &'a Region,
    outgoing: Outgoing,
    incoming: Incoming,
    own_key: u64,
    sent: usize,
    taken: usize,
    /// It has noticed that something is wrong, and does nothing more.
    is_done: bool,
    /// Words of its memory that were written over.
    scribbled: BTreeSet<usize>,
}

fn length(nth: usize) -> usize {
    [0, 8, 40, 200, 1000, 2000, 17][nth % 7]
}

impl<'a> Side<'a> {
    fn new(own: &'a Region, (own_key, its_key): (u64, u64)) -> Self {
        let ring = Ring::new(RING_BYTES as u64).unwrap();
        let (outgoing, incoming) =
            (Outgoing::new(ring, its_key, own_key).unwrap(), Incoming::new(ring, own_key));
        let (sent, taken, is_done, scribbled) = (0, 0, false, BTreeSet::new());
        Self { own, outgoing, incoming, own_key, sent, taken, is_done, scribbled }
    }

    fn must_be_known(&mut self, error: LaneError) {
        match error {
            LaneError::Full => {}
            LaneError::Broken(_) => self.is_done = true,
            LaneError::TooLong => panic!("the ring has its length"),
        }
    }

    fn send(&mut self, to: &Region) {
        let bytes = message(self.sent, length(self.sent));
        let fill = |record: &shm::window::Window<'_>| record.put(0, &bytes).unwrap();
        match self.outgoing.send(&self.own.window(), bytes.len(), fill) {
            Ok(()) => self.sent += 1,
            Err(error) => self.must_be_known(error),
        }
        let _ = self.outgoing.flush(&Way::new(to));
    }

    /// Takes what is there: `check` gets the bytes and where they lay.
    fn take(&mut self, to: &Region, mut check: impl FnMut(&Self, &[u8], usize)) {
        // A ring has so many records at most, however they were announced.
        for _ in 0..=RING_BYTES / 16 {
            let at = (self.incoming.head & (RING_BYTES as u64 - 1)) as usize;
            let found = self.incoming.take_if(&self.own.window(), |record| {
                let mut bytes = vec![0; record.len()];
                record.get(0, &mut bytes).unwrap();
                Some(bytes)
            });
            let is_idle = !matches!(found, Ok(Found::Taken(_)));
            if let Some(taken) = self.incoming.due(is_idle) {
                self.outgoing.give_back(taken);
                let _ = self.outgoing.flush(&Way::new(to));
            }
            match found {
                Ok(Found::Taken(bytes)) => {
                    assert!(bytes.len() <= self.incoming.ring.max_record_bytes());
                    check(self, &bytes, at);
                    self.taken += 1;
                }
                Ok(_) => return,
                Err(error) => return self.must_be_known(error),
            }
            let there = self.incoming.tail - self.incoming.head;
            assert!(self.incoming.tail >= self.incoming.head && there <= RING_BYTES as u64);
        }
        panic!("more records than a ring has room for");
    }

    /// The peer writes over a word of the memory, whichever it is.
    fn scribble(&mut self, random: &mut SplitMix64) {
        let at = random.below((RING_AT + RING_BYTES) / 8) * 8;
        self.own.window().store_u64(at, random.next_u64()).unwrap();
        self.scribbled.insert(at);
    }

    /// The peer knows the keys, and writes what could be true.
    fn forge(&mut self, random: &mut SplitMix64) {
        let window = self.own.window();
        let near = |place: u64, random: &mut SplitMix64| match random.below(4) {
            0 => random.next_u64(),
            1 => place.wrapping_sub(random.below(512) as u64 * 8),
            _ => place.wrapping_add(random.below(300) as u64 * 16 + (random.next_u64() & 1)),
        };
        match random.below(4) {
            0 => store(&window, TAIL_AT, near(self.incoming.tail, random), self.own_key).unwrap(),
            1 => store(&window, CREDIT_AT, near(self.outgoing.read, random), self.own_key).unwrap(),
            _ => {
                let place = near(self.incoming.head, random);
                let at = RING_AT + (place as usize & (RING_BYTES - 16) & !15);
                let len = match random.below(4) {
                    0 => u64::MAX,
                    1 => random.next_u64(),
                    _ => random.next_u64() % 4100,
                };
                window.store_u64(at, place ^ self.own_key).unwrap();
                window.store_u64(at + 8, len).unwrap();
            }
        }
    }
}

fn rounds(count: u64, seed: u64, mut round: impl FnMut(&mut SplitMix64, &mut [Side<'_>; 2])) {
    for nth in 0..count {
        let memory: [Region; 2] = memory();
        let [first, second] = &memory;
        let mut sides = [Side::new(first, (KEYS[0], KEYS[1])), Side::new(second, (KEYS[1], KEYS[0]))];
        round(&mut SplitMix64::new(seed + nth), &mut sides);
    }
}

/// What is written without the keys is never taken for a place or a record: each record that is taken is the
/// next one, of its length, and all of its words but those that were written over are right.
#[test]
fn blind_scribbles_change_no_record_but_the_words_they_hit() {
    let (mut taken, mut noticed) = (0, 0);
    rounds(1500, 1, |random, sides| {
        let memories = [sides[0].own, sides[1].own];
        for _ in 0..60 {
            let nth = random.below(2);
            let (side, to) = (&mut sides[nth], memories[1 - nth]);
            if !side.is_done {
                side.send(to);
                side.take(to, |side, bytes, at| {
                    let expected = message(side.taken, length(side.taken));
                    assert_eq!(bytes.len(), expected.len(), "record {}", side.taken);
                    // After what may have been skipped.
                    let is_at = |at: usize| {
                        bytes.iter().zip(&expected).enumerate().all(|(nth, (byte, wanted))| {
                            let word = RING_AT + at + 16 + nth / 8 * 8;
                            byte == wanted || side.scribbled.contains(&word)
                        })
                    };
                    assert!(is_at(at) || is_at(0), "record {}", side.taken);
                });
            }
            if random.below(3) == 0 {
                sides[random.below(2)].scribble(random);
            }
        }
        taken += sides[0].taken + sides[1].taken;
        noticed += sides.iter().filter(|side| side.is_done).count();
    });
    // The test is worth something: much went through, and much was noticed.
    assert!(taken > 30_000 && noticed > 100, "{taken} taken, {noticed} noticed");
}

/// Who knows the keys can say what it likes, and gets at nothing but the pair.
#[test]
fn forged_places_and_records_are_an_error_at_worst() {
    let (mut taken, mut noticed) = (0, 0);
    rounds(3000, 1 << 32, |random, sides| {
        let memories = [sides[0].own, sides[1].own];
        for _ in 0..60 {
            let nth = random.below(2);
            let (side, to) = (&mut sides[nth], memories[1 - nth]);
            if !side.is_done {
                side.send(to);
                side.take(to, |_, _, _| ());
                let unread = side.outgoing.tail - side.outgoing.read;
                assert!(side.outgoing.read <= side.outgoing.tail && unread <= RING_BYTES as u64);
            }
            match random.below(6) {
                0 => sides[random.below(2)].forge(random),
                1 => sides[random.below(2)].scribble(random),
                _ => {}
            }
        }
        taken += sides[0].taken + sides[1].taken;
        noticed += sides.iter().filter(|side| side.is_done).count();
    });
    assert!(taken > 30_000 && noticed > 1000, "{taken} taken, {noticed} noticed");
}

//! A hostile peer writes into every word that it can write: typed errors, never a panic, a hang or a wild
//! access.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests, with helpers outside test functions")]

mod ring_support;

use ring_support::{Random, give_way, must_end};
use shm::region::{MapAccess, Region};
use shm::ring::many::{self, ClaimError, Popped};
use shm::ring::{PopError, PushError, StreamError, byte, record};
use shm::window::Window;
use std::sync::atomic::{AtomicBool, Ordering};

/// Where the data of a ring begins, and where its counts and doorbell words lie (bytes).
const DATA: usize = 512;
const COUNT: usize = 128;
const SIGNAL: usize = 256;
const ARMED: usize = 384;

/// Values that mean something to some word of some ring, or nearly do.
fn nasty(random: &mut Random) -> u64 {
    const CLOSED: u64 = 1 << 63;
    let fixed = [
        0,
        1,
        u64::MAX,
        CLOSED,
        CLOSED | 1,
        CLOSED | 2 << 61,
        2 << 61,
        CLOSED | 1 << 61,
        CLOSED | 1 << 61 | 0xffff_ffff,
        CLOSED | 1 << 61 | 120,
        CLOSED | 3 << 61,
        63,
        57 << 36,
        9 << 36 | CLOSED,
        0x41_0410_4104,
        i64::MAX.cast_unsigned(),
        u64::MAX - 1,
    ];
    match random.below(4) {
        0 => random.next(),
        1 => random.next() >> random.below(64),
        2 => CLOSED | 1 << 61 | random.below(1000) as u64,
        _ => random.one_of(&fixed),
    }
}

/// Writes into one word: any, or one at which something is decided.
fn scribble(random: &mut Random, window: &Window<'_>) {
    let words = window.len() / 8;
    let at = match random.below(3) {
        0 => random.below(words) * 8,
        // The control word of a line, the state word of a slot.
        1 => random.below(words / 8) * 64,
        _ => random.one_of(&[0, 8, 16, COUNT, SIGNAL, ARMED, DATA, DATA + 64]),
    };
    // A side without data has only a head.
    let at = if at < window.len() { at } else { COUNT };
    let old = window.load_u64(at).unwrap();
    let value = match random.below(4) {
        0 => old ^ 1 << random.below(64),
        1 => old.wrapping_add(random.below(5) as u64).wrapping_sub(2),
        _ => nasty(random),
    };
    window.store_u64(at, value).unwrap();
}

#[test]
fn a_record_producer_that_scribbles() {
    must_end(|| {
        let mut broken = 0;
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let (mut producer, mut consumer) = record::pair(1 << (9 + seed % 3)).unwrap();
            let mut failed = false;
            for _ in 0..60 {
                match random.below(4) {
                    0 => _ = producer.push(&vec![7; random.below(producer.max_record_bytes())]),
                    1 => scribble(&mut random, &producer.region().window()),
                    2 => _ = producer.push(&[7; 8]),
                    _ => {}
                }
                failed |= use_consumer(&mut random, &mut consumer, failed);
            }
            broken += u32::from(failed);
        }
        assert!(broken > 300, "the scribbling was noticed in {broken} rings only");
    });
}

/// Does something with the consumer; whether it was found to be broken, which then stays.
fn use_consumer(random: &mut Random, consumer: &mut record::Consumer, was_broken: bool) -> bool {
    let mut buffer = [0; 300];
    let is_empty = consumer.is_empty();
    let error = match random.below(4) {
        0 => consumer.pop_into(&mut buffer).err(),
        1 => consumer.pop_with(|record| assert!(record.len() <= 1 << 11 && read_all(record))).err(),
        2 => consumer.drain(100, |record| assert!(record.len() <= 1 << 11 && read_all(record))).err(),
        _ => consumer.next_len().err(),
    };
    consumer.give_back();
    let broken = matches!(error, Some(PopError::Corrupt { .. }));
    assert!(broken || !was_broken, "a broken ring must stay broken");
    assert!(!(was_broken && is_empty), "a broken ring must ask to be looked at");
    broken
}

fn read_all(record: &Window<'_>) -> bool {
    record.get(0, &mut vec![0; record.len()]).is_ok()
}

#[test]
fn a_record_consumer_that_scribbles() {
    must_end(|| {
        let mut broken = 0;
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let (mut producer, mut consumer) = record::pair(512).unwrap();
            let mut failed = false;
            for _ in 0..60 {
                match random.below(4) {
                    0 => scribble(&mut random, &consumer.region().window()),
                    1 => _ = consumer.pop_into(&mut [0; 300]),
                    _ => {}
                }
                let len = random.below(249);
                let has_room = producer.has_room(len);
                let error = match random.below(3) {
                    0 => producer.push(&vec![1; len]).err(),
                    1 => producer.push_batch(&vec![vec![1; len]; 5]).err(),
                    _ => producer.reserve(len).map(|claim| claim.commit()).err(),
                };
                assert!(!failed || has_room || error.is_none(), "a broken ring must ask to be looked at");
                failed |= matches!(error, Some(PushError::Corrupt { .. }));
            }
            broken += u32::from(failed);
        }
        assert!(broken > 300, "the scribbling was noticed in {broken} rings only");
    });
}

#[test]
fn byte_ring_sides_that_scribble() {
    must_end(|| {
        let mut broken = [0; 2];
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let (mut writer, mut reader) = byte::pair(1024).unwrap();
            let mut buffer = [0; 700];
            for _ in 0..60 {
                match random.below(3) {
                    0 if seed % 2 == 0 => scribble(&mut random, &writer.region().window()),
                    0 => scribble(&mut random, &reader.region().window()),
                    1 => broken[0] += u32::from(writer.write(&buffer[..random.below(700)]).is_err()),
                    _ => broken[1] += u32::from(reader.read(&mut buffer[..random.below(700)]).is_err()),
                }
                let _ = (reader.is_empty(), writer.has_room());
                reader.give_back();
            }
        }
        assert!(broken.iter().all(|&count| count > 300), "the scribbling was noticed {broken:?} times only");
    });
}

#[test]
fn slots_that_are_scribbled_over() {
    must_end(|| {
        let mut broken = [0; 2];
        for seed in 0..3000 {
            let mut random = Random::new(seed);
            let mut consumer = many::Consumer::create(4, 48).unwrap();
            let producers = [0, 1].map(|id| consumer.add_local(id).unwrap());
            let mut failed = false;
            for _ in 0..60 {
                match random.below(5) {
                    0 => scribble(&mut random, &producers[0].region().window()),
                    1 => _ = producers[0].claim().map(std::mem::forget),
                    2 => _ = consumer.discard_claims(ring_support::proof_of_death(), 0),
                    _ => {}
                }
                let len = random.below(49);
                let sent = producers[random.below(2)].send(&[1; 48][..len]);
                broken[0] += u32::from(matches!(sent, Err(ClaimError::Corrupt { .. })));
                let popped = consumer.pop_into(&mut [0; 48]);
                let now = matches!(popped, Err(PopError::Corrupt { .. }));
                assert!(now || !failed, "a broken ring must stay broken");
                assert!(!failed || !consumer.is_empty());
                failed = now;
                broken[1] += u32::from(now);
            }
        }
        assert!(broken.iter().all(|&count| count > 300), "the scribbling was noticed {broken:?} times only");
    });
}

/// While one thread scribbles without a break, the other side goes on or ends with a typed error.
#[test]
fn scribbling_at_the_same_time() {
    must_end(|| {
        for seed in 0..40 {
            let (producer, mut consumer) = record::pair(512).unwrap();
            beside_scribbler(seed, producer.region(), |random| {
                _ = use_consumer_gently(random, &mut consumer)
            });
            let (mut producer, consumer) = record::pair(512).unwrap();
            beside_scribbler(seed, consumer.region(), |random| {
                _ = producer.push(&[1; 248][..random.below(249)])
            });
            let (writer, mut reader) = byte::pair(512).unwrap();
            beside_scribbler(seed, writer.region(), |random| {
                _ = reader.read(&mut [0; 500][..random.below(500)])
            });
            let (mut consumer, producer) = many::pair(4, 48).unwrap();
            let other = consumer.add_local(1).unwrap();
            beside_scribbler(seed, other.region(), |random| {
                let _ = producer.send(&[1; 48][..random.below(49)]);
                let _ = (consumer.is_empty(), consumer.pop_into(&mut [0; 48]));
            });
        }
    });
}

fn use_consumer_gently(random: &mut Random, consumer: &mut record::Consumer) -> bool {
    use_consumer(random, consumer, false)
}

fn beside_scribbler(seed: u64, region: &Region, mut victim: impl FnMut(&mut Random)) {
    let (stop, window) = (AtomicBool::new(false), region.window());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut random, mut turns) = (Random::new(seed), 0);
            while !stop.load(Ordering::Relaxed) {
                scribble(&mut random, &window);
                give_way(&mut turns);
            }
        });
        let mut random = Random::new(!seed);
        for _ in 0..2000 {
            victim(&mut random);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

/// Overwrites the word at `at` of the producer's region and pops.
fn pop_after(at: usize, value: u64, records: &[usize], taken: usize) -> Result<Option<usize>, PopError> {
    let (mut producer, mut consumer) = record::pair(512).unwrap();
    records.iter().for_each(|&len| producer.push(&vec![1; len]).unwrap());
    for _ in 0..taken {
        consumer.pop_into(&mut [0; 300]).unwrap();
    }
    producer.region().window().store_u64(at, value).unwrap();
    consumer.pop_into(&mut [0; 300])
}

#[test]
fn each_lie_of_a_record_producer_is_named() {
    const CLOSED: u64 = 1 << 63;
    const LONG: u64 = CLOSED | 1 << 61;
    const WRAP: u64 = CLOSED | 2 << 61;
    let second = DATA + 64;
    for (what, at, value, records, taken) in [
        ("a control word that means nothing", DATA, 3 << 61, &[][..], 0),
        ("a control word that means nothing", DATA, 1 << 50, &[8], 0),
        ("a short record that leaves its line", DATA, 63, &[], 0),
        ("a short record that leaves its line", DATA, 9 | 57 << 6, &[8], 1),
        ("a line without records", DATA, CLOSED, &[], 0),
        ("a line without records", DATA, 10, &[8], 1),
        ("a gap between records", DATA, 9 | 9 << 12, &[8], 1),
        ("a gap between records", DATA, 9 << 6, &[], 0),
        ("a long record behind short ones", DATA, LONG | 60, &[8], 1),
        ("a long record that leaves the ring", DATA, LONG | 505, &[], 0),
        ("a long record that leaves the ring", DATA, LONG | 0xffff_ffff, &[], 0),
        ("a long record that leaves the ring", second, LONG | 441, &[56], 1),
        ("a wrap in the wrong place", DATA, WRAP, &[], 0),
        ("a wrap in the wrong place", DATA, WRAP, &[8], 1),
    ] {
        assert_eq!(
            pop_after(at, value, records, taken),
            Err(PopError::Corrupt { what }),
            "{value:#x} at {at}"
        );
    }
    // A wrap into a line that wraps again must not go round forever.
    let (mut producer, mut consumer) = record::pair(512).unwrap();
    producer.push(&[1; 56]).unwrap();
    consumer.pop_into(&mut [0; 56]).unwrap();
    producer.region().window().store_u64(DATA, WRAP).unwrap();
    producer.region().window().store_u64(second, WRAP).unwrap();
    assert_eq!(consumer.pop_into(&mut [0; 56]), Err(PopError::Corrupt { what: "a wrap in the wrong place" }));
}

#[test]
fn a_consumer_that_found_a_lie_believes_no_later_line() {
    let (mut producer, mut consumer) = record::pair(512).unwrap();
    for number in 0..14_u64 {
        producer.push(&number.to_le_bytes()).unwrap();
    }
    for number in 0..7_u64 {
        let mut record = [0; 8];
        assert_eq!(consumer.pop_into(&mut record), Ok(Some(8)));
        assert_eq!(u64::from_le_bytes(record), number);
    }
    let second = DATA + 64;
    let window = producer.region().window();
    let honest = window.load_u64(second).unwrap();
    window.store_u64(second, 3 << 61).unwrap();
    let corrupt = Err(PopError::Corrupt { what: "a control word that means nothing" });
    assert_eq!(consumer.pop_into(&mut [0; 8]), corrupt);
    window.store_u64(second, honest).unwrap();
    assert_eq!(consumer.pop_into(&mut [0; 8]), corrupt);
    assert_eq!(consumer.drain(9, |_| ()).map(Some), corrupt);
}

#[test]
fn each_lie_of_a_record_consumer_is_named() {
    let corrupt = PushError::Corrupt { what: "the consumer's count of lines given back" };
    assert!(corrupt.to_string().contains("close this connection"));
    for (before, lie) in [(0, 1_000), (0, u64::MAX), (3, 2), (0, 8)] {
        let (mut producer, consumer) = record::pair(512).unwrap();
        let count = |value| consumer.region().window().store_u64(COUNT, value).unwrap();
        while producer.push(&[1; 56]).is_ok() {}
        count(before);
        while producer.push(&[1; 56]).is_ok() {}
        count(lie);
        assert_eq!(producer.push(&[1; 56]), Err(corrupt), "{lie} after {before}");
        count(before);
        assert_eq!(producer.push(&[1; 56]), Err(corrupt), "it stays broken");
    }
}

#[test]
fn an_empty_piece_of_a_stream_is_no_progress_and_an_error() {
    let (writer, mut reader) = byte::pair(512).unwrap();
    writer.region().window().store_u64(DATA, 1).unwrap();
    let what = "an empty piece of a stream";
    assert_eq!(reader.read(&mut [0; 8]), Err(StreamError::Corrupt { what }));
}

#[test]
fn each_lie_about_slots_is_named() {
    let slot = DATA;
    for (what, at, value) in [
        ("a slot in the wrong turn", slot, 4 << 19 | 2),
        ("a slot in the wrong turn", slot, u64::MAX << 19),
        ("a slot state that means nothing", slot, 7),
        ("a slot state that means nothing", slot, 1 << 3),
        ("a message longer than its slot", slot + 8, 49),
        ("a message longer than its slot", slot + 8, u64::MAX),
    ] {
        let (mut consumer, producer) = many::pair(4, 48).unwrap();
        producer.send(&[1; 48]).unwrap();
        producer.region().window().store_u64(at, value).unwrap();
        assert_eq!(consumer.pop_into(&mut [0; 48]), Err(PopError::Corrupt { what }), "{value:#x} at {at}");
    }
    // The tail is only a hint: too low is repaired, too high is noticed.
    for (tail, expected) in [(0, Ok(())), (1, Ok(())), (1 << 40, Err("a tail that is ahead of the slots"))] {
        let (mut consumer, producer) = many::pair(4, 48).unwrap();
        for _ in 0..10 {
            producer.send(&[1; 8]).unwrap();
            assert_eq!(consumer.pop_into(&mut [0; 48]), Ok(Popped::Taken { value: 8, producer: 0 }));
        }
        producer.region().window().store_u64(COUNT, tail).unwrap();
        let sent = producer.send(&[1; 8]);
        assert_eq!(sent, expected.map_err(|what| ClaimError::Corrupt { what }), "tail {tail}");
    }
}

/// What a hostile side could say about sizes, in a region that it made itself.
#[test]
fn impossible_sizes_are_refused() {
    use shm::region::RegionOptions;
    let magic = |letters: &[u8; 8]| u64::from_le_bytes(*letters);
    for lines in [0, 1, 4, 7, 12, 64, 1 << 26, 1 << 27, u64::MAX] {
        let region = Region::create(&RegionOptions::new("lie", 4096)).unwrap();
        region.window().store_u64(0, magic(b"tlrecp 1")).unwrap();
        region.window().store_u64(8, lines).unwrap();
        let fd = rustix::io::dup(region.fd()).unwrap();
        let connected = record::ConsumerHalf::create().unwrap().connect(fd);
        assert!(matches!(connected, Err(shm::Error::Corrupt { .. })), "{lines} lines");
    }
    for (slots, slot_bytes) in
        [(0, 48), (3, 48), (1 << 21, 48), (1024, 48), (4, u64::MAX), (4, 1 << 21), (1, 48)]
    {
        let [shared, own] = [b"tlmans 1", b"tlmanc 1"].map(|letters| {
            let region = Region::create(&RegionOptions::new("lie", 4096)).unwrap();
            region.window().store_u64(0, magic(letters)).unwrap();
            region.window().store_u64(8, slots).unwrap();
            region.window().store_u64(16, slot_bytes).unwrap();
            rustix::io::dup(region.fd()).unwrap()
        });
        let connected = many::Producer::connect(shared, own, 0);
        assert!(matches!(connected, Err(shm::Error::Corrupt { .. })), "{slots} slots of {slot_bytes}");
    }
}

/// What a side must not write it cannot map for writing.
#[test]
fn the_other_sides_region_can_only_be_read() {
    let (producer, consumer) =
        (record::ProducerHalf::create(512).unwrap(), record::ConsumerHalf::create().unwrap());
    for fd in [producer.fd(), consumer.fd()] {
        let opened = Region::open(rustix::io::dup(fd).unwrap(), MapAccess::ReadWrite);
        assert_eq!(opened.unwrap_err(), shm::Error::ReadOnly);
    }
}

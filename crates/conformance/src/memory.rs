//! Tests of remote memory: data that is put arrives where it was put, and nowhere else.
//!
//! The bodies assert, so they panic on a link that is wrong; that is what they are for.
#![allow(clippy::panic, clippy::unwrap_used, clippy::missing_panics_doc)]

use link::{Capabilities, LinkError};
use shm::region::{MapAccess, PartialMapOptions};

use crate::{Body, Subject};

/// Bytes that every subject must have.
pub const SIZE_BYTES: usize = 64 * 1024;

/// All bodies with what they need.
pub const BODIES: &[(&str, Capabilities, Body)] = &[
    ("put_arrives", Capabilities::PUT, put_arrives),
    ("put_touches_nothing_else", Capabilities::PUT, put_touches_nothing_else),
    ("get_reads_the_owner", Capabilities::GET, get_reads_the_owner),
    ("put_from_and_get_to_move_segments", Capabilities::PUT, put_from_and_get_to_move_segments),
    ("ranges_are_checked", Capabilities::PUT, ranges_are_checked),
    ("stores_through_a_map_arrive", Capabilities::MAP, stores_through_a_map_arrive),
    ("a_partial_map_is_the_same_memory", Capabilities::MAP, a_partial_map_is_the_same_memory),
    ("a_use_is_known_until_it_ends", Capabilities::MAP, a_use_is_known_until_it_ends),
    ("puts_arrive_in_order", Capabilities::PUT, puts_arrive_in_order),
    (
        "puts_without_a_wait_arrive_in_order_beside_others",
        Capabilities::PUT,
        puts_without_a_wait_arrive_in_order_beside_others,
    ),
    ("fetch_add_loses_nothing", Capabilities::ATOMICS, fetch_add_loses_nothing),
    ("compare_swap_swaps_only_the_expected", Capabilities::ATOMICS, compare_swap_swaps_only_the_expected),
    (
        "a_store_comes_whole_and_after_what_was_put",
        Capabilities::ATOMICS,
        a_store_comes_whole_and_after_what_was_put,
    ),
    (
        "stores_come_in_their_order_and_after_what_was_put",
        Capabilities::ATOMICS,
        stores_come_in_their_order_and_after_what_was_put,
    ),
    ("atomics_need_alignment", Capabilities::ATOMICS, atomics_need_alignment),
];

fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

fn owner_bytes(subject: &Subject, offset: usize, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    subject.owner.window().get(offset, &mut bytes).unwrap();
    bytes
}

/// Sizes around every kernel's threshold, at odd offsets.
fn put_arrives(subject: &Subject) {
    for (round, len) in
        [0, 1, 3, 8, 15, 16, 17, 63, 64, 65, 255, 256, 257, 4095, 4096, 20_000].into_iter().enumerate()
    {
        for offset in [0, 1, 7, 64, 129] {
            let bytes = pattern(len, round as u8);
            subject.remote.put(offset, &bytes).unwrap();
            subject.remote.barrier().unwrap();
            assert_eq!(owner_bytes(subject, offset, len), bytes, "{len} bytes at offset {offset}");
        }
    }
}

fn put_touches_nothing_else(subject: &Subject) {
    let before = pattern(SIZE_BYTES, 9);
    for (offset, len) in [(0, 1), (1, 2), (63, 2), (100, 1000), (SIZE_BYTES - 300, 300)] {
        subject.owner.window().put(0, &before).unwrap();
        subject.remote.put(offset, &vec![0xEE; len]).unwrap();
        subject.remote.barrier().unwrap();
        let after = owner_bytes(subject, 0, SIZE_BYTES);
        assert_eq!(after[..offset], before[..offset]);
        assert!(after[offset..offset + len].iter().all(|byte| *byte == 0xEE));
        assert_eq!(after[offset + len..], before[offset + len..]);
    }
}

fn get_reads_the_owner(subject: &Subject) {
    let bytes = pattern(5000, 3);
    subject.owner.window().put(77, &bytes).unwrap();
    let mut read = vec![0; 5000];
    subject.remote.get(77, &mut read).unwrap();
    assert_eq!(read, bytes);
}

fn put_from_and_get_to_move_segments(subject: &Subject) {
    let local = shm::region::Region::create(&shm::region::RegionOptions::new("local", 8192)).unwrap();
    let bytes = pattern(3000, 5);
    local.window().put(100, &bytes).unwrap();
    subject.remote.put_from(4000, local.window().sub(100, 3000).unwrap()).unwrap();
    subject.remote.barrier().unwrap();
    assert_eq!(owner_bytes(subject, 4000, 3000), bytes);
    subject.remote.get_to(4000, local.window().sub(5000, 3000).unwrap()).unwrap();
    let mut back = vec![0; 3000];
    local.window().get(5000, &mut back).unwrap();
    assert_eq!(back, bytes);
}

/// A block, and the word that says which one it is: whoever finds the word finds the block.
fn puts_without_a_wait_arrive_in_order_beside_others(subject: &Subject) {
    const BLOCK: usize = 3000;
    let local = shm::region::Region::create(&shm::region::RegionOptions::new("local", 8192)).unwrap();
    let until_put = |offset, at, len| {
        let source = || local.window().sub(at, len).unwrap();
        while !subject.remote.try_put_from(offset, source()).unwrap() {
            std::thread::yield_now();
        }
    };
    for round in 1..=60_u64 {
        let bytes = pattern(BLOCK, round as u8);
        let offset = (round as usize % 8) * 4096;
        local.window().put(0, &bytes).unwrap();
        local.window().store_u64(BLOCK, round).unwrap();
        if round % 3 == 0 {
            subject.remote.put(offset, &bytes).unwrap();
        } else {
            until_put(offset, 0, BLOCK);
        }
        until_put(SIZE_BYTES - 8, BLOCK, 8);
        if round % 20 == 0 {
            while !subject.remote.has_arrived().unwrap() {
                std::thread::yield_now();
            }
            assert_eq!(owner_bytes(subject, SIZE_BYTES - 8, 8), round.to_ne_bytes());
            assert_eq!(owner_bytes(subject, offset, BLOCK), bytes);
        }
    }
    let outside = subject.remote.try_put_from(SIZE_BYTES - 1, local.window().sub(0, 2).unwrap());
    assert!(matches!(outside, Err(LinkError::OutOfRange { .. })), "{outside:?}");
}

fn ranges_are_checked(subject: &Subject) {
    let size = subject.remote.size_bytes();
    assert_eq!(size, SIZE_BYTES);
    for (offset, len) in [(size, 1), (size - 1, 2), (usize::MAX, 1), (usize::MAX - 3, 8)] {
        let refused = subject.remote.put(offset, &vec![0; len]);
        assert!(
            matches!(refused, Err(LinkError::OutOfRange { .. })),
            "put of {len} at {offset}: {refused:?}"
        );
        let refused = subject.remote.get(offset, &mut vec![0; len]);
        assert!(
            matches!(refused, Err(LinkError::OutOfRange { .. })),
            "get of {len} at {offset}: {refused:?}"
        );
    }
    subject.remote.put(size, &[]).unwrap();
}

fn stores_through_a_map_arrive(subject: &Subject) {
    let map = subject.remote.map().unwrap();
    assert_eq!(map.len(), SIZE_BYTES);
    map.put(1000, &[1, 2, 3]).unwrap();
    assert_eq!(owner_bytes(subject, 1000, 3), [1, 2, 3]);
    subject.owner.window().put(2000, &[4, 5]).unwrap();
    let mut seen = [0; 2];
    map.get(2000, &mut seen).unwrap();
    assert_eq!(seen, [4, 5]);
}

/// A part that is mapped once more, also for reading alone, shows what the owner has.
fn a_partial_map_is_the_same_memory(subject: &Subject) {
    let at = |offset, access| PartialMapOptions { offset, len: 100, address: None, access };
    let map = subject.remote.map_part(&at(1001, MapAccess::ReadWrite)).unwrap();
    map.window().put(1, &[6, 7]).unwrap();
    assert_eq!(owner_bytes(subject, 1002, 2), [6, 7]);
    let reader = subject.remote.map_part(&at(1001, MapAccess::ReadOnly)).unwrap();
    let mut seen = [0; 2];
    reader.window().get(1, &mut seen).unwrap();
    assert_eq!(seen, [6, 7]);
    assert!(reader.window().put(0, &[1]).is_err());
    assert!(subject.remote.map_part(&at(SIZE_BYTES - 99, MapAccess::ReadOnly)).is_err());
}

/// To owners in this process; those of others ask the kernel.
fn a_use_is_known_until_it_ends(subject: &Subject) {
    let memory = subject.owner.id().unwrap();
    for is_used in [true, true, false, false] {
        subject.remote.tell_use(is_used).unwrap();
        assert_eq!(subject.link.is_used_here(memory), is_used);
        assert!(!subject.owner.is_used_elsewhere().unwrap());
    }
}

/// The owner polls a flag that is put after the data: where the flag is, the data is.
fn puts_arrive_in_order(subject: &Subject) {
    use shm::sync::Ordering;
    const ROUNDS: u32 = 2000;
    const FLAG_AT: usize = 32 * 1024;
    subject.owner.window().atomic_u32(FLAG_AT).unwrap().store(0, Ordering::SeqCst);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS {
                subject.remote.put(0, &vec![round as u8; 1024]).unwrap();
                subject.remote.put(FLAG_AT, &round.to_le_bytes()).unwrap();
                // Answered by the owner below; bounded by the test's own life.
                while subject.owner.window().atomic_u32(FLAG_AT + 64).unwrap().load(Ordering::Acquire)
                    != round
                {
                    std::thread::yield_now();
                }
            }
        });
        for round in 1..=ROUNDS {
            while subject.owner.window().atomic_u32(FLAG_AT).unwrap().load(Ordering::Acquire) != round {
                std::thread::yield_now();
            }
            let data = owner_bytes(subject, 0, 1024);
            let answer = subject.owner.window().atomic_u32(FLAG_AT + 64).unwrap();
            // Release: pairs with the Acquire of the putting thread above; this round's data has been read.
            answer.store(round, Ordering::Release);
            assert!(data.iter().all(|byte| *byte == round as u8), "flag {round} overtook its data");
        }
    });
}

fn fetch_add_loses_nothing(subject: &Subject) {
    use shm::sync::Ordering;
    const EACH: u64 = 20_000;
    subject.owner.window().put(0, &[0; 64]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                (0..EACH).for_each(|_| {
                    subject.remote.fetch_add_u64(8, 3).unwrap();
                })
            });
        }
        // The owner's own atomics take part.
        let own = subject.owner.window();
        (0..EACH).for_each(|_| {
            own.atomic_u64(8).unwrap().fetch_add(1, Ordering::SeqCst);
        });
    });
    assert_eq!(subject.remote.fetch_add_u64(8, 0).unwrap(), EACH * 7);
    assert_eq!(subject.remote.fetch_add_u32(4, 5).unwrap(), 0);
    assert_eq!(subject.remote.fetch_add_u32(4, 0).unwrap(), 5);
}

fn compare_swap_swaps_only_the_expected(subject: &Subject) {
    subject.owner.window().put(0, &[0; 64]).unwrap();
    assert_eq!(subject.remote.compare_swap_u64(16, 0, 42).unwrap(), 0);
    assert_eq!(subject.remote.compare_swap_u64(16, 0, 43).unwrap(), 42);
    assert_eq!(subject.remote.fetch_add_u64(16, 0).unwrap(), 42);
    assert_eq!(subject.remote.compare_swap_u32(24, 0, 7).unwrap(), 0);
    assert_eq!(subject.remote.compare_swap_u32(24, 1, 8).unwrap(), 7);
}

fn a_store_comes_whole_and_after_what_was_put(subject: &Subject) {
    use shm::sync::Ordering;
    /// The same in each of its four bytes.
    const fn word(round: u8) -> u32 {
        u32::from_ne_bytes([round; 4])
    }
    subject.owner.window().put(0, &[0; 4096]).unwrap();
    let own = subject.owner.window();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 1..=u8::MAX {
                subject.remote.put(1000, &[round; 500]).unwrap();
                subject.remote.store_u32(64, word(round)).unwrap();
            }
        });
        loop {
            let has_ended = writer.is_finished();
            let seen = own.atomic_u32(64).unwrap().load(Ordering::Acquire);
            let round = seen.to_ne_bytes()[0];
            assert_eq!(seen, word(round), "parts of two stores");
            let mut block = [0; 500];
            own.get(1000, &mut block).unwrap();
            assert!(block.iter().all(|byte| *byte >= round), "the store {round} came before the block");
            if has_ended {
                return assert_eq!(round, u8::MAX);
            }
            std::thread::yield_now();
        }
    });
}

fn stores_come_in_their_order_and_after_what_was_put(subject: &Subject) {
    use link::Stores;
    subject.owner.window().put(0, &[0; 4096]).unwrap();
    let own = subject.owner.window();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut stores = Stores::new();
            for round in 1..=200_u8 {
                subject.remote.put(1000, &[round; 500]).unwrap();
                // More than one message has room for, and a word below all of it.
                stores.clear();
                (0..200).for_each(|at| stores.push(2000 + at * 9 % 2000, &[round; 70]));
                stores.push(64, &[round; 8]);
                subject.remote.store_all(&stores).unwrap();
            }
        });
        loop {
            let has_ended = writer.is_finished();
            let seen = own.atomic_u64(64).unwrap().load(shm::sync::Ordering::Acquire);
            let round = seen.to_ne_bytes()[0];
            assert_eq!(seen, u64::from_ne_bytes([round; 8]), "parts of two stores");
            let mut bytes = [0; 2800];
            own.get(1000, &mut bytes).unwrap();
            let written = bytes.iter().take(500).chain(&bytes[1000..]);
            assert!(written.clone().all(|byte| *byte >= round), "the store {round} came before others");
            if has_ended {
                return assert_eq!(round, 200);
            }
            std::thread::yield_now();
        }
    });
    let mut outside = Stores::new();
    outside.push(0, &[9; 8]);
    outside.push(SIZE_BYTES - 4, &[9; 5]);
    assert!(matches!(subject.remote.store_all(&outside), Err(LinkError::OutOfRange { .. })));
    assert_eq!(own.load_u64(0).unwrap(), 0);
}

fn atomics_need_alignment(subject: &Subject) {
    assert!(matches!(subject.remote.fetch_add_u64(4, 1), Err(LinkError::Misaligned { align: 8, .. })));
    assert!(matches!(subject.remote.compare_swap_u32(2, 0, 1), Err(LinkError::Misaligned { align: 4, .. })));
    assert!(matches!(subject.remote.fetch_add_u32(SIZE_BYTES, 1), Err(LinkError::OutOfRange { .. })));
    assert!(matches!(subject.remote.store_u32(2, 1), Err(LinkError::Misaligned { align: 4, .. })));
    assert!(matches!(subject.remote.store_u32(SIZE_BYTES, 1), Err(LinkError::OutOfRange { .. })));
}

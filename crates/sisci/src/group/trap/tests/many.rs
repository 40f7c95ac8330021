//! Many threads, and copies that change under them.

use std::ptr::with_exposed_provenance_mut;

use proptest::prelude::*;
use shm::sync::{AtomicBool, AtomicU32, Ordering};

use super::{BYTES, Rig, copy_of, region};
use crate::group::view::View;

fn word(view: &View, index: usize) -> &AtomicU32 {
    // SAFETY: the view is mapped while it is borrowed, the index is inside, and the word is only
    // used as an atomic.
    unsafe { &*with_exposed_provenance_mut::<AtomicU32>(view.start() + 4 * index) }
}

fn value(bytes: &[u8], index: usize) -> u32 {
    u32::from_le_bytes(bytes[4 * index..4 * index + 4].try_into().unwrap())
}

#[test]
fn every_thread_has_its_stores_and_locked_additions_in_all_copies() {
    let rig = Rig::with(3);
    let view = &rig.view;
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for round in 1..=500 {
                    word(view, thread).store(round, Ordering::Relaxed);
                    word(view, 16).fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    for copy in 0..3 {
        let bytes = rig.bytes(copy);
        assert!((0..4).all(|thread| value(&bytes, thread) == 500));
        assert_eq!(value(&bytes, 16), 2000, "additions are atomic among the threads of a writer");
    }
}

#[test]
fn a_change_of_the_copies_loses_no_store_of_who_stays() {
    let rig = Rig::with(2);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let storing = scope.spawn(|| {
            let mut round = 0;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                word(&rig.view, 5).store(round, Ordering::Relaxed);
                assert_eq!(value(&rig.bytes(0), 5), round, "at once, in the copy that stays");
            }
            round
        });
        for _ in 0..200 {
            rig.view.follow(vec![copy_of(&rig.copies[0])], None).unwrap();
            rig.view.follow(vec![copy_of(&region(BYTES)), copy_of(&rig.copies[0])], None).unwrap();
            rig.view.follow(rig.copies.iter().map(copy_of).collect(), None).unwrap();
        }
        stop.store(true, Ordering::Relaxed);
        assert!(storing.join().unwrap() > 0);
    });
}

#[test]
fn without_copies_stores_vanish_and_the_address_stays() {
    let rig = Rig::with(2);
    rig.view.follow(Vec::new(), None).unwrap();
    word(&rig.view, 1).store(9, Ordering::Relaxed);
    assert_eq!(value(&rig.bytes(0), 1), 0);
    rig.view.follow(rig.copies.iter().map(copy_of).collect(), None).unwrap();
    word(&rig.view, 1).store(8, Ordering::Relaxed);
    assert_eq!((value(&rig.bytes(0), 1), value(&rig.bytes(1), 1)), (8, 8));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the C library makes of a copy.
    #[test]
    fn blocks_of_any_size_at_any_place(start in 0..BYTES, len in 0..BYTES, from in 0_usize..64, fill in any::<bool>()) {
        let len = len.min(BYTES - start);
        let rig = Rig::with(2);
        let source: Vec<u8> = (0..BYTES + 64).map(|at| (at % 251) as u8 + 1).collect();
        let to = with_exposed_provenance_mut::<u8>(rig.view.start() + start);
        // SAFETY: both ranges are inside of their memory, and apart.
        unsafe {
            if fill { to.write_bytes(7, len) } else { to.copy_from_nonoverlapping(source.as_ptr().add(from), len) }
        }
        let mut expected = vec![0; BYTES];
        if fill { expected[start..start + len].fill(7) } else { expected[start..start + len].copy_from_slice(&source[from..from + len]) }
        prop_assert!(rig.bytes(0) == expected && rig.bytes(1) == expected);
    }
}

//! Windows: every access is checked, none reaches outside.
#![cfg(not(loom))]
// A test fails by panicking, also in its helpers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

use proptest::prelude::*;
use shm::Error;
use shm::region::{Region, RegionOptions};
use shm::sync::Ordering;

const SIZE: usize = 8192;

fn region() -> Region {
    Region::create(&RegionOptions::new("window", SIZE)).unwrap()
}

#[test]
fn integers_at_any_alignment() {
    let region = region();
    let window = region.window();
    for offset in 0..16 {
        window.store_u64(offset, 0x0102_0304_0506_0708).unwrap();
        assert_eq!(window.load_u64(offset), Ok(0x0102_0304_0506_0708));
        assert_eq!(window.load_u32(offset), Ok(0x0506_0708));
        assert_eq!(window.load_u16(offset), Ok(0x0708));
        assert_eq!(window.load_u8(offset + 7), Ok(1));
        window.store_u32(offset, 9).unwrap();
        window.store_u16(offset + 4, 8).unwrap();
        window.store_u8(offset + 6, 7).unwrap();
        assert_eq!(window.load_u64(offset), Ok(0x0107_0008_0000_0009));
    }
}

#[test]
fn the_end_is_the_end() {
    let region = region();
    let window = region.window();
    assert_eq!(window.load_u64(SIZE - 8), Ok(0));
    assert_eq!(window.put(SIZE, b""), Ok(()));
    for (offset, len) in
        [(SIZE - 7, 8), (SIZE, 1), (SIZE + 1, 0), (usize::MAX, 1), (usize::MAX - 7, 8), (1, usize::MAX)]
    {
        let error = Error::OutOfRange { offset, len, size: SIZE };
        assert_eq!(window.sub(offset, len).unwrap_err(), error);
        assert_eq!(window.fill(offset, len, 0), Err(error));
        assert_eq!(window.copy_to(offset, &window, 0, len), Err(error));
        assert!(window.copy_to(0, &window, offset, len).is_err());
        if len == 8 {
            assert_eq!(window.load_u64(offset), Err(error));
            assert_eq!(window.store_u64(offset, 1), Err(error));
            assert_eq!(window.get(offset, &mut [0; 8]), Err(error));
            assert_eq!(window.put(offset, &[0; 8]), Err(error));
            assert_eq!(window.atomic_u64(offset).unwrap_err(), error);
        }
    }
}

#[test]
fn a_part_knows_no_more_than_its_part() {
    let region = region();
    let part = region.window().sub(100, 50).unwrap();
    assert_eq!((part.len(), part.is_empty()), (50, false));
    part.put(0, &[7; 50]).unwrap();
    assert_eq!(region.window().load_u8(99), Ok(0));
    assert_eq!(region.window().load_u8(150), Ok(0));
    assert_eq!(part.put(1, &[7; 50]).unwrap_err(), Error::OutOfRange { offset: 1, len: 50, size: 50 });
    assert!(part.sub(50, 0).unwrap().is_empty());
}

#[test]
fn atomics_are_aligned_by_address() {
    let region = region();
    let window = region.window();
    window.atomic_u32(4).unwrap().fetch_add(5, Ordering::Relaxed);
    assert_eq!(window.load_u32(4), Ok(5));
    assert_eq!(window.atomic_u32(6).unwrap_err(), Error::Misaligned { offset: 6, align: 4 });
    // Offset 0 of a part that starts at an odd address is not aligned.
    let odd = window.sub(1, 100).unwrap();
    assert_eq!(odd.atomic_u64(0).unwrap_err(), Error::Misaligned { offset: 0, align: 8 });
    assert!(odd.atomic_u64(7).is_ok());
}

proptest! {
    /// Against a plain vector of bytes: puts, fills and copies within one region, which may overlap.
    #[test]
    fn behaves_like_a_vector_of_bytes(
        steps in prop::collection::vec((0..3, 0..SIZE, 0..SIZE, 0..3000_usize, any::<u8>()), 1..40)
    ) {
        let region = region();
        let window = region.window();
        let mut model = vec![0_u8; SIZE];
        for (what, from, to, len, byte) in steps {
            let fits = |offset: usize| offset + len <= SIZE;
            let result = match what {
                0 => {
                    let bytes: Vec<u8> = (0..len).map(|n| byte.wrapping_add(n as u8)).collect();
                    if fits(to) {
                        model[to..to + len].copy_from_slice(&bytes);
                    }
                    (window.put(to, &bytes), fits(to))
                }
                1 => {
                    if fits(to) {
                        model[to..to + len].fill(byte);
                    }
                    (window.fill(to, len, byte), fits(to))
                }
                _ => {
                    if fits(from) && fits(to) {
                        model.copy_within(from..from + len, to);
                    }
                    (window.copy_to(from, &window, to, len), fits(from) && fits(to))
                }
            };
            prop_assert_eq!(result.0.is_ok(), result.1);
            let mut all = vec![0; SIZE];
            window.get(0, &mut all).unwrap();
            prop_assert!(all == model, "after step {}, {}, {}, {}", what, from, to, len);
        }
    }
}

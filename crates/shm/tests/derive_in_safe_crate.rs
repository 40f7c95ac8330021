//! The derive works in a crate that forbids unsafe code, because the promise is checked by the macro.
#![cfg(not(loom))]
// A test fails by panicking, also in its helpers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]
#![forbid(unsafe_code)]

use shm::Shareable;
use shm::layout::CacheLine;
use shm::region::{Region, RegionOptions};
use shm::sync::{AtomicU32, AtomicU64, Ordering};

#[derive(Shareable)]
#[repr(C)]
struct Header {
    magic: AtomicU64,
    words: [AtomicU32; 2],
    reserved: [AtomicU64; 14],
    line: CacheLine<AtomicU64>,
}

#[derive(Shareable)]
#[repr(C)]
struct Page<T, const N: usize> {
    entries: [T; N],
}

#[test]
fn a_derived_struct_lies_in_a_region() {
    let region = Region::create(&RegionOptions::new("derived", 4096)).unwrap();
    let page = region.view::<Page<AtomicU64, 64>>(0).unwrap();
    page.entries[63].store(7, Ordering::Relaxed);
    assert_eq!(region.window().load_u64(63 * 8), Ok(7));

    let header = region.view::<Header>(1024).unwrap();
    header.magic.store(1, Ordering::Relaxed);
    header.words[1].store(2, Ordering::Relaxed);
    header.reserved[0].store(3, Ordering::Relaxed);
    header.line.store(4, Ordering::Relaxed);
    let word = |offset: usize| region.window().load_u64(1024 + offset).unwrap();
    assert_eq!([word(0), word(8), word(16), word(128)], [1, 2 << 32, 3, 4]);
}

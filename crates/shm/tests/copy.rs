//! All copy kernels against a plain copy: every alignment, every length, nothing touched outside.
#![cfg(not(loom))]
// A test fails by panicking, also in its helpers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)]

use proptest::prelude::*;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use shm::copy::{Kernel, SHORT_BYTES_MAX, copy, kernels};

/// A way to copy.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    kernel: Option<Kernel>,
}

impl Way {
    fn all() -> Vec<Self> {
        let kernels = kernels().into_iter().filter(|kernel| kernel.available);
        let planned = Self { name: "copy", kernel: None };
        kernels.map(|kernel| Self { name: kernel.name, kernel: Some(kernel) }).chain([planned]).collect()
    }

    fn run(&self, to: &mut [u8], from: &[u8]) {
        assert_eq!(to.len(), from.len());
        // SAFETY: two slices of the same length, which cannot overlap; the kernel is available.
        unsafe {
            match self.kernel {
                Some(kernel) => kernel.run(to.as_mut_ptr(), from.as_ptr(), from.len()),
                None => copy(to.as_mut_ptr(), from.as_ptr(), from.len()),
            }
        }
    }
}

const GUARD: u8 = 0xEE;

fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64 ^ len as u64;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Never the guard, so that a guard byte that was copied is noticed, too.
            ((state >> 33) as u8).min(GUARD - 1)
        })
        .collect()
}

/// Copies `len` bytes between buffers at these offsets and checks every byte of the destination.
fn check(way: Way, from_offset: usize, to_offset: usize, len: usize) {
    let source = noise(from_offset + len);
    let mut target = vec![GUARD; to_offset + len + 128];
    way.run(&mut target[to_offset..to_offset + len], &source[from_offset..]);
    let at = || format!("{} of {len} bytes from {from_offset} to {to_offset}", way.name);
    assert!(target[to_offset..to_offset + len] == source[from_offset..], "{}", at());
    assert!(target[..to_offset].iter().all(|&byte| byte == GUARD), "before: {}", at());
    assert!(target[to_offset + len..].iter().all(|&byte| byte == GUARD), "after: {}", at());
}

#[test]
fn every_short_length() {
    for way in Way::all() {
        for len in 0..=SHORT_BYTES_MAX + 200 {
            for (from, to) in [(0, 0), (1, 0), (0, 1), (7, 13), (63, 31)] {
                check(way, from, to, len);
            }
        }
    }
}

#[test]
fn every_alignment() {
    // Lengths around the limits of the kernels' first and last blocks.
    for way in Way::all() {
        for len in [257, 319, 320, 321, 511, 513, 1025, 4097, 16_384 + 63, 16_384 + 64, 16_384 + 65, 20_000] {
            for alignment in 0..64 {
                check(way, 0, alignment, len);
                check(way, alignment, 0, len);
                check(way, alignment, 64 - alignment, len);
            }
        }
    }
}

#[test]
fn large_copies_across_every_range_of_the_plan() {
    for way in Way::all() {
        for len in [100_000, (1 << 20) + 1, (8 << 20) - 1, (8 << 20) + 4097] {
            check(way, 3, 5, len);
        }
    }
}

proptest! {
    #[test]
    fn any_length_at_any_alignment(len in 0..70_000_usize, from in 0..128_usize, to in 0..128_usize) {
        for way in Way::all() {
            check(way, from, to, len);
        }
    }
}

/// Memory whose last byte is followed by a page that must not be touched.
struct Fenced {
    start: *mut u8,
    usable_bytes: usize,
    page: usize,
}

impl Fenced {
    fn new(usable_bytes: usize) -> Self {
        let page = rustix::param::page_size();
        let usable_bytes = usable_bytes.next_multiple_of(page);
        // SAFETY: new mappings at an address that the kernel chooses; the protection is of pages of that
        // mapping.
        unsafe {
            let (both, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
            let all = rustix::mm::mmap_anonymous(std::ptr::null_mut(), usable_bytes + 2 * page, both, flags)
                .unwrap();
            rustix::mm::mprotect(all, page, MprotectFlags::empty()).unwrap();
            rustix::mm::mprotect(all.byte_add(page + usable_bytes), page, MprotectFlags::empty()).unwrap();
            Self { start: all.byte_add(page).cast(), usable_bytes, page }
        }
    }

    fn first(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.usable_bytes);
        // SAFETY: mapped, initialised by the kernel, and borrowed from `self` alone.
        unsafe { std::slice::from_raw_parts_mut(self.start, len) }
    }

    fn last(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.usable_bytes);
        // SAFETY: as in `first`.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(self.usable_bytes - len), len) }
    }
}

impl Drop for Fenced {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping that was made, and nothing borrows it any more.
        unsafe {
            let all = self.start.sub(self.page).cast();
            rustix::mm::munmap(all, self.usable_bytes + 2 * self.page).unwrap();
        }
    }
}

/// Nothing is read or written outside the ranges, not even harmlessly: the pages around them are closed.
#[test]
fn no_byte_outside_is_touched() {
    const LARGEST: usize = 40_000;
    let (mut source, mut target) = (Fenced::new(LARGEST), Fenced::new(LARGEST));
    for way in Way::all() {
        for len in (0..=600).chain([1023, 4096, 16_384, 16_447, 16_448, 16_449, 33_000, LARGEST]) {
            let bytes = noise(len);
            source.last(len).copy_from_slice(&bytes);
            way.run(target.last(len), source.last(len));
            assert!(target.last(len) == bytes, "{} of {len} bytes to the end", way.name);
            source.first(len).copy_from_slice(&bytes);
            way.run(target.first(len), source.first(len));
            assert!(target.first(len) == bytes, "{} of {len} bytes to the start", way.name);
        }
    }
}

/// A peer that writes all the time makes a mixture, and nothing else.
#[test]
fn a_copy_of_bytes_that_change_is_a_mixture_of_old_and_new() {
    use shm::region::{Region, RegionOptions};
    use std::sync::atomic::{AtomicBool, Ordering};

    const SIZE: usize = 32 << 10;
    let region = Region::create(&RegionOptions::new("changing", SIZE)).unwrap();
    let go_on = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while go_on.load(Ordering::Relaxed) {
                for byte in [0x11, 0x22] {
                    region.window().put(0, &[byte; SIZE]).unwrap();
                }
            }
        });
        let mut seen = vec![0; SIZE];
        for _ in 0..300 {
            region.window().get(0, &mut seen).unwrap();
            assert!(seen.iter().all(|byte| [0, 0x11, 0x22].contains(byte)));
        }
        go_on.store(false, Ordering::Relaxed);
    });
}

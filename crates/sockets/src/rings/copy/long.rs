//! Copies of more than 128 bytes: by vector registers, or by `rep movsb` from a length on that is
//! measured.
//!
//! Which of the two is faster depends on the processor. On an AMD EPYC registers copy 500 bytes in 9 ns and 4
//! KiB in 80 ns, `rep movsb` in 22 and 197; processors with fast strings (Intel's FSRM) copy more bytes a
//! cycle by `rep movsb` than a register of 16 bytes takes. So the first ring of a process measures it, which
//! takes some 20 µs.

use core::arch::asm;
use core::cell::UnsafeCell;

use crate::rings::spin;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// From so many bytes on `rep movsb` copies.
static REPEATS_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);

/// What registers take at once.
const BLOCK: usize = 64;

/// Lengths that are measured, which ascend.
const LENGTHS: [usize; 4] = [256, 1024, 4096, 16384];
/// Copies of each, of which the shortest counts: nothing came in between.
const TRIES: usize = 5;
/// Where destinations begin: a message may begin anywhere in a ring.
const OFFSETS: [usize; 2] = [0, 24];
const ROOM_BYTES: usize = LENGTHS[LENGTHS.len() - 1] + BLOCK;

/// Bytes to measure with.
struct Room(UnsafeCell<[[u8; ROOM_BYTES]; 2]>);

// SAFETY: `measure` lets one thread use it, once.
unsafe impl Sync for Room {}

static ROOM: Room = Room(UnsafeCell::new([[0; ROOM_BYTES]; 2]));

/// Copies more than [`BLOCK`] bytes.
///
/// # Safety
/// As [`copy`](super::copy).
#[inline(never)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if length < REPEATS_FROM.load(Ordering::Relaxed) {
            by_registers(from, to, length);
        } else {
            by_repeats(from, to, length);
        }
    }
}

/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn by_registers(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise; the last block ends with the bytes, and may overlap the one before.
    unsafe {
        let mut at = 0;
        while at + BLOCK < length {
            block(from.add(at), to.add(at));
            at += BLOCK;
        }
        block(from.add(length - BLOCK), to.add(length - BLOCK));
    }
}

/// # Safety
/// As [`copy`], of [`BLOCK`] bytes.
#[inline(always)]
unsafe fn block(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "movups {a}, [{from}]",
            "movups {b}, [{from} + 16]",
            "movups {c}, [{from} + 32]",
            "movups {d}, [{from} + 48]",
            "movups [{to}], {a}",
            "movups [{to} + 16], {b}",
            "movups [{to} + 32], {c}",
            "movups [{to} + 48], {d}",
            a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
            from = in(reg) from, to = in(reg) to,
            options(nostack, preserves_flags)
        );
    }
}

/// # Safety
/// As [`copy`].
#[inline(always)]
unsafe fn by_repeats(from: *const u8, to: *mut u8, length: usize) {
    // SAFETY: the caller's promise; it reads and writes just these bytes, upwards (the ABI keeps the flag
    // clear).
    unsafe {
        asm!("rep movsb", inout("rcx") length => _, inout("rsi") from => _, inout("rdi") to => _, options(nostack, preserves_flags));
    }
}

/// Finds out from which length on `rep movsb` is faster here; once.
pub(crate) fn measure() {
    static IS_DONE: AtomicU32 = AtomicU32::new(0);
    if IS_DONE.swap(1, Ordering::Relaxed) == 0 {
        // SAFETY: copies within the room.
        let registers = |from, to, length| unsafe { by_registers(from, to, length) };
        // SAFETY: as above.
        let repeats = |from, to, length| unsafe { by_repeats(from, to, length) };
        let costs = LENGTHS.map(|length| (length, cost(length, registers), cost(length, repeats)));
        REPEATS_FROM.store(repeats_from(&costs), Ordering::Relaxed);
    }
}

/// From which length on the second is faster, by more than an eighth, and stays so.
fn repeats_from(costs: &[(usize, u64, u64)]) -> usize {
    let is_faster = |&&(_, registers, repeats): &&(usize, u64, u64)| repeats + repeats / 8 < registers;
    costs.iter().rev().take_while(is_faster).last().map_or(usize::MAX, |&(length, ..)| length)
}

/// Ticks of the processor's clock that copies of this length take.
#[inline(always)]
fn cost(length: usize, copies: impl Fn(*const u8, *mut u8, usize)) -> u64 {
    let room = ROOM.0.get().cast::<u8>();
    let of = |offset: usize| {
        let (from, to) = (room.cast_const(), room.wrapping_add(ROOM_BYTES + offset));
        let once = |_| {
            let (start, _) = spin::clock();
            copies(from, to, length);
            spin::clock().0.wrapping_sub(start)
        };
        (0..TRIES).map(once).min().unwrap_or(0)
    };
    OFFSETS.into_iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_begin_where_they_are_faster_and_stay_so() {
        assert_eq!(repeats_from(&[(256, 10, 20), (1024, 20, 30), (4096, 80, 200)]), usize::MAX);
        assert_eq!(repeats_from(&[(256, 10, 20), (1024, 40, 30), (4096, 160, 90)]), 1024);
        assert_eq!(repeats_from(&[(256, 30, 20), (1024, 40, 60), (4096, 160, 90)]), 4096);
        assert_eq!(repeats_from(&[(256, 10, 20), (1024, 40, 39), (4096, 160, 155)]), usize::MAX, "by noise");
    }

    unsafe fn registers(from: *const u8, to: *mut u8, length: usize) {
        // SAFETY: the caller's promise.
        unsafe { by_registers(from, to, length) }
    }

    unsafe fn repeats(from: *const u8, to: *mut u8, length: usize) {
        // SAFETY: the caller's promise.
        unsafe { by_repeats(from, to, length) }
    }

    #[test]
    fn both_copy_each_byte_and_no_other() {
        let all: [unsafe fn(*const u8, *mut u8, usize); 2] = [registers, repeats];
        let from: [u8; 5000] = core::array::from_fn(|at| (at * 7 % 251) as u8);
        for copies in all {
            for length in (BLOCK + 1..700).chain([4096, 4097, 4900]) {
                let mut to = [255; 5000];
                // SAFETY: as long.
                unsafe { copies(from.as_ptr().add(3), to.as_mut_ptr().add(1), length) };
                assert_eq!(
                    (to[0], &to[1..=length], to[length + 1]),
                    (255, &from[3..3 + length], 255),
                    "{length}"
                );
            }
        }
    }

    #[test]
    fn a_measurement_chooses_one_of_the_lengths_or_none() {
        measure();
        let from = REPEATS_FROM.load(Ordering::Relaxed);
        assert!(from == usize::MAX || LENGTHS.contains(&from), "{from}");
    }
}

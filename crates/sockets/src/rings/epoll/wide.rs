//! An atomic of sixteen bytes.

use core::arch::asm;

use crate::sync::{AtomicU64, Ordering};

/// Two words, of which the second one can be read by itself.
#[repr(C, align(16))]
pub(super) struct Wide {
    low: AtomicU64,
    high: AtomicU64,
}

impl Wide {
    #[cfg(test)]
    pub(super) const fn new() -> Self {
        Self { low: AtomicU64::new(0), high: AtomicU64::new(0) }
    }

    #[inline(always)]
    pub(super) fn high(&self) -> u64 {
        self.high.load(Ordering::Acquire)
    }

    /// Both, as they were at one moment.
    #[inline(always)]
    pub(super) fn load(&self) -> [u64; 2] {
        // What is 0 is changed to 0.
        self.exchange([0, 0], [0, 0])
    }

    /// Changes both, if they still are `from`.
    #[inline(always)]
    pub(super) fn changes(&self, from: [u64; 2], to: [u64; 2]) -> bool {
        self.exchange(from, to) == from
    }

    /// What was found; if that is `from`, it has been changed. In one order with all sequentially consistent
    /// operations.
    #[inline(always)]
    fn exchange(&self, [low, high]: [u64; 2], [to_low, to_high]: [u64; 2]) -> [u64; 2] {
        let (mut found_low, mut found_high) = (low, high);
        // SAFETY: 16 bytes of its own at a multiple of 16, which every processor of x86-64 but the very first
        // compares and exchanges at once. The compiler keeps rbx for itself: it is put back.
        unsafe {
            asm!(
                "xchg rsi, rbx",
                "lock cmpxchg16b [rdi]",
                "mov rbx, rsi",
                in("rdi") &raw const *self,
                inout("rsi") to_low => _,
                in("rcx") to_high,
                inout("rax") found_low,
                inout("rdx") found_high,
                options(nostack),
            );
        }
        [found_low, found_high]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn only_what_is_as_expected_changes() {
        let wide = Wide::new();
        assert!(!wide.changes([1, 0], [5, 6]));
        assert!(!wide.changes([0, 1], [5, 6]));
        assert_eq!(wide.load(), [0, 0]);
        assert!(wide.changes([0, 0], [5, 6]));
        assert_eq!((wide.load(), wide.high()), ([5, 6], 6));
    }

    #[test]
    fn no_change_of_several_threads_is_lost_or_torn() {
        const ROUNDS: u64 = 20_000;
        let wide = Arc::new(Wide::new());
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let wide = Arc::clone(&wide);
                thread::spawn(move || {
                    for _ in 0..ROUNDS {
                        loop {
                            let now = wide.load();
                            assert_eq!(now[0], now[1].wrapping_mul(3), "read half of a change");
                            if wide.changes(now, [(now[1] + 1).wrapping_mul(3), now[1] + 1]) {
                                break;
                            }
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(wide.load(), [9 * ROUNDS, 3 * ROUNDS]);
    }
}

//! Two buffers between which single copies are timed, whatever the caches hold before.
//!
//! Both are memory as segments are made of. A buffer is made cold by evicting its lines, not by reading
//! others of several times a last-level cache.

use super::{KernelId, RUN, Run, Temperature, copy, kernels};
use crate::Result;
use crate::clock::{Clock, now_ticks_ordered};
use crate::region::{Region, RegionOptions};
use rustix::time::{ClockId, clock_gettime};

/// A reading of the counter costs some 10 ns, so that short copies are timed several at a time, for at least
/// so many bytes.
const BYTES_PER_READING: usize = 64 << 10;
/// The same of bytes that the first cache holds. The counter of some processors goes in steps of 10 ns: of 64
/// KiB, which take 300 ns, that is 3 %, more than what kernels are told apart by.
const HOT_BYTES_PER_READING: usize = 8 * BYTES_PER_READING;
/// From this size on the kernel's clock of the thread is read, which takes some hundred nanoseconds.
const LONG_BYTES: usize = 1 << 20;
/// From this size on a copy is not made once more before it is timed hot: it meets what the one before it has
/// left.
const LARGE_BYTES: usize = 4 << 20;
/// Copies of bytes that were used a while ago go through so many bytes in turn, which are more than a
/// second-level cache holds; up to a quarter of that a copy.
const WHILE_AGO_BYTES: usize = 2 << 20;
/// They begin behind what copies of that size use at other temperatures: bytes that a copy has just used
/// would be taken for a fast kernel's, and bytes that were just evicted for a slow one's.
const WHILE_AGO_BEGIN: usize = WHILE_AGO_BYTES / 4;

/// What makes a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyBy {
    /// [`copy`](fn@super::copy), which follows the plan.
    Plan,
    /// A kernel; the C library's `memcpy` is called as any program calls it.
    Kernel(KernelId),
}

/// Times copies.
#[derive(Debug)]
pub struct CopyTimer {
    source: Region,
    target: Region,
    ns_per_tick: f64,
    /// Where the next copies of bytes that were used a while ago begin.
    next_at: usize,
}

impl CopyTimer {
    /// For copies of up to `largest_bytes`. Twice as much memory is taken.
    ///
    /// # Errors
    /// It cannot be had.
    pub fn new(largest_bytes: usize) -> Result<Self> {
        // Short ones lie side by side in up to twice BYTES_PER_READING.
        let bytes = largest_bytes.max(2 * BYTES_PER_READING);
        let timer = Self {
            source: Region::create(&RegionOptions::new("tieline-tune-source", bytes))?,
            target: Region::create(&RegionOptions::new("tieline-tune-target", bytes))?,
            ns_per_tick: Clock::global().ns_per_tick,
            next_at: 0,
        };
        timer.prefault();
        Ok(timer)
    }

    /// The longest copy that it times, in bytes.
    #[must_use]
    pub fn largest_bytes(&self) -> usize {
        self.source.size_bytes()
    }

    /// Writes every page once: the kernel's work for a new page is no part of a copy.
    fn prefault(&self) {
        for region in [&self.source, &self.target] {
            for offset in (0..region.size_bytes()).step_by(4096) {
                // SAFETY: the region has so many bytes, and is this function's alone.
                unsafe { region.as_ptr().add(offset).write_volatile(0x5a) };
            }
        }
        let ago = (WHILE_AGO_BEGIN + WHILE_AGO_BYTES).min(self.largest_bytes());
        touch(self.source.as_ptr(), ago);
        touch(self.target.as_ptr(), ago);
    }

    /// A copy's time, in nanoseconds. `None` if it is longer than this timer takes, if this processor cannot
    /// run the kernel, or if the temperature [is not timed](is_timed) here.
    pub fn ns(&mut self, by: CopyBy, bytes: usize, at: Temperature) -> Option<f64> {
        if bytes == 0 || bytes > self.largest_bytes() || !is_timed(at) {
            return None;
        }
        match by {
            CopyBy::Plan => Some(self.time(bytes, at, |to, from, len| {
                // SAFETY: see `time`.
                unsafe { copy(to, from, len) };
            })),
            CopyBy::Kernel(KernelId::Libc) => Some(self.time(bytes, at, |to, from, len| {
                // SAFETY: see `time`. Through a black box: of a size that is known, a few moves would be
                // made.
                unsafe { core::ptr::copy_nonoverlapping(from, to, core::hint::black_box(len)) };
            })),
            CopyBy::Kernel(id) => {
                kernels().iter().find(|kernel| kernel.id == id && kernel.available)?;
                let run: Run = RUN[id as usize];
                // SAFETY: see `time`; this processor can run it.
                Some(self.time(bytes, at, |to, from, len| unsafe { run(to, from, len) }))
            }
        }
    }

    /// `copy` gets a destination and a source of so many bytes each that do not overlap.
    fn time(&mut self, bytes: usize, at: Temperature, copy: impl Fn(*mut u8, *const u8, usize)) -> f64 {
        // By lines, which copies of cold memory take whole.
        let copies_of = |all: usize| (all / bytes.max(64)).max(1);
        let before = copies_of(BYTES_PER_READING);
        let copies = if at == Temperature::Hot { copies_of(HOT_BYTES_PER_READING) } else { before };
        // Short copies go to other lines each: one alone would be shorter than a reading of the counter, and
        // a kernel that is fast only with bytes that the first cache holds would be taken for a fast one.
        let spread = if at != Temperature::Hot && copies > 1 { bytes.next_multiple_of(64) } else { 0 };
        let all = spread * (copies - 1) + bytes;
        let while_ago = at == Temperature::ReadNext && all <= self.while_ago_bytes() / 4;
        let begin = if while_ago { self.used_a_while_ago(all) } else { 0 };
        // SAFETY: `begin + all` is within both regions.
        let (source, target) =
            unsafe { (self.source.as_ptr().cast_const().add(begin), self.target.as_ptr().add(begin)) };
        let run = |copies: usize| {
            for number in 0..copies {
                // SAFETY: both regions have room for the longest copy, and for `copies` short ones side by
                // side (`all` is at most twice BYTES_PER_READING, or `bytes`); they are two mappings, so they
                // do not overlap.
                let (to, from) = unsafe { (target.add(number * spread), source.add(number * spread)) };
                copy(to, from, bytes);
            }
        };
        match at {
            Temperature::Hot if bytes <= LARGE_BYTES => run(before),
            Temperature::ReadNext if bytes <= LARGE_BYTES && !while_ago => {
                run(copies);
                touch(target, all);
            }
            // A large copy meets what the one before it has left; others meet what was used a while ago.
            Temperature::Hot | Temperature::ReadNext => {}
            Temperature::ColdTarget => {
                touch(source, all);
                evict_lines(target, all);
            }
            Temperature::Cold => {
                evict_lines(source, all);
                evict_lines(target, all);
            }
        }
        let timed = || {
            run(copies);
            if at == Temperature::ReadNext {
                touch(target, all);
            }
        };
        let ns = if bytes >= LONG_BYTES { own_time_ns(timed) } else { self.wall_time_ns(timed) };
        ns / copies as f64
    }

    fn while_ago_bytes(&self) -> usize {
        WHILE_AGO_BYTES.min(self.largest_bytes().saturating_sub(WHILE_AGO_BEGIN))
    }

    /// The place of `bytes` that were used longer ago than any other of [`WHILE_AGO_BYTES`].
    fn used_a_while_ago(&mut self, bytes: usize) -> usize {
        let begin = if self.next_at + bytes <= self.while_ago_bytes() { self.next_at } else { 0 };
        self.next_at = (begin + bytes).next_multiple_of(64);
        WHILE_AGO_BEGIN + begin
    }

    fn wall_time_ns(&self, timed: impl FnOnce()) -> f64 {
        let begin = now_ticks_ordered();
        timed();
        now_ticks_ordered().wrapping_sub(begin) as f64 * self.ns_per_tick
    }
}

/// Time for which this thread had a processor: during a long copy it may lose it for a while.
fn own_time_ns(timed: impl FnOnce()) -> f64 {
    let now_ns = || {
        let now = clock_gettime(ClockId::ThreadCPUTime);
        now.tv_sec as f64 * 1e9 + now.tv_nsec as f64
    };
    let begin = now_ns();
    timed();
    now_ns() - begin
}

/// Reads a word of every line.
fn touch(at: *const u8, bytes: usize) {
    for offset in (0..bytes).step_by(64) {
        // SAFETY: the caller's buffer has so many bytes; volatile, so that it is read for nothing.
        unsafe { at.add(offset).read_volatile() };
    }
}

/// Whether copies can be timed at this temperature: where lines cannot be evicted, nothing can be made cold.
#[must_use]
pub const fn is_timed(at: Temperature) -> bool {
    EVICTS || matches!(at, Temperature::Hot | Temperature::ReadNext)
}

/// Whether lines can be evicted on this kind of processor.
pub const EVICTS: bool = cfg!(target_arch = "x86_64");

/// Takes the lines of a slice out of all caches, where that [can be done](EVICTS).
pub fn evict(bytes: &[u8]) {
    evict_lines(bytes.as_ptr(), bytes.len());
}

/// The same (Intel 64 and IA-32 Architectures Software Developer's Manual, CLFLUSH: part of SSE2). `at`
/// points to so many bytes.
pub(crate) fn evict_lines(at: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let within = at.addr() % 64;
        // Nothing has no line: the address of an empty slice is none.
        let end = if bytes == 0 { 0 } else { within + bytes };
        for offset in (0..end).step_by(64) {
            let line = at.wrapping_add(offset).wrapping_sub(within);
            // SAFETY: a byte of the caller's buffer lies in the line; every x86-64 processor has the
            // instruction.
            unsafe { core::arch::x86_64::_mm_clflush(line) };
        }
        // SAFETY: no preconditions. The evictions are done before what is timed begins.
        unsafe { core::arch::x86_64::_mm_mfence() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_timed_at_every_temperature_and_made() {
        let mut timer = CopyTimer::new(1 << 20).unwrap();
        for bytes in [1, 64, 129, 4096, 100_000, 1 << 20] {
            for at in Temperature::ALL {
                for by in [CopyBy::Plan, CopyBy::Kernel(KernelId::Libc)] {
                    // SAFETY: within the region, which is this test's alone.
                    unsafe { timer.source.as_ptr().write_volatile(bytes as u8) };
                    let ns = timer.ns(by, bytes, at);
                    assert_eq!(ns.is_some_and(|ns| ns > 0.0), is_timed(at), "{bytes} {at:?} {by:?}");
                    if at != Temperature::ReadNext {
                        // SAFETY: as above.
                        assert_eq!(unsafe { timer.target.as_ptr().read_volatile() }, bytes as u8);
                    }
                }
            }
        }
        assert_eq!(timer.ns(CopyBy::Plan, (1 << 20) + 1, Temperature::Hot), None);
        assert_eq!(timer.ns(CopyBy::Plan, 0, Temperature::Hot), None);
    }

    #[test]
    fn a_kernel_that_this_processor_lacks_is_not_timed() {
        let mut timer = CopyTimer::new(1 << 20).unwrap();
        for kernel in kernels() {
            let ns = timer.ns(CopyBy::Kernel(kernel.id), 128 << 10, Temperature::Hot);
            assert_eq!(ns.is_some(), kernel.available, "{}", kernel.name);
        }
    }

    #[test]
    fn short_copies_of_what_was_used_a_while_ago_go_round() {
        let mut timer = CopyTimer::new(4 << 20).unwrap();
        let mut places: Vec<usize> = (0..40).map(|_| timer.used_a_while_ago(64 << 10)).collect();
        assert!(
            places
                .iter()
                .all(|at| (WHILE_AGO_BEGIN..=WHILE_AGO_BEGIN + WHILE_AGO_BYTES - (64 << 10)).contains(at))
        );
        assert_eq!(places[32], places[0]);
        places.truncate(32);
        places.dedup();
        assert_eq!(places.len(), 32);
    }

    #[test]
    fn evicted_bytes_are_as_before() {
        let bytes: Vec<u8> = (0..10_000).map(|at| at as u8).collect();
        evict(&bytes[3..]);
        evict(&[]);
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == at as u8));
    }
}

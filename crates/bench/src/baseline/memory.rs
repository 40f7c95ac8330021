//! Baseline: copies by the C library, by size and by where the bytes are.

use std::{
    hint::black_box,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use shm::{
    clock::{now_ticks, now_ticks_ordered},
    sync::{AtomicU64, Ordering},
    window::Window,
};

use super::{Shape, settle};
use crate::{error::Result, pinned_pair::PinnedPair, poll::Poll, stats::Samples, timer::Timer};

/// The place of the bytes before the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Temperature {
    /// The same two buffers each time: in this core's caches as far as they fit.
    Hot,
    /// Different buffers each time, out of a set larger than the core's own caches.
    Cold,
    /// Just written by the other core.
    Fresh,
}

/// Bytes of each of the two sets of buffers of a cold copy: far more than a core's own caches.
/// (More than the shared cache of large servers would take gigabytes, so cold means "not in this
/// core's caches".)
pub const COLD_SET_BYTES: usize = 256 << 20;

/// memcpy of one size on one core.
#[derive(Debug)]
pub struct CopyProbe {
    source: Vec<u8>,
    target: Vec<u8>,
    size_bytes: usize,
    slots: usize,
    /// Between two copies, in slots: visits all of them, in no order that a prefetcher follows from
    /// copy to copy.
    stride: usize,
    next: usize,
    shape: Shape,
    ticks: Vec<u64>,
}

impl CopyProbe {
    /// Buffers for copies of `size_bytes`; the memory is touched here.
    pub fn new(timer: &Timer, size_bytes: usize, temperature: Temperature) -> Result<Self> {
        let slots =
            if temperature == Temperature::Hot { 1 } else { (COLD_SET_BYTES / size_bytes.max(1)).max(1) };
        // 0x5a rather than 0: zeroed memory would be one shared page until it is written.
        let mut probe = Self {
            source: vec![0x5a; size_bytes * slots],
            target: vec![0xa5; size_bytes * slots],
            size_bytes,
            slots,
            stride: 7919 % slots,
            next: 0,
            shape: Shape::trial(),
            ticks: Vec::new(),
        };
        let trial_ns = probe.copy_ns(timer, None)?;
        probe.shape = Shape::for_event(timer, trial_ns);
        Ok(probe)
    }

    /// Copies that share a sample.
    pub const fn batch(&self) -> u32 {
        self.shape.batch
    }

    /// One reading: the median time of a copy in ns.
    pub fn copy_ns(&mut self, timer: &Timer, all: Option<&mut Samples>) -> Result<f64> {
        let Self { source, target, size_bytes, slots, stride, next, shape, ticks } = self;
        let size = *size_bytes;
        shape.time(ticks, |_| {
            let at = *next * size;
            // No division: it would cost more than a short copy.
            *next += *stride;
            if *next >= *slots {
                *next -= *slots;
            }
            let (from, to) = (source.get(at..at + size), target.get_mut(at..at + size));
            if let (Some(from), Some(to)) = (from, to) {
                to.copy_from_slice(black_box(from));
                black_box(to);
            }
            Ok(())
        })?;
        Ok(settle(timer, ticks, shape.batch, 1.0, all))
    }
}

const FRESH: &str = "copy of fresh bytes";

/// memcpy of bytes that the other core has just written. Single copies are timed: between two of
/// them the other core writes.
#[derive(Debug)]
pub struct FreshProbe {
    shared: Arc<Mutex<Vec<u8>>>,
    turn: Arc<AtomicU64>,
    own: Vec<u8>,
    samples: u32,
}

impl FreshProbe {
    /// A probe for copies of `size_bytes`.
    pub fn new(size_bytes: usize, samples: u32) -> Self {
        Self {
            shared: Arc::new(Mutex::new(vec![0x5a; size_bytes])),
            turn: Arc::default(),
            own: vec![0; size_bytes],
            samples,
        }
    }

    /// One reading: the median time of a copy in ns, less the cost of reading the clock.
    pub fn copy_ns(
        &mut self,
        timer: &Timer,
        pair: &mut PinnedPair<'_>,
        all: Option<&mut Samples>,
    ) -> Result<f64> {
        let rounds = u64::from(self.samples);
        let base = self.turn.load(Ordering::Relaxed);
        let (shared, turn, own) = (&self.shared, &self.turn, &mut self.own);
        let mut ticks = vec![0u64; self.samples as usize];
        let near = || {
            for (n, slot) in (1..=rounds).zip(&mut ticks) {
                // Release: pairs with the Acquire of the far side's `Poll::word`.
                turn.store(base + 2 * n - 1, Ordering::Release);
                Poll::Paused.word(FRESH, turn, base + 2 * n)?;
                // The lock is free: its cache line is fetched before the clock is read.
                let fresh = lock(shared);
                let start = now_ticks();
                own.copy_from_slice(black_box(&fresh));
                *slot = now_ticks_ordered().saturating_sub(start);
                black_box(&own);
            }
            Ok(())
        };
        let (far_shared, far_turn) = (Arc::clone(shared), Arc::clone(turn));
        let far = move || {
            for n in 1..=rounds {
                Poll::Paused.word(FRESH, &far_turn, base + 2 * n - 1)?;
                lock(&far_shared).fill(n as u8);
                // Release: pairs with the Acquire of the near side's `Poll::word`.
                far_turn.store(base + 2 * n, Ordering::Release);
            }
            Ok(())
        };
        pair.both(FRESH, near, far)?;
        Ok(without_clock(timer, &mut ticks, all))
    }
}

/// Our own copy of bytes that the other core has just written, from given shared memory, so that
/// the baseline has the better of two kernels and uses the same buffers as the measurement.
#[derive(Debug)]
pub struct FreshWindowProbe<'env> {
    near: Window<'env>,
    far: Window<'env>,
    turn: Arc<AtomicU64>,
    own: Vec<u8>,
    samples: u32,
}

impl<'env> FreshWindowProbe<'env> {
    /// A probe on memory that the near side maps as `near` and the far side as `far`.
    pub fn new(near: Window<'env>, far: Window<'env>, samples: u32) -> Self {
        Self { near, far, turn: Arc::default(), own: vec![0; near.len()], samples }
    }

    /// One reading: the median time of a copy in ns, less the cost of reading the clock.
    pub fn copy_ns(
        &mut self,
        timer: &Timer,
        pair: &mut PinnedPair<'env>,
        all: Option<&mut Samples>,
    ) -> Result<f64> {
        let rounds = u64::from(self.samples);
        let base = self.turn.load(Ordering::Relaxed);
        let (near_window, far_window, turn, own) = (self.near, self.far, &self.turn, &mut self.own);
        let mut ticks = vec![0u64; self.samples as usize];
        let near = || {
            for (n, slot) in (1..=rounds).zip(&mut ticks) {
                // Release: pairs with the Acquire of the far side's `Poll::word`.
                turn.store(base + 2 * n - 1, Ordering::Release);
                Poll::Paused.word(FRESH, turn, base + 2 * n)?;
                let start = now_ticks();
                near_window.get(0, own)?;
                *slot = now_ticks_ordered().saturating_sub(start);
                black_box(&own);
            }
            Ok(())
        };
        let far_turn = Arc::clone(turn);
        let far = move || {
            for n in 1..=rounds {
                Poll::Paused.word(FRESH, &far_turn, base + 2 * n - 1)?;
                far_window.fill(0, far_window.len(), n as u8)?;
                // Release: pairs with the Acquire of the near side's `Poll::word`.
                far_turn.store(base + 2 * n, Ordering::Release);
            }
            Ok(())
        };
        pair.both(FRESH, near, far)?;
        Ok(without_clock(timer, &mut ticks, all))
    }
}

/// Median of single samples, less the cost of reading the clock.
fn without_clock(timer: &Timer, ticks: &mut [u64], all: Option<&mut Samples>) -> f64 {
    let cost = timer.ticks(timer.cost_ns() as u64);
    ticks.iter_mut().for_each(|t| *t = t.saturating_sub(cost).max(1));
    settle(timer, ticks, 1, 1.0, all)
}

fn lock(shared: &Mutex<Vec<u8>>) -> MutexGuard<'_, Vec<u8>> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_made_and_timed() {
        let timer = Timer::new().unwrap();
        for temperature in [Temperature::Hot, Temperature::Cold] {
            let mut probe = CopyProbe::new(&timer, 8192, temperature).unwrap();
            assert!(probe.copy_ns(&timer, None).unwrap() > 0.0);
            let copied = probe.target.chunks(8192).filter(|slot| slot[0] == 0x5a).count();
            assert!(copied >= probe.slots.min(50), "{copied} of {}", probe.slots);
            let torn = probe.target.chunks(8192).any(|slot| slot.iter().any(|b| *b != slot[0]));
            assert!(!torn);
        }
    }

    #[test]
    fn fresh_bytes_arrive() {
        let Ok(cpus) = crate::cpus::pair(None, "test") else {
            println!("skipped: needs two processors");
            return;
        };
        let timer = Timer::new().unwrap();
        let mut probe = FreshProbe::new(4096, 200);
        let mut all = Samples::new(false).unwrap();
        let (ns, last) = crate::pinned_pair::on(cpus, |pair| {
            let ns = probe.copy_ns(&timer, pair, Some(&mut all))?;
            Ok((ns, probe.own[4095]))
        })
        .unwrap();
        assert!(ns > 0.0 && all.len() == 200);
        assert_eq!(last, 200, "the last copy holds what the far side wrote last");
    }

    #[test]
    fn fresh_bytes_arrive_through_shared_memory() {
        use shm::region::{Region, RegionOptions};
        let Ok(cpus) = crate::cpus::pair(None, "test") else {
            println!("skipped: needs two processors");
            return;
        };
        let timer = Timer::new().unwrap();
        let region = Region::create(&RegionOptions::new("fresh", 8192)).unwrap();
        let mut probe = FreshWindowProbe::new(region.window(), region.window(), 100);
        let (ns, own) = crate::pinned_pair::on(cpus, move |pair| {
            let ns = probe.copy_ns(&timer, pair, None)?;
            Ok((ns, probe.own))
        })
        .unwrap();
        assert!(ns > 0.0);
        assert!(own.iter().all(|byte| *byte == 100), "the last copy holds what the far side wrote last");
    }
}

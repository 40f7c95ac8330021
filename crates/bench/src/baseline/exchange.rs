//! Baseline: a stream of bytes that one processor copies into memory that both share and another
//! one copies out of it, with two counters and nothing else.
//!
//! It is the limit that the exchange of cache lines between two processors sets for a stream with
//! two copies, whatever its protocol. The best size of a chunk, and the best number of chunks in
//! flight, depend on the caches: several are tried, and the fastest is used.

use std::sync::Arc;

use shm::{
    clock::now_ticks,
    layout::CacheLine,
    sync::{AtomicU64, Ordering},
    window::Window,
};

use crate::{error::Result, pinned_pair::PinnedPair, poll::Poll, timer::Timer};

const WHAT: &str = "exchange baseline";
/// Bytes of a reading: some milliseconds.
const READING_BYTES: u64 = 64 << 20;
/// Bytes of a trial of one shape.
const TRIAL_BYTES: u64 = 8 << 20;
/// Bytes that are copied from and to, one block after the other.
pub const BLOCK_BYTES: usize = 128 << 10;
/// Most bytes in flight: the size of the shared memory.
pub const SHARED_BYTES: usize = 256 << 10;
/// The sizes of a chunk that are tried.
const CHUNKS: [usize; 4] = [8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// The numbers of bytes in flight that are tried.
const WINDOWS: [usize; 3] = [64 << 10, 128 << 10, SHARED_BYTES];
/// Trials of each shape.
const TRIALS: u32 = 3;

/// Chunks that were written and taken. Each counter has a line of its own.
#[derive(Debug, Default)]
struct Counts {
    written: CacheLine<AtomicU64>,
    taken: CacheLine<AtomicU64>,
}

/// The division of the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a chunk.
    pub chunk_bytes: usize,
    /// Bytes in flight, at most.
    pub window_bytes: usize,
}

impl Shape {
    fn all() -> impl Iterator<Item = Self> {
        WINDOWS.into_iter().flat_map(|window_bytes| {
            let fits = move |chunk_bytes: &usize| 2 * chunk_bytes <= window_bytes;
            CHUNKS.into_iter().filter(fits).map(move |chunk_bytes| Self { chunk_bytes, window_bytes })
        })
    }

    const fn slots(self) -> u64 {
        (self.window_bytes / self.chunk_bytes) as u64
    }

    /// The offset of a chunk in the shared memory, and in a block.
    const fn places(self, number: u64) -> (usize, usize) {
        let blocks = (BLOCK_BYTES / self.chunk_bytes) as u64;
        let shared = (number % self.slots()) as usize * self.chunk_bytes;
        (shared, (number % blocks) as usize * self.chunk_bytes)
    }
}

/// The writing side here, the reading one on the far thread.
#[derive(Debug)]
pub struct ExchangeProbe<'env> {
    near: Window<'env>,
    far: Window<'env>,
    counts: Arc<Counts>,
    source: Vec<u8>,
    shape: Shape,
}

impl<'env> ExchangeProbe<'env> {
    /// A probe on memory of [`SHARED_BYTES`], mapped here as `near` and by the far thread as `far`.
    /// Finds the fastest shape.
    pub fn new(
        timer: &Timer,
        pair: &mut PinnedPair<'env>,
        near: Window<'env>,
        far: Window<'env>,
    ) -> Result<Self> {
        let source = (0..BLOCK_BYTES).map(|at| at as u8).collect();
        let first = Shape { chunk_bytes: CHUNKS[0], window_bytes: WINDOWS[0] };
        let mut probe = Self { near, far, counts: Arc::default(), source, shape: first };
        let (mut best, mut fastest) = (first, 0.0);
        for _ in 0..TRIALS {
            for shape in Shape::all() {
                probe.shape = shape;
                let rate = probe.stream(timer, pair, TRIAL_BYTES)?;
                if rate > fastest {
                    (best, fastest) = (shape, rate);
                }
            }
        }
        probe.shape = best;
        Ok(probe)
    }

    /// The fastest shape.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Takes one reading, in GB a second.
    pub fn gb_a_second(&mut self, timer: &Timer, pair: &mut PinnedPair<'env>) -> Result<f64> {
        self.stream(timer, pair, READING_BYTES)
    }

    fn stream(&self, timer: &Timer, pair: &mut PinnedPair<'env>, bytes: u64) -> Result<f64> {
        let (shape, near, far, source) = (self.shape, self.near, self.far, &self.source);
        let chunks = bytes / shape.chunk_bytes as u64;
        let counts = Arc::clone(&self.counts);
        counts.written.0.store(0, Ordering::Relaxed);
        counts.taken.0.store(0, Ordering::Relaxed);
        let reads = move || {
            let mut target = vec![0; BLOCK_BYTES];
            for number in 0..chunks {
                // Acquire: pairs with the Release of the writing side, the bytes come before the count.
                Poll::Paused.until(WHAT, || counts.written.0.load(Ordering::Acquire) > number)?;
                let (shared, at) = shape.places(number);
                if let Some(to) = target.get_mut(at..at + shape.chunk_bytes) {
                    far.get(shared, to)?;
                }
                // Release: pairs with the Acquire of the writing side, which writes over what was taken.
                counts.taken.0.store(number + 1, Ordering::Release);
            }
            std::hint::black_box(&target);
            Ok(())
        };
        let counts = &self.counts;
        let writes = || {
            let start = now_ticks();
            for number in 0..chunks {
                let has_room = || counts.taken.0.load(Ordering::Acquire) + shape.slots() > number;
                Poll::Paused.until(WHAT, has_room)?;
                let (shared, at) = shape.places(number);
                if let Some(from) = source.get(at..at + shape.chunk_bytes) {
                    near.put(shared, from)?;
                }
                // Release: pairs with the Acquire of the reading side, which then finds the bytes.
                counts.written.0.store(number + 1, Ordering::Release);
            }
            Poll::Paused.until(WHAT, || counts.taken.0.load(Ordering::Acquire) == chunks)?;
            Ok(now_ticks().saturating_sub(start))
        };
        let (ticks, ()) = pair.both(WHAT, writes, reads)?;
        Ok((chunks * shape.chunk_bytes as u64) as f64 / timer.ns(ticks).max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use shm::region::{Region, RegionOptions};

    use super::*;

    #[test]
    fn shapes_have_two_chunks_at_least() {
        assert!(Shape::all().all(|shape| shape.slots() >= 2 && shape.window_bytes <= SHARED_BYTES));
        let shape = Shape { chunk_bytes: 64 << 10, window_bytes: 256 << 10 };
        assert_eq!(
            [0, 1, 2, 5].map(|number| shape.places(number)),
            [(0, 0), (64 << 10, 64 << 10), (128 << 10, 0), (64 << 10, 64 << 10)]
        );
    }

    #[test]
    fn a_stream_passes_through_shared_memory() {
        let Ok(cpus) = crate::cpus::pair(None, "test") else {
            println!("skipped: needs two processors");
            return;
        };
        let timer = Timer::new().unwrap();
        let region = Region::create(&RegionOptions::new("exchange", SHARED_BYTES)).unwrap();
        let (near, far) = (region.window(), region.window());
        let rate = crate::pinned_pair::on(cpus, |pair| {
            let mut probe = ExchangeProbe::new(&timer, pair, near, far)?;
            assert!(Shape::all().any(|shape| shape == probe.shape()));
            probe.gb_a_second(&timer, pair)
        })
        .unwrap();
        assert!(rate > 0.0);
        let mut last = vec![0; BLOCK_BYTES];
        region.window().get(0, &mut last[..64]).unwrap();
        assert_eq!(last[..64], (0..64).collect::<Vec<u8>>(), "the bytes of the source have gone through it");
    }
}

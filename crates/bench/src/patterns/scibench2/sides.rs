//! `scibench2` for the paired runner: stores of one size against the fastest copy.

use std::hint::black_box;

use shm::{
    copy::{self, Kernel, KernelId},
    window::Window,
};
use tieline::RemoteSegment;

use super::Way;
use crate::{
    best::Field,
    error::{BenchError, Result},
    patterns::{pace::Pace, put::Only},
    run::Sides,
    stats::order,
    timer::Timer,
};

/// Rounds in which the rivals are compared.
const ROUNDS: usize = 7;
/// Up to this size the C library copies between private buffers, too: no page is crossed, so the
/// kind of memory does not matter, and no bounds are checked. Beyond it only the same buffers are a
/// fair comparison.
const PRIVATE_BYTES_MAX: usize = 4096;
const PAGE: usize = 4096;
/// Source blocks begin here in a page, targets at its beginning: were the lower bits of both
/// addresses equal, the processor would take loads of a short block for ones of the bytes just
/// stored.
const SOURCE_IN_PAGE: usize = 1024;

/// Bytes at a given place within a page.
#[derive(Debug)]
struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize, in_page: usize) -> Self {
        let bytes = vec![0x5a; len + 2 * PAGE];
        let start = bytes.as_ptr().align_offset(PAGE).min(PAGE) + in_page;
        Self { bytes, start, len }
    }

    fn get(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }

    fn get_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[derive(Debug, Clone, Copy)]
enum Rival {
    /// memcpy of the C library between private buffers.
    Private,
    /// One of the kernels, from and to the very same buffers.
    Kernel(Kernel),
}

impl Rival {
    fn name(&self) -> String {
        match self {
            Self::Private => "memcpy of the C library, private buffers".to_owned(),
            Self::Kernel(kernel) if kernel.id == KernelId::Libc => {
                "memcpy of the C library, same buffers".to_owned()
            }
            Self::Kernel(kernel) => format!("copy kernel `{}`, same buffers", kernel.name),
        }
    }
}

/// Stores of one size and what they are compared with, however they travel.
pub(super) trait Stores: Sides {
    /// Stores once what [`crate::patterns::rendezvous::check`] expects there.
    fn store_known(&mut self, seed: u64) -> Result<()>;

    /// Name of what they are compared with.
    fn rival(&self) -> String;

    /// Stores that share a sample.
    fn batch(&self) -> u32;

    /// Stores of a reading.
    fn per_reading(&self) -> u64;
}

impl Stores for StoreSides<'_> {
    fn store_known(&mut self, seed: u64) -> Result<()> {
        Self::store_known(self, seed)
    }

    fn rival(&self) -> String {
        self.rival.name()
    }

    fn batch(&self) -> u32 {
        self.pace.batch()
    }

    fn per_reading(&self) -> u64 {
        self.pace.events()
    }
}

/// Stores of one size against their fastest rival, in GB/s (10⁹ bytes a second).
pub struct StoreSides<'a> {
    timer: &'a Timer,
    remote: &'a RemoteSegment,
    target: Window<'a>,
    way: Way,
    size_bytes: usize,
    source: Aligned,
    private: Aligned,
    rival: Rival,
    pace: Pace,
    /// Median time of each rival before the run, in ns, fastest first.
    pub rivals: Vec<(String, f64)>,
}

impl std::fmt::Debug for StoreSides<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoreSides").field("size_bytes", &self.size_bytes).finish_non_exhaustive()
    }
}

impl<'a> StoreSides<'a> {
    /// Stores of `size_bytes` to the start of `target`, which is the map of `remote`. Finds the
    /// rival.
    pub fn new(
        timer: &'a Timer,
        remote: &'a RemoteSegment,
        target: Window<'a>,
        way: Way,
        size_bytes: usize,
    ) -> Result<Self> {
        if size_bytes == 0 || size_bytes > target.len() {
            let text = format!(
                "stores of {size_bytes} bytes into a segment of {}: give a size between",
                target.len()
            );
            return Err(BenchError::Usage(text));
        }
        let mut sides = Self {
            timer,
            remote,
            target,
            way,
            size_bytes,
            source: Aligned::new(size_bytes, SOURCE_IN_PAGE),
            private: Aligned::new(size_bytes.min(PRIVATE_BYTES_MAX), 0),
            rival: Rival::Private,
            pace: Pace::trial(),
            rivals: Vec::new(),
        };
        let trial_ns = sides.store_ns()?;
        sides.pace = Pace::of(trial_ns);
        // Once more: the first trial of something short is a few clock steps long.
        let trial_ns = sides.store_ns()?;
        sides.pace = Pace::of(trial_ns);
        sides.find_rival()?;
        Ok(sides)
    }

    /// Stores once what [`crate::patterns::rendezvous::check`] expects there.
    pub fn store_known(&mut self, seed: u64) -> Result<()> {
        crate::patterns::rendezvous::fill(self.source.get_mut(), seed);
        match self.way {
            Way::Map => self.target.put(0, self.source.get())?,
            Way::Put => self.remote.put(0, self.source.get())?,
        }
        Ok(self.remote.barrier()?)
    }

    fn candidates(&self) -> Vec<Rival> {
        let able = |kernel: &Kernel| kernel.available && kernel.min_bytes <= self.size_bytes;
        let mut rivals: Vec<Rival> = Vec::new();
        if self.size_bytes <= PRIVATE_BYTES_MAX {
            rivals.push(Rival::Private);
        }
        rivals.extend(copy::kernels().into_iter().filter(able).map(Rival::Kernel));
        rivals
    }

    fn find_rival(&mut self) -> Result<()> {
        let rivals = self.candidates();
        let mut times = vec![Vec::new(); rivals.len()];
        for _ in 0..ROUNDS {
            for (rival, times) in rivals.iter().zip(&mut times) {
                self.rival = *rival;
                times.push(self.rival_ns()?);
            }
        }
        let mut ranked: Vec<(Rival, f64)> = rivals
            .into_iter()
            .zip(times)
            .filter_map(|(rival, times)| Some((rival, order::median(&times)?)))
            .collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((fastest, _)) = ranked.first() {
            self.rival = *fastest;
        }
        self.rivals = ranked.iter().map(|(rival, ns)| (rival.name(), *ns)).collect();
        Ok(())
    }

    /// Name of the rival.
    pub fn rival(&self) -> String {
        self.rival.name()
    }

    /// The division of a reading into samples.
    pub const fn pace(&self) -> &Pace {
        &self.pace
    }

    fn store_ns(&mut self) -> Result<f64> {
        let Self { pace, timer, source, target, remote, .. } = self;
        let from = source.get();
        // Checked after the reading: passing each result through the timing loop would cost a
        // nanosecond, which memcpy, which cannot fail, does not cost.
        let mut failed = false;
        let ns = match self.way {
            Way::Map => pace.read(timer, None, || {
                failed |= target.put(0, black_box(from)).is_err();
                Ok(())
            }),
            Way::Put => pace.read(timer, None, || {
                failed |= remote.put(0, black_box(from)).is_err();
                Ok(())
            }),
        }?;
        if failed {
            // Returns the cause. If the operation no longer fails, the failure was temporary, and
            // the reading is invalid all the same.
            remote.put(0, from)?;
            return Err(BenchError::Reading { value: ns });
        }
        Ok(ns)
    }

    fn rival_ns(&mut self) -> Result<f64> {
        let Self { pace, timer, source, target, private, .. } = self;
        match self.rival {
            Rival::Private => {
                let (from, to) = (source.get(), private.get_mut());
                pace.read(timer, None, || {
                    // Through a black box: the size must not be known, or the copy would be a few
                    // inlined moves.
                    to.copy_from_slice(black_box(from));
                    black_box(&mut *to);
                    Ok(())
                })
            }
            Rival::Kernel(kernel) => {
                let _only = Only::kernel(kernel.id)?;
                let from = source.get();
                let mut failed = false;
                let ns = pace.read(timer, None, || {
                    failed |= target.put(0, black_box(from)).is_err();
                    Ok(())
                })?;
                if failed { Err(BenchError::Reading { value: ns }) } else { Ok(ns) }
            }
        }
    }
}

impl Field for StoreSides<'_> {
    fn others(&self) -> usize {
        self.candidates().len()
    }

    fn name(&self, other: usize) -> String {
        self.candidates()[other].name()
    }

    fn ours_ns(&mut self) -> Result<f64> {
        self.store_ns()
    }

    fn other_ns(&mut self, other: usize) -> Result<f64> {
        self.rival = self.candidates()[other];
        self.rival_ns()
    }
}

impl Sides for StoreSides<'_> {
    fn ours(&mut self) -> Result<f64> {
        let ns = self.store_ns()?;
        Ok(self.size_bytes as f64 / ns)
    }

    fn reference(&mut self) -> Result<f64> {
        let ns = self.rival_ns()?;
        Ok(self.size_bytes as f64 / ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_targets_lie_apart_within_a_page() {
        for len in [1, 64, 4096, 1 << 20] {
            let (source, target) = (Aligned::new(len, SOURCE_IN_PAGE), Aligned::new(len, 0));
            assert_eq!((source.get().len(), target.get().len()), (len, len));
            assert_eq!(source.get().as_ptr().addr() % PAGE, SOURCE_IN_PAGE);
            assert_eq!(target.get().as_ptr().addr() % PAGE, 0);
        }
    }
}

//! Blocks into a remote segment, against the fastest copy there is: the C library's memcpy or any
//! of our kernels, from and to the very same buffers, which are hot or cold.

use shm::{
    clock::now_ticks,
    copy::{self, CLASSES, Kernel, KernelId, Plan, evict},
    window::Window,
};
use tieline::RemoteSegment;

use crate::{
    best::Field,
    error::{BenchError, Result},
    timer::Timer,
};

/// Time of a reading, within these numbers of copies.
const READING_NS: f64 = 3_000_000.0;
const COPIES_MIN: f64 = 4.0;
const COPIES_MAX: f64 = 50.0;
/// Copies of a reading of cold buffers at most: evicting lines takes longer than the copy.
const COLD_COPIES_MAX: f64 = 12.0;

/// While it lives, every copy of this process is made by one kernel.
#[derive(Debug)]
pub(super) struct Only(Plan);

impl Only {
    pub(super) fn kernel(id: KernelId) -> Result<Self> {
        let before = Plan::current();
        Plan::of_classes([id; CLASSES]).install().map_err(|error| BenchError::Usage(error.to_string()))?;
        Ok(Self(before))
    }
}

impl Drop for Only {
    fn drop(&mut self) {
        // It was in force before, so it names kernels that this processor has.
        let _ = self.0.install();
    }
}

/// The kernels that can copy this number of bytes on this processor.
pub(super) fn able(size_bytes: usize) -> Vec<Kernel> {
    let able = |kernel: &Kernel| kernel.available && kernel.min_bytes <= size_bytes;
    copy::kernels().into_iter().filter(able).collect()
}

/// The name of a kernel in reports.
pub(super) fn name_of(kernel: &Kernel) -> String {
    match kernel.id {
        KernelId::Libc => "memcpy of the C library, same buffers".to_owned(),
        _ => format!("copy kernel `{}`, same buffers", kernel.name),
    }
}

/// `put` of one size, and the kernels.
pub struct PutField<'a> {
    timer: &'a Timer,
    remote: &'a RemoteSegment,
    target: Window<'a>,
    source: Vec<u8>,
    kernels: Vec<Kernel>,
    copies: u32,
    cold: bool,
}

impl std::fmt::Debug for PutField<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PutField").field("bytes", &self.source.len()).finish_non_exhaustive()
    }
}

impl<'a> PutField<'a> {
    /// Puts of `size_bytes` to the start of `remote`, which is mapped as `target`; with `cold`, no
    /// cache holds the bytes before a copy, else each is of the same bytes as the one before it.
    /// Checks the bytes.
    pub fn new(
        timer: &'a Timer,
        remote: &'a RemoteSegment,
        target: Window<'a>,
        size_bytes: usize,
        cold: bool,
    ) -> Result<Self> {
        if cold && !copy::EVICTS {
            return Err(BenchError::Usage("lines cannot be evicted on this kind of processor".to_owned()));
        }
        let source: Vec<u8> = (0..size_bytes).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        check(remote, &source)?;
        let kernels = able(size_bytes);
        let mut field = Self { timer, remote, target, source, kernels, copies: 2, cold };
        let trial_ns = field.ours_ns()?.min(field.ours_ns()?);
        let most = if cold { COLD_COPIES_MAX } else { COPIES_MAX };
        field.copies = (READING_NS / trial_ns).clamp(COPIES_MIN, most) as u32;
        Ok(field)
    }

    /// Copies that share a reading.
    pub const fn copies(&self) -> u32 {
        self.copies
    }

    /// Prepares a copy.
    fn prepare(&self) -> Result<()> {
        if self.cold {
            evict(&self.source);
            self.target.evict(0, self.source.len())?;
        }
        Ok(())
    }
}

impl Field for PutField<'_> {
    fn others(&self) -> usize {
        self.kernels.len()
    }

    fn name(&self, other: usize) -> String {
        name_of(&self.kernels[other])
    }

    fn ours_ns(&mut self) -> Result<f64> {
        fastest_ns(self.timer, self.copies, || self.prepare(), || Ok(self.remote.put(0, &self.source)?))
    }

    fn other_ns(&mut self, other: usize) -> Result<f64> {
        let _only = Only::kernel(self.kernels[other].id)?;
        fastest_ns(self.timer, self.copies, || self.prepare(), || Ok(self.target.put(0, &self.source)?))
    }
}

/// The time of the fastest of `copies`, after one that is not counted.
///
/// The fastest, on both sides alike, because the duration of a large copy depends on the share of
/// time that the scheduler gives: on a machine with other work most copies are interrupted, and
/// their median would measure how busy the machine is.
fn fastest_ns(
    timer: &Timer,
    copies: u32,
    prepare: impl Fn() -> Result<()>,
    mut copy: impl FnMut() -> Result<()>,
) -> Result<f64> {
    copy()?;
    let mut fastest = u64::MAX;
    for _ in 0..copies {
        prepare()?;
        let start = now_ticks();
        copy()?;
        fastest = fastest.min(now_ticks().saturating_sub(start));
    }
    Ok(timer.ns(fastest))
}

/// Puts and gets once, outside of all timing.
fn check(remote: &RemoteSegment, source: &[u8]) -> Result<()> {
    remote.put(0, source)?;
    remote.barrier()?;
    let mut back = vec![0; source.len()];
    remote.get(0, &mut back)?;
    match source.iter().zip(&back).position(|(want, got)| want != got) {
        None => Ok(()),
        Some(at) => Err(BenchError::WrongData {
            what: "put",
            message: 0,
            size_bytes: source.len(),
            at,
            want: source[at],
            got: back[at],
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kernel_everywhere_and_back() {
        let before = Plan::current();
        {
            let _only = Only::kernel(KernelId::Libc).unwrap();
            assert_eq!(Plan::current(), Plan::LIBC);
        }
        assert_eq!(Plan::current(), before);
    }

    #[test]
    fn the_fastest_counts_and_the_first_does_not() {
        let timer = Timer::new().unwrap();
        let pauses_us = [0, 3000, 1000, 2000];
        let mut calls = 0;
        let prepared = std::cell::Cell::new(0);
        let prepare = || {
            prepared.set(prepared.get() + 1);
            Ok(())
        };
        let ns = fastest_ns(&timer, 3, prepare, || {
            std::thread::sleep(std::time::Duration::from_micros(pauses_us[calls]));
            calls += 1;
            Ok(())
        });
        assert!(ns.unwrap() >= 900_000.0 && calls == 4);
        assert_eq!(prepared.get(), 3);
    }
}

//! Blocks into a remote segment, against the fastest copy there is: the C library's memcpy or any of our kernels, from and
//! to the very same buffers.
//!
//! Which rival is the fastest is found before the run, by alternating all of them; the paired run is then against that one
//! alone. (Taking the best of many noisy readings in each block would measure the noise.)

use shm::{
    clock::now_ticks,
    copy::{self, CLASSES, Kernel, KernelId, Plan},
    window::Window,
};
use tieline::RemoteSegment;

use crate::{
    error::{BenchError, Result},
    run::Sides,
    stats::order,
    timer::Timer,
};

/// Rounds in which the rivals are compared.
const ROUNDS: usize = 7;
/// Time of a reading, within these numbers of copies.
const READING_NS: f64 = 3_000_000.0;
const COPIES_MIN: f64 = 4.0;
const COPIES_MAX: f64 = 50.0;

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

/// `put` of one size against its fastest rival, in GB/s (10⁹ bytes a second).
pub struct PutSides<'a> {
    timer: &'a Timer,
    remote: &'a RemoteSegment,
    target: Window<'a>,
    source: Vec<u8>,
    rival: Kernel,
    copies: u32,
    /// Median time of each rival before the run, in ns, fastest first.
    pub rivals: Vec<(&'static str, f64)>,
}

impl std::fmt::Debug for PutSides<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PutSides").field("rivals", &self.rivals).finish_non_exhaustive()
    }
}

impl<'a> PutSides<'a> {
    /// Puts of `size_bytes` to the start of `remote`, which is mapped as `target`. Checks the bytes and finds the rival.
    pub fn new(
        timer: &'a Timer,
        remote: &'a RemoteSegment,
        target: Window<'a>,
        size_bytes: usize,
    ) -> Result<Self> {
        let source: Vec<u8> = (0..size_bytes).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect();
        check(remote, &source)?;
        let Some(first) = copy::kernels().into_iter().find(|kernel| kernel.available) else {
            return Err(BenchError::Usage("no kernel can copy on this processor".to_owned()));
        };
        let mut sides = Self { timer, remote, target, source, rival: first, copies: 2, rivals: Vec::new() };
        let trial_ns = sides.put_ns()?.min(sides.put_ns()?);
        sides.copies = (READING_NS / trial_ns).clamp(COPIES_MIN, COPIES_MAX) as u32;
        sides.find_rival()?;
        Ok(sides)
    }

    fn find_rival(&mut self) -> Result<()> {
        let able = |kernel: &Kernel| kernel.available && kernel.min_bytes <= self.source.len();
        let kernels: Vec<Kernel> = copy::kernels().into_iter().filter(able).collect();
        let mut times = vec![Vec::new(); kernels.len()];
        for _ in 0..ROUNDS {
            for (kernel, times) in kernels.iter().zip(&mut times) {
                self.rival = *kernel;
                times.push(self.rival_ns()?);
            }
        }
        let mut ranked: Vec<(Kernel, f64)> = kernels
            .into_iter()
            .zip(times)
            .filter_map(|(kernel, times)| Some((kernel, order::median(&times)?)))
            .collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        if let Some((fastest, _)) = ranked.first() {
            self.rival = *fastest;
        }
        self.rivals = ranked.iter().map(|(kernel, ns)| (kernel.name, *ns)).collect();
        Ok(())
    }

    /// Name of the rival.
    pub fn rival(&self) -> String {
        match self.rival.id {
            KernelId::Libc => "memcpy of the C library, same buffers".to_owned(),
            _ => format!("copy kernel `{}`, same buffers", self.rival.name),
        }
    }

    /// Copies that share a reading.
    pub const fn copies(&self) -> u32 {
        self.copies
    }

    fn put_ns(&mut self) -> Result<f64> {
        let (remote, source) = (self.remote, &self.source);
        fastest_ns(self.timer, self.copies, || Ok(remote.put(0, source)?))
    }

    fn rival_ns(&mut self) -> Result<f64> {
        let _only = Only::kernel(self.rival.id)?;
        let (target, source) = (&self.target, &self.source);
        fastest_ns(self.timer, self.copies, || Ok(target.put(0, source)?))
    }

    fn gigabytes_a_second(&self, ns: f64) -> f64 {
        self.source.len() as f64 / ns
    }
}

/// Time of the fastest of `copies`, after one that is not counted.
///
/// The fastest, on both sides alike, because a large copy takes as long as the share of time that the scheduler gives: on a
/// machine with other work most of them are interrupted, and their median says how busy the machine is.
fn fastest_ns(timer: &Timer, copies: u32, mut copy: impl FnMut() -> Result<()>) -> Result<f64> {
    copy()?;
    let mut fastest = u64::MAX;
    for _ in 0..copies {
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

impl Sides for PutSides<'_> {
    fn ours(&mut self) -> Result<f64> {
        let ns = self.put_ns()?;
        Ok(self.gigabytes_a_second(ns))
    }

    fn reference(&mut self) -> Result<f64> {
        let ns = self.rival_ns()?;
        Ok(self.gigabytes_a_second(ns))
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
        let ns = fastest_ns(&timer, 3, || {
            std::thread::sleep(std::time::Duration::from_micros(pauses_us[calls]));
            calls += 1;
            Ok(())
        });
        assert!(ns.unwrap() >= 900_000.0 && calls == 4);
    }
}

//! Copies by the plan of this process, compared with the C library's `memcpy`, at many sizes, from and to hot
//! and cold memory.
//!
//! Also the duration of measuring a plan, and the difference between two plans.

use std::{cell::RefCell, time::Instant};

use shm::copy::{
    CLASSES, CopyBy, CopyTimer, KernelId, Limits, Plan, Temperature, class_end_bytes, class_of, is_timed,
    measure,
};

use crate::{
    error::{BenchError, Result},
    layout::table::size as shown,
    rng::Rng,
    stats::{Interval, order},
};

/// Sizes of the comparison with `memcpy`.
pub const SIZES: usize = 40;
/// The shortest of them.
const SHORTEST_BYTES: usize = 64;
/// Readings of both sides in each cell.
const BLOCKS: usize = 40;
/// The same for sizes whose readings take milliseconds.
const BLOCKS_LARGE: usize = 32;
const LARGE_BYTES: usize = 4 << 20;
/// Below this size this number of ns is added to `memcpy`'s time: the cost of selecting the kernel.
pub const SHORT_BYTES: usize = 512;
/// See [`SHORT_BYTES`].
pub const SHORT_NS: f64 = 2.0;
/// Readings of each kernel, where two plans differ.
const REPEAT_READINGS: usize = 15;

/// The sizes: powers of two, at which classes of sizes end, and 1.4 times those, which lie within
/// one.
pub fn sizes_bytes() -> [usize; SIZES] {
    std::array::from_fn(|number| {
        let power = SHORTEST_BYTES << (number / 2);
        if number.is_multiple_of(2) { power } else { power / 5 * 7 }
    })
}

/// Copies of one size at one temperature.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The size of a copy.
    pub bytes: usize,
    /// The content of the caches before it.
    pub at: Temperature,
    /// The median time of `memcpy`, with the addition below [`SHORT_BYTES`].
    pub memcpy_ns: f64,
    /// Bandwidth of the plan by that of `memcpy`: the median of the readings' ratios.
    pub median: f64,
    /// Its interval, which holds together with those of all other cells.
    pub ratio: Interval,
}

impl Cell {
    /// The place of the cell in the table.
    pub fn place(&self) -> String {
        format!("{}, {}", shown(self.bytes as u64), self.at.name())
    }

    /// A description.
    pub fn to_text(&self) -> String {
        format!("{} {:.3} ({:.3} … {:.3})", self.place(), self.median, self.ratio.low, self.ratio.high)
    }

    /// Makes a cell of pairs of times: by the plan, and by `memcpy`.
    fn of(bytes: usize, at: Temperature, pairs: &[[f64; 2]], comparisons: usize) -> Option<Self> {
        let allowed_ns = if bytes < SHORT_BYTES { SHORT_NS } else { 0.0 };
        let memcpy: Vec<f64> = pairs.iter().map(|[_, memcpy]| memcpy + allowed_ns).collect();
        let ratios: Vec<f64> = pairs.iter().map(|[plan, memcpy]| (memcpy + allowed_ns) / plan).collect();
        Some(Self {
            bytes,
            at,
            memcpy_ns: order::median(&memcpy)?,
            median: order::median(&ratios)?,
            ratio: order::median_interval_of_many(&ratios, comparisons)?,
        })
    }
}

/// All cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Worst {
    /// By the upper end of the interval, lowest first; never empty.
    pub cells: Vec<Cell>,
    /// Readings of copies by the plan.
    pub readings: u64,
}

impl Worst {
    /// The lowest.
    pub fn cell(&self) -> &Cell {
        &self.cells[0]
    }
}

/// Compares all sizes at all temperatures.
pub fn worst(seed: u64, stop: &dyn Fn() -> bool) -> Result<Worst> {
    let sizes = sizes_bytes();
    let timer = RefCell::new(CopyTimer::new(sizes[SIZES - 1])?);
    let time = |by, bytes, at| timer.borrow_mut().ns(by, bytes, at);
    compare(&sizes, seed, stop, &time)
}

/// The same with any way to time a copy.
fn compare(
    sizes: &[usize],
    seed: u64,
    stop: &dyn Fn() -> bool,
    time: &dyn Fn(CopyBy, usize, Temperature) -> Option<f64>,
) -> Result<Worst> {
    let comparisons = sizes.len() * Temperature::ALL.len();
    let mut rng = Rng::new(seed);
    let (mut cells, mut readings) = (Vec::new(), 0);
    for &bytes in sizes {
        for at in Temperature::ALL.into_iter().filter(|at| is_timed(*at)) {
            if stop() {
                return Err(BenchError::Stopped { what: "copies" });
            }
            let blocks = if bytes > LARGE_BYTES { BLOCKS_LARGE } else { BLOCKS };
            let mut pairs = Vec::with_capacity(blocks);
            for _ in 0..blocks {
                let sides = [CopyBy::Plan, CopyBy::Kernel(KernelId::Libc)];
                let first = usize::from(rng.coin());
                let mut pair = [f64::NAN; 2];
                for side in [first, 1 - first] {
                    pair[side] = time(sides[side], bytes, at).unwrap_or(f64::NAN);
                }
                pairs.push(pair);
            }
            readings += blocks as u64;
            let cell = Cell::of(bytes, at, &pairs, comparisons);
            cells.push(cell.ok_or_else(|| BenchError::NoBlocks { id: format!("copy.worst {bytes}") })?);
        }
    }
    cells.sort_by(|a, b| a.ratio.high.total_cmp(&b.ratio.high));
    if cells.is_empty() {
        return Err(BenchError::Usage("there is no size to compare".to_owned()));
    }
    Ok(Worst { cells, readings })
}

/// Seconds that it takes to measure a plan.
pub fn tune_s() -> Result<f64> {
    let start = Instant::now();
    let _ = measure(Limits::DEFAULT)?.plan();
    Ok(start.elapsed().as_secs_f64())
}

/// Two plans, and the size at which they differ most.
#[derive(Debug, Clone, PartialEq)]
pub struct Repeat {
    /// Sizes that have another kernel.
    pub differ: usize,
    /// The number of compared sizes.
    pub sizes: usize,
    /// The size.
    pub bytes: usize,
    /// Time of a copy by the plan that is slower there: the geometric mean over the temperatures.
    pub slower_ns: f64,
    /// The same by the other.
    pub faster_ns: f64,
    /// Readings.
    pub readings: u64,
}

/// Measures two plans, and times what they differ in.
pub fn repeat(stop: &dyn Fn() -> bool) -> Result<Repeat> {
    let plans = [measure(Limits::DEFAULT)?.plan(), measure(Limits::DEFAULT)?.plan()];
    if stop() {
        return Err(BenchError::Stopped { what: "plans" });
    }
    let timer = RefCell::new(CopyTimer::new(Limits::DEFAULT.largest_bytes)?);
    differ(&plans, &|by, bytes, at| timer.borrow_mut().ns(by, bytes, at))
}

fn differ(plans: &[Plan; 2], time: &dyn Fn(CopyBy, usize, Temperature) -> Option<f64>) -> Result<Repeat> {
    let last = class_of(Limits::DEFAULT.largest_bytes);
    let classes: Vec<usize> = (0..CLASSES.min(last + 1)).collect();
    let mut most: Option<Repeat> = None;
    let (mut count, mut readings) = (0, 0);
    for class in &classes {
        let [one, other] = [0, 1].map(|plan: usize| plans[plan].by_class()[*class]);
        // Sizes with the same kernel take the same time; the first is timed, so that there is
        // something to show.
        if one == other && *class > 0 {
            continue;
        }
        let bytes = class_end_bytes(*class);
        let [one_ns, other_ns] = means(bytes, [one, other], time)?;
        readings += (REPEAT_READINGS * 2) as u64;
        let (slower_ns, faster_ns) = if one == other {
            (one_ns, one_ns)
        } else {
            count += 1;
            (one_ns.max(other_ns), one_ns.min(other_ns))
        };
        if most.as_ref().is_none_or(|most| slower_ns / faster_ns > most.slower_ns / most.faster_ns) {
            most = Some(Repeat { differ: 0, sizes: 0, bytes, slower_ns, faster_ns, readings: 0 });
        }
    }
    let most = most.ok_or_else(|| BenchError::Usage("there is no size to compare".to_owned()))?;
    Ok(Repeat { differ: count, sizes: classes.len(), readings, ..most })
}

/// Times of two kernels in turn, the geometric means over the temperatures of their medians.
fn means(
    bytes: usize,
    kernels: [KernelId; 2],
    time: &dyn Fn(CopyBy, usize, Temperature) -> Option<f64>,
) -> Result<[f64; 2]> {
    let mut logs = [0.0; 2];
    let temperatures: Vec<_> = Temperature::ALL.into_iter().filter(|at| is_timed(*at)).collect();
    for at in &temperatures {
        let mut times = [Vec::new(), Vec::new()];
        for reading in 0..REPEAT_READINGS * 2 {
            let side = reading % 2;
            times[side].push(time(CopyBy::Kernel(kernels[side]), bytes, *at).unwrap_or(f64::NAN));
        }
        for (log, times) in logs.iter_mut().zip(&times) {
            *log += order::median(times).unwrap_or(f64::NAN).ln();
        }
    }
    let means = logs.map(|log| (log / temperatures.len() as f64).exp());
    if means.iter().all(|ns| ns.is_finite()) {
        Ok(means)
    } else {
        Err(BenchError::Reading { value: means[0] + means[1] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_rise_beyond_what_is_measured() {
        let sizes = sizes_bytes();
        assert_eq!((sizes[0], sizes[1], sizes[2], sizes[39]), (64, 84, 128, (32 << 20) / 5 * 7));
        assert!(sizes.windows(2).all(|pair| pair[0] < pair[1]));
        // Longer than any that a plan is measured with, too.
        assert!(sizes[39] > Limits::DEFAULT.largest_bytes);
    }

    /// A simulated machine with noise of a percent, on which the plan takes this multiple of
    /// memcpy's time.
    fn made_up(seed: u64, factor: impl Fn(usize, Temperature) -> f64) -> Worst {
        let rng = RefCell::new(Rng::new(seed));
        let time = |by: CopyBy, bytes: usize, at: Temperature| {
            let noise = 1.0 + rng.borrow_mut().below(1000) as f64 / 1e5;
            let ns = (20.0 + bytes as f64 / 10.0) * noise;
            Some(if by == CopyBy::Plan { ns * factor(bytes, at) } else { ns })
        };
        compare(&sizes_bytes(), seed, &|| false, &time).unwrap()
    }

    #[test]
    fn a_cell_that_is_slow_is_found_and_a_healthy_machine_has_none() {
        for seed in 0..20 {
            assert!(made_up(seed, |_, _| 1.0).cell().ratio.high >= 0.999, "seed {seed}");
        }
        let slow = made_up(1, |bytes, at| if bytes == 4096 && at == Temperature::Cold { 1.05 } else { 1.0 });
        let cell = slow.cell();
        assert_eq!((cell.bytes, cell.at), (4096, Temperature::Cold));
        assert!(cell.ratio.high < 0.98 && cell.to_text().contains("4 KiB, cold"), "{}", cell.to_text());
        assert!(slow.cells[1].ratio.high >= 0.98);
    }

    #[test]
    fn short_copies_may_take_two_nanoseconds_more() {
        let slower = |by_ns: f64, bytes: usize| {
            let pairs = [[50.0 + by_ns, 50.0]; 40];
            Cell::of(bytes, Temperature::Hot, &pairs, 160).unwrap().ratio.high
        };
        assert!((slower(2.0, 256) - 1.0).abs() < 1e-9);
        assert!(slower(4.0, 256) < 0.98 && slower(2.0, 512) < 0.98);
    }

    #[test]
    fn plans_that_differ_are_timed_where_they_do() {
        let time = |by: CopyBy, bytes: usize, _: Temperature| {
            let factor = if by == CopyBy::Kernel(KernelId::Libc) { 1.0 } else { 1.02 };
            Some(bytes as f64 * factor)
        };
        let same = differ(&[Plan::LIBC; 2], &time).unwrap();
        assert_eq!((same.differ, same.slower_ns), (0, same.faster_ns));
        let mut kernels = *Plan::LIBC.by_class();
        kernels[5] = KernelId::RepMovsb;
        let one = differ(&[Plan::LIBC, Plan::of_classes(kernels)], &time).unwrap();
        assert_eq!((one.differ, one.bytes), (1, class_end_bytes(5)));
        assert!((one.slower_ns / one.faster_ns - 1.02).abs() < 1e-9, "{one:?}");
    }
}

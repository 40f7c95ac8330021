//! Prints how fast every copy kernel is on this machine, by size, and what the plan chooses.
//!
//! Kernels alternate in blocks on the same buffers, so that a moved virtual processor disturbs all of them
//! alike; the figure is the median over the blocks.

// A table is what this program is for.
#![allow(clippy::print_stdout)]

use shm::clock::{Clock, now_ticks};
use shm::copy::{Kernel, Plan, copy, kernels};
use shm::region::{Region, RegionOptions};

const SIZES: [usize; 9] = [64, 512, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
const BLOCKS: usize = 31;
const BYTES_PER_BLOCK: usize = 8 << 20;

/// What is compared: the planned copy, and each kernel by itself.
#[derive(Clone, Copy)]
struct Side {
    name: &'static str,
    kernel: Option<Kernel>,
}

impl Side {
    fn run(&self, target: &Region, source: &Region) {
        let size = source.size_bytes().min(target.size_bytes());
        // SAFETY: two regions of this program, so two mappings that do not overlap, both at least `size`
        // long; only available kernels are listed.
        unsafe {
            match self.kernel {
                Some(kernel) => kernel.run(target.as_ptr(), source.as_ptr(), size),
                None => copy(target.as_ptr(), source.as_ptr(), size),
            }
        }
    }
}

fn main() -> Result<(), shm::Error> {
    let available = kernels().into_iter().filter(|kernel| kernel.available);
    let mut sides = vec![Side { name: "copy", kernel: None }];
    sides.extend(available.map(|kernel| Side { name: kernel.name, kernel: Some(kernel) }));
    println!("{:?}", Plan::current());
    print!("{:>10}", "bytes");
    for side in &sides {
        print!("{:>15}", side.name);
    }
    println!("   copy / fastest");
    for size in SIZES {
        let source = Region::create(&RegionOptions::new("source", size))?;
        let target = Region::create(&RegionOptions::new("target", size))?;
        source.window().fill(0, size, 0x5a)?;
        let figures = measure(&sides, &target, &source, size);
        print!("{size:>10}");
        for figure in &figures {
            print!("{figure:>10.2} GB/s");
        }
        let fastest = figures[1..].iter().copied().fold(0.0, f64::max);
        println!("   {:.3}", figures[0] / fastest);
    }
    Ok(())
}

/// Another order in every block, because a kernel that bypasses the cache leaves its successor a cold
/// destination.
fn shuffle(order: &mut [usize], random: &mut u64) {
    for last in (1..order.len()).rev() {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        order.swap(last, (*random % (last as u64 + 1)) as usize);
    }
}

fn measure(sides: &[Side], target: &Region, source: &Region, size: usize) -> Vec<f64> {
    let clock = Clock::global();
    let rounds = (BYTES_PER_BLOCK / size).clamp(1, 20_000);
    let mut samples = vec![Vec::with_capacity(BLOCKS); sides.len()];
    let mut order: Vec<usize> = (0..sides.len()).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for block in 0..=BLOCKS {
        shuffle(&mut order, &mut random);
        for &side in &order {
            sides[side].run(target, source);
            let start = now_ticks();
            for _ in 0..rounds {
                sides[side].run(target, source);
            }
            let ns = clock.ns(now_ticks() - start);
            // The first block only warms up.
            if block > 0 {
                samples[side].push((rounds * size) as f64 / ns);
            }
        }
    }
    samples
        .into_iter()
        .map(|mut side| {
            side.sort_by(f64::total_cmp);
            side[side.len() / 2]
        })
        .collect()
}

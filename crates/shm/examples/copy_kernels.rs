//! Prints how fast every copy kernel is on this machine, by size, and what the plan chooses.
//!
//! Kernels alternate in blocks on the same buffers, so that a moved virtual processor disturbs all of them alike; the
//! figure is the median over the blocks.

// A table is what this program is for.
#![allow(clippy::print_stdout)]

use shm::clock::{Clock, now_ticks};
use shm::copy::{Kernel, copy, kernels};
use shm::region::{Region, RegionOptions};

const SIZES: [usize; 9] =
    [64, 512, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];
const BLOCKS: usize = 31;
const BYTES_PER_BLOCK: usize = 8 << 20;

type Copy<'a> = Box<dyn Fn(*mut u8, *const u8, usize) + 'a>;

fn main() -> Result<(), shm::Error> {
    let available: Vec<Kernel> = kernels().into_iter().filter(|kernel| kernel.available).collect();
    // SAFETY (of all closures): they are only called with two regions that are distinct and long enough.
    let mut sides: Vec<(&str, Copy)> = vec![("copy", Box::new(|d, s, n| unsafe { copy(d, s, n) }))];
    for kernel in &available {
        // SAFETY: as above; the kernel is available.
        sides.push((kernel.name, Box::new(move |d, s, n| unsafe { kernel.run(d, s, n) })));
    }
    print!("{:>10}", "bytes");
    for (name, _) in &sides {
        print!("{name:>15}");
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

/// Another order in every block, because a kernel that bypasses the cache leaves its successor a cold destination.
fn shuffle(order: &mut [usize], random: &mut u64) {
    for last in (1..order.len()).rev() {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        order.swap(last, (*random % (last as u64 + 1)) as usize);
    }
}

fn measure(sides: &[(&str, Copy)], target: &Region, source: &Region, size: usize) -> Vec<f64> {
    let clock = Clock::global();
    let rounds = (BYTES_PER_BLOCK / size).clamp(1, 20_000);
    let mut samples = vec![Vec::with_capacity(BLOCKS); sides.len()];
    let mut order: Vec<usize> = (0..sides.len()).collect();
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    for block in 0..=BLOCKS {
        shuffle(&mut order, &mut random);
        for &side in &order {
            let run = &sides[side].1;
            run(target.as_ptr(), source.as_ptr(), size);
            let start = now_ticks();
            for _ in 0..rounds {
                run(target.as_ptr(), source.as_ptr(), size);
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

//! Times all copy kernels on this machine, and prints the times by size and temperature with the plan that
//! follows.

// A table is what this program is for.
#![allow(clippy::print_stdout)]

use shm::clock::Clock;
use shm::copy::{CLASSES, KernelId, Limits, Temperature, class_end_bytes, measure};

fn main() -> Result<(), shm::Error> {
    let _ = Clock::global();
    let begin = std::time::Instant::now();
    let timings = measure(Limits::DEFAULT)?;
    let took = begin.elapsed();
    let plan = timings.plan();
    for at in Temperature::ALL {
        println!("\n{}: ns of the C library's memcpy, then its time over that of each kernel", at.name());
        print!("{:>10} {:>12} ", "bytes", "libc ns");
        KernelId::ALL.iter().skip(1).for_each(|id| print!("{:>14}", format!("{id:?}")));
        println!("   plan");
        for class in 0..CLASSES {
            let bytes = class_end_bytes(class);
            let Some(libc) = timings.ns(class, KernelId::Libc, at) else { continue };
            print!("{bytes:>10} {libc:>12.1} ");
            for id in KernelId::ALL.into_iter().skip(1) {
                match timings.ns(class, id, at) {
                    Some(ns) => print!("{:>14.3}", libc / ns),
                    None => print!("{:>14}", "-"),
                }
            }
            let chosen = plan.kernel_for(bytes);
            let share =
                timings.best(class, at).and_then(|best| Some(best.1 / timings.ns(class, chosen, at)?));
            println!("   {chosen:?} {:.3} of best", share.unwrap_or(f64::NAN));
        }
    }
    println!("\n{took:?}");
    Ok(())
}

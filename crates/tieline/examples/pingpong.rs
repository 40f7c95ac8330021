//! Request and response by plain stores: two threads, a line of one segment, no system call in between.
//!
//! The request and its response lie in one cache line, so that one transfer of that line carries each
//! message. A program that lets the two lie in different segments pays about twice as much;
//! `tieline bench scipp` measures both.
#![allow(clippy::print_stdout)]

use std::time::{Duration, Instant};

use shm::sync::{AtomicU32, Ordering};
use tieline::{Node, NodeId, NodeOptions, Result, SegmentId, Window};

const ROUNDS: u32 = 10_000;

fn main() -> Result<()> {
    let attach =
        |id| Node::attach_with(&NodeOptions { node: Some(NodeId::new(id)?), ..NodeOptions::default() });
    let (server, client) = (attach(4)?, attach(8)?);
    let segment = server.create_segment(SegmentId(2), 4096)?;
    segment.make_available()?;
    let remote = client.connect_segment(server.id(), SegmentId(2), Duration::from_secs(5))?;
    let map = remote.map()?;

    let took = std::thread::scope(|scope| {
        scope.spawn(|| answer(segment.window()));
        ask(map.window()?)
    })?;
    println!("{ROUNDS} round trips, {:.0} ns each way", took.as_nanos() as f64 / f64::from(2 * ROUNDS));
    Ok(())
}

/// Request word, response word: in the first line of the segment.
fn words(window: Window<'_>) -> Result<(&AtomicU32, &AtomicU32)> {
    Ok((window.atomic_u32(0)?, window.atomic_u32(4)?))
}

fn ask(window: Window<'_>) -> Result<Duration> {
    let (request, response) = words(window)?;
    let start = Instant::now();
    for number in 1..=ROUNDS {
        // Release: pairs with the Acquire in `answer`.
        request.store(number, Ordering::Release);
        // Acquire: pairs with the Release in `answer`.
        while response.load(Ordering::Acquire) != number {
            std::hint::spin_loop();
        }
    }
    Ok(start.elapsed())
}

fn answer(window: Window<'_>) -> Result<()> {
    let (request, response) = words(window)?;
    for number in 1..=ROUNDS {
        // Acquire: pairs with the Release in `ask`.
        while request.load(Ordering::Acquire) != number {
            std::hint::spin_loop();
        }
        // Release: pairs with the Acquire in `ask`.
        response.store(number, Ordering::Release);
    }
    Ok(())
}

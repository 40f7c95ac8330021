//! One thread sends itself messages from one end point to another: what the engine costs without any line
//! that moves between processors. Run it under `valgrind --tool=callgrind` to count instructions.
//!
//! usage: `alone [MESSAGES [BYTES]]`
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Instant;

use message_queue::{MessageQueue, PeerId, Settings, Want};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let times: u32 = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let size: usize = args.next().map_or(Ok(8), |text| text.parse())?;
    let (mut a, mut b) = (MessageQueue::new(Settings::default())?, MessageQueue::new(Settings::default())?);
    let (to, from) = (a.peer(b.name()), b.peer(a.name()));
    let pair = &mut (a, b);
    // The first message waits until the two have met.
    let first = pair.1.receive(Want::exactly(from, 7), vec![0; 8]);
    let _ = pair.0.send_bytes(to, 7, &[1; 8])?;
    while pair.1.test(first)?.is_none() {
        pair.0.progress();
    }
    let begin = Instant::now();
    steady(pair, to, from, times, size)?;
    println!("{:.1} ns a message", begin.elapsed().as_secs_f64() * 1e9 / f64::from(times));
    Ok(())
}

/// A function of its own, so that only its instructions can be counted.
#[inline(never)]
fn steady(
    (a, b): &mut (MessageQueue, MessageQueue),
    to: PeerId,
    from: PeerId,
    times: u32,
    size: usize,
) -> Result<(), message_queue::Error> {
    let (message, mut bytes) = (vec![1; size], vec![0; size]);
    for _ in 0..times {
        let receive = b.receive(Want::exactly(from, 7), bytes);
        let send = a.send_bytes(to, 7, &message)?;
        let status = loop {
            if let Some(status) = b.test(receive)? {
                break status;
            }
            a.progress();
        };
        bytes = status.buffers.into_owned().unwrap_or_default();
        a.wait(send, None)?;
    }
    Ok(())
}

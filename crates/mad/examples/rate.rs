//! Requests a second at a fabric simulator's socket: `rate BASE NODE [QUESTIONS [WINDOW]]`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "its result is what it prints")]

use std::time::{Duration, Instant};

use mad::header::{Path, Smp};
use mad::ibsim::IbsimTransport;
use mad::transport::Address;
use mad::values::Method;
use mad::windowed::{Limits, Windowed};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [base, node, rest @ ..] = words.as_slice() else {
        return Err("usage: rate BASE NODE [QUESTIONS [WINDOW]]".into());
    };
    let questions: u32 = rest.first().map_or(Ok(200_000), |word| word.parse())?;
    let window: usize = rest.get(1).map_or(Ok(0), |word| word.parse())?;
    let mut transport = IbsimTransport::connect(base, node)?;
    let mut client = Windowed::new(Limits { window, ..Limits::default() });
    let begun = Instant::now();
    for key in 0..questions {
        client.ask(
            Address::DIRECTED,
            Smp::directed(Method::GET, mad::sm::attribute::NODE_INFO, 0, &Path::LOCAL),
            key,
        );
    }
    let mut done = Vec::new();
    let mut answers = 0;
    while client.open() > 0 {
        client.drive(&mut transport, Duration::from_secs(1), &mut done)?;
        answers += done.drain(..).filter(|done| done.outcome.answer().is_some()).count();
    }
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{answers} answers in {seconds:.3} s: {:.0} a second; {:?}",
        f64::from(questions) / seconds,
        client.tally()
    );
    Ok(())
}

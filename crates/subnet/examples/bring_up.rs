//! Brings the fabric of a simulator up, says what it took, and attends to it for some seconds:
//! `bring_up BASE NODE [SECONDS]`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "its result is what it prints")]

use std::time::{Duration, Instant};

use mad::MadTransport;
use mad::ibsim::IbsimTransport;
use subnet::{Event, Manager, Options};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [base, node, rest @ ..] = words.as_slice() else {
        return Err("usage: bring_up BASE NODE [SECONDS]".into());
    };
    let seconds: u64 = rest.first().map_or(Ok(0), |word| word.parse())?;
    let begun = Instant::now();
    let mut transport = IbsimTransport::connect(base, node)?;
    transport.set_is_sm(true)?;
    let mut manager = Manager::new(Options::default())?;
    let up = manager.bring_up(&mut transport, &mut |_| (), &|| false)?;
    print!("{}", up.text());
    println!("from start to active: {:.3} s", begun.elapsed().as_secs_f64());
    let until = transport.now() + Duration::from_secs(seconds);
    let mut event = |event| match event {
        Event::Repaired(repaired) => print!("{}", repaired.text()),
        Event::BroughtUp(why, up) => print!("{why}\n{}", up.text()),
    };
    manager.attend(&mut transport, Some(until), &mut event, &|| false)?;
    Ok(())
}

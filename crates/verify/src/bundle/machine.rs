//! Facts about the machine and the testing process.

use bench::env::{ClockRecord, Env};
use bench::timer::Timer;

use super::process::Process;
use super::shelf::Shelf;

pub(super) fn put(shelf: &mut Shelf) {
    let clock = Timer::new().map(|timer| timer.record());
    if let Err(error) = &clock {
        shelf.lacks("machine/env.json, field clock", &error.to_string());
    }
    let arguments = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let clock: ClockRecord = clock.unwrap_or_default();
    shelf.report("machine/env.json", &Env::gather(clock, arguments, 0));
    shelf.report("machine/process.json", &Process::new("self").describe());
}

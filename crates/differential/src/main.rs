//! The command line of the differential test.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod output;

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == differential::executor::ROLE) {
        differential::executor::main(&arguments[1..]);
    }
    commands::main()
}

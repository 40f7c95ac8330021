//! The one binary: parse, call, print. No logic.
//!
//! What it is for: every command of `tieline`, and the classic names (`scipp`, `query`, `dis_diag`) as links to it.
//!
//! What it must never do: decide anything that a library could decide; print what a library should return.
//!
//! Where to start reading: [`args`], then the file in `commands/` that bears the command's name.
#![forbid(unsafe_code)]

mod args;
mod classic;
mod commands;
mod exit;
mod output;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = classic::translate(std::env::args_os().collect());
    match args::Cli::try_parse_from(arguments) {
        Ok(cli) => commands::run(cli),
        Err(error) => {
            // Help and version are no errors; they go to standard output by themselves.
            let status = if error.use_stderr() { exit::USAGE } else { exit::PASS };
            drop(error.print());
            ExitCode::from(status)
        }
    }
}

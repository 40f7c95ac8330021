//! The program `tieline-commands`: parse, call, print. No logic.
//!
//! What it is for: every command of `tieline`, and the classic names (`scipp`, `query`, `dis_diag`). The
//! small program `tieline` (crate `launcher`) becomes it, with the name and the words that it was called by.
//!
//! What it must never do: decide anything that a library could decide; print what a library should return.
//!
//! Where to start reading: [`args`], then the file in `commands/` that bears the command's name.
#![forbid(unsafe_code)]

mod advice;
mod args;
mod classic;
mod commands;
mod elsewhere;
mod environment;
mod exit;
mod interrupt;
mod meaning;
mod output;
mod pages;
mod status_of;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    if let Some(status) = namespaces::is_part(&words) {
        // It was started by this very program, for a host in namespaces.
        return ExitCode::from(status);
    }
    if let Some(status) = verify::agent::is_agent(&words) {
        // A manager has started it, for a tool on another host.
        return ExitCode::from(status);
    }
    if let Some(status) = node::relay::is_relay(&words) {
        // A manager has started it, which forwards connections between other hosts.
        return ExitCode::from(status);
    }
    if let Some(status) = pages::asked(&words) {
        return status;
    }
    let called = words.first().and_then(|name| classic::called(name));
    let arguments = classic::translate(words);
    let parsed = args::parse(&arguments);
    if !matches!(&parsed, Ok(cli) if matches!(cli.command, args::Command::Run(_))) {
        // A file that may not grow is an error of the one who writes it, not the end of the process. Without
        // the handler that is how it ends, which is no reason not to run.
        let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, std::sync::Arc::default());
    }
    match parsed {
        Ok(cli) => commands::run(cli),
        Err(error) => {
            let error = match called {
                Some((name, command)) => args::wrong::called(error, name, &command),
                None => error,
            };
            ExitCode::from(not_parsed(&error, &arguments))
        }
    }
}

/// Help and version, which are results; or a wrong command line. The exit status.
fn not_parsed(error: &clap::Error, arguments: &[OsString]) -> u8 {
    if !error.use_stderr() {
        return output::help(error);
    }
    let json = arguments.iter().take_while(|argument| *argument != "--").any(|argument| argument == "--json");
    let Some(text) = args::wrong::line(error) else {
        // What cannot be shown to anybody is at least in the status.
        drop(error.print());
        if json {
            output::error_as_json(exit::USAGE, "a command is missing: see `tieline --help`");
        }
        return exit::USAGE;
    };
    output::Output { json, quiet: true }
        .failure(&exit::Failure { status: exit::USAGE, error: anyhow::Error::msg(text) });
    exit::USAGE
}

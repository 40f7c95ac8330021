//! Printing: results to standard output, everything else to standard error.

use std::io::{IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use verify::writer::{self, Kind, WriteError};

use crate::exit::{CANNOT, Failure, PASS};
use crate::interrupt::hold_if_interrupted;

/// Schema of what is printed instead of a result.
const ERROR_SCHEMA: &str = "tieline.error/1";

/// How a command prints.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// Results as JSON.
    pub json: bool,
    /// No progress.
    pub quiet: bool,
}

impl Output {
    /// A result: its JSON, or its text. A reader that has gone away is no error.
    pub(crate) fn result(
        self,
        json: impl FnOnce() -> Result<Value, serde_json::Error>,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        hold_if_interrupted();
        let text = if self.json { format!("{:#}\n", json()?) } else { text() };
        print(&text).context("the result cannot be written to standard output")
    }

    /// A result whose form has a name: a field `schema` is added to its JSON.
    pub(crate) fn form(
        self,
        schema: &str,
        json: impl FnOnce() -> Result<Value, serde_json::Error>,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        let named = || {
            let mut value = json()?;
            if let Value::Object(fields) = &mut value {
                fields.insert("schema".into(), schema.into());
            }
            Ok(value)
        };
        self.result(named, text)
    }

    /// An error that ends the command.
    pub(crate) fn failure(self, failure: &Failure) {
        let text = failure.text();
        self.progress_done();
        self.note(&text);
        if self.json {
            error_as_json(failure.status, &text);
        }
    }

    /// A step of long work. On a terminal it replaces the one before.
    pub(crate) fn progress(self, text: &str) {
        hold_if_interrupted();
        if self.quiet {
            return;
        }
        let mut err = std::io::stderr().lock();
        // Nothing is lost if progress cannot be shown.
        if err.is_terminal() {
            drop(write!(err, "\r\x1b[K{text}"));
            drop(err.flush());
        } else if !self.json {
            drop(writeln!(err, "{text}"));
        }
    }

    /// Ends progress on a terminal.
    pub(crate) fn progress_done(self) {
        let mut err = std::io::stderr().lock();
        if !self.quiet && err.is_terminal() {
            drop(write!(err, "\r\x1b[K"));
            drop(err.flush());
        }
    }

    /// Something that a person should know although the command goes on.
    pub(crate) fn note(self, text: &str) {
        drop(writeln!(std::io::stderr().lock(), "tieline: {text}"));
    }
}

fn print(text: &str) -> std::io::Result<()> {
    is_open()?;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// What is printed to a standard output that was closed from the start would vanish without an error.
fn is_open() -> std::io::Result<()> {
    if shm::process::stdout_was_closed() { Err(std::io::Error::other("it is closed")) } else { Ok(()) }
}

/// Help and version: the status that they end with.
pub(crate) fn help(text: &clap::Error) -> u8 {
    match is_open().and_then(|()| text.print()).and_then(|()| std::io::stdout().flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            drop(writeln!(
                std::io::stderr(),
                "tieline: the help cannot be written to standard output: {error}"
            ));
            CANNOT
        }
        _ => PASS,
    }
}

/// For whoever reads JSON: there is no result, and why.
pub(crate) fn error_as_json(status: u8, text: &str) {
    let value = json!({ "schema": ERROR_SCHEMA, "status": status, "error": text });
    // It has been said on standard error, and the exit status says it again.
    drop(print(&format!("{value:#}\n")));
}

/// JSON of a result, as a file beside what is printed.
static RESULT: Kind = Kind {
    what: "result",
    option: "--json-file",
    size_bytes: 0,
    mode: 0o666,
    // Whoever names the file has always got the newest result there.
    may_replace: |_| true,
};

/// Leaves JSON in a file, or leaves the file as it was: no half of it.
pub(crate) fn to_file(path: &Path, value: &Value) -> Result<(), WriteError> {
    writer::write_now(&RESULT, path, format!("{value:#}\n").as_bytes())
}

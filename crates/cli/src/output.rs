//! Prints results to standard output, and everything else to standard error.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::error::ErrorKind;
use proto::wire::is_printable;
use serde_json::{Value, json};
use verify::writer::{self, Kind, WriteError};

use crate::advice;
use crate::exit::{CANNOT, Failure, PASS, without_numbers};
use crate::interrupt::hold_if_interrupted;
use crate::terminal::{self, knows_codes};

/// Schema of what is printed instead of a result.
const ERROR_SCHEMA: &str = "tieline.error/1";

/// How often steps that differ only in numbers are printed, where the output is not a terminal.
const TELL_AGAIN: Duration = Duration::from_secs(5);

/// The step that was printed last.
static LAST_STEP: Mutex<LastStep> = Mutex::new(LastStep { stem: String::new(), at: None });

/// A step that was printed.
struct LastStep {
    /// Its words without the numbers.
    stem: String,
    at: Option<Instant>,
}

impl LastStep {
    /// Whether this step is of another kind than the last, or the last is long ago; if so, it counts as
    /// printed.
    fn is_due(&mut self, text: &str, now: Instant) -> bool {
        let stem = text.replace(|character: char| character.is_ascii_digit(), "");
        if stem == self.stem && self.at.is_some_and(|at| now.duration_since(at) < TELL_AGAIN) {
            return false;
        }
        *self = Self { stem, at: Some(now) };
        true
    }
}

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
        let printed = if self.json { print(&format!("{:#}\n", json()?)) } else { print_text(&text()) };
        printed.context("the result cannot be written to standard output")
    }

    /// What there is of a result, from the thread that is about to end the process.
    pub(crate) fn last_words(self, json: impl FnOnce() -> Value, text: impl FnOnce() -> String) {
        self.progress_done();
        // There is nobody left to tell that it cannot be printed.
        drop(if self.json { print(&format!("{:#}\n", json())) } else { print_text(&text()) });
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

    /// As [`Self::form`]; the text is a file's, which is the same on a terminal.
    pub(crate) fn file(
        self,
        schema: &str,
        json: impl FnOnce() -> Result<Value, serde_json::Error>,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        if self.json {
            return self.form(schema, json, text);
        }
        hold_if_interrupted();
        print(&text()).context("the result cannot be written to standard output")
    }

    /// One of many results: its JSON on one line, or its text, which may be empty.
    pub(crate) fn line(
        self,
        json: impl FnOnce() -> Result<Value, serde_json::Error>,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        let printed = if self.json { print(&format!("{}\n", json()?)) } else { print_text(&text()) };
        printed.context("the result cannot be written to standard output")
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

    /// A step of long work. On a terminal it replaces the one before; elsewhere, where it stays, steps that
    /// differ in numbers alone are told now and then.
    pub(crate) fn progress(self, text: &str) {
        hold_if_interrupted();
        if self.quiet {
            return;
        }
        let (text, mut err) = (&shown(text), std::io::stderr().lock());
        // Nothing is lost if progress cannot be shown.
        if err.is_terminal() && knows_codes() {
            drop(write!(err, "\r\x1b[K{text}"));
            drop(err.flush());
        } else if !self.json
            && LAST_STEP.lock().unwrap_or_else(PoisonError::into_inner).is_due(text, Instant::now())
        {
            drop(writeln!(err, "{text}"));
        }
    }

    /// A part of long work is finished: a line for whoever reads it later. A terminal shows progress instead.
    pub(crate) fn finished(self, text: &str) {
        hold_if_interrupted();
        let mut err = std::io::stderr().lock();
        if !(self.quiet || err.is_terminal() && knows_codes()) {
            // Nothing is lost if it cannot be told.
            drop(writeln!(err, "{}", shown(text)));
        }
    }

    /// A step of short work, of which the result tells as much: shown where the next one replaces it, on a
    /// terminal.
    pub(crate) fn passing(self, text: &str) {
        if std::io::stderr().is_terminal() {
            self.progress(text);
        }
    }

    /// Ends progress on a terminal.
    pub(crate) fn progress_done(self) {
        let mut err = std::io::stderr().lock();
        if !self.quiet && err.is_terminal() && knows_codes() {
            drop(write!(err, "\r\x1b[K"));
            drop(err.flush());
        }
    }

    /// Something that a person should know although the command continues.
    pub(crate) fn note(self, text: &str) {
        drop(writeln!(std::io::stderr().lock(), "tieline: {}", shown(text)));
    }
}

/// A text for a person.
fn print_text(text: &str) -> std::io::Result<()> {
    print_bytes(terminal::for_stdout(&shown(text)).as_bytes())
}

fn print(text: &str) -> std::io::Result<()> {
    print_bytes(shown(text).as_bytes())
}

/// A text as it may go to a terminal. What a manager of another user says, a file, or an argument may hold
/// characters that control it. Commands in it name the cluster.
fn shown(text: &str) -> Cow<'_, str> {
    let mut text = advice::complete(text);
    if text.contains("(os error ") {
        text = without_numbers(&text).into();
    }
    let may_be = |c: char| is_printable(c) || matches!(c, '\n' | '\t');
    if text.chars().all(may_be) {
        return text;
    }
    text.chars().map(|c| if may_be(c) { c } else { '?' }).collect::<String>().into()
}

/// What other programs have printed, as it is; on a terminal without characters that control it.
pub(crate) fn print_foreign(bytes: &[u8]) -> std::io::Result<()> {
    if !std::io::stdout().is_terminal() {
        return print_bytes(bytes);
    }
    let may_be = |c: char| is_printable(c) || matches!(c, '\n' | '\t');
    let text: String =
        String::from_utf8_lossy(bytes).chars().map(|c| if may_be(c) { c } else { '?' }).collect();
    print_bytes(text.as_bytes())
}

/// A result that is a file, not a text. A reader that has gone away is no error.
pub(crate) fn print_bytes(bytes: &[u8]) -> std::io::Result<()> {
    is_open()?;
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
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
            let what = if text.kind() == ErrorKind::DisplayVersion { "version" } else { "help" };
            let line = format!("tieline: the {what} cannot be written to standard output: {error}");
            drop(writeln!(std::io::stderr(), "{}", without_numbers(&line)));
            CANNOT
        }
        _ => PASS,
    }
}

/// For tools that read JSON: there is no result, and why.
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
    // A process that names the file has always got the newest result there.
    may_replace: |_| true,
};

/// Makes sure before a long run that [`to_file`] can write the file, if one was named.
pub(crate) fn may_write(path: Option<&Path>) -> Result<(), WriteError> {
    path.map_or(Ok(()), |path| writer::may_write(&RESULT, path))
}

/// Leaves JSON in a file, or leaves the file as it was: no half of it.
pub(crate) fn to_file(path: &Path, value: &Value) -> Result<(), WriteError> {
    writer::write_now(&RESULT, path, format!("{value:#}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_does_not_control_the_terminal() {
        assert_eq!(shown("node 4:\tup\n"), "node 4:\tup\n");
        assert_eq!(shown("\x1b]0;pwned\x07\x1b[2J\r\u{202e}x"), "?]0;pwned??[2J??x");
        assert_eq!(
            shown("cannot open x: Permission denied (os error 13)"),
            "cannot open x: Permission denied"
        );
    }

    #[test]
    fn steps_that_differ_in_numbers_alone_are_told_now_and_then() {
        let (mut last, start) = (LastStep { stem: String::new(), at: None }, Instant::now());
        let mut at = |text: &str, ms: u64| last.is_due(text, start + Duration::from_millis(ms));
        assert!(at("exchange", 0) && at("exchange: pair 1 of 12", 0));
        assert!(!at("exchange: pair 2 of 12", 10) && !at("exchange: pair 3 of 12", 4999));
        assert!(at("exchange: pair 4 of 12", 5000) && !at("exchange: pair 5 of 12", 5001));
        assert!(at("load", 5001) && at(" 10 %  scipp", 5002));
        assert!(!at(" 20 %  scipp", 6000), "a share that grows is no other step");
        assert!(at("node 4 has stopped", 6001) && at("node 8 was dead", 6002));
    }
}

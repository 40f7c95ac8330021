//! Printing: results to standard output, everything else to standard error.

use std::io::{IsTerminal, Write};

use anyhow::Result;
use serde_json::Value;

use crate::exit::hold_if_interrupted;

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
        match std::io::stdout().lock().write_all(text.as_bytes()) {
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            other => Ok(other?),
        }
    }

    /// A step of long work. On a terminal it replaces the one before.
    pub(crate) fn progress(self, text: &str) {
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

//! Prints texts from a fabric. NodeDescriptions, files and responses are untrusted, and go to a terminal only
//! through [`mad::text`].

use anyhow::Result;
use mad::text::{plain, plain_lines};
use serde_json::Value;

use crate::exit::Failure;
use crate::output::Output;

/// [`Output`], without what may not go to a terminal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shown(pub Output);

impl Shown {
    /// A result whose form has a name.
    pub(super) fn form(
        self,
        schema: &str,
        json: impl FnOnce() -> Result<Value, serde_json::Error>,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        self.0.form(schema, || json().map(cleaned), || plain_lines(&text()))
    }

    /// One of many results.
    pub(super) fn line(
        self,
        json: impl FnOnce() -> Result<Value, serde_json::Error>,
        text: impl FnOnce() -> String,
    ) -> Result<()> {
        self.0.line(|| json().map(cleaned), || plain_lines(&text()))
    }

    /// A step of long work.
    pub(super) fn progress(self, text: &str) {
        self.0.progress(&plain(text));
    }

    /// Ends progress on a terminal.
    pub(super) fn progress_done(self) {
        self.0.progress_done();
    }

    /// Something that a person should know although the command continues.
    pub(super) fn note(self, text: &str) {
        self.0.note(&plain_lines(text));
    }

    /// No events are wanted.
    pub(super) fn is_quiet(self) -> bool {
        self.0.quiet
    }
}

/// JSON of strangers' words: it may be examined on a terminal as well.
fn cleaned(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(plain_lines(&text)),
        Value::Array(all) => Value::Array(all.into_iter().map(cleaned).collect()),
        Value::Object(all) => {
            Value::Object(all.into_iter().map(|(name, value)| (plain(&name), cleaned(value))).collect())
        }
        other => other,
    }
}

/// An error that may name what strangers call themselves.
pub(super) fn failure(failure: Failure) -> Failure {
    let text = plain_lines(&failure.text());
    Failure { status: failure.status, error: anyhow::Error::msg(text) }
}

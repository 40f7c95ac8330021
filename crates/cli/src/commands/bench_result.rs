//! The common part of all benchmarks between two nodes: progress, an early end by a signal, thresholds, the
//! result file.

use std::path::Path;
use std::sync::Arc;

use bench::progress::{Progress, Waiter};
use bench::results::Document;
use bench::thresholds::{Judgements, Thresholds};
use serde::Serialize;
use serde_json::Value;

use crate::exit::{Failure, Outcome, PASS};
use crate::interrupt;
use crate::output::{Output, to_file};

/// Shows where a measurement is. From its beginning on a signal ends the measurement early, not the command:
/// what there is is printed, as partial.
pub(super) struct Measuring {
    output: Output,
}

impl Measuring {
    /// Not yet begun.
    pub(super) const fn of(output: Output) -> Self {
        Self { output }
    }

    /// From now on it is measured.
    pub(super) fn begun(&mut self) -> Result<&mut Self, Failure> {
        interrupt::end_with_what_there_is()?;
        Ok(self)
    }

    pub(super) fn begin(output: Output) -> Result<Self, Failure> {
        let mut measuring = Self::of(output);
        measuring.begun()?;
        Ok(measuring)
    }
}

impl Progress for Measuring {
    fn tell(&mut self, what: &str, share: f64) {
        self.output.progress(&format!("{:3.0} %  {what}", 100.0 * share));
    }

    fn finished(&mut self, line: &str) {
        self.output.finished(line);
    }

    fn stop(&self) -> bool {
        interrupt::has_arrived()
    }

    fn waiter(&self) -> Arc<dyn Waiter> {
        Arc::new(Waiting(self.output))
    }
}

/// For a wait on another thread.
struct Waiting(Output);

impl Waiter for Waiting {
    fn tell(&self, what: &str) {
        self.0.progress(what);
    }

    fn stop(&self) -> bool {
        interrupt::has_arrived()
    }
}

/// What to do with a report besides printing it.
#[derive(Default)]
pub(super) struct Rest<'a> {
    /// It was ended early.
    pub(super) partial: bool,
    /// What to judge it by.
    pub(super) thresholds: Option<&'a Thresholds>,
    /// Where to leave its JSON.
    pub(super) file: Option<&'a Path>,
}

/// The thresholds of a file, if one was given; there must be some for `what`, whose names begin with
/// `family`.
pub(super) fn read_thresholds(
    path: Option<&Path>,
    what: &str,
    family: &str,
) -> Result<Option<Thresholds>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let thresholds = Thresholds::read(path)?;
    thresholds.expect_some(what, family)?;
    Ok(Some(thresholds))
}

impl Measuring {
    /// Says that a result is partial, if it is; in its JSON it says so itself.
    pub(super) fn say_if_partial(&self, partial: bool) {
        if partial {
            self.output
                .note("ended by a signal: the result is partial: it contains what was measured before");
        }
    }

    /// Prints the result, judged if that was asked for, and leaves it in a file if that was.
    pub(super) fn conclude(
        &self,
        report: &impl Serialize,
        text: impl FnOnce() -> String,
        rest: Rest<'_>,
    ) -> Outcome {
        self.output.progress_done();
        let mut value = serde_json::to_value(report)?;
        let judgements = rest.thresholds.map(|thresholds| judge(thresholds, &mut value)).transpose()?;
        let printed = self.output.result(
            || Ok(value.clone()),
            || {
                let mut text = text();
                if let Some(judgements) = &judgements {
                    text.push_str(&judgements.to_text());
                }
                text
            },
        );
        self.say_if_partial(rest.partial);
        printed?;
        if let Some(path) = rest.file {
            to_file(path, &value)?;
        }
        Ok(judgements.map_or(PASS, |judgements| judgements.verdict.exit_status()))
    }
}

/// Judges a report, and says so in its JSON.
fn judge(thresholds: &Thresholds, value: &mut Value) -> Result<Judgements, Failure> {
    let judgements = thresholds.judge(&Document::of("this run", value)?);
    if let Value::Object(fields) = value {
        fields.insert("judged".into(), serde_json::to_value(&judgements)?);
    }
    Ok(judgements)
}

//! Compares a result with an earlier one: the worse of both verdicts is that of the run.

use std::path::Path;

use bench::compare::{self, verify::Sections};
use bench::results::{DocumentError, OF_VERIFY, read_json};
use serde_json::Value;

use crate::run::Report;
use crate::verdict::Verdict;

/// An earlier result.
#[derive(Debug)]
pub struct Baseline {
    name: String,
    document: Value,
}

impl Baseline {
    /// Reads what `tieline verify --json` has left, and makes sure that something can be compared with it.
    pub fn read(path: &Path) -> Result<Self, DocumentError> {
        let baseline = Self { name: path.display().to_string(), document: read_json(path, OF_VERIFY)? };
        // With itself: reports now what cannot be compared.
        baseline.compare(&baseline.document)?;
        Ok(baseline)
    }

    /// What became of it; `new` is a document of the same form.
    pub fn compare(&self, new: &Value) -> Result<Sections, DocumentError> {
        let old = (self.name.as_str(), &self.document);
        compare::verify::values_of(old, ("this run", new), &compare::Options::default())
    }
}

/// A result, and what it is beside an earlier one, if there is one.
#[derive(Debug)]
pub struct Judged {
    /// The result.
    pub report: Report,
    /// The comparison.
    pub compared: Option<Sections>,
}

impl Judged {
    /// The worse of both.
    pub fn verdict(&self) -> Verdict {
        let compared = self.compared.as_ref().map(|compared| compared.verdict.into());
        Verdict::worst([self.report.verdict].into_iter().chain(compared))
    }

    /// As `--json` prints it.
    pub fn document(&self) -> Result<Value, serde_json::Error> {
        let mut value = serde_json::to_value(&self.report)?;
        if let (Some(compared), Value::Object(fields)) = (&self.compared, &mut value) {
            fields.insert("baseline".into(), serde_json::to_value(compared)?);
            fields.insert("verdict".into(), serde_json::to_value(self.verdict())?);
        }
        Ok(value)
    }

    /// For a terminal or a mail.
    pub fn render(&self) -> String {
        self.beside(self.report.render())
    }

    /// In one line, for a job's prolog.
    pub fn render_line(&self) -> String {
        self.beside(self.report.render_line())
    }

    fn beside(&self, mut text: String) -> String {
        if let Some(compared) = &self.compared {
            text.push_str(&format!("\nBeside {}:\n\n{}", compared.old, compared.to_text()));
        }
        text
    }
}

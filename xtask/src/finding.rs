//! The result of a rule: a place, what is wrong, what to do.

use std::fmt;

/// How much it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Printed; the check passes.
    Warning,
    /// The check fails.
    Error,
}

/// One violation, in the form that editors jump to: `file:line: rule: what: next step`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Relative to the root of the repository.
    pub path: String,
    /// From 1.
    pub line: usize,
    /// Name of the rule, also what an exemption names.
    pub rule: &'static str,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub next_step: String,
    /// Whether it fails the check.
    pub severity: Severity,
}

impl Finding {
    /// A violation that fails the check.
    pub fn error(
        path: &str,
        line: usize,
        rule: &'static str,
        what: impl Into<String>,
        next_step: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_owned(),
            line,
            rule,
            what: what.into(),
            next_step: next_step.into(),
            severity: Severity::Error,
        }
    }

    /// The same, only printed.
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.severity == Severity::Warning { "warning: " } else { "" };
        write!(f, "{}:{}: {mark}{}: {}: {}", self.path, self.line, self.rule, self.what, self.next_step)
    }
}

//! Thresholds from a file: by name or pattern, relative to the reference, or absolute.
//!
//! ```toml
//! ["scipp.*"]
//! target_ratio = 1.0      # what one hopes for: shown, judges nothing
//! upper_ratio = 1.25      # to the baseline of the moment
//!
//! ["scipp.half_rtt.4B"]   # a name wins over a pattern, a longer pattern over a shorter one
//! upper = "150 ns"
//! ```
//!
//! [`Thresholds::builtin`] are the goals of the acceptance figures in this form, [`Thresholds::read`] takes a
//! file, [`Thresholds::judge`] a document of any benchmark, [`Thresholds::apply`] a set of figures. An entry
//! of a file replaces the built-in goal of a figure as a whole.

pub mod ids;
mod judge;
mod parse;

use std::{
    fmt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

pub use self::judge::{Judged, Judgements};
use crate::{
    acceptance::catalogue::{self, Copies, Entry, Fabric, Kind, Memory, Messages, Ofi, Sisci, Sockets},
    patterns::{programs::twins::Twin, subnet},
    quantity::{Dimension, Quantity},
    verdict::{Goal, Op},
};

/// A file of thresholds cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ThresholdsError {
    /// It cannot be read.
    #[error("thresholds {path} cannot be read: {source}: `tieline bench thresholds` prints an example")]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{source_name}, line {line}: {message}")]
    Malformed {
        /// The name of the file.
        source_name: String,
        /// The line, from 1.
        line: usize,
        /// The mistake, and what was expected.
        message: String,
    },
    /// It has no threshold for the measurement.
    #[error("{source_name} has no threshold for {what}: its names are {names}")]
    Nothing {
        /// The name of the file.
        source_name: String,
        /// The measurement.
        what: String,
        /// The names of its figures.
        names: String,
    },
}

/// The bounds of a value; each may be absent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Bounds {
    /// The hoped-for value; it judges nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<f64>,
    /// At least this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lower: Option<f64>,
    /// At most this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upper: Option<f64>,
}

impl Bounds {
    /// Whether it has a bound.
    pub const fn judges(&self) -> bool {
        self.lower.is_some() || self.upper.is_some()
    }

    fn scaled(&self, factor: f64) -> Self {
        let scale = |value: Option<f64>| value.map(|value| value * factor);
        Self { target: scale(self.target), lower: scale(self.lower), upper: scale(self.upper) }
    }
}

/// One entry.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// A name, or a pattern with `*`.
    pub pattern: String,
    /// The line of the file, from 1; 0 if built in.
    pub line: usize,
    /// Bounds of the ratio to the reference.
    pub ratio: Bounds,
    /// The bounds of the value, in the unit of its dimension.
    pub value: Bounds,
    /// The dimension of the value.
    pub dimension: Option<Dimension>,
}

/// All entries.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds {
    /// The file, or `built in`.
    pub source: String,
    /// The entries, in the order of the file.
    pub entries: Vec<Threshold>,
}

/// Larger files are not read.
const FILE_BYTES_MAX: u64 = 4 << 20;

impl Thresholds {
    /// The goals of the acceptance figures.
    pub fn builtin() -> Self {
        let entries = catalogue::ALL.iter().map(builtin).collect();
        Self { source: "built in".to_owned(), entries }
    }

    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, ThresholdsError> {
        let text = user_files::read_regular(path, FILE_BYTES_MAX)
            .map_err(|source| ThresholdsError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads a text; `source` is what people call it.
    pub fn parse(source: &str, text: &str) -> Result<Self, ThresholdsError> {
        parse::parse(source, text)
    }

    /// The entry for a figure: its name, else the pattern with the most letters that matches it.
    pub fn find(&self, id: &str) -> Option<&Threshold> {
        let literal = |entry: &&Threshold| {
            let exact = entry.pattern == id;
            (exact, entry.pattern.chars().filter(|c| *c != '*').count())
        };
        self.entries.iter().filter(|entry| ids::matches(&entry.pattern, id)).max_by_key(literal)
    }

    /// Checks before a measurement that the file has a threshold for `what`, whose names begin with
    /// `family`.
    pub fn expect_some(&self, what: &str, family: &str) -> Result<(), ThresholdsError> {
        let concerns =
            |entry: &Threshold| ids::meant(&entry.pattern).iter().any(|(id, _)| id.starts_with(family));
        if self.entries.iter().any(concerns) {
            return Ok(());
        }
        let names: Vec<&str> = self.entries.iter().map(|entry| entry.pattern.as_str()).collect();
        Err(ThresholdsError::Nothing {
            source_name: self.source.clone(),
            what: what.to_owned(),
            names: if names.is_empty() { "none".to_owned() } else { names.join(", ") },
        })
    }

    /// Writes them as a file.
    pub fn to_toml(&self) -> String {
        let mut text = String::from(
            "# Limits of figures. A name wins over a pattern such as [\"scipp.*\"].\n\
             # *_ratio: limits of the ratio to the reference of the same run.\n\
             # lower, upper: limits of the value, with its unit. target: shown only, never judged.\n",
        );
        for entry in &self.entries {
            text.push_str(&format!("\n{entry}"));
        }
        text
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "[\"{}\"]", self.pattern)?;
        let named =
            |bounds: &Bounds| [("target", bounds.target), ("lower", bounds.lower), ("upper", bounds.upper)];
        for (name, value) in named(&self.ratio) {
            if let Some(value) = value {
                writeln!(f, "{name}_ratio = {}", exact(value))?;
            }
        }
        let unit = self.dimension.map_or("", Dimension::unit);
        for (name, value) in named(&self.value) {
            if let Some(value) = value {
                writeln!(f, "{name} = \"{value} {unit}\"")?;
            }
        }
        Ok(())
    }
}

/// A number as TOML takes it for one that need not be whole.
fn exact(value: f64) -> String {
    format!("{value:?}")
}

fn builtin(entry: &Entry) -> Threshold {
    let (mut ratio, mut value) = (Bounds::default(), Bounds::default());
    let mut absolute = |bound: f64, unit: &str, at_least: bool| {
        let quantity = Quantity::of(bound, unit);
        let bound = quantity.map(|quantity| quantity.value);
        value = if at_least { Bounds { lower: bound, ..value } } else { Bounds { upper: bound, ..value } };
        quantity.map(|quantity| quantity.dimension)
    };
    let dimension = match entry.kind {
        Kind::Scipp { goal, .. }
        | Kind::Put { goal, .. }
        | Kind::Load { goal }
        | Kind::Dma { goal, .. }
        | Kind::Ring { goal, .. }
        | Kind::Copies(Copies::Worst { goal } | Copies::TuneRepeat { goal })
        | Kind::Store { goal, .. }
        | Kind::Spinning { goal }
        | Kind::Sockets(
            Sockets::Passthrough { goal, .. }
            | Sockets::Beside { goal, .. }
            | Sockets::AboveBaseline { goal, .. }
            | Sockets::Twin(
                Twin::Echo { goal, .. }
                | Twin::EchoTail { goal, .. }
                | Twin::OneCore { goal }
                | Twin::Oversubscribed { goal }
                | Twin::Request { goal }
                | Twin::Short { goal, .. },
            ),
        )
        | Kind::Ofi(Ofi { goal, .. })
        | Kind::Fleet { goal, .. }
        | Kind::Messages(Messages { goal, .. })
        | Kind::Memory(Memory { goal, .. })
        | Kind::Sleeping { goal } => {
            ratio = bounds_of(goal);
            None
        }
        Kind::Fabric(Fabric::Quality { goal, .. }) => {
            ratio = bounds_of(goal);
            None
        }
        Kind::Fabric(
            Fabric::Route { at_most, .. }
            | Fabric::Fitting { at_most }
            | Fabric::Reroute { at_most }
            | Fabric::Check { at_most }
            | Fabric::Sweep { at_most }
            | Fabric::Counters { at_most },
        ) => absolute(at_most, "s", false),
        Kind::Fabric(Fabric::Rate { at_least }) => absolute(at_least, "M/s", true),
        Kind::Fabric(Fabric::Memory { at_most, .. }) => absolute(at_most, "MB", false),
        Kind::Fabric(Fabric::Subnet { load, limit, .. }) => match load {
            subnet::Load::Paths => {
                ratio = bounds_of(Goal::at_least(limit));
                None
            }
            subnet::Load::Memory => absolute(limit, "MB", false),
            _ => absolute(limit, "s", false),
        },
        Kind::Sisci(Sisci::Copy { goal, .. }) => {
            ratio = bounds_of(goal);
            None
        }
        Kind::Sisci(Sisci::PingPong { at_most } | Sisci::Scale { at_most }) => {
            ratio = bounds_of(Goal::at_most(at_most));
            None
        }
        Kind::Shadow { .. } => {
            ratio = bounds_of(Goal::at_most(1.0));
            None
        }
        Kind::Sisci(Sisci::Call { at_most }) => absolute(at_most, "ns", false),
        Kind::Sisci(Sisci::Connect { at_most }) => absolute(at_most, "us", false),
        Kind::Copies(Copies::TuneTime { at_most }) => absolute(at_most, "s", false),
        Kind::Overhead { at_most } => absolute(at_most, "ns", false),
        Kind::Sockets(Sockets::Start { at_most }) => absolute(at_most, "ms", false),
        Kind::Sockets(Sockets::Twin(Twin::IdleTime { at_most })) => absolute(at_most, "ms/min", false),
        Kind::Sockets(Sockets::Twin(Twin::IdleMemory { at_most })) => absolute(at_most, "kB", false),
        Kind::Connect { at_most } => absolute(at_most, "us", false),
        Kind::IdleCpu { at_most } => absolute(at_most, "ms/min", false),
        Kind::IdlePss { at_most } | Kind::UpPss { at_most, .. } => absolute(at_most, "MB", false),
        Kind::Up { at_most } | Kind::Verify { at_most, .. } => absolute(at_most, "s", false),
    };
    Threshold { pattern: entry.id.to_owned(), line: 0, ratio, value, dimension }
}

fn bounds_of(goal: Goal) -> Bounds {
    match goal.op {
        Op::AtMost => Bounds { upper: Some(goal.limit), ..Bounds::default() },
        Op::AtLeast => Bounds { lower: Some(goal.limit), ..Bounds::default() },
    }
}

#[cfg(test)]
mod tests;

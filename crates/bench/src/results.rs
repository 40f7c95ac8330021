//! Reads any benchmark document into figures with the names that goals use.
//!
//! [`crate::compare`] and [`crate::thresholds`] work on these, so that a table of `scipp` can be
//! compared and judged as a figure of `acceptance` can. A document is a file that may have been
//! edited: whatever is wrong with it is a [`DocumentError`] that names the file.

mod figures;
mod tools;

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{
    env::Env,
    figure::{Figures, Missing, Stat},
    stats::{Block, Interval, paired::PairedRatio},
    verdict::Verdict,
};

/// A file that should hold a result does not.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It cannot be read.
    #[error("{path} cannot be read: {source}: give {wanted}")]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// What should be in it.
        wanted: &'static str,
        /// The error.
        source: std::io::Error,
    },
    /// It is not JSON.
    #[error("{path}, line {line}: not JSON ({reason}): give {wanted}")]
    NotJson {
        /// The path of the file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The message of the JSON parser, without the place.
        reason: String,
        /// What should be in it.
        wanted: &'static str,
    },
    /// It is JSON, but no result.
    #[error("{name}: its schema is {schema}, and {known} is needed: give {wanted}")]
    WrongSchema {
        /// The document's name.
        name: String,
        /// The schema that it has, as [`said_schema`] puts it.
        schema: String,
        /// The schemas that are read.
        known: String,
        /// What should be in the file.
        wanted: &'static str,
    },
    /// A field is missing or of the wrong kind.
    #[error("{name}: {schema}: {reason}")]
    Malformed {
        /// The document's name.
        name: String,
        /// Its schema.
        schema: String,
        /// What is wrong.
        reason: String,
    },
    /// There is nothing in it.
    #[error("{name}: {schema} without a single figure: there is nothing to compare or judge")]
    Empty {
        /// The document's name.
        name: String,
        /// Its schema.
        schema: String,
    },
    /// Two documents of different things.
    #[error("{old_name} is {old} and {new_name} is {new}: give two results of the same command")]
    Unlike {
        /// First document.
        old_name: String,
        /// Its schema.
        old: String,
        /// Second document.
        new_name: String,
        /// Its schema.
        new: String,
    },
}

/// One measured value.
#[derive(Debug, Clone)]
pub struct Item {
    /// Name, as in the table of goals.
    pub id: String,
    /// Unit of the values.
    pub unit: String,
    /// Whether less of it is better.
    pub small_is_good: bool,
    /// The statistic of the blocks.
    pub stat: Stat,
    /// The value.
    pub value: f64,
    /// Its 95 % interval, if known.
    pub ci95: Option<Interval>,
    /// Its reference.
    pub beside: Option<Beside>,
    /// `[ours, reference]`, block by block; without [`Self::beside`] the second column has no
    /// meaning.
    pub blocks: Vec<Block>,
    /// Blocks in which the machine moved.
    pub disturbed: usize,
    /// Verdict that the document itself has on it.
    pub verdict: Option<Verdict>,
}

/// The value of the machine, or of a rival, at the same time.
#[derive(Debug, Clone)]
pub struct Beside {
    /// The name.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// The ratio of ours to it.
    pub ratio: f64,
    /// The 95 % interval of that, if known.
    pub ratio_ci95: Option<Interval>,
}

impl Item {
    /// Makes an item of paired blocks, from which all other values follow.
    fn of_blocks(id: String, unit: &str, blocks: Vec<Block>, name: Option<String>) -> Option<Self> {
        let paired = PairedRatio::of(&blocks, crate::stats::paired::Centre::Median, 1000, 1)?;
        Some(Self {
            id,
            unit: unit.to_owned(),
            small_is_good: is_small_good(unit),
            stat: Stat::P50,
            value: paired.ours,
            ci95: paired.shown_ours_ci95(),
            beside: name.map(|name| Beside {
                name,
                value: paired.reference,
                ratio: paired.ratio,
                ratio_ci95: paired.shown_ratio_ci95(),
            }),
            blocks,
            disturbed: 0,
            verdict: None,
        })
    }
}

/// Times, memory and processor time should be small; bandwidths and rates large.
fn is_small_good(unit: &str) -> bool {
    !unit.ends_with("/s")
}

/// All things of one document.
#[derive(Debug, Clone)]
pub struct Document {
    /// The label: its path, or its place in another document.
    pub name: String,
    /// Its form.
    pub schema: String,
    /// The circumstances of the measurement.
    pub env: Env,
    /// Link, nodes and processors: what else must be the same for a fair comparison.
    pub setting: Vec<(&'static str, String)>,
    /// The things, in the order of the document.
    pub items: Vec<Item>,
    /// The figures that could not be measured.
    pub missing: Vec<Missing>,
    /// It was ended early.
    pub partial: bool,
}

/// Forms that can be read.
pub const SCHEMAS: [&str; 9] = [
    crate::figure::SCHEMA,
    crate::patterns::scipp::Report::SCHEMA,
    crate::patterns::scibench2::Report::SCHEMA,
    crate::patterns::dma_bench::Report::SCHEMA,
    crate::patterns::pt2pt::Report::SCHEMA,
    crate::patterns::intr_bench::Report::SCHEMA,
    crate::patterns::jitter::Report::SCHEMA,
    crate::rivals::Report::SCHEMA,
    crate::limits::SCHEMA,
];

/// What has one of [`SCHEMAS`].
pub const OF_BENCHMARKS: &str =
    "the output of a benchmark or of `tieline verify` with --json, or a file of --json-file";
/// What has the schema of a whole verification.
pub const OF_VERIFY: &str = "the output of `tieline verify --json`";

/// Larger documents are not read: even of 64 nodes one is a hundredth of that.
const DOCUMENT_BYTES_MAX: u64 = 256 << 20;

/// The JSON in a file. `wanted` is what should be in it, such as [`OF_VERIFY`], for errors.
pub fn read_json(path: &Path, wanted: &'static str) -> Result<Value, DocumentError> {
    let text = user_files::read_regular(path, DOCUMENT_BYTES_MAX)
        .map_err(|source| DocumentError::Unreadable { path: path.to_owned(), wanted, source })?;
    serde_json::from_str(&text).map_err(|error| DocumentError::NotJson {
        path: path.to_owned(),
        line: error.line(),
        reason: reason_of(&error),
        wanted,
    })
}

/// What the JSON parser says, without the place, which is given apart.
pub(crate) fn reason_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).map_or(text.clone(), str::to_owned)
}

/// The schema of a document.
pub fn schema_of(value: &Value) -> &str {
    value.get("schema").and_then(Value::as_str).unwrap_or("")
}

/// All schemas that a comparison reads.
fn known_schemas() -> String {
    format!("one of {}, {}", SCHEMAS.join(", "), crate::compare::verify::VERIFY_SCHEMA)
}

/// The schema of a document, for errors.
pub fn said_schema(value: &Value) -> String {
    match value.get("schema") {
        None => "missing".to_owned(),
        Some(Value::String(schema)) => format!("`{schema}`"),
        Some(other) => format!("{other}"),
    }
}

impl Document {
    /// Reads a document that is called `name`. One without anything in it is an error.
    pub fn of(name: &str, value: &Value) -> Result<Self, DocumentError> {
        let schema = schema_of(value);
        let read = if schema == crate::figure::SCHEMA {
            serde_json::from_value::<Figures>(value.clone())
                .map(|figures| figures::document(name, figures))
                .map_err(|error| error.to_string())
        } else if SCHEMAS.contains(&schema) {
            tools::document(name, schema, value)
        } else {
            return Err(DocumentError::WrongSchema {
                name: name.to_owned(),
                schema: said_schema(value),
                known: known_schemas(),
                wanted: OF_BENCHMARKS,
            });
        };
        let (name, schema) = (name.to_owned(), schema.to_owned());
        match read {
            Err(reason) => Err(DocumentError::Malformed { name, schema, reason }),
            Ok(document) if document.items.is_empty() && document.missing.is_empty() => {
                Err(DocumentError::Empty { name, schema })
            }
            Ok(document) => Ok(document),
        }
    }
}

#[cfg(test)]
mod tests;

//! The report of a verification as one self-contained HTML page. It needs no network, no script and
//! no other file, prints, and does not depend on colour.
//!
//! What comes in is JSON (`tieline.verify/1`), not this program's types: a page can be made again from a
//! saved file, by a newer or older tieline. So nothing in it is trusted: every section may be absent, every
//! number absurd, every text hostile. Text is escaped by `maud`, whose macros escape whatever is put in;
//! nothing here writes markup from data.
//!
//! Where to start reading: [`render`], then `page`.

mod advice;
mod baseline;
mod benchmarks;
mod cdf;
mod curves;
mod environment;
mod facts;
mod file;
mod jitter;
mod links;
mod matrix;
mod nodes;
mod number;
mod page;
mod plot;
mod read;
mod scale;
mod spikes;
mod steps;
mod summary;
mod suspects;
#[cfg(test)]
mod tests;
mod troubles;

use serde_json::Value;

pub use file::{PAGE, ReportError, load};

use crate::run::SCHEMA;

/// What a page may weigh, in bytes: a mail server takes it, and a browser shows it at once.
pub const MAX_BYTES: usize = 1_000_000;

/// How much of a document a page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// Everything.
    Full,
    /// No tables behind the plots.
    NoTables,
    /// And no more than one matrix, and short lists.
    Short,
}

/// Whether the document of this name is one of a verification.
fn check_schema(name: &str, document: &Value) -> Result<(), ReportError> {
    let schema = document.get("schema").and_then(Value::as_str);
    if schema == Some(SCHEMA) {
        return Ok(());
    }
    let found =
        schema.map_or_else(|| "missing".to_owned(), |schema| format!("`{}`", read::shortened(schema, 60)));
    Err(ReportError::WrongSchema { name: name.to_owned(), found })
}

/// The page for a document as `tieline verify --json` prints it.
pub fn render(document: &Value) -> Result<String, ReportError> {
    check_schema("the document", document)?;
    let mut length_bytes = 0;
    for detail in [Detail::Full, Detail::NoTables, Detail::Short] {
        let page = page::page(document, detail);
        if page.len() <= MAX_BYTES {
            return Ok(page);
        }
        length_bytes = page.len();
    }
    Err(ReportError::TooLarge { length_bytes })
}

//! Files: documents that were saved before, and the page.

use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::Value;

use crate::writer::{Kind, WriteError};

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The document is of another kind.
    #[error(
        "the document {found}, not a `{}`: give the output of `tieline verify --json`",
        crate::run::SCHEMA
    )]
    WrongSchema {
        /// What it is.
        found: String,
    },
    /// The page would be longer than [`super::MAX_BYTES`], even short.
    #[error(
        "the report would be {length_bytes} bytes, more than {}: the document holds too much",
        super::MAX_BYTES
    )]
    TooLarge {
        /// How long.
        length_bytes: usize,
    },
    /// A saved document cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no JSON.
    #[error("{} is no JSON ({why}): give a file that `tieline verify --json` has written", path.display())]
    NoJson {
        /// Which.
        path: PathBuf,
        /// Where and why.
        why: serde_json::Error,
    },
    /// The page cannot be written.
    #[error(transparent)]
    Unwritable(#[from] WriteError),
}

/// The longest document that is read, in bytes: beyond it, it is none of ours.
const LONGEST_DOCUMENT: u64 = 256 << 20;

/// A document that was saved before.
pub fn load(path: &Path) -> Result<Value, ReportError> {
    let unreadable = |source| ReportError::Unreadable { path: path.into(), source };
    let mut text = String::new();
    let file = fs::File::open(path).map_err(unreadable)?;
    io::Read::read_to_string(&mut io::Read::take(file, LONGEST_DOCUMENT), &mut text).map_err(unreadable)?;
    serde_json::from_str(&text).map_err(|why| ReportError::NoJson { path: path.into(), why })
}

/// The page, as a file.
pub static PAGE: Kind =
    Kind { what: "report", option: "--report", size_bytes: super::MAX_BYTES, mode: 0o666 };

#[cfg(test)]
mod tests {
    use super::*;

    fn dir(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("tieline-report-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_saved_document_that_is_none_is_named() {
        let dir = dir("load");
        let path = dir.join("v.json");
        assert!(matches!(load(&path), Err(ReportError::Unreadable { .. })));
        fs::write(&path, "{\"schema\": ").unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(
            error.contains("v.json") && error.contains("line 1") && error.contains("verify --json"),
            "{error}"
        );
        fs::remove_dir_all(&dir).unwrap();
    }
}

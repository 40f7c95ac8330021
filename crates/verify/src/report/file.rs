//! Reads saved documents, and writes the page.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::writer::{Kind, WriteError};

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The document is of another kind.
    #[error(
        "{name}: its schema is {found}, and `{}` is needed: give the output of `tieline verify --json`",
        crate::run::SCHEMA
    )]
    WrongSchema {
        /// The document's name.
        name: String,
        /// The schema that it has.
        found: String,
    },
    /// Nothing was tested in it.
    #[error("{}: it has no steps: give the output of `tieline verify --json`", path.display())]
    NoSteps {
        /// The path of the file.
        path: PathBuf,
    },
    /// The page would be longer than [`super::MAX_BYTES`], even short.
    #[error(
        "the report would be {length_bytes} bytes, more than {}: the document holds too much; run `tieline verify` again with fewer nodes",
        super::MAX_BYTES
    )]
    TooLarge {
        /// Its length in bytes.
        length_bytes: usize,
    },
    /// A saved document cannot be read.
    #[error("{} cannot be read: {source}: give a file that `tieline verify --json` has written", path.display())]
    Unreadable {
        /// The path of the file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// It is no text, so no JSON either.
    #[error("{} is not text (its byte {at_byte} is not UTF-8): give a file that `tieline verify --json` has written", path.display())]
    NoText {
        /// The path of the file.
        path: PathBuf,
        /// The first that is wrong, from 0.
        at_byte: usize,
    },
    /// It is longer than any document.
    #[error(
        "{} has more than {most_bytes} bytes, the limit: give a file that `tieline verify --json` has \
         written",
        path.display()
    )]
    TooLong {
        /// The path of the file.
        path: PathBuf,
        /// The limit.
        most_bytes: u64,
    },
    /// It is no JSON.
    #[error("{} is not JSON ({why}): give a file that `tieline verify --json` has written", path.display())]
    NoJson {
        /// The path of the file.
        path: PathBuf,
        /// Where and why.
        why: serde_json::Error,
    },
    /// The page cannot be written.
    #[error(transparent)]
    Unwritable(#[from] WriteError),
}

/// The longest document that is read, in bytes: beyond it, it is none of ours.
const LONGEST_DOCUMENT_BYTES: u64 = 256 << 20;

/// A document that was saved before.
pub fn load(path: &Path) -> Result<Value, ReportError> {
    let text = read_text(path, LONGEST_DOCUMENT_BYTES)?;
    let document =
        serde_json::from_str(&text).map_err(|why| ReportError::NoJson { path: path.into(), why })?;
    super::check_schema(&path.display().to_string(), &document)?;
    match document.get("steps") {
        Some(Value::Array(_)) => Ok(document),
        _ => Err(ReportError::NoSteps { path: path.into() }),
    }
}

/// The text in a file or a pipe of at most so many bytes.
fn read_text(path: &Path, most_bytes: u64) -> Result<String, ReportError> {
    let bytes = user_files::read(path, most_bytes).map_err(|source| match source.kind() {
        io::ErrorKind::FileTooLarge => ReportError::TooLong { path: path.into(), most_bytes },
        _ => ReportError::Unreadable { path: path.into(), source },
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let at_byte = error.utf8_error().valid_up_to();
        ReportError::NoText { path: path.into(), at_byte }
    })
}

/// The page, as a file.
pub static PAGE: Kind = Kind {
    what: "report",
    option: "--report",
    size_bytes: super::MAX_BYTES,
    mode: 0o666,
    may_replace: |beginning| is_page(beginning),
};

/// Whether a file that begins so is a page that [`super::render`] has made, of this version or another.
fn is_page(beginning: &[u8]) -> bool {
    let text = String::from_utf8_lossy(beginning);
    text.starts_with("<!DOCTYPE html>") && text.contains("tieline verify</title>")
}

#[cfg(test)]
mod tests {
    use std::fs;

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
        fs::write(&path, "{\"schema\": \"tieline.verify/1\"}").unwrap();
        let error = load(&path).unwrap_err().to_string();
        assert!(error.contains("v.json: it has no steps: give the output of"), "{error}");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn pages_are_known_by_their_beginning() {
        let document = serde_json::json!({ "schema": crate::run::SCHEMA, "cluster": "<&".repeat(500) });
        let page = super::super::render(&document).unwrap();
        assert!(is_page(&page.as_bytes()[..4096]));
        for other in ["", "{\"schema\": \"tieline.verify/1\"}", "<!DOCTYPE html><title>mine</title>"] {
            assert!(!is_page(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn what_is_no_text_or_too_long_is_refused_and_nothing_is_cut() {
        let dir = dir("text");
        let path = dir.join("v.json");
        fs::write(&path, b"{\"a\": \xff}").unwrap();
        assert!(matches!(load(&path), Err(ReportError::NoText { at_byte: 6, .. })));
        fs::write(&path, "12345678").unwrap();
        assert_eq!(read_text(&path, 8).unwrap(), "12345678");
        let error = read_text(&path, 7).unwrap_err().to_string();
        assert!(error.contains("v.json") && error.contains("more than 7 bytes"), "{error}");
        // Of no length that could be asked for.
        assert!(matches!(read_text(Path::new("/dev/zero"), 7), Err(ReportError::Unreadable { .. })));
        fs::remove_dir_all(&dir).unwrap();
    }
}

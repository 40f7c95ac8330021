//! Which hosts have done their part, in a file, so that the same command goes on with the others.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::error::{FleetError, Result};

/// Longer is no such file.
const BYTES_MAX: u64 = 64 << 20;

/// A run that can go on later.
#[derive(Debug)]
pub struct State {
    path: PathBuf,
    file: File,
    done: BTreeSet<String>,
}

impl State {
    /// Opens the file, or begins it; `command` is what hosts do, which must be the same.
    ///
    /// # Errors
    /// It cannot be read or written, or is of another command.
    pub fn open(path: &Path, command: &str) -> Result<Self> {
        let local = |what| move |source| FleetError::Local { path: path.into(), what, source };
        let first = serde_json::json!({ "schema": "tieline.fleet-state/1", "command": command }).to_string();
        let text = match user_files::read_regular(path, BYTES_MAX) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            other => other.map_err(|source| FleetError::Input { path: path.into(), source })?,
        };
        let mut lines = text.lines();
        if lines.next().is_some_and(|line| line != first) {
            return Err(FleetError::OtherRun { path: path.into() });
        }
        // A line that was being written when the run ended is none.
        let done = lines.filter_map(|line| serde_json::from_str::<String>(line).ok()).collect();
        let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(local("written"))?;
        if text.is_empty() {
            writeln!(file, "{first}").map_err(local("written"))?;
        } else if !text.ends_with('\n') {
            writeln!(file).map_err(local("written"))?;
        }
        Ok(Self { path: path.into(), file, done })
    }

    /// Whether a host has done its part.
    pub fn has(&self, host: &str) -> bool {
        self.done.contains(host)
    }

    /// A host has done its part.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, host: &str) -> Result<()> {
        let line = serde_json::Value::from(host).to_string();
        writeln!(self.file, "{line}").map_err(|source| FleetError::Local {
            path: self.path.clone(),
            what: "written",
            source,
        })
    }

    /// All hosts have: the next run begins anew.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn finish(self) -> Result<()> {
        std::fs::remove_file(&self.path).map_err(|source| FleetError::Local {
            path: self.path.clone(),
            what: "removed",
            source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state");
        let mut state = State::open(&path, "run true").unwrap();
        assert!(!state.has("a"));
        state.add("a").unwrap();
        drop(state);
        // The process ended while it wrote a line.
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"\"b").unwrap();
        let mut state = State::open(&path, "run true").unwrap();
        state.add("c").unwrap();
        drop(state);
        let state = State::open(&path, "run true").unwrap();
        assert_eq!(["a", "b", "c"].map(|host| state.has(host)), [true, false, true]);
        let said = State::open(&path, "run false").unwrap_err();
        assert!(said.is_usage() && said.to_string().contains("is no state of this command"), "{said}");
        state.finish().unwrap();
        assert!(!path.exists());
    }
}

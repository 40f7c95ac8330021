//! Ties a manager's life to a process: the one that measures with it, or the `up` that has not
//! finished yet.
//!
//! The manager's standard input is then a pipe, which `TIELINE_LEASE=stdin` announces. When the last writing
//! end is closed, which the kernel does for a process however it ends, the manager ends in an orderly way and
//! leaves nothing, not even its log. A byte written into the pipe ends the dependence.

use std::ffi::OsString;
use std::io::{PipeReader, PipeWriter, Write};
use std::process::Stdio;
use std::sync::Arc;

use crate::error::{NodeError, Result};

/// Says where a manager's lease is; only `stdin` is possible.
pub const ENV_LEASE: &str = "TIELINE_LEASE";

/// Managers that are started with it end when the last clone of it is dropped, and with the process that
/// holds it.
#[derive(Debug, Clone)]
pub struct Lease {
    ends: Arc<(PipeReader, PipeWriter)>,
}

fn io(source: std::io::Error) -> NodeError {
    NodeError::Io { what: "create a pipe for a manager:", path: "its lease".into(), source }
}

impl Lease {
    /// Two descriptors of this process.
    pub fn new() -> Result<Self> {
        Ok(Self { ends: Arc::new(std::io::pipe().map_err(io)?) })
    }

    pub(super) fn input(&self) -> Result<Stdio> {
        Ok(self.ends.0.try_clone().map_err(io)?.into())
    }
}

/// What holds a manager that is being started. Dropped, the manager ends.
#[derive(Debug)]
pub(super) struct Hold(PipeWriter);

impl Hold {
    /// The manager's standard input, and what holds it.
    pub(super) fn new() -> Result<(Stdio, Self)> {
        let (reader, writer) = std::io::pipe().map_err(io)?;
        Ok((reader.into(), Self(writer)))
    }

    /// The manager continues by itself.
    pub(super) fn release(mut self) {
        // One that is dead needs no word.
        let _ = self.0.write_all(b"k");
    }
}

/// Whether this process, a manager, has a lease on its standard input.
pub(crate) fn is_on_stdin() -> Result<bool> {
    on_stdin(std::env::var_os(ENV_LEASE))
}

/// An empty variable is as good as none.
fn on_stdin(place: Option<OsString>) -> Result<bool> {
    match place.filter(|place| !place.is_empty()) {
        None => Ok(false),
        Some(place) if place == "stdin" => Ok(true),
        Some(place) => Err(NodeError::Lease { place: place.to_string_lossy().into_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_is_no_lease_and_another_place_is_refused() {
        assert!(!on_stdin(None).unwrap() && !on_stdin(Some("".into())).unwrap());
        assert!(on_stdin(Some("stdin".into())).unwrap());
        let error = on_stdin(Some("stdout".into())).unwrap_err().to_string();
        assert!(error.contains("TIELINE_LEASE") && error.contains("`stdout`"), "{error}");
    }
}

//! The list of hosts: a line for each, or for a range of them, `HOSTS [address=IP[:PORT]] [node=ID]`; other
//! files by `include`; groups; exclusions; lines of `/etc/hosts`.

mod line;
mod reader;

use std::path::{Path, PathBuf};

use proto::ids::NodeId;

use crate::error::{FleetError, Result};

pub(crate) use reader::Reader;

/// One host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// As ssh takes it: a name of its configuration, a host name or an address, with or without `USER@`.
    pub destination: String,
    /// Where its manager listens, if not where ssh connects to, on the usual port. With or without a port.
    pub address: Option<String>,
    /// Which node it becomes; none: the next that is free.
    pub node: Option<NodeId>,
}

/// Where a line stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    /// Counted from 1.
    pub(crate) line: usize,
}

/// Reads the list, and the files that it includes.
///
/// # Errors
/// One of them cannot be read or includes itself, a line is wrong, or there is no host.
pub fn read(path: &Path) -> Result<Vec<Line>> {
    let mut reader = Reader::default();
    reader.file(path)?;
    let lines = reader.finish();
    if lines.is_empty() { Err(FleetError::NoHosts { path: path.into() }) } else { Ok(lines) }
}

#[cfg(test)]
mod tests;

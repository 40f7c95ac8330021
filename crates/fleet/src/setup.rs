//! Lets the user log in to a host without a password: `ssh-copy-id` installs the user's key, and asks at the
//! terminal itself for what it needs.

use std::path::Path;
use std::process::Command;

use crate::error::{FleetError, Result};

/// The program.
const PROGRAM: &str = "ssh-copy-id";

/// What came of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installed {
    /// The program said that the key is there.
    Done,
    /// It failed, and has said why.
    Failed,
}

/// Installs the key on one host, at the user's terminal. Passwords go from there to ssh: this process never
/// reads one.
///
/// # Errors
/// The program cannot be run.
pub fn install_key(host: &str, key: Option<&Path>) -> Result<Installed> {
    let mut command = Command::new(PROGRAM);
    if let Some(key) = key {
        command.arg("-i").arg(key);
    }
    // A name that begins with `-` is no host: the list was checked.
    let ended = command.arg(host).status();
    let ended = ended.map_err(|source| FleetError::NoSsh { program: PROGRAM.into(), source })?;
    Ok(if ended.success() { Installed::Done } else { Installed::Failed })
}

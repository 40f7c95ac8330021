//! Connections of ssh that are kept for the next command (`ControlMaster` of OpenSSH), in a directory that
//! only this user can read.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::getuid;

use crate::error::{FleetError, Result};

/// Where connections are kept, and for how long after the last command.
#[derive(Debug, Clone)]
pub struct Kept {
    folder: PathBuf,
    time: Duration,
}

impl Kept {
    /// Makes the directory of this user: `$XDG_RUNTIME_DIR/tieline-fleet`, else `/tmp/tieline-fleet-UID`.
    ///
    /// # Errors
    /// It cannot be made, or others can get at it.
    pub fn new(time: Duration) -> Result<Self> {
        let folder = place();
        let wrong = |source| FleetError::Kept { path: folder.clone(), source };
        if let Err(error) = DirBuilder::new().mode(0o700).create(&folder)
            && error.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(wrong(error));
        }
        check(&folder).map_err(wrong)?;
        Ok(Self { folder, time })
    }

    pub(crate) fn options(&self) -> Vec<String> {
        // %C stands for a hash of the user, the host, the port and this host: the path of a socket is short.
        let path = format!("ControlPath={}/%C", self.folder.display());
        let persist = format!("ControlPersist={}", self.time.as_secs().max(1));
        ["-o", "ControlMaster=auto", "-o", &path, "-o", &persist].map(str::to_owned).to_vec()
    }
}

fn place() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|path| Path::new(path).is_absolute());
    match runtime {
        Some(path) => Path::new(&path).join("tieline-fleet"),
        None => format!("/tmp/tieline-fleet-{}", getuid().as_raw()).into(),
    }
}

/// Whoever can write there could pass for the hosts.
fn check(folder: &Path) -> std::io::Result<()> {
    let there = std::fs::symlink_metadata(folder)?;
    if !there.is_dir() || there.uid() != getuid().as_raw() || there.permissions().mode() & 0o077 != 0 {
        return Err(std::io::Error::other("it is not a directory of this user alone: remove it"));
    }
    Ok(())
}

/// Closes all kept connections of this user, and removes their directory: how many there were.
///
/// # Errors
/// Others can get at the directory, or it cannot be read.
pub fn close(program: &str) -> Result<usize> {
    let folder = place();
    if !folder.exists() {
        return Ok(0);
    }
    let wrong = |source| FleetError::Kept { path: folder.clone(), source };
    check(&folder).map_err(wrong)?;
    let mut closed = 0;
    for entry in std::fs::read_dir(&folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        if !entry.file_type().map_err(wrong)?.is_socket() {
            continue;
        }
        let mut exit = Command::new(program);
        exit.arg("-S").arg(entry.path()).args(["-O", "exit", "-o", "BatchMode=yes", "--", "kept"]);
        let ended = exit.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        closed += usize::from(ended.is_ok_and(|status| status.success()));
        // The socket of a connection whose process was killed stays.
        let _ = std::fs::remove_file(entry.path());
    }
    // What else lies there is not ours.
    let _ = std::fs::remove_dir(&folder);
    Ok(closed)
}

//! A process for a node's manager.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use proto::ids::NodeId;

use crate::error::{NodeError, Result};
use crate::runtime_dir::ClusterDir;

/// A log that has grown beyond this is begun anew at the next start.
const LOG_LIMIT_BYTES: u64 = 1024 * 1024;
/// As much of a dead manager's log is shown.
const TAIL_BYTES: u64 = 4096;
const TAIL_LINES: usize = 12;

/// Children that were started here and may have ended since: to be asked for their end, so that none stays a zombie.
static CHILDREN: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// What is run for a manager: `<program> <leading…> node run --background --id … --cluster … --runtime-dir … [--config …]`.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The binary.
    pub program: PathBuf,
    /// Arguments before `node run`.
    pub leading: Vec<OsString>,
}

impl Launcher {
    /// This very binary.
    pub fn this_binary() -> Result<Self> {
        let fail = |source| NodeError::Io { what: "find", path: "/proc/self/exe".into(), source };
        Ok(Self { program: std::env::current_exe().map_err(fail)?, leading: Vec::new() })
    }

    pub(super) fn start(&self, dir: &ClusterDir, node: NodeId, config: Option<PathBuf>) -> Result<Started> {
        let path = dir.log_file(node);
        let fail = |source| NodeError::Io { what: "open the log", path: path.clone(), source };
        let (log, log_start) = open_log(&path).map_err(fail)?;
        let errors = log.try_clone().map_err(fail)?;
        let mut command = Command::new(&self.program);
        command.args(&self.leading).args(["node", "run", "--background", "--id"]).arg(node.to_string());
        command.arg("--cluster").arg(dir.cluster().as_str()).arg("--runtime-dir").arg(dir.root());
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        // A service manager that waits for the caller is not to be told of its children.
        command.env_remove("NOTIFY_SOCKET");
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = command.spawn().map_err(|source| NodeError::Io {
            what: "run",
            path: self.program.clone(),
            source,
        })?;
        Ok(Started { node, child, log: path, log_start })
    }
}

fn open_log(path: &Path) -> std::io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    let log = options.open(path)?;
    let mut len = log.metadata()?.len();
    if len > LOG_LIMIT_BYTES {
        log.set_len(0)?;
        len = 0;
    }
    Ok((log, len))
}

/// A manager's process, just started.
#[derive(Debug)]
pub(super) struct Started {
    node: NodeId,
    child: Child,
    log: PathBuf,
    /// Where its part of the log begins.
    log_start: u64,
}

impl Started {
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An error if it has ended, with what it said last.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.child.try_wait() {
            Ok(Some(status)) => Err(NodeError::DiedAtStart {
                node: self.node,
                status: status.to_string(),
                log: self.log_tail(),
            }),
            _ => Ok(()),
        }
    }

    fn log_tail(&self) -> String {
        let text = read_tail(&self.log, self.log_start).unwrap_or_else(|error| format!("(no log: {error})"));
        let lines: Vec<_> = text.lines().collect();
        lines.get(lines.len().saturating_sub(TAIL_LINES)..).unwrap_or_default().join("\n")
    }
}

fn read_tail(path: &Path, start: u64) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let end = file.metadata()?.len();
    file.seek(SeekFrom::Start(start.max(end.saturating_sub(TAIL_BYTES))))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Keeps children for [`reap`].
pub(super) fn remember(children: Vec<Started>) {
    let mut all = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
    all.extend(children.into_iter().map(|started| started.child));
}

/// Lets go of the children that have ended.
pub(super) fn reap() {
    let mut all = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

/// What a manager in the background does first: leaves the terminal's session, so that neither its end nor an interrupt
/// from its keyboard ends the manager, and the working directory, so that it can be unmounted.
pub fn detach() {
    // It may lead a session already; then there is nothing to leave.
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_of_a_log_begins_at_this_start() {
        let path = std::env::temp_dir().join(format!("tieline-tail-{}", std::process::id()));
        std::fs::write(&path, "before\nline 1\nline 2\n").unwrap();
        assert_eq!(read_tail(&path, 7).unwrap(), "line 1\nline 2\n");
        std::fs::write(&path, "x".repeat(10_000)).unwrap();
        assert_eq!(read_tail(&path, 0).unwrap().len() as u64, TAIL_BYTES);
        std::fs::remove_file(&path).unwrap();
    }
}

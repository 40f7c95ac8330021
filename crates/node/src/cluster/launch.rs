//! Starts a process for a node's manager.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use node_client::copy_plan::{ENV_COPY_PLAN, Source};
use proto::ids::NodeId;
use rustix::process::{Pid, Signal, kill_process};

use super::lease::{ENV_LEASE, Hold, Lease};
use super::stop::remove_leftovers;
use crate::config::ENV_FAULTS;
use crate::error::{NodeError, Result};
use crate::lock::is_held;
use crate::runtime_dir::{ClusterDir, remove_if_empty};

/// A log that has grown beyond this is begun anew at the next start.
const LOG_LIMIT_BYTES: u64 = 1024 * 1024;
/// As much of a dead manager's log is shown.
const TAIL_BYTES: u64 = 4096;
const TAIL_LINES: usize = 12;
/// How long managers may take to end when an `up` is undone, before they are killed.
const UNDO_LIMIT: Duration = Duration::from_secs(5);

/// Children that were started here and may have ended since: to be asked for their end, so that none stays a
/// zombie.
static CHILDREN: Mutex<Vec<Child>> = Mutex::new(Vec::new());

/// What is run for a manager:
/// `<program> <leading…> node run --background --id … --cluster … --runtime-dir … [--config …]`.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The binary.
    pub program: PathBuf,
    /// Arguments before `node run`.
    pub leading: Vec<OsString>,
    /// What the managers' lives depend on; none: they continue when the process that starts them has ended.
    pub lease: Option<Lease>,
    /// The nodes' programs inject faults, no matter what the configuration contains.
    pub faults: bool,
}

impl Launcher {
    /// This very binary.
    pub fn this_binary() -> Result<Self> {
        let fail = |source| NodeError::Io { what: "find", path: "/proc/self/exe".into(), source };
        Ok(Self {
            program: std::env::current_exe().map_err(fail)?,
            leading: Vec::new(),
            lease: None,
            faults: false,
        })
    }

    pub(super) fn start(&self, dir: &ClusterDir, node: NodeId, config: Option<PathBuf>) -> Result<Started> {
        let path = dir.log_file(node);
        let fail = |source| NodeError::Io { what: "open the log", path: path.clone(), source };
        let (log, log_start) = open_log(&path).map_err(fail)?;
        let errors = log.try_clone().map_err(fail)?;
        let mut command = Command::new(&self.program);
        command.args(&self.leading).args(["node", "run", "--background", "--id"]).arg(node.to_string());
        if self.faults {
            command.env(ENV_FAULTS, "1");
        }
        command.arg("--cluster").arg(dir.cluster().as_str()).arg("--runtime-dir").arg(dir.root());
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        if let Some(plan) = copy_plan(Source::of_environment()) {
            command.env(ENV_COPY_PLAN, plan);
        }
        // A service manager that waits for the caller must not be notified by its children.
        command.env_remove("NOTIFY_SOCKET");
        let (input, hold) = match &self.lease {
            Some(lease) => (lease.input()?, None),
            None => Hold::new().map(|(input, hold)| (input, Some(hold)))?,
        };
        command.env(ENV_LEASE, "stdin");
        command.stdin(input).stdout(log).stderr(errors);
        let child = command.spawn().map_err(|source| NodeError::Io {
            what: "run",
            path: self.program.clone(),
            source,
        })?;
        Ok(Started { node, child, hold, log: path, log_start })
    }
}

/// The file of the plan of copies, as it is found from any working directory: the manager leaves this one.
fn copy_plan(source: Option<Source>) -> Option<PathBuf> {
    let Some(Source::File(path)) = source else { return None };
    std::path::absolute(path).ok()
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
    /// Until the whole cluster is up, the manager ends with this process.
    hold: Option<Hold>,
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

    /// An error if it has ended, with its last output.
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
        if lines.is_empty() {
            return format!("(nothing: {})", why_silent(&self.log));
        }
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

/// Less than one line of a log takes.
const LITTLE_LOG_BYTES: u64 = 1024;

/// Why a manager that has died printed nothing: as a rule because its log could not be written.
fn why_silent(log: &Path) -> String {
    let full = rustix::fs::statvfs(log).ok().and_then(|system| match (system.f_bavail, system.f_favail) {
        (0, _) => Some("no space is left"),
        (_, 0) if system.f_files > 0 => Some("no file can be made any more"),
        _ => None,
    });
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    match full {
        Some(what) => format!("{what} in the file system of its log {}", log.display()),
        None if limit.is_some_and(|bytes| bytes < LITTLE_LOG_BYTES) => format!(
            "its log {} may have {} bytes (RLIMIT_FSIZE); raise it with `ulimit -f`",
            log.display(),
            limit.unwrap_or_default()
        ),
        None => format!("its log {} is empty; TIELINE_LOG=info makes it say more", log.display()),
    }
}

/// What an `up` has begun. Dropped before it is complete, it is undone.
#[derive(Debug)]
pub(super) struct Begun<'a> {
    dir: &'a ClusterDir,
    /// Nodes whose files may have been made.
    nodes: Vec<NodeId>,
    /// What its managers have left on disk stays also if it is undone.
    keep_files: bool,
    pub(super) children: Vec<Started>,
}

impl<'a> Begun<'a> {
    pub(super) fn new(dir: &'a ClusterDir, keep_files: bool) -> Self {
        Self { dir, nodes: Vec::new(), keep_files, children: Vec::new() }
    }

    /// Starts a manager; gives its process.
    pub(super) fn start(
        &mut self,
        launcher: &Launcher,
        node: NodeId,
        config: Option<PathBuf>,
    ) -> Result<u32> {
        self.nodes.push(node);
        let child = launcher.start(self.dir, node, config)?;
        let pid = child.pid();
        self.children.push(child);
        Ok(pid)
    }

    /// Whose managers were started.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.children.iter().map(Started::node)
    }

    /// All are up: they continue by themselves. The children are kept for [`reap`].
    pub(super) fn complete(mut self) {
        self.nodes.clear();
        let mut all = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
        for Started { child, hold, .. } in std::mem::take(&mut self.children) {
            if let Some(hold) = hold {
                hold.release();
            }
            all.push(child);
        }
    }

    fn undo(&mut self) {
        for started in &mut self.children {
            let held = started.hold.take().is_some();
            // As long as a child has not been waited for, its number is its own.
            let pid = Pid::from_child(&started.child);
            if !held && matches!(started.child.try_wait(), Ok(None)) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
        let deadline = Instant::now() + UNDO_LIMIT;
        for started in &mut self.children {
            while matches!(started.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            if matches!(started.child.try_wait(), Ok(None)) {
                let _ = started.child.kill();
                let _ = started.child.wait();
            }
        }
        let nodes = std::mem::take(&mut self.nodes);
        if self.keep_files {
            return;
        }
        for node in nodes {
            if is_held(self.dir, node) == Some(false) {
                // Also where no lock can be made, for lack of space.
                let _ = std::fs::remove_file(self.dir.log_file(node));
            }
            remove_leftovers(self.dir, node);
        }
        remove_if_empty(self.dir);
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if !self.nodes.is_empty() {
            self.undo();
        }
    }
}

/// Lets go of the children that have ended.
pub(super) fn reap() {
    let mut all = CHILDREN.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
}

/// What a manager in the background does first: leaves the terminal's session, so that neither its end nor an
/// interrupt from its keyboard ends the manager, and the working directory, so that it can be unmounted.
pub fn detach() {
    // It may lead a session already; then there is nothing to leave.
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir("/");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_named_as_it_is_found_from_any_directory() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(copy_plan(Some(Source::File("plan".into()))), Some(here.join("plan")));
        assert_eq!(copy_plan(Some(Source::File("/a/plan".into()))), Some("/a/plan".into()));
        assert_eq!([copy_plan(Some(Source::Table)), copy_plan(None)], [None, None]);
    }

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

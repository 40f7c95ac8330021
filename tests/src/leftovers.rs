//! What a test has started, found and ended when nothing else ends it any more.
//!
//! Children, and theirs, are found by their parents. Managers that were started in the background have left
//! that tree; they are known by the runtime directory in their environment.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, kill_process};

/// Runtime directories of clusters of this process.
static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Between two looks others may have been started.
const LOOKS: usize = 20;

/// A process that has this directory in its environment belongs to this process.
pub fn own(directory: &Path) {
    DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner).push(directory.to_path_buf());
}

/// A process, as the kernel shows it.
struct Process {
    pid: i32,
    parent: i32,
}

fn processes() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let of = |pid: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name is in parentheses and may hold anything.
        let mut words = stat.rsplit_once(") ")?.1.split(' ');
        let (state, parent) = (words.next()?, words.next()?.parse().ok()?);
        // What has ended waits to be asked for its status, and that is its parent's business.
        (!matches!(state, "Z" | "X")).then_some(Process { pid, parent })
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter_map(of).collect()
}

/// All that run and have one of these directories in their environment.
pub fn with_directory(directories: &[PathBuf]) -> BTreeSet<i32> {
    processes().iter().map(|process| process.pid).filter(|pid| has_directory(*pid, directories)).collect()
}

/// All that run and were started by this process, or for one of its directories.
pub fn all() -> BTreeSet<i32> {
    let own = std::process::id() as i32;
    let mut found = with_directory(&DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner));
    let known = processes();
    let mut before = usize::MAX;
    while found.len() != before {
        before = found.len();
        let of_found = |process: &&Process| process.parent == own || found.contains(&process.parent);
        let more: Vec<i32> = known.iter().filter(of_found).map(|process| process.pid).collect();
        found.extend(more);
    }
    found.remove(&own);
    found
}

fn has_directory(pid: i32, directories: &[PathBuf]) -> bool {
    // That of a stranger cannot be read, and is none of ours.
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let mut variables = environment.split(|byte| *byte == 0);
    variables.any(|variable| {
        let value = variable.strip_prefix(b"TIELINE_RUNTIME_DIR=");
        directories.iter().any(|directory| Some(directory.as_os_str().as_encoded_bytes()) == value)
    })
}

/// Kills them.
pub fn kill_all() {
    for _ in 0..LOOKS {
        let found = all();
        if found.is_empty() {
            return;
        }
        for pid in found {
            if let Some(pid) = Pid::from_raw(pid) {
                // It may have ended in between.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

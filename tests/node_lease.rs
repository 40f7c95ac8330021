//! A command that is killed outright leaves neither managers nor files of its own cluster.
// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use tieline_tests::{Cluster, Watchdog};

fn entries(dir: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Process numbers in the lock files of all clusters below a runtime directory.
fn managers(root: &Path) -> Vec<Pid> {
    let locks = entries(root).into_iter().flat_map(|cluster| entries(&cluster));
    let locks = locks.filter(|path| path.extension().is_some_and(|extension| extension == "lock"));
    locks.filter_map(|path| Pid::from_raw(std::fs::read_to_string(path).ok()?.trim().parse().ok()?)).collect()
}

#[test]
fn a_killed_verify_leaves_no_manager_and_no_directory() {
    let _watchdog = Watchdog::usual("killed verify");
    let cluster = Cluster::empty().unwrap();
    let mut command = cluster.command(&["verify", "--nodes", "3"]).unwrap();
    let mut verify = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let running = loop {
        let running = managers(cluster.runtime_dir());
        if running.len() == 3 {
            break running;
        }
        assert!(verify.try_wait().unwrap().is_none(), "it ended before its managers were seen");
        std::thread::sleep(Duration::from_millis(1));
    };
    verify.kill().unwrap();
    verify.wait().unwrap();
    // The watchdog ends it if they stay.
    while running.iter().any(|pid| test_kill_process(*pid).is_ok()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    while !entries(cluster.runtime_dir()).is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

//! What an interrupted or failed `up` leaves (nothing), managers whose lives depend on another process, and
//! hung ones.
// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use node::cluster::{Launcher, Lease, NodeState, StopProgress, UpOptions, down, list_nodes, node_ids, up};
use node::runtime_dir::{ClusterDir, ClusterName};
use node::{Daemon, DaemonOptions, NodeError};
use rustix::process::{Pid, Signal, kill_process};
use support::{Place, WATCHDOG, eventually, node};

fn value(words: &[&str], name: &str) -> String {
    let at = words.iter().position(|word| *word == name).unwrap();
    words[at + 1].to_owned()
}

/// What the launched managers are: this binary, whose arguments the shell has put into the environment.
#[test]
fn manager_role() {
    let Ok(arguments) = std::env::var("TL_ARGUMENTS") else { return };
    let words: Vec<_> = arguments.split(' ').collect();
    node::cluster::detach();
    let root = PathBuf::from(value(&words, "--runtime-dir"));
    let dir = ClusterDir::new(root, ClusterName::new(&value(&words, "--cluster")).unwrap());
    let node = value(&words, "--id").parse().unwrap();
    Daemon::start(&DaemonOptions { dir, node, settings: support::quick(), signals: true })
        .unwrap()
        .run()
        .unwrap();
}

/// An `up` in a process of its own: node 8 never says anything.
#[test]
fn up_role() {
    let Ok(root) = std::env::var("TL_UP_ROOT") else { return };
    let mut options = options(Path::new(&root), 2);
    options.launcher = launcher("case \"$*\" in *'--id 8 '*) exec cat;; esac;");
    let _ = up(&options, &mut |_| {});
}

fn launcher(before: &str) -> Launcher {
    let binary = std::env::current_exe().unwrap();
    let script = format!(
        "{before} TL_ARGUMENTS=\"$*\" exec {} --exact manager_role --nocapture --test-threads=1",
        binary.display()
    );
    Launcher {
        program: "/bin/sh".into(),
        leading: ["-c", &script, "sh"].map(Into::into).to_vec(),
        lease: None,
        faults: false,
    }
}

fn options(root: &Path, count: usize) -> UpOptions {
    let config = root.join("empty.toml");
    std::fs::write(&config, "").unwrap();
    UpOptions {
        dir: ClusterDir::new(root.into(), ClusterName::new("t").unwrap()),
        nodes: node_ids(count, None).unwrap(),
        launcher: launcher(""),
        config: Some(config),
        limit: WATCHDOG,
        keep_files: false,
        stop: || false,
    }
}

fn pid_of(dir: &ClusterDir, index: usize) -> Option<Pid> {
    match list_nodes(dir).ok()?.get(index)?.state {
        NodeState::Running { pid } => Pid::from_raw(pid?.cast_signed()),
        _ => None,
    }
}

#[test]
fn managers_end_with_their_lease_and_leave_nothing() {
    let place = Place::new();
    let lease = Lease::new().unwrap();
    let mut options = options(&place.root, 2);
    options.launcher.lease = Some(lease.clone());
    up(&options, &mut |_| {}).unwrap();
    options.launcher.lease = None;
    assert_eq!(list_nodes(&place.dir()).unwrap().len(), 2);
    drop(lease);
    // Its logs too: nobody will look for them.
    eventually("the directory is gone", || !place.dir().path().exists());
}

#[test]
fn managers_outlive_the_up_that_was_complete() {
    let place = Place::new();
    up(&options(&place.root, 2), &mut |_| {}).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(pid_of(&place.dir(), 0).is_some() && pid_of(&place.dir(), 1).is_some());
    down(&place.dir(), None, WATCHDOG, &mut |_| {}).unwrap();
    assert!(!place.dir().path().exists());
}

#[test]
fn an_up_that_is_killed_takes_with_it_what_it_has_started() {
    for signal in [Signal::KILL, Signal::TERM, Signal::INT, Signal::HUP] {
        let place = Place::new();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "up_role", "--nocapture", "--test-threads=1"]);
        command.env("TL_UP_ROOT", &place.root).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.spawn().unwrap();
        eventually("the first manager runs", || pid_of(&place.dir(), 0).is_some());
        eventually("the second is begun", || place.dir().log_file(node(8)).exists());
        kill_process(Pid::from_child(&child), signal).unwrap();
        child.wait().unwrap();
        eventually("the manager has ended", || list_nodes(&place.dir()).unwrap().is_empty());
        // What was no manager could not remove its log; the next command does.
        down(&place.dir(), None, WATCHDOG, &mut |_| {}).unwrap();
        assert!(!place.dir().path().exists());
    }
}

#[test]
fn a_failed_up_is_undone() {
    let place = Place::new();
    let mut options = options(&place.root, 2);
    options.launcher = launcher("case \"$*\" in *'--id 8 '*) exec cat;; esac;");
    options.limit = Duration::from_millis(500);
    let error = up(&options, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("8 (does not respond)") && error.contains("stopped again"), "{error}");
    assert!(!place.dir().path().exists());
    // A log that cannot be made: something else is in its place.
    std::fs::create_dir(place.dir().path()).unwrap();
    support::set_mode(place.dir().path(), 0o700);
    std::fs::create_dir(place.dir().log_file(node(8))).unwrap();
    options.launcher = launcher("");
    let error = up(&options, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("cannot open the log") && error.contains("node-8.log"), "{error}");
    std::fs::remove_dir(place.dir().log_file(node(8))).unwrap();
    let left: Vec<_> = std::fs::read_dir(place.dir().path()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_manager_that_dies_silently_is_said_to_have_said_nothing() {
    let place = Place::new();
    let mut options = options(&place.root, 1);
    options.launcher = launcher("exit 3;");
    let error = up(&options, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("exit status: 3") && error.contains("(nothing: its log"), "{error}");
}

/// Stops a process, and waits until none of its threads runs any more: the signal alone lets them continue
/// for a moment.
fn stop(pid: Pid) {
    kill_process(pid, Signal::STOP).unwrap();
    let tasks = PathBuf::from(format!("/proc/{}/task", pid.as_raw_pid()));
    eventually("all threads are stopped", || {
        std::fs::read_dir(&tasks).unwrap().all(|task| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat")).unwrap();
            // The state follows the name, which may hold anything but ends with the last bracket.
            stat.rsplit(')').next().unwrap().trim_start().starts_with('T')
        })
    });
}

#[test]
fn a_manager_that_hangs_is_named_soon_and_ended_by_force() {
    let place = Place::new();
    let options = options(&place.root, 1);
    up(&options, &mut |_| {}).unwrap();
    let pid = pid_of(&place.dir(), 0).unwrap();
    stop(pid);
    // The watchdog's time is far from over.
    let error = up(&options, &mut |_| {}).unwrap_err();
    let number = pid.as_raw_pid().unsigned_abs();
    assert!(matches!(&error, NodeError::NotAnswering { pid, .. } if *pid == Some(number)), "{error}");
    let text = error.to_string();
    for part in
        ["node 4", "does not respond", "tieline node stop --node 4", &format!("kill -KILL {}", number)]
    {
        assert!(text.contains(part), "`{text}` lacks `{part}`");
    }
    let mut said = Vec::new();
    down(&place.dir(), None, WATCHDOG, &mut |progress| said.push(progress)).unwrap();
    assert!(matches!(said[..], [StopProgress::Killed { .. }]), "{said:?}");
    assert!(!place.dir().path().exists());
}

#[test]
fn two_downs_at_once_kill_nobody() {
    for _ in 0..5 {
        let place = Place::new();
        up(&options(&place.root, 3), &mut |_| {}).unwrap();
        let dir = place.dir();
        let both: Vec<_> = (0..2)
            .map(|_| {
                let dir = dir.clone();
                std::thread::spawn(move || down(&dir, None, WATCHDOG, &mut |_| {}))
            })
            .collect();
        for one in both {
            let report = one.join().unwrap().unwrap();
            assert!(report.killed.is_empty(), "{report:?}");
        }
        assert!(!dir.path().exists());
    }
}

//! Whole clusters of processes: up, down, and what lies between.
// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::PathBuf;
use std::time::Duration;

use node::cluster::{
    Launcher, NodeState, StopProgress, UpOptions, UpProgress, down, list_nodes, node_ids, status, up,
};
use node::lock::NodeLock;
use node::runtime_dir::ClusterDir;
use node::{Daemon, DaemonOptions, NodeError};
use support::{Place, WATCHDOG, node};

/// What the launched managers are: this binary, whose arguments the shell has put into the environment.
#[test]
fn manager_role() {
    let Ok(arguments) = std::env::var("TL_ARGUMENTS") else { return };
    let words: Vec<_> = arguments.split(' ').collect();
    let value = |name: &str| {
        let at = words.iter().position(|word| *word == name)?;
        words.get(at + 1).map(|word| (*word).to_owned())
    };
    assert_eq!(&words[..3], ["node", "run", "--background"]);
    node::cluster::detach();
    if std::env::var_os("TL_DEAF").is_some() {
        // Holds the node, as a manager does that hangs.
        let dir = ClusterDir::locate(
            value("--runtime-dir").map(PathBuf::from).as_deref(),
            value("--cluster").as_deref(),
        );
        let options = options_of(dir.unwrap(), &value("--id").unwrap());
        let _daemon = Daemon::start(&options).unwrap();
        loop {
            std::thread::sleep(Duration::from_secs(60));
        }
    }
    let run = || -> node::Result<()> {
        let config = value("--config").map(PathBuf::from);
        let (_, _) = node::daemon::settings_for(config.as_deref(), None).or_else(|error| match error {
            NodeError::NoId => Ok((support::quick(), node(4))),
            other => Err(other),
        })?;
        let dir = ClusterDir::locate(
            value("--runtime-dir").map(PathBuf::from).as_deref(),
            value("--cluster").as_deref(),
        )?;
        let options = options_of(dir, &value("--id").unwrap());
        Daemon::start(&DaemonOptions { signals: true, ..options })?.run()
    };
    if let Err(error) = run() {
        panic!("{error}");
    }
}

fn options_of(dir: ClusterDir, id: &str) -> DaemonOptions {
    DaemonOptions { dir, node: id.parse().unwrap(), settings: support::quick(), signals: false }
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

fn options(place: &Place, count: usize) -> UpOptions {
    UpOptions {
        dir: place.dir(),
        nodes: node_ids(count, None).unwrap(),
        launcher: launcher(""),
        config: Some(place.root.join("empty.toml")),
        limit: WATCHDOG,
        keep_files: false,
        stop: || false,
    }
}

/// A place with a configuration of its own, so that this machine's does not matter.
fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.root.join("empty.toml"), "").unwrap();
    place
}

fn stop_all(place: &Place) -> Vec<StopProgress> {
    let mut said = Vec::new();
    down(&place.dir(), None, WATCHDOG, &mut |progress| said.push(progress)).unwrap();
    said
}

#[test]
fn up_is_complete_repeatable_and_undone_by_down() {
    let place = place();
    let mut said = Vec::new();
    let report = up(&options(&place, 3), &mut |progress| said.push(progress)).unwrap();
    assert_eq!(report.started, node_ids(3, None).unwrap());
    assert_eq!(said.last(), Some(&UpProgress::Ready { ready: 3, of: 3 }));
    for id in [4, 8, 12] {
        let state = status(&place.dir(), node(id)).unwrap();
        assert!(state.links.iter().all(|link| link.session == proto::wire::status::SessionState::Valid));
        assert_eq!(state.links.len(), 2);
        assert_ne!(state.info.manager_pid, std::process::id());
    }
    // Again, and more: what runs goes on running.
    let before = list_nodes(&place.dir()).unwrap();
    let report = up(&options(&place, 4), &mut |_| {}).unwrap();
    assert_eq!((report.started, report.already_running), (vec![node(16)], node_ids(3, None).unwrap()));
    assert_eq!(list_nodes(&place.dir()).unwrap()[..3], before[..]);

    let report = down(&place.dir(), Some(&[node(8)]), WATCHDOG, &mut |_| {}).unwrap();
    assert_eq!(report.stopped, [node(8)]);
    assert_eq!(list_nodes(&place.dir()).unwrap().len(), 3);
    assert_eq!(stop_all(&place).len(), 3);
    assert!(!place.dir().path().exists());
    // Nothing there is fine.
    assert!(down(&place.dir(), None, WATCHDOG, &mut |_| {}).unwrap().is_empty());
}

#[test]
fn a_manager_that_dies_at_its_start_is_quoted() {
    let place = place();
    let mut options = options(&place, 2);
    options.launcher = launcher("case \"$*\" in *'--id 8 '*) echo 'no such luck' >&2; exit 3;; esac;");
    let error = up(&options, &mut |_| {}).unwrap_err().to_string();
    for part in ["node 8", "exit status: 3", "no such luck"] {
        assert!(error.contains(part), "`{error}` lacks `{part}`");
    }
    // The other one does not stay behind.
    assert!(list_nodes(&place.dir()).unwrap().is_empty());
    options.launcher =
        Launcher { program: "/no/such/binary".into(), leading: Vec::new(), lease: None, faults: false };
    let error = up(&options, &mut |_| {}).unwrap_err().to_string();
    assert!(error.contains("cannot run /no/such/binary"), "{error}");
}

#[test]
fn a_mistake_in_the_configuration_is_said_before_anything_is_started() {
    let place = place();
    std::fs::write(place.root.join("empty.toml"), "[manager]\nheartbeat = 1\n").unwrap();
    let error = up(&options(&place, 2), &mut |progress| panic!("{progress:?}")).unwrap_err();
    assert!(matches!(&error, NodeError::Config(_)), "{error}");
    assert!(error.to_string().contains("empty.toml, line 2, manager.heartbeat"), "{error}");
    assert!(!place.dir().path().exists());
}

#[test]
fn killed_managers_are_listed_as_dead_and_replaced() {
    let place = place();
    up(&options(&place, 3), &mut |_| {}).unwrap();
    let entry = list_nodes(&place.dir()).unwrap()[1];
    let NodeState::Running { pid: Some(pid) } = entry.state else { panic!("{entry:?}") };
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    support::eventually("it is dead", || list_nodes(&place.dir()).unwrap()[1].state == NodeState::Dead);
    let report = up(&options(&place, 3), &mut |_| {}).unwrap();
    assert_eq!(report.started, [node(8)]);
    stop_all(&place);
}

/// The last thread of a manager that was killed still holds its lock when the next one is to be started.
#[test]
fn a_lock_that_is_given_up_during_the_start_is_not_waited_for() {
    let place = place();
    up(&options(&place, 1), &mut |_| {}).unwrap();
    let mut held = Some(NodeLock::take(&place.dir(), node(8)).unwrap());
    let report = up(&options(&place, 2), &mut |progress| {
        if matches!(progress, UpProgress::AlreadyRunning { node: id, .. } if id == node(8)) {
            held.take();
        }
    });
    let report = report.unwrap();
    assert_eq!((report.started, report.already_running), (vec![node(8)], vec![node(4)]));
    stop_all(&place);
}

#[test]
fn a_manager_that_is_asked_by_a_signal_says_goodbye() {
    let place = place();
    up(&options(&place, 2), &mut |_| {}).unwrap();
    let NodeState::Running { pid: Some(pid) } = list_nodes(&place.dir()).unwrap()[1].state else { panic!() };
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    support::eventually("its files are gone", || list_nodes(&place.dir()).unwrap().len() == 1);
    support::eventually("it has said goodbye", || {
        let links = status(&place.dir(), node(4)).unwrap().links;
        links.iter().all(|link| link.session == proto::wire::status::SessionState::Stopped)
    });
    stop_all(&place);
}

#[test]
fn what_dead_managers_left_is_removed_by_down() {
    let place = place();
    up(&options(&place, 2), &mut |_| {}).unwrap();
    for entry in list_nodes(&place.dir()).unwrap() {
        let NodeState::Running { pid: Some(pid) } = entry.state else { panic!("{entry:?}") };
        let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    support::eventually("both are dead", || {
        list_nodes(&place.dir()).unwrap().iter().all(|entry| entry.state == NodeState::Dead)
    });
    assert_eq!(
        stop_all(&place),
        [StopProgress::Removed { node: node(4) }, StopProgress::Removed { node: node(8) }]
    );
    assert!(!place.dir().path().exists());
}

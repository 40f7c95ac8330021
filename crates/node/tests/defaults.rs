//! Directories that nobody has named: believed only if they are the user's own or root's. And who listens in
//! them. Only root can play several users; else these are skipped.

// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use node::config::Settings;
use node::runtime_dir::{ClusterDir, RuntimeDirError};
use node::{Daemon, DaemonOptions};
use node_client::{AttachOptions, Client};
use proto::wire::program::Access;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with};
use support::{ChildProcess, Place, as_user, eventually, node, place_of_users, play, set_mode, spawn};

const VICTIM: u32 = 54_321;
const HOSTILE: u32 = 54_322;

fn expected() -> String {
    std::env::var("TL_EXPECTED").unwrap()
}

fn says(text: &str) {
    for part in expected().split('|') {
        assert!(text.contains(part), "`{text}` lacks `{part}`");
    }
}

#[test]
fn child_role() {
    support::child_role(|role, _| match role {
        // All by defaults, as a program does that knows nothing of directories.
        "attach by default" => {
            let client = Client::attach(&AttachOptions::default(), |_| {}).unwrap();
            assert!(client.probe(node(4)).unwrap());
        }
        "refused by default" => {
            says(&Client::attach(&AttachOptions::default(), |_| {}).unwrap_err().to_string());
        }
        "start by default" => {
            let dir = ClusterDir::locate(None, None).unwrap();
            let options = DaemonOptions { dir, node: node(4), settings: support::quick(), signals: false };
            match Daemon::start(&options) {
                Ok(_) => assert_eq!(expected(), ""),
                Err(error) => says(&error.to_string()),
            }
        }
        "squat" => {
            let attach = Access { uids: vec![VICTIM], gid: None };
            let settings = Settings { attach, ..support::quick() };
            let dir = ClusterDir::locate(None, None).unwrap();
            let options = DaemonOptions { dir, node: node(4), settings, signals: false };
            Daemon::start(&options).unwrap().run().unwrap();
        }
        "listen on standard input" => {
            listen(std::io::stdin(), 8).unwrap();
            std::thread::sleep(support::WATCHDOG);
        }
        other => panic!("{other}"),
    });
}

/// A temporary directory as it is for several users, and where the victim's managers are looked for in it.
fn temporary(place: &Place) -> (PathBuf, PathBuf) {
    let temporary = place.root.join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    set_mode(&temporary, 0o1777);
    let root = temporary.join(format!("tieline-{VICTIM}"));
    (temporary, root)
}

fn by_default(place: &Place, uid: u32, role: &str, temporary: &Path, expected: &str) -> Command {
    let mut command = as_user(place, uid, uid, role);
    for variable in ["TIELINE_RUNTIME_DIR", "TIELINE_CLUSTER", "TIELINE_NODE", "XDG_RUNTIME_DIR"] {
        command.env_remove(variable);
    }
    command.env("TMPDIR", temporary).env("TL_EXPECTED", expected);
    command
}

fn squatter(place: &Place, temporary: &Path, root: &Path) -> ChildProcess {
    let mut command = by_default(place, HOSTILE, "squat", temporary, "");
    command.env("TIELINE_RUNTIME_DIR", root).stdout(Stdio::null()).stderr(Stdio::null());
    let child = ChildProcess { child: spawn(&mut command) };
    eventually("the squatter's socket", || root.join("default/node-4.sock").exists());
    child
}

#[test]
fn a_manager_of_another_user_in_a_default_directory_is_not_believed() {
    let Some(place) = place_of_users() else { return };
    let (temporary, root) = temporary(&place);
    let _squatter = squatter(&place, &temporary, &root);
    let foreign = format!("{}|belongs to user {HOSTILE}|TIELINE_RUNTIME_DIR", root.display());
    for role in ["refused by default", "start by default"] {
        play(&mut by_default(&place, VICTIM, role, &temporary, &foreign));
    }
    // Who names it means it.
    let mut named = by_default(&place, VICTIM, "attach by default", &temporary, "");
    play(named.env("TIELINE_RUNTIME_DIR", &root));
}

#[test]
fn a_link_in_the_place_of_a_default_directory_is_not_followed() {
    let Some(place) = place_of_users() else { return };
    let (temporary, root) = temporary(&place);
    let elsewhere = temporary.join("elsewhere");
    let _squatter = squatter(&place, &temporary, &elsewhere);
    symlink(&elsewhere, &root).unwrap();
    for role in ["refused by default", "start by default"] {
        play(&mut by_default(&place, VICTIM, role, &temporary, "is not a directory"));
    }
    // Not even to a directory of the victim's own: a process that made the link can turn it.
    std::fs::remove_file(&root).unwrap();
    let own = temporary.join("own");
    std::fs::create_dir(&own).unwrap();
    chown(&own, Some(VICTIM), None).unwrap();
    set_mode(&own, 0o700);
    symlink(&own, &root).unwrap();
    play(&mut by_default(&place, VICTIM, "start by default", &temporary, "is not a directory"));
}

#[test]
fn a_temporary_directory_of_another_user_is_not_believed() {
    let Some(place) = place_of_users() else { return };
    let (temporary, root) = temporary(&place);
    std::fs::create_dir(&root).unwrap();
    chown(&root, Some(VICTIM), None).unwrap();
    set_mode(&root, 0o700);
    play(&mut by_default(&place, VICTIM, "start by default", &temporary, ""));
    chown(&temporary, Some(HOSTILE), None).unwrap();
    let expected = format!("{}|belongs to user {HOSTILE}", temporary.display());
    for role in ["refused by default", "start by default"] {
        play(&mut by_default(&place, VICTIM, role, &temporary, &expected));
    }
}

#[test]
fn a_directory_of_roots_and_a_manager_of_roots_are_believed() {
    let Some(place) = place_of_users() else { return };
    let (temporary, root) = temporary(&place);
    let attach = Access { uids: vec![VICTIM], gid: None };
    let dir = ClusterDir::new(root, proto_cluster());
    let settings = Settings { attach, ..support::quick() };
    let daemon = Daemon::start(&DaemonOptions { dir, node: node(4), settings, signals: false }).unwrap();
    let stop = daemon.stop_handle();
    let running = support::Running { stop, thread: Some(std::thread::spawn(move || daemon.run().unwrap())) };
    play(&mut by_default(&place, VICTIM, "attach by default", &temporary, ""));
    drop(running);
}

fn proto_cluster() -> node::runtime_dir::ClusterName {
    node::runtime_dir::ClusterName::new("default").unwrap()
}

/// A directory's owner proves nothing of the one that answers there.
#[test]
fn a_stranger_who_listens_in_a_believed_directory_is_found_out() {
    let Some(place) = place_of_users() else { return };
    let (temporary, root) = temporary(&place);
    let cluster = root.join("default");
    std::fs::create_dir_all(&cluster).unwrap();
    for path in [&root, &cluster] {
        chown(path, Some(VICTIM), None).unwrap();
        set_mode(path, 0o711);
    }
    let flags = SocketFlags::CLOEXEC;
    let socket: OwnedFd = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let path = cluster.join("node-4.sock");
    bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    set_mode(&path, 0o666);
    let listener = socket.as_fd().try_clone_to_owned().unwrap();
    let mut command = by_default(&place, HOSTILE, "listen on standard input", &temporary, "");
    command.stdin(listener).stdout(Stdio::null()).stderr(Stdio::null());
    let _hostile = ChildProcess { child: spawn(&mut command) };
    eventually("somebody listens", || node_client::seqpacket::Seqpacket::connect(&path).is_ok());
    let expected = format!("user {HOSTILE} listens there|of user {VICTIM}|TIELINE_RUNTIME_DIR");
    play(&mut by_default(&place, VICTIM, "refused by default", &temporary, &expected));
    // Neither does naming it help.
    let mut named = by_default(&place, VICTIM, "refused by default", &temporary, &expected);
    play(named.env("TIELINE_RUNTIME_DIR", &root));
}

/// Others may put clusters of any name into a sticky directory.
#[test]
fn a_cluster_of_another_user_in_a_named_directory_that_all_may_write_is_not_believed() {
    let Some(place) = place_of_users() else { return };
    let (temporary, _) = temporary(&place);
    let _squatter = squatter(&place, &temporary, &temporary);
    let expected = format!("{}|belongs to user {HOSTILE}", temporary.join("default").display());
    let mut command = by_default(&place, VICTIM, "refused by default", &temporary, &expected);
    play(command.env("TIELINE_RUNTIME_DIR", &temporary));
}

#[test]
fn an_open_directory_is_used_whatever_takes_its_name() {
    let place = Place::new();
    std::fs::create_dir(place.dir().path()).unwrap();
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(place.dir().socket(node(4)).unwrap()).unwrap()).unwrap();
    listen(&socket, 8).unwrap();
    let open = place.dir().open().unwrap().unwrap();
    let moved = place.root.join("moved");
    std::fs::rename(place.dir().path(), &moved).unwrap();
    std::fs::create_dir(place.dir().path()).unwrap();
    assert!(open.connect(node(4)).is_ok());
    std::fs::remove_dir(place.dir().path()).unwrap();
    assert!(matches!(place.dir().open(), Ok(None)));
    std::fs::write(place.dir().path(), "").unwrap();
    assert!(matches!(place.dir().open(), Err(RuntimeDirError::NotADirectory { .. })));
}

//! The directory, the lock, and limits of the system.
// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use node::config::Settings;
use node::runtime_dir::{ClusterDir, ClusterName, RuntimeRoot, Sharing, prepare};
use node::{Daemon, DaemonOptions, NodeError};
use node_client::seqpacket::Seqpacket;
use node_client::{Client, ClientError};
use proto::wire::program::Access;
use rustix::process::{Resource, Rlimit, geteuid, setrlimit};
use support::{ChildProcess, Place, Raw, eventually, node, set_mode};

/// What children of these tests do.
#[test]
fn child_role() {
    support::child_role(|role, place| match role {
        "few descriptors" => {
            let few = Rlimit { current: Some(40), maximum: Some(40) };
            setrlimit(Resource::Nofile, few).unwrap();
            let mut options = place.options(4);
            // More programs than there are descriptors: the kernel's limit is met, not ours.
            options.settings.limits.programs = Some(1000);
            Daemon::start(&options).unwrap().run().unwrap();
        }
        other => panic!("{other}"),
    });
}

fn start_error(options: &DaemonOptions) -> String {
    match Daemon::start(options) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("it started"),
    }
}

fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{text}` lacks `{part}`");
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn a_new_place_is_private() {
    let place = Place::new();
    let _manager = place.start(4);
    assert_eq!(mode(place.dir().path()), 0o700);
    for file in ["node-4.sock", "node-4.peer", "node-4.lock"] {
        assert_eq!(mode(&place.dir().path().join(file)) & 0o077, 0, "{file}");
    }
    let lock = std::fs::read_to_string(place.dir().lock_file(node(4))).unwrap();
    assert_eq!(lock.trim(), std::process::id().to_string());
}

#[test]
fn a_manager_leaves_nothing() {
    let place = Place::new();
    let managers = place.start_all(&[4, 8]);
    drop(managers);
    assert_eq!(std::fs::read_dir(&place.root).unwrap().count(), 0);
}

#[test]
fn sharing_opens_exactly_what_it_says() {
    let place = Place::new();
    let gid = rustix::process::getegid().as_raw();
    let settings = |attach| Settings { attach, ..support::quick() };
    let start =
        |attach| Daemon::start(&DaemonOptions { settings: settings(attach), ..place.options(4) }).unwrap();
    let group = start(Access { uids: vec![], gid: Some(gid) });
    assert_eq!((mode(place.dir().path()), mode(&place.dir().socket(node(4)).unwrap())), (0o750, 0o660));
    assert_eq!(mode(&place.dir().peer_socket(node(4)).unwrap()), 0o600);
    drop(group);
    // Single users stand in a list, whose mask the mode shows in place of the group; without lists everybody
    // may connect.
    let users = start(Access { uids: vec![12345], gid: None });
    let modes = (mode(place.dir().path()), mode(&place.dir().socket(node(4)).unwrap()));
    assert!([(0o750, 0o660), (0o755, 0o666)].contains(&modes), "{modes:?}");
    drop(users);
    let _nobody = start(Access::default());
    assert_eq!(mode(&place.dir().socket(node(4)).unwrap()), 0o600);
}

#[test]
fn a_foreign_owner_is_refused() {
    if !geteuid().is_root() {
        println!("skipped: only root can give a directory away");
        return;
    }
    let place = Place::new();
    prepare(&place.dir(), &Sharing::default()).unwrap();
    let give = |path: &Path| std::os::unix::fs::chown(path, Some(12345), None).unwrap();
    give(place.dir().path());
    let expected = ["belongs to user 12345, not to user 0", "TIELINE_RUNTIME_DIR"];
    has(&start_error(&place.options(4)), &expected);
    let attach = || Client::attach(&place.attach_options(4), |_| {}).unwrap_err();
    has(&attach().to_string(), &expected);
    // Root's word on who owns the place above counts as well.
    std::os::unix::fs::chown(place.dir().path(), Some(0), None).unwrap();
    give(&place.root);
    has(&start_error(&place.options(4)), &expected);
    assert!(matches!(attach(), ClientError::RuntimeDir(_)));
}

/// A directory of this user's that nobody else may enter.
fn private(place: &Place) -> std::path::PathBuf {
    let private = place.root.with_extension("private");
    std::fs::create_dir(&private).unwrap();
    set_mode(&private, 0o700);
    private
}

#[test]
fn a_link_in_its_place_is_not_followed() {
    let place = Place::new();
    prepare(&place.dir(), &Sharing::default()).unwrap();
    std::fs::remove_dir(place.dir().path()).unwrap();
    let private = private(&place);
    symlink(&private, place.dir().path()).unwrap();
    let mut options = place.options(4);
    options.settings.attach = Access { uids: vec![12345], gid: None };
    has(&start_error(&options), &["is not a directory"]);
    // Nobody was let in, and nothing is left there.
    assert_eq!((mode(&private), std::fs::read_dir(&private).unwrap().count()), (0o700, 0));
    std::fs::remove_dir(private).unwrap();
}

#[test]
fn a_link_of_somebody_else_in_the_place_of_a_named_directory_is_not_followed() {
    if !geteuid().is_root() {
        println!("skipped: only root can give a link away");
        return;
    }
    let place = Place::new();
    let private = private(&place);
    let named = place.root.join("named");
    symlink(&private, &named).unwrap();
    let prepared = || {
        let dir = ClusterDir::new(named.clone(), ClusterName::new("lab").unwrap());
        prepare(&dir, &Sharing { uids: vec![12345], gid: None }).map_err(|error| error.to_string())
    };
    std::os::unix::fs::lchown(&named, Some(12345), None).unwrap();
    has(&prepared().unwrap_err(), &["named is not a directory"]);
    assert_eq!((mode(&private), std::fs::read_dir(&private).unwrap().count()), (0o700, 0));
    // A link of the user's own is the user's word.
    std::os::unix::fs::lchown(&named, Some(0), None).unwrap();
    prepared().unwrap();
    std::fs::remove_dir_all(private).unwrap();
}

#[test]
fn only_a_process_of_the_owner_is_ended_as_a_manager() {
    if !geteuid().is_root() {
        println!("skipped: only root can give a directory away");
        return;
    }
    let place = Place::new();
    prepare(&place.dir(), &Sharing::default()).unwrap();
    let mut other = std::process::Command::new("sleep").arg("600").spawn().unwrap();
    // A process that has the directory says that this process of another user is the manager of a node.
    std::fs::write(place.dir().lock_file(node(4)), format!("{}\n", other.id())).unwrap();
    let lock = std::fs::File::open(place.dir().lock_file(node(4))).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    for path in [place.dir().path(), &place.root] {
        set_mode(path, 0o711);
        std::os::unix::fs::chown(path, Some(12345), None).unwrap();
    }
    let ended = node::cluster::down(&place.dir(), None, std::time::Duration::ZERO, &mut |_| ());
    let is_alive = other.try_wait().unwrap().is_none();
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(is_alive, "{ended:?}");
    has(&ended.unwrap_err().to_string(), &["of the directory's owner"]);
}

#[test]
fn a_place_that_others_may_write_is_refused() {
    let place = Place::new();
    prepare(&place.dir(), &Sharing::default()).unwrap();
    let path = place.dir();
    for (bad, what) in
        [(0o770, "put their own sockets"), (0o707, "put their own sockets"), (0o755, "reach its managers")]
    {
        set_mode(path.path(), bad);
        has(&start_error(&place.options(4)), &[&format!("has mode {bad:04o}"), what, "chmod 0700"]);
    }
    set_mode(path.path(), 0o777);
    let attach = Client::attach(&place.attach_options(4), |_| {}).unwrap_err().to_string();
    has(&attach, &["has mode 0777", "chmod"]);
    set_mode(path.path(), 0o700);
    set_mode(&place.root, 0o777);
    has(&start_error(&place.options(4)), &["has mode 0777"]);
    // As /tmp is.
    set_mode(&place.root, 0o1777);
    drop(Daemon::start(&place.options(4)).unwrap());
    set_mode(&place.root, 0o700);
}

#[test]
fn what_is_no_directory_is_named() {
    let place = Place::new();
    std::fs::write(place.dir().path(), "").unwrap();
    has(&start_error(&place.options(4)), &["is not a directory", "--runtime-dir"]);
    let mut options = place.options(4);
    options.dir = ClusterDir::new(place.dir().path().into(), place.dir().cluster().clone());
    has(&start_error(&options), &["is not a directory"]);
}

#[test]
fn a_path_too_long_for_a_socket_is_named() {
    let place = Place::new();
    let mut options = place.options(4);
    let long = place.root.join("x".repeat(90));
    options.dir = ClusterDir::new(long, place.dir().cluster().clone());
    has(&start_error(&options), &["bytes, the system allows 107", "shorter"]);
}

#[test]
fn an_id_in_use_names_who_has_it() {
    let place = Place::new();
    let _manager = place.start(4);
    let error = Daemon::start(&place.options(4)).unwrap_err();
    assert!(matches!(error, NodeError::Lock(_)));
    let holder = format!("process {}", std::process::id());
    has(&error.to_string(), &["node 4", "`t`", &holder, "tieline node stop --node 4"]);
    // Nothing of the first was touched.
    assert!(place.attach(4).probe(node(4)).unwrap());
    // The same id in another cluster is another node.
    let other = DaemonOptions { dir: place.cluster("other"), ..place.options(4) };
    drop(Daemon::start(&other).unwrap());
}

#[test]
fn what_a_killed_manager_left_is_replaced() {
    let place = Place::new();
    place.start_process(4).kill();
    let socket = place.dir().socket(node(4)).unwrap();
    assert!(socket.exists());
    assert_eq!(Seqpacket::connect(&socket).unwrap_err(), rustix::io::Errno::CONNREFUSED);
    let attach = Client::attach(&place.attach_options(4), |_| {}).unwrap_err();
    assert!(support::is_gone(&attach), "{attach}");
    has(&attach.to_string(), &["node 4", "has ended", "tieline node start --node 4"]);
    let _manager = place.start(4);
    assert!(place.attach(4).probe(node(4)).unwrap());
}

#[test]
fn a_symbolic_link_is_not_followed_to_a_lock() {
    let place = Place::new();
    prepare(&place.dir(), &Sharing::default()).unwrap();
    let elsewhere = place.root.join("elsewhere");
    std::fs::write(&elsewhere, "precious").unwrap();
    symlink(&elsewhere, place.dir().lock_file(node(4))).unwrap();
    has(&start_error(&place.options(4)), &["cannot lock"]);
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "precious");
}

#[test]
fn a_manager_whose_files_are_removed_ends() {
    for remove_all in [true, false] {
        let place = Place::new();
        let mut manager = place.start(4);
        let client = place.attach(4);
        if remove_all {
            std::fs::remove_dir_all(place.dir().path()).unwrap();
        } else {
            std::fs::remove_file(place.dir().socket(node(4)).unwrap()).unwrap();
        }
        manager.thread.take().unwrap().join().unwrap();
        eventually("the program has noticed", || !client.is_attached());
    }
}

#[test]
fn clusters_live_side_by_side() {
    let place = Place::new();
    let _ours = place.start_all(&[4, 8]);
    let other = DaemonOptions { dir: place.cluster("other"), ..place.options(12) };
    let daemon = Daemon::start(&other).unwrap();
    let (stop, thread) = (daemon.stop_handle(), std::thread::spawn(move || daemon.run()));
    let clusters =
        node::cluster::list_clusters(&RuntimeRoot { path: place.root.clone(), named: true }).unwrap();
    let names: Vec<_> = clusters.iter().map(|entry| (entry.cluster.as_str(), entry.nodes.len())).collect();
    assert_eq!(names, [("other", 1), ("t", 2)]);
    let links = place.attach(4).status().unwrap().links;
    assert_eq!(links.iter().map(|link| link.peer).collect::<Vec<_>>(), [node(8)]);
    stop.stop();
    thread.join().unwrap().unwrap();
}

#[test]
fn without_descriptors_programs_are_turned_away_with_a_reason() {
    let place = Place::new();
    let _manager = ChildProcess::start("few descriptors", &[("TL_ROOT", place.root.to_str().unwrap())]);
    let socket = place.dir().socket(node(4)).unwrap();
    eventually("the manager's socket", || Seqpacket::connect(&socket).is_ok());
    let first = place.attach(4);
    let mut held = Vec::new();
    let refused = loop {
        assert!(held.len() < 60, "the limit was never met");
        let raw = Raw::connect(&place, 4);
        // A process that is accepted hears nothing yet; a process that is turned away hears why.
        let mut buffer = [0; 4096];
        raw.socket
            .wait(node_client::seqpacket::Wanted::Read, Some(std::time::Duration::from_millis(200)))
            .unwrap();
        if raw.socket.receive(&mut buffer).is_ok() {
            break raw;
        }
        held.push(raw);
    };
    drop(refused);
    let error = Client::attach(&place.attach_options(4), |_| {}).unwrap_err().to_string();
    has(&error, &["no file descriptor left", "limit is 40", "ulimit -n"]);
    // Those who were there are served, and there is room again when some go.
    assert!(first.probe(node(4)).unwrap());
    held.clear();
    eventually("room again", || Client::attach(&place.attach_options(4), |_| {}).is_ok());
}

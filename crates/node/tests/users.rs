//! Other users: who may attach, and what the others are told. Only root can play several users; else these are skipped.

// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use node::config::Settings;
use node::{Daemon, DaemonOptions};
use node_client::Client;
use proto::wire::program::Access;
use rustix::process::geteuid;
use support::{Place, Running, node, set_mode};

const STRANGER: u32 = 54_321;

/// What children of these tests do: they end well if it went as it should.
#[test]
fn child_role() {
    support::child_role(|role, place| match role {
        "attach" => {
            let client = place.attach(4);
            assert!(client.probe(node(4)).unwrap());
        }
        // What the error has to say is in the environment.
        "refused" => {
            let error = Client::attach(&place.attach_options(4), |_| {}).unwrap_err().to_string();
            let expected = std::env::var("TL_EXPECTED").unwrap();
            assert!(error.contains(&expected), "`{error}` lacks `{expected}`");
        }
        "own manager" => {
            let manager = place.start(4);
            assert!(place.attach(4).probe(node(4)).unwrap());
            drop(manager);
        }
        "no place" => {
            let error = Daemon::start(&place.options(4)).unwrap_err().to_string();
            assert!(error.contains("--runtime-dir or TIELINE_RUNTIME_DIR"), "{error}");
        }
        other => panic!("{other}"),
    });
}

/// A place that all can reach, with this test's binary in it; `None` if the test is not for this user.
fn place() -> Option<Place> {
    if !geteuid().is_root() {
        println!("skipped: only root can be several users");
        return None;
    }
    let place = Place::new();
    set_mode(&place.root, 0o711);
    std::fs::copy(std::env::current_exe().unwrap(), place.root.join("binary")).unwrap();
    set_mode(&place.root.join("binary"), 0o755);
    Some(place)
}

fn start(place: &Place, attach: Access) -> Running {
    let settings = Settings { attach, ..support::quick() };
    let daemon = Daemon::start(&DaemonOptions { settings, ..place.options(4) }).unwrap();
    let stop = daemon.stop_handle();
    Running { stop, thread: Some(std::thread::spawn(move || daemon.run().unwrap())) }
}

fn play(place: &Place, role: &str, gid: u32, environment: &[(&str, &str)]) {
    let mut command = Command::new(place.root.join("binary"));
    command.args(["--exact", "child_role", "--nocapture", "--test-threads=1"]).env("TL_ROLE", role);
    command.env("TL_ROOT", &place.root).envs(environment.iter().copied()).stdin(Stdio::null());
    command.current_dir("/").uid(STRANGER).gid(gid);
    let output = loop {
        match command.output() {
            // Another test forked while this one had its copy of the binary open to write.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            done => break done.unwrap(),
        }
    };
    assert!(output.status.success(), "{role}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_stranger_does_not_even_get_in() {
    let Some(place) = place() else { return };
    let _manager = start(&place, Access::default());
    play(&place, "refused", STRANGER, &[("TL_EXPECTED", "Permission denied")]);
}

#[test]
fn a_user_that_is_named_attaches_and_another_is_told_why_not() {
    let Some(place) = place() else { return };
    let manager = start(&place, Access { uids: vec![STRANGER], gid: None });
    play(&place, "attach", STRANGER, &[]);
    drop(manager);
    let _manager = start(&place, Access { uids: vec![12_345], gid: None });
    play(&place, "refused", STRANGER, &[("TL_EXPECTED", "user 54321 may not attach to node 4")]);
}

#[test]
fn a_member_of_the_group_attaches_and_others_do_not_get_in() {
    let Some(place) = place() else { return };
    let _manager = start(&place, Access { uids: vec![], gid: Some(777) });
    play(&place, "attach", 777, &[]);
    play(&place, "refused", STRANGER, &[("TL_EXPECTED", "Permission denied")]);
}

#[test]
fn an_unprivileged_user_has_a_cluster_of_its_own() {
    let Some(place) = place() else { return };
    play(&place, "no place", STRANGER, &[]);
    let own = place.root.join("own");
    std::fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(STRANGER), None).unwrap();
    play(&place, "own manager", STRANGER, &[("TL_ROOT", own.to_str().unwrap())]);
}

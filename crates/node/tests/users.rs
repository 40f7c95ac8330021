//! Other users: who may attach, and what the others are told. Only root can play several users; else these
//! are skipped.

// Helpers of tests are tests, which clippy cannot see.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::os::unix::fs::MetadataExt;

use node::config::Settings;
use node::{Daemon, DaemonOptions};
use node_client::Client;
use proto::wire::program::Access;
use support::{Place, Running, node, place_of_users};

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

fn start(place: &Place, attach: Access) -> Running {
    let settings = Settings { attach, ..support::quick() };
    let daemon = Daemon::start(&DaemonOptions { settings, ..place.options(4) }).unwrap();
    let stop = daemon.stop_handle();
    Running { stop, thread: Some(std::thread::spawn(move || daemon.run().unwrap())) }
}

fn play(place: &Place, role: &str, gid: u32, environment: &[(&str, &str)]) {
    support::play(support::as_user(place, STRANGER, gid, role).envs(environment.iter().copied()));
}

#[test]
fn a_stranger_does_not_even_get_in() {
    let Some(place) = place_of_users() else { return };
    let _manager = start(&place, Access::default());
    play(&place, "refused", STRANGER, &[("TL_EXPECTED", "Permission denied")]);
}

#[test]
fn a_user_that_is_named_attaches_and_another_is_told_why_not() {
    let Some(place) = place_of_users() else { return };
    let manager = start(&place, Access { uids: vec![STRANGER], gid: None });
    play(&place, "attach", STRANGER, &[]);
    drop(manager);
    let _manager = start(&place, Access { uids: vec![12_345], gid: None });
    // Not let in by the kernel; where the file system has no lists, by the manager.
    let by_list = std::fs::metadata(place.dir().path()).unwrap().mode() & 0o007 == 0;
    let expected =
        if by_list { "list this user under [access]" } else { "user 54321 may not attach to node 4" };
    play(&place, "refused", STRANGER, &[("TL_EXPECTED", expected)]);
}

#[test]
fn a_member_of_the_group_attaches_and_others_do_not_get_in() {
    let Some(place) = place_of_users() else { return };
    let _manager = start(&place, Access { uids: vec![], gid: Some(777) });
    play(&place, "attach", 777, &[]);
    play(&place, "refused", STRANGER, &[("TL_EXPECTED", "Permission denied")]);
}

#[test]
fn an_unprivileged_user_has_a_cluster_of_its_own() {
    let Some(place) = place_of_users() else { return };
    play(&place, "no place", STRANGER, &[]);
    let own = place.root.join("own");
    std::fs::create_dir(&own).unwrap();
    std::os::unix::fs::chown(&own, Some(STRANGER), None).unwrap();
    play(&place, "own manager", STRANGER, &[("TL_ROOT", own.to_str().unwrap())]);
}

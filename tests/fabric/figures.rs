//! The figures of the subnet manager, on trees of 16 and 432 hosts: that they are measured, and that a
//! manager that does not do its work gives no figure. How long it takes is not judged here.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use bench::patterns::subnet;
use bench::progress::{Progress, Quiet, Waiter};
use tieline_tests::Watchdog;
use tieline_tests::cluster::tieline_binary;
use topology::Graph;
use topology::build::{FatTree, fat_tree};

use crate::harness::Place;

fn tree(radix: u32) -> Graph {
    fat_tree(&FatTree::new(radix, 3)).unwrap()
}

fn tieline() -> PathBuf {
    tieline_tests::dispositions::pass_on_the_usual();
    tieline_binary().unwrap()
}

fn waiter() -> Arc<dyn Waiter> {
    Quiet.waiter()
}

#[test]
fn bring_up_and_memory_of_432_hosts() {
    let _watchdog = Watchdog::usual("figures of a bring-up");
    let graph = tree(12);
    let up = subnet::bring_up(&tieline(), &graph, &waiter()).unwrap();
    assert!(up.seconds > 0.0 && up.note.starts_with("180 switches, 612 LIDs, 1296 links"), "{up:?}");
    let peak = subnet::memory(&tieline(), &graph, &waiter()).unwrap();
    assert!(peak > 1e6, "{peak}");
}

#[test]
fn faults_of_432_hosts() {
    let _watchdog = Watchdog::usual("figures of faults");
    let graph = tree(12);
    for one in subnet::one_link(&tieline(), &graph, 2, &waiter()).unwrap() {
        assert!(one.seconds > 0.0 && one.note.contains("all of them of routes"), "{one:?}");
    }
    let switch = subnet::switch(&tieline(), &graph, 1, &waiter()).unwrap();
    assert!(switch[0].note.contains("12 cables"), "{switch:?}");
}

#[test]
fn the_change_of_master() {
    let _watchdog = Watchdog::usual("figures of a failover");
    for tuned in [false, true] {
        let one = subnet::failover(&tieline(), &tree(4), tuned, &waiter()).unwrap();
        assert!(one.note.ends_with("no LFT block"), "{one:?}");
    }
}

#[test]
fn path_records_beside_an_echo() {
    let _watchdog = Watchdog::usual("figures of path records");
    for one in subnet::paths(&tieline(), &tree(4), 2_000, 2, &waiter()).unwrap() {
        assert!(one.ours > 0.0 && one.echo > 0.0 && one.p99_us > 0.0, "{one:?}");
    }
}

#[test]
fn opensm_beside_it() {
    let _watchdog = Watchdog::usual("figures of OpenSM");
    let limit = std::time::Duration::from_secs(60);
    let mut opensm = match subnet::OpenSm::start(&tieline(), &tree(4), &waiter()) {
        Ok(opensm) => opensm,
        Err(error) => {
            assert!(error.to_string().contains("is not installed"), "{error}");
            println!("left out: {error}");
            return;
        }
    };
    assert!(opensm.bring_up(limit).unwrap().is_some());
    assert!(opensm.one_link(limit).unwrap().is_some());
    assert!(opensm.switch(limit).unwrap().is_some());
    assert_eq!(opensm.bring_up(std::time::Duration::ZERO).unwrap(), None, "there was no time");
}

/// A program that serves as `tieline` does and whose manager reports more than it did.
#[test]
fn a_manager_that_only_says_that_it_did_its_work_gives_no_figure() {
    let _watchdog = Watchdog::usual("figures of a liar");
    let place = Place::new();
    let liar = place.path("liar");
    let said = r#"{"event":"brought_up","failed_sets":0,"lost_pairs":0,"credit_loop":0,"links":48,"active_links":48}"#;
    let script = format!(
        "#!/bin/sh\nif [ \"$2\" = manage ]; then echo '{said}'; exit 0; fi\nexec '{}' \"$@\"\n",
        tieline().display()
    );
    place.write("liar", &script);
    std::fs::set_permissions(&liar, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = subnet::bring_up(&liar, &tree(4), &waiter()).unwrap_err().to_string();
    assert!(error.starts_with("0 of 48 links are active"), "{error}");
    place.write("liar", &script.replace(&format!("echo '{said}'; exit 0"), "echo no more room >&2; exit 3"));
    let error = subnet::bring_up(&liar, &tree(4), &waiter()).unwrap_err().to_string();
    assert!(error.contains("ended before the fabric was up") && error.contains("no more room"), "{error}");
}

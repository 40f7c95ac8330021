//! `tieline conntest` while a node manager ends or is restarted: data goes on, and the node has failed.

use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tieline_tests::{Cluster, Watchdog};

fn start(cluster: &Cluster, words: &[&str]) -> Child {
    let words = [&["conntest", "--time", "4", "--json"], words].concat();
    cluster.command(&words).unwrap().stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// Waits until so many instances are there, and for what they exchange first.
fn instances(cluster: &Cluster, count: usize) {
    while cluster.run(&["status", "--json"]).unwrap().1.matches("\"conntest\"").count() < count {
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_millis(700));
}

fn kill(cluster: &Cluster, index: usize) {
    let pid = cluster.manager_pid(index).unwrap().try_into().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Exit status and report.
fn ended(test: Child) -> (Option<i32>, Value) {
    let output = test.wait_with_output().unwrap();
    (output.status.code(), serde_json::from_slice(&output.stdout).unwrap())
}

fn of(report: &Value, node: u32) -> &Value {
    report["instances"].as_array().unwrap().iter().find(|one| one["node"] == node).unwrap()
}

fn suspects(report: &Value) -> Vec<String> {
    report["culprits"].as_array().unwrap().iter().map(|one| one["suspect"].to_string()).collect()
}

#[test]
fn a_manager_that_is_killed_meanwhile_fails_the_test_and_its_node_is_named() {
    let _watchdog = Watchdog::usual("conntest and a killed manager");
    let cluster = Cluster::up(3).unwrap();
    let test = start(&cluster, &[]);
    instances(&cluster, 3);
    kill(&cluster, 1);
    let (status, report) = ended(test);
    assert_eq!((status, &report["verdict"]), (Some(1), &"FAIL".into()), "{report:#}");
    assert_eq!(suspects(&report), [r#"{"node":8}"#], "{report:#}");
    let outages = of(&report, 8)["manager_outages"].as_array().unwrap();
    assert!(outages.len() == 1 && outages[0]["lasted_ns"].is_null(), "{report:#}");
    let text = report["culprits"][0]["evidence"][0].as_str().unwrap();
    assert!(
        text.starts_with("its manager ended at ")
            && text.ends_with("start it with `tieline node start --node 8`"),
        "{text}"
    );
    for node in [4, 12] {
        let peers = of(&report, node)["peers"].as_array().unwrap();
        let peer = |id: u32| peers.iter().find(|one| one["node"] == id).unwrap();
        assert!(
            peer(8)["session_lost"].is_string() && peer(16 - node)["session_lost"].is_null(),
            "{report:#}"
        );
        assert_eq!(
            (peer(8)["ledger"]["failures"].as_u64(), peer(16 - node)["ledger"]["failures"].as_u64()),
            (Some(1), Some(0)),
            "{report:#}"
        );
    }
}

#[test]
fn a_manager_that_is_restarted_meanwhile_fails_the_test() {
    let _watchdog = Watchdog::usual("conntest and a restarted manager");
    let cluster = Cluster::up(2).unwrap();
    let test = start(&cluster, &[]);
    instances(&cluster, 2);
    let (status, out, err) = cluster.run(&["node", "restart", "--node", "8"]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    let (status, report) = ended(test);
    assert_eq!((status, &report["verdict"]), (Some(1), &"FAIL".into()), "{report:#}");
    let outage = &of(&report, 8)["manager_outages"][0];
    assert!(outage["lasted_ns"].is_u64(), "{report:#}");
    assert!(suspects(&report).contains(&r#"{"node":8}"#.to_owned()), "{report:#}");
}

/// Each in a program of its own: what the others see is the session.
#[test]
fn an_instance_elsewhere_sees_that_the_manager_of_its_peer_was_killed() {
    let _watchdog = Watchdog::usual("conntest by hand and a killed manager");
    let cluster = Cluster::up(2).unwrap();
    let tests = [4, 8].map(|node: u32| start(&cluster, &["--node", &node.to_string(), "--peers", "4,8"]));
    instances(&cluster, 2);
    kill(&cluster, 1);
    let [(status, near), (far_status, far)] = tests.map(ended);
    assert_eq!((status, far_status), (Some(1), Some(1)), "{near:#}{far:#}");
    assert_eq!(
        (suspects(&near), suspects(&far)),
        (vec![r#"{"link":[4,8]}"#.into()], vec![r#"{"node":8}"#.into()])
    );
    let said = near["culprits"][0]["evidence"][0].as_str().unwrap();
    assert!(
        said.contains("1 outage") && said.contains("the session with node 8's manager was lost ("),
        "{said}"
    );
}

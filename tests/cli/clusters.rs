//! `tieline clusters`.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tieline_tests::{Cluster, Watchdog};

fn report(cluster: &Cluster) -> serde_json::Value {
    let (status, out, err) = cluster.run(&["clusters", "--json"]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn clusters_lists_what_runs_and_what_removes_what_does_not() {
    let _watchdog = Watchdog::usual("clusters");
    let cluster = Cluster::empty().unwrap();
    let (status, out, _) = cluster.run(&["clusters"]).unwrap();
    assert!(status == 0 && out.contains("no cluster runs here"), "{out}");
    drop(cluster);

    let cluster = Cluster::up(2).unwrap();
    let found = report(&cluster);
    assert_eq!(
        (&found["schema"], &found["clusters"][0]["cluster"]),
        (&"tieline.clusters/1".into(), &"test".into())
    );
    let pid = cluster.manager_pid(0).unwrap();
    assert_eq!(found["clusters"][0]["running"][0], serde_json::json!({"node": 4, "pid": pid}));
    assert_eq!((&found["clusters"][0]["stale"], &found["clusters"][0]["own"]), (&false.into(), &().into()));

    for index in 0..2 {
        let pid = Pid::from_raw(cluster.manager_pid(index).unwrap().try_into().unwrap()).unwrap();
        kill_process(pid, Signal::KILL).unwrap();
    }
    // The kernel lets go of a lock when it has taken the process apart.
    while report(&cluster)["clusters"][0]["running"] != serde_json::json!([]) {
        std::thread::yield_now();
    }
    let found = report(&cluster);
    assert_eq!(found["clusters"][0]["dead"], serde_json::json!([4, 8]));
    assert_eq!(found["clusters"][0]["stale"], true);
    let remedy = found["clusters"][0]["remedy"].as_str().unwrap().to_owned();
    let (_, out, _) = cluster.run(&["clusters"]).unwrap();
    assert!(out.contains(&remedy), "{out}");
    let words: Vec<&str> = remedy.split(' ').skip(1).collect();
    let (status, out, err) = cluster.run(&words).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    assert_eq!(report(&cluster)["clusters"], serde_json::json!([]));
}

#[test]
fn the_cluster_of_a_test_is_known_with_its_owner() {
    let _watchdog = Watchdog::usual("clusters of tests");
    let cluster = Cluster::empty().unwrap();
    let mut child = cluster
        .command(&["verify", "--nodes", "2"])
        .unwrap()
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let own = loop {
        let found = report(&cluster)["clusters"][0].clone();
        if !found.is_null() {
            break found;
        }
        assert!(child.try_wait().unwrap().is_none(), "the test ended before its cluster was seen");
    };
    assert_eq!(own["cluster"], format!("verify-{}", child.id()));
    assert_eq!(own["own"], serde_json::json!({"pid": child.id(), "running": true}));
    // What it would measure is of no interest here. With a signal it takes its cluster down.
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait().unwrap();
    assert_eq!(report(&cluster)["clusters"], serde_json::json!([]));
}

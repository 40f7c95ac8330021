//! What the commands do when all is well.

use rustix::process::{Pid, Signal, kill_process};
use tieline_tests::{Cluster, Peer, Watchdog};

const PEER: &str = env!("CARGO_BIN_EXE_tieline-peer");

#[test]
fn up_status_query_and_down() {
    let _watchdog = Watchdog::usual("up");
    let cluster = Cluster::up(3).unwrap();
    let (status, out, err) = cluster.run(&["status"]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    assert_eq!(out.matches("running").count(), 3, "{out}");
    assert_eq!(out.matches("2/2").count(), 3, "{out}");
    let (status, out, _) = cluster.run(&["query", "--node", "8"]).unwrap();
    assert_eq!(status, 0);
    assert!(out.contains("Local node-id      : 8"), "{out}");
    // Again: what runs is left alone, what is missing is added.
    let (status, out, _) = cluster.run(&["up", "--nodes", "4"]).unwrap();
    assert_eq!(status, 0);
    assert!(out.contains("already running: nodes 4, 8, 12") && out.contains("started: node 16"), "{out}");
    let (status, out, _) = cluster.run(&["down"]).unwrap();
    assert_eq!(status, 0);
    assert!(out.contains("stopped: nodes 4, 8, 12, 16"), "{out}");
    let (status, out, _) = cluster.run(&["down"]).unwrap();
    assert_eq!(status, 0);
    assert!(out.contains("no node of cluster `test` runs (searched "), "{out}");
}

#[test]
fn up_says_what_it_leaves_as_it_is() {
    let _watchdog = Watchdog::usual("up of what runs");
    let cluster = Cluster::up(3).unwrap();
    let done = |words: &[&str]| {
        let (status, out, err) = cluster.run(words).unwrap();
        // Steps that follow each other at once are for a terminal, where each replaces the one before.
        assert_eq!((status, err.as_str()), (0, ""), "{words:?}: {out}");
        out
    };
    let out = done(&["up", "--nodes", "2"]);
    assert!(out.contains("already running: nodes 4, 8, 12 (3 in all, 2 were asked for)\n"), "{out}");
    let out = done(&["up", "--nodes", "3"]);
    assert!(out.contains("already running: nodes 4, 8, 12\n"), "{out}");
    // Nobody is sent in a circle by what needs faults.
    let out = done(&["up", "--nodes", "3", "--faults"]);
    assert!(
        out.contains(
            "already running without fault injection: nodes 4, 8, 12; to enable it: `tieline down`, then"
        ),
        "{out}"
    );
    let (status, _, err) = cluster.run(&["link", "degrade", "4", "8", "--loss", "1%"]).unwrap();
    assert!(
        status == 4 && err.starts_with("tieline: node 4 runs without fault injection: restart "),
        "{err}"
    );
    assert!(err.contains("(`tieline down`, `tieline up --faults`)"), "{err}");
    done(&["down"]);
    let out = done(&["up", "--nodes", "3", "--faults"]);
    assert!(!out.contains("without faults"), "{out}");
    assert!(!done(&["up", "--nodes", "3", "--faults"]).contains("without faults"));
    let json: serde_json::Value =
        serde_json::from_str(&done(&["up", "--nodes", "3", "--faults", "--json"])).unwrap();
    assert_eq!(json["without_faults"], serde_json::json!([]));
}

#[test]
fn status_tells_which_segments_are_shared() {
    let _watchdog = Watchdog::usual("status of what is shared");
    let cluster = Cluster::up(1).unwrap();
    let mut owner = Peer::start(&cluster, PEER, 0, &["share", "1", "4096"]).unwrap();
    owner.expect("ready").unwrap();
    let mut alone = Peer::start(&cluster, PEER, 0, &["own", "2", "4096"]).unwrap();
    alone.expect("ready").unwrap();
    let (program, limit) = (cluster.attach(0).unwrap(), std::time::Duration::from_secs(30));
    let _attached = program.attach_segment(tieline::SegmentId(1), limit).unwrap();
    let (status, out, _) = cluster.run(&["status", "--json"]).unwrap();
    assert_eq!(status, 0);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let segments = &report["nodes"][0]["status"]["segments"];
    let facts = |index: usize| {
        ["what", "shared", "attached", "connections"].map(|name| segments[index][name].to_string())
    };
    assert_eq!(facts(0), ["\"segment 1\"", "true", "1", "1"]);
    assert_eq!(facts(1), ["\"segment 2\"", "false", "0", "0"]);
    let (_, out, _) = cluster.run(&["status", "--node", "4"]).unwrap();
    assert!(out.contains("2 segments (1 shared, 1 attached to), 0 interrupts"), "{out}");
    let (_, out, _) = cluster.run(&["diag", "--node", "4", "-V", "9"]).unwrap();
    assert!(out.contains("shared with programs of the node (1 attached)"), "{out}");
}

#[test]
fn status_tells_the_truth_about_a_stopped_node_and_a_program() {
    let _watchdog = Watchdog::usual("status");
    let cluster = Cluster::up(3).unwrap();
    let mut peer = Peer::start(&cluster, PEER, 1, &["own", "1", "4096"]).unwrap();
    peer.expect("ready").unwrap();
    let (status, out, _) = cluster.run(&["status", "--json"]).unwrap();
    assert_eq!(status, 0);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    let node = &report["nodes"][1]["status"];
    assert_eq!(node["segments_total"], 1);
    assert_eq!(node["programs"][0]["name"], "tieline-peer");
    assert_eq!(node["programs"][0]["pid"], peer.pid());
    drop(peer);
    let (status, ..) = cluster.run(&["node", "stop", "--id", "12"]).unwrap();
    assert_eq!(status, 0);
    let (status, out, _) = cluster.run(&["status"]).unwrap();
    assert_eq!(status, 0, "two nodes that were left are a whole cluster: {out}");
    let (status, out, err) = cluster.run(&["node", "start", "--id", "12"]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    let (status, out, _) = cluster.run(&["node", "restart", "--id", "12"]).unwrap();
    assert_eq!((status, out.as_str()), (0, "node 12 restarted\n"));
    let (status, out, _) = cluster.run(&["node", "restart", "--node", "16"]).unwrap();
    assert_eq!((status, out.as_str()), (0, "node 16 was not running and has been started\n"));
    let (status, out, _) = cluster.run(&["node", "status", "--id", "12"]).unwrap();
    assert_eq!(status, 0, "{out}");
    for service in ["node manager", "adapter 0 (shm)", "segment service", "node-12.log"] {
        assert!(out.contains(service), "{out}");
    }
}

#[test]
fn two_clusters_run_side_by_side() {
    let _watchdog = Watchdog::usual("two clusters");
    let cluster = Cluster::up(2).unwrap();
    let (status, out, err) = cluster.run(&["--cluster", "other", "up", "--nodes", "2"]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    let (status, out, _) = cluster.run(&["--cluster", "other", "status"]).unwrap();
    assert_eq!((status, out.matches("1/1").count()), (0, 2), "{out}");
    let (status, ..) = cluster.run(&["--cluster", "other", "down"]).unwrap();
    assert_eq!(status, 0);
    let (status, ..) = cluster.run(&["status"]).unwrap();
    assert_eq!(status, 0);
}

#[test]
fn diag_passes_in_the_classic_layout() {
    let _watchdog = Watchdog::usual("diag");
    let cluster = Cluster::up(2).unwrap();
    let (status, out, err) = cluster.run(&["diag"]).unwrap();
    assert_eq!(status, 0, "{out}{err}");
    // One for each node, and one for the whole.
    assert_eq!(out.matches("TEST RESULT: *PASSED*").count(), 3, "{out}");
    assert_eq!(out.lines().last(), Some("TEST RESULT: *PASSED*"), "{out}");
    assert!(out.contains("Nodes detected:   0004  0008"), "{out}");
    assert!(out.contains("Node 8: Session valid"), "{out}");
    let (status, out, _) = cluster.run(&["diag", "--node", "4", "--json"]).unwrap();
    assert_eq!(status, 0);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["schema"], "tieline.diag/1");
    assert_eq!((&report["verdict"], &report["nodes"][0]["verdict"]), (&"PASS".into(), &"PASS".into()));
    assert_eq!(report["nodes"][0]["nodes_seen"], serde_json::json!([4, 8]));
    assert!(report["nodes"][0]["counters"]["requests"].is_u64(), "{report}");
}

#[test]
fn diag_of_a_dead_node_fails_as_a_whole_and_names_it() {
    let _watchdog = Watchdog::usual("diag of a dead node");
    let cluster = Cluster::up(3).unwrap();
    let pid = Pid::from_raw(cluster.manager_pid(1).unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let (status, out, err) = cluster.run(&["diag"]).unwrap();
    assert_eq!(status, 1, "{out}{err}");
    assert_eq!(out.lines().last(), Some("TEST RESULT: *FAILED*"), "{out}");
    assert!(out.contains("All nodes: 3 tested, 1 failed (8)") && !out.ends_with("\n\n"), "{out}");
}

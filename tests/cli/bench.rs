//! `tieline bench`: the forms run and say what they measured. How fast they are is not asserted here.

use std::process::Stdio;

use tieline_tests::{Cluster, Watchdog};

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn scipp_starts_what_it_needs_and_leaves_nothing() {
    let _watchdog = Watchdog::usual("scipp");
    let cluster = Cluster::empty().unwrap();
    let (status, out, err) = cluster.run(&["bench", "scipp", "--json"]).unwrap();
    assert_eq!(status, 0, "{err}");
    let report = json(&out);
    assert_eq!(report["schema"], "tieline.scipp/1");
    assert_eq!(report["path"], "shm");
    assert_eq!(report["nodes"], serde_json::json!([4, 8]));
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 13);
    for row in rows {
        assert!(row["checked"].as_u64().unwrap() > 0, "{row}");
        assert!(row["half_rtt"]["min_ns"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["line_floor_ns"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert_eq!(std::fs::read_dir(cluster.runtime_dir()).unwrap().count(), 0);
}

#[test]
fn scipp_between_two_processes_in_the_classic_layout() {
    let _watchdog = Watchdog::usual("scipp server and client");
    let cluster = Cluster::up(2).unwrap();
    let mut server = cluster
        .command(&["bench", "scipp", "--server", "--rn", "8", "--node", "4"])
        .unwrap()
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let client = cluster.run(&["bench", "scipp", "--client", "--rn", "4", "--node", "8", "--classic"]);
    let (status, out, err) = client.unwrap();
    if status != 0 {
        drop(server.kill());
    }
    assert_eq!(status, 0, "{out}{err}");
    assert!(server.wait().unwrap().success());
    assert!(out.contains("Ping Pong data transfer:"), "{out}");
    assert!(out.lines().any(|line| line.split_whitespace().next() == Some("8192")), "{out}");
}

#[test]
fn a_client_whose_server_is_killed_ends_with_the_reason() {
    let _watchdog = Watchdog::usual("scipp server killed");
    let cluster = Cluster::up(2).unwrap();
    let mut server = cluster
        .command(&["bench", "scipp", "--server", "--rn", "8", "--node", "4"])
        .unwrap()
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let client = cluster
        .command(&["bench", "scipp", "--client", "--rn", "4", "--node", "8"])
        .unwrap()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    server.kill().unwrap();
    server.wait().unwrap();
    let output = client.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(["is gone", "ended", "is it running"].iter().any(|words| said.contains(words)), "{said}");
}

#[test]
fn a_client_without_a_server_is_told_how_to_start_one() {
    let _watchdog = Watchdog::usual("scipp without a server");
    let cluster = Cluster::up(2).unwrap();
    let (status, _, err) = cluster.run(&["bench", "scipp", "--client", "--rn", "4"]).unwrap();
    assert_eq!(status, 4, "{err}");
    let advice = "start one there with `tieline bench scipp --server --node 4";
    assert!(err.contains("no server of scipp answers on node 4") && err.contains(advice), "{err}");
}

#[test]
fn limits_are_those_of_this_machine() {
    let _watchdog = Watchdog::usual("limits");
    let cluster = Cluster::empty().unwrap();
    let (status, out, err) = cluster.run(&["bench", "limits", "--json"]).unwrap();
    assert_eq!(status, 0, "{err}");
    let report = json(&out);
    assert!(report["env"]["clock"]["step_ns"].as_f64().unwrap() > 0.0, "{report}");
}

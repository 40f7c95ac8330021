//! What variables of the environment may hold, and that an error names the one that cannot be understood.

use std::os::unix::ffi::OsStrExt;

use tieline_tests::{Cluster, Watchdog};

fn run(cluster: &Cluster, arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = cluster.command(arguments).unwrap();
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_malformed_variable_is_blamed_by_its_name() {
    let _watchdog = Watchdog::usual("malformed variables");
    let cluster = Cluster::up(1).unwrap();
    for (name, value, word) in [
        ("TIELINE_NODE", "abc", "is not a node ID"),
        ("TIELINE_NODE", "5", "multiple of 4"),
        ("TIELINE_CLUSTER", "a/b", "letters"),
        ("TIELINE_LOG", "loud", "debug"),
        ("TIELINE_SPIN_US", "abc", "microseconds"),
        ("TIELINE_SPIN_US", "-1", "microseconds"),
        ("TIELINE_MQ_FETCH", "dma", "is not measured, read or in-parts"),
        ("TIELINE_MQ_RING_BYTES", "100", "is not a number of bytes from 4096"),
        ("TIELINE_MQ_EAGER_MAX_BYTES", "8K", "is not a number of bytes"),
    ] {
        for arguments in
            [&["status"][..], &["up"], &["query"], &["diag"], &["verify", "--running"], &["bench", "scipp"]]
        {
            let (status, _, err) = run(&cluster, arguments, &[(name, value)]);
            assert_eq!(status, 2, "{name}={value} {arguments:?}: {err}");
            assert!(err.contains(&format!("variable {name}")) && err.contains(word), "{err}");
            assert!(!err.contains("--node") && !err.contains("--cluster"), "the variable is to blame: {err}");
        }
    }
    let mut command = cluster.command(&["status"]).unwrap();
    command.env("TIELINE_CLUSTER", std::ffi::OsStr::from_bytes(b"\xff"));
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}

#[test]
fn an_empty_variable_is_as_good_as_none() {
    let _watchdog = Watchdog::usual("empty variables");
    let cluster = Cluster::up(1).unwrap();
    let empty = ["NODE", "LOG", "CONFIG", "SPIN_US", "FAULTS", "LEASE"].map(|name| format!("TIELINE_{name}"));
    let empty: Vec<(&str, &str)> = empty.iter().map(|name| (name.as_str(), "")).collect();
    for arguments in [
        &["status"][..],
        &["query"],
        // Waits for an interrupt, in the library.
        &["diag"],
        &["up", "--nodes", "1"],
        &["node", "restart", "--node", "4"],
    ] {
        let (status, out, err) = run(&cluster, arguments, &empty);
        assert_eq!(status, 0, "{arguments:?}: {out}{err}");
    }
    let (status, _, err) = run(&cluster, &["status"], &[("TIELINE_CLUSTER", "")]);
    assert!(status == 4 && err.contains("`default`"), "{err}");
}

#[test]
fn the_variable_for_a_node_counts_where_a_command_acts_on_one_node() {
    let _watchdog = Watchdog::usual("TIELINE_NODE");
    let cluster = Cluster::empty().unwrap();
    let node = [("TIELINE_NODE", "8")];
    let (status, out, err) = run(&cluster, &["up"], &node);
    assert!(status == 0 && out.contains("started: nodes 4, 8\n"), "{out}{err}");
    let (status, out, _) = run(&cluster, &["query"], &node);
    assert!(status == 0 && out.contains("Local node-id      : 8"), "{out}");
    let (status, out, _) = run(&cluster, &["node", "status"], &node);
    assert!(status == 0 && out.contains("node 8") && !out.contains("node 4 "), "{out}");
    let (status, out, _) = run(&cluster, &["status"], &node);
    assert_eq!((status, out.matches("running").count()), (0, 2), "{out}");
    let (status, out, _) = run(&cluster, &["diag"], &node);
    assert_eq!((status, out.matches("static test").count()), (0, 2), "{out}");
    let (status, out, _) = run(&cluster, &["down"], &node);
    assert!(status == 0 && out.contains("stopped: nodes 4, 8"), "{out}");
}

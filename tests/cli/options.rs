//! Options that mean nothing are refused; the same option has the same name everywhere.

use tieline_tests::{Cluster, Watchdog};

#[test]
fn an_option_without_a_meaning_is_refused_with_what_to_do_instead() {
    let cluster = Cluster::empty().unwrap();
    for (arguments, option, instead) in [
        (&["up", "--node", "8"][..], "--node", "tieline node start --node"),
        (&["down", "--node", "8"], "--node", "tieline node stop --node"),
        (&["--node", "8", "verify"], "--node", "tieline diag --node"),
        (&["verify", "--running", "--node", "8"], "--node", "tieline diag --node"),
        (&["verify", "--cluster", "lab"], "--cluster", "tieline verify --running"),
        (&["clusters", "--node", "8"], "--node", "tieline node status --node"),
        (&["clusters", "--cluster", "lab"], "--cluster", "tieline status --cluster"),
        (&["bench", "limits", "--node", "8"], "--node", "without a node"),
        (&["bench", "limits", "--cluster", "lab"], "--cluster", "without a cluster"),
        (&["bench", "limits", "--runtime-dir", "/x"], "--runtime-dir", "without a cluster"),
        (&["bench", "acceptance", "--node", "8"], "--node", "a cluster of its own"),
    ] {
        let (status, _, err) = cluster.run(arguments).unwrap();
        assert_eq!(status, 2, "{arguments:?}: {err}");
        assert!(err.contains(&format!("takes no {option}")) && err.contains(instead), "{arguments:?}: {err}");
    }
}

#[test]
fn a_plan_and_the_list_of_links_are_of_all_nodes() {
    let cluster = Cluster::empty().unwrap();
    for (arguments, said) in [
        (
            &["cable", "--generate", "--node", "4"][..],
            "--node cannot be used with --generate or --save: a plan",
        ),
        (&["cable", "--save", "x", "--node", "4"], "--node cannot be used with --generate or --save: a plan"),
        (
            &["link", "list", "--node", "4"],
            "`tieline link list` takes no --node: it lists the links of all nodes",
        ),
    ] {
        let (status, _, err) = cluster.run(arguments).unwrap();
        assert!(status == 2 && err.contains(said), "{arguments:?}: {status} {err}");
    }
}

#[test]
fn a_node_is_named_the_same_way_everywhere() {
    let _watchdog = Watchdog::usual("--node and --id");
    let cluster = Cluster::up(2).unwrap();
    for option in ["--node", "--id"] {
        for command in [&["node", "status"][..], &["query"], &["status"], &["diag"], &["node", "start"]] {
            let arguments = [command, &[option, "8"]].concat();
            let (status, out, err) = cluster.run(&arguments).unwrap();
            assert!(status == 0 && out.contains('8'), "{arguments:?}: {out}{err}");
        }
    }
    for action in ["start", "stop", "restart", "status"] {
        let (status, _, err) = cluster.run(&["node", action]).unwrap();
        assert!(status == 2 && err.contains("--node"), "{action}: {err}");
    }
}

#[test]
fn a_cluster_or_a_node_that_is_not_there_is_4_for_every_command() {
    let _watchdog = Watchdog::usual("not there");
    let cluster = Cluster::up(1).unwrap();
    for command in [&["status"][..], &["query"], &["diag"], &["node", "status"]] {
        let elsewhere = [command, &["--cluster", "nope", "--node", "4"]].concat();
        let (status, _, err) = cluster.run(&elsewhere).unwrap();
        assert!(status == 4 && err.contains("`nope`"), "{elsewhere:?}: {status} {err}");
        let other = [command, &["--node", "12"]].concat();
        let (status, _, err) = cluster.run(&other).unwrap();
        assert!(status == 4 && err.contains("no node 12"), "{other:?}: {status} {err}");
    }
}

#[test]
fn every_command_has_examples() {
    let cluster = Cluster::empty().unwrap();
    for command in [
        "up",
        "down",
        "status",
        "clusters",
        "query",
        "cable",
        "diag",
        "verify",
        "node",
        "node run",
        "node start",
        "node stop",
        "node restart",
        "node status",
        "bench",
        "bench scipp",
        "bench limits",
        "bench acceptance",
    ] {
        let mut arguments: Vec<&str> = command.split(' ').collect();
        arguments.push("--help");
        let (status, out, _) = cluster.run(&arguments).unwrap();
        assert!(status == 0 && out.contains("Examples:\n  tieline "), "{command}: {out}");
        // What is shown as an example can be typed.
        let examples = out.split("Examples:\n").nth(1).unwrap();
        assert!(
            examples.contains(&format!("tieline {command}")) || examples.contains("tieline --"),
            "{examples}"
        );
    }
    let (_, out, _) = cluster.run(&["up", "--help"]).unwrap();
    assert!(out.contains("1 to 256") && out.contains("[default: 2]"), "{out}");
    let (_, out, _) = cluster.run(&["verify", "--help"]).unwrap();
    assert!(out.contains("2 to 64") && out.contains("[default: 9]"), "{out}");
}

//! What the commands say when something is wrong: the thing, the cause, the next step, and the right exit
//! status.

use tieline_tests::{Cluster, Watchdog};

#[test]
fn wrong_usage_is_2_and_shows_the_right_one() {
    let cluster = Cluster::empty().unwrap();
    for arguments in [
        &["frobnicate"][..],
        &["up", "--nodes", "0"],
        &["up", "--nodes", "many"],
        &["query", "--node", "5"],
        &["status", "--what"],
        &["verify", "--nodes", "4", "--running"],
        &["--cluster", "../x", "status"],
        &[],
    ] {
        let (status, _, err) = cluster.run(arguments).unwrap();
        assert_eq!(status, 2, "{arguments:?}: {err}");
        assert!(!err.is_empty(), "{arguments:?}");
    }
    let (status, _, err) = cluster.run(&["query", "--node", "5"]).unwrap();
    assert!(status == 2 && err.contains("multiple of 4"), "{err}");
}

#[test]
fn without_a_cluster_every_command_says_how_to_start_one() {
    let cluster = Cluster::empty().unwrap();
    for arguments in [&["status"][..], &["query"], &["diag"], &["verify", "--running"]] {
        let (status, _, err) = cluster.run(arguments).unwrap();
        assert_eq!(status, 4, "{arguments:?}: {err}");
        assert!(err.contains("tieline up") && err.contains("`test`"), "{arguments:?}: {err}");
    }
}

/// The usual case is an ordinary user after `sudo tieline up`.
#[test]
fn a_cluster_that_runs_in_another_directory_is_named_with_it() {
    let _watchdog = Watchdog::usual("a cluster elsewhere");
    let (here, there) = (Cluster::empty().unwrap(), Cluster::empty().unwrap());
    let name = format!("elsewhere-{}", std::process::id());
    let (status, _, err) = there.run(&["up", "--nodes", "1", "--cluster", &name]).unwrap();
    assert_eq!(status, 0, "{err}");
    for command in [&["status"][..], &["query"], &["diag"], &["verify", "--running"]] {
        let (status, _, err) = here.run(&[command, &["--cluster", &name]].concat()).unwrap();
        let hint = format!("runs in {}", there.runtime_dir().display());
        assert!(status == 4 && err.contains(&hint), "{command:?}: {status} {err}");
    }
    assert_eq!(there.run(&["down", "--cluster", &name]).unwrap().0, 0);
    let (status, _, err) = here.run(&["status", "--cluster", &name]).unwrap();
    assert!(status == 4 && !err.contains("runs in"), "{err}");
}

/// A wrong node is the same mistake for each command.
#[test]
fn a_load_test_of_a_node_that_is_not_here_could_not_run() {
    let _watchdog = Watchdog::usual("conntest of no node");
    let cluster = Cluster::up(2).unwrap();
    let (status, out, err) = cluster.run(&["conntest", "--node", "40", "--time", "0.2"]).unwrap();
    assert!(status == 4 && err.contains("no node 40 here (there are: 4, 8)"), "{status} {out}{err}");
    assert!(err.contains("tieline node start --node 40") && !err.contains("met"), "{err}");
    assert_eq!(out, "");
}

/// Two others run; it is the option that leaves them out.
#[test]
fn a_load_test_of_one_node_names_the_option_that_leaves_the_others_out() {
    let _watchdog = Watchdog::usual("conntest of one node");
    let cluster = Cluster::up(3).unwrap();
    let (status, out, err) = cluster.run(&["conntest", "--peers", "12", "--time", "0.2"]).unwrap();
    assert!(status == 2 && err.contains("--peers names node 12 only"), "{status} {out}{err}");
}

#[test]
fn a_process_that_is_not_counted_is_none() {
    let cluster = Cluster::empty().unwrap();
    let (status, out, err) = cluster.run(&["sockets", "stat", "--pid", "1"]).unwrap();
    assert!(status == 4 && err.contains("process 1 is not in the statistics"), "{status} {out}{err}");
}

#[test]
fn no_error_shows_how_the_language_prints_numbers_and_ranges() {
    let cluster = Cluster::empty().unwrap();
    for words in [
        &["diag", "-V", "10"][..],
        &["link", "flap", "4", "8", "--count", "0"],
        &["verify", "--from", "/nowhere/x", "--report", "x.html"],
        &["fabric", "observe", "--from", "/nowhere/x"],
        &["sockets", "stat", "--from", "/nowhere/x"],
        &["up", "--config", "/nowhere/x"],
    ] {
        let (status, _, err) = cluster.run(words).unwrap();
        assert!(status == 2 && !err.contains("os error") && !err.contains("..="), "{words:?}: {err}");
    }
}

#[test]
fn several_nodes_are_listed_when_one_must_be_chosen() {
    let _watchdog = Watchdog::usual("several nodes");
    let cluster = Cluster::up(2).unwrap();
    let (status, _, err) = cluster.run(&["query"]).unwrap();
    assert_eq!(status, 2, "{err}");
    assert!(err.contains("4, 8") && err.contains("--node"), "{err}");
    let (status, _, err) = cluster.run(&["query", "--node", "12"]).unwrap();
    assert_eq!(status, 4);
    assert!(err.contains("no node 12") && err.contains("4, 8"), "{err}");
}

#[test]
fn an_id_in_use_is_named_with_its_holder() {
    let _watchdog = Watchdog::usual("id in use");
    let cluster = Cluster::up(1).unwrap();
    let pid = cluster.manager_pid(0).unwrap();
    let (status, _, err) = cluster.run(&["node", "run", "--id", "4"]).unwrap();
    assert_eq!(status, 4, "{err}");
    assert!(err.contains("node 4") && err.contains(&pid.to_string()), "{err}");
}

#[test]
fn configuration_errors_name_file_line_and_key() {
    let _watchdog = Watchdog::usual("configuration");
    let cluster = Cluster::empty().unwrap();
    let file = cluster.runtime_dir().join("bad.toml");
    for (text, words) in [
        ("[manager]\nheartbeat_intervall_ms = 5\n", &["heartbeat_intervall_ms", "line 2"][..]),
        ("[manager]\nheartbeat_interval_ms = \"fast\"\n", &["line 2"]),
        ("[manager\n", &["line 1"]),
        ("[node]\nid = 5\n", &["multiple of 4"]),
    ] {
        std::fs::write(&file, text).unwrap();
        for command in [
            &["node", "run", "--id", "4"][..],
            &["up"],
            &["verify", "--nodes", "2"],
            &["bench", "scipp"],
            &["bench", "acceptance", "--only", "connect_map"],
            &["status"],
        ] {
            let arguments = [command, &["--config", file.to_str().unwrap()]].concat();
            let (status, _, err) = cluster.run(&arguments).unwrap();
            assert_eq!(status, 2, "{command:?} {text}: {err}");
            assert!(err.contains("bad.toml") && words.iter().all(|word| err.contains(word)), "{text}: {err}");
        }
        // The environment names it where it is used.
        let output = cluster.command(&["up"]).unwrap().env("TIELINE_CONFIG", &file).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
    }
    let (status, _, err) =
        cluster.run(&["node", "run", "--id", "4", "--config", "/nonexistent.toml"]).unwrap();
    assert!(status == 2 && err.contains("/nonexistent.toml"), "{err}");
    let (status, _, err) = cluster.run(&["status", "--config", "/nonexistent"]).unwrap();
    assert!(status == 2 && err.contains("/nonexistent"), "{err}");
    assert_eq!(err.matches("No such file").count(), 1, "the system's reason is said once: {err}");
    let (status, _, err) = cluster.run(&["node", "run"]).unwrap();
    assert!(status == 2 && err.contains("--node") && !err.contains("--id"), "{err}");
}

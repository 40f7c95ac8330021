//! `tieline diag`: every check is made to fail, or to warn, by a real fault, and names the suspect.

use std::time::Duration;

use proto::wire::status::SessionState;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tieline_tests::{Cluster, Watchdog};

fn up(nodes: &str) -> Cluster {
    let cluster = Cluster::empty().unwrap();
    done(&cluster, &["up", "--nodes", nodes, "--faults"]);
    cluster
}

fn done(cluster: &Cluster, words: &[&str]) -> String {
    let (status, out, err) = cluster.run(words).unwrap();
    assert_eq!(status, 0, "{words:?}: {out}{err}");
    out
}

fn diag(cluster: &Cluster, words: &[&str]) -> (i32, Value) {
    let words = [&["diag", "--json"], words].concat();
    let (status, out, err) = cluster.run(&words).unwrap();
    (status, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}{err}")))
}

/// Findings of a level: the node that is tested and the text.
fn found(report: &Value, level: &str) -> Vec<(u64, String)> {
    let nodes = report["nodes"].as_array().unwrap();
    let of = |node: &Value| {
        let id = node["node"].as_u64().unwrap();
        let all = node["findings"].as_array().unwrap().clone();
        let some = all.into_iter().filter(|one| one["level"] == level);
        some.map(move |one| (id, one["text"].as_str().unwrap().to_owned())).collect::<Vec<_>>()
    };
    nodes.iter().flat_map(of).collect()
}

fn nodes(found: &[(u64, String)]) -> Vec<u64> {
    found.iter().map(|(node, _)| *node).collect()
}

/// Kills a node's manager, and waits until the other nodes have noticed.
fn kill(cluster: &Cluster, index: usize, nodes: usize) {
    let dead = cluster.attach(index).unwrap().id();
    let pid = Pid::from_raw(cluster.manager_pid(index).unwrap().try_into().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    for other in (0..nodes).filter(|other| *other != index) {
        let other = cluster.attach(other).unwrap();
        let is_valid = || {
            other
                .status()
                .unwrap()
                .links
                .iter()
                .any(|link| link.peer == dead && link.session == SessionState::Valid)
        };
        while is_valid() {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[test]
fn a_good_cluster_passes_with_every_link_tested_from_both_ends() {
    let _watchdog = Watchdog::usual("diag of a good cluster");
    let cluster = up("3");
    let (status, report) = diag(&cluster, &["--all"]);
    assert_eq!((status, &report["verdict"]), (0, &"PASS".into()), "{report:#}");
    for level in ["note", "warning", "error"] {
        assert!(found(&report, level).is_empty(), "{report:#}");
    }
    for node in report["nodes"].as_array().unwrap() {
        let tests = node["link_tests"].as_array().unwrap();
        assert_eq!(tests.len(), 2, "{node:#}");
        for test in tests {
            let names: Vec<&Value> =
                test["parts"].as_array().unwrap().iter().map(|part| &part["name"]).collect();
            assert_eq!(names, ["memory pattern", "put and get", "atomics", "DMA", "doorbell"], "{test:#}");
        }
    }
    let out = done(&cluster, &["diag", "--node", "8"]);
    assert!(out.contains("OK: Link 1 to node 12 alive") && out.contains("==> Local adapter 0 ok."), "{out}");
    let (status, _, err) = cluster.run(&["diag", "-q"]).unwrap();
    assert_eq!((status, err.as_str()), (0, ""));
}

#[test]
fn a_bad_link_is_an_error_of_the_node_that_sends_over_it() {
    let _watchdog = Watchdog::usual("bad links");
    let cluster = up("3");
    for fault in [["--corrupt", "5%"], ["--loss", "5%"], ["--delay", "50ms"], ["--rate", "2kB"]] {
        done(&cluster, &[&["link", "degrade", "8", "12", "--one-way"], &fault[..]].concat());
        let (status, report) = diag(&cluster, &[]);
        let errors = found(&report, "error");
        assert!(status == 1 && !errors.is_empty(), "{fault:?}: {report:#}");
        assert!(
            errors.iter().all(|(node, text)| *node == 8 && text.starts_with("link from node 8 to node 12: ")),
            "{fault:?}: {errors:?}"
        );
        assert_eq!(nodes(&found(&report, "note")), [8], "made worse on purpose");
        let verdicts: Vec<&Value> =
            report["nodes"].as_array().unwrap().iter().map(|node| &node["verdict"]).collect();
        assert_eq!(verdicts, ["PASS", "FAIL", "PASS"], "{fault:?}");
        done(&cluster, &["link", "clear"]);
    }
    assert_eq!(diag(&cluster, &[]).0, 0);
}

#[test]
fn a_link_that_is_down_is_an_error_of_both_ends_and_the_nodes_that_see_less_are_named() {
    let _watchdog = Watchdog::usual("diag of a link that is down");
    let cluster = up("4");
    done(&cluster, &["link", "down", "4", "12"]);
    let (status, report) = diag(&cluster, &[]);
    let (errors, warnings) = (found(&report, "error"), found(&report, "warning"));
    assert_eq!((status, nodes(&errors), nodes(&warnings)), (1, vec![4, 12], vec![4, 12]), "{report:#}");
    assert!(
        errors[0].1.contains("to node 12 was taken down")
            && warnings[0].1.starts_with("Node 12 not reachable")
    );
    let expected = json!([
        "node 4 sees another topology than most, without node 12: `tieline cable` shows the links that are down",
        "node 12 sees another topology than most, without node 4: `tieline cable` shows the links that are down"
    ]);
    assert_eq!(report["disagreements"], expected);
    assert_eq!(report["nodes"][0]["nodes_seen"], json!([4, 8, 16]));
    let (status, out, _) = cluster.run(&["diag"]).unwrap();
    assert!(
        status == 1 && out.contains("DISABLED (taken down)") && out.contains("2 see another topology"),
        "{out}"
    );
    assert_eq!(out.lines().last(), Some("TEST RESULT: *FAILED*"));
    // Each end by itself fails as well; a node whose links are all up passes.
    for (node, ends) in [("4", 1), ("12", 1), ("8", 0)] {
        let (status, out, _) = cluster.run(&["diag", "--node", node]).unwrap();
        assert_eq!(status, ends, "{out}");
    }
    done(&cluster, &["link", "up", "4", "12"]);
    assert_eq!(diag(&cluster, &[]).0, 0);
}

#[test]
fn swapped_cables_are_an_error_of_each_node_that_is_misled() {
    let _watchdog = Watchdog::usual("diag of swapped cables");
    let cluster = up("4");
    done(&cluster, &["link", "swap", "8", "12"]);
    for words in [&[][..], &["--prod"]] {
        let (status, report) = diag(&cluster, words);
        let errors = found(&report, "error");
        assert_eq!((status, nodes(&errors)), (1, vec![4, 16]), "{report:#}");
        assert!(errors[0].1.contains("to nodes 8 and 12 are swapped"), "{errors:?}");
    }
    let (_, out, _) = cluster.run(&["diag", "--node", "4"]).unwrap();
    assert!(out.contains("Partner node               : 12 (should be 8)"), "{out}");
}

#[test]
fn a_dead_node_is_an_error_by_itself_and_a_warning_of_the_others() {
    let _watchdog = Watchdog::usual("diag of a dead node");
    let cluster = Cluster::up(3).unwrap();
    kill(&cluster, 2, 3);
    let (status, report) = diag(&cluster, &[]);
    assert_eq!((status, nodes(&found(&report, "error"))), (1, vec![12]), "{report:#}");
    let warnings = found(&report, "warning");
    assert_eq!(nodes(&warnings), [4, 8], "{warnings:?}");
    assert!(warnings.iter().all(|(_, text)| text.starts_with("Node 12 not reachable")), "{warnings:?}");
    assert_eq!(diag(&cluster, &["--node", "4"]).0, 1, "one node that does not reach what runs here");
}

#[test]
fn a_host_file_is_compared_with_what_is_there() {
    let _watchdog = Watchdog::usual("host files");
    let (cluster, dir) = (Cluster::up(3).unwrap(), tempfile::tempdir().unwrap());
    let host = cluster.attach(0).unwrap().info().host;
    let file = dir.path().join("dishosts.conf").to_str().unwrap().to_owned();
    let with = |content: String| {
        std::fs::write(&file, content).unwrap();
        diag(&cluster, &["--hosts", &file])
    };
    let (status, report) = with(format!("4 {host}\n8 {host}\n12 {host}\n"));
    assert_eq!(
        (status, found(&report, "warning"), found(&report, "note")),
        (0, vec![], vec![]),
        "{report:#}"
    );
    // Stale: a node that is no more, one on another host, one that is not listed.
    let classic = format!(
        "#DISHOSTVERSION 2\nHOSTNAME: {host}\nADAPTER: a_a0 4 0\nHOSTNAME: moved\nADAPTER: b_a0 8 0\nHOSTNAME: gone\nADAPTER: c_a0 40 0\n"
    );
    let (status, report) = with(classic);
    assert_eq!(status, 0, "warnings pass: {report:#}");
    let warnings = found(&report, "warning");
    for node in [4, 8, 12] {
        let of = |words: &str| warnings.iter().any(|(at, text)| *at == node && text.contains(words));
        assert!(
            of("Node 40 not reachable, but is an entry in the dishosts.conf file (line 7"),
            "{warnings:?}"
        );
        assert!(of("Node 8 is on host") && of("moved"), "{warnings:?}");
        assert_eq!(
            of("dishosts.conf does not specify the local host: add node 12"),
            node == 12,
            "{warnings:?}"
        );
    }
    let notes = found(&report, "note");
    assert!(nodes(&notes) == [4, 8] && notes[0].1.starts_with("Node 12 (host"), "{notes:?}");
    assert_eq!(report["hosts"]["entries"].as_array().unwrap().len(), 3);
    kill(&cluster, 1, 3);
    let (_, report) = with(format!("4 {host}\n8 {host}\n12 {host}\n"));
    let warnings = found(&report, "warning");
    assert!(
        nodes(&warnings) == [4, 12] && warnings[0].1.contains("Node 8 not reachable, but is an entry"),
        "{warnings:?}"
    );
    for (content, words) in [("4\n", "line 1"), ("4 a\n4 b\n", "line 2: node 4 is on line 1 already")] {
        std::fs::write(&file, content).unwrap();
        let (status, out, err) = cluster.run(&["diag", "--hosts", &file]).unwrap();
        assert!(status == 2 && out.is_empty() && err.contains(words), "{status} {out}{err}");
    }
    let (status, _, err) = cluster.run(&["diag", "--hosts", "/nowhere/hosts"]).unwrap();
    assert!(status == 2 && err.contains("/nowhere/hosts cannot be read"), "{err}");
}

/// What differs between two runs is masked.
fn lines(cluster: &Cluster, verbosity: u8) -> Vec<String> {
    let out = done(cluster, &["diag", "-V", &verbosity.to_string(), "--node", "4"]);
    out.lines().map(|line| line.replace(|c: char| c.is_ascii_digit() || c == '.', "")).collect()
}

#[test]
fn each_level_of_detail_shows_all_of_the_one_below_and_more() {
    let _watchdog = Watchdog::usual("levels of detail");
    let cluster = Cluster::up(3).unwrap();
    let _segment = cluster.attach(0).unwrap().create_segment(tieline::SegmentId(7), 4096).unwrap();
    let is_date = |line: &&String| line.starts_with("Date") || line.starts_with("            tieline-");
    let mut below = lines(&cluster, 0);
    for verbosity in 1..=9 {
        let now = lines(&cluster, verbosity);
        let mut rest = now.iter();
        for line in below.iter().filter(|line| !is_date(line)) {
            assert!(rest.any(|other| other == line), "level {verbosity} lacks `{line}`: {now:#?}");
        }
        assert!(now.len() > below.len(), "level {verbosity}: {now:#?}");
        below = now;
    }
}

#[test]
fn in_production_nothing_is_moved_and_what_is_left_out_is_said() {
    let _watchdog = Watchdog::usual("diag --prod");
    let cluster = Cluster::up(2).unwrap();
    let connections = || -> u64 {
        let (status, report) = diag(&cluster, &["--prod"]);
        assert_eq!(status, 0, "{report:#}");
        for node in report["nodes"].as_array().unwrap() {
            assert!(
                node["self_test"].as_array().unwrap().is_empty()
                    && node["link_tests"].as_array().unwrap().is_empty()
            );
            assert_eq!(node["left_out"].as_array().unwrap().len(), 2, "{node:#}");
        }
        let nodes = report["nodes"].as_array().unwrap().iter();
        nodes.map(|node| node["counters"]["connections"].as_u64().unwrap()).sum()
    };
    let before = connections();
    let out = done(&cluster, &["diag", "--prod"]);
    assert_eq!(out.matches("LEFT OUT: ").count(), 4, "{out}");
    assert_eq!(connections(), before, "not one segment or interrupt was connected to");
    done(&cluster, &["diag"]);
    assert!(connections() > before);
}

#[test]
fn an_adapter_that_cannot_do_its_self_test_is_an_error_and_malformed_messages_are_noted() {
    use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType};
    let _watchdog = Watchdog::usual("self test");
    let (cluster, dir) = (Cluster::up(1).unwrap(), tempfile::tempdir().unwrap());
    let config = dir.path().join("node.toml");
    std::fs::write(&config, "[manager]\nmax_segments = 1\n").unwrap();
    // Node 8 may hold one segment; the self test takes two.
    done(&cluster, &["node", "start", "--node", "8", "--config", config.to_str().unwrap()]);
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    let address = SocketAddrUnix::new(cluster.cluster_dir().join("node-4.sock")).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    rustix::net::send(&socket, b"no message of ours", SendFlags::NOSIGNAL).unwrap();
    let (status, report) = diag(&cluster, &[]);
    let errors = found(&report, "error");
    assert!(status == 1 && nodes(&errors).contains(&8), "{report:#}");
    assert!(
        errors.iter().any(|(node, text)| *node == 8 && text.starts_with("self test `connecting` of node 8")),
        "{errors:?}"
    );
    let notes = found(&report, "note");
    assert!(nodes(&notes) == [4] && notes[0].1.contains("1 malformed control message(s)"), "{notes:?}");
    done(&cluster, &["diag", "--prod", "--clear"]);
    assert!(found(&diag(&cluster, &["--prod"]).1, "note").is_empty(), "counters were cleared");
}

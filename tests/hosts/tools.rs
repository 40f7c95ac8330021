//! Tools on two hosts: the state of all nodes, and the load test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::lab::{Host, two_hosts, until};
use tieline_tests::Watchdog;

/// The report of `tieline status`, and whether it passed.
fn status(host: &Host) -> (bool, Value) {
    let (is_well, said, _) = host.run(&["status", "--json"]);
    (is_well, serde_json::from_str(&said).unwrap())
}

#[test]
fn status_shows_the_nodes_of_all_hosts() {
    let _watchdog = Watchdog::usual("status of two hosts");
    let Some((first, second)) = two_hosts() else { return };
    let _owner = second.program(&["own", "7", "4096"]).ready();
    // Measured once a heartbeat has come back.
    let clock = || status(&first).1["nodes"][0]["status"]["links"][0]["clock_offset_ns"].is_i64();
    until("a round trip", clock);
    let (is_well, report) = status(&first);
    assert!(is_well, "{report}");
    let far = &report["other_hosts"][0];
    assert_eq!((&far["node"], &far["session"], &far["via"]), (&8.into(), &"valid".into(), &4.into()));
    assert_eq!(far["status"]["segments_total"], 1, "{far}");
    let link = &report["nodes"][0]["status"]["links"][0];
    // Both have the clock of one machine.
    let (offset, error) = (link["clock_offset_ns"].as_i64(), link["clock_error_ns"].as_u64());
    assert!(offset.unwrap().unsigned_abs() <= error.unwrap(), "{link}");
    let table = first.tieline(&["status"]);
    assert!(table.lines().next().unwrap().ends_with("host"), "{table}");
    assert!(table.lines().any(|line| line.trim_start().starts_with("8  running")), "{table}");
    // A node that was named is looked at alone.
    let alone: Value = serde_json::from_str(&first.tieline(&["status", "--node", "4", "--json"])).unwrap();
    assert!(alone.get("other_hosts").is_none(), "{alone}");
    for (command, next) in [
        (&["status", "--node", "8"][..], "run it there"),
        (&["conntest", "--peers", "4,8"], "`tieline conntest --node 8 --peers 4,8` on "),
        (&["link", "degrade", "4", "8", "--loss", "1%"], "link degrade 8 4 … --one-way`"),
        (&["link", "swap", "8", "4"], "`tieline link down 8 4`"),
    ] {
        let (is_well, _, error) = first.run(command);
        assert!(!is_well && error.contains("node 8 is on ") && error.contains(next), "{error}");
    }
    // A link that was taken down is cleared as one within a host is.
    first.tieline(&["link", "down", "4", "8"]);
    first.tieline(&["link", "clear"]);
    assert!(!first.tieline(&["link", "list"]).contains("taken down"));
    for command in [&["node", "start", "--node", "8"][..], &["node", "restart", "--node", "8"], &["up"]] {
        let (is_well, _, error) = first.run(command);
        let here = "start this host's node with `tieline node start --node 4`";
        assert!(!is_well && error.contains("node 8 is on another host") && error.contains(here), "{error}");
    }
    let (is_well, said, _) = first.run(&["diag"]);
    assert!(is_well && said.contains("the link to node 8 on ") && said.contains("not tested here"), "{said}");
    second.kill_manager();
    until("its loss", || first.session(8) != "valid");
    let (is_well, report) = status(&first);
    assert!(!is_well);
    let far = &report["other_hosts"][0];
    assert!(far["status"].is_null() && far["error"].as_str().unwrap().contains("session"), "{far}");
    assert!(report["problems"][0].as_str().unwrap().contains("node 4: session with node 8"), "{report}");
    let (is_well, said, _) = first.run(&["diag"]);
    assert!(!is_well && said.contains("the session with node 8 on "), "{said}");
    let (_, said, error) = second.run(&["status"]);
    assert!((said + &error).contains("start it with `tieline node start --node 8`"));
    let (_, table, _) = first.run(&["status"]);
    assert!(table.contains(": state unknown: the session with it is"), "{table}");
}

#[test]
fn the_node_of_a_host_that_has_joined_needs_no_id() {
    let _watchdog = Watchdog::usual("node without an id");
    let Some((first, _second)) = two_hosts() else { return };
    let run = |words: &[&str]| {
        let mut command = first.command(tieline_tests::cluster::tieline_binary().unwrap().to_str().unwrap());
        let output = command.env_remove("TIELINE_NODE").args(words).stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    assert_eq!(run(&["node", "status", "--json"])["nodes"][0]["node"], 4);
    assert_eq!(run(&["node", "restart", "--json"])["outcome"], "restarted");
    assert_eq!(run(&["node", "stop", "--json"])["outcome"], "stopped");
    assert_eq!(run(&["node", "start", "--json"])["outcome"], "started");
    first.tieline(&["node", "stop"]);
    let mut manager = first.command(tieline_tests::cluster::tieline_binary().unwrap().to_str().unwrap());
    let mut manager =
        manager.env_remove("TIELINE_NODE").args(["node", "run"]).stdin(Stdio::null()).spawn().unwrap();
    until("a manager in the foreground", || first.run(&["node", "status"]).0);
    first.tieline(&["node", "stop"]);
    assert!(manager.wait().unwrap().success());
}

/// An instance of `tieline conntest` on each host.
fn conntest(hosts: [&Host; 2], options: &[&str]) -> [Child; 2] {
    let program = tieline_tests::cluster::tieline_binary().unwrap();
    hosts.map(|host| {
        let mut command = host.command(program.to_str().unwrap());
        command.args(["conntest", "--node", &host.node.to_string(), "--peers", "4,8"]).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    })
}

fn said(instance: Child) -> String {
    String::from_utf8(instance.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn an_instance_of_conntest_on_each_host_checks_every_byte() {
    let _watchdog = Watchdog::usual("conntest between hosts");
    let Some((first, second)) = two_hosts() else { return };
    for instance in conntest([&first, &second], &["--time", "1", "--json"]) {
        let report: Value = serde_json::from_str(&said(instance)).unwrap();
        let peer = &report["instances"][0]["peers"][0];
        assert_eq!(report["verdict"], "PASS", "{peer}");
        let count = |name: &str| peer["ledger"][name].as_u64().unwrap();
        assert!(peer["found"] == true && count("bytes_checked") > 0, "{peer}");
        assert_eq!((count("corrupt"), count("lost")), (0, 0), "{peer}");
    }
}

#[test]
fn conntest_between_hosts_names_an_outage() {
    let _watchdog = Watchdog::usual("conntest and a cable");
    let Some((first, second)) = two_hosts() else { return };
    let mut instances = conntest([&first, &second], &["--time", "8"]);
    // Blocks are on their way.
    let mut progress = instances.each_mut().map(|one| BufReader::new(one.stderr.take().unwrap()).lines());
    for lines in &mut progress {
        assert!(lines.any(|line| line.is_ok_and(|line| line.contains("GB/s checked"))));
    }
    second.cable("down");
    std::thread::sleep(Duration::from_millis(3500));
    second.cable("up");
    for said in instances.map(said) {
        assert!(said.contains("lost 0, corrupt 0, out of order 0"), "{said}");
        assert!(said.contains("CONNTEST RESULT: FAIL") && said.contains("1 outage,"), "{said}");
    }
}

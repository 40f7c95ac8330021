//! What `conntest`, `diag` and `status` say of a link that is down and of a node that was stopped, where
//! hosts are several.

use serde_json::{Value, json};

use crate::lab::until;
use crate::namespaces::Hosts;
use tieline_tests::Watchdog;

/// Instances that wait for one that cannot be reached answer the others, and the exchange begins for all at
/// once.
#[test]
fn a_link_that_is_down_is_the_only_suspect() {
    let _watchdog = Watchdog::usual("conntest and a link that is down");
    let Some(hosts) = Hosts::up(3) else { return };
    let (status, out, err) = hosts.tieline("host1", &["link", "down", "4", "8"]);
    assert_eq!(status, 0, "{out}{err}");
    let (status, out, err) = hosts.tieline("host1", &["conntest", "--time", "1"]);
    assert_eq!(status, 1, "{out}");
    let suspects: Vec<&str> = out.lines().filter(|line| line.starts_with("suspect: ")).collect();
    assert!(suspects.len() == 1 && suspects[0].starts_with("suspect: link 4-8: "), "{out}");
    assert!(out.contains("its link was taken down"), "{out}");
    // It ends, and says so, before the exchange begins.
    assert!(err.lines().any(|line| line.starts_with("all 3 nodes connected to all peers")), "{err}");
    let (_, out, _) = hosts.tieline("host1", &["conntest", "--time", "1", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    for (node, peer) in [(4, 12), (12, 4), (8, 12), (12, 8)] {
        let instance =
            report["instances"].as_array().unwrap().iter().find(|one| one["node"] == node).unwrap();
        let peers = instance["peers"].as_array().unwrap();
        let ledger = &peers.iter().find(|one| one["node"] == peer).unwrap()["ledger"];
        assert!(ledger["bytes_checked"].as_u64().unwrap() > 0, "{node}, {peer}: {report}");
    }
}

/// They are injected where the bytes are sent: by the programs of that host.
#[test]
fn faults_of_a_link_between_hosts_hit_what_its_host_sends() {
    let watchdog = Watchdog::usual("faults of a link between hosts");
    if let Err(error) = ofi::offers(&ofi::Wanted::default()) {
        return println!("skipped: {error}");
    }
    let Some(hosts) = Hosts::up_with(2, &["--faults"]) else { return };
    let reach = env!("CARGO_BIN_EXE_tieline-reach");
    let mut owner = hosts.program("host2", reach, &["own", "7", "4096"]).ready();
    let mut user = hosts.program("host1", reach, &["reach", "8", "7"]).ready();
    user.must("put 1 0 4096", "done");
    owner.must("check 1 0 4096", "same");
    let (status, out, err) =
        hosts.tieline("host1", &["link", "degrade", "4", "8", "--loss", "100%", "--one-way"]);
    assert_eq!(status, 0, "{out}{err}");
    user.must("put 2 0 4096", "done");
    user.must("put 3 0 4096", "done");
    owner.must("check 1 0 4096", "same");
    let (_, out, _) = hosts.tieline("host1", &["link", "list"]);
    assert!(out.contains("loss 100 %"), "{out}");
    watchdog.progress();
    let (status, out, err) =
        hosts.tieline("host1", &["link", "degrade", "4", "8", "--loss", "2%", "--one-way"]);
    assert_eq!(status, 0, "{out}{err}");
    let (status, out, _) = hosts.tieline("host1", &["conntest", "--time", "1", "--json"]);
    assert_eq!(status, 1, "{out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    let lost = |node: u64| {
        let mut instances = report["instances"].as_array().unwrap().iter();
        instances.find(|one| one["node"] == node).unwrap()["peers"][0]["ledger"]["lost"].as_u64().unwrap()
    };
    assert!(lost(8) > 0 && lost(4) == 0, "what node 4 sends is lost: {report}");
    assert_eq!(report["culprits"][0]["suspect"]["link"], json!([4, 8]), "{report}");
    watchdog.progress();
    // No instance can read what the other says, the greeting included: that is corruption, and not silence
    // alone.
    for words in [&["clear", "4", "8"][..], &["degrade", "4", "8", "--corrupt", "100%", "--one-way"]] {
        let (status, out, err) = hosts.tieline("host1", &[&["link"], words].concat());
        assert_eq!(status, 0, "{out}{err}");
    }
    let (status, out, _) = hosts.tieline("host1", &["conntest", "--time", "0.5"]);
    let suspect =
        out.lines().find(|line| line.starts_with("suspect: link 4-8: ")).unwrap_or_else(|| panic!("{out}"));
    assert!(status == 1 && suspect.contains("words corrupt"), "{out}");
    watchdog.progress();
    let (status, out, err) = hosts.tieline("host1", &["link", "clear", "4", "8"]);
    assert_eq!(status, 0, "{out}{err}");
    user.must("put 4 0 4096", "done");
    owner.must("check 4 0 4096", "same");
}

#[test]
fn a_node_that_was_stopped_is_named_with_what_starts_it() {
    let _watchdog = Watchdog::usual("a node that was stopped on another host");
    let Some(hosts) = Hosts::up(3) else { return };
    let (status, out, err) = hosts.tieline("host3", &["node", "stop", "--node", "12"]);
    assert_eq!(status, 0, "{out}{err}");
    until("its end", || hosts.tieline("host1", &["status"]).1.contains("session with node 12 is stopped"));
    let (_, out, _) = hosts.tieline("host1", &["conntest", "--time", "0.5"]);
    let said =
        "node 12 on host3 was stopped and took no part: `tieline node start --node 12` starts it there";
    assert!(out.contains(said) && !out.contains("suspect: node 12"), "{out}");
    let (_, out, _) = hosts.tieline("host1", &["status"]);
    assert!(out.contains(": start it with `tieline node start --node 12` on host3"), "{out}");
}

/// Its session stays, so that its silence alone tells. What is known of it without its answer is shown.
#[test]
fn a_manager_that_answers_nothing_does_not_hold_up_the_status() {
    let _watchdog = Watchdog::usual("status and a manager that answers nothing");
    let config = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("patient.toml");
    std::fs::write(&config, "[manager]\nheartbeat_limit_ms = 600000\n").unwrap();
    let Some(hosts) = Hosts::up_with(3, &["--config", config.to_str().unwrap()]) else { return };
    let (_, info, _) = hosts.tieline("host3", &["query", "--json"]);
    let info: Value = serde_json::from_str(&info).unwrap();
    hosts.must("host3", &["kill", "-STOP", &info["manager_pid"].as_u64().unwrap().to_string()]);
    let (status, out, _) = hosts.tieline("host1", &["status"]);
    // It is asked for a second and four round trips, where others are asked for five seconds.
    let said = "node 12 on host3: its manager did not tell node 4 its state (no response within ";
    let limit_ms = out.split_once(said).and_then(|(_, rest)| rest.split_once(" ms")).map(|(ms, _)| ms);
    let limit_ms: u32 = limit_ms.and_then(|ms| ms.parse().ok()).unwrap_or_else(|| panic!("{out}"));
    assert!(status == 1 && limit_ms < 5000, "{out}");
    assert!(out.contains("node 4: node 12 on host3: session valid, link ofi"), "{out}");
    let (_, out, _) = hosts.tieline("host1", &["status", "--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    let of = |nth: usize| &report["other_hosts"][nth];
    assert!(of(0)["node"] == 8 && of(0)["status"].is_object(), "{report}");
    assert!(of(1)["node"] == 12 && of(1)["status"].is_null(), "{report}");
}

#[test]
fn diag_shows_the_system_and_the_link_of_each_host() {
    let _watchdog = Watchdog::usual("diag of two hosts");
    let Some(hosts) = Hosts::up(2) else { return };
    let (_, out, _) = hosts.tieline("host1", &["diag"]);
    let of =
        |node: &str| out.split("tieline static test").find(|part| part.contains(node)).unwrap().to_owned();
    for (node, host) in [("( node 4 )", "host1"), ("( node 8 )", "host2")] {
        let system = of(node).lines().find(|line| line.starts_with("System : ")).unwrap().to_owned();
        assert!(system.contains(&format!(" {host} ")), "{node}: {system}");
        assert!(of(node).contains("OFI ADAPTER 0 LINK 0 STATE"), "{out}");
    }
}

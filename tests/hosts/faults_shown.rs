//! What `conntest`, `diag` and `status` say of a link that is down and of a node that was stopped, where hosts are several.

use serde_json::Value;

use crate::lab::until;
use crate::namespaces::Hosts;
use tieline_tests::Watchdog;

/// Instances that wait for one that cannot be reached answer the others, and the exchange begins for all at once.
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

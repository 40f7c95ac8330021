//! Several rails between two hosts are one link: what goes over it arrives whole, and over all of them.

use serde_json::Value;
use tieline_tests::Watchdog;

use crate::lab::until;
use crate::namespaces::Hosts;

const REACH: &str = env!("CARGO_BIN_EXE_tieline-reach");
const SIZE: &str = "8000000";

/// Bytes that an interface of a host has received.
fn received(hosts: &Hosts, host: &str, interface: &str) -> u64 {
    let path = format!("/sys/class/net/{interface}/statistics/rx_bytes");
    hosts.must(host, &["cat", &path]).parse().unwrap()
}

fn rates(hosts: &Hosts) -> [u64; 2] {
    ["eth0", "eth1"].map(|interface| received(hosts, "host2", interface))
}

/// The line of `tieline status` on the first host about its session with the second one.
pub(crate) fn session(hosts: &Hosts) -> String {
    let (_, out, err) = hosts.tieline("host1", &["status"]);
    let line = out.lines().find(|line| line.starts_with("node 4: node 8 on host2: "));
    line.unwrap_or_else(|| panic!("{out}{err}")).to_owned()
}

#[test]
fn blocks_go_over_all_rails_and_arrive_whole() {
    let _watchdog = Watchdog::usual("a segment over two rails");
    // Two that are equally fast: without a limit the processors decide, and the rest of what runs on them.
    let Some(hosts) = Hosts::up_with(2, &["--rails", "2", "--rate", "500mbit"]) else { return };
    assert!(session(&hosts).contains("session valid, link ofi, 2 rails"), "{}", session(&hosts));
    let mut owner = hosts.program("host2", REACH, &["own", "7", SIZE]).ready();
    let mut user = hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
    owner.must("event", "Connected { node: NodeId(4) }");
    let before = rates(&hosts);
    for (seed, (offset, len)) in
        [(0, 8_000_000), (3, 65_537), (5, 64), (64, 131_072), (1000, 7_654_321), (7_999_999, 1), (1, 196_609)]
            .iter()
            .enumerate()
    {
        let block = format!("{seed} {offset} {len}");
        user.must(&format!("put {block}"), "done");
        owner.must(&format!("check {block}"), "same");
        user.must(&format!("get {block}"), "same");
        let other = format!("{} {offset} {len}", seed + 100);
        owner.must(&format!("fill {other}"), "done");
        user.must(&format!("get {other}"), "same");
    }
    user.must("dma 9 1000001", "same");
    owner.must("check 9 0 1000001", "same");
    // What was put, and not what was got, which the other host has received.
    let after = rates(&hosts);
    for (before, after) in before.iter().zip(after) {
        assert!(after - before > 4_000_000, "{before} {after}");
    }
}

#[test]
fn a_rail_that_is_cut_when_a_program_connects_is_left_out_until_it_responds() {
    let _watchdog = Watchdog::usual("a rail that is cut");
    let Some(hosts) = Hosts::up_with(2, &["--rails", "2", "--rate", "500mbit"]) else { return };
    hosts.must("host2", &["ip", "link", "set", "eth1", "down"]);
    let mut owner = hosts.program("host2", REACH, &["own", "7", SIZE]).ready();
    let mut user = hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
    user.must("put 1 0 8000000", "done");
    owner.must("check 1 0 8000000", "same");
    user.must("get 1 0 8000000", "same");
    assert_eq!(user.ask("rails"), "rail 2: it did not respond when the program connected");
    until("the status", || session(&hosts).contains(", reduced: 1 connection without rail 2 for "));
    let (status, said, _) = hosts.tieline("host1", &["cable"]);
    let lines: Vec<_> = said.lines().map(str::trim).filter(|line| line.starts_with("rail ")).collect();
    assert_eq!((status, lines.len()), (0, 4), "{said}");
    assert!(
        lines[1].starts_with("rail 2: ") && lines[1].contains(", not used by 1 connection for "),
        "{said}"
    );
    hosts.must("host2", &["ip", "link", "set", "eth1", "up"]);
    until("the rail comes back", || user.ask("rails") == "all");
    let before = rates(&hosts)[1];
    user.must("put 2 0 8000000", "done");
    owner.must("check 2 0 8000000", "same");
    assert!(rates(&hosts)[1] - before > 1_000_000, "the rail carries its share");
    until("the status of all rails", || !session(&hosts).contains("reduced"));
}

#[test]
fn of_unequal_numbers_of_rails_the_smaller_one_is_used_and_named() {
    let _watchdog = Watchdog::usual("unequal numbers of rails");
    let Some(hosts) = Hosts::up_with(2, &["--rails", "2"]) else { return };
    let (_, said, _) = hosts.tieline("host1", &["query", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["other_hosts"]["rails"].as_array().map(Vec::len), Some(2), "{said}");
    assert_eq!(said["other_hosts"]["domain"], "eth0", "{said}");
    hosts.must("host2", &["rm", "/run/config/tieline/rails.toml"]);
    let (status, out, err) = hosts.tieline("host2", &["node", "restart", "--node", "8"]);
    assert_eq!(status, 0, "{out}{err}");
    until("the session", || session(&hosts).contains("session valid, link ofi, 1 of 2 rails (node 8 has 1)"));
    let mut owner = hosts.program("host2", REACH, &["own", "7", SIZE]).ready();
    let mut user = hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
    user.must("put 1 0 8000000", "done");
    owner.must("check 1 0 8000000", "same");
}

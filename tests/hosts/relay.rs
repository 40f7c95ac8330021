//! Two hosts without a common link that works, and a third one: traffic goes on by way of that one if it is a
//! relay, and the operator sees it.

use std::path::PathBuf;

use serde_json::Value;
use tieline_tests::Watchdog;

use crate::lab::{Program, until};
use crate::namespaces::Hosts;

const REACH: &str = env!("CARGO_BIN_EXE_tieline-reach");
const SIZE: &str = "2000000";

fn config_file(relay: bool) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("relay-{relay}.toml"))
}

/// So many hosts, which are all relays or none; `None`: this machine cannot.
fn hosts(count: usize, relay: bool) -> Option<Hosts> {
    let file = config_file(relay);
    let text =
        format!("[manager]\nrelay = {relay}\nheartbeat_interval_ms = 200\nheartbeat_limit_ms = 1000\n");
    std::fs::write(&file, text).unwrap();
    if let Err(error) = ofi::offers(&ofi::Wanted::default()) {
        println!("skipped: {error}");
        return None;
    }
    Hosts::up_with(count, &["--config", file.to_str().unwrap()])
}

fn address(hosts: &Hosts, host: usize) -> String {
    hosts.said["hosts"][host - 1]["address"].as_str().unwrap().split(':').next().unwrap().to_owned()
}

/// Cuts the link between two hosts in both directions, or mends it.
fn cut(hosts: &Hosts, (one, other): (usize, usize), is_cut: bool) {
    for (here, there) in [(one, other), (other, one)] {
        let word = if is_cut { "add" } else { "del" };
        let (host, there) = (format!("host{here}"), address(hosts, there));
        hosts.must(&host, &["ip", "route", word, "blackhole", &there]);
    }
}

/// What the status of a host says of its session with a node.
fn link(hosts: &Hosts, host: &str, node: u64) -> Value {
    let (_, said, _) = hosts.tieline(host, &["node", "status", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap_or_default();
    let links = said["nodes"][0]["status"]["links"].as_array().cloned().unwrap_or_default();
    links.into_iter().find(|link| link["peer"] == node).unwrap_or_default()
}

/// By way of which node the sessions between the first two hosts go, as both say.
fn via(hosts: &Hosts) -> [Option<u64>; 2] {
    [("host1", 8), ("host2", 4)].map(|(host, node)| {
        let link = link(hosts, host, node);
        if link["session"] == "valid" { link["via"]["relay"].as_u64().or(Some(0)) } else { None }
    })
}

/// Blocks, words and atomic operations; each byte is checked at both ends.
fn exchange(owner: &mut Program, user: &mut Program, seed: u64) {
    for (nth, (offset, len)) in
        [(0, 2_000_000), (3, 8), (64, 64), (65_536, 65_539), (1_999_999, 1)].iter().enumerate()
    {
        let block = format!("{} {offset} {len}", seed + nth as u64);
        user.must(&format!("put {block}"), "done");
        owner.must(&format!("check {block}"), "same");
        let other = format!("{} {offset} {len}", seed + 100 + nth as u64);
        owner.must(&format!("fill {other}"), "done");
        user.must(&format!("get {other}"), "same");
    }
    let number = |text: &str| text.strip_prefix("was ").unwrap().parse::<u64>().unwrap();
    let was = number(&user.ask("add 8 5"));
    assert_eq!(was.wrapping_add(5), number(&user.ask("add 8 0")));
}

/// From each of the first two hosts to the other one, on new connections; an interrupt too.
fn all_reaches(hosts: &Hosts, seed: u64) {
    for (owner_at, user_at, node) in [("host2", "host1", "8"), ("host1", "host2", "4")] {
        let mut owner = hosts.program(owner_at, REACH, &["own", "7", SIZE]).ready();
        let mut user = hosts.program(user_at, REACH, &["reach", node, "7"]).ready();
        exchange(&mut owner, &mut user, seed);
        let mut owner = hosts.program(owner_at, REACH, &["own-interrupt", "3"]).ready();
        let mut user = hosts.program(user_at, REACH, &["trigger", node, "3"]).ready();
        user.must("now", "done");
        owner.must("wait", "came 1");
        let mut owner = hosts.program(owner_at, REACH, &["own-data", "4", "3"]).ready();
        let mut user = hosts.program(user_at, REACH, &["trigger-data", node, "4"]).ready();
        user.must("1 8000", "done");
        owner.must("1 8000", "same");
    }
}

#[test]
fn hosts_without_a_common_link_go_on_by_way_of_a_third_and_directly_again_when_they_can() {
    let watchdog = Watchdog::usual("hosts that a third one connects");
    let Some(hosts) = hosts(3, true) else { return };
    let mut owner = hosts.program("host2", REACH, &["own", "7", SIZE]).ready();
    let mut user = hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
    exchange(&mut owner, &mut user, 1);
    assert_eq!(via(&hosts), [Some(0); 2]);
    cut(&hosts, (1, 2), true);
    // A connection that was open ends as it does without a relay; the next one goes by way of it.
    let failed = user.ask(&format!("put 2 0 {SIZE}"));
    assert!(failed.starts_with("error: the ofi link to node 8 failed: "), "{failed}");
    until("the session by way of the third", || via(&hosts) == [Some(12); 2]);
    watchdog.progress();
    user.must("again", "done");
    exchange(&mut owner, &mut user, 2);
    drop((owner, user));
    all_reaches(&hosts, 3);
    watchdog.progress();

    let (status, out, err) = hosts.tieline("host1", &["status"]);
    assert_eq!(status, 0, "{out}{err}");
    assert!(out.contains("node 4: node 8 on host2: session valid via node 12 for "), "{out}");
    assert!(out.contains("node 12: relay between node 4 and node 8 for "), "{out}");
    let (_, out, _) = hosts.tieline("host2", &["query"]);
    assert!(out.contains("\nBy way of a relay  : node 4 on host1 via node 12 for "), "{out}");
    let (_, out, _) = hosts.tieline("host1", &["query", "--json"]);
    let said: Value = serde_json::from_str(&out).unwrap();
    let by_way = said["other_hosts"]["via"].as_array().unwrap();
    assert_eq!((by_way.len(), &by_way[0]["peer"], &by_way[0]["relay"]), (1, &8.into(), &12.into()), "{out}");
    assert!(by_way[0]["since_ns"].as_u64().unwrap() > 0, "{out}");
    let (_, out, _) = hosts.tieline("host3", &["node", "status", "--json"]);
    let said: Value = serde_json::from_str(&out).unwrap();
    let pair = &said["nodes"][0]["status"]["relayed"][0];
    assert_eq!((&pair["first"], &pair["second"]), (&4.into(), &8.into()), "{out}");

    // Connections that are open go on where they are.
    let mut owner = hosts.program("host2", REACH, &["own", "7", SIZE]).ready();
    let mut user = hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
    exchange(&mut owner, &mut user, 4);
    cut(&hosts, (1, 2), false);
    until("the direct session", || via(&hosts) == [Some(0); 2]);
    let (_, out, _) = hosts.tieline("host1", &["query"]);
    assert!(out.contains("Other hosts' nodes : 2") && !out.contains("By way of"), "{out}");
    exchange(&mut owner, &mut user, 5);
    drop((owner, user));
    watchdog.progress();
    // New ones need no relay any more.
    hosts.tieline("host3", &["node", "stop", "--node", "12"]);
    all_reaches(&hosts, 6);
}

#[test]
fn without_a_relay_nothing_is_forwarded() {
    let watchdog = Watchdog::usual("hosts that no third one connects");
    let Some(hosts) = hosts(3, false) else { return };
    cut(&hosts, (1, 2), true);
    until("the loss of the session", || via(&hosts) == [None; 2]);
    watchdog.progress();
    // Longer than a relay would be looked for.
    let reason = || link(&hosts, "host2", 4)["reason"].as_str().unwrap_or_default().to_owned();
    until("some attempts", || reason().contains("cannot be connected to"));
    for _ in 0..10 {
        std::thread::sleep(std::time::Duration::from_secs(1));
        assert_eq!(via(&hosts), [None; 2]);
    }
    let (_, out, _) = hosts.tieline("host3", &["node", "status", "--json"]);
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(said["nodes"][0]["status"]["relayed"], Value::Array(Vec::new()), "{out}");
}

#[test]
fn a_relay_that_dies_is_an_error_and_another_one_takes_its_place() {
    let watchdog = Watchdog::usual("a relay that dies");
    let Some(hosts) = hosts(4, true) else { return };
    cut(&hosts, (1, 2), true);
    until("the session by way of a third", || via(&hosts).iter().all(|via| via.is_some_and(|via| via != 0)));
    watchdog.progress();
    let first = via(&hosts)[0].unwrap();
    let (dies, takes_over) = if first == 12 { ("host3", 16) } else { ("host4", 12) };
    let mut owner = hosts.program("host2", REACH, &["own", "7", SIZE]).ready();
    let mut user = hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
    exchange(&mut owner, &mut user, 1);
    // Its processes end with its manager.
    let (_, said, _) = hosts.tieline(dies, &["query", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    hosts.must(dies, &["kill", "-KILL", &said["manager_pid"].to_string()]);
    let failed = user.ask(&format!("put 2 0 {SIZE}"));
    assert!(failed.starts_with("error: the ofi link to node 8 failed: "), "{failed}");
    until("the other relay", || via(&hosts) == [Some(takes_over); 2]);
    watchdog.progress();
    user.must("again", "done");
    exchange(&mut owner, &mut user, 3);
}

/// How much the relay on host 3 forwards between the first two hosts.
fn forwards(hosts: &Hosts) -> u64 {
    let (_, out, _) = hosts.tieline("host3", &["node", "status", "--json"]);
    let said: Value = serde_json::from_str(&out).unwrap_or_default();
    said["nodes"][0]["status"]["relayed"][0]["forwards"].as_u64().unwrap_or(0)
}

#[test]
fn programs_one_after_the_other_find_room_at_a_relay_however_many_they_are() {
    let watchdog = Watchdog::usual("many programs by way of a relay");
    let Some(hosts) = hosts(3, true) else { return };
    cut(&hosts, (1, 2), true);
    until("the session by way of the third", || via(&hosts) == [Some(12); 2]);
    let mut owner = hosts.program("host2", REACH, &["own", "7", SIZE]).ready();
    let mut taker = hosts.program("host2", REACH, &["own-data", "4", "64"]).ready();
    // More than it forwards for a node at a time.
    for nth in 0..72 {
        match nth % 4 {
            // It transfers nothing, and is killed.
            0 => drop(hosts.program("host1", REACH, &["reach", "8", "7"]).ready()),
            1 => {
                let mut user = hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
                user.must(&format!("put {nth} 0 100000"), "done");
                assert!(user.0.finish().unwrap().success());
                owner.must(&format!("check {nth} 0 100000"), "same");
            }
            // What it sends is read when it has gone.
            2 => {
                let mut sender = hosts.program("host1", REACH, &["trigger-data", "8", "4"]).ready();
                sender.must(&format!("{nth} 8000"), "done");
                assert!(sender.0.finish().unwrap().success());
                taker.must(&format!("{nth} 8000"), "same");
            }
            // It ends while a program reads its memory.
            _ => {
                let mut short = hosts.program("host1", REACH, &["own", "9", SIZE]).ready();
                let mut reader = hosts.program("host2", REACH, &["reach", "4", "9"]).ready();
                short.must(&format!("fill {nth} 0 {SIZE}"), "done");
                reader.0.say(&format!("get {nth} 0 {SIZE}")).unwrap();
                assert!(short.0.finish().unwrap().success());
                let said = reader.0.line().unwrap();
                assert!(said == "same" || said.starts_with("error: "), "{said}");
            }
        }
        watchdog.progress();
        assert!(forwards(&hosts) < 20, "after {nth}");
    }
    // Those of the managers, and of the two programs that go on.
    until("the end of the others", || forwards(&hosts) <= 4);
    drop((owner, taker));
    until("the end of these, too", || forwards(&hosts) <= 2);
}

#[test]
fn a_relay_that_is_restarted_forwards_again_and_forgets_what_ends() {
    let watchdog = Watchdog::usual("a relay that is restarted");
    let Some(hosts) = hosts(3, true) else { return };
    cut(&hosts, (1, 2), true);
    until("the session by way of the third", || via(&hosts) == [Some(12); 2]);
    let mut owner = hosts.program("host2", REACH, &["own", "7", SIZE]).ready();
    let mut user = hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
    exchange(&mut owner, &mut user, 1);
    let config = config_file(true);
    let words = ["node", "restart", "--node", "12", "--config", config.to_str().unwrap()];
    let (status, out, err) = hosts.tieline("host3", &words);
    assert_eq!(status, 0, "{out}{err}");
    watchdog.progress();
    let failed = user.ask(&format!("put 2 0 {SIZE}"));
    assert!(failed.starts_with("error: the ofi link to node 8 failed: "), "{failed}");
    // The session is lost with its connection, and then goes by way of the relay again.
    until("an exchange by way of it", || user.ask("again") == "done");
    watchdog.progress();
    exchange(&mut owner, &mut user, 2);
    assert!(forwards(&hosts) >= 3);
    drop((owner, user));
    until("the end of what it forwards for programs", || forwards(&hosts) <= 2);
}

//! Programs on two hosts: one reaches the memory of the other over libfabric, and what happens when something
//! is missing or dies.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod agents;
mod bench;
#[allow(dead_code, reason = "shared with the tests of one host, which use all of it")]
#[path = "../sisci/c.rs"]
mod c;
mod documented;
mod faults_shown;
mod groups;
mod killed;
mod lab;
mod messages;
mod namespaces;
mod namespaces_ended;
mod network_faults;
mod provider_faults;
mod rails;
mod rails_cut;
mod rails_interrupts;
mod rails_sessions;
mod rails_slow;
mod relay;
mod sisci;
mod ssh;
mod tools;
mod verify;

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use lab::{see_each_other, two_hosts, until, without_libfabric};
use tieline_tests::Watchdog;

const SIZE: &str = "2000000";

#[test]
fn what_a_program_writes_on_another_host_is_there() {
    let _watchdog = Watchdog::usual("a segment on another host");
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = second.program(&["own", "7", SIZE]).ready();
    let mut user = first.program(&["reach", "8", "7"]).ready();
    user.must("what", "ofi 2000000 bytes put get atomics doorbell");
    owner.must("event", "Connected { node: NodeId(4) }");
    for (seed, (offset, len)) in
        [(0, 1), (3, 8), (64, 64), (1000, 4096), (65_536, 65_539), (7, 1_999_993), (1_999_999, 1)]
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
    assert!(user.ask("put 1 1999999 2").contains("lie outside of remote memory of 2000000 bytes"));
    // The owner's processor carries these out.
    owner.must("fill 5 0 64", "done");
    user.must("put 5 0 64", "done");
    let was = user.ask("add 8 5");
    let now = user.ask("add 8 0");
    let number = |text: &str| text.strip_prefix("was ").unwrap().parse::<u64>().unwrap();
    assert_eq!(number(&was).wrapping_add(5), number(&now));
    user.must("dma 9 1000001", "same");
    owner.must("check 9 0 1000001", "same");
    user.must("sequence", "Ok");
    let refused = user.ask("map");
    assert!(refused.contains("the ofi link cannot map memory"), "{refused}");
    // The other way round, at the same time.
    let _other_owner = first.program(&["own", "7", "4096"]).ready();
    let mut other_user = second.program(&["reach", "4", "7"]).ready();
    other_user.must("put 1 0 4096", "done");
    other_user.must("get 1 0 4096", "same");
    drop(user);
    owner.must("event", "Disconnected { node: NodeId(4), died: true }");
}

#[test]
fn an_owner_that_is_killed_is_lost_and_its_successor_is_another() {
    let _watchdog = Watchdog::usual("an owner on another host that is killed");
    let Some((first, second)) = two_hosts() else { return };
    let owner = second.program(&["own", "7", "4096"]).ready();
    let mut user = first.program(&["reach", "8", "7"]).ready();
    user.must("put 1 0 4096", "done");
    owner.0.kill().unwrap();
    user.must("event", "Lost(OwnerDied)");
    let mut successor = second.program(&["own", "7", "4096"]).ready();
    let stale = user.ask("put 2 0 4096");
    assert!(stale.contains("segment 7 of node 8 is gone: the program that owned it ended"), "{stale}");
    user.must("again", "done");
    user.must("put 3 0 4096", "done");
    successor.must("check 3 0 4096", "same");
    // What was withdrawn opens nothing any more, until it is available again.
    successor.must("withdraw", "done");
    user.must("event", "Lost(Withdrawn)");
    assert!(user.ask("put 4 0 64").contains("its owner withdrew it"));
    successor.must("available", "done");
    user.must("again", "done");
    user.must("put 4 0 64", "done");
    successor.must("check 4 0 64", "same");
}

#[test]
fn an_interrupt_on_another_host_is_triggered() {
    let _watchdog = Watchdog::usual("an interrupt on another host");
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = second.program(&["own-interrupt", "3"]).ready();
    let mut user = first.program(&["trigger", "8", "3"]).ready();
    // The owner sleeps at the first; triggers before a wait are counted.
    owner.0.say("wait").unwrap();
    user.must("now", "done");
    assert_eq!(owner.0.line().unwrap(), "came 1");
    for _ in 0..3 {
        user.must("now", "done");
    }
    let mut came = 0;
    while came < 3 {
        came += owner.ask("wait").strip_prefix("came ").unwrap().parse::<u32>().unwrap();
    }
    assert_eq!(came, 3);
    let mut data = first.program(&["trigger-data", "8", "3"]);
    let said = data.0.line().unwrap();
    assert!(said.contains("carries no messages: connect with `connect_interrupt`"), "{said}");
    owner.0.kill().unwrap();
    let mut said = user.ask("now");
    // Until its manager has said so.
    while said == "done" {
        said = user.ask("now");
    }
    assert!(
        said.contains("interrupt 3 of node 8 is gone") || said.contains("the ofi link to node 8 failed"),
        "{said}"
    );
}

/// The notice that the user has ended takes another way than its trigger, and must not overtake it.
#[test]
fn the_last_trigger_of_a_program_that_ends_is_not_lost() {
    let _watchdog = Watchdog::usual("a trigger before the end");
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = second.program(&["own-interrupt", "3"]).ready();
    for round in 0..4 {
        let mut user = first.program(&["trigger", "8", "3"]).ready();
        // The first one waits for a connection, which takes the owner's part.
        user.must("now", "done");
        assert_eq!(owner.ask("wait"), "came 1", "round {round}");
        let pid = Pid::from_raw(owner.0.pid().try_into().unwrap()).unwrap();
        owner.0.signal(Signal::STOP).unwrap();
        user.must("now", "done");
        let continues = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            kill_process(pid, Signal::CONT).unwrap();
        });
        assert!(user.0.finish().unwrap().success());
        continues.join().unwrap();
        assert_eq!(owner.ask("wait"), "came 1", "round {round}");
    }
}

#[test]
fn messages_of_interrupts_reach_another_host_whole_and_in_order() {
    let _watchdog = Watchdog::usual("messages of interrupts on another host");
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = second.program(&["own-data", "4", "3"]).ready();
    let mut user = first.program(&["trigger-data", "8", "4"]).ready();
    let mut neighbour = second.program(&["trigger-data", "8", "4"]).ready();
    // The owner sleeps at the first.
    owner.0.say("1 100").unwrap();
    user.must("1 100", "done");
    assert_eq!(owner.0.line().unwrap(), "same");
    for (seed, len) in ["0", "1", "8", "4095", "8176", "8192"].iter().enumerate() {
        user.must(&format!("{seed} {len}"), "done");
        neighbour.must(&format!("1{seed} {len}"), "done");
        owner.must(&format!("{seed} {len}"), "same");
        owner.must(&format!("1{seed} {len}"), "same");
    }
    // More than the owner has room for is refused, and comes when there is room.
    let mut taken = 0;
    let said = loop {
        let said = user.ask(&format!("{taken} 50"));
        if said != "done" {
            break said;
        }
        taken += 1;
    };
    assert!(taken >= 3 && said.contains("full"), "{taken}: {said}");
    owner.must("0 50", "same");
    user.must(&format!("{taken} 50"), "done");
    for seed in 1..=taken {
        owner.must(&format!("{seed} 50"), "same");
    }
    let said = user.ask("1 8193");
    assert!(said.contains("8193") && said.contains("8192"), "{said}");
    let mut plain = first.program(&["trigger", "8", "4"]);
    assert!(!plain.0.line().is_ok_and(|said| said == "ready"), "it carries messages");
    owner.0.kill().unwrap();
    let mut said = user.ask("1 50");
    while said == "done" {
        said = user.ask("1 50");
    }
    assert!(
        said.contains("interrupt 4 of node 8 is gone") || said.contains("the ofi link to node 8 failed"),
        "{said}"
    );
}

/// Data does not pass through managers.
#[test]
fn managers_may_die_while_data_continues() {
    let _watchdog = Watchdog::usual("managers of two hosts that die");
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = second.program(&["own", "7", "4096"]).ready();
    let mut user = first.program(&["reach", "8", "7"]).ready();
    for (seed, host) in [&first, &second].into_iter().enumerate() {
        host.kill_manager();
        user.must(&format!("put {seed} 0 4096"), "done");
        owner.must(&format!("check {seed} 0 4096"), "same");
        host.start();
        see_each_other(&first, &second);
        user.must(&format!("put 1{seed} 0 4096"), "done");
        owner.must(&format!("check 1{seed} 0 4096"), "same");
    }
    // The managers have taken the connection up again: the owner's death is still told.
    owner.0.kill().unwrap();
    user.must("event", "Lost(OwnerDied)");
}

#[test]
fn a_host_that_is_cut_off_is_an_error_and_can_be_reached_again() {
    let _watchdog = Watchdog::usual("a host that is cut off");
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = second.program(&["own", "7", "4096"]).ready();
    let mut user = first.program(&["reach", "8", "7"]).ready();
    user.must("put 1 0 4096", "done");
    second.cable("down");
    let failed = user.ask("put 2 0 4096");
    println!("{failed}");
    assert!(failed.starts_with("error: the ofi link to node 8 failed: "), "{failed}");
    assert_eq!(user.ask("put 2 0 4096"), failed, "at once, and the same");
    assert_eq!(user.ask("get 2 0 4096"), failed);
    assert_eq!(user.ask("sequence"), failed);
    until("the loss of the session", || first.session(8) != "valid");
    second.cable("up");
    see_each_other(&first, &second);
    user.must("again", "done");
    user.must("put 3 0 4096", "done");
    owner.must("check 3 0 4096", "same");
}

#[test]
fn without_libfabric_either_side_names_the_package() {
    let _watchdog = Watchdog::usual("hosts without libfabric");
    let Some((first, second)) = two_hosts() else { return };
    let folder = without_libfabric();
    let without = [("LD_LIBRARY_PATH", folder.to_str().unwrap())];
    let _owner = second.program(&["own", "7", "4096"]).ready();
    let mut user = first.program_with(&["reach", "8", "7"], &without);
    let said = user.0.line().unwrap();
    let begin =
        "error: segment 7 of node 8 is on another host and cannot be reached: libfabric cannot be loaded (";
    assert!(said.starts_with(begin) && said.contains("install the package libfabric1"), "{said}");

    let _owner = second.program_with(&["own", "8", "4096"], &without).ready();
    let mut user = first.program(&["reach", "8", "8"]);
    let said = user.0.line().unwrap();
    assert!(
        said.starts_with("error: segment 8 of node 8 cannot be reached: the node is on another host ("),
        "{said}"
    );
    assert!(said.contains("its owner has no link for data: libfabric cannot be loaded ("), "{said}");
    assert!(said.contains("install the package libfabric1"), "{said}");
}

#[test]
fn certificates_are_renewed_by_one_command_on_each_host() {
    let _watchdog = Watchdog::usual("the renewal of certificates");
    let Some((first, second)) = two_hosts() else { return };
    let (is_well, _, said) = second.run(&["cluster", "renew"]);
    assert!(!is_well && said.contains("give the host where `tieline cluster init` was run"), "{said}");
    let (is_well, _, said) = second.run(&["cluster", "renew", "--cluster", "other"]);
    assert!(!is_well && said.contains("this host has not joined cluster"), "{said}");
    let said = second.tieline(&["cluster", "renew", &first.address]);
    assert!(said.starts_with("node 8 of cluster test has a new certificate, in "), "{said}");
    assert!(said.contains("next: `tieline node restart --node 8 --cluster test`"), "{said}");
    let said = first.tieline(&["cluster", "renew", "--json"]);
    assert!(said.contains("\"node\":4") || said.contains("\"node\": 4"), "{said}");
    for host in [&first, &second] {
        host.tieline(&["node", "restart", "--node", &host.node.to_string()]);
    }
    see_each_other(&first, &second);
}

#[test]
fn programs_of_a_revoked_host_lose_their_connections_and_get_no_others() {
    let _watchdog = Watchdog::usual("a host whose certificate is revoked");
    let Some((first, second)) = two_hosts() else { return };
    let mut owner = first.program(&["own", "7", "4096"]).ready();
    let mut user = second.program(&["reach", "4", "7"]).ready();
    let _its_owner = second.program(&["own", "9", "4096"]).ready();
    let mut its_user = first.program(&["reach", "8", "9"]).ready();
    user.must("put 1 0 4096", "done");
    its_user.must("put 1 0 4096", "done");
    owner.must("event", "Connected { node: NodeId(8) }");

    let (is_well, _, said) = second.run(&["cluster", "revoke", "4"]);
    assert!(!is_well && said.contains("has no key of an authority"), "{said}");
    let (is_well, _, said) = first.run(&["cluster", "revoke", "4"]);
    assert!(!is_well && said.contains("this host has the authority's key"), "{said}");
    let (is_well, _, said) = first.run(&["cluster", "revoke", "400"]);
    assert!(!is_well && said.contains("node 400 has no certificate of this cluster"), "{said}");
    let said = first.tieline(&["cluster", "revoke", "8"]);
    assert!(
        said.contains("are revoked; to let it join again: `tieline cluster token --node 8 --cluster test`"),
        "{said}"
    );
    let said = first.tieline(&["cluster", "revoke", "8", "--json"]);
    assert!(said.contains("\"already\": true") || said.contains("\"already\":true"), "{said}");

    // At both hosts, and at both ends of the connections.
    user.must("event", "Lost(NodeLost)");
    its_user.must("event", "Lost(NodeLost)");
    owner.must("event", "Disconnected { node: NodeId(8), died: true }");
    for user in [&mut user, &mut its_user] {
        let lost = user.ask("put 2 0 4096");
        assert!(
            lost.starts_with("error: ") && lost.contains("is lost") || lost.contains("is gone"),
            "{lost}"
        );
        let refused = user.ask("again");
        assert!(refused.contains("certificate was revoked"), "{refused}");
    }
    let status = first.tieline(&["status"]);
    assert!(
        status.contains("its certificate was revoked; to let it join again: `tieline cluster token"),
        "{status}"
    );
    assert_eq!(first.session(8), "revoked");
    let (_, status, _) = second.run(&["status"]);
    assert!(status.contains("this node's certificate was revoked"), "{status}");
    let (is_well, _, said) = second.run(&["cluster", "renew", &first.address]);
    assert!(!is_well && said.contains("because it was revoked: join again with a token"), "{said}");

    let token = first.tieline(&["cluster", "token", "--node", "8"]);
    second.tieline(&["cluster", "join", &first.address, "--token", token.trim()]);
    second.tieline(&["node", "restart", "--node", "8"]);
    see_each_other(&first, &second);
    let mut user = second.program(&["reach", "4", "7"]).ready();
    user.must("put 3 0 4096", "done");
    owner.must("check 3 0 4096", "same");
    // Without a manager the list is only written, and says so.
    first.tieline(&["node", "stop", "--node", "4"]);
    let said = first.tieline(&["cluster", "revoke", "8"]);
    assert!(said.contains("no node manager runs here"), "{said}");
    first.start();
    until("the end of the session", || first.session(8) == "revoked" && second.session(4) == "refused");
}

#[test]
fn a_node_leaves_its_cluster_and_the_others_do_not_list_it() {
    let _watchdog = Watchdog::usual("a node that leaves its cluster");
    let Some((first, second)) = two_hosts() else { return };
    let fails = |host: &lab::Host, arguments: &[&str], why: &str| {
        let (is_well, _, said) = host.run(arguments);
        assert!(!is_well && said.contains(why), "{arguments:?}: {said}");
    };
    let leave = ["cluster", "leave", first.address.as_str()];
    fails(&second, &leave, "node 8 runs: stop it first (`tieline node stop --node 8`)");
    fails(&second, &["cluster", "leave"], "--force");
    fails(&first, &leave, "node 4 cannot leave or be revoked: this host has the authority's key");
    fails(&second, &["cluster", "leave", "--force", "--node", "12"], "node 12 has no certificate in");
    second.tieline(&["node", "stop", "--node", "8"]);
    first.tieline(&["node", "stop", "--node", "4"]);
    fails(&second, &leave, "`tieline cluster leave --force --node 8`, then `tieline cluster revoke 8` on");
    first.start();
    let said = second.tieline(&leave);
    assert!(said.contains("node 8 has left cluster test"), "{said}");
    until("it is not listed", || first.session(8).is_empty());
    let status = first.tieline(&["status"]);
    assert!(!status.contains("node 8"), "{status}");
    fails(&second, &leave, "this host has not joined cluster");
    // Its ID is free, and the other way is to force it.
    let token = first.tieline(&["cluster", "token"]);
    let said = second.tieline(&["cluster", "join", &first.address, "--token", token.trim()]);
    assert!(said.contains("this host is node 8"), "{said}");
    second.start();
    see_each_other(&first, &second);
    second.tieline(&["node", "stop", "--node", "8"]);
    let said = second.tieline(&["cluster", "leave", "--force"]);
    assert!(
        said.contains("next: `tieline cluster revoke 8 --cluster test` on the authority's host"),
        "{said}"
    );
    fails(&second, &["cluster", "renew", &first.address], "this host has not joined cluster");
}

/// TCP ports at which something listens on a host, beside its manager.
fn listening(host: &lab::Host) -> std::collections::BTreeSet<u16> {
    let table = host.command("cat").arg("/proc/net/tcp").output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    let port = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, port) = words[1].split_once(':').unwrap();
        (words[3] == "0A").then(|| u16::from_str_radix(port, 16).unwrap())
    };
    table.lines().skip(1).filter_map(port).filter(|port| *port != 7411).collect()
}

/// What docs/hosts.md says for firewalls: the manager's port, and one of the range for each program.
#[test]
fn a_firewall_lets_these_ports_through() {
    let _watchdog = Watchdog::usual("the ports of programs on two hosts");
    let Some((first, second)) = two_hosts() else { return };
    let range = [("FI_TCP_PORT_LOW_RANGE", "47000"), ("FI_TCP_PORT_HIGH_RANGE", "47009")];
    assert!(listening(&first).is_empty() && listening(&second).is_empty());
    let _member = second.program_with(&["member", "3", "4096"], &range).ready();
    let mut writer = first.program_with(&["group", "3"], &range).ready();
    writer.must("members 1", "8");
    writer.must("put 1 0 4096", "1 reached, 0 lost");
    for host in [&first, &second] {
        let ports = listening(host);
        assert!(ports.len() == 1 && ports.iter().all(|port| (47000..=47009).contains(port)), "{ports:?}");
    }
}

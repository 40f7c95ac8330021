//! Message queues on two hosts: all lengths and ways, both directions at once, and peers that end.

use std::path::Path;
use std::process::{Command, Stdio};

use tieline_tests::Watchdog;

use crate::c;
use crate::lab::{Host, Program, two_hosts, until};
use crate::namespaces::Hosts;

/// Around what goes in one record, in several, and in parts.
const LENGTHS: &str = "0 1 8 48 4096 8191 8192 8193 65536 65537 1048576";

fn queue(host: &Host, port: u32) -> Program {
    host.program(&["queue", &port.to_string()]).ready()
}

/// Queues of the two, each of which knows the other as its peer 0.
fn two_queues(first: &Host, second: &Host) -> (Program, Program) {
    let (mut a, mut b) = (queue(first, 1), queue(second, 1));
    a.must("peer 8 1", "new");
    b.must("peer 4 1", "new");
    (a, b)
}

/// Both obey at once.
fn both(a: (&mut Program, &str, &str), b: (&mut Program, &str, &str)) {
    a.0.0.say(a.1).unwrap();
    b.0.0.say(b.1).unwrap();
    assert_eq!((a.0.0.line().unwrap(), b.0.0.line().unwrap()), (a.2.to_owned(), b.2.to_owned()));
}

#[test]
fn messages_of_all_lengths_go_between_hosts_in_both_directions() {
    let _watchdog = Watchdog::usual("messages between hosts");
    let Some((first, second)) = two_hosts() else { return };
    let (mut a, mut b) = two_queues(&first, &second);
    // One direction, then the other; the first messages of all wait until both have met.
    both(
        (&mut a, &format!("send 0 1 {LENGTHS}"), "done"),
        (&mut b, &format!("receive 0 1 {LENGTHS}"), "same"),
    );
    both(
        (&mut a, &format!("receive 0 2 {LENGTHS}"), "same"),
        (&mut b, &format!("send 0 2 {LENGTHS}"), "done"),
    );
    // Memory of another host is never read by the kernel's help.
    assert_eq!(b.ask("ways"), "read 0 in parts 4");
    // Both at once, more than the rings hold.
    both(
        (&mut a, &format!("exchange 0 3 4 5 {LENGTHS}"), "same"),
        (&mut b, &format!("exchange 0 4 3 5 {LENGTHS}"), "same"),
    );
    let many = "8 ".repeat(500);
    both(
        (&mut a, &format!("exchange 0 5 6 3 {many}"), "same"),
        (&mut b, &format!("exchange 0 6 5 3 {many}"), "same"),
    );
    // What has no receive is kept; any source is asked for, in another order.
    both((&mut a, "send 0 7 0 1 100 8192", "done"), (&mut b, "progress 300", "done"));
    b.must("receive-any 7 0 1 100 8192", "same");
    b.must("kept", "0 messages");
    both((&mut a, "send 0 8 1234", "done"), (&mut b, "next", "peer 0 1234 bytes"));
    // A queue is asked for again, and is the same.
    a.must("peer 8 1", "known");
    both((&mut a, "close", "closed true"), (&mut b, "until-gone 0", "Some(PeerGone { peer: 1 })"));
}

/// Only one of the two looks for the other.
#[test]
fn a_queue_that_makes_itself_known_is_answered() {
    let _watchdog = Watchdog::usual("a queue that is not known before");
    let Some((first, second)) = two_hosts() else { return };
    let (mut a, mut b) = (queue(&first, 1), queue(&second, 1));
    a.must("peer 8 1", "new");
    both((&mut a, "send 0 1 10", "done"), (&mut b, "next", "peer -1 10 bytes"));
    // Now it is looked for, and is the one that was met.
    b.must("peer 4 1", "new");
    both((&mut a, "exchange 0 2 3 1 100000", "same"), (&mut b, "exchange 0 3 2 1 100000", "same"));
    // Queues of both hosts are exchanged with at once.
    let mut c = queue(&second, 2);
    for (queue, peers) in [(&mut a, ["peer 8 2"]), (&mut b, ["peer 8 2"])] {
        for peer in peers {
            queue.must(peer, "new");
        }
    }
    c.must("peer 4 1", "new");
    c.must("peer 8 1", "new");
    both(
        (&mut c, "exchange 0 4 5 10 0 9000 200000", "same"),
        (&mut a, "exchange 1 5 4 10 0 9000 200000", "same"),
    );
    both(
        (&mut c, "exchange 1 6 7 10 0 9000 200000", "same"),
        (&mut b, "exchange 1 7 6 10 0 9000 200000", "same"),
    );
    both((&mut a, "exchange 0 8 9 1 77", "same"), (&mut b, "exchange 0 9 8 1 77", "same"));
}

/// What was sent is there although its sender has ended, and although nobody looked meanwhile.
#[test]
fn what_was_sent_before_the_end_is_received() {
    let _watchdog = Watchdog::usual("the last messages of a queue");
    let Some((first, second)) = two_hosts() else { return };
    let (mut a, mut b) = two_queues(&first, &second);
    both((&mut a, "send 0 1 1", "done"), (&mut b, "receive 0 1 1", "same"));
    a.must("send 0 2 0 8 8192 20", "done");
    a.must("close", "closed true");
    assert!(a.0.finish().unwrap().success());
    b.must("receive 0 2 0 8 8192 20", "same");
    b.must("until-gone 0", "Some(PeerGone { peer: 1 })");
}

#[test]
fn a_peer_that_is_killed_ends_what_waits_for_it_and_its_successor_is_another() {
    let _watchdog = Watchdog::usual("a peer on another host that is killed");
    let Some((first, second)) = two_hosts() else { return };
    let (mut a, mut b) = two_queues(&first, &second);
    both((&mut a, "exchange 0 1 2 1 8 100000", "same"), (&mut b, "exchange 0 2 1 1 8 100000", "same"));
    a.0.say("until-gone 0").unwrap();
    b.0.kill().unwrap();
    assert_eq!(a.0.line().unwrap(), "Some(PeerGone { peer: 1 })");
    let said = a.ask("send-until-gone 0 8");
    assert_eq!(said, "PeerGone { peer: 1 }");
    let mut b = queue(&second, 1);
    b.must("peer 4 1", "new");
    a.must("peer 8 1", "new");
    both((&mut a, "exchange 1 3 4 1 8 100000", "same"), (&mut b, "exchange 0 4 3 1 8 100000", "same"));
    // The other end of long messages dies, and one to whom nothing was sent yet.
    a.must("begin 1 5 1000000 2000000", "begun");
    b.0.kill().unwrap();
    assert_eq!(a.ask("send-until-gone 1 100000"), "PeerGone { peer: 2 }");
    let b = queue(&second, 1);
    a.must("peer 8 1", "new");
    a.0.say("send 2 6 8").unwrap();
    b.0.kill().unwrap();
    let said = a.0.line().unwrap();
    assert!(said.contains("peer 3 is gone"), "{said}");
}

#[test]
fn a_host_that_is_cut_off_ends_what_waits_for_it() {
    let _watchdog = Watchdog::usual("a peer on a host that is cut off");
    let Some((first, second)) = two_hosts() else { return };
    let (mut a, mut b) = two_queues(&first, &second);
    both((&mut a, "exchange 0 1 2 1 8", "same"), (&mut b, "exchange 0 2 1 1 8", "same"));
    first.cable("down");
    let said = a.ask("send-until-gone 0 4000");
    assert_eq!(said, "PeerGone { peer: 1 }");
    b.must("until-gone 0", "Some(PeerGone { peer: 1 })");
}

/// The memory that two queues have for each other is for these two: a third program, which could write there
/// in the name of one of them, gets no connection to it.
#[test]
fn a_third_program_does_not_reach_the_memory_of_two_queues() {
    let _watchdog = Watchdog::usual("a third program and the memory of two queues");
    let Some((first, second)) = two_hosts() else { return };
    let (mut a, mut b) = two_queues(&first, &second);
    both((&mut a, "exchange 0 1 2 3 8 100000", "same"), (&mut b, "exchange 0 2 1 3 8 100000", "same"));
    for (owner, other) in [(&first, &second), (&second, &first)] {
        let memory = || {
            let all = owner.segments();
            let all = all.into_iter().filter(|segment| segment["connections"] != 0);
            all.filter_map(|segment| {
                let id = segment["what"].as_str()?.strip_prefix("segment ")?.to_owned();
                Some((id, segment["available"].as_bool()?))
            })
            .collect::<Vec<_>>()
        };
        until("an end of connecting", || {
            a.must("progress 10", "done");
            b.must("progress 10", "done");
            memory().iter().all(|(_, is_available)| !is_available)
        });
        let [(id, _)] = &memory()[..] else { panic!("{:?}", owner.segments()) };
        let mut third = other.program(&["reach-now", &owner.node.to_string(), id]);
        let said = third.0.line().unwrap();
        assert!(said.starts_with("error: ") && said.contains("not available"), "{said}");
    }
    both((&mut a, "exchange 0 3 4 1 8 100000", "same"), (&mut b, "exchange 0 4 3 1 8 100000", "same"));
}

#[test]
fn a_link_that_is_taken_down_keeps_messages_waiting() {
    let _watchdog = Watchdog::usual("messages over a link that is taken down");
    let Some((first, second)) = two_hosts() else { return };
    let (mut a, mut b) = two_queues(&first, &second);
    both((&mut a, "exchange 0 1 2 1 8", "same"), (&mut b, "exchange 0 2 1 1 8", "same"));
    first.tieline(&["link", "down", "4", "8"]);
    a.0.say("exchange 0 3 4 2 0 8 9000 300000").unwrap();
    b.0.say("exchange 0 4 3 2 0 8 9000 300000").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    first.tieline(&["link", "up", "4", "8"]);
    assert_eq!((a.0.line().unwrap(), b.0.line().unwrap()), ("same".to_owned(), "same".to_owned()));
}

/// A peer's puts are not what it meant, wherever they go: as if it scribbled over the memory of the pair.
#[test]
fn a_peer_whose_puts_are_corrupted_is_an_error_of_its_pair_alone() {
    let watchdog = Watchdog::usual("messages from a peer whose puts are corrupted");
    if let Err(error) = ofi::offers(&ofi::Wanted::default()) {
        return println!("skipped: {error}");
    }
    let Some(hosts) = Hosts::up_with(2, &["--faults"]) else { return };
    let reach = env!("CARGO_BIN_EXE_tieline-reach");
    let queue = |host: &str, port: &str| hosts.program(host, reach, &["queue", port]).ready();
    let link = |words: &[&str]| {
        let (status, out, err) = hosts.tieline("host1", &[&["link"], words].concat());
        assert_eq!(status, 0, "{out}{err}");
    };
    let (mut near, mut a, mut b) = (queue("host1", "2"), queue("host1", "1"), queue("host2", "1"));
    a.must("peer 8 1", "new");
    a.must("peer 4 2", "new");
    near.must("peer 4 1", "new");
    for round in 0..4 {
        if round > 0 {
            // The one of before is lost for good, though it is there.
            let port = (10 + round).to_string();
            b = queue("host2", &port);
            a.must(&format!("peer 8 {port}"), "new");
        }
        b.must("peer 4 1", "new");
        let to_b = if round == 0 { 0 } else { round + 1 };
        both(
            (&mut a, &format!("exchange {to_b} 1 2 1 8 100000"), "same"),
            (&mut b, "exchange 0 2 1 1 8 100000", "same"),
        );
        link(&["degrade", "4", "8", "--corrupt", "30%", "--one-way"]);
        b.0.say("until-gone 0").unwrap();
        let said = a.ask(&format!("send-until-gone {to_b} 8"));
        assert!(said.starts_with("PeerGone"), "{said}");
        let said = b.0.line().unwrap();
        assert!(said.starts_with("Some(PeerWrong { peer: 1"), "{said}");
        // Both go on with others.
        both(
            (&mut a, "exchange 1 3 4 5 0 8 9000 300000", "same"),
            (&mut near, "exchange 0 4 3 5 0 8 9000 300000", "same"),
        );
        link(&["clear", "4", "8"]);
        watchdog.progress();
    }
    let mut c = queue("host2", "2");
    c.must("peer 4 1", "new");
    c.must("peer 8 13", "new");
    a.must("peer 8 2", "new");
    b.must("peer 8 2", "new");
    both((&mut a, "exchange 5 5 6 3 8 300000", "same"), (&mut c, "exchange 0 6 5 3 8 300000", "same"));
    both((&mut b, "exchange 1 7 8 3 8 300000", "same"), (&mut c, "exchange 1 8 7 3 8 300000", "same"));
}

/// Ways in which a program on another host breaks the protocol, and what is said of it.
const ATTACKS: [(&str, &str); 16] = [
    ("a length beyond the ring", "a record of an impossible length"),
    ("a length beyond its end", "a record of an impossible length"),
    ("an earlier record once more", "a record that is not in its place"),
    ("a later record first", "a record that is not in its place"),
    ("an end beyond the ring", "an impossible end of its records"),
    ("an end before the last", "an impossible end of its records"),
    ("an end between two grains", "an impossible end of its records"),
    ("an unknown kind", "a record of no known kind"),
    ("bits without a meaning", "a record of no known kind"),
    ("the end of no send", "an end of a send that is not under way"),
    ("a question for no message", "a question for a message that was not offered"),
    ("a part of no message", "a part of a message that was not asked for"),
    ("more of no message", "PeerWrong"),
    ("the end of no parts", "the end of parts that are needed"),
    ("a tag in place of an operation", "a tag in the place of an operation"),
    ("a first part that is longer than all", "PeerWrong"),
];

/// It speaks the protocol well at first, so that what is refused is what it does then.
#[test]
fn a_program_that_breaks_the_protocol_is_an_error_of_its_pair_alone() {
    let watchdog = Watchdog::usual("a hostile queue on another host");
    let Some((first, second)) = two_hosts() else { return };
    let (mut a, mut b) = two_queues(&first, &second);
    both((&mut a, "exchange 0 1 2 1 8 100000", "same"), (&mut b, "exchange 0 2 1 1 8 100000", "same"));
    for (nth, (how, said)) in ATTACKS.into_iter().enumerate() {
        let hostile = second.program(&["hostile-queue", "4", "1"]);
        a.0.say("adopt").unwrap();
        let mut hostile = hostile.ready();
        hostile.must(&format!("message {} 100", 1000 + nth), "done");
        assert_eq!(a.0.line().unwrap(), format!("peer {} tag {} 100 bytes", nth + 1, 1000 + nth));
        hostile.must(&format!("attack {how}"), "done");
        let found = a.ask(&format!("until-gone {}", nth + 1));
        assert!(found.starts_with("Some(PeerWrong {") && found.contains(said), "{how}: {found}");
        // Others go on.
        let (own, its) = (10 + 2 * nth, 11 + 2 * nth);
        both(
            (&mut a, &format!("exchange 0 {own} {its} 1 0 8 9000 100000"), "same"),
            (&mut b, &format!("exchange 0 {its} {own} 1 0 8 9000 100000"), "same"),
        );
        watchdog.progress();
    }
}

#[test]
fn what_leads_nowhere_is_named() {
    let _watchdog = Watchdog::usual("a queue on a host without a link");
    let Some((first, second)) = two_hosts() else { return };
    let _b = queue(&second, 1);
    let folder = crate::lab::without_libfabric();
    let variables = [("LD_LIBRARY_PATH", folder.to_str().unwrap())];
    let mut a = first.program_with(&["queue", "1"], &variables).ready();
    let said = a.ask("peer 8 1");
    assert!(
        said.contains("message queue at port 1 of node 8 is on another host and cannot be reached"),
        "{said}"
    );
}

/// The example, unchanged.
#[test]
fn c_programs_exchange_messages_between_hosts() {
    let _watchdog = Watchdog::usual("C programs with messages on two hosts");
    if !c::is_there("cc") {
        return;
    }
    let Some((first, second)) = two_hosts() else { return };
    let program = ping_pong();
    let end = |host: &Host, arguments: &[&str]| {
        let mut command = host.command(&program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    for length in ["8", "8192", "300000"] {
        let waiting = end(&second, &["8", "1", "4", "1", "second", length, "50"]);
        let leading = end(&first, &["4", "1", "8", "1", "first", length, "50"]);
        for end in [leading, waiting] {
            let output = end.wait_with_output().unwrap();
            assert!(output.status.success(), "{length} bytes: {output:?}");
        }
    }
}

/// What each of five members on three hosts prints.
fn group(hosts: &Hosts, more: &[&str]) -> Vec<String> {
    const MEMBERS: usize = 5;
    let path = compiled("tests/messages/c/group.c");
    let start = |rank: usize| {
        let (host, rank) = (format!("host{}", rank % 3 + 1), rank.to_string());
        let words = [&["4,8,12", &rank, "5"], more].concat();
        hosts.program(&host, &path, &words)
    };
    let all: Vec<Program> = (0..MEMBERS).map(start).collect();
    all.into_iter().map(|mut member| member.0.line().unwrap_or_default()).collect()
}

#[test]
fn members_of_a_group_on_three_hosts_get_the_same() {
    let watchdog = Watchdog::usual("groups on three hosts");
    if !c::is_there("cc") {
        return;
    }
    if let Err(error) = ofi::offers(&ofi::Wanted::default()) {
        return println!("skipped: {error}");
    }
    let Some(hosts) = Hosts::up(3) else { return };
    assert_eq!(group(&hosts, &[]), ["all equal"; 5]);
    watchdog.progress();
    // The last one ends in the middle, and says nothing.
    assert_eq!(group(&hosts, &["fails"]), ["noticed", "noticed", "noticed", "noticed", ""]);
}

fn ping_pong() -> String {
    compiled("examples/messages/ping_pong.c")
}

/// A C program, by its source.
fn compiled(source: &str) -> String {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    assert!(
        folder.join("libtieline_mq.so").is_file(),
        "libtieline_mq.so is not built: run `cargo build -p messages-c`"
    );
    let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hosts-{name}"));
    let top = c::top();
    c::must(
        Command::new("cc")
            .args(["-O1", "-std=c11", "-D_POSIX_C_SOURCE=200809L"])
            .arg("-I")
            .arg(top.join("include/tieline"))
            .arg(top.join(source))
            .arg("-o")
            .arg(&program)
            .arg("-L")
            .arg(&folder)
            .arg("-ltieline_mq")
            .arg(format!("-Wl,--disable-new-dtags,-rpath,{}", folder.display())),
    );
    program.to_str().unwrap().to_owned()
}

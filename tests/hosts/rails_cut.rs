//! A rail that is cut in the middle of transfers: the program sees nothing, no byte is wrong, nothing lands
//! late, and the rail comes back.

use std::time::Duration;

use tieline_tests::Watchdog;

use crate::lab::{Program, until};
use crate::namespaces::Hosts;
use crate::rails::session;

const REACH: &str = env!("CARGO_BIN_EXE_tieline-reach");
const BYTES: usize = 6_000_000;

/// Two hosts with two rails, an owner on the second one and a program of the first one that reaches its
/// segment over both.
fn two_rails() -> Option<(Hosts, Program, Program)> {
    let hosts = Hosts::up_with(2, &["--rails", "2", "--rate", "500mbit"])?;
    let mut owner = hosts.program("host2", REACH, &["own", "7", &BYTES.to_string()]).ready();
    let mut user = hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
    exchange(&mut owner, &mut user, 1);
    // On a busy machine a rail may look dead for a moment.
    until("all rails", || user.ask("rails") == "all");
    Some((hosts, owner, user))
}

/// A block that fills the segment travels both ways, and each of its bytes is checked.
fn exchange(owner: &mut Program, user: &mut Program, seed: u64) {
    user.must(&format!("put {seed} 0 {BYTES}"), "done");
    owner.must(&format!("check {seed} 0 {BYTES}"), "same");
    owner.must(&format!("fill {seed}1 0 {BYTES}"), "done");
    user.must(&format!("get {seed}1 0 {BYTES}"), "same");
}

/// What is put until the rail has been found dead, and is used again.
fn goes_on(hosts: &Hosts, owner: &mut Program, user: &mut Program, seed: u64, heal: impl Fn(&Hosts)) {
    let mut seed = 1000 * seed;
    until("the rail is found dead", || {
        seed += 1;
        exchange(owner, user, seed);
        user.ask("rails").starts_with("rail 2: ")
    });
    heal(hosts);
    until("the rail comes back", || {
        seed += 1;
        exchange(owner, user, seed);
        user.ask("rails") == "all"
    });
    exchange(owner, user, seed + 1);
}

fn eth1(state: &'static str) -> impl Fn(&Hosts, &str) {
    move |hosts, host| drop(hosts.must(host, &["ip", "link", "set", "eth1", state]))
}

#[test]
fn an_interface_that_goes_down_in_the_middle_of_a_transfer_costs_nothing() {
    let watchdog = Watchdog::usual("a rail that is cut");
    let Some((hosts, mut owner, mut user)) = two_rails() else { return };
    for (seed, host) in [(2, "host1"), (3, "host2")] {
        // A transfer is under way: it takes longer at this rate than the command needs to begin, and if not,
        // the next ones meet the cut.
        user.0.say(&format!("put {seed} 0 {BYTES}")).unwrap();
        eth1("down")(&hosts, host);
        assert_eq!(user.0.line().unwrap(), "done");
        owner.must(&format!("check {seed} 0 {BYTES}"), "same");
        goes_on(&hosts, &mut owner, &mut user, seed, |hosts| eth1("up")(hosts, host));
        watchdog.progress();
    }
}

/// The address of a host's second interface.
fn address(hosts: &Hosts, host: &str) -> String {
    let shown = hosts.must(host, &["ip", "-4", "-o", "address", "show", "dev", "eth1"]);
    let address = shown.split_whitespace().nth(3).and_then(|address| address.split('/').next());
    address.unwrap_or_else(|| panic!("{shown}")).to_owned()
}

/// What is lost on the way is sent again by the kernel for as long as the connection stands: it must not
/// arrive when the block is long there over the other rail, and its owner has gone on.
#[test]
fn a_rail_that_loses_all_packets_of_one_direction_costs_nothing_and_nothing_lands_late() {
    let watchdog = Watchdog::usual("a rail that loses all packets of one direction");
    let Some((hosts, mut owner, mut user)) = two_rails() else { return };
    for (seed, (from, to)) in [(2, ("host1", "host2")), (3, ("host2", "host1"))] {
        // What `from` sends is lost, and what is sent to it arrives: from the owner's host on those are
        // confirmations.
        let lost = address(&hosts, to);
        hosts.must(from, &["ip", "route", "add", "blackhole", &lost]);
        user.must(&format!("put {seed} 0 {BYTES}"), "done");
        owner.must(&format!("check {seed} 0 {BYTES}"), "same");
        assert!(user.ask("rails").starts_with("rail 2: "));
        // The operator sees it: which one, since when, and why.
        let line = || session(&hosts);
        until("the status", || {
            line().contains(", reduced: 1 connection without rail 2 for ") && line().contains(" s (")
        });
        let (_, said, _) = hosts.tieline("host1", &["status", "--json"]);
        assert!(said.contains("\"reduced\""), "{said}");
        owner.must(&format!("fill {seed}5 0 {BYTES}"), "done");
        hosts.must(from, &["ip", "route", "del", "blackhole", &lost]);
        until("the rail comes back", || user.ask("rails") == "all");
        owner.must(&format!("check {seed}5 0 {BYTES}"), "same");
        until("the status of all rails", || !session(&hosts).contains("reduced"));
        exchange(&mut owner, &mut user, seed + 10);
        watchdog.progress();
    }
}

/// Single words go over one rail, after what the cut one still had.
#[test]
fn what_follows_a_block_comes_after_it_also_when_its_rail_is_cut() {
    let _watchdog = Watchdog::usual("the order over a rail that is cut");
    let Some((hosts, mut owner, mut user)) = two_rails() else { return };
    eth1("down")(&hosts, "host1");
    // No barrier in between.
    user.0.say(&format!("put-and-store 5 {BYTES} 0 7")).unwrap();
    owner.must("poll 0 7", "there");
    owner.must(&format!("check 5 4 {}", BYTES - 4), "same");
    assert_eq!(user.0.line().unwrap(), "done");
    eth1("up")(&hosts, "host1");
    until("the rail comes back", || {
        exchange(&mut owner, &mut user, 9);
        user.ask("rails") == "all"
    });
}

/// Takes the first rail away at one of the hosts, or gives it back.
fn eth0(hosts: &Hosts, host: &str, state: &str) {
    hosts.must(host, &["ip", "link", "set", "eth0", state]);
}

/// Short puts, words and atomic operations, and a block, each of which arrives once.
fn short_and_long(owner: &mut Program, user: &mut Program, seed: u64, sum: u64) {
    user.must(&format!("put {seed} 128 8000"), "done");
    owner.must(&format!("check {seed} 128 8000"), "same");
    user.must(&format!("get {seed} 128 8000"), "same");
    user.must(&format!("add 64 {seed}"), &format!("was {sum}"));
    user.must("add 64 0", &format!("was {}", sum.wrapping_add(seed)));
    exchange(owner, user, seed);
    let word = format!("put-and-store {seed} {BYTES} 0 {seed}");
    user.must(&word, "done");
    owner.must(&format!("poll 0 {seed}"), "there");
    owner.must(&format!("check {seed} 4 {}", BYTES - 4), "same");
}

/// The number to which is added.
fn sum(user: &mut Program) -> u64 {
    let said = user.ask("add 64 0");
    said.strip_prefix("was ").and_then(|sum| sum.parse().ok()).unwrap_or_else(|| panic!("{said}"))
}

#[test]
fn the_first_rail_cut_while_nothing_is_under_way_costs_nothing_and_comes_back() {
    let watchdog = Watchdog::usual("a first rail that is cut");
    let Some((hosts, mut owner, mut user)) = two_rails() else { return };
    for (round, host) in [(1, "host1"), (2, "host2")] {
        // The second time another rail carries what is short, and the first one is one of several.
        eth0(&hosts, host, "down");
        until("the cut is noticed", || user.ask("rails").starts_with("rail 1: "));
        let line = || session(&hosts);
        until("the status", || line().contains(", reduced: 1 connection without rail 1 for "));
        for nth in 0..3 {
            let was = sum(&mut user);
            short_and_long(&mut owner, &mut user, 10 * round + nth, was);
        }
        watchdog.progress();
        eth0(&hosts, host, "up");
        until("the rail comes back", || user.ask("rails") == "all");
        let was = sum(&mut user);
        short_and_long(&mut owner, &mut user, 10 * round + 5, was);
        watchdog.progress();
    }
    // Now the other one is cut, which carries what is short.
    hosts.must("host2", &["ip", "link", "set", "eth1", "down"]);
    until("the cut is noticed", || user.ask("rails").starts_with("rail 2: "));
    let was = sum(&mut user);
    short_and_long(&mut owner, &mut user, 40, was);
}

/// The rail that carries what is short is cut, and comes back; then the other one, which has taken over.
/// `under` cuts it in the middle of something, and says whether that was noticed there: on a busy machine
/// another rail may have taken over for another reason, and then it is that one's turn.
fn cuts_each_rail(what: &'static str, under: impl Fn(&dyn Fn(), &mut Program, &mut Program) -> bool) {
    let watchdog = Watchdog::usual(what);
    let Some((hosts, mut owner, mut user)) = two_rails() else { return };
    let mut noticed = 0;
    for (interface, rail, host) in [("eth0", 1, "host1"), ("eth1", 2, "host2")].into_iter().cycle().take(6) {
        let set = |state| drop(hosts.must(host, &["ip", "link", "set", interface, state]));
        noticed += usize::from(under(&|| set("down"), &mut owner, &mut user));
        until("the cut is noticed", || user.ask("rails").starts_with(&format!("rail {rail}: ")));
        watchdog.progress();
        set("up");
        until("the rail comes back", || user.ask("rails") == "all");
        exchange(&mut owner, &mut user, rail);
        watchdog.progress();
        if noticed == 2 {
            return;
        }
    }
    panic!("of six rails that were cut, {noticed} carried anything");
}

/// The rail that carries what is short is cut while a program does nothing but add.
#[test]
fn atomic_operations_go_on_over_another_rail_when_theirs_is_cut() {
    const TIMES: u64 = 30_000;
    cuts_each_rail("a rail that is cut under atomic operations", |cut, _, user| {
        let before = sum(user);
        user.must(&format!("add 64 {}", before.wrapping_neg()), &format!("was {before}"));
        user.0.say(&format!("count 64 {TIMES}")).unwrap();
        cut();
        assert_eq!(user.0.line().unwrap(), "counted");
        assert_eq!(sum(user), TIMES);
        true
    });
}

/// The rail that carries short puts is cut under them: the program is told that some are in doubt, resumes,
/// and repeats them.
#[test]
fn short_puts_under_a_rail_that_is_cut_are_in_doubt_and_the_connection_goes_on() {
    // Some seconds: the cut comes in the middle.
    const TIMES: u32 = 120_000;
    cuts_each_rail("a rail that is cut under short puts", |cut, owner, user| {
        user.0.say(&format!("words 64 {TIMES}")).unwrap();
        cut();
        let said = user.0.line().unwrap();
        assert!(said.starts_with("put, in doubt "), "{said}");
        owner.must(&format!("poll 64 {TIMES}"), "there");
        said != "put, in doubt 0 times"
    });
}

/// While a rail that failed is not open again yet, the other one is cut: then only the managers can carry the
/// question for a new end point.
#[test]
fn rails_that_are_cut_in_turn_cost_nothing() {
    let watchdog = Watchdog::usual("rails that are cut in turn");
    let Some((hosts, mut owner, mut user)) = two_rails() else { return };
    for (seed, first, number, second) in [(2, "eth0", 1, "eth1"), (4, "eth1", 2, "eth0")] {
        let set = |interface, state| drop(hosts.must("host1", &["ip", "link", "set", interface, state]));
        set(first, "down");
        until("the cut is noticed", || user.ask("rails").starts_with(&format!("rail {number}: ")));
        exchange(&mut owner, &mut user, seed);
        // Where the interface of the host itself is down, each try to open the rail again fails at once, and
        // the pauses between them grow.
        std::thread::sleep(Duration::from_secs(4));
        set(second, "down");
        set(first, "up");
        exchange(&mut owner, &mut user, seed + 1);
        watchdog.progress();
        set(second, "up");
        until("all rails", || user.ask("rails") == "all");
        exchange(&mut owner, &mut user, seed + 2);
        watchdog.progress();
    }
}

#[test]
fn the_first_rail_cut_in_the_middle_of_a_block_costs_nothing() {
    let watchdog = Watchdog::usual("a first rail that is cut in the middle of a block");
    for host in ["host1", "host2"] {
        let Some((hosts, mut owner, mut user)) = two_rails() else { return };
        user.0.say(&format!("put 2 0 {BYTES}")).unwrap();
        eth0(&hosts, host, "down");
        assert_eq!(user.0.line().unwrap(), "done");
        owner.must(&format!("check 2 0 {BYTES}"), "same");
        // The cut may have come behind the block.
        until("the cut is noticed", || user.ask("rails").starts_with("rail 1: "));
        exchange(&mut owner, &mut user, 3);
        eth0(&hosts, host, "up");
        until("the rail comes back", || user.ask("rails") == "all");
        exchange(&mut owner, &mut user, 4);
        watchdog.progress();
    }
}

#[test]
fn a_program_connects_over_the_rail_that_responds_when_the_first_one_is_cut() {
    let _watchdog = Watchdog::usual("a first rail that is cut when a program connects");
    let Some(hosts) = Hosts::up_with(2, &["--rails", "2", "--rate", "500mbit"]) else { return };
    eth0(&hosts, "host2", "down");
    until("the session over the other rail", || session(&hosts).contains("session valid over rail 2"));
    let mut owner = hosts.program("host2", REACH, &["own", "7", &BYTES.to_string()]).ready();
    let mut user = hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
    let was = sum(&mut user);
    short_and_long(&mut owner, &mut user, 5, was);
    assert_eq!(user.ask("rails"), "rail 1: it did not respond when the program connected");
    eth0(&hosts, "host2", "up");
    until("the rail comes back", || user.ask("rails") == "all");
    exchange(&mut owner, &mut user, 6);
}

#[test]
fn all_rails_dead_are_an_error_that_names_the_link() {
    let _watchdog = Watchdog::usual("rails that are all dead");
    let Some((hosts, _owner, mut user)) = two_rails() else { return };
    for interface in ["eth0", "eth1"] {
        hosts.must("host2", &["ip", "link", "set", interface, "down"]);
    }
    let said = user.ask(&format!("put 2 0 {BYTES}"));
    assert!(said.starts_with("error: the ofi link to node 8 failed: "), "{said}");
    // Short blocks end with the same error: nobody knows what is missing.
    assert_eq!(user.ask("put 3 0 8"), said);
}

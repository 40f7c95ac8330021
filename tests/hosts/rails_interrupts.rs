//! Interrupts over several rails: triggers and messages arrive once, whichever rail is cut, and are an error
//! when all are.

use tieline_tests::{Peer, Watchdog};

use crate::c;
use crate::lab::{Program, until};
use crate::namespaces::Hosts;
use crate::rails::session;

const REACH: &str = env!("CARGO_BIN_EXE_tieline-reach");
const PLAIN: &str = "3";
const DATA: &str = "4";

fn two_rails() -> Option<Hosts> {
    Hosts::up_with(2, &["--rails", "2", "--rate", "500mbit"])
}

/// Who is interrupted, and who interrupts.
struct Pair {
    owner: Program,
    user: Program,
}

impl Pair {
    fn plain(hosts: &Hosts) -> Self {
        let owner = hosts.program("host2", REACH, &["own-interrupt", PLAIN]).ready();
        Self { owner, user: hosts.program("host1", REACH, &["trigger", "8", PLAIN]).ready() }
    }

    fn data(hosts: &Hosts) -> Self {
        let owner = hosts.program("host2", REACH, &["own-series", DATA]).ready();
        Self { owner, user: hosts.program("host1", REACH, &["send-series", "8", DATA]).ready() }
    }

    fn both(hosts: &Hosts) -> [Self; 2] {
        [Self::plain(hosts), Self::data(hosts)]
    }

    fn until_rails(&mut self, wanted: &str) {
        until("the rails", || self.user.ask("rails").starts_with(wanted));
    }

    fn number(said: &str, what: &str) -> u64 {
        let number = said.strip_prefix(what).and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("{said}"))
    }

    /// How many have come.
    fn sum(&mut self) -> u64 {
        Self::number(&self.owner.ask("sum"), "sum ")
    }

    /// Ends a series: all that were made come, and no others; how many have come since the start.
    fn end(&mut self, before: u64) -> u64 {
        until("some come", || self.sum() > before);
        let all = before + Self::number(&self.user.ask("end"), "made ");
        assert!(all > before);
        until("all come", || {
            let sum = self.sum();
            assert!(sum <= all, "{sum} of {all}");
            sum == all
        });
        all
    }
}

/// Two threads of each kind go on while a rail is taken away and given back: they see nothing, and all that
/// they report as done is there once.
fn goes_on(hosts: &Hosts, pairs: &mut [Pair], rail: usize, cut: impl Fn(&Hosts), heal: impl Fn(&Hosts)) {
    let mut before: Vec<u64> = pairs.iter_mut().map(Pair::sum).collect();
    for pair in &mut *pairs {
        pair.user.must("begin 2", "begun");
    }
    for (pair, before) in pairs.iter_mut().zip(&before) {
        until("the first ones come", || pair.sum() > *before);
    }
    cut(hosts);
    for pair in &mut *pairs {
        pair.until_rails(&format!("rail {rail}: "));
        // They come over the other rail.
        let sum = pair.sum();
        until("more come", || pair.sum() > sum + 100);
    }
    for (pair, before) in pairs.iter_mut().zip(&mut before) {
        *before = pair.end(*before);
        pair.user.must("begin 2", "begun");
    }
    heal(hosts);
    for (pair, before) in pairs.iter_mut().zip(&mut before) {
        pair.until_rails("all");
        *before = pair.end(*before);
        // What the rail still had has come late, and counts no more.
        assert_eq!(pair.sum(), *before);
    }
}

fn link(hosts: &Hosts, host: &str, interface: &str, state: &str) {
    hosts.must(host, &["ip", "link", "set", interface, state]);
}

#[test]
fn triggers_and_messages_of_two_threads_arrive_once_while_their_rail_is_cut() {
    let watchdog = Watchdog::usual("interrupts whose rail is cut");
    let Some(hosts) = two_rails() else { return };
    let mut pairs = Pair::both(&hosts);
    for host in ["host1", "host2"] {
        // The first one carries them at first, the second one from then on.
        for (rail, interface) in [(1, "eth0"), (2, "eth1")] {
            let [cut, heal] =
                ["down", "up"].map(|state| move |hosts: &Hosts| link(hosts, host, interface, state));
            goes_on(&hosts, &mut pairs, rail, cut, heal);
            watchdog.progress();
        }
    }
    let line = session(&hosts);
    assert!(!line.contains("reduced"), "{line}");
}

/// The address of a host's interface.
fn address(hosts: &Hosts, host: &str, interface: &str) -> String {
    let shown = hosts.must(host, &["ip", "-4", "-o", "address", "show", "dev", interface]);
    let address = shown.split_whitespace().nth(3).and_then(|address| address.split('/').next());
    address.unwrap_or_else(|| panic!("{shown}")).to_owned()
}

/// What is lost on the way is sent again by the kernel when the rail is back, and has come over the other one
/// long before.
#[test]
fn triggers_and_messages_arrive_once_over_a_rail_that_loses_all_packets_of_one_direction() {
    let watchdog = Watchdog::usual("interrupts over a rail that loses packets");
    let Some(hosts) = two_rails() else { return };
    let mut pairs = Pair::both(&hosts);
    // Triggers and messages first, then what confirms them, over the rail that carries them then.
    for (rail, interface, from, to) in [(1, "eth0", "host1", "host2"), (2, "eth1", "host2", "host1")] {
        let lost = address(&hosts, to, interface);
        let [cut, heal] = ["add", "del"].map(|verb| {
            let lost = lost.clone();
            move |hosts: &Hosts| drop(hosts.must(from, &["ip", "route", verb, "blackhole", &lost]))
        });
        goes_on(&hosts, &mut pairs, rail, cut, heal);
        watchdog.progress();
    }
}

#[test]
fn the_first_rail_cut_while_nothing_is_triggered_is_noticed_and_costs_nothing() {
    let _watchdog = Watchdog::usual("interrupts whose rail is cut while nothing goes over it");
    let Some(hosts) = two_rails() else { return };
    let mut pairs = Pair::both(&hosts);
    for pair in &mut pairs {
        pair.user.must("begin 1", "begun");
        pair.end(0);
    }
    link(&hosts, "host2", "eth0", "down");
    until("the status", || session(&hosts).contains(", reduced: 2 connections without rail 1 for "));
    for pair in &mut pairs {
        pair.until_rails("rail 1: it did not respond while another rail did");
        let before = pair.sum();
        pair.user.must("begin 1", "begun");
        pair.end(before);
    }
}

#[test]
fn interrupts_connect_over_the_rail_that_responds_when_the_first_one_is_cut() {
    let _watchdog = Watchdog::usual("a first rail that is cut when a program connects to an interrupt");
    let Some(hosts) = two_rails() else { return };
    link(&hosts, "host2", "eth0", "down");
    until("the session over the other rail", || session(&hosts).contains("session valid over rail 2"));
    let mut pairs = Pair::both(&hosts);
    for pair in &mut pairs {
        assert_eq!(pair.user.ask("rails"), "rail 1: it did not respond when the program connected");
        pair.user.must("begin 2", "begun");
        pair.end(0);
    }
    link(&hosts, "host2", "eth0", "up");
    for pair in &mut pairs {
        pair.until_rails("all");
        let before = pair.sum();
        pair.user.must("begin 2", "begun");
        pair.end(before);
    }
}

/// The time is that of the link's limit, 10 s: the watchdog allows for a few of these.
#[test]
fn triggers_and_messages_over_rails_that_are_all_dead_are_an_error_that_names_the_link() {
    let _watchdog = Watchdog::usual("interrupts over rails that are all dead");
    let Some(hosts) = two_rails() else { return };
    let [mut plain, mut data] = Pair::both(&hosts);
    plain.user.must("now", "done");
    for interface in ["eth0", "eth1"] {
        link(&hosts, "host2", interface, "down");
    }
    data.user.must("begin 2", "begun");
    let mut said = plain.user.ask("now");
    until("an error", || {
        said = plain.user.ask("now");
        said != "done"
    });
    assert!(said.starts_with("error: the ofi link to node 8 failed: a doorbell to node 8 "), "{said}");
    assert_eq!(plain.user.ask("now"), said, "at once, and the same");
    let said = data.user.ask("end");
    assert!(said.starts_with("error: the ofi link to node 8 failed: a message to node 8 "), "{said}");
    let said = data.user.ask("begin 1") + &data.user.ask("end");
    assert!(said.starts_with("begunerror: the ofi link to node 8 failed: "), "{said}");
}

fn c_program() -> String {
    let source = c::top().join("tests/hosts/c/interrupts.c");
    let shared = c::top().join("tests/sisci/c");
    c::compile_as("hosts-interrupts", &source, &["-I", shared.to_str().unwrap()])
}

fn ask(program: &mut Peer, order: &str) -> String {
    program.say(order).unwrap();
    program.line().unwrap()
}

#[test]
fn triggers_and_messages_of_c_programs_arrive_once_while_their_rail_is_cut() {
    let _watchdog = Watchdog::usual("interrupts of C programs whose rail is cut");
    if !c::is_there("cc") {
        return;
    }
    let Some(hosts) = two_rails() else { return };
    let program = c_program();
    let Program(mut owner) = hosts.program("host2", &program, &["own"]).ready();
    let Program(mut user) = hosts.program("host1", &program, &["use", "8"]).ready();
    until("the first ones", || ask(&mut owner, "sum") != "0 0");
    link(&hosts, "host2", "eth0", "down");
    until("the status", || session(&hosts).contains(", reduced: 2 connections without rail 1 for "));
    let sum = ask(&mut owner, "sum");
    until("more come over the other rail", || ask(&mut owner, "sum") != sum);
    let made = ask(&mut user, "end");
    until("all come", || ask(&mut owner, "sum") == made);
    link(&hosts, "host2", "eth0", "up");
    until("the rail comes back", || !session(&hosts).contains("reduced"));
    assert_eq!(ask(&mut owner, "sum"), made, "what comes late counts no more");
    for program in [user, owner] {
        let status = program.finish().unwrap();
        assert!(status.success(), "the program ended with {status}; its reason stands above");
    }
}

//! Rails that are slow and work are not taken for failed, whoever shares them; and one that fails is.

use tieline_tests::Watchdog;

use crate::lab::{Program, until};
use crate::namespaces::Hosts;

const REACH: &str = env!("CARGO_BIN_EXE_tieline-reach");
/// Each has its own part of the segment.
const USERS: usize = 9;
/// At this rate all of them take some twelve seconds, and one chunk of one of them takes longer than a rail
/// that is not known may be silent.
const RATE: &str = "2mbit";
const BYTES: usize = 700_000;

struct Lab {
    hosts: Hosts,
    owner: Program,
    users: Vec<Program>,
}

impl Lab {
    /// Two hosts with two slow rails, an owner on the second one, and programs of the first one that reach
    /// its segment.
    fn new(users: usize) -> Option<Self> {
        let hosts = Hosts::up_with(2, &["--rails", "2", "--rate", RATE])?;
        let owner = hosts.program("host2", REACH, &["own", "7", &(USERS * BYTES).to_string()]).ready();
        let user = |_| hosts.program("host1", REACH, &["reach", "8", "7"]).ready();
        let users = (0..users).map(user).collect();
        Some(Self { hosts, owner, users })
    }

    fn part(nth: usize, seed: usize) -> String {
        format!("{} {} {BYTES}", seed + nth, nth * BYTES)
    }

    /// All give the same order for their part at the same time: what they say.
    fn all(&mut self, order: &str, seed: usize) -> Vec<String> {
        for (nth, user) in self.users.iter_mut().enumerate() {
            user.0.say(&format!("{order} {}", Self::part(nth, seed))).unwrap();
        }
        self.users.iter_mut().map(|user| user.0.line().unwrap()).collect()
    }

    fn is_all_there(&mut self, seed: usize) {
        for nth in 0..self.users.len() {
            self.owner.must(&format!("check {}", Self::part(nth, seed)), "same");
        }
    }
}

#[test]
fn rails_that_are_slow_and_shared_by_many_are_not_taken_for_failed() {
    let watchdog = Watchdog::usual("slow rails");
    let Some(mut lab) = Lab::new(USERS) else { return };
    watchdog.progress();
    assert_eq!(lab.all("put-watched", 10), ["done"; USERS]);
    lab.is_all_there(10);
    watchdog.progress();
    // The other way.
    assert_eq!(lab.all("get", 10), ["same"; USERS]);
    watchdog.progress();
    // What is read can be asked for again, so a rail is left for less then.
    for user in &mut lab.users {
        until("all rails", || user.ask("rails") == "all");
    }
}

#[test]
fn a_slow_rail_that_is_cut_is_noticed_and_costs_nothing_but_time() {
    let watchdog = Watchdog::usual("a slow rail that is cut");
    let Some(mut lab) = Lab::new(3) else { return };
    for (nth, user) in lab.users.iter_mut().enumerate() {
        user.0.say(&format!("put-watched {}", Lab::part(nth, 20))).unwrap();
    }
    lab.hosts.must("host1", &["ip", "link", "set", "eth1", "down"]);
    for user in &mut lab.users {
        let said = user.0.line().unwrap();
        assert!(said.starts_with("done, meanwhile rail 2: "), "{said}");
    }
    lab.is_all_there(20);
    watchdog.progress();
}

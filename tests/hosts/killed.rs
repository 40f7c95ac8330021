//! Programs and managers of two hosts are killed, and cables pulled, at random moments of a transfer: nothing
//! hangs, no byte is wrong, and afterwards all is reached again.
//!
//! The short form runs with every test run; `./run soak` sets `TIELINE_HOSTS_SOAK_SECONDS` for the long one.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tieline_tests::{Watchdog, random::Random};

use crate::lab::{Host, Program, see_each_other, two_hosts};

const SIZE: usize = 3_000_000;
/// Of the short form.
const ROUNDS: u32 = 10;

/// What is done to the two.
#[derive(Debug, Clone, Copy)]
enum Blow {
    Owner,
    User,
    Manager(usize),
    Cable,
}

struct Lab {
    hosts: [Host; 2],
    /// On the second host, with its segment.
    owner: Program,
    /// On the first one.
    user: Program,
}

/// As soon as the segment of the one before it is gone, which its manager notices.
fn owner(host: &Host) -> Program {
    loop {
        let mut owner = host.program(&["own", "7", &SIZE.to_string()]);
        if owner.0.line().is_ok_and(|line| line == "ready") {
            return owner;
        }
    }
}

fn user(host: &Host) -> Program {
    host.program(&["reach", "8", "7"]).ready()
}

impl Lab {
    /// One transfer, and in the middle of it the blow. What is said to be done has arrived.
    fn strike(&mut self, blow: Blow, seed: u64, random: &mut Random) {
        let pause = |random: &mut Random, longest_us: usize| {
            std::thread::sleep(Duration::from_micros(random.below(longest_us) as u64));
        };
        self.user.0.say(&format!("put {seed} 0 {SIZE}")).unwrap();
        pause(random, 3000);
        match blow {
            Blow::Owner => {
                self.owner.0.signal(Signal::KILL).unwrap();
                // It ends with an error, or had ended before; never with a wait for ever.
                drop(self.user.0.line().unwrap());
                self.owner = owner(&self.hosts[1]);
            }
            Blow::User => {
                self.user.0.signal(Signal::KILL).unwrap();
                self.user = user(&self.hosts[0]);
                return;
            }
            Blow::Manager(host) => {
                self.hosts[host].kill_manager();
                self.is_done_or_failed(seed);
                self.hosts[host].start();
            }
            Blow::Cable => {
                self.hosts[1].cable("down");
                pause(random, 400_000);
                self.hosts[1].cable("up");
                self.is_done_or_failed(seed);
            }
        }
        see_each_other(&self.hosts[0], &self.hosts[1]);
        self.user.must("again", "done");
    }

    fn is_done_or_failed(&mut self, seed: u64) {
        let said = self.user.0.line().unwrap();
        if said == "done" {
            self.owner.must(&format!("check {seed} 0 {SIZE}"), "same");
        } else {
            assert!(said.starts_with("error: "), "{said}");
        }
    }

    fn exchange(&mut self, seed: u64) {
        see_each_other(&self.hosts[0], &self.hosts[1]);
        self.user.must(&format!("put {seed} 0 {SIZE}"), "done");
        self.owner.must(&format!("check {seed} 0 {SIZE}"), "same");
        self.owner.must(&format!("fill 1{seed} 0 {SIZE}"), "done");
        self.user.must(&format!("get 1{seed} 0 {SIZE}"), "same");
    }
}

#[test]
fn whatever_is_killed_in_a_transfer_no_byte_is_wrong_and_all_is_reached_again() {
    let seconds = std::env::var("TIELINE_HOSTS_SOAK_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let watchdog = Watchdog::usual("kills on two hosts");
    let Some((first, second)) = two_hosts() else { return };
    let mut random = Random::new("kills on two hosts");
    let (owner, user) = (owner(&second), user(&first));
    let mut lab = Lab { hosts: [first, second], owner, user };
    let mut rounds = 0;
    while until.map_or(rounds < ROUNDS, |until| Instant::now() < until) {
        rounds += 1;
        let blow = match random.below(5) {
            0 => Blow::Owner,
            1 => Blow::User,
            2 => Blow::Manager(0),
            3 => Blow::Manager(1),
            _ => Blow::Cable,
        };
        println!("round {rounds}: {blow:?}");
        let seed = u64::from(rounds);
        lab.strike(blow, 2 * seed, &mut random);
        lab.exchange(2 * seed + 1);
        watchdog.progress();
    }
    println!("{rounds} rounds");
}

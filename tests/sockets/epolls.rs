//! Registrations in an epoll that change between two waits: with rings most are noted instead of made, and
//! nobody finds out.

use std::path::Path;

use sockets_rules::{ENV_RINGS, RINGS_FORCED};
use tieline_tests::Watchdog;

use crate::built::{made, must, program};
use crate::launcher::tieline;

/// The program `registered`, as [`both_of`].
fn both(arguments: &[&str], behind: Option<&Path>) -> [String; 2] {
    both_of(&program("registered", "registered.c", &[]), arguments, behind)
}

/// A program, run plain and with a ring on each connection, and what it printed. What is `behind` the library
/// gets what that hands on.
fn both_of(registered: &Path, arguments: &[&str], behind: Option<&Path>) -> [String; 2] {
    let preload = |command: &mut std::process::Command| {
        if let Some(behind) = behind {
            command.env("LD_PRELOAD", behind);
        }
    };
    let mut plain = std::process::Command::new(registered);
    let statistics = made().join("registered.statistics");
    let mut inside = tieline(&["run", "--rings", "--stats", statistics.to_str().unwrap(), "--"]);
    inside.arg(registered).env(ENV_RINGS, RINGS_FORCED);
    [&mut plain, &mut inside].map(|command| {
        preload(command);
        must(command.args(arguments))
    })
}

#[test]
fn what_is_registered_is_as_on_the_kernel_whoever_asks() {
    let _watchdog = Watchdog::usual("registered");
    let [plain, inside] = both(&[], None);
    assert!(plain.ends_with("== through\n"), "{plain}");
    for (at, (a, b)) in plain.lines().zip(inside.lines()).enumerate() {
        assert_eq!(a, b, "line {}: left plain, right with rings\n{inside}", at + 1);
    }
    assert_eq!(plain, inside);
}

#[test]
fn an_epoll_with_several_descriptors_is_as_on_the_kernel() {
    let _watchdog = Watchdog::usual("epolls with several descriptors");
    let [plain, inside] = both_of(&program("shared_epolls", "shared_epolls.c", &["-pthread"]), &[], None);
    assert!(plain.contains("lost of races: 0\n") && plain.ends_with("== through\n"), "{plain}");
    assert_eq!(plain, inside);
}

#[test]
fn an_epoll_that_was_passed_before_the_first_connection_is_as_on_the_kernel() {
    let _watchdog = Watchdog::usual("registered, early");
    let [plain, inside] = both(&["early"], None);
    assert!(plain.contains("past the library: 1\n4 of 55\n"), "{plain}");
    assert_eq!(plain, inside);
}

/// What a program changes between waits that its rings answer costs no system call, but for what the kernel
/// gets before it is asked, each eighth wait: once in four rounds of two waits. (Beside other work a wait may
/// sleep, after which some more are made.)
#[test]
fn changes_between_waits_that_rings_answer_are_not_made() {
    let _watchdog = Watchdog::usual("registered, counted");
    let counter = program("counter.so", "counter.c", &["-shared", "-fPIC"]);
    let numbers =
        |said: &str| -> Vec<u64> { said.split_whitespace().filter_map(|word| word.parse().ok()).collect() };
    let [plain, inside] = both(&["count"], Some(&counter));
    assert_eq!(numbers(&plain), [3000, 3000, 999, 1000], "{plain}");
    let [all, handed_on, registered, rounds] = numbers(&inside)[..] else { panic!("{inside}") };
    assert!(handed_on <= all / 10 && registered <= rounds * 2 / 5, "{inside}");
}

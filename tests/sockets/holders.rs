//! Connections that get other holders, or whose numbers become others', or that a signal handler uses beside
//! what it interrupts.

use std::process::Command;

use sockets_rules::{ENV_RINGS, RINGS_FORCED};
use tieline_tests::Watchdog;

use crate::built::{must, program};
use crate::launcher::tieline;

/// A program with rings, forced or not.
fn with_rings(name: &'static str, rings: &str) -> Command {
    let program = program(name, &format!("{name}.c"), &[]);
    let mut command = tieline(&["run", "--rings", "--", program.to_str().unwrap()]);
    command.env(ENV_RINGS, rings);
    command
}

/// Runs one; what it printed.
fn says(name: &'static str, rings: &str, arguments: &[&str]) -> String {
    let _watchdog = Watchdog::usual(name);
    must(with_rings(name, rings).args(arguments))
}

#[test]
fn connections_that_are_handed_on_over_one_socket_lose_nothing() {
    let said = says("passed", RINGS_FORCED, &[]);
    assert!(said.contains("and every byte came"), "{said}");
}

#[test]
fn the_librarys_own_descriptors_are_in_nobodys_way() {
    for _ in 0..3 {
        let said = says("numbers", "1", &[]);
        assert!(said.contains("the number was what was put there"), "{said}");
    }
}

#[test]
fn messages_to_a_number_that_is_closed_and_used_again_each_go_to_one_connection() {
    for rings in ["1", RINGS_FORCED] {
        for _ in 0..3 {
            let said = says("reused", rings, &[]);
            assert!(said.contains("messages arrived whole"), "{said}");
        }
    }
}

#[test]
fn a_number_that_was_closed_unseen_reads_what_is_its_own() {
    let said = says("unseen", RINGS_FORCED, &[]);
    assert!(said.contains(r#"has read "of the second""#), "{said}");
}

#[test]
fn two_writers_of_which_the_c_library_knows_one_write_whole_messages() {
    for arguments in [&[][..], &["clone"], &["assembly"]] {
        let said = says("copied", RINGS_FORCED, arguments);
        assert!(said.contains("of the parent 200000, of the child 200000"), "{arguments:?}: {said}");
    }
}

#[test]
fn two_writers_in_two_namespaces_of_process_numbers_write_in_order() {
    let said = says("spaces", RINGS_FORCED, &[]);
    assert!(said.contains("arrived in order") || said.contains("not tried"), "{said}");
}

#[test]
fn a_handler_that_writes_under_a_write_tears_nothing() {
    for rings in ["1", RINGS_FORCED] {
        let said = says("handles", rings, &[]);
        assert!(said.contains("each frame arrived whole"), "{said}");
    }
}

#[test]
fn a_thread_that_polls_a_closed_connection_leaves_the_next_one_alone() {
    let said = says("polled", RINGS_FORCED, &[]);
    assert!(said.contains("each message was seen"), "{said}");
}

#[test]
fn a_close_that_lingers_holds_up_nobody_who_gets_the_number() {
    for rings in ["1", RINGS_FORCED] {
        let said = says("lingers", rings, &[]);
        assert!(said.contains("during the close"), "{said}");
    }
}

#[test]
fn what_a_wait_says_is_there_is_found_by_the_next_read() {
    for way in ["epoll", "poll", "select"] {
        let said = says("told", RINGS_FORCED, &[way, "8000"]);
        assert!(said.contains("told of 0 and found none"), "{way}: {said}");
    }
}

/// Who never sleeps returns what a reader wants back as well, whichever call it makes again and again.
#[test]
fn a_writer_that_does_not_sleep_returns_what_its_reader_wants_back() {
    for way in [
        "poll",
        "epoll",
        "select",
        "recv",
        "same",
        "FIONREAD",
        "nothing",
        "accept",
        "splice",
        "child",
        "recvmmsg",
        "ready poll",
        "ready epoll",
        "ready select",
    ] {
        let said = says("visits", RINGS_FORCED, &[way]);
        assert!(said.contains("all came"), "{said}");
    }
}

#[test]
fn a_read_gets_what_it_was_shown_while_its_writer_has_no_processor() {
    // Two ends that do not meet in time have no ring, and nothing is returned.
    let is_shown = (0..3).any(|_| {
        let said = says("returned", RINGS_FORCED, &[]);
        assert!(said.contains("and they came") || said.contains("not tried"), "{said}");
        !said.starts_with("0 times")
    });
    assert!(is_shown, "no writer was held while it returned bytes");
}

/// The second time a reader loses its processor between the kernel's count and the ring's.
#[test]
fn what_is_counted_is_what_there_is_while_the_writer_returns_it() {
    let _watchdog = Watchdog::usual("counted");
    let slow = program("slow.so", "slow.c", &["-shared", "-fPIC"]);
    for preloaded in [None, Some(&slow)] {
        let mut command = with_rings("counted", RINGS_FORCED);
        command.envs(preloaded.map(|library| ("LD_PRELOAD", library)));
        let said = must(&mut command);
        assert!(said.contains("each of them counted"), "{said}");
    }
}

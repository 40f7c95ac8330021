//! What is left in a ring when its writer ends: every byte of it comes before the end.

use tieline_tests::Watchdog;

use crate::built::{made, must, program};
use crate::launcher::tieline;

fn holds(way: &str) {
    says_that_all_came("leftover", way);
}

fn says_that_all_came(name: &'static str, way: &str) {
    let _watchdog = Watchdog::usual(name);
    let program = program(name, &format!("{name}.c"), &[]);
    let file = made().join(format!("{name}-{way}.statistics"));
    for _ in 0..2 {
        let mut command = tieline(&["run", "--stats", file.to_str().unwrap(), "--"]);
        command.args([program.to_str().unwrap(), way]).env("TIELINE_SOCKETS_RINGS", "2");
        let said = must(&mut command);
        assert!(said.contains("bytes came before the end"), "{said}");
    }
}

#[test]
fn a_reader_that_is_killed_with_bytes_unread_is_a_reset() {
    let _watchdog = Watchdog::usual("unread");
    let program = program("unread", "unread.c", &[]);
    let mut plain = std::process::Command::new(&program);
    let mut forced = tieline(&["run", "--rings", "--", program.to_str().unwrap()]);
    assert_eq!(must(forced.env("TIELINE_SOCKETS_RINGS", "2")), must(&mut plain));
}

#[test]
fn a_writer_that_exits_after_its_reader_has_shut_down() {
    holds("half");
}

#[test]
fn a_writer_with_a_second_holder_that_exits() {
    holds("both");
}

#[test]
fn a_writer_that_shuts_down_twice_before_its_reader_waits_in_an_epoll() {
    holds("twice");
}

#[test]
fn a_writer_that_writes_after_it_has_shut_down() {
    holds("write");
}

#[test]
fn a_holder_that_writes_after_another_one_has_shut_down() {
    holds("after");
}

#[test]
fn a_writer_that_is_killed_with_the_kernel_full() {
    holds("killed");
}

#[test]
fn a_writer_that_is_killed_with_bytes_in_the_ring() {
    holds("ring");
}

#[test]
fn a_holder_that_was_forked_before_there_was_a_ring() {
    says_that_all_came("sibling", "");
}

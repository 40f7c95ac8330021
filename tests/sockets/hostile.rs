//! A connection through memory whose other end is hostile: it harms that connection, and nothing else.
//!
//! The other end is no library: it pairs as one, or nearly, and then writes what it likes where only it may
//! write.

use tieline_tests::Watchdog;

use crate::built::{must, program};
use crate::launcher::tieline;

/// Seconds that a hostile end continues.
const SECONDS: &str = "1";

/// The victim continues, in time; what it says of that.
fn survives(way: &str) -> String {
    let _watchdog = Watchdog::usual("a hostile end");
    let hostile = program("hostile", "hostile.c", &[]);
    let said = must(&mut tieline(&["run", "--rings", "--", hostile.to_str().unwrap(), way, SECONDS, "1"]));
    println!("{way}: {said}");
    said
}

/// As [`survives`], of an end that was believed.
fn survives_a_pair(way: &str) {
    let said = survives(way);
    assert!(!said.contains(" 0 paired"), "{said}");
}

#[test]
fn entries_that_are_none() {
    let said = survives("entries");
    assert!(said.contains(" 0 paired"), "{said}");
}

#[test]
fn somebody_elses_connection() {
    let said = survives("steal");
    assert!(said.contains(" 0 paired"), "{said}");
}

#[test]
fn words_at_random() {
    survives_a_pair("scribble");
}

#[test]
fn words_at_random_and_a_peer_that_reads_nothing() {
    survives_a_pair("silent");
}

#[test]
fn killed_while_it_scribbles() {
    survives_a_pair("die");
}

#[test]
fn a_lock_that_is_never_given_back() {
    survives_a_pair("lock");
}

#[test]
fn held_up_in_a_read_and_an_edge_is_waited_for() {
    survives_a_pair("edge");
}

#[test]
fn a_recall_without_an_end() {
    survives_a_pair("recall");
}

#[test]
fn a_cut_that_is_never_reached() {
    survives_a_pair("cut");
}

#[test]
fn half_a_hand_back() {
    survives_a_pair("back");
}

#[test]
fn killed_in_a_hand_back_that_it_only_claims() {
    survives_a_pair("half");
}

#[test]
fn stopped() {
    survives_a_pair("stop");
}

//! Connections whose bytes go through memory: two processes that check every byte, waiting in each way there is.

use serde_json::Value;
use tieline_tests::Watchdog;

use crate::built::{made, must, program};
use crate::launcher::tieline;

/// Runs the program under `tieline run --rings`; what it printed, and how much of its bytes went through rings.
fn run(way: &str) -> (String, f64) {
    let rings = program("rings", "rings.c", &[]);
    let file = made().join(format!("rings-{way}.statistics"));
    let file = file.to_str().unwrap();
    let said = must(&mut tieline(&["run", "--rings", "--stats", file, "--", rings.to_str().unwrap(), way]));
    let stat = must(&mut tieline(&["sockets", "stat", "--from", file, "--json"]));
    let stat: Value = serde_json::from_str(&stat).unwrap();
    let sum = |field: &str| -> f64 {
        let processes = stat["processes"].as_array().unwrap();
        processes.iter().filter_map(|process| process.pointer(field)?.as_f64()).sum()
    };
    (said, sum("/bytes_past_kernel") / (sum("/moved/bytes_in") + sum("/moved/bytes_out")))
}

/// Every byte comes, whichever way; how many go through rings depends on who is awake when. Says whether any did, in one of some runs.
fn holds(way: &str) -> bool {
    let _watchdog = Watchdog::usual("rings");
    for _ in 0..5 {
        let (said, share) = run(way);
        assert!(
            said.contains("every byte came") || said.contains("the executed program got the rest"),
            "{said}"
        );
        println!("{way}: {:.0} % of the bytes went through rings", share * 100.0);
        assert!((0.0..=1.0).contains(&share), "{way}: {share}");
        if share > 0.0 {
            return true;
        }
    }
    println!("{way}: nobody was awake when the other one wrote, on a machine as busy as this");
    false
}

/// On the busiest machine two that are on two processors are awake at once some time.
#[test]
fn some_bytes_go_through_rings() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        println!("left out: there is one processor, on which rings are not used");
        return;
    }
    assert!((0..4).any(|_| holds("apart")), "none ever did");
}

#[test]
fn two_that_block() {
    holds("block");
}

#[test]
fn two_that_poll() {
    holds("poll");
}

#[test]
fn two_that_select() {
    holds("select");
}

#[test]
fn two_that_wait_for_levels() {
    holds("level");
}

#[test]
fn two_that_wait_for_edges() {
    holds("edge");
}

#[test]
fn two_that_send_files() {
    holds("file");
}

#[test]
fn a_stream_longer_than_all_buffers() {
    holds("stream");
}

#[test]
fn a_writer_that_is_killed() {
    holds("kill");
}

#[test]
fn a_half_that_is_shut_down() {
    holds("half");
}

#[test]
fn a_reader_that_executes_another_program() {
    holds("exec");
}

/// While bytes go back to the kernel, and at the end of that.
#[test]
fn a_signal_handler_that_writes_in_between() {
    let _watchdog = Watchdog::usual("handler");
    let handler = program("handler", "handler.c", &[]);
    let mut command = tieline(&["run", "--", handler.to_str().unwrap(), "2"]);
    let said = must(command.env("TIELINE_SOCKETS_RINGS", "2"));
    assert!(said.contains("of its handler came"), "{said}");
}

/// Without the option nothing of it happens.
#[test]
fn off_unless_asked_for() {
    let _watchdog = Watchdog::usual("rings");
    let rings = program("rings", "rings.c", &[]);
    let file = made().join("no-rings.statistics");
    let file = file.to_str().unwrap();
    must(&mut tieline(&["run", "--stats", file, "--", rings.to_str().unwrap(), "block"]));
    let stat = must(&mut tieline(&["sockets", "stat", "--from", file, "--json"]));
    let stat: Value = serde_json::from_str(&stat).unwrap();
    assert_eq!(stat["processes"][0]["bytes_past_kernel"], 0, "{stat:#}");
}

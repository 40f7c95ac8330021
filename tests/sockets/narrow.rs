//! Narrow cases that random programs have shown, each as a C program that says what is right.

use tieline_tests::Watchdog;

use crate::built::{must, program};
use crate::launcher::tieline;

fn is_right(case: &'static str) {
    let _watchdog = Watchdog::usual(case);
    let program = program("narrow", "narrow.c", &["-pthread"]);
    must(std::process::Command::new(&program).arg(case));
    let mut forced = tieline(&["run", "--rings", "--", program.to_str().unwrap(), case]);
    must(forced.env("TIELINE_SOCKETS_RINGS", "2"));
}

#[test]
fn what_was_read_before_a_reset_is_not_read_again() {
    is_right("spliced");
}

#[test]
fn a_reset_behind_a_read_of_all_is_for_the_next_read() {
    is_right("behind_all");
}

#[test]
fn what_is_written_to_a_process_that_has_exited_is_an_error() {
    is_right("exited");
}

/// Those are left in the ring if the other program cannot be executed.
#[test]
fn unread_bytes_are_not_lost_where_another_program_cannot_be_executed() {
    let _watchdog = Watchdog::usual("exec failed");
    let program = program("exec_failed", "exec_failed.c", &[]);
    for way in ["splice", "dup"] {
        must(std::process::Command::new(&program).arg(way));
        for rings in ["1", "2"] {
            let mut with = tieline(&["run", "--rings", "--", program.to_str().unwrap(), way]);
            must(with.env("TIELINE_SOCKETS_RINGS", rings));
        }
    }
}

/// A thread that reads or writes is ended, perhaps with its lock, when another one executes a program.
#[test]
fn whoever_an_execution_has_ended_holds_no_other_holder_up() {
    let _watchdog = Watchdog::usual("exec held");
    let program = program("exec_held", "exec_held.c", &[]);
    for way in ["w", "r"] {
        must(std::process::Command::new(&program).arg(way));
        let mut with = tieline(&["run", "--rings", "--", program.to_str().unwrap(), way]);
        must(with.env("TIELINE_SOCKETS_RINGS", "2"));
    }
}

/// The plain kernel mixes the messages of writers that wait for room if its buffer is full: only with rings.
#[test]
fn small_messages_of_two_processes_are_not_mixed_where_they_wait_for_room() {
    let _watchdog = Watchdog::usual("frames");
    let program = program("frames", "frames.c", &[]);
    must(tieline(&["run", "--rings", "--", program.to_str().unwrap()]).env("TIELINE_SOCKETS_RINGS", "2"));
}

#[test]
fn an_end_that_has_shut_down_its_reading_half_still_writes() {
    is_right("dupped");
}

#[test]
fn a_connection_with_bytes_that_is_added_wakes_who_sleeps_in_the_epoll() {
    is_right("added");
}

#[test]
fn a_wait_in_no_epoll_is_refused() {
    is_right("wrong");
}

#[test]
fn an_epoll_tells_of_a_connection_that_only_the_child_has_still() {
    is_right("closed");
    is_right("closed_first");
}

#[test]
fn what_one_process_takes_out_of_an_epoll_the_other_is_not_told_of() {
    is_right("removed");
    is_right("removed_by_child");
}

#[test]
fn events_for_which_there_is_no_memory_are_an_error_and_are_told_of_again() {
    is_right("nowhere");
}

#[test]
fn an_urgent_byte_that_is_passed_over_is_urgent_no_longer() {
    is_right("urgent");
}

#[test]
fn an_edge_is_told_again_when_the_own_half_is_shut_down() {
    is_right("shut");
}

#[test]
fn what_a_process_that_has_ended_wrote_is_read() {
    is_right("left");
}

#[test]
fn what_a_killed_process_wrote_is_read_as_several_messages() {
    is_right("several");
}

#[test]
fn a_half_that_is_shut_down_is_read_as_several_messages() {
    is_right("several_shut");
}

#[test]
fn a_read_needs_memory_for_what_comes_alone() {
    is_right("beyond");
}

#[test]
fn what_a_stream_of_the_c_library_writes_comes_in_its_order() {
    is_right("standard");
}

#[test]
fn bytes_are_read_into_secret_memory() {
    is_right("secret");
}

/// The thread is moved to another stack within a write, and that one writes as well.
fn writes_on_several_stacks(how: &'static str) {
    let _watchdog = Watchdog::usual(how);
    let program = program("stacks", "stacks.c", &[]);
    must(std::process::Command::new(&program).args([how, "0.5"]));
    let mut forced = tieline(&["run", "--rings", "--", program.to_str().unwrap(), how, "1"]);
    must(forced.env("TIELINE_SOCKETS_RINGS", "2"));
}

#[test]
fn contexts_that_are_switched_within_a_write_lose_nothing() {
    writes_on_several_stacks("contexts");
}

#[test]
fn a_handler_on_a_stack_that_the_kernel_does_not_tell_of_loses_nothing() {
    writes_on_several_stacks("disarmed");
}

//! Groups whose members are on several hosts.

use rustix::process::Signal;
use tieline_tests::Watchdog;

use crate::lab::{see_each_other, two_hosts, until};

/// A member of this host is written to through shared memory, one of another host over the network.
#[test]
fn a_group_has_members_on_several_hosts() {
    let _watchdog = Watchdog::usual("a group with members on two hosts");
    let Some((first, second)) = two_hosts() else { return };
    let mut writer = first.program(&["group", "3"]).ready();
    writer.must("put 1 0 64", "0 reached, 0 lost");
    let mut near = first.program(&["member", "3", "100000"]).ready();
    let mut far = second.program(&["member", "3", "100000"]).ready();
    writer.must("members 2", "4 8");
    for (seed, offset, len) in [(1, 0, 1), (2, 4096, 65_537), (3, 99_999, 1), (4, 8, 99_992)] {
        let block = format!("{seed} {offset} {len}");
        writer.must(&format!("put {block}"), "2 reached, 0 lost");
        writer.must("barrier", "2 reached, 0 lost");
        near.must(&format!("check {block}"), "same");
        far.must(&format!("check {block}"), "same");
    }
    // A word tells those who poll it that the block before it is there, without a barrier.
    for round in 10..60 {
        writer.must(&format!("put {round} 1024 70000"), "2 reached, 0 lost");
        writer.must(&format!("store 0 {round}"), "2 reached, 0 lost");
        for member in [&mut near, &mut far] {
            member.must(&format!("poll 0 {round}"), "there");
            member.must(&format!("check {round} 1024 70000"), "same");
        }
    }
    assert!(writer.ask("store 2 1").contains("multiple of 4"), "{}", writer.ask("store 2 1"));
    // A writer on the other host, which is no member.
    let mut other = second.program(&["group", "3"]).ready();
    other.must("members 2", "4 8");
    other.must("put 5 0 100000", "2 reached, 0 lost");
    other.must("barrier", "2 reached, 0 lost");
    near.must("check 5 0 100000", "same");
    far.must("check 5 0 100000", "same");
}

#[test]
fn members_on_another_host_die_and_come_back_and_so_does_the_host() {
    let watchdog = Watchdog::usual("a group whose members on another host end");
    let Some((first, second)) = two_hosts() else { return };
    let mut near = first.program(&["member", "3", "4096"]).ready();
    let far = second.program(&["member", "3", "4096"]).ready();
    let mut writer = first.program(&["group", "3"]).ready();
    writer.must("members 2", "4 8");
    far.0.kill().unwrap();
    let reaches = |program: &mut crate::lab::Program, members: usize| {
        until("the members", || {
            // One that ends while it is written to is an error of its own, and the others have got it.
            program.ask("put 7 0 4096").starts_with(&format!("{members} reached"))
        });
    };
    reaches(&mut writer, 1);
    near.must("check 7 0 4096", "same");
    watchdog.progress();
    let mut again = second.program(&["member", "3", "4096"]).ready();
    reaches(&mut writer, 2);
    writer.must("barrier", "2 reached, 0 lost");
    again.must("check 7 0 4096", "same");
    watchdog.progress();
    // Without the other host's manager, and with it again.
    second.kill_manager();
    second.start();
    see_each_other(&first, &second);
    reaches(&mut writer, 2);
    writer.must("put 8 0 4096", "2 reached, 0 lost");
    writer.must("barrier", "2 reached, 0 lost");
    near.must("check 8 0 4096", "same");
    again.must("check 8 0 4096", "same");
    watchdog.progress();
    // Without the cable for so long that what is under way is given up; the other member is written to all
    // the time.
    second.cable("down");
    until("the end of the connection", || writer.ask("put 9 0 4096").contains("1 lost"));
    near.must("check 9 0 4096", "same");
    second.cable("up");
    see_each_other(&first, &second);
    reaches(&mut writer, 2);
    writer.must("put 10 0 4096", "2 reached, 0 lost");
    writer.must("barrier", "2 reached, 0 lost");
    again.must("check 10 0 4096", "same");
}

/// The managers wait seconds for a program that does not respond; a writer does not, and reaches it when it
/// responds.
#[test]
fn a_member_that_does_not_respond_is_left_out_until_it_does() {
    let _watchdog = Watchdog::usual("a member of a group that does not respond");
    let Some((first, second)) = two_hosts() else { return };
    let mut near = first.program(&["member", "3", "4096"]).ready();
    let mut far = second.program(&["member", "3", "4096"]).ready();
    far.0.signal(Signal::STOP).unwrap();
    let mut writer = first.program(&["group", "3"]).ready();
    for round in 1..50 {
        writer.must(&format!("put {round} 0 4096"), "1 reached, 0 lost");
        near.must(&format!("check {round} 0 4096"), "same");
    }
    // The thread that connects it waits for it still.
    far.0.signal(Signal::CONT).unwrap();
    until("the member", || writer.ask("put 50 0 4096") == "2 reached, 0 lost");
    writer.must("barrier", "2 reached, 0 lost");
    far.must("check 50 0 4096", "same");
}

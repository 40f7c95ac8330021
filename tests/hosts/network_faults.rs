//! What networks and hosts do while data travels: no byte is wrong, and every failure is an error in bounded
//! time.

use rustix::process::{Pid, Signal, kill_process};
use tieline_tests::Watchdog;

use crate::lab::{Host, Program, see_each_other, two_hosts, until};

const SIZE: usize = 1_000_000;

/// An owner on the second host, and a program of the first one that reaches its segment.
fn owner_and_user(first: &Host, second: &Host) -> (Program, Program) {
    let owner = second.program(&["own", "7", &SIZE.to_string()]).ready();
    let user = first.program(&["reach", "8", "7"]).ready();
    (owner, user)
}

/// A block that fills the segment travels, and each of its bytes is checked.
fn exchange(owner: &mut Program, user: &mut Program, seed: u64) {
    user.must(&format!("put {seed} 0 {SIZE}"), "done");
    owner.must(&format!("check {seed} 0 {SIZE}"), "same");
    owner.must(&format!("fill {seed}1 0 {SIZE}"), "done");
    user.must(&format!("get {seed}1 0 {SIZE}"), "same");
}

/// The connection has failed for good, and says so at once from then on.
fn has_failed(user: &mut Program) {
    let failed = user.ask(&format!("put 99 0 {SIZE}"));
    assert!(failed.starts_with("error: the ofi link to node 8 failed: "), "{failed}");
    assert_eq!(user.ask("put 99 0 1"), failed);
}

fn reaches_again(first: &Host, second: &Host, owner: &mut Program, user: &mut Program, seed: u64) {
    see_each_other(first, second);
    user.must("again", "done");
    exchange(owner, user, seed);
}

#[test]
fn packets_of_another_size_in_the_middle_of_a_transfer_lose_nothing() {
    let _watchdog = Watchdog::usual("a change of the MTU");
    let Some((first, second)) = two_hosts() else { return };
    let (mut owner, mut user) = owner_and_user(&first, &second);
    // Without path MTU discovery what is too long for one end's interface is lost at that end for good, so
    // both ends change.
    for (seed, mtu) in ["1500", "576", "9000", "1280", "1500"].into_iter().enumerate() {
        std::thread::scope(|scope| {
            let (owner, user) = (&mut owner, &mut user);
            let transfers = scope.spawn(move || {
                for round in 0..8 {
                    exchange(owner, user, 10 * seed as u64 + round);
                }
            });
            for host in [&first, &second] {
                host.ip(&["link", "set", "eth0", "mtu", mtu]);
            }
            transfers.join().unwrap();
        });
        let shown = first.ip(&["link", "show", "eth0"]);
        assert!(shown.contains(&format!("mtu {mtu} ")), "{shown}");
    }
    assert_eq!((first.session(8), second.session(4)), ("valid".into(), "valid".into()));
}

#[test]
fn an_address_that_is_taken_away_is_an_error_and_comes_back() {
    let watchdog = Watchdog::usual("an address that is taken away");
    let Some((first, second)) = two_hosts() else { return };
    let (mut owner, mut user) = owner_and_user(&first, &second);
    exchange(&mut owner, &mut user, 1);
    let address = format!("{}/24", second.address);
    second.ip(&["address", "del", &address, "dev", "eth0"]);
    has_failed(&mut user);
    watchdog.progress();
    until("the loss of the session", || first.session(8) != "valid" && second.session(4) != "valid");
    second.ip(&["address", "add", &address, "dev", "eth0"]);
    reaches_again(&first, &second, &mut owner, &mut user, 2);
}

#[test]
fn a_partition_of_one_direction_is_an_error_for_both_and_heals() {
    let watchdog = Watchdog::usual("a partition of one direction");
    let Some((first, second)) = two_hosts() else { return };
    let (mut owner, mut user) = owner_and_user(&first, &second);
    let mut back_owner = first.program(&["own", "7", "4096"]).ready();
    let mut back = second.program(&["reach", "4", "7"]).ready();
    back.must("put 1 0 4096", "done");
    for (seed, (host, other)) in [(&first, &second), (&second, &first)].into_iter().enumerate() {
        let seed = 10 * (seed as u64 + 1);
        exchange(&mut owner, &mut user, seed);
        // What this host sends is lost; what is sent to it arrives.
        let lost = ["blackhole", other.address.as_str()];
        host.ip(&["route", "add", lost[0], lost[1]]);
        // Both ends wait at the same time.
        back.0.say(&format!("put {seed} 0 4096")).unwrap();
        has_failed(&mut user);
        let failed = back.0.line().unwrap();
        assert!(failed.starts_with("error: the ofi link to node 4 failed: "), "{failed}");
        watchdog.progress();
        until("the loss of the session", || first.session(8) != "valid" && second.session(4) != "valid");
        host.ip(&["route", "del", lost[0], lost[1]]);
        reaches_again(&first, &second, &mut owner, &mut user, seed + 1);
        back.must("again", "done");
        back.must(&format!("put {seed} 0 4096"), "done");
        back_owner.must(&format!("check {seed} 0 4096"), "same");
        watchdog.progress();
    }
}

/// All of it stands still, as a machine does that is suspended.
#[test]
fn a_host_that_freezes_is_noticed_and_goes_on_where_it_was() {
    let watchdog = Watchdog::usual("a host that freezes");
    let Some((first, second)) = two_hosts() else { return };
    let (mut owner, mut user) = owner_and_user(&first, &second);
    exchange(&mut owner, &mut user, 1);
    let manager = Pid::from_raw(second.manager_pid().try_into().unwrap()).unwrap();
    kill_process(manager, Signal::STOP).unwrap();
    owner.0.signal(Signal::STOP).unwrap();
    has_failed(&mut user);
    watchdog.progress();
    until("the loss of the session", || first.session(8) != "valid");
    owner.0.signal(Signal::CONT).unwrap();
    kill_process(manager, Signal::CONT).unwrap();
    reaches_again(&first, &second, &mut owner, &mut user, 2);
    assert_eq!(
        second.manager_pid(),
        u32::try_from(manager.as_raw_nonzero().get()).unwrap(),
        "the same manager"
    );
}

/// Nothing of what ran before is there any more, and nothing says goodbye.
#[test]
fn a_host_that_was_switched_off_and_on_is_another_one() {
    let watchdog = Watchdog::usual("a host that is switched off and on");
    let Some((first, second)) = two_hosts() else { return };
    let (mut owner, mut user) = owner_and_user(&first, &second);
    exchange(&mut owner, &mut user, 1);
    // No packet tells of its end.
    second.cable("down");
    second.kill_manager();
    owner.0.kill().unwrap();
    second.cable("up");
    second.start();
    let mut successor = second.program(&["own", "7", &SIZE.to_string()]).ready();
    successor.must(&format!("fill 5 0 {SIZE}"), "done");
    see_each_other(&first, &second);
    watchdog.progress();
    // The old connection ends one way or the other, and what it puts is not found in the successor's memory.
    until("the end of the old connection", || user.ask(&format!("put 6 0 {SIZE}")).starts_with("error: "));
    successor.must(&format!("check 5 0 {SIZE}"), "same");
    let stale = user.ask("put 6 0 1");
    assert!(
        stale.starts_with("error: segment 7 of node 8 is gone: ")
            || stale.starts_with("error: the ofi link to node 8 failed: "),
        "{stale}"
    );
    user.must("again", "done");
    exchange(&mut successor, &mut user, 7);
}

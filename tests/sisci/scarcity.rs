//! Programs that run out of something: the call that needs it fails, and nothing else.

use tieline_tests::{Cluster, Peer, Watchdog};

use crate::{c, finish, id, run};

#[test]
fn an_owner_without_descriptors_keeps_its_node_and_its_messages() {
    let _watchdog = Watchdog::usual("no descriptors");
    let program = c::program("no_descriptor");
    for nodes in [1, 2, 3] {
        let cluster = Cluster::up(nodes).unwrap();
        let mut owner = Peer::start(&cluster, &program, 0, &[]).unwrap();
        owner.expect("full").unwrap();
        let send = |message: &str| {
            let node = message.parse::<usize>().unwrap() % nodes;
            let mut sender = Peer::start(&cluster, &program, node, &[&id(&cluster, 0), message]).unwrap();
            sender.expect("sent").unwrap();
            sender
        };
        let first = send("1");
        owner.expect("received").unwrap();
        first.kill().unwrap();
        let mut second = send("2");
        owner.expect("received").unwrap();
        let third = send("3");
        third.kill().unwrap();
        second.say("end").unwrap();
        finish(second);
        finish(owner);
    }
}

#[test]
fn memory_that_cannot_be_had_is_an_error_that_leaves_nothing_behind() {
    let _watchdog = Watchdog::usual("memory full");
    run(&Cluster::up(1).unwrap(), &c::program("memory_full"), 0, &[]);
}

#[test]
fn a_receiver_that_does_not_look_makes_its_sender_fail_and_loses_nothing() {
    let _watchdog = Watchdog::usual("full data interrupt");
    let program = c::program("data_interrupt_full");
    for nodes in [1, 2] {
        let cluster = Cluster::up(nodes).unwrap();
        let mut receiver = Peer::start(&cluster, &program, 0, &[]).unwrap();
        receiver.expect("ready").unwrap();
        let mut sender = Peer::start(&cluster, &program, nodes - 1, &[&id(&cluster, 0)]).unwrap();
        sender.expect("full").unwrap();
        receiver.say("look").unwrap();
        finish(sender);
        finish(receiver);
    }
}

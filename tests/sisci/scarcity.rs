//! Programs that run out of something: the call that needs it fails, and nothing else.

use tieline_tests::{Cluster, Peer, Watchdog};

use crate::{c, finish, id};

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

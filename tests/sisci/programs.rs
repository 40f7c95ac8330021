//! Programs that check the functions one group after the other, as one, two, three and nine nodes.

use tieline_tests::{Cluster, Peer, Watchdog};

use crate::{c, finish, id, run};

/// Runs a program that needs nobody else.
fn alone(name: &'static str) {
    let _watchdog = Watchdog::usual(name);
    let cluster = Cluster::up(1).unwrap();
    run(&cluster, &c::program(name), 0, &[]);
}

fn link(cluster: &Cluster, change: &str) {
    let (status, _, errors) = cluster.run(&["link", change, &id(cluster, 0), &id(cluster, 1)]).unwrap();
    assert_eq!(status, 0, "{errors}");
}

macro_rules! alone {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            alone(stringify!($name));
        }
    )*};
}

alone! {
    life_cycle maps copy channels descriptors dma dma_gather cancel callbacks_end threads handles unsupported forked
    closed_standard demolib forgotten limits cancelled_thread
}

#[test]
fn connect() {
    let _watchdog = Watchdog::usual("connect");
    let cluster = Cluster::up(2).unwrap();
    // Between two nodes, and between two programs of one.
    for owner_at in [1, 0] {
        let program = c::program("connect");
        let mut owner = Peer::start(&cluster, &program, owner_at, &[]).unwrap();
        owner.expect("prepared").unwrap();
        let mut user = Peer::start(&cluster, &program, 0, &["use", &id(&cluster, owner_at)]).unwrap();
        user.expect("asked").unwrap();
        owner.say("go on").unwrap();
        owner.expect("available").unwrap();
        user.expect("connected").unwrap();
        owner.say("withdraw").unwrap();
        owner.expect("withdrawn").unwrap();
        user.say("withdrawn").unwrap();
        owner.expect("removed").unwrap();
        finish(user);
        finish(owner);
    }
}

/// It waits for a segment that is not there yet, keeps it by its map, and keeps nothing once it is dead.
#[test]
fn a_dead_user_keeps_no_segment() {
    let _watchdog = Watchdog::usual("a dead user's map");
    let cluster = Cluster::up(2).unwrap();
    let program = c::program("connect");
    for owner_at in [1, 0] {
        let mut user = Peer::start(&cluster, &program, 0, &["hold", &id(&cluster, owner_at)]).unwrap();
        let mut owner = Peer::start(&cluster, &program, owner_at, &[]).unwrap();
        owner.expect("prepared").unwrap();
        owner.say("go on").unwrap();
        owner.expect("available").unwrap();
        user.expect("mapped").unwrap();
        owner.say("withdraw").unwrap();
        owner.expect("withdrawn").unwrap();
        user.kill().unwrap();
        owner.expect("removed").unwrap();
        finish(owner);
    }
}

#[test]
fn events_at_the_owner() {
    let _watchdog = Watchdog::usual("events at the owner");
    let cluster = Cluster::up(2).unwrap();
    let program = c::program("events");
    for role in ["own-and-wait", "own-and-be-called"] {
        let mut owner = Peer::start(&cluster, &program, 0, &[role, &id(&cluster, 1)]).unwrap();
        owner.expect("ready").unwrap();
        let mut user = Peer::start(&cluster, &program, 1, &["come-and-go", &id(&cluster, 0)]).unwrap();
        user.expect("there").unwrap();
        user.kill().unwrap();
        finish(owner);
    }
}

#[test]
fn events_at_the_user() {
    let _watchdog = Watchdog::usual("events at the user");
    let cluster = Cluster::up(2).unwrap();
    let program = c::program("events");
    for role in ["use-and-wait", "use-and-be-called"] {
        let mut owner = Peer::start(&cluster, &program, 0, &["own"]).unwrap();
        owner.expect("ready").unwrap();
        let mut user = Peer::start(&cluster, &program, 1, &[role, &id(&cluster, 0)]).unwrap();
        user.expect("connected").unwrap();
        link(&cluster, "down");
        user.expect("told").unwrap();
        link(&cluster, "up");
        user.expect("told").unwrap();
        if role == "use-and-wait" {
            owner.say("disconnect").unwrap();
            user.expect("told").unwrap();
            finish(owner);
        } else {
            owner.kill().unwrap();
            user.expect("told").unwrap();
        }
        finish(user);
    }
}

#[test]
fn sequences_over_a_link_that_fails_and_an_owner_that_dies() {
    let _watchdog = Watchdog::usual("sequences");
    let cluster = Cluster::up(2).unwrap();
    let program = c::program("sequence");
    let mut owner = Peer::start(&cluster, &program, 0, &[]).unwrap();
    owner.expect("ready").unwrap();
    let mut user = Peer::start(&cluster, &program, 1, &[&id(&cluster, 0)]).unwrap();
    user.expect("standing").unwrap();
    for change in ["down", "up"] {
        link(&cluster, change);
        user.say(change).unwrap();
        user.expect("seen").unwrap();
    }
    owner.kill().unwrap();
    user.say("dead").unwrap();
    finish(user);
}

#[test]
fn transfers_over_a_link_that_fails_and_to_an_owner_that_dies() {
    let _watchdog = Watchdog::usual("failing transfers");
    let cluster = Cluster::up(2).unwrap();
    let program = c::program("dma_end");
    let mut owner = Peer::start(&cluster, &program, 0, &[]).unwrap();
    owner.expect("ready").unwrap();
    let mut user = Peer::start(&cluster, &program, 1, &[&id(&cluster, 0)]).unwrap();
    user.expect("copied").unwrap();
    for (change, answer) in [("down", "failed"), ("up", "copied")] {
        link(&cluster, change);
        user.say(change).unwrap();
        user.expect(answer).unwrap();
    }
    owner.kill().unwrap();
    user.say("dead").unwrap();
    finish(user);
}

#[test]
fn connections_wait_for_a_link_that_is_down() {
    let _watchdog = Watchdog::usual("connections over a link that is down");
    let program = c::program("link_down");
    // With faults, maps over the link lead nowhere while it is down.
    for options in [&[][..], &["--faults"]] {
        let cluster = Cluster::up_with(2, options).unwrap();
        let mut owner = Peer::start(&cluster, &program, 0, &[]).unwrap();
        owner.expect("ready").unwrap();
        let mut user = Peer::start(&cluster, &program, 1, &["use"]).unwrap();
        user.expect("connected").unwrap();
        link(&cluster, "down");
        user.say("down").unwrap();
        user.expect("waiting").unwrap();
        link(&cluster, "up");
        finish(user);
        owner.say("end").unwrap();
        finish(owner);
    }
}

#[test]
fn interrupts() {
    let _watchdog = Watchdog::usual("interrupts");
    let cluster = Cluster::up(2).unwrap();
    let program = c::program("interrupts");
    for owner_at in [1, 0] {
        let mut owner = Peer::start(&cluster, &program, owner_at, &[]).unwrap();
        owner.expect("ready").unwrap();
        let mut user = Peer::start(&cluster, &program, 0, &[&id(&cluster, owner_at)]).unwrap();
        user.expect("triggered").unwrap();
        owner.say("triggered").unwrap();
        owner.expect("removed").unwrap();
        user.say("removed").unwrap();
        finish(user);
        finish(owner);
    }
}

#[test]
fn data_interrupts() {
    let _watchdog = Watchdog::usual("data interrupts");
    let program = c::program("data_interrupts");
    for (nodes, role) in [(1, "bounds"), (3, "receive"), (9, "receive-by-callback")] {
        let cluster = Cluster::up(nodes).unwrap();
        if nodes == 1 {
            run(&cluster, &program, 0, &[role]);
            continue;
        }
        let senders = nodes - 1;
        let mut receiver = Peer::start(&cluster, &program, 0, &[role, &senders.to_string()]).unwrap();
        receiver.expect("ready").unwrap();
        let start = |node| Peer::start(&cluster, &program, node, &["send", &id(&cluster, 0)]).unwrap();
        let all: Vec<Peer> = (1..nodes).map(start).collect();
        all.into_iter().for_each(finish);
        finish(receiver);
    }
}

#[test]
fn a_receiver_that_dies_ends_its_senders_waits() {
    let _watchdog = Watchdog::usual("death of a receiver");
    let cluster = Cluster::up(2).unwrap();
    let program = c::program("data_interrupts");
    let mut receiver = Peer::start(&cluster, &program, 0, &["ignore"]).unwrap();
    receiver.expect("ready").unwrap();
    let mut sender = Peer::start(&cluster, &program, 1, &["send-until-lost", &id(&cluster, 0)]).unwrap();
    sender.expect("sending").unwrap();
    receiver.kill().unwrap();
    finish(sender);
}

#[test]
fn query() {
    let _watchdog = Watchdog::usual("queries");
    let cluster = Cluster::up(2).unwrap();
    let mut asker = Peer::start(&cluster, &c::program("query"), 0, &[&id(&cluster, 1)]).unwrap();
    for change in ["down", "up"] {
        asker.expect("probed").unwrap();
        link(&cluster, change);
        asker.say(change).unwrap();
    }
    finish(asker);
}

#[test]
fn what_is_left_behind_is_gone_for_the_next_program() {
    let _watchdog = Watchdog::usual("left behind");
    let cluster = Cluster::up(1).unwrap();
    let program = c::program("left_behind");
    run(&cluster, &program, 0, &["exit"]);
    for _ in 0..3 {
        let mut victim = Peer::start(&cluster, &program, 0, &["die"]).unwrap();
        victim.expect("made").unwrap();
        victim.kill().unwrap();
        run(&cluster, &program, 0, &["exit"]);
    }
    run(&cluster, &program, 0, &["terminate"]);
}

#[test]
fn everybody_with_everybody() {
    let _watchdog = Watchdog::usual("everybody with everybody");
    let program = c::program("everybody");
    for nodes in [1, 2, 3, 9] {
        let cluster = Cluster::up(nodes).unwrap();
        let ids: Vec<String> = (0..nodes).map(|node| id(&cluster, node)).collect();
        let arguments: Vec<&str> = ids.iter().map(String::as_str).collect();
        let start = |node| Peer::start(&cluster, &program, node, &arguments).unwrap();
        let all: Vec<Peer> = (0..nodes).map(start).collect();
        all.into_iter().for_each(finish);
    }
}

#[test]
fn time_outs_of_connections_to_interrupts() {
    let _watchdog = Watchdog::usual("time-outs");
    let program = c::program("timeouts");
    for nodes in [1, 2, 3, 9] {
        let cluster = Cluster::up(nodes).unwrap();
        let ids: Vec<String> = (0..nodes).map(|node| id(&cluster, node)).collect();
        let arguments: Vec<&str> = ids.iter().map(String::as_str).collect();
        let start = |node| Peer::start(&cluster, &program, node, &arguments).unwrap();
        let mut all: Vec<Peer> = (0..nodes).map(start).collect();
        for (said, answer) in [("ready", "all are ready"), ("done", "all are done")] {
            all.iter_mut().for_each(|one| one.expect(said).unwrap());
            all.iter_mut().for_each(|one| one.say(answer).unwrap());
        }
        all.into_iter().for_each(finish);
    }
}

/// A writer of a group on the first node, and how the programs of the test begin.
fn writer(cluster: &Cluster, role: &str) -> Peer {
    Peer::start(cluster, &c::program("group_link"), 0, &[role]).unwrap()
}

fn member(cluster: &Cluster, node: usize) -> Peer {
    let mut member = Peer::start(cluster, &c::program("group_link"), node, &[]).unwrap();
    member.expect("member").unwrap();
    member
}

fn end(all: Vec<Peer>) {
    for mut one in all {
        one.say("end").unwrap();
        finish(one);
    }
}

#[test]
fn a_connection_to_a_group_may_wait_for_its_first_member() {
    let _watchdog = Watchdog::usual("group connected later");
    for nodes in [1, 2, 3] {
        let cluster = Cluster::up(nodes).unwrap();
        let mut writer = writer(&cluster, "wait");
        writer.expect("waiting").unwrap();
        let mut member = member(&cluster, nodes - 1);
        member.expect("seen").unwrap();
        writer.say("again").unwrap();
        member.expect("seen").unwrap();
        end(vec![writer, member]);
    }
}

#[test]
fn a_sequence_of_a_group_sees_a_link_that_fails() {
    let _watchdog = Watchdog::usual("sequence of a group");
    // With two members stores go another way than with one; the link to the second stands.
    for nodes in [2, 3] {
        let cluster = Cluster::up(nodes).unwrap();
        let mut members: Vec<Peer> = (1..nodes).map(|node| member(&cluster, node)).collect();
        let mut writer = writer(&cluster, "sequence");
        writer.expect("standing").unwrap();
        members.iter_mut().for_each(|member| member.expect("seen").unwrap());
        for change in ["down", "up"] {
            link(&cluster, change);
            writer.say(change).unwrap();
            writer.expect("seen").unwrap();
        }
        members.iter_mut().for_each(|member| member.expect("seen").unwrap());
        members.push(writer);
        end(members);
    }
}

#[test]
fn without_a_node_and_with_a_wrong_one() {
    let _watchdog = Watchdog::usual("no node");
    let program = c::program("no_node");
    let cluster = Cluster::empty().unwrap();
    let start = |cluster: &Cluster, node: Option<&str>| {
        let mut command = std::process::Command::new(&program);
        cluster.set_environment(&mut command);
        node.map(|node| command.env("TIELINE_NODE", node));
        c::must(&mut command)
    };
    assert!(start(&cluster, None).contains("tieline up"));
    assert!(start(&cluster, Some("4")).contains("SCIOpen"));
    let cluster = Cluster::up(2).unwrap();
    assert!(start(&cluster, None).contains("TIELINE_NODE"));
    assert!(start(&cluster, Some("99")).contains("99"));
}

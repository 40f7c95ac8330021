//! Sessions between managers, and managers that are no good.

use std::time::Duration;

use proto::ids::NodeId;
use proto::manager::{Credentials, Input, LogLevel, PeerConn};
use proto::session::REDIAL_MAX;
use proto::wire::CodecError;
use proto::wire::peer::PeerMessage;
use proto::wire::program::{Event, Incarnation, Refusal};
use proto::wire::status::{LinkStatus, SessionState};

use crate::actor::memory;
use crate::helpers::node;
use crate::world::{INTERVAL, LIMIT, OWN_UID, STRANGERS, World};

fn link(world: &World, at: usize, to: u32) -> LinkStatus {
    world.status(at).links.into_iter().find(|link| link.peer == node(to)).expect("a link")
}

#[test]
fn heartbeats_are_counted_and_none_is_missed() {
    let mut world = World::up(3, 1);
    world.run_for(INTERVAL * 100);
    for at in 0..3 {
        for link in world.status(at).links {
            assert_eq!(link.session, SessionState::Valid);
            assert_eq!((link.generation, link.downtime_ns, link.heartbeats_missed), (1, 0, 0));
            assert!((100..=103).contains(&link.heartbeats_received), "{}", link.heartbeats_received);
            // There and back.
            let (latest, least) = (link.round_trip_ns.unwrap(), link.least_round_trip_ns.unwrap());
            let (shortest_us, longest_us) = world.net.peer_us;
            let possible = shortest_us * 2000..=longest_us * 2000;
            assert!(least <= latest && possible.contains(&least), "{latest} ns, least {least} ns");
        }
    }
}

#[test]
fn only_the_higher_id_dials() {
    let world = World::up(4, 1);
    for (_, from, to) in &world.dials {
        assert!(world.nodes[*from].id > *to);
    }
    assert_eq!(world.dials.len(), 6);
}

#[test]
fn a_silent_manager_is_lost_and_comes_back_on_the_same_connection() {
    let mut world = World::up(2, 1);
    let program = world.attach(0);
    world.run_for(Duration::from_secs(2));
    let dials = world.dials.len();
    world.hang(1);
    world.run_for(LIMIT - INTERVAL);
    assert_eq!(link(&world, 0, 8).session, SessionState::Valid);
    world.run_for(INTERVAL * 2);
    let lost = link(&world, 0, 8);
    assert_eq!(lost.session, SessionState::Lost);
    assert_eq!(lost.reason.as_deref(), Some("no heartbeat for 1 s"));
    assert_eq!(lost.generation, 2);
    assert!((4..=6).contains(&lost.heartbeats_missed), "{}", lost.heartbeats_missed);
    assert_eq!(world.nodes[0].page.links[&node(8)], (1, true), "data goes on");
    assert_eq!(world.status(0).counters.sessions_lost, 1);
    world.run_for(Duration::from_secs(100));
    assert_eq!(world.dials.len(), dials, "the connection stands, so nobody dials");
    world.unhang(1);
    world.run_for(Duration::from_millis(100));
    assert!(world.all_valid());
    let back = link(&world, 0, 8);
    assert_eq!((back.generation, back.reason), (3, None));
    let downtime = Duration::from_nanos(back.downtime_ns);
    assert!(downtime > Duration::from_secs(99) && downtime < Duration::from_secs(101), "{downtime:?}");
    assert_eq!(world.dials.len(), dials);
    assert_eq!(world.events(program), [], "and nothing is reported to programs");
}

#[test]
fn two_managers_that_were_both_suspended_find_each_other() {
    for pause in [1, 10, 1000, 100_000] {
        let mut world = World::up(2, pause);
        world.hang(0);
        world.hang(1);
        world.run_for(Duration::from_secs(pause));
        world.unhang(0);
        world.run_for(LIMIT * 2);
        world.unhang(1);
        world.run_for(LIMIT * 11);
        assert!(world.all_valid(), "after {pause} s");
    }
}

#[test]
fn a_manager_that_was_held_up_does_not_blame_the_others() {
    let mut world = World::up(3, 1);
    world.hang(0);
    world.run_for(Duration::from_secs(30));
    // It serves its timers before it reads what waits in its sockets.
    world.unhang_late(0);
    world.run_for(LIMIT * 2);
    assert_eq!(world.status(0).counters.sessions_lost, 0);
    assert!(world.all_valid());
}

#[test]
fn a_killed_manager_is_lost_at_once_and_returns_restarted() {
    let mut world = World::up(2, 1);
    for (dead, other, dead_id) in [(0, 1, 4), (1, 0, 8)] {
        world.kill(dead);
        world.run_for(Duration::from_millis(50));
        let lost = link(&world, other, dead_id);
        assert_eq!(lost.session, SessionState::Lost);
        assert!(lost.reason.is_some());
        world.run_for(Duration::from_secs(60));
        world.start(dead);
        world.run_for(Duration::from_millis(100));
        assert!(world.all_valid(), "the socket that appears is dialled at once");
    }
}

#[test]
fn dialling_backs_off_to_a_bound_and_differs_between_managers() {
    let mut world = World::up(3, 1);
    world.kill(0);
    world.dials.clear();
    world.run_for(Duration::from_secs(60));
    let mut gaps_of = Vec::new();
    for from in [1, 2] {
        let times: Vec<_> = world.dials.iter().filter(|dial| dial.1 == from).map(|dial| dial.0).collect();
        let gaps: Vec<Duration> = times.windows(2).map(|two| two[1].since(two[0])).collect();
        assert!(gaps.len() > 15, "it does not give up");
        assert!(gaps.len() < 40, "it does not hammer");
        assert!(gaps.iter().all(|gap| *gap <= REDIAL_MAX + Duration::from_millis(10)));
        assert!(gaps[gaps.len() - 1] >= REDIAL_MAX / 2);
        gaps_of.push(gaps);
    }
    assert_ne!(gaps_of[0], gaps_of[1]);
    world.start(0);
    world.run_for(Duration::from_millis(100));
    assert!(world.all_valid());
}

#[test]
fn a_goodbye_is_no_loss() {
    for (stopped, other, id) in [(0, 1, 4), (1, 0, 8)] {
        let mut world = World::up(2, 1);
        let program = world.attach(other);
        world.stop(stopped);
        world.run_for(Duration::from_secs(20));
        assert_eq!(world.events(program), [Event::Link { node: node(id), up: false }]);
        assert_eq!(world.nodes[other].page.links[&node(id)], (2, false));
        let gone = link(&world, other, id);
        assert_eq!(gone.session, SessionState::Stopped);
        assert_eq!(gone.reason.as_deref(), Some("its manager was stopped"));
        assert_eq!(world.status(other).counters.sessions_lost, 0);
        world.start(stopped);
        world.run_for(Duration::from_millis(100));
        assert!(world.all_valid());
        assert_eq!(world.events(program), [Event::Link { node: node(id), up: true }]);
        assert_eq!(world.nodes[other].page.links[&node(id)], (3, true));
    }
}

#[test]
fn a_manager_is_found_without_seeing_its_socket_appear() {
    let mut world = World::up(2, 1);
    world.stop(0);
    world.run_for(Duration::from_secs(30));
    world.start(0);
    // The news of the socket is lost: the old attempts continue.
    world.part(0, 1);
    world.run_for(Duration::from_secs(1));
    world.heal();
    world.run_for(REDIAL_MAX + Duration::from_millis(100));
    assert!(world.all_valid());
}

/// Brings two managers up that do not accept each other; what both say.
fn refused(change: impl Fn(&mut World)) -> (World, [LinkStatus; 2]) {
    let mut world = World::new(2, 1);
    change(&mut world);
    world.start(0);
    world.start(1);
    world.run_for(Duration::from_secs(30));
    assert!(!world.all_valid());
    let links = [link(&world, 0, 8), link(&world, 1, 4)];
    for node in &world.nodes {
        let warnings: Vec<_> = node.log.iter().filter(|line| line.0 == LogLevel::Warn).collect();
        assert!(warnings.len() <= 2, "the log is not flooded: {warnings:?}");
    }
    assert!(world.dials.len() < 20);
    (world, links)
}

#[test]
fn another_cluster_is_refused() {
    let (_, links) = refused(|world| world.nodes[1].cluster = "other".to_owned());
    for link in links {
        assert_eq!(link.session, SessionState::Refused);
        let reason = link.reason.expect("a reason");
        assert!(reason.contains("cluster `default`") && reason.contains("cluster `other`"), "{reason}");
    }
}

#[test]
fn another_user_is_refused_and_root_is_accepted_only_by_those_whom_it_accepts() {
    for uid in [2000, 0] {
        let (_, links) = refused(|world| world.nodes[1].uid = uid);
        assert_eq!(links[1].session, SessionState::Refused);
        let reason = links[1].reason.clone().expect("a reason");
        assert!(reason.contains("be a manager in this cluster"), "{reason}");
    }
    let mut world = World::new(2, 1);
    world.nodes[0].uid = 0;
    world.nodes[1].uid = 0;
    world.start(0);
    world.start(1);
    world.run_until("root among itself", World::all_valid);
}

#[test]
fn another_version_is_refused_and_both_versions_are_named() {
    let (ours, theirs) = (proto::wire::PROTOCOL_VERSION, proto::wire::PROTOCOL_VERSION + 1);
    let (world, links) = refused(|world| world.nodes[1].version = theirs);
    // The one that dials knows whom; the other knows only that somebody came.
    assert_eq!(links[1].session, SessionState::Refused);
    let reason = links[1].reason.clone().expect("a reason");
    assert!(
        reason.contains(&format!("the other side uses version {ours} of the control protocol")),
        "{reason}"
    );
    assert_eq!(links[0].session, SessionState::Connecting);
    let (_, line) = world.nodes[0].log.iter().find(|line| line.0 == LogLevel::Warn).expect("a line");
    let both = format!(
        "the other side uses version {theirs} of the control protocol, this node manager version {ours}"
    );
    assert!(line.contains(&both), "{line}");
}

#[test]
fn a_refused_manager_is_accepted_once_it_is_put_right() {
    let (mut world, _) = refused(|world| world.nodes[1].cluster = "other".to_owned());
    world.stop(1);
    world.nodes[1].cluster = "default".to_owned();
    world.start(1);
    world.run_for(Duration::from_millis(100));
    assert!(world.all_valid());
}

const STRANGER: PeerConn = PeerConn(STRANGERS);

fn stranger_connects(world: &mut World, peer: PeerConn) {
    let credentials = Credentials { uid: OWN_UID, gids: vec![], pid: 9 };
    world.input(0, Input::PeerConnected { peer, dialled: None, credentials });
}

fn stranger_says(world: &mut World, peer: PeerConn, message: PeerMessage) {
    world.input(0, Input::PeerMessage { peer, message, descriptors: vec![] });
}

fn hello(id: NodeId, incarnation: u64) -> PeerMessage {
    let (cluster, host) = ("default".to_owned(), "elsewhere".to_owned());
    PeerMessage::Hello { node: id, incarnation: Incarnation(incarnation), cluster, host }
}

/// The refusal that a hello on an accepted connection is answered with.
fn answer_to(first: PeerMessage) -> Option<Refusal> {
    let mut world = World::up(1, 1);
    stranger_connects(&mut world, STRANGER);
    stranger_says(&mut world, STRANGER, first);
    let refusal = world.to_strangers.iter().find_map(|(_, message)| match message {
        Some(PeerMessage::Rejected(refusal)) => Some(refusal.clone()),
        _ => None,
    });
    assert_eq!(refusal.is_some(), world.to_strangers.contains(&(STRANGER, None)), "refused is closed");
    refusal
}

#[test]
fn a_hello_must_name_a_proper_node() {
    assert_eq!(answer_to(hello(node(8), 1)), None);
    let own = answer_to(hello(node(4), 1)).expect("refused").to_string();
    assert!(own.starts_with("node 4 exists already on this node (owner: the manager with pid 100)"), "{own}");
    let mut world = World::new(3, 1);
    world.start(2);
    stranger_connects(&mut world, STRANGER);
    world.input(
        2,
        Input::PeerConnected {
            peer: STRANGER,
            dialled: None,
            credentials: Credentials { uid: OWN_UID, gids: vec![], pid: 9 },
        },
    );
    world.input(2, Input::PeerMessage { peer: STRANGER, message: hello(node(8), 1), descriptors: vec![] });
    let Some((_, Some(PeerMessage::Rejected(refusal)))) = world.to_strangers.get(1) else {
        panic!("{:?}", world.to_strangers)
    };
    assert!(refusal.to_string().contains("node 8 must not dial node 12"), "{refusal}");
}

#[test]
fn whoever_was_dialled_must_be_the_one() {
    let mut world = World::new(2, 1);
    world.start(1);
    world.input(1, Input::PeerSeen { node: node(4) });
    let credentials = Credentials { uid: OWN_UID, gids: vec![], pid: 9 };
    world.input(1, Input::PeerConnected { peer: STRANGER, dialled: Some(node(4)), credentials });
    world.input(1, Input::PeerMessage { peer: STRANGER, message: hello(node(12), 1), descriptors: vec![] });
    let refused = link(&world, 1, 4);
    assert_eq!(refused.session, SessionState::Refused);
    assert!(
        refused.reason.expect("a reason").contains("the socket of node 4 is held by the manager of node 12")
    );
}

#[test]
fn nothing_but_hello_comes_first() {
    for message in [
        PeerMessage::Heartbeat { sequence: 1, echo: None },
        PeerMessage::Member { group: proto::ids::GroupId(1), joined: true },
    ] {
        let mut world = World::up(1, 1);
        stranger_connects(&mut world, STRANGER);
        stranger_says(&mut world, STRANGER, message);
        assert!(world.to_strangers.contains(&(STRANGER, None)));
        assert_eq!(world.status(0).counters.protocol_errors, 1);
    }
    let mut world = World::up(1, 1);
    stranger_connects(&mut world, STRANGER);
    world.run_for(Duration::from_secs(31));
    assert!(world.to_strangers.contains(&(STRANGER, None)), "nor nothing at all");
}

#[test]
fn hello_comes_once() {
    let mut world = World::up(1, 1);
    stranger_connects(&mut world, STRANGER);
    stranger_says(&mut world, STRANGER, hello(node(8), 1));
    assert_eq!(link(&world, 0, 8).session, SessionState::Valid);
    stranger_says(&mut world, STRANGER, hello(node(8), 1));
    assert_eq!(link(&world, 0, 8).session, SessionState::Lost);
    assert!(world.to_strangers.contains(&(STRANGER, None)));
}

#[test]
fn a_second_connection_takes_the_place_of_the_first() {
    for incarnation in [1, 2] {
        let mut world = World::up(1, 1);
        stranger_connects(&mut world, STRANGER);
        stranger_says(&mut world, STRANGER, hello(node(8), 1));
        let second = PeerConn(STRANGERS + 1);
        stranger_connects(&mut world, second);
        stranger_says(&mut world, second, hello(node(8), incarnation));
        let now = link(&world, 0, 8);
        assert_eq!((now.session, now.generation), (SessionState::Valid, 3), "down and up again");
        assert!(world.to_strangers.contains(&(STRANGER, None)));
        // What the first one still says or does is nobody's business.
        stranger_says(&mut world, STRANGER, PeerMessage::Bye);
        world.input(0, Input::PeerGone { peer: STRANGER });
        assert_eq!(link(&world, 0, 8).session, SessionState::Valid);
    }
}

#[test]
fn rules_broken_end_the_connection_and_not_the_manager() {
    let breaches: [fn(&mut World); 2] = [
        |world| {
            let descriptors = world.receive(0, &[memory(1)]);
            let message = PeerMessage::Heartbeat { sequence: 1, echo: None };
            world.input(0, Input::PeerMessage { peer: STRANGER, message, descriptors });
        },
        |world| {
            let descriptors = world.receive(0, &[memory(1)]);
            let error = CodecError::Malformed("nonsense".to_owned());
            world.input(0, Input::PeerGarbage { peer: STRANGER, error, descriptors });
        },
    ];
    for breach in breaches {
        let mut world = World::up(1, 1);
        stranger_connects(&mut world, STRANGER);
        stranger_says(&mut world, STRANGER, hello(node(8), 1));
        breach(&mut world);
        assert_eq!(link(&world, 0, 8).session, SessionState::Lost);
        assert_eq!(world.status(0).counters.protocol_errors, 1);
        assert!(world.nodes[0].tokens.is_empty());
        assert!(world.to_strangers.contains(&(STRANGER, None)));
    }
}

#[test]
fn strangers_have_a_bound() {
    let mut world = World::new(1, 1);
    world.start(0);
    for number in 0..4097 {
        let credentials = Credentials { uid: OWN_UID, gids: vec![], pid: 9 };
        let peer = PeerConn(STRANGERS + number);
        world.nodes[0]
            .manager
            .as_mut()
            .expect("it runs")
            .handle(world.now, Input::PeerConnected { peer, dialled: None, credentials });
    }
    world.input(0, Input::PeerSeen { node: node(8) });
    let closed: Vec<_> = world.to_strangers.iter().filter(|(_, message)| message.is_none()).collect();
    assert_eq!(closed, [&(PeerConn(STRANGERS + 4096), None)]);
}

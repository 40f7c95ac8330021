//! Resumption that meets further trouble: goodbyes, hung managers, numbers given away, deaths on the way.

use std::time::Duration;

use proto::ids::InterruptNo;
use proto::manager::{Credentials, Input, PeerConn};
use proto::wire::peer::{PeerMessage, PeerRequest, Requester};
use proto::wire::program::{
    ConnectionId, Imported, Incarnation, InterruptKind, LossReason, Refusal, Request,
};

use crate::helpers::{connect_interrupt, node, offer, offer_interrupt, segment};
use crate::resume::{SEGMENT_1, connected, connections, departures, ended, losses};
use crate::world::{GRACE, LIMIT, OWN_UID, STRANGERS, World};

#[test]
fn a_goodbye_ends_what_a_crash_does_not() {
    let (mut world, owner, importer) = connected(1);
    world.stop(0);
    world.run_for(Duration::from_millis(100));
    assert_eq!(losses(&mut world, importer), [LossReason::NodeLost]);
    world.start(0);
    world.run_for(GRACE * 3);
    assert_eq!(connections(&world), 0);
    let _ = owner;

    let (mut world, owner, importer) = connected(1);
    world.stop(1);
    world.run_for(Duration::from_millis(100));
    assert_eq!(departures(&mut world, owner), [false]);
    world.start(1);
    world.run_for(GRACE * 3);
    assert_eq!(connections(&world), 0);
    assert_eq!(losses(&mut world, importer), [LossReason::NodeLost]);
}

#[test]
fn a_manager_that_starts_slowly_extends_its_grace() {
    for timers_first in [false, true] {
        let (mut world, owner, importer) = connected(0);
        world.actors[owner].returns = false;
        world.kill(0);
        world.start(0);
        world.hang(0);
        world.run_for(GRACE * 5);
        if timers_first {
            world.unhang_late(0);
        } else {
            world.unhang(0);
        }
        world.run_for(GRACE / 2);
        world.try_attach(owner);
        world.run_for(GRACE * 3);
        assert_eq!((ended(&world, importer), connections(&world)), (None, 1));
    }
}

#[test]
fn connections_from_before_a_restart_end_with_all_others() {
    let (mut world, owner, importer) = connected(1);
    world.part(0, 1);
    world.kill(0);
    world.start(0);
    world.run_for(GRACE);
    let close = Request::SetAvailable { key: segment(1), available: false, disconnect: true };
    world.ask(owner, close).expect("closed");
    world.heal();
    world.run_for(GRACE * 2);
    assert_eq!(losses(&mut world, importer), [LossReason::Withdrawn]);
    assert_eq!(connections(&world), 0);
}

#[test]
fn a_producer_that_returns_when_its_number_is_given_away_is_turned_away() {
    let mut world = World::up(3, 3);
    let (owner, first, second) = (world.attach(0), world.attach(1), world.attach(2));
    offer_interrupt(&mut world, owner, 7, InterruptKind::Data);
    connect_interrupt(&mut world, first, 4, 7).expect("connected");
    world.run_for(Duration::from_millis(50));
    // The owner has forgotten its producer, and the producer's node is away until the grace is over.
    let what = Imported::Interrupt(InterruptNo(7));
    world.actors[owner].objects.get_mut(&what).expect("it owns it").connections.clear();
    world.part(0, 1);
    world.kill(0);
    world.start(0);
    world.run_for(GRACE * 2);
    assert_eq!(connect_interrupt(&mut world, second, 4, 7).expect("connected").2, 0, "the same number");
    world.heal();
    world.run_for(GRACE * 2);
    assert_eq!(losses(&mut world, first), [LossReason::Withdrawn]);
    assert_eq!(world.actors[owner].objects[&what].connections.len(), 1);
}

#[test]
fn a_manager_that_hangs_as_it_returns_is_waited_for_and_no_longer() {
    for importer_dies in [false, true] {
        let (mut world, owner, importer) = connected(1);
        world.kill(1);
        world.actors[importer].returns = !importer_dies;
        if importer_dies {
            world.kill_program(importer);
        }
        world.start(1);
        world.run_until("a session", World::all_valid);
        world.hang(1);
        world.run_for(GRACE * 4);
        assert_eq!(departures(&mut world, owner), []);
        world.unhang(1);
        world.run_for(GRACE * 3);
        let expected: &[bool] = if importer_dies { &[true] } else { &[] };
        assert_eq!(departures(&mut world, owner), expected);
    }
}

#[test]
fn what_goes_on_unverified_is_verified_when_a_silent_session_speaks_again() {
    let (mut world, owner, importer) = connected(1);
    // The program is away for so long that the exporter gives up.
    world.actors[importer].returns = false;
    world.kill(1);
    world.start(1);
    world.run_for(GRACE * 3);
    assert_eq!(departures(&mut world, owner), [true]);
    world.hang(0);
    world.run_for(LIMIT * 2);
    world.try_attach(importer);
    world.run_for(LIMIT);
    assert_eq!(ended(&world, importer), None, "nobody can say otherwise");
    world.unhang(0);
    world.run_for(LIMIT);
    assert_eq!(losses(&mut world, importer), [LossReason::Withdrawn]);
}

#[test]
fn a_program_that_dies_while_its_resumption_waits_leaves_nothing() {
    for place in [0, 1] {
        let (mut world, owner, importer) = connected(place);
        world.actors[owner].objects.get_mut(&SEGMENT_1).expect("it owns it").connections.clear();
        for actor in [owner, importer] {
            world.actors[actor].returns = false;
        }
        for index in [0, 1] {
            world.kill(index);
            world.start(index);
        }
        world.run_until("a session", World::all_valid);
        world.try_attach(importer);
        world.run_for(GRACE / 4);
        assert!(!world.actors[importer].outstanding.is_empty(), "it waits");
        world.kill_program(importer);
        world.run_for(GRACE / 4);
        world.try_attach(owner);
        world.run_for(GRACE / 4);
        assert_eq!((world.status(0).segments_total, connections(&world)), (1, 0));
    }
}

#[test]
fn what_is_given_up_while_its_resumption_is_under_way_is_given_back() {
    for dies in [false, true] {
        let (mut world, owner, importer) = connected(1);
        world.kill(1);
        world.start(1);
        world.run_until("a session", World::all_valid);
        world.hang(0);
        // The resumption is in the hung manager's socket; after a while the import goes on without an answer.
        world.run_for(LIMIT * 2);
        let import =
            world.actors[importer].imports.values().next().and_then(|held| held.slot).expect("a slot");
        if dies {
            world.kill_program(importer);
        } else {
            world.ask(importer, Request::Disconnect { import }).expect("done");
        }
        world.unhang(0);
        world.run_for(GRACE * 3);
        assert_eq!(connections(&world), 0);
        assert_eq!(departures(&mut world, owner), [dies]);
    }
}

#[test]
fn a_program_that_re_attaches_while_nodes_are_parted_keeps_what_it_had() {
    let (mut world, owner, importer) = connected(1);
    world.part(0, 1);
    world.run_for(LIMIT * 2);
    // Its manager closes the connection, and it comes back.
    world.send_raw(importer, b"nonsense".to_vec(), vec![]);
    world.run_for(LIMIT);
    assert!(world.actors[importer].attached && world.actors[importer].rejected.is_some());
    world.heal();
    world.run_for(GRACE * 2);
    assert_eq!((ended(&world, importer), connections(&world)), (None, 1));
    assert_eq!(departures(&mut world, owner), []);
}

#[test]
fn nothing_of_a_stopped_node_is_resumed() {
    let (mut world, _, importer) = connected(1);
    world.stop(0);
    world.run_for(LIMIT);
    let (connection, incarnation) = (ConnectionId(5), Incarnation(1));
    let resume = Request::ResumeImport { node: node(4), connection, incarnation, what: SEGMENT_1 };
    assert!(matches!(world.ask(importer, resume), Err(Refusal::NotFound { .. })));
}

#[test]
fn who_is_just_saying_what_goes_on_is_not_interrupted() {
    let mut world = World::up(1, 3);
    let owner = world.attach(0);
    offer(&mut world, owner, segment(1));
    let requester = || Requester { uid: OWN_UID, gids: vec![], pid: 7, name: String::new() };
    let hello = PeerMessage::Hello {
        node: node(8),
        incarnation: Incarnation(1),
        cluster: "default".to_owned(),
        host: "there".to_owned(),
    };
    let conns = [PeerConn(STRANGERS), PeerConn(STRANGERS + 1)];
    let greet = |world: &mut World, peer| {
        let credentials = Credentials { uid: OWN_UID, gids: vec![], pid: 9 };
        world.input(0, Input::PeerConnected { peer, dialled: None, credentials });
        world.input(0, Input::PeerMessage { peer, message: hello.clone(), descriptors: vec![] });
    };
    let say = |world: &mut World, peer, message| {
        world.input(0, Input::PeerMessage { peer, message, descriptors: vec![] });
    };
    greet(&mut world, conns[0]);
    let body = PeerRequest::ConnectSegment { key: segment(1), requester: requester() };
    say(&mut world, conns[0], PeerMessage::Request { id: 1, body });
    // The time that the node had since its first hello ends between its second hello and its list.
    world.run_for(GRACE + LIMIT - Duration::from_millis(10));
    let connection = *world.actors[owner].objects[&SEGMENT_1].connections.keys().next().expect("connected");
    greet(&mut world, conns[1]);
    world.run_for(Duration::from_millis(20));
    let (incarnation, what) = (Incarnation(1001), SEGMENT_1);
    let body = PeerRequest::Resume { connection, incarnation, what, requester: requester() };
    say(&mut world, conns[1], PeerMessage::Request { id: 2, body });
    say(&mut world, conns[1], PeerMessage::Heartbeat { sequence: 1, echo: None });
    assert_eq!(connections(&world), 1);
    // On the next connection it does not name it any more.
    greet(&mut world, conns[0]);
    assert_eq!(connections(&world), 1);
    say(&mut world, conns[0], PeerMessage::Heartbeat { sequence: 2, echo: None });
    assert_eq!(connections(&world), 0);
}

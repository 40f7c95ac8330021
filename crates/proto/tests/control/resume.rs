//! Managers die, hang, are parted and return: what goes on, what is over, and who is told.

use std::time::Duration;

use proto::ids::{InterruptNo, SegmentId, SegmentKey};
use proto::manager::{Credentials, Input, PeerConn};
use proto::wire::peer::{PeerMessage, PeerRequest, Requester};
use proto::wire::program::{
    ConnectionId, Event, Imported, Incarnation, InterruptKind, LossReason, Refusal, Reply, Request,
};

use crate::helpers::{connect, connect_interrupt, node, offer, offer_interrupt, segment, try_connect};
use crate::world::{GRACE, LIMIT, OWN_UID, STRANGERS, World};

const SEGMENT_1: Imported = Imported::Segment(SegmentKey::Segment(SegmentId(1)));

/// An owner on node 4, an importer on node 8 (or on the same), connected.
fn connected(place: usize) -> (World, usize, usize) {
    let mut world = World::up(2, 3);
    let (owner, importer) = (world.attach(0), world.attach(place));
    offer(&mut world, owner, segment(1));
    connect(&mut world, importer, 4, segment(1));
    world.run_for(Duration::from_millis(50));
    world.actors[owner].events.clear();
    world.actors[importer].events.clear();
    (world, owner, importer)
}

fn ended(world: &World, importer: usize) -> Option<LossReason> {
    let actor = &world.actors[importer];
    let held = actor.imports.values().next().or(actor.not_resumed.first().map(|(_, held)| held));
    held.expect("an import").ended
}

fn connections(world: &World) -> u32 {
    world.status(0).segments.iter().map(|segment| segment.connections).sum()
}

fn losses(world: &mut World, actor: usize) -> Vec<LossReason> {
    let events = world.events(actor).into_iter();
    events
        .filter_map(|event| if let Event::Lost { reason, .. } = event { Some(reason) } else { None })
        .collect()
}

/// How many went away, by death or by choice.
fn departures(world: &mut World, actor: usize) -> Vec<bool> {
    let events = world.events(actor).into_iter();
    events
        .filter_map(|event| if let Event::Disconnected { died, .. } = event { Some(died) } else { None })
        .collect()
}

#[test]
fn the_death_of_either_manager_or_of_both_is_no_loss() {
    for dead in [vec![0], vec![1], vec![0, 1]] {
        let (mut world, owner, importer) = connected(1);
        for &index in &dead {
            world.kill(index);
        }
        world.run_for(Duration::from_secs(20));
        assert_eq!(losses(&mut world, importer), []);
        for &index in &dead {
            world.start(index);
        }
        world.run_for(GRACE * 3);
        assert_eq!(losses(&mut world, importer), []);
        assert_eq!(departures(&mut world, owner), []);
        assert_eq!((ended(&world, importer), connections(&world)), (None, 1));
        // It is the same connection still: its end is told.
        world.kill_program(owner);
        world.run_for(Duration::from_millis(50));
        assert_eq!(losses(&mut world, importer), [LossReason::OwnerDied]);
    }
}

#[test]
fn within_a_node_too() {
    let (mut world, owner, importer) = connected(0);
    world.kill(0);
    world.run_for(Duration::from_secs(5));
    world.start(0);
    world.run_for(GRACE * 2);
    assert_eq!((ended(&world, importer), connections(&world)), (None, 1));
    assert_eq!(departures(&mut world, owner), []);
    world.kill_program(importer);
    world.run_for(Duration::from_millis(50));
    assert_eq!(departures(&mut world, owner), [true]);
}

#[test]
fn an_owner_that_died_in_the_gap_is_reported() {
    for place in [0, 1] {
        let (mut world, owner, importer) = connected(place);
        world.kill(0);
        world.kill_program(owner);
        world.run_for(Duration::from_secs(5));
        assert_eq!(ended(&world, importer), None, "nothing is known as long as its manager is gone");
        world.start(0);
        world.run_for(GRACE / 2);
        assert_eq!(ended(&world, importer), None, "it might re-attach yet");
        world.run_for(GRACE);
        assert_eq!(ended(&world, importer), Some(LossReason::OwnerDied));
    }
}

#[test]
fn an_importer_that_died_in_the_gap_is_reported() {
    for (dead, place) in [(vec![1], 1), (vec![0, 1], 1), (vec![0], 0)] {
        let (mut world, owner, importer) = connected(place);
        for &index in &dead {
            world.kill(index);
        }
        world.kill_program(importer);
        world.run_for(Duration::from_secs(5));
        for &index in &dead {
            world.start(index);
        }
        world.run_for(GRACE + LIMIT + LIMIT);
        assert_eq!(departures(&mut world, owner), [true], "managers {dead:?}");
        assert_eq!(connections(&world), 0);
    }
}

#[test]
fn an_importer_that_re_attaches_while_the_exporters_manager_is_gone_goes_on_and_is_verified_later() {
    for owner_dies in [false, true] {
        let (mut world, owner, importer) = connected(1);
        world.kill(0);
        world.kill(1);
        world.start(1);
        world.run_for(GRACE * 3);
        let slot = world.actors[importer].imports.values().next().expect("it goes on").slot;
        assert!(world.nodes[1].page.alive(slot.expect("it has a slot")));
        if owner_dies {
            world.kill_program(owner);
        }
        world.start(0);
        world.run_for(GRACE * 2);
        let expected = owner_dies.then_some(LossReason::OwnerDied);
        assert_eq!(ended(&world, importer), expected);
    }
}

#[test]
fn a_node_that_is_never_seen_again_is_lost() {
    let mut world = World::up(2, 1);
    let actor = world.attach(1);
    let (connection, incarnation) = (ConnectionId(5), Incarnation(1));
    let resume = Request::ResumeImport { node: node(20), connection, incarnation, what: SEGMENT_1 };
    // The actor must know it to be told.
    let held = crate::actor::Held { slot: None, incarnation, what: SEGMENT_1, since: world.now, ended: None };
    world.actors[actor].imports.insert((node(20), connection), held);
    let Ok(Reply::Resumed { import }) = world.ask(actor, resume) else { panic!("it goes on at first") };
    world.run_for(GRACE - Duration::from_millis(100));
    assert!(world.nodes[1].page.alive(import));
    assert_eq!(world.status(1).links.len(), 1, "nobody has seen that node");
    world.run_for(Duration::from_millis(200));
    assert_eq!(losses(&mut world, actor), [LossReason::NodeLost]);
}

#[test]
fn what_happens_while_nodes_are_parted_is_told_afterwards_with_its_reason() {
    for cut in [false, true] {
        for (body, reason) in [
            (Request::RemoveSegment { key: segment(1), force: true }, LossReason::Removed),
            (
                Request::SetAvailable { key: segment(1), available: false, disconnect: true },
                LossReason::Withdrawn,
            ),
        ] {
            let (mut world, owner, importer) = connected(1);
            world.part(0, 1);
            world.run_for(LIMIT * 3);
            world.ask(owner, body).expect("done");
            world.run_for(LIMIT);
            assert_eq!(losses(&mut world, importer), []);
            if cut {
                world.cut(0, 1);
            }
            world.heal();
            world.run_for(LIMIT);
            assert_eq!(losses(&mut world, importer), [reason]);
        }
        for died in [false, true] {
            let (mut world, owner, importer) = connected(1);
            world.part(0, 1);
            world.run_for(LIMIT * 3);
            if died {
                world.kill_program(importer);
            } else {
                let import = world.actors[importer].imports.values().next().and_then(|held| held.slot);
                world.ask(importer, Request::Disconnect { import: import.expect("a slot") }).expect("done");
            }
            if cut {
                world.cut(0, 1);
            }
            world.heal();
            world.run_for(LIMIT);
            assert_eq!(departures(&mut world, owner), [died]);
            assert_eq!(connections(&world), 0);
        }
    }
}

#[test]
fn what_was_lost_with_a_connection_is_found_out() {
    // The news that the segment is gone is under way when the connection is cut.
    let (mut world, owner, importer) = connected(1);
    let id = world.request(owner, Request::RemoveSegment { key: segment(1), force: true }, vec![]);
    world.answer(owner, id).expect("removed");
    world.cut(0, 1);
    world.run_for(LIMIT * 2);
    assert_eq!(losses(&mut world, importer), [LossReason::OwnerDied]);
    // And so is the news that the importer is gone.
    let (mut world, owner, importer) = connected(1);
    world.kill_program(importer);
    world.run_until("released", |world| world.status(1).programs_total == 0);
    world.cut(0, 1);
    world.run_for(GRACE * 2);
    assert_eq!(departures(&mut world, owner), [true]);
}

#[test]
fn new_connections_fail_while_the_manager_is_gone_and_work_when_it_is_back() {
    let (mut world, _, importer) = connected(1);
    world.kill(0);
    world.run_for(Duration::from_secs(1));
    assert!(matches!(try_connect(&mut world, importer, 4, segment(1)), Err(Refusal::Unreachable { .. })));
    world.start(0);
    world.run_for(Duration::from_secs(1));
    connect(&mut world, importer, 4, segment(1));
    assert_eq!(connections(&world), 2);
}

#[test]
fn a_restarted_owner_is_not_mistaken_for_the_old_one() {
    let (mut world, owner, importer) = connected(1);
    world.kill(0);
    world.kill_program(owner);
    world.start(0);
    let other = world.attach(0);
    let create = Request::CreateSegment {
        key: segment(1),
        size_bytes: 4096,
        access: Default::default(),
        incarnation: Incarnation(77),
        available: true,
    };
    world.ask_with(other, create, vec![crate::actor::memory(4096)]).expect("created");
    world.run_for(GRACE / 2);
    assert_eq!(ended(&world, importer), Some(LossReason::OwnerDied), "before the grace is over");
}

#[test]
fn resuming_what_was_ended_here_is_refused() {
    for place in [0, 1] {
        let (mut world, owner, importer) = connected(place);
        let (_, connection) = *world.actors[importer].imports.keys().next().expect("one");
        let import = world.actors[importer].imports.values().next().and_then(|held| held.slot);
        let resume = |incarnation| Request::ResumeImport {
            node: node(4),
            connection,
            incarnation: Incarnation(incarnation),
            what: SEGMENT_1,
        };
        assert!(matches!(world.ask(importer, resume(1001)), Err(Refusal::Invalid(_))), "it is held");
        world.ask(importer, Request::Disconnect { import: import.expect("a slot") }).expect("done");
        assert!(matches!(world.ask(importer, resume(1001)), Err(Refusal::NotAvailable { .. })));
        assert!(matches!(world.ask(importer, resume(5)), Err(Refusal::NotFound { .. })), "another object");
        assert_eq!(connections(&world), 0);
        let _ = owner;
    }
}

#[test]
fn an_owner_names_only_connections_of_its_own_objects_and_in_time() {
    let (mut world, owner, importer) = connected(1);
    let (_, connection) = *world.actors[importer].imports.keys().next().expect("one");
    let name = |connection| Request::ResumeExport { what: SEGMENT_1, node: node(8), connection };
    assert_eq!(world.ask(owner, name(connection)), Ok(Reply::Done), "it is there");
    assert!(matches!(world.ask(importer, name(connection)), Err(Refusal::NotFound { .. })));
    world.run_for(GRACE);
    assert!(
        matches!(world.ask(owner, name(ConnectionId(1 << 20))), Err(Refusal::NotFound { .. })),
        "too late"
    );
    assert_eq!(connections(&world), 1);
}

#[test]
fn a_producer_keeps_its_number_and_nobody_else_gets_it() {
    let mut world = World::up(2, 3);
    let (owner, first, second) = (world.attach(0), world.attach(1), world.attach(1));
    offer_interrupt(&mut world, owner, 7, InterruptKind::Data);
    offer_interrupt(&mut world, owner, 8, InterruptKind::Plain);
    assert_eq!(connect_interrupt(&mut world, first, 4, 7).expect("connected").2, 0);
    assert_eq!(connect_interrupt(&mut world, second, 4, 7).expect("connected").2, 1);
    world.kill(0);
    world.run_for(Duration::from_secs(1));
    world.start(0);
    world.run_for(GRACE / 2);
    // Not all producers are known yet; of a counter they need not be.
    let settling = connect_interrupt(&mut world, first, 4, 7).expect_err("not yet");
    assert!(matches!(settling, Refusal::NotAvailable { .. }), "{settling}");
    connect_interrupt(&mut world, first, 4, 8).expect("a counter takes anybody");
    world.run_for(GRACE);
    assert_eq!(connect_interrupt(&mut world, first, 4, 7).expect("connected").2, 2);
    world.run_for(Duration::from_millis(50));
    let what = Imported::Interrupt(InterruptNo(7));
    let known: Vec<u16> =
        world.actors[owner].objects[&what].connections.values().map(|one| one.number).collect();
    assert_eq!(known.len(), 3);
}

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
    say(&mut world, conns[1], PeerMessage::Heartbeat { sequence: 1 });
    assert_eq!(connections(&world), 1);
    // On the next connection it does not name it any more.
    greet(&mut world, conns[0]);
    assert_eq!(connections(&world), 1);
    say(&mut world, conns[0], PeerMessage::Heartbeat { sequence: 2 });
    assert_eq!(connections(&world), 0);
}

//! Managers die, hang, are parted and return: what continues, what is over, and who is told.

use std::time::Duration;

use proto::ids::{InterruptNo, SegmentId, SegmentKey};
use proto::wire::program::{
    ConnectionId, Event, Imported, Incarnation, InterruptKind, LossReason, Refusal, Reply, Request,
};

use crate::helpers::{connect, connect_interrupt, node, offer, offer_interrupt, segment, try_connect};
use crate::world::{GRACE, LIMIT, World};

pub const SEGMENT_1: Imported = Imported::Segment(SegmentKey::Segment(SegmentId(1)));

/// An owner on node 4, an importer on node 8 (or on the same), connected.
pub fn connected(place: usize) -> (World, usize, usize) {
    let mut world = World::up(2, 3);
    let (owner, importer) = (world.attach(0), world.attach(place));
    offer(&mut world, owner, segment(1));
    connect(&mut world, importer, 4, segment(1));
    world.run_for(Duration::from_millis(50));
    world.actors[owner].events.clear();
    world.actors[importer].events.clear();
    (world, owner, importer)
}

pub fn ended(world: &World, importer: usize) -> Option<LossReason> {
    let actor = &world.actors[importer];
    let held = actor.imports.values().next().or(actor.not_resumed.first().map(|(_, held)| held));
    held.expect("an import").ended
}

pub fn connections(world: &World) -> u32 {
    world.status(0).segments.iter().map(|segment| segment.connections).sum()
}

pub fn losses(world: &mut World, actor: usize) -> Vec<LossReason> {
    let events = world.events(actor).into_iter();
    events
        .filter_map(|event| if let Event::Lost { reason, .. } = event { Some(reason) } else { None })
        .collect()
}

/// How many went away, by death or by choice.
pub fn departures(world: &mut World, actor: usize) -> Vec<bool> {
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
    let held = crate::actor::Held {
        slot: None,
        incarnation,
        what: SEGMENT_1,
        since: world.now,
        ended: None,
        attached: false,
    };
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
        shared: false,
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
    let who = world.importer(importer);
    let name =
        |connection| Request::ResumeExport { what: SEGMENT_1, node: node(8), connection, importer: who };
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

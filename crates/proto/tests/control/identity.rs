//! Whose a connection is: a number that is known or guessed is not enough to continue with it.

use std::time::Duration;

use proto::ids::InterruptNo;
use proto::manager::{Credentials, Input, Output, ProgramConn};
use proto::wire::program::{
    Imported, Incarnation, InterruptKind, Refusal, Reply, Request, ToManager, ToProgram,
};

use crate::helpers::{connect_interrupt, node, offer_interrupt};
use crate::resume::{SEGMENT_1, connected, connections, ended};
use crate::world::{GRACE, OWN_UID, World};

/// A neighbour of the importer that asks for its connection.
fn steal(world: &mut World, thief: usize, importer: usize) -> Result<Reply, Refusal> {
    let (_, connection) = *world.actors[importer].imports.keys().next().expect("one");
    let incarnation = Incarnation(1001);
    world.ask(thief, Request::ResumeImport { node: node(4), connection, incarnation, what: SEGMENT_1 })
}

#[test]
fn a_neighbours_connection_is_not_resumed_for_another_process() {
    for place in [0, 1] {
        let (mut world, _, importer) = connected(place);
        let thief = world.attach(place);
        let (slow, fast) = (importer, thief);
        // The managers of both nodes are restarted, and the importer is late: only its neighbour asks.
        world.actors[slow].returns = false;
        for index in [0, 1] {
            world.kill(index);
        }
        world.run_for(Duration::from_millis(200));
        for index in [0, 1] {
            world.start(index);
        }
        world.run_until("back", |world| world.actors[fast].attached && world.all_valid());
        world.run_for(Duration::from_millis(400));
        let refused = steal(&mut world, thief, importer).expect_err("it is another process's");
        assert!(matches!(refused, Refusal::NotFound { .. }), "{refused}");
        world.actors[slow].returns = true;
        world.try_attach(slow);
        world.run_for(GRACE * 2);
        assert_eq!((connections(&world), ended(&world, importer)), (1, None), "the right one goes on");
    }
}

#[test]
fn who_asks_before_the_owner_is_back_waits_and_gets_nothing_that_is_anothers() {
    let (mut world, owner, importer) = connected(1);
    let thief = world.attach(1);
    world.actors[importer].returns = false;
    world.actors[owner].returns = false;
    for index in [0, 1] {
        world.kill(index);
    }
    world.run_for(Duration::from_millis(200));
    for index in [0, 1] {
        world.start(index);
    }
    world.run_until("back", |world| world.actors[thief].attached && world.all_valid());
    let (_, connection) = *world.actors[importer].imports.keys().next().expect("one");
    let incarnation = Incarnation(1001);
    let body = Request::ResumeImport { node: node(4), connection, incarnation, what: SEGMENT_1 };
    let id = world.request(thief, body, Vec::new());
    world.run_for(Duration::from_millis(100));
    assert!(!world.actors[thief].replies.contains_key(&id), "the owner has yet to say whose it is");
    // Now both come, the importer last.
    for actor in [owner, importer] {
        world.actors[actor].returns = true;
        world.try_attach(actor);
        world.run_for(Duration::from_millis(50));
    }
    world.run_for(GRACE * 3);
    let (answer, _) = world.actors[thief].replies.remove(&id).expect("answered");
    assert!(matches!(answer, Err(Refusal::NotFound { .. })), "{answer:?}");
    assert_eq!((connections(&world), ended(&world, importer)), (1, None));
}

#[test]
fn the_process_number_of_another_user_is_not_enough() {
    let (mut world, _, importer) = connected(1);
    let pid = world.actors[importer].credentials.pid;
    let namesake = world.spawn(1, Credentials { uid: 0, gids: vec![], pid }, "namesake");
    world.try_attach(namesake);
    world.run_until("attached", |world| world.actors[namesake].attached);
    let import = world.actors[importer].imports.values().next().and_then(|held| held.slot);
    assert!(import.is_some() && pid != 0 && OWN_UID != 0);
    // Its own manager forgets the importer; the exporter's does not.
    world.actors[importer].returns = false;
    world.kill(1);
    world.run_for(Duration::from_millis(50));
    world.start(1);
    world.run_until("back", |world| world.actors[namesake].attached && world.all_valid());
    let refused = steal(&mut world, namesake, importer).expect_err("another user");
    assert!(matches!(refused, Refusal::NotFound { .. }), "{refused}");
}

#[test]
fn a_producers_number_is_not_taken_over_in_the_gap() {
    let mut world = World::up(2, 5);
    let (owner, producer, thief) = (world.attach(0), world.attach(1), world.attach(1));
    offer_interrupt(&mut world, owner, 7, InterruptKind::Data);
    let (_, connection, number) = connect_interrupt(&mut world, producer, 4, 7).expect("connected");
    world.run_for(Duration::from_millis(50));
    world.actors[producer].returns = false;
    for index in [0, 1] {
        world.kill(index);
    }
    world.run_for(Duration::from_millis(50));
    for index in [0, 1] {
        world.start(index);
    }
    world.run_until("back", |world| world.actors[thief].attached && world.all_valid());
    let what = Imported::Interrupt(InterruptNo(7));
    let incarnation = Incarnation(3007);
    let resume = Request::ResumeImport { node: node(4), connection, incarnation, what };
    assert!(matches!(world.ask(thief, resume), Err(Refusal::NotFound { .. })));
    world.actors[producer].returns = true;
    world.try_attach(producer);
    world.run_for(GRACE * 2);
    let known = &world.actors[owner].objects[&what].connections;
    assert_eq!(known.values().map(|one| one.number).collect::<Vec<_>>(), [number]);
    assert_eq!(known.values().map(|one| one.importer).collect::<Vec<_>>(), [world.importer(producer)]);
}

#[test]
fn a_death_in_the_gap_that_can_be_proved_is_reported_at_once() {
    for place in [0, 1] {
        let (mut world, owner, importer) = connected(place);
        world.kill(0);
        world.run_for(Duration::from_millis(50));
        world.kill_program(importer);
        world.run_for(Duration::from_millis(20));
        world.start(0);
        world.run_until("back", |world| world.actors[owner].attached && world.all_valid());
        world.run_for(GRACE / 4);
        let known = &world.actors[owner].objects[&SEGMENT_1].connections;
        assert!(known.is_empty(), "well within the grace: {known:?}");
        assert_eq!(connections(&world), 0);
    }
}

#[test]
fn who_shows_a_connection_first_while_its_node_is_away_does_not_get_it() {
    let (mut world, _, importer) = connected(1);
    let thief = world.attach(1);
    world.actors[importer].returns = false;
    world.kill(0);
    world.kill(1);
    world.run_for(Duration::from_millis(50));
    world.start(1);
    world.run_until("back", |world| world.actors[thief].attached);
    let (_, connection) = *world.actors[importer].imports.keys().next().expect("one");
    let incarnation = Incarnation(1001);
    let resume = Request::ResumeImport { node: node(4), connection, incarnation, what: SEGMENT_1 };
    let right = world.spawn(1, world.actors[importer].credentials.clone(), "right");
    world.try_attach(right);
    world.run_until("attached", |world| world.actors[right].attached);
    let conn = |actor: usize| ProgramConn(world.actors[actor].channel.expect("attached"));
    let (thief, right, now) = (conn(thief), conn(right), world.now);
    let mut manager = world.nodes[1].manager.take().expect("it runs");
    let mut ask = |program| {
        let message = ToManager::Request { id: 1, body: resume.clone() };
        manager.handle(now, Input::ProgramMessage { program, message, descriptors: vec![] });
        std::iter::from_fn(|| manager.poll_output()).find_map(|output| match output {
            Output::ToProgram { message: ToProgram::Reply { result, .. }, .. } => Some(result),
            _ => None,
        })
    };
    // Granted, until node 4 says whose it is.
    assert!(matches!(ask(thief), Some(Ok(Reply::Resumed { .. }))));
    let said = ask(right);
    assert!(matches!(said, Some(Err(Refusal::Unreachable { .. }))), "it may ask again: {said:?}");
}

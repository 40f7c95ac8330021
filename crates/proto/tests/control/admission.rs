//! Who gets a place: strangers, single processes and other users do not lock everybody else out.

use std::time::Duration;

use proto::manager::Credentials;
use proto::wire::program::{Access, ConnectionId, Imported, Incarnation, Refusal, Request, ToManager};

use crate::helpers::{node, offer, segment, try_connect};
use crate::world::{OWN_UID, World};

fn who(uid: u32, pid: u32) -> Credentials {
    Credentials { uid, gids: vec![100], pid }
}

/// Tries to attach; whether it could.
fn attach_as(world: &mut World, uid: u32, pid: u32) -> bool {
    let actor = world.spawn(0, who(uid, pid), "guest");
    world.actors[actor].returns = false;
    world.try_attach(actor);
    world.run_for(Duration::from_millis(20));
    world.actors[actor].attached
}

#[test]
fn connections_without_a_hello_do_not_take_the_places_of_programs() {
    let mut world = World::up(1, 1);
    let silent: Vec<usize> = (0..200)
        .map(|_| {
            let actor = world.spawn(0, who(OWN_UID, 7), "silent");
            world.actors[actor].returns = false;
            world.connect(actor);
            world.run_for(Duration::from_millis(2));
            actor
        })
        .collect();
    // One of another process that is not quick is not the one to go.
    let slow = world.spawn(0, who(OWN_UID, 8), "slow");
    let channel = world.connect(slow);
    for _ in 0..20 {
        let actor = world.spawn(0, who(OWN_UID, 7), "silent");
        world.connect(actor);
        world.run_for(Duration::from_millis(2));
    }
    let letter = world.actors[slow].hello();
    world.send_letter(slow, channel, letter);
    world.run_for(Duration::from_millis(20));
    assert!(world.actors[slow].attached);
    let open = silent.iter().filter(|actor| world.actors[**actor].channel.is_some()).count();
    assert!(open <= 8, "{open} of 32 places for programs are held by strangers");
    assert!(world.actors[silent[0]].rejected.is_some(), "the oldest goes first");
    assert!(attach_as(&mut world, OWN_UID, 9));
}

#[test]
fn a_process_gets_half_of_the_places_and_another_user_a_quarter() {
    let mut world = World::new(1, 1);
    world.nodes[0].attach = Access { uids: vec![2000, 3000, 4000, 5000], gid: None };
    world.start(0);
    let many = |world: &mut World, uid: u32, pids: &dyn Fn(u32) -> u32| {
        (0..33).filter(|index| attach_as(world, uid, pids(*index))).count()
    };
    assert_eq!(many(&mut world, 2000, &|index| 100 + index), 8);
    assert_eq!(many(&mut world, 3000, &|index| 200 + index), 8);
    assert_eq!(many(&mut world, 4000, &|index| 300 + index), 8);
    assert_eq!(many(&mut world, 5000, &|index| 400 + index), 0, "all others have three quarters");
    assert_eq!(many(&mut world, OWN_UID, &|_| 7), 8, "the rest is the manager's own user's");

    let mut world = World::up(1, 1);
    assert_eq!(many(&mut world, OWN_UID, &|_| 7), 16);
    assert!(attach_as(&mut world, OWN_UID, 8), "another process still gets in");
}

#[test]
fn places_are_given_back() {
    let mut world = World::up(1, 1);
    for round in 0..3 {
        let actors: Vec<usize> = (0..16)
            .map(|_| {
                let actor = world.spawn(0, who(OWN_UID, 7), "guest");
                world.try_attach(actor);
                world.run_for(Duration::from_millis(20));
                assert!(world.actors[actor].attached, "round {round}");
                actor
            })
            .collect();
        assert!(!attach_as(&mut world, OWN_UID, 7));
        for actor in actors {
            world.kill_program(actor);
        }
        world.run_for(Duration::from_millis(20));
    }
}

#[test]
fn nobody_is_added_to_what_waits_for_a_program_that_does_not_read() {
    for place in [0, 1] {
        let mut world = World::up(2, 1);
        let (owner, importer) = (world.attach(0), world.attach(place));
        offer(&mut world, owner, segment(1));
        let (import, _) = try_connect(&mut world, importer, 4, segment(1)).expect("connected");
        world.run_for(Duration::from_millis(20));
        let program = proto::manager::ProgramConn(world.actors[owner].channel.expect("attached"));
        world.input(0, proto::manager::Input::ProgramCrowded { program, crowded: true });
        let busy = try_connect(&mut world, importer, 4, segment(1)).expect_err("not now");
        assert_eq!(busy, Refusal::OwnerBusy { what: "segment 1".to_owned(), node: node(4) });
        assert!(busy.to_string().contains("does not read"), "{busy}");
        // Nor does it help to show one as if it were from before a restart.
        let connection = ConnectionId(0x5555_0000);
        let incarnation = Incarnation(1001);
        let what = Imported::Segment(segment(1));
        let resume = Request::ResumeImport { node: node(4), connection, incarnation, what };
        let message = ToManager::Request { id: 99, body: resume };
        let told = world.actors[owner].events.len();
        if place == 0 {
            let program = proto::manager::ProgramConn(world.actors[importer].channel.expect("attached"));
            let input = proto::manager::Input::ProgramMessage { program, message, descriptors: vec![] };
            let (now, manager) = (world.now, world.nodes[0].manager.as_mut().expect("it runs"));
            manager.handle(now, input);
            let said = std::iter::from_fn(|| manager.poll_output()).collect::<Vec<_>>();
            assert!(format!("{said:?}").contains("OwnerBusy"), "{said:?}");
        }
        world.run_for(Duration::from_millis(20));
        assert_eq!(world.actors[owner].events.len(), told);
        // What was there before continues, and can end.
        world.ask(importer, Request::Disconnect { import }).expect("done");
        world.input(0, proto::manager::Input::ProgramCrowded { program, crowded: false });
        try_connect(&mut world, importer, 4, segment(1)).expect("it has caught up");
    }
}

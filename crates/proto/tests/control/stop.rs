//! The orderly end.

use std::time::Duration;

use proto::ids::InterruptNo;
use proto::manager::{Credentials, Input, Manager, Output, ProgramConn};
use proto::wire::program::{Access, Event, InterruptKind, LossReason, Reply, Request};

use crate::actor::memory;
use crate::helpers::{connect, connect_interrupt, offer, offer_interrupt, segment};
use crate::world::{OWN_UID, World};

#[test]
fn only_its_own_user_and_root_may_stop_a_manager() {
    for (uid, may) in [(OWN_UID, true), (0, true), (2000, false)] {
        let mut world = World::new(1, 1);
        world.nodes[0].attach = Access { uids: vec![2000], gid: None };
        world.start(0);
        let actor = world.spawn(0, Credentials { uid, gids: vec![], pid: 5 }, "admin");
        world.actors[actor].returns = false;
        world.try_attach(actor);
        world.run_until("attached", |world| world.actors[actor].attached);
        let answer = world.ask(actor, Request::Shutdown);
        world.run_for(Duration::from_millis(10));
        if may {
            assert_eq!(answer, Ok(Reply::Done));
            assert!(world.nodes[0].manager.is_none());
            assert!(!world.actors[actor].attached);
        } else {
            let text = answer.expect_err("refused").to_string();
            assert!(text.starts_with("user 2000 may not stop the manager of node 4"), "{text}");
            assert!(world.nodes[0].manager.is_some());
        }
    }
}

#[test]
fn everything_of_a_stopped_node_is_over_on_both_sides() {
    let mut world = World::up(2, 1);
    let (a, b, c) = (world.attach(0), world.attach(1), world.attach(0));
    for actor in [a, b, c] {
        world.actors[actor].returns = false;
    }
    offer(&mut world, a, segment(1));
    offer_interrupt(&mut world, a, 7, InterruptKind::Data);
    offer(&mut world, b, segment(2));
    let (from_a, _) = connect(&mut world, b, 4, segment(1));
    let (bell, ..) = connect_interrupt(&mut world, b, 4, 7).expect("connected");
    let (local, _) = connect(&mut world, c, 4, segment(1));
    let (from_b, _) = connect(&mut world, c, 8, segment(2));
    world.run_for(Duration::from_millis(10));
    for actor in [a, b, c] {
        world.actors[actor].events.clear();
    }
    world.stop(0);
    world.run_for(Duration::from_millis(100));
    let lost = |import| Event::Lost { import, reason: LossReason::NodeLost };
    let told = world.events(c);
    assert!(told.contains(&lost(local)) && told.contains(&lost(from_b)), "{told:?}");
    let told = world.events(a);
    assert_eq!(
        told.iter().filter(|event| matches!(event, Event::Disconnected { died: false, .. })).count(),
        3
    );
    let told = world.events(b);
    assert!(told.contains(&lost(from_a)) && told.contains(&lost(bell)), "{told:?}");
    assert!(told.iter().any(|event| matches!(event, Event::Disconnected { died: false, .. })));
    assert_eq!(world.status(1).segments[0].connections, 0);
    assert_eq!(world.status(1).descriptors, 2);
    assert!(!world.actors[a].attached);
}

#[test]
fn after_the_end_nothing_happens_and_nothing_is_kept() {
    let mut world = World::up(2, 1);
    let mut manager: Manager = {
        let actor = world.attach(0);
        offer_interrupt(&mut world, actor, 1, InterruptKind::Plain);
        world.nodes[0].manager.take().expect("it runs")
    };
    let now = world.now;
    manager.handle(now, Input::Stop);
    let mut outputs = Vec::new();
    while let Some(output) = manager.poll_output() {
        outputs.push(output);
    }
    assert_eq!(outputs.last(), Some(&Output::Exit));
    assert_eq!(manager.next_timeout(), None);
    let descriptors = world.receive(0, &[memory(1)]);
    let token = descriptors[0].token;
    let program = ProgramConn(5);
    manager.handle(now, Input::Stop);
    manager.handle(now, Input::ProgramConnected { program, credentials: Credentials::default() });
    let body = Request::RemoveInterrupt { number: InterruptNo(1) };
    let message = proto::wire::program::ToManager::Request { id: 1, body };
    manager.handle(now, Input::ProgramMessage { program, message, descriptors });
    manager.handle_timeout(now + Duration::from_secs(100));
    assert_eq!(manager.poll_output(), Some(Output::CloseProgram { program }));
    assert_eq!(manager.poll_output(), Some(Output::CloseDescriptor { token }));
    assert_eq!(manager.poll_output(), None);
    assert_eq!(manager.audit(), Ok(()));
}

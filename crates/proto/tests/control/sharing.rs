//! Segments that several programs of a node have as their own: shared, attached, left behind.

use std::time::Duration;

use proto::manager::Credentials;
use proto::wire::program::{
    Access, ConnectionId, Event, ImportSlot, Incarnation, LossReason, Refusal, Reply, Request,
};

use crate::actor::memory;
use crate::helpers::{KIB, connect, copy, create_request, node, segment, try_connect};
use crate::resume::{connections, departures, ended, losses};
use crate::world::{GRACE, OWN_UID, World};

fn attach_to(world: &mut World, actor: usize, number: u32) -> Result<(ImportSlot, ConnectionId), Refusal> {
    match world.ask(actor, Request::AttachSegment { key: segment(number) })? {
        Reply::Segment { import, connection, size_bytes, incarnation } => {
            assert_eq!((size_bytes, incarnation), (4 * KIB, Incarnation(1000 + u64::from(number))));
            Ok((import, connection))
        }
        other => panic!("a segment was asked for, not {other:?}"),
    }
}

fn set_available(world: &mut World, actor: usize, available: bool) -> Result<Reply, Refusal> {
    world.ask(actor, Request::SetAvailable { key: segment(1), available, disconnect: true })
}

fn create(world: &mut World, actor: usize, access: Access) {
    let body = create_request(segment(1), access, false);
    world.ask_with(actor, body, vec![memory(4 * KIB)]).expect("created");
}

fn share(world: &mut World, actor: usize) {
    assert_eq!(world.ask(actor, Request::ShareSegment { key: segment(1) }), Ok(Reply::Done));
}

/// An owner, and a program of its node that is attached to its segment, which is not available.
fn attached() -> (World, usize, usize) {
    let mut world = World::up(2, 5);
    let (owner, other) = (world.attach(0), world.attach(0));
    create(&mut world, owner, Access::default());
    share(&mut world, owner);
    attach_to(&mut world, other, 1).expect("attached");
    world.run_for(Duration::from_millis(20));
    (world, owner, other)
}

#[test]
fn who_is_of_the_same_node_attaches_before_the_segment_is_available() {
    let (mut world, owner, other) = attached();
    assert!(matches!(world.events(owner)[..], [Event::Connected { .. }]), "as of a connection");
    assert_eq!(connections(&world), 1);
    let listed = world.status(0).segments[0].clone();
    assert_eq!((listed.shared, listed.attached, listed.available), (true, 1, false));
    let refusal = try_connect(&mut world, other, 4, segment(1)).expect_err("not available");
    assert!(matches!(refusal, Refusal::NotAvailable { .. }), "{refusal}");
    let remove = |force| Request::RemoveSegment { key: segment(1), force };
    assert!(matches!(world.ask(owner, remove(false)), Err(Refusal::Busy { connections: 1, .. })));
    let (import, _) = attach_to(&mut world, other, 1).expect("any number of times");
    world.ask(other, Request::Disconnect { import }).expect("detached");
    world.run_for(Duration::from_millis(20));
    assert_eq!(departures(&mut world, owner), [false]);
    world.ask(owner, remove(true)).expect("removed by force");
    world.run_for(Duration::from_millis(20));
    assert_eq!(losses(&mut world, other), [LossReason::Removed]);
    assert!(matches!(attach_to(&mut world, other, 1), Err(Refusal::NotFound { .. })));
}

#[test]
fn what_is_not_shared_or_is_of_another_node_is_refused() {
    let mut world = World::up(2, 5);
    let (owner, other, far) = (world.attach(0), world.attach(0), world.attach(1));
    create(&mut world, owner, Access::default());
    set_available(&mut world, owner, true).expect("available");
    let refusal = attach_to(&mut world, other, 1).expect_err("not shared");
    assert_eq!(
        refusal.to_string(),
        "segment 1 of node 4 is not shared with other programs of the node: its owner has to share it first"
    );
    let refusal = world.ask(other, Request::ShareSegment { key: segment(1) }).expect_err("another program's");
    assert!(refusal.to_string().contains("only its owner"), "{refusal}");
    share(&mut world, owner);
    assert!(matches!(attach_to(&mut world, far, 1), Err(Refusal::NotFound { .. })), "another node");
    connect(&mut world, far, 4, segment(1));
    let refusal = set_available(&mut world, far, false).expect_err("connected is not attached");
    assert!(matches!(refusal, Refusal::NotFound { .. }), "its own node has none: {refusal}");
    connect(&mut world, other, 4, segment(1));
    let refusal = set_available(&mut world, other, false).expect_err("connected is not attached");
    assert!(refusal.to_string().contains("only its owner"), "{refusal}");
    let refusal = world.ask(owner, Request::ShareSegment { key: copy(1) }).expect_err("one member a node");
    assert!(refusal.to_string().contains("connect to the group"), "{refusal}");
}

#[test]
fn access_given_to_other_users_is_not_to_the_state() {
    let mut world = World::new(1, 5);
    world.nodes[0].attach = Access { uids: vec![4242], gid: None };
    world.start(0);
    let owner = world.attach(0);
    create(&mut world, owner, Access { uids: vec![4242], gid: Some(7) });
    share(&mut world, owner);
    set_available(&mut world, owner, true).expect("available");
    for (uid, pid) in [(4242, 5001), (0, 5002)] {
        let foreign = world.spawn(0, Credentials { uid, gids: vec![7], pid }, "foreign");
        world.try_attach(foreign);
        world.run_until("attached", |world| world.actors[foreign].attached);
        connect(&mut world, foreign, 4, segment(1));
        let refusal = attach_to(&mut world, foreign, 1).expect_err("another user");
        assert_eq!(
            refusal,
            Refusal::Denied { what: "attach to segment 1 on node 4".to_owned(), uid },
            "not {OWN_UID}"
        );
    }
}

#[test]
fn the_state_is_one_for_all_and_withdrawing_parts_nobody_who_is_attached() {
    let (mut world, owner, other) = attached();
    let far = world.attach(1);
    set_available(&mut world, other, true).expect("by who is attached");
    connect(&mut world, far, 4, segment(1));
    set_available(&mut world, owner, false).expect("by the owner");
    world.run_for(Duration::from_millis(50));
    assert_eq!(losses(&mut world, far), [LossReason::Withdrawn]);
    assert_eq!((ended(&world, other), connections(&world)), (None, 1));
    for actor in [owner, other] {
        let refusal = set_available(&mut world, actor, false).expect_err("closed already");
        assert!(matches!(refusal, Refusal::NotAvailable { .. }), "{refusal}");
    }
    attach_to(&mut world, other, 1).expect("available or not");
}

#[test]
fn the_death_of_the_owner_is_told_and_frees_the_id() {
    let (mut world, owner, other) = attached();
    world.kill_program(owner);
    world.run_for(Duration::from_millis(20));
    assert_eq!(losses(&mut world, other), [LossReason::OwnerDied]);
    assert!(matches!(attach_to(&mut world, other, 1), Err(Refusal::NotFound { .. })));
    create(&mut world, other, Access::default());
}

#[test]
fn the_death_of_who_is_attached_is_told_to_the_owner() {
    let (mut world, owner, other) = attached();
    world.kill_program(other);
    world.run_for(Duration::from_millis(20));
    assert_eq!(departures(&mut world, owner), [true]);
    world.ask(owner, Request::RemoveSegment { key: segment(1), force: false }).expect("free");
}

#[test]
fn after_a_restart_of_the_manager_all_is_as_it_was() {
    let (mut world, owner, other) = attached();
    set_available(&mut world, other, true).expect("by who is attached");
    world.run_for(Duration::from_millis(20));
    world.kill(0);
    world.run_for(Duration::from_secs(5));
    world.start(0);
    world.run_for(GRACE * 2);
    assert_eq!((ended(&world, other), connections(&world)), (None, 1));
    assert_eq!(departures(&mut world, owner), []);
    assert!(world.status(0).segments[0].available, "what others changed is told too");
    // It is an attachment still: withdrawing leaves it, and it may change the state.
    set_available(&mut world, owner, false).expect("withdrawn");
    world.run_for(Duration::from_millis(20));
    assert_eq!(ended(&world, other), None);
    set_available(&mut world, other, true).expect("by who is attached");
    let third = world.attach(0);
    attach_to(&mut world, third, 1).expect("it is shared still");
}

#[test]
fn a_segment_withdrawn_in_the_gap_keeps_who_is_attached() {
    let (mut world, owner, other) = attached();
    set_available(&mut world, owner, true).expect("available");
    world.run_for(Duration::from_millis(20));
    // The owner is back at once, and has not heard of the other program, which comes later.
    world.actors[other].returns = false;
    world.kill(0);
    for owned in world.actors[owner].objects.values_mut() {
        owned.connections.clear();
    }
    world.run_for(Duration::from_millis(20));
    world.start(0);
    world.run_until("the owner is back", |world| world.actors[owner].attached);
    set_available(&mut world, owner, false).expect("withdrawn");
    world.actors[other].returns = true;
    world.try_attach(other);
    world.run_for(GRACE * 2);
    assert_eq!((ended(&world, other), connections(&world)), (None, 1));
}

#[test]
fn an_invented_attachment_is_none() {
    let mut world = World::up(2, 5);
    let (owner, other, far) = (world.attach(0), world.attach(0), world.attach(1));
    create(&mut world, owner, Access::default());
    let what = proto::wire::program::Imported::Segment(segment(1));
    let resume = |connection| Request::ResumeImport {
        node: node(4),
        connection: ConnectionId(connection),
        incarnation: Incarnation(1001),
        what,
    };
    world.run_for(GRACE * 2);
    for actor in [other, far] {
        let refusal = world.ask(actor, resume(0x1234_0001)).expect_err("not shared");
        assert!(matches!(refusal, Refusal::NotFound { .. }), "{refusal}");
    }
    share(&mut world, owner);
    assert!(matches!(world.ask(far, resume(0x1234_0001)), Err(Refusal::NotFound { .. })), "another node");
}

//! Who holds a copy of a group.

use std::time::Duration;

use proto::ids::{GroupId, NodeId};
use proto::wire::program::{Event, Refusal, Reply, Request};

use crate::actor::memory;
use crate::helpers::{KIB, connect, copy, create_request, node, offer};
use crate::world::{GRACE, LIMIT, World};

const GROUP: GroupId = GroupId(3);

fn watch(world: &mut World, actor: usize) -> Vec<NodeId> {
    match world.ask(actor, Request::WatchGroup { group: GROUP }) {
        Ok(Reply::Members(members)) => members,
        other => panic!("{other:?}"),
    }
}

fn news(world: &mut World, actor: usize) -> Vec<(u32, bool)> {
    world.run_for(Duration::from_millis(20));
    let events = world.events(actor).into_iter();
    events
        .filter_map(|event| match event {
            Event::Member { group: GROUP, node, joined } => Some((node.get(), joined)),
            _ => None,
        })
        .collect()
}

#[test]
fn members_are_named_and_come_and_go() {
    let mut world = World::up(3, 1);
    let (a, b, watcher) = (world.attach(0), world.attach(1), world.attach(2));
    assert_eq!(watch(&mut world, watcher), []);
    offer(&mut world, a, copy(3));
    offer(&mut world, b, copy(3));
    assert_eq!(news(&mut world, watcher), [(4, true), (8, true)]);
    offer(&mut world, watcher, copy(3));
    assert_eq!(news(&mut world, watcher), [(12, true)], "its own node, too");
    assert_eq!(watch(&mut world, a), [node(4), node(8), node(12)]);
    connect(&mut world, watcher, 8, copy(3));
    let close = Request::SetAvailable { key: copy(3), available: false, disconnect: false };
    world.ask(b, close).expect("closed");
    assert_eq!(news(&mut world, watcher), [(8, false)]);
    world.kill_program(a);
    assert_eq!(news(&mut world, watcher), [(4, false)]);
    assert_eq!(watch(&mut world, watcher), [node(12)]);
    world.ask(watcher, Request::UnwatchGroup { group: GROUP }).expect("done");
    world.ask(b, Request::SetAvailable { key: copy(3), available: true, disconnect: false }).expect("open");
    assert_eq!(news(&mut world, watcher), []);
}

#[test]
fn a_node_has_one_member_and_a_closed_copy_is_none() {
    let mut world = World::up(2, 1);
    let (a, b, watcher) = (world.attach(0), world.attach(0), world.attach(1));
    let closed = create_request(copy(3), Default::default(), false);
    world.ask_with(a, closed.clone(), vec![memory(4 * KIB)]).expect("created");
    assert_eq!(watch(&mut world, watcher), []);
    let refusal = world.ask_with(b, closed, vec![memory(4 * KIB)]).expect_err("one a node");
    assert!(matches!(&refusal, Refusal::InUse { what, .. } if what == "copy of group 3"), "{refusal}");
}

#[test]
fn who_comes_later_is_told_who_is_there() {
    let mut world = World::new(3, 1);
    world.start(0);
    let member = world.attach(0);
    offer(&mut world, member, copy(3));
    world.start(1);
    world.run_until("up", |world| world.all_valid());
    world.run_for(Duration::from_millis(20));
    let watcher = world.attach(1);
    assert_eq!(watch(&mut world, watcher), [node(4)]);
}

#[test]
fn a_lost_session_is_no_departure() {
    let mut world = World::up(2, 1);
    let (member, watcher) = (world.attach(0), world.attach(1));
    offer(&mut world, member, copy(3));
    watch(&mut world, watcher);
    world.hang(0);
    world.run_for(LIMIT * 3);
    assert_eq!(news(&mut world, watcher), []);
    world.unhang(0);
    world.run_for(LIMIT);
    world.cut(0, 1);
    world.run_for(LIMIT);
    world.kill(0);
    world.run_for(LIMIT);
    world.start(0);
    world.run_for(GRACE * 3);
    assert_eq!(news(&mut world, watcher), []);
    assert_eq!(watch(&mut world, watcher), [node(4)]);
}

#[test]
fn departures_in_the_gap_are_told_afterwards() {
    // The member dies while its manager is gone.
    let mut world = World::up(2, 1);
    let (member, watcher) = (world.attach(0), world.attach(1));
    offer(&mut world, member, copy(3));
    watch(&mut world, watcher);
    world.kill(0);
    world.kill_program(member);
    world.start(0);
    world.run_for(GRACE * 3);
    assert_eq!(news(&mut world, watcher), [(4, false)]);
    // Or while nothing passes between the nodes: the same manager returns and says so.
    let member = world.attach(0);
    offer(&mut world, member, copy(3));
    assert_eq!(news(&mut world, watcher), [(4, true)]);
    for cut in [true, false] {
        world.part(0, 1);
        world.run_for(LIMIT * 2);
        let open = |available| Request::SetAvailable { key: copy(3), available, disconnect: false };
        world.ask(member, open(false)).expect("closed");
        if cut {
            world.cut(0, 1);
        }
        world.heal();
        world.run_for(LIMIT * 2);
        assert_eq!(news(&mut world, watcher), [(4, false)]);
        world.ask(member, open(true)).expect("open");
        assert_eq!(news(&mut world, watcher), [(4, true)]);
    }
}

#[test]
fn a_goodbye_is_a_departure() {
    let mut world = World::up(2, 1);
    let (member, watcher) = (world.attach(0), world.attach(1));
    offer(&mut world, member, copy(3));
    watch(&mut world, watcher);
    world.stop(0);
    assert_eq!(news(&mut world, watcher), [(4, false)]);
}

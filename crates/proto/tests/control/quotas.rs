//! No user takes all segments, interrupts or connections of a node.

use proto::ids::InterruptNo;
use proto::manager::Credentials;
use proto::wire::program::{Access, Incarnation, InterruptKind, Refusal, Request};

use crate::actor::{interrupt_parts, memory};
use crate::helpers::{KIB, create_request, segment, try_connect};
use crate::world::{OWN_UID, World};

const USERS: [u32; 4] = [2000, 3000, 4000, 5000];

fn world() -> World {
    let mut world = World::new(1, 1);
    world.nodes[0].attach = Access { uids: USERS.to_vec(), gid: None };
    world.nodes[0].limits.segments = 16;
    world.nodes[0].limits.interrupts = 16;
    world.nodes[0].limits.imports = 16;
    world.start(0);
    world
}

fn attach_as(world: &mut World, uid: u32, pid: u32) -> usize {
    let actor = world.spawn(0, Credentials { uid, gids: vec![], pid }, "guest");
    world.actors[actor].returns = false;
    world.try_attach(actor);
    world.run_for(std::time::Duration::from_millis(20));
    assert!(world.actors[actor].attached);
    actor
}

fn make_segment(world: &mut World, actor: usize, number: u32) -> Result<(), Refusal> {
    let body = create_request(segment(number), Access::default(), true);
    world.ask_with(actor, body, vec![memory(4 * KIB)]).map(drop)
}

fn make_interrupt(world: &mut World, actor: usize, number: u32) -> Result<(), Refusal> {
    let body = Request::CreateInterrupt {
        number: Some(InterruptNo(number)),
        kind: InterruptKind::Plain,
        access: Access::default(),
        incarnation: Incarnation(5),
        pollable: false,
        again: false,
    };
    world.ask_with(actor, body, interrupt_parts(false)).map(drop)
}

fn import(world: &mut World, actor: usize, _: u32) -> Result<(), Refusal> {
    try_connect(world, actor, 4, segment(999)).map(drop)
}

/// How many of 16 one gets, and what is said then.
fn takes_all(
    world: &mut World,
    actor: usize,
    first: u32,
    make: impl Fn(&mut World, usize, u32) -> Result<(), Refusal>,
) -> (u32, Option<Refusal>) {
    for number in 0..16 {
        if let Err(refusal) = make(world, actor, first + number) {
            return (number, Some(refusal));
        }
    }
    (16, None)
}

fn check(what: &str, mut world: World, make: impl Fn(&mut World, usize, u32) -> Result<(), Refusal>) {
    let refused =
        |whose: &str, limit| Some(Refusal::Limit { what: format!("{what} of {whose} at this node"), limit });
    let greedy = attach_as(&mut world, 2000, 71);
    assert_eq!(takes_all(&mut world, greedy, 100, &make), (4, refused("user 2000", 4)), "{what}");
    // Another process of the same user has no share of its own.
    let second = attach_as(&mut world, 2000, 72);
    assert_eq!(takes_all(&mut world, second, 200, &make), (0, refused("user 2000", 4)), "{what}");
    for (uid, pid) in [(3000, 73), (4000, 74)] {
        let actor = attach_as(&mut world, uid, pid);
        assert_eq!(takes_all(&mut world, actor, 10 * pid, &make).0, 4, "{what}");
    }
    let last = attach_as(&mut world, 5000, 75);
    assert_eq!(takes_all(&mut world, last, 800, &make), (0, refused("other users", 12)), "{what}");
    // The manager's own user has what the others leave.
    let own = attach_as(&mut world, OWN_UID, 76);
    assert!(make(&mut world, own, 900).is_ok(), "{what}");
    // What one had comes back with its death.
    world.kill_program(greedy);
    world.run_for(std::time::Duration::from_millis(20));
    assert_eq!(takes_all(&mut world, second, 200, &make).0, 4, "{what}");
}

#[test]
fn no_user_takes_all_segments() {
    check("segments", world(), make_segment);
}

#[test]
fn no_user_takes_all_interrupts() {
    check("interrupts", world(), make_interrupt);
}

#[test]
fn no_user_takes_all_connections() {
    let mut world = world();
    let owner = attach_as(&mut world, OWN_UID, 70);
    let access = Access { uids: USERS.to_vec(), gid: None };
    let body = create_request(segment(999), access, true);
    world.ask_with(owner, body, vec![memory(4 * KIB)]).expect("created");
    check("connections", world, import);
}

//! Segments: made, offered, connected, withdrawn, removed.

use std::time::Duration;

use proto::ids::SegmentKey;
use proto::manager::{Credentials, DescriptorKind};
use proto::wire::program::{
    Access, Event, ImportSlot, Imported, Incarnation, LossReason, Refusal, Reply, Request,
};

use crate::actor::memory;
use crate::helpers::{KIB, connect, create_request, node, offer, segment, try_connect};
use crate::world::{OWN_UID, World};

const SEGMENT_1: Imported = Imported::Segment(SegmentKey::Segment(proto::ids::SegmentId(1)));

#[test]
fn memory_is_checked() {
    let mut world = World::up(1, 1);
    let actor = world.attach(0);
    let create = || create_request(segment(1), Access::default(), true);
    let mut refused = |kind: DescriptorKind| {
        let refusal = world.ask_with(actor, create(), vec![kind]).expect_err("refused");
        assert!(matches!(refusal, Refusal::Invalid(_)), "{refusal}");
        refusal.to_string()
    };
    let unsealed = DescriptorKind::Memory { size_bytes: 4 * KIB, size_sealed: false, write_sealed: false };
    assert_eq!(
        refused(unsealed),
        "request refused: the memory of segment 1 can still be resized: seal it with F_SEAL_SHRINK and F_SEAL_GROW"
    );
    assert_eq!(
        refused(memory(4 * KIB - 1)),
        "request refused: the memory of segment 1 has 4095 bytes, 4096 were announced"
    );
    let text = "request refused: the descriptor of segment 1 is not a memfd: create it with memfd_create";
    assert_eq!(refused(DescriptorKind::Other), text);
    assert_eq!(refused(DescriptorKind::Event), text);
    assert_eq!(world.status(0).descriptors, 1, "only the program's own pidfd is left");
    world.ask_with(actor, create(), vec![memory(8 * KIB)]).expect("more than asked for is enough");
    assert_eq!(world.status(0).segments[0].size_bytes, 4 * KIB);
}

#[test]
fn nothing_of_no_size_and_no_endless_lists() {
    let mut world = World::up(1, 1);
    let actor = world.attach(0);
    let (key, incarnation, access) = (segment(1), Incarnation(1), Access::default());
    let empty =
        Request::CreateSegment { key, size_bytes: 0, access, incarnation, available: true, shared: false };
    assert!(matches!(world.ask_with(actor, empty, vec![memory(1)]), Err(Refusal::Invalid(_))));
    let crowd = Access { uids: (0..65).collect(), gid: None };
    let refusal = world.ask_with(actor, create_request(key, crowd, true), vec![memory(4 * KIB)]);
    let text = refusal.expect_err("too many").to_string();
    assert!(
        text.contains("access for 65 users was asked for, at most 64 can be listed: use a group"),
        "{text}"
    );
}

#[test]
fn an_id_in_use_names_its_owner() {
    let mut world = World::up(1, 1);
    let (first, second) = (world.attach(0), world.attach(0));
    offer(&mut world, first, segment(1));
    let create = create_request(segment(1), Access::default(), true);
    let refusal = world.ask_with(second, create, vec![memory(4 * KIB)]).expect_err("in use");
    assert_eq!(
        refusal.to_string(),
        "segment 1 exists already on this node (owner: program `program1000` (pid 1000)): choose another id or remove it first"
    );
}

#[test]
fn only_the_owner_changes_its_segment() {
    let mut world = World::up(1, 1);
    let (owner, other) = (world.attach(0), world.attach(0));
    offer(&mut world, owner, segment(1));
    for body in [
        Request::SetAvailable { key: segment(1), available: false, disconnect: true },
        Request::RemoveSegment { key: segment(1), force: true },
    ] {
        let refusal = world.ask(other, body).expect_err("another program's");
        assert_eq!(
            refusal.to_string(),
            "request refused: segment 1 belongs to program `program1000` (pid 1000): only its owner may change it"
        );
    }
    assert_eq!(world.status(0).segments_total, 1);
}

/// On the same node and on another one the same things are said.
fn both_ways(test: impl Fn(&mut World, usize, usize)) {
    for to in [0, 1] {
        let mut world = World::up(2, 7);
        let owner = world.attach(0);
        let importer = world.attach(to);
        test(&mut world, owner, importer);
        world.run_for(Duration::from_millis(100));
    }
}

#[test]
fn connecting_hands_the_memory_over() {
    both_ways(|world, owner, importer| {
        offer(world, owner, segment(1));
        let body = Request::ConnectSegment { node: node(4), key: segment(1) };
        let (reply, beside) = world.ask_with(importer, body, vec![]).expect("connected");
        let Reply::Segment { import, connection, size_bytes, incarnation } = reply else {
            panic!("{reply:?}")
        };
        assert_eq!((size_bytes, incarnation), (4 * KIB, Incarnation(1001)));
        assert_eq!(beside, [memory(4 * KIB)]);
        let place = world.actors[importer].node;
        assert!(world.nodes[place].page.alive(import));
        let importer_node = world.nodes[place].id;
        world.run_for(Duration::from_millis(10));
        let told = Event::Connected {
            what: SEGMENT_1,
            node: importer_node,
            connection,
            producer: 0,
            importer: world.importer(importer),
        };
        assert_eq!(world.events(owner), [told]);
        assert_eq!(world.status(0).segments[0].connections, 1);
    });
}

#[test]
fn what_is_not_there_or_not_open_is_refused_at_once() {
    both_ways(|world, owner, importer| {
        let refusal = try_connect(world, importer, 4, segment(1)).expect_err("not there");
        assert_eq!(
            refusal.to_string(),
            "no segment 1 on node 4: create it and make it available there first"
        );
        let create = create_request(segment(1), Access::default(), false);
        world.ask_with(owner, create, vec![memory(4 * KIB)]).expect("created");
        let refusal = try_connect(world, importer, 4, segment(1)).expect_err("closed");
        assert_eq!(
            refusal.to_string(),
            "segment 1 on node 4 is not available: its owner has to make it available (set_available, SCISetSegmentAvailable); connect with \
             a time-out to wait for it"
        );
        let open = Request::SetAvailable { key: segment(1), available: true, disconnect: false };
        assert_eq!(world.ask(owner, open), Ok(Reply::Done));
        connect(world, importer, 4, segment(1));
        let refusals = world.status(0).counters.refusals + world.status(1).counters.refusals;
        assert_eq!(refusals, 2);
    });
}

#[test]
fn unknown_nodes_are_unreachable() {
    let mut world = World::up(2, 1);
    let actor = world.attach(0);
    let refusal = try_connect(&mut world, actor, 12, segment(1)).expect_err("no such node");
    assert_eq!(
        refusal.to_string(),
        "node 12 is not reachable (no manager of this node was seen in the cluster): check it with `tieline status`"
    );
    world.kill(1);
    world.run_for(Duration::from_secs(3));
    let refusal = try_connect(&mut world, actor, 8, segment(1)).expect_err("killed");
    assert!(matches!(refusal, Refusal::Unreachable { why, .. } if why.contains("broke")));
    assert_eq!(world.ask(actor, Request::Probe { node: node(8) }), Ok(Reply::Probed { reachable: false }));
    assert_eq!(world.ask(actor, Request::Probe { node: node(4) }), Ok(Reply::Probed { reachable: true }));
}

#[test]
fn a_request_under_way_fails_when_the_session_is_lost() {
    let mut world = World::up(2, 1);
    let (owner, importer) = (world.attach(0), world.attach(1));
    offer(&mut world, owner, segment(1));
    world.hang(0);
    let id = world.request(importer, Request::ConnectSegment { node: node(4), key: segment(1) }, vec![]);
    let refusal = world.answer(importer, id).expect_err("nobody answers");
    assert_eq!(
        refusal.to_string(),
        "node 4 is not reachable (no heartbeat for 1 s): check it with `tieline status`"
    );
    // The answer comes when nobody wants it any more: the connection is given back.
    world.unhang(0);
    world.run_for(Duration::from_secs(3));
    assert!(world.all_valid());
    assert_eq!(world.status(0).segments[0].connections, 0);
    assert!(matches!(
        world.events(owner)[..],
        [.., Event::Connected { .. }, Event::Disconnected { died: false, .. }]
            | [Event::Link { .. }, .., Event::Disconnected { died: false, .. }]
    ));
}

#[test]
fn access_is_by_user_group_and_root() {
    for place in [0, 1] {
        let mut world = World::new(2, 1);
        for node in &mut world.nodes {
            node.attach = Access { uids: vec![2000, 3000, 4000], gid: None };
        }
        world.start(0);
        world.start(1);
        world.run_until("up", World::all_valid);
        let owner = world.attach(0);
        let access = Access { uids: vec![2000], gid: Some(500) };
        world
            .ask_with(owner, create_request(segment(1), access, true), vec![memory(4 * KIB)])
            .expect("created");
        for (uid, gids, allowed) in [
            (OWN_UID, vec![], true),
            (0, vec![], true),
            (2000, vec![], true),
            (3000, vec![1, 500], true),
            (4000, vec![1], false),
        ] {
            let pid = 5000 + uid;
            let actor = world.spawn(place, Credentials { uid, gids, pid }, "guest");
            world.try_attach(actor);
            world.run_until("attached", |world| world.actors[actor].attached);
            match try_connect(&mut world, actor, 4, segment(1)) {
                Ok(_) => assert!(allowed, "user {uid}"),
                Err(refusal) => {
                    assert!(!allowed, "user {uid}: {refusal}");
                    assert_eq!(
                        refusal.to_string(),
                        "user 4000 may not connect to segment 1 on node 4: ask its owner to share it with this user, or run as the same user"
                    );
                }
            }
        }
    }
}

#[test]
fn removing_needs_force_while_connected() {
    both_ways(|world, owner, importer| {
        offer(world, owner, segment(1));
        let (import, _) = connect(world, importer, 4, segment(1));
        let refusal = world.ask(owner, Request::RemoveSegment { key: segment(1), force: false });
        assert_eq!(
            refusal.expect_err("busy").to_string(),
            "segment 1 is still in use by 1 connection: let them disconnect first, or remove it by force (`remove(true)`, \
             SCI_FLAG_FORCE_REMOVE)"
        );
        world.actors[importer].events.clear();
        world.ask(owner, Request::RemoveSegment { key: segment(1), force: true }).expect("removed");
        world.run_for(Duration::from_millis(100));
        assert_eq!(world.events(importer), [Event::Lost { import, reason: LossReason::Removed }]);
        assert_eq!(world.status(0).segments_total, 0);
        offer(world, owner, segment(1));
    });
}

#[test]
fn withdrawing_keeps_connections_unless_told_otherwise() {
    both_ways(|world, owner, importer| {
        offer(world, owner, segment(1));
        let (import, _) = connect(world, importer, 4, segment(1));
        let place = world.actors[importer].node;
        let close = |disconnect| Request::SetAvailable { key: segment(1), available: false, disconnect };
        world.ask(owner, close(false)).expect("closed");
        world.run_for(Duration::from_millis(100));
        assert!(world.nodes[place].page.alive(import));
        world.actors[importer].events.clear();
        world.ask(owner, close(true)).expect("closed");
        world.run_for(Duration::from_millis(100));
        assert_eq!(world.events(importer), [Event::Lost { import, reason: LossReason::Withdrawn }]);
        assert_eq!(world.status(0).segments[0].connections, 0);
    });
}

#[test]
fn an_owner_that_dies_takes_its_segments_with_it() {
    both_ways(|world, owner, importer| {
        offer(world, owner, segment(1));
        let (import, _) = connect(world, importer, 4, segment(1));
        world.actors[importer].events.clear();
        world.kill_program(owner);
        world.run_for(Duration::from_millis(100));
        assert_eq!(world.events(importer), [Event::Lost { import, reason: LossReason::OwnerDied }]);
        let place = world.actors[importer].node;
        assert_eq!(world.nodes[place].page.imports[&import], Some(LossReason::OwnerDied));
        let status = world.status(0);
        assert_eq!((status.segments_total, status.counters.program_deaths), (0, 1));
        // The slot is the program's until it gives it up.
        assert_eq!(world.ask(importer, Request::Disconnect { import }), Ok(Reply::Done));
        assert!(world.ask(importer, Request::Disconnect { import }).is_err());
    });
}

#[test]
fn an_importer_that_goes_is_told_to_the_owner() {
    for kill in [false, true] {
        both_ways(|world, owner, importer| {
            offer(world, owner, segment(1));
            let (import, connection) = connect(world, importer, 4, segment(1));
            world.run_for(Duration::from_millis(100));
            world.actors[owner].events.clear();
            let importer_node = world.nodes[world.actors[importer].node].id;
            if kill {
                world.kill_program(importer);
            } else {
                world.ask(importer, Request::Disconnect { import }).expect("disconnected");
            }
            world.run_for(Duration::from_millis(100));
            let told = Event::Disconnected { what: SEGMENT_1, node: importer_node, connection, died: kill };
            assert_eq!(world.events(owner), [told]);
            assert_eq!(world.status(0).segments[0].connections, 0);
        });
    }
}

#[test]
fn a_program_that_only_looked_did_not_die() {
    let mut world = World::up(1, 1);
    let actor = world.attach(0);
    world.kill_program(actor);
    world.run_for(Duration::from_millis(10));
    assert_eq!(world.status(0).counters.program_deaths, 0);
    assert_eq!(world.status(0).programs_total, 0);
}

#[test]
fn slots_are_handed_out_again() {
    let mut world = World::up(2, 1);
    let (owner, importer) = (world.attach(0), world.attach(1));
    offer(&mut world, owner, segment(1));
    let (first, _) = connect(&mut world, importer, 4, segment(1));
    let (second, _) = connect(&mut world, importer, 4, segment(1));
    assert_eq!((first, second), (ImportSlot(0), ImportSlot(1)));
    world.ask(importer, Request::Disconnect { import: first }).expect("disconnected");
    let (third, connection) = connect(&mut world, importer, 4, segment(1));
    assert_eq!(third, first);
    let Some(held) = world.actors[importer].imports.get(&(node(4), connection)) else { panic!("held") };
    assert_eq!(held.slot, Some(third));
}

#[test]
fn a_slot_of_another_program_cannot_be_given_up() {
    let mut world = World::up(2, 1);
    let (owner, importer, other) = (world.attach(0), world.attach(1), world.attach(1));
    offer(&mut world, owner, segment(1));
    let (import, _) = connect(&mut world, importer, 4, segment(1));
    let refusal = world.ask(other, Request::Disconnect { import }).expect_err("another program's");
    assert_eq!(
        refusal.to_string(),
        "request refused: this program does not hold import 0: it was disconnected before"
    );
    assert!(world.nodes[1].page.alive(import));
}

#[test]
fn limits_hold_and_are_named() {
    let mut world = World::new(2, 1);
    world.nodes[0].limits.segments = 2;
    world.nodes[1].limits.imports = 2;
    world.start(0);
    world.start(1);
    world.run_until("up", World::all_valid);
    let (owner, importer) = (world.attach(0), world.attach(1));
    offer(&mut world, owner, segment(1));
    offer(&mut world, owner, segment(2));
    let create = create_request(segment(3), Access::default(), true);
    let refusal = world.ask_with(owner, create, vec![memory(4 * KIB)]).expect_err("full");
    assert_eq!(refusal, Refusal::Limit { what: "segments of this node".to_owned(), limit: 2 });
    connect(&mut world, importer, 4, segment(1));
    // Two more at once: both may ask, and only one has a slot; the other connection is given back.
    let body = || Request::ConnectSegment { node: node(4), key: segment(2) };
    let ids = [world.request(importer, body(), vec![]), world.request(importer, body(), vec![])];
    let results = ids.map(|id| world.answer(importer, id).is_ok());
    assert_eq!(results, [true, false]);
    world.run_for(Duration::from_millis(100));
    let connections: u32 = world.status(0).segments.iter().map(|segment| segment.connections).sum();
    assert_eq!(connections, 2);
}

#[test]
fn requests_that_wait_have_a_limit() {
    let mut world = World::new(2, 1);
    world.nodes[1].limits.pending_per_program = 3;
    world.start(0);
    world.start(1);
    world.run_until("up", World::all_valid);
    let importer = world.attach(1);
    world.hang(0);
    let body = || Request::ConnectSegment { node: node(4), key: segment(2) };
    let ids: Vec<_> = (0..4).map(|_| world.request(importer, body(), vec![])).collect();
    let refusal = world.answer(importer, ids[3]).expect_err("too many");
    assert!(matches!(refusal, Refusal::Limit { limit: 3, .. }), "{refusal}");
    for id in &ids[..3] {
        assert!(matches!(world.answer(importer, *id), Err(Refusal::Unreachable { .. })));
    }
}

#[test]
fn huge_pages_stay_among_programs_of_one_user() {
    for place in [0, 1] {
        let mut world = World::up(2, 1);
        let (owner, same) = (world.attach(0), world.attach(place));
        let huge = DescriptorKind::HugeMemory { size_bytes: 4 * KIB, size_sealed: true };
        let shared = Access { uids: vec![2000], gid: None };
        let refusal = world.ask_with(owner, create_request(segment(1), shared, true), vec![huge]);
        let refusal = refusal.expect_err("not with others").to_string();
        assert!(refusal.contains("huge pages") && refusal.contains("SIGBUS"), "{refusal}");
        let create = create_request(segment(1), Access::default(), true);
        world.ask_with(owner, create, vec![huge]).expect("of its own user");
        let body = Request::ConnectSegment { node: node(4), key: segment(1) };
        world.ask_with(same, body.clone(), vec![]).expect("the same user");
        let root = world.spawn(place, Credentials { uid: 0, gids: vec![], pid: 5 }, "root");
        world.try_attach(root);
        world.run_until("attached", |world| world.actors[root].attached);
        let refused = world.ask(root, body).expect_err("another user");
        assert!(matches!(refused, Refusal::Denied { .. }), "{refused}");
    }
}

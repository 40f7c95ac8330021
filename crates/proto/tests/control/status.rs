//! What a node says of itself is true, and fits into one message.

use proto::ids::NodeId;
use proto::manager::{Credentials, Input, PeerConn};
use proto::wire::peer::PeerMessage;
use proto::wire::program::{Incarnation, InterruptKind, Refusal, Reply, Request, ToProgram};
use proto::wire::status::{Counters, MAX_LISTED, NodeStatus, SessionState};
use proto::wire::{self, MAX_DATAGRAM_BYTES, MAX_NAME_BYTES};

use crate::helpers::{connect, offer, offer_interrupt, segment};
use crate::world::{OWN_UID, STRANGERS, World};

fn encoded_bytes(status: NodeStatus) -> usize {
    let message = ToProgram::Reply { id: u64::MAX, result: Ok(Reply::Status(Box::new(status))) };
    wire::encode(&message).expect("it fits").len()
}

/// A node with so many links, none of them valid, each with the longest reason and host that a peer can
/// cause.
fn with_links(count: usize) -> World {
    let mut world = World::new(1, 1);
    world.start(0);
    for index in 1..=count {
        let node = NodeId::nth(index).expect("an id");
        let peer = PeerConn(STRANGERS + index as u64);
        let credentials = Credentials { uid: OWN_UID, gids: vec![], pid: 1 };
        let manager = world.nodes[0].manager.as_mut().expect("it runs");
        let now = world.now;
        manager.handle(now, Input::PeerConnected { peer, dialled: None, credentials });
        let (cluster, host) = ("default".to_owned(), "h".repeat(MAX_NAME_BYTES * 4));
        let hello = PeerMessage::Hello { node, incarnation: Incarnation(u64::MAX), cluster, host };
        manager.handle(now, Input::PeerMessage { peer, message: hello, descriptors: vec![] });
        let refusal = PeerMessage::Rejected(Refusal::Invalid("r".repeat(5000)));
        manager.handle(now, Input::PeerMessage { peer, message: refusal, descriptors: vec![] });
        while manager.poll_output().is_some() {}
    }
    world
}

#[test]
fn the_status_of_a_large_node_fits() {
    for count in [1, 50, 250, 251, 1000, 4000] {
        let world = with_links(count);
        let status = world.status(0);
        assert_eq!(status.links_total, count as u64);
        assert!(status.links.len() >= count.min(250), "{} of {count}", status.links.len());
        assert!(status.links.iter().all(|link| link.session == SessionState::Refused));
        if count <= 50 {
            assert!(status.links.iter().all(|link| link.reason.is_some()));
        }
        assert!(encoded_bytes(status) <= MAX_DATAGRAM_BYTES);
    }
}

#[test]
fn lists_are_cut_and_totals_are_not() {
    let mut world = World::new(1, 1);
    world.nodes[0].limits.programs = 1000;
    world.nodes[0].limits.segments = 1000;
    world.start(0);
    for number in 0..200 {
        let credentials = Credentials { uid: OWN_UID, gids: vec![], pid: u32::MAX - number };
        let actor = world.spawn(0, credentials, &"n".repeat(MAX_NAME_BYTES));
        world.try_attach(actor);
        world.run_until("attached", |world| world.actors[actor].attached);
        offer(&mut world, actor, segment(u32::MAX - number));
    }
    let status = world.status(0);
    assert_eq!((status.programs_total, status.segments_total), (200, 200));
    assert!(status.programs.len() > 100 && status.programs.len() <= MAX_LISTED);
    assert!(status.segments.len() > 100 && status.segments.len() <= MAX_LISTED);
    assert!(encoded_bytes(status) <= MAX_DATAGRAM_BYTES);
}

#[test]
fn it_tells_what_is() {
    let mut world = World::up(2, 1);
    let (owner, importer) = (world.attach(0), world.attach(1));
    offer(&mut world, owner, segment(1));
    offer_interrupt(&mut world, owner, 7, InterruptKind::Plain);
    connect(&mut world, importer, 4, segment(1));
    let Ok(Reply::Status(status)) = world.ask(owner, Request::Status) else { panic!("a status") };
    let program = &status.programs[0];
    assert_eq!((program.pid, program.uid), (1000, OWN_UID));
    assert_eq!((program.segments, program.interrupts, program.imports), (1, 1, 0));
    let segment = &status.segments[0];
    assert_eq!((segment.what.as_str(), segment.connections, segment.owner_pid), ("segment 1", 1, 1000));
    assert!(segment.available && !segment.shared && segment.attached == 0, "connected is not attached");
    assert_eq!((status.interrupts_total, status.descriptors), (1, 4));
    let counters = status.counters;
    assert_eq!((counters.requests, counters.refusals, counters.connections, counters.attaches), (3, 0, 1, 1));
    assert_eq!(world.status(1).programs[0].imports, 1);
    world.ask(owner, Request::ClearCounters).expect("cleared");
    assert_eq!(world.status(0).counters, Counters::default());
    assert!(status.uptime_ns > 0);
}

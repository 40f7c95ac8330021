//! Forwards of end points end with the programs whose end points they are; none that may be needed ends.

use std::time::Duration;

use proto::wire::network::{OwnerEnd, OwnerRail};
use proto::wire::peer::Requester;
use proto::wire::program::Event;

use super::*;
use crate::helpers::offer;

const MOMENT: Duration = Duration::from_millis(20);

fn end_point(from: u32, port: u16) -> Forward {
    Forward::EndPoint { from: node(from), at: at(port) }
}

/// A program connects, and its relay forwards its end point at this port.
fn connects(world: &mut World, program: usize, port: u16) {
    let rails = vec![ImporterRail { end_point: card("tcp;ofi_rxm", at(port)), session: 7 }];
    let what = Imported::Segment(segment(1));
    let body = Request::ConnectByNetwork { node: node(4), what, end: ImporterEnd { rails } };
    world.request(program, body, vec![]);
    world.run_for(MOMENT);
    relay_agrees(world, port);
}

fn relay_agrees(world: &mut World, port: u16) {
    let asked = world.asked();
    let [(id, RELAY, forward)] = asked[..] else { panic!("{asked:?}") };
    assert_eq!(forward, end_point(4, port));
    let result = Ok(PeerReply::Relay { at: at(port + 38_000) });
    world.hears(RELAY, PeerMessage::Reply { id, result });
}

/// Ends, and what its relay is told.
fn ends(world: &mut World, program: usize) -> Vec<PeerMessage> {
    world.to_strangers.clear();
    world.kill_program(program);
    world.run_for(MOMENT);
    told(world, RELAY)
}

fn told(world: &mut World, peer: PeerConn) -> Vec<PeerMessage> {
    let said = world.to_strangers.drain(..).filter(|(to, _)| *to == peer);
    let of_forwards = |message: &PeerMessage| {
        matches!(message, PeerMessage::ForwardOver { .. } | PeerMessage::ForwardsKept { .. })
    };
    said.filter_map(|(_, said)| said).filter(of_forwards).collect()
}

#[test]
fn a_relay_is_told_when_the_last_program_has_ended_whose_end_point_it_forwards() {
    let mut world = relayed();
    let (first, second, never) = (world.attach(OWN), world.attach(OWN), world.attach(OWN));
    world.asked();
    connects(&mut world, first, 2000);
    connects(&mut world, first, 2001);
    connects(&mut world, second, 2000);
    assert_eq!(ends(&mut world, never), []);
    let over = |port| PeerMessage::ForwardOver { forward: end_point(4, port) };
    assert_eq!(ends(&mut world, first), [over(2001)], "the other one has port 2000, too");
    assert_eq!(ends(&mut world, second), [over(2000)]);
    // One that ends before the relay has answered, which hears both one after the other.
    let hasty = world.attach(OWN);
    let rails = vec![ImporterRail { end_point: card("tcp;ofi_rxm", at(2002)), session: 7 }];
    let what = Imported::Segment(segment(1));
    world.request(
        hasty,
        Request::ConnectByNetwork { node: node(4), what, end: ImporterEnd { rails } },
        vec![],
    );
    world.run_for(MOMENT);
    let (id, ..) = world.asked()[0];
    assert_eq!(ends(&mut world, hasty), [over(2002)]);
    world.hears(RELAY, PeerMessage::Reply { id, result: Ok(PeerReply::Relay { at: at(40_002) }) });
    assert!(!world.to_strangers.iter().any(|(peer, _)| *peer == RELAYED), "nobody connects any more");
}

#[test]
fn an_owners_end_point_is_forwarded_until_the_owner_has_ended() {
    let mut world = relayed();
    let owner = world.attach(OWN);
    offer(&mut world, owner, segment(1));
    let requester = Requester { uid: 0, gids: Vec::new(), pid: 70, name: "far".to_owned() };
    let rails = vec![ImporterRail { end_point: card("tcp;ofi_rxm", at(3000)), session: 7 }];
    let what = Imported::Segment(segment(1));
    let body = PeerRequest::ConnectByNetwork { what, requester, end: ImporterEnd { rails } };
    world.hears(RELAYED, PeerMessage::Request { id: 5, body });
    world.run_for(MOMENT);
    let wanted = world.events(owner).into_iter().find_map(|event| match event {
        Event::WantedByNetwork { connection, .. } => Some(connection),
        _ => None,
    });
    let connection = wanted.expect("the owner is asked");
    let rails = vec![OwnerRail { end_point: card("tcp;ofi_rxm", at(2000)), key: vec![6; 32] }];
    world.ask(owner, Request::AnswerByNetwork { connection, end: Ok(OwnerEnd { rails }) }).expect("done");
    relay_agrees(&mut world, 2000);
    // The importer disconnects: the end point is there for others.
    world.hears(RELAYED, PeerMessage::Released { connection, died: true });
    world.run_for(MOMENT);
    assert_eq!(told(&mut world, RELAY), []);
    let over = PeerMessage::ForwardOver { forward: end_point(4, 2000) };
    assert_eq!(ends(&mut world, owner), [over]);
}

#[test]
fn after_a_lost_session_a_relay_is_told_what_is_needed_and_a_restarted_one_has_nothing() {
    let mut world = relayed();
    let (gone, stays) = (world.attach(OWN), world.attach(OWN));
    world.asked();
    connects(&mut world, gone, 2000);
    connects(&mut world, stays, 2001);
    world.input(OWN, Input::PeerGone { peer: RELAY });
    assert_eq!(ends(&mut world, gone), []);
    world.connected(OTHER, true, 12);
    let kept = PeerMessage::ForwardsKept { forwards: vec![end_point(4, 2001)] };
    assert_eq!(told(&mut world, OTHER), [kept]);
    // Another manager of the same node: its forwards have gone with the one before.
    world.input(OWN, Input::PeerGone { peer: OTHER });
    let again = DIRECT;
    world.input(
        OWN,
        Input::HostConnected { peer: again, dialled: Some(node(12)), node: node(12), address: ADDRESS },
    );
    let (cluster, host) = ("default".to_owned(), "far".to_owned());
    let incarnation = Incarnation(999);
    world.hears(again, PeerMessage::Hello { node: node(12), incarnation, cluster, host });
    assert_eq!(told(&mut world, again), []);
    world.kill_program(stays);
    world.run_for(MOMENT);
    assert_eq!(told(&mut world, again), []);
}

#[test]
fn any_number_of_programs_one_after_the_other_finds_room_at_a_relay() {
    let mut world = relaying(true);
    for port in 2000..2300 {
        let forward = end_point(16, port);
        assert!(forwards(&mut world, forward).is_ok(), "{port}");
        world.hears(RELAY, PeerMessage::ForwardOver { forward });
        let told = world.relay_told();
        let [Output::DrainForward { forward: no }] = told[..] else { panic!("{told:?}") };
        world.hears(RELAY, PeerMessage::ForwardOver { forward });
        assert_eq!((world.relay_told(), world.status(OWN).relayed), (vec![], vec![]));
        // Another program has the same port by now.
        if port == 2100 {
            assert_ne!(forwards(&mut world, forward), Ok(at(50_000 + no.0 as u16)));
            world.hears(RELAY, PeerMessage::ForwardOver { forward });
            world.relay_told();
        }
        world.input(OWN, Input::ForwardGone { forward: no });
    }
    // Those whose connections go on count.
    for port in 2000..2063 {
        assert!(forwards(&mut world, end_point(16, port)).is_ok(), "{port}");
        world.hears(RELAY, PeerMessage::ForwardOver { forward: end_point(16, port) });
    }
    let refused = forwards(&mut world, end_point(16, 2063)).unwrap_err();
    assert!(refused.contains("the limit of 64 forwards for node"), "{refused}");
    // What is closed with its node is closed whether it is over or not.
    world.relay_told();
    world.input(OWN, Input::HostRevoked { node: node(16), revoked: Revoked::Theirs });
    assert_eq!(world.relay_told().len(), 64);
}

#[test]
fn a_relay_ends_what_is_not_needed_any_more_of_the_one_who_says_so() {
    let mut world = relaying(true);
    assert!(forwards(&mut world, Forward::Manager { to: node(16) }).is_ok());
    for port in 2000..2003 {
        assert!(forwards(&mut world, end_point(16, port)).is_ok());
    }
    let count = |world: &World| world.status(OWN).relayed.first().map_or(0, |pair| pair.forwards);
    // Another node's word does not count.
    world.hears(OTHER, PeerMessage::ForwardOver { forward: end_point(16, 2000) });
    world.hears(OTHER, PeerMessage::ForwardsKept { forwards: vec![] });
    assert_eq!((count(&world), world.relay_told().len()), (4, 0));
    world
        .hears(RELAY, PeerMessage::ForwardsKept { forwards: vec![end_point(16, 2001), end_point(16, 2222)] });
    assert_eq!((count(&world), world.relay_told().len()), (2, 2), "2001, and its way to node 16");
    // The manager that has asked is another one by now: its programs may be the same.
    world.input(OWN, Input::PeerGone { peer: RELAY });
    world.input(OWN, Input::HostConnected { peer: RELAYED, dialled: None, node: node(12), address: ADDRESS });
    let (cluster, host) = ("default".to_owned(), "far".to_owned());
    let incarnation = Incarnation(999);
    world.hears(RELAYED, PeerMessage::Hello { node: node(12), incarnation, cluster, host });
    world.hears(RELAYED, PeerMessage::ForwardsKept { forwards: vec![] });
    assert_eq!((count(&world), world.relay_told().len()), (2, 0));
}

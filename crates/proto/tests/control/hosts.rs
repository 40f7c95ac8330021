//! Managers on other hosts: what a certificate says counts, and what needs a descriptor is refused by name.

use std::time::Duration;

use proto::manager::{Input, PeerConn, Revoked};
use proto::wire::peer::{PeerMessage, PeerRequest, Requester};
use proto::wire::program::{Incarnation, InterruptKind, Refusal, Reply, Request};
use proto::wire::status::SessionState;

use crate::helpers::{node, offer, offer_interrupt, segment};
use crate::world::{ADDRESS, LIMIT, STRANGERS, World};

const FAR: PeerConn = PeerConn(STRANGERS + 5);

fn hello(id: u32) -> PeerMessage {
    let (cluster, host) = ("default".to_owned(), "far".to_owned());
    PeerMessage::Hello { node: node(id), incarnation: Incarnation(77), cluster, host }
}

fn says(world: &mut World, message: PeerMessage) {
    world.input(0, Input::PeerMessage { peer: FAR, message, descriptors: vec![] });
}

/// Node 4 with a session with node 8, which is on another host.
fn with_far_node() -> World {
    let mut world = World::up(1, 1);
    world.input(0, Input::HostConnected { peer: FAR, dialled: None, node: node(8), address: ADDRESS });
    says(&mut world, hello(8));
    world
}

fn refusals(world: &World) -> Vec<Refusal> {
    let refusal = |message: &PeerMessage| match message {
        PeerMessage::Rejected(refusal) | PeerMessage::Reply { result: Err(refusal), .. } => {
            Some(refusal.clone())
        }
        _ => None,
    };
    world.to_strangers.iter().filter_map(|(_, message)| refusal(message.as_ref()?)).collect()
}

#[test]
fn a_session_with_another_host_is_a_session() {
    let mut world = with_far_node();
    let link = world.status(0).links.remove(0);
    assert_eq!((link.peer, link.peer_host.as_str()), (node(8), "far"));
    assert_eq!((link.session, link.other_host, link.address), (SessionState::Valid, true, Some(ADDRESS)));
    let said = |world: &World| world.to_strangers.iter().filter(|(_, said)| said.is_some()).count();
    let before = said(&world);
    world.run_for(LIMIT * 2);
    assert!(said(&world) > before, "heartbeats");
    assert_eq!(world.status(0).links[0].session, SessionState::Lost, "nothing was heard");
    says(&mut world, PeerMessage::Heartbeat { sequence: 1, echo: None });
    assert_eq!(world.status(0).links[0].session, SessionState::Valid);
    world.input(0, Input::PeerGone { peer: FAR });
    assert_eq!(world.status(0).links[0].session, SessionState::Lost);
}

#[test]
fn a_hello_must_name_the_node_of_the_certificate() {
    let mut world = World::up(1, 1);
    world.input(0, Input::HostConnected { peer: FAR, dialled: None, node: node(8), address: ADDRESS });
    says(&mut world, hello(12));
    let refused = refusals(&world).remove(0).to_string();
    assert!(refused.contains("the certificate is that of node 8, and the hello names node 12"), "{refused}");
    assert!(world.to_strangers.contains(&(FAR, None)), "refused is closed");
    assert!(world.status(0).links.iter().all(|link| link.session != SessionState::Valid));
}

/// Else one member alone takes all connections, and the descriptors that the programs of this host need.
#[test]
fn a_node_that_says_nothing_holds_few_connections() {
    let mut world = with_far_node();
    let (far, silent) = (STRANGERS + 100, 50);
    for nth in 0..silent {
        let (peer, dialled) = (PeerConn(far + nth), None);
        world.input(0, Input::HostConnected { peer, dialled, node: node(8), address: ADDRESS });
    }
    let closed: Vec<_> = world.to_strangers.iter().filter(|(_, said)| said.is_none()).collect();
    assert_eq!(closed.len() as u64, silent - 4, "{closed:?}");
    let oldest_first = closed.iter().zip(far..).all(|((peer, _), expected)| peer.0 == expected);
    assert!(oldest_first, "{closed:?}");
    assert_eq!(world.status(0).links[0].session, SessionState::Valid, "the session of the node stays");
    // Others are not concerned.
    let other = PeerConn(far + silent);
    world.input(0, Input::HostConnected { peer: other, dialled: None, node: node(12), address: ADDRESS });
    world.input(0, Input::PeerMessage { peer: other, message: hello(12), descriptors: vec![] });
    assert!(world.status(0).links.iter().all(|link| link.session == SessionState::Valid));
}

/// It has proved that it is none of them.
#[test]
fn refused_hellos_make_up_no_nodes() {
    let mut world = World::up(1, 1);
    for nth in 0..20 {
        let (peer, dialled) = (PeerConn(STRANGERS + 200 + nth), None);
        world.input(0, Input::HostConnected { peer, dialled, node: node(8), address: ADDRESS });
        let message = hello(400 + 4 * nth as u32);
        world.input(0, Input::PeerMessage { peer, message, descriptors: vec![] });
    }
    let peers: Vec<_> = world.status(0).links.iter().map(|link| link.peer).collect();
    assert_eq!(peers, []);
    assert_eq!(refusals(&world).len(), 20);
}

/// A node of this host needs no certificate, and the authority may not know that it is there.
#[test]
fn a_certificate_does_not_take_the_place_of_a_node_of_this_host() {
    let mut world = World::up(2, 1);
    let session = |world: &World| {
        let link = world.status(0).links.remove(0);
        (link.peer, link.session, link.other_host)
    };
    assert_eq!(session(&world), (node(8), SessionState::Valid, false));
    world.input(0, Input::HostConnected { peer: FAR, dialled: None, node: node(8), address: ADDRESS });
    says(&mut world, hello(8));
    let refused = refusals(&world).remove(0).to_string();
    assert!(refused.contains("node 8") && refused.contains("on the host of node 4"), "{refused}");
    assert!(world.to_strangers.contains(&(FAR, None)), "refused is closed");
    assert_eq!(session(&world), (node(8), SessionState::Valid, false));
}

#[test]
fn a_program_is_told_at_once_that_an_object_is_on_another_host() {
    let mut world = with_far_node();
    let program = world.attach(0);
    let body = || Request::ConnectSegment { node: node(8), key: segment(7) };
    assert_eq!(world.ask(program, body()), Ok(Reply::OnOtherHost { addresses: vec![[10, 0, 0, 1].into()] }));
    let body_of_interrupt = Request::ConnectInterrupt { node: node(8), number: proto::ids::InterruptNo(3) };
    assert_eq!(
        world.ask(program, body_of_interrupt),
        Ok(Reply::OnOtherHost { addresses: vec![[10, 0, 0, 1].into()] })
    );
    // While the session is down too: the next question says so.
    world.input(0, Input::PeerGone { peer: FAR });
    assert_eq!(world.ask(program, body()), Ok(Reply::OnOtherHost { addresses: vec![[10, 0, 0, 1].into()] }));
}

#[test]
fn a_manager_on_another_host_gets_no_object() {
    let mut world = with_far_node();
    let owner = world.attach(0);
    offer(&mut world, owner, segment(7));
    offer_interrupt(&mut world, owner, 3, InterruptKind::Plain);
    let requester = || Requester { uid: 0, gids: vec![], pid: 1, name: "x".into() };
    for (id, body) in [
        PeerRequest::ConnectSegment { key: segment(7), requester: requester() },
        PeerRequest::ConnectInterrupt { number: proto::ids::InterruptNo(3), requester: requester() },
    ]
    .into_iter()
    .enumerate()
    {
        says(&mut world, PeerMessage::Request { id: id as u64, body });
    }
    let refused = refusals(&world);
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|refusal| matches!(refusal, Refusal::NoDataLink { .. })));
    assert_eq!(world.status(0).counters.connections, 0);
}

#[test]
fn a_known_address_is_dialled_by_the_higher_id_only() {
    let mut world = World::new(2, 1);
    world.start(1);
    world.run_for(Duration::from_millis(10));
    let dials = world.dials.len();
    world.input(1, Input::HostSeen { node: node(4) });
    assert_eq!(world.dials.len(), dials + 1);
    world.input(1, Input::HostSeen { node: node(12) });
    assert_eq!(world.dials.len(), dials + 1);
    assert!(world.status(1).links.iter().any(|link| link.peer == node(12) && link.other_host));
}

fn far_link(world: &World) -> (SessionState, String) {
    let link = world.status(0).links.remove(0);
    (link.session, link.reason.unwrap_or_default())
}

#[test]
fn nothing_of_a_revoked_node_continues_and_it_is_not_dialled() {
    let mut world = World::up(2, 1);
    world.input(1, Input::HostConnected { peer: FAR, dialled: None, node: node(12), address: ADDRESS });
    world.to_strangers.clear();
    let far = |world: &World| world.status(1).links.into_iter().find(|link| link.peer == node(12)).unwrap();
    world.input(1, Input::PeerMessage { peer: FAR, message: hello(12), descriptors: vec![] });
    assert_eq!(far(&world).session, SessionState::Valid);
    world.input(1, Input::HostRevoked { node: node(12), revoked: Revoked::Theirs });
    assert!(world.to_strangers.contains(&(FAR, None)), "it is closed");
    assert_eq!(far(&world).session, SessionState::Revoked);
    // The lower id is dialled, and a node of this host is none that a certificate concerns.
    world.input(1, Input::HostRevoked { node: node(4), revoked: Revoked::Theirs });
    let near = world.status(1).links.into_iter().find(|link| link.peer == node(4)).unwrap();
    assert_eq!(near.session, SessionState::Valid);
}

#[test]
fn a_revoked_node_that_is_lower_is_dialled_again_only_when_it_is_seen() {
    let mut world = World::new(2, 1);
    world.start(1);
    world.input(1, Input::HostSeen { node: node(4) });
    let dials = world.dials.len();
    world.input(1, Input::HostRevoked { node: node(4), revoked: Revoked::Theirs });
    world.input(1, Input::DialFailed { node: node(4), why: "late".into() });
    world.run_for(LIMIT * 20);
    assert_eq!(world.dials.len(), dials);
    let link = world.status(1).links.remove(0);
    assert_eq!(link.session, SessionState::Revoked);
    assert!(link.reason.unwrap().contains("`tieline cluster token --node 4`"));
    world.input(1, Input::HostSeen { node: node(4) });
    assert_eq!(world.dials.len(), dials + 1);
}

#[test]
fn a_program_is_told_at_once_that_a_node_was_revoked() {
    let mut world = with_far_node();
    let program = world.attach(0);
    world.input(0, Input::HostRevoked { node: node(8), revoked: Revoked::Theirs });
    assert_eq!(far_link(&world).0, SessionState::Revoked);
    let refused = world.ask(program, Request::ConnectSegment { node: node(8), key: segment(7) });
    assert!(
        matches!(&refused, Err(Refusal::NoDataLink { why, .. }) if why.contains("revoked")),
        "{refused:?}"
    );
    // With a new certificate it is one of the cluster again.
    let again = PeerConn(FAR.0 + 1);
    world.input(0, Input::HostConnected { peer: again, dialled: None, node: node(8), address: ADDRESS });
    world.input(0, Input::PeerMessage { peer: again, message: hello(8), descriptors: vec![] });
    assert_eq!(far_link(&world), (SessionState::Valid, String::new()));
    world.input(0, Input::HostRevoked { node: node(8), revoked: Revoked::Ours });
    assert_eq!(far_link(&world).0, SessionState::Refused);
    assert!(far_link(&world).1.contains("this node's certificate was revoked"));
}

#[test]
fn a_node_that_has_left_is_not_listed() {
    let mut world = with_far_node();
    world.input(0, Input::HostRevoked { node: node(8), revoked: Revoked::Left });
    assert_eq!(world.status(0).links.len(), 0);
    world.run_for(LIMIT * 20);
    world.input(0, Input::PeerGone { peer: FAR });
    assert_eq!(world.status(0).links.len(), 0);
}

#[test]
fn a_node_that_is_refused_as_revoked_says_so_and_dials_at_the_slowest_pace() {
    let mut world = World::new(2, 1);
    world.start(1);
    world.input(1, Input::HostSeen { node: node(4) });
    world.input(1, Input::DialRefused { node: node(4), why: "it was revoked".into() });
    let link = world.status(1).links.remove(0);
    assert_eq!((link.session, link.reason.as_deref()), (SessionState::Refused, Some("it was revoked")));
    let before = world.dials.len();
    world.run_for(proto::session::REDIAL_MAX / 3);
    assert_eq!(world.dials.len(), before);
    world.run_for(proto::session::REDIAL_MAX);
    assert!(world.dials.len() > before);
}

//! Nodes without a common link: who asks a third one to forward, when, what that one refuses, and that a
//! direct connection takes its place again.

mod needs;

use std::net::SocketAddr;
use std::time::Duration;

use proto::manager::{Input, Output, PeerConn, Revoked};
use proto::wire::network::{ImporterEnd, ImporterRail};
use proto::wire::peer::{PeerMessage, PeerReply, PeerRequest};
use proto::wire::program::{Imported, Incarnation, Refusal, Request};
use proto::wire::relay::{Forward, ForwardNo, address_of};
use proto::wire::status::{LinkStatus, SessionState};

use crate::helpers::{node, segment};
use crate::world::{ADDRESS, LIMIT, STRANGERS, World};

/// With node 12, a relay.
const RELAY: PeerConn = PeerConn(STRANGERS + 1);
/// With node 4 by way of it, and without it.
const RELAYED: PeerConn = PeerConn(STRANGERS + 2);
const DIRECT: PeerConn = PeerConn(STRANGERS + 3);
/// With node 16.
const OTHER: PeerConn = PeerConn(STRANGERS + 4);
/// The node that is tested: node 8.
const OWN: usize = 1;

fn at(port: u16) -> SocketAddr {
    ([10, 0, 0, 3], port).into()
}

impl World {
    fn hears(&mut self, peer: PeerConn, message: PeerMessage) {
        self.input(OWN, Input::PeerMessage { peer, message, descriptors: vec![] });
    }

    fn greeted(&mut self, peer: PeerConn, id: u32) {
        let (cluster, host) = ("default".to_owned(), "far".to_owned());
        let incarnation = Incarnation(70 + u64::from(id));
        self.hears(peer, PeerMessage::Hello { node: node(id), incarnation, cluster, host });
    }

    fn connected(&mut self, peer: PeerConn, dialled: bool, id: u32) {
        let dialled = dialled.then(|| node(id));
        self.input(OWN, Input::HostConnected { peer, dialled, node: node(id), address: ADDRESS });
        self.greeted(peer, id);
    }

    /// While all others are heard.
    fn pass(&mut self, seconds: u64, heard: &[PeerConn]) {
        for _ in 0..seconds * 5 {
            self.run_for(Duration::from_millis(200));
            for peer in heard {
                self.hears(*peer, PeerMessage::Heartbeat { sequence: 1, echo: None });
            }
        }
    }

    /// What was asked of a relay: the number of the question, and whom.
    fn asked(&mut self) -> Vec<(u64, PeerConn, Forward)> {
        let said = self.to_strangers.drain(..);
        let asked = said.filter_map(|(peer, said)| match said? {
            PeerMessage::Request { id, body: PeerRequest::Relay { forward } } => Some((id, peer, forward)),
            _ => None,
        });
        asked.collect()
    }

    fn relay_told(&mut self) -> Vec<Output> {
        std::mem::take(&mut self.nodes[OWN].relay_outputs)
    }

    fn link_to(&self, id: u32) -> LinkStatus {
        self.status(OWN).links.into_iter().find(|link| link.peer == node(id)).expect("a link")
    }
}

/// Node 8, which knows of node 4 and cannot reach it, with a session with node 12.
fn without_a_link(relays: bool) -> World {
    let mut world = World::new(2, 1);
    // It is one itself, which changes nothing.
    world.nodes[OWN].relay = true;
    world.start(OWN);
    world.connected(RELAY, false, 12);
    if relays {
        world.hears(RELAY, PeerMessage::Relays);
    }
    world.input(OWN, Input::HostSeen { node: node(4) });
    world
}

/// The same, whose session goes by way of node 12.
fn relayed() -> World {
    let mut world = without_a_link(true);
    world.pass(10, &[RELAY]);
    let (id, ..) = world.asked()[0];
    world.hears(RELAY, PeerMessage::Reply { id, result: Ok(PeerReply::Relay { at: at(40_000) }) });
    world.relay_told();
    world.input(
        OWN,
        Input::HostConnectedVia { peer: RELAYED, node: node(4), relay: node(12), address: ADDRESS },
    );
    world.greeted(RELAYED, 4);
    world
}

#[test]
fn a_node_that_is_not_reached_for_a_while_is_reached_by_way_of_a_relay() {
    let mut world = without_a_link(true);
    world.pass(2, &[RELAY]);
    assert_eq!(world.asked(), [], "too early");
    world.pass(8, &[RELAY]);
    let asked = world.asked();
    let [(id, RELAY, Forward::Manager { to })] = asked[..] else { panic!("{asked:?}") };
    assert_eq!((to, world.relay_told().len()), (node(4), 0));
    world.hears(RELAY, PeerMessage::Reply { id, result: Ok(PeerReply::Relay { at: at(40_000) }) });
    let dialled = world.relay_told();
    let there = Output::DialRelayed { node: node(4), relay: node(12), through: RELAY, port: 40_000 };
    assert!(dialled.len() <= 1 && dialled.iter().all(|output| *output == there), "{dialled:?}");

    let mut world = relayed();
    let said: Vec<_> = world.to_strangers.iter().filter(|(peer, _)| *peer == RELAYED).collect();
    let via = PeerMessage::Via { relay: node(12) };
    assert!(matches!(said[0].1, Some(PeerMessage::Hello { .. })), "{said:?}");
    assert_eq!(said[1].1, Some(via), "the other side knows it before anything else");
    world.pass(1, &[RELAY, RELAYED]);
    let link = world.link_to(4);
    let via = link.via.expect("a relay");
    assert_eq!((link.session, via.relay), (SessionState::Valid, node(12)));
    assert_eq!(via.since_ns, 1_000_000_000);
}

#[test]
fn without_a_relay_nobody_is_asked_and_one_that_refuses_is_not_asked_at_once_again() {
    let mut world = without_a_link(false);
    world.pass(20, &[RELAY]);
    assert_eq!(world.asked(), []);
    let mut world = without_a_link(true);
    world.pass(10, &[RELAY]);
    let mut times = 0;
    for _ in 0..60 {
        for (id, ..) in world.asked() {
            let result = Err(Refusal::Invalid("no".to_owned()));
            world.hears(RELAY, PeerMessage::Reply { id, result });
            times += 1;
        }
        world.pass(1, &[RELAY]);
    }
    assert!((10..40).contains(&times), "{times} questions in a minute");
    let said = |text: &&(proto::manager::LogLevel, String)| {
        text.1.contains("by way of node 12: request refused: no")
    };
    assert_eq!(world.nodes[OWN].log.iter().filter(said).count(), 1);
}

#[test]
fn a_direct_connection_takes_the_place_of_a_relayed_one() {
    let mut world = relayed();
    let before = world.dials.len();
    world.pass(11, &[RELAY, RELAYED]);
    assert_eq!(world.dials.len(), before + 2, "beside the session");
    assert_eq!(world.link_to(4).session, SessionState::Valid);
    world.connected(DIRECT, true, 4);
    let link = world.link_to(4);
    assert_eq!((link.session, link.via), (SessionState::Valid, None));
    assert!(world.to_strangers.contains(&(RELAYED, None)), "the old one is closed");
    let before = world.dials.len();
    world.pass(20, &[RELAY, DIRECT]);
    assert_eq!(world.dials.len(), before);
    // One that says nothing takes no place, and does not stay.
    let mut world = relayed();
    world.input(
        OWN,
        Input::HostConnected { peer: DIRECT, dialled: Some(node(4)), node: node(4), address: ADDRESS },
    );
    world.pass(40, &[RELAY, RELAYED]);
    assert!(world.to_strangers.contains(&(DIRECT, None)));
    assert!(world.link_to(4).via.is_some());
}

#[test]
fn a_relay_that_dies_takes_the_session_with_it_and_another_one_is_asked() {
    let mut world = relayed();
    world.connected(OTHER, false, 16);
    world.hears(OTHER, PeerMessage::Relays);
    world.input(OWN, Input::PeerGone { peer: RELAYED });
    world.input(OWN, Input::PeerGone { peer: RELAY });
    assert_eq!(world.link_to(4).session, SessionState::Lost);
    world.asked();
    world.pass(10, &[OTHER]);
    let asked = world.asked();
    assert!(matches!(asked[..], [(_, OTHER, Forward::Manager { .. })]), "{asked:?}");
    // Without an answer nobody else is asked, until the session with it is lost.
    world.pass(20, &[OTHER]);
    assert_eq!(world.asked(), []);
}

#[test]
fn a_relay_that_was_revoked_forwards_no_session_any_more() {
    let mut world = relayed();
    world.input(OWN, Input::HostRevoked { node: node(12), revoked: Revoked::Theirs });
    assert_eq!(world.link_to(4).session, SessionState::Lost);
    assert!(world.link_to(4).reason.unwrap().contains("node 12, which forwarded it, was revoked"));
    assert!(world.to_strangers.contains(&(RELAYED, None)));
    world.asked();
    world.pass(20, &[]);
    assert_eq!(world.asked(), []);
}

/// An end point's card of libfabric's provider for TCP.
fn card(provider: &str, at: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(at) = at else { panic!("{at}") };
    let mut bytes = (provider.len() as u16).to_le_bytes().to_vec();
    bytes.extend(provider.as_bytes());
    bytes.extend([8, 0, 2, 0]);
    bytes.extend(at.port().to_be_bytes());
    bytes.extend(at.ip().octets());
    bytes
}

#[test]
fn the_end_point_of_a_program_is_replaced_by_the_relays() {
    let mut world = relayed();
    let program = world.attach(OWN);
    world.asked();
    let ask = |world: &mut World, provider| {
        let rail = |port| ImporterRail { end_point: card(provider, at(port)), session: 7 };
        let end = ImporterEnd { rails: vec![rail(2000), rail(2001)] };
        let what = Imported::Segment(segment(1));
        let id = world.request(program, Request::ConnectByNetwork { node: node(4), what, end }, vec![]);
        world.run_for(Duration::from_millis(20));
        id
    };
    ask(&mut world, "tcp;ofi_rxm");
    let asked = world.asked();
    let [(id, RELAY, forward)] = asked[..] else { panic!("{asked:?}") };
    assert_eq!(forward, Forward::EndPoint { from: node(4), at: at(2000) });
    world.hears(RELAY, PeerMessage::Reply { id, result: Ok(PeerReply::Relay { at: at(40_002) }) });
    let ends = world.to_strangers.iter().filter_map(|(peer, said)| match said {
        Some(PeerMessage::Request { body: PeerRequest::ConnectByNetwork { end, .. }, .. }) => {
            Some((*peer, end))
        }
        _ => None,
    });
    let ends: Vec<_> = ends.collect();
    let [(RELAYED, end)] = ends[..] else { panic!("{ends:?}") };
    assert_eq!((end.rails.len(), end.rails[0].session), (1, 7));
    assert_eq!(address_of(&end.rails[0].end_point), Ok(at(40_002)));

    let other = ask(&mut world, "verbs;ofi_rxm");
    let refused = world.answer(program, other).unwrap_err().to_string();
    assert!(refused.contains("node 12") && refused.contains("tcp;ofi_rxm"), "{refused}");
    let other = ask(&mut world, "tcp;ofi_rxm");
    let (id, ..) = world.asked()[0];
    world.hears(RELAY, PeerMessage::Reply { id, result: Err(Refusal::Invalid("no room".to_owned())) });
    world.run_for(Duration::from_millis(20));
    let refused = world.answer(program, other).unwrap_err().to_string();
    assert!(refused.contains("by way of node 12") && refused.contains("no room"), "{refused}");
}

#[test]
fn a_relay_that_does_not_respond_is_left_when_a_program_needs_one_and_there_is_another() {
    for is_other in [false, true] {
        let mut world = relayed();
        if is_other {
            world.connected(OTHER, false, 16);
            world.hears(OTHER, PeerMessage::Relays);
        }
        let program = world.attach(OWN);
        world.asked();
        // Its manager is silent; what goes through it is not.
        let heard = if is_other { vec![RELAYED, OTHER] } else { vec![RELAYED] };
        world.pass(60, &heard);
        assert_eq!(world.link_to(12).session, SessionState::Lost);
        assert_eq!((world.link_to(4).session, world.asked()), (SessionState::Valid, vec![]));
        let rail = ImporterRail { end_point: card("tcp;ofi_rxm", at(2000)), session: 7 };
        let what = Imported::Segment(segment(1));
        let request =
            Request::ConnectByNetwork { node: node(4), what, end: ImporterEnd { rails: vec![rail] } };
        let id = world.request(program, request, vec![]);
        world.run_for(Duration::from_millis(20));
        let refused = world.answer(program, id).unwrap_err().to_string();
        assert!(refused.contains("node 12"), "{refused}");
        world.pass(10, &heard);
        let asked = world.asked();
        if is_other {
            assert!(matches!(asked[..], [(_, OTHER, Forward::Manager { .. })]), "{asked:?}");
        } else {
            assert_eq!(
                (world.link_to(4).session, asked),
                (SessionState::Valid, vec![]),
                "there is nothing better"
            );
        }
    }
}

/// Node 8 as a relay, between the nodes 12 and 16.
fn relaying(relay: bool) -> World {
    let mut world = World::new(2, 1);
    world.nodes[OWN].relay = relay;
    world.start(OWN);
    world.connected(RELAY, false, 12);
    world.connected(OTHER, false, 16);
    world.to_strangers.clear();
    world
}

/// What node 12 is answered.
fn forwards(world: &mut World, forward: Forward) -> Result<SocketAddr, String> {
    world.hears(RELAY, PeerMessage::Request { id: 9, body: PeerRequest::Relay { forward } });
    for output in world.nodes[OWN].relay_outputs.clone() {
        if let Output::OpenForward { forward: no, at, .. } = output {
            let port = 50_000 + no.0 as u16;
            let is_there = at.is_none_or(|at| at.port() != 2999);
            let result = if is_there { Ok(self::at(port)) } else { Err("port 2999 is in use".to_owned()) };
            world.input(OWN, Input::ForwardReady { forward: no, result });
        }
    }
    world.relay_told();
    match world.to_strangers.pop() {
        Some((RELAY, Some(PeerMessage::Reply { id: 9, result }))) => match result {
            Ok(PeerReply::Relay { at }) => Ok(at),
            Ok(other) => panic!("{other:?}"),
            Err(refusal) => Err(refusal.to_string()),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_relay_forwards_between_two_others_that_are_connected_and_nothing_else() {
    let mut off = relaying(false);
    let refused = forwards(&mut off, Forward::Manager { to: node(16) }).unwrap_err();
    assert!(refused.contains("set `relay = true` under `[manager]`"), "{refused}");

    let mut world = relaying(true);
    let mut refused = |forward, why: &str| {
        let said = forwards(&mut world, forward).unwrap_err();
        assert!(said.contains(why), "{said}");
    };
    let end_point = |from, port| Forward::EndPoint { from: node(from), at: at(port) };
    refused(Forward::Manager { to: node(20) }, "node 20 is not reachable");
    refused(Forward::Manager { to: node(12) }, "between two other nodes only");
    refused(Forward::Manager { to: node(8) }, "between two other nodes only");
    refused(end_point(8, 2000), "between two other nodes only");
    refused(end_point(16, 1023), "no port below 1024");
    refused(end_point(16, 2999), "node 8 cannot forward: port 2999 is in use");
    assert_eq!(world.status(OWN).relayed, []);

    assert_eq!(forwards(&mut world, Forward::Manager { to: node(16) }), Ok(at(50_002)));
    assert_eq!(forwards(&mut world, Forward::Manager { to: node(16) }), Ok(at(50_002)), "the same one");
    for port in 2000..2063 {
        assert!(forwards(&mut world, end_point(16, port)).is_ok(), "{port}");
    }
    let refused = forwards(&mut world, end_point(16, 2063)).unwrap_err();
    assert!(refused.contains("the limit of 64 forwards for node"), "{refused}");
    let pair = world.status(OWN).relayed[0];
    assert_eq!((pair.first, pair.second, pair.forwards), (node(12), node(16), 64));
    // One that nobody has used makes room.
    world.input(OWN, Input::ForwardGone { forward: ForwardNo(3) });
    assert!(forwards(&mut world, end_point(16, 2063)).is_ok());
    // Nothing of a node that goes stays.
    world.input(OWN, Input::HostRevoked { node: node(16), revoked: Revoked::Theirs });
    let closed = world.relay_told();
    assert_eq!(closed.len(), 64);
    assert!(closed.iter().all(|output| matches!(output, Output::CloseForward { .. })), "{closed:?}");
    assert_eq!(world.status(OWN).relayed, []);
    let refused = forwards(&mut world, Forward::Manager { to: node(16) }).unwrap_err();
    assert!(refused.contains("node 16 is not reachable"), "{refused}");
}

#[test]
fn what_goes_by_way_of_a_relay_is_not_forwarded_once_more() {
    let mut world = relayed();
    let refused = forwards(&mut world, Forward::Manager { to: node(4) }).unwrap_err();
    assert!(refused.contains("node 8 itself reaches it via node 12"), "{refused}");
    world.pass(LIMIT.as_secs() + 1, &[RELAY]);
    assert_eq!(world.link_to(4).session, SessionState::Lost);
}

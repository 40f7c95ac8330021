//! The status of a node, which a program of another node asks for.

use proto::manager::{Input, PeerConn};
use proto::wire::peer::{PeerMessage, PeerReply, PeerRequest};
use proto::wire::program::{Incarnation, Refusal, Reply, Request, RequestId};
use proto::wire::status::{MAX_LISTED, NodeStatus, ProgramStatus};

use crate::helpers::{node, offer, segment};
use crate::world::{ADDRESS, STRANGERS, World};

const FAR: PeerConn = PeerConn(STRANGERS + 5);

fn says(world: &mut World, message: PeerMessage) {
    world.input(0, Input::PeerMessage { peer: FAR, message, descriptors: vec![] });
}

/// Node 4 with a session with node 8, which is on another host.
fn with_far_node() -> World {
    let mut world = World::up(1, 1);
    world.input(0, Input::HostConnected { peer: FAR, dialled: None, node: node(8), address: ADDRESS });
    let (cluster, host) = ("default".to_owned(), "far".to_owned());
    says(&mut world, PeerMessage::Hello { node: node(8), incarnation: Incarnation(77), cluster, host });
    world
}

fn of(number: u32) -> Request {
    Request::StatusOf { node: node(number) }
}

/// Sends a request whose reply the far node gives, which has this number there.
fn asks(world: &mut World, program: usize) -> (RequestId, RequestId) {
    let id = world.request(program, of(8), vec![]);
    let mut there = None;
    world.run_until("the question is sent", |world| {
        world.to_strangers.iter().any(|(_, said)| is_question(said.as_ref()))
    });
    for (_, said) in &world.to_strangers {
        if let Some(PeerMessage::Request { id, body: PeerRequest::Status }) = said {
            there = Some(*id);
        }
    }
    world.to_strangers.clear();
    (id, there.expect("the question"))
}

fn is_question(said: Option<&PeerMessage>) -> bool {
    matches!(said, Some(PeerMessage::Request { body: PeerRequest::Status, .. }))
}

fn answered(world: &mut World, program: usize, with: Result<PeerReply, Refusal>) -> Result<Reply, Refusal> {
    let (id, there) = asks(world, program);
    says(world, PeerMessage::Reply { id: there, result: with });
    world.answer(program, id).map(|(reply, _)| reply)
}

/// As the manager of node 8 would say it.
fn status() -> Box<NodeStatus> {
    Box::new(World::up(2, 1).status(1))
}

#[test]
fn each_node_tells_the_other_how_it_is() {
    let mut world = World::up(3, 1);
    let (program, owner) = (world.attach(0), world.attach(1));
    offer(&mut world, owner, segment(7));
    let Ok(Reply::Status(far)) = world.ask(program, of(8)) else { panic!("a status") };
    assert_eq!((far.info.node, far.segments_total, far.links.len()), (node(8), 1, 2));
    let Ok(Reply::Status(own)) = world.ask(program, of(4)) else { panic!("a status") };
    assert_eq!(own.info.node, node(4));
    let refused = world.ask(program, of(16)).unwrap_err();
    assert!(matches!(&refused, Refusal::Unreachable { node: at, .. } if *at == node(16)), "{refused:?}");
}

#[test]
fn a_manager_on_another_host_is_told() {
    let mut world = with_far_node();
    world.to_strangers.clear();
    says(&mut world, PeerMessage::Request { id: 5, body: PeerRequest::Status });
    let told = world.to_strangers.iter().find_map(|(_, said)| match said {
        Some(PeerMessage::Reply { id: 5, result: Ok(PeerReply::Status(status)) }) => Some(status),
        _ => None,
    });
    assert_eq!(told.unwrap().info.node, node(4));
}

#[test]
fn what_another_host_says_is_shown_and_does_nothing_else() {
    let mut world = with_far_node();
    let program = world.attach(0);
    let mut said = status();
    said.info.host = "\u{1b}[2Jx".repeat(100);
    said.links[0].reason = Some("\u{7}\n".repeat(400));
    let name = "n".repeat(5000);
    said.programs = vec![ProgramStatus { name, pid: 1, uid: 1, segments: 0, interrupts: 0, imports: 0 }; 300];
    let Ok(Reply::Status(told)) = answered(&mut world, program, Ok(PeerReply::Status(said))) else {
        panic!("a status")
    };
    assert!(told.info.host.starts_with("?[2Jx") && told.info.host.len() <= 64, "{}", told.info.host);
    let reason = told.links[0].reason.clone().unwrap();
    let shown = reason.strip_suffix('…').unwrap();
    assert!(shown.chars().all(|c| c == '?') && reason.len() <= 480, "{reason}");
    assert!(told.programs.len() > MAX_LISTED && told.programs.iter().all(|program| program.name.len() == 64));
    let told = proto::wire::program::ToProgram::Reply { id: u64::MAX, result: Ok(Reply::Status(told)) };
    proto::wire::encode(&told).expect("it fits");
}

#[test]
fn a_reply_of_another_kind_or_node_is_none() {
    let mut world = with_far_node();
    let program = world.attach(0);
    let refused = answered(&mut world, program, Ok(PeerReply::Resumed)).unwrap_err().to_string();
    assert!(refused.contains("the manager of node 8 sent a reply of another kind"), "{refused}");
    let mut of_another = status();
    of_another.info.node = node(12);
    let refused = answered(&mut world, program, Ok(PeerReply::Status(of_another))).unwrap_err().to_string();
    assert!(refused.contains("the manager of node 8 sent the status of node 12"), "{refused}");
}

#[test]
fn a_question_ends_with_the_session_and_with_patience() {
    let mut world = with_far_node();
    let program = world.attach(0);
    let (id, _) = asks(&mut world, program);
    world.input(0, Input::PeerGone { peer: FAR });
    let refused = world.answer(program, id).unwrap_err();
    assert!(matches!(&refused, Refusal::Unreachable { node: at, .. } if *at == node(8)), "{refused:?}");
    let mut world = with_far_node();
    let program = world.attach(0);
    let refused = world.ask(program, of(8)).unwrap_err().to_string();
    assert!(refused.contains("node 8"), "{refused}");
}

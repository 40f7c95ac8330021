//! Connections between programs on different hosts: both learn the other's end of the link, nobody else does,
//! and nothing waits for ever, whoever goes, restarts, or says nothing.

use std::time::Duration;

use proto::ids::{InterruptNo, SegmentId, SegmentKey};
use proto::wire::network::{
    ImporterEnd, ImporterRail, MAX_END_POINT_BYTES, MAX_QUESTION_BYTES, OwnerEnd, OwnerRail, RailDown,
};
use proto::wire::program::{
    Access, ConnectionId, Event, ImportSlot, Imported, Incarnation, InterruptKind, LossReason, Refusal,
    Reply, Request, RequestId,
};

use crate::actor::memory;
use crate::helpers::{copy, create_request, node, offer, offer_interrupt, segment};
use crate::world::{GRACE, LIMIT, World};

const SEGMENT_1: Imported = Imported::Segment(SegmentKey::Segment(SegmentId(1)));
const MOMENT: Duration = Duration::from_millis(20);

/// The one address of each node of the simulation.
const RAIL: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

fn importer_end() -> ImporterEnd {
    ImporterEnd { rails: vec![ImporterRail { end_point: vec![1, 2, 3], session: 77 }] }
}

fn owner_end() -> OwnerEnd {
    OwnerEnd { rails: vec![OwnerRail { end_point: vec![4, 5], key: vec![6; 32] }] }
}

/// Two hosts, an owner on the first that offers segment 1, an importer on the second.
fn two_hosts() -> (World, usize, usize) {
    let mut world = World::up_apart(2, 1);
    let (owner, importer) = (world.attach(0), world.attach(1));
    offer(&mut world, owner, segment(1));
    (world, owner, importer)
}

fn ask_for(world: &mut World, importer: usize, what: Imported) -> RequestId {
    let body = Request::ConnectByNetwork { node: node(4), what, end: importer_end() };
    let id = world.request(importer, body, vec![]);
    world.run_for(MOMENT);
    id
}

/// What the owner was told: the connection, and whether it is asked for its end.
fn wanted(world: &mut World, owner: usize) -> ConnectionId {
    match &world.events(owner)[..] {
        [
            Event::Connected { connection: first, .. },
            Event::WantedByNetwork { what: SEGMENT_1, node: importer, connection, end, addresses },
        ] => {
            assert_eq!(addresses[..], [RAIL]);
            assert_eq!((first, *importer, end), (connection, node(8), &importer_end()));
            *connection
        }
        other => panic!("{other:?}"),
    }
}

fn answer(world: &mut World, owner: usize, connection: ConnectionId) {
    let body = Request::AnswerByNetwork { connection, end: Ok(owner_end()) };
    assert_eq!(world.ask(owner, body), Ok(Reply::Done));
}

fn connect(world: &mut World, owner: usize, importer: usize) -> (ImportSlot, ConnectionId) {
    let id = ask_for(world, importer, SEGMENT_1);
    let connection = wanted(world, owner);
    answer(world, owner, connection);
    let (reply, _) = world.answer(importer, id).expect("connected");
    let Reply::ByNetwork { import, connection: theirs, size_bytes, incarnation, end } = reply else {
        panic!("{reply:?}")
    };
    assert_eq!((theirs, size_bytes, incarnation), (connection, 4096, Incarnation(1001)));
    assert_eq!(end, owner_end());
    (import, connection)
}

#[test]
fn rails_that_a_program_does_not_use_are_shown_while_it_says_so_and_is_connected() {
    let (mut world, owner, importer) = two_hosts();
    let (import, _) = connect(&mut world, owner, importer);
    let tell = |world: &mut World, who, import, rails: &[u8]| {
        let down = rails.iter().map(|rail| RailDown { rail: *rail, why: "it is\u{7} silent".to_owned() });
        world.ask(who, Request::TellRails { import, down: down.collect() })
    };
    let shown = |world: &World| {
        let reduced = world.status(1).reduced;
        reduced
            .iter()
            .map(|rail| (rail.peer, rail.rail, rail.connections, rail.why.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(tell(&mut world, importer, import, &[2]), Ok(Reply::Done));
    assert_eq!(shown(&world), [(node(4), 2, 1, "it is? silent".to_owned())]);
    world.run_for(MOMENT);
    // Said once more it is not newer.
    assert_eq!(tell(&mut world, importer, import, &[2, 3]), Ok(Reply::Done));
    let reduced = world.status(1).reduced;
    assert!(reduced[0].since_ns >= MOMENT.as_nanos() as u64 && reduced[1].since_ns < reduced[0].since_ns);
    assert_eq!(tell(&mut world, importer, import, &[]), Ok(Reply::Done));
    assert_eq!(shown(&world), []);
    // Not another program's connection, and no rails that there are not.
    let other = world.attach(1);
    assert!(tell(&mut world, other, import, &[2]).is_err());
    for wrong in [&[0][..], &[5], &[1, 2, 3, 4, 1]] {
        assert!(tell(&mut world, importer, import, wrong).is_err(), "{wrong:?}");
    }
    tell(&mut world, importer, import, &[2]).expect("told");
    assert_eq!(world.ask(importer, Request::Disconnect { import }), Ok(Reply::Done));
    assert_eq!(shown(&world), []);
}

/// What the owner was asked last: the number of the question, and the question.
fn asked(world: &mut World, owner: usize, of: ConnectionId) -> (u64, Vec<u8>) {
    match world.events(owner).pop() {
        Some(Event::Asked { connection, number, question }) if connection == of => (number, question),
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_importer_asks_about_rails_by_way_of_the_managers_and_each_question_has_one_answer() {
    let (mut world, owner, importer) = two_hosts();
    let (import, connection) = connect(&mut world, owner, importer);
    let ask = |world: &mut World, question: &[u8]| {
        let id = world.request(importer, Request::AskOwner { import, question: question.to_vec() }, vec![]);
        world.run_for(MOMENT);
        id
    };
    let say = |world: &mut World, who, number, answer: &[u8]| {
        world.ask(who, Request::AnswerImporter { connection, number, answer: answer.to_vec() })
    };
    let busy = |refused| matches!(refused, Err(Refusal::OwnerBusy { .. }));
    let id = ask(&mut world, &[1, 2, 3]);
    let (number, question) = asked(&mut world, owner, connection);
    assert_eq!(question, [1, 2, 3]);
    // One at a time; only its owner answers, and only the question that is asked.
    let second = ask(&mut world, &[4]);
    assert!(busy(world.answer(importer, second).map(drop)));
    let other = world.attach(0);
    assert!(matches!(say(&mut world, other, number, &[7]), Err(Refusal::NotFound { .. })));
    assert!(matches!(say(&mut world, owner, number + 1, &[7]), Err(Refusal::NotFound { .. })));
    assert!(matches!(say(&mut world, owner, number, &[7; 65]), Err(Refusal::Invalid(_))));
    assert_eq!(say(&mut world, owner, number, &[7; 32]), Ok(Reply::Done));
    world.run_for(MOMENT);
    let answered = world.answer(importer, id).map(|(reply, _)| reply);
    assert_eq!(answered, Ok(Reply::Answer { answer: vec![7; 32] }));
    assert!(matches!(say(&mut world, owner, number, &[7]), Err(Refusal::NotFound { .. })));
    // A silent owner ends the wait, and what it says then is not taken for the answer to the next question.
    let id = ask(&mut world, &[5]);
    let (late, _) = asked(&mut world, owner, connection);
    world.run_for(LIMIT + MOMENT);
    assert!(busy(world.answer(importer, id).map(drop)));
    let id = ask(&mut world, &[6]);
    let (number, _) = asked(&mut world, owner, connection);
    assert!(matches!(say(&mut world, owner, late, &[5]), Err(Refusal::NotFound { .. })));
    assert_eq!(say(&mut world, owner, number, &[6]), Ok(Reply::Done));
    world.run_for(MOMENT);
    assert_eq!(world.answer(importer, id).map(drop), Ok(()));
}

#[test]
fn questions_about_rails_end_with_the_owner_and_are_of_connections_that_a_program_holds() {
    let (mut world, owner, importer) = two_hosts();
    let (import, connection) = connect(&mut world, owner, importer);
    let other = world.attach(1);
    let ask = |import, question| Request::AskOwner { import, question };
    assert!(matches!(world.ask(other, ask(import, vec![1])), Err(Refusal::Invalid(_))));
    let long = vec![1; MAX_QUESTION_BYTES + 1];
    assert!(matches!(world.ask(importer, ask(import, long)), Err(Refusal::Invalid(_))));
    let id = world.request(importer, ask(import, vec![1; MAX_QUESTION_BYTES]), vec![]);
    world.run_for(MOMENT);
    asked(&mut world, owner, connection);
    world.kill_program(owner);
    world.run_for(MOMENT);
    assert!(matches!(world.answer(importer, id), Err(Refusal::NotFound { .. })));
    assert!(matches!(world.ask(importer, ask(import, vec![1])), Err(Refusal::Invalid(_))));
}

fn connections(world: &World) -> u32 {
    world.status(0).segments[0].connections
}

#[test]
fn both_ends_learn_of_each_other_by_way_of_their_managers() {
    let (mut world, owner, importer) = two_hosts();
    let asked = world.ask(importer, Request::ConnectSegment { node: node(4), key: segment(1) });
    assert_eq!(asked, Ok(Reply::OnOtherHost { addresses: vec![RAIL] }));
    let (import, connection) = connect(&mut world, owner, importer);
    assert!(world.nodes[1].page.alive(import));
    assert_eq!(connections(&world), 1);
    assert_eq!(world.ask(importer, Request::Disconnect { import }), Ok(Reply::Done));
    world.run_for(MOMENT);
    assert!(matches!(
        world.events(owner)[..],
        [Event::Disconnected { connection: over, died: false, .. }] if over == connection
    ));
    assert_eq!(connections(&world), 0);
}

#[test]
fn the_rights_are_those_of_one_host() {
    let (mut world, owner, _) = two_hosts();
    let mut stranger = world.actors[owner].credentials.clone();
    (stranger.uid, stranger.gids) = (3000, vec![3000]);
    let mut attach = Access::default();
    attach.uids.push(3000);
    world.kill(1);
    world.nodes[1].attach = attach;
    world.start(1);
    world.run_until("all sessions valid", World::all_valid);
    let stranger = world.spawn(1, stranger, "stranger");
    world.try_attach(stranger);
    world.run_for(MOMENT);
    let id = ask_for(&mut world, stranger, SEGMENT_1);
    let refused = world.answer(stranger, id).expect_err("another user");
    assert!(matches!(refused, Refusal::Denied { uid: 3000, .. }), "{refused}");
    assert!(world.events(owner).is_empty(), "the owner is not asked");

    let importer = world.attach(1);
    let id = ask_for(&mut world, importer, Imported::Segment(segment(9)));
    assert!(matches!(world.answer(importer, id), Err(Refusal::NotFound { .. })));
    let closed = create_request(segment(2), Access::default(), false);
    world.ask_with(owner, closed, vec![memory(4096)]).expect("created");
    let id = ask_for(&mut world, importer, Imported::Segment(segment(2)));
    assert!(matches!(world.answer(importer, id), Err(Refusal::NotAvailable { .. })));
    assert!(world.events(owner).is_empty());
}

/// Its producer needs no descriptor either, not even to resume.
#[test]
fn an_interrupt_is_reached_and_outlives_either_manager() {
    for (restarted, kind) in [(0, InterruptKind::Plain), (1, InterruptKind::Plain), (0, InterruptKind::Data)]
    {
        let (mut world, owner, importer) = two_hosts();
        offer_interrupt(&mut world, owner, 3, kind);
        let id = ask_for(&mut world, importer, Imported::Interrupt(InterruptNo(3)));
        let events = world.events(owner);
        let [Event::Connected { .. }, Event::WantedByNetwork { connection, .. }] = events[..] else {
            panic!("{events:?}")
        };
        answer(&mut world, owner, connection);
        assert!(matches!(world.answer(importer, id), Ok((Reply::ByNetwork { size_bytes: 0, .. }, _))));
        world.kill(restarted);
        world.start(restarted);
        world.run_for((LIMIT + GRACE) * 2);
        assert!(world.events(importer).iter().all(|event| !matches!(event, Event::Lost { .. })));
        let ended = |event: &Event| matches!(event, Event::Disconnected { .. });
        assert!(!world.events(owner).iter().any(ended), "manager {restarted}, {kind:?}");
    }
}

#[test]
fn a_copy_of_a_group_is_reached_too() {
    let (mut world, owner, importer) = two_hosts();
    offer(&mut world, owner, copy(5));
    let id = ask_for(&mut world, importer, Imported::Segment(copy(5)));
    let events = world.events(owner);
    let [Event::Connected { .. }, Event::WantedByNetwork { connection, .. }] = events[..] else {
        panic!("{events:?}")
    };
    answer(&mut world, owner, connection);
    assert!(matches!(world.answer(importer, id), Ok((Reply::ByNetwork { .. }, _))));
}

#[test]
fn an_owner_without_a_link_says_why() {
    let (mut world, owner, importer) = two_hosts();
    let id = ask_for(&mut world, importer, SEGMENT_1);
    let connection = wanted(&mut world, owner);
    let end = Err("libfabric is missing: install package libfabric1".to_owned());
    assert_eq!(world.ask(owner, Request::AnswerByNetwork { connection, end }), Ok(Reply::Done));
    assert_eq!(
        world.answer(importer, id).expect_err("no link").to_string(),
        "segment 1 of node 4 cannot be reached: the node is on another host (`host0`), and its owner has no link for data: \
         libfabric is missing: install package libfabric1"
    );
    assert!(matches!(world.events(owner)[..], [Event::Disconnected { died: false, .. }]));
    assert_eq!(connections(&world), 0);
}

#[test]
fn an_owner_that_says_nothing_is_not_waited_for() {
    let (mut world, owner, importer) = two_hosts();
    let id = ask_for(&mut world, importer, SEGMENT_1);
    let connection = wanted(&mut world, owner);
    world.run_for(LIMIT + GRACE + MOMENT);
    assert!(matches!(world.answer(importer, id), Err(Refusal::OwnerBusy { .. })));
    assert!(matches!(world.events(owner)[..], [Event::Disconnected { .. }]));
    let late = Request::AnswerByNetwork { connection, end: Ok(owner_end()) };
    assert!(matches!(world.ask(owner, late), Err(Refusal::NotFound { .. })));
    assert_eq!(connections(&world), 0);
}

#[test]
fn only_the_owner_answers_and_once() {
    let (mut world, owner, importer) = two_hosts();
    let other = world.attach(0);
    let id = ask_for(&mut world, importer, SEGMENT_1);
    let connection = wanted(&mut world, owner);
    let body = || Request::AnswerByNetwork { connection, end: Ok(owner_end()) };
    assert!(matches!(world.ask(other, body()), Err(Refusal::NotFound { .. })));
    answer(&mut world, owner, connection);
    assert!(matches!(world.ask(owner, body()), Err(Refusal::NotFound { .. })));
    assert!(world.answer(importer, id).is_ok());
}

#[test]
fn addresses_that_are_too_long_are_refused() {
    let (mut world, owner, importer) = two_hosts();
    let long = vec![0; MAX_END_POINT_BYTES + 1];
    let end = ImporterEnd { rails: vec![ImporterRail { end_point: long.clone(), session: 1 }] };
    let body = Request::ConnectByNetwork { node: node(4), what: SEGMENT_1, end };
    assert!(matches!(world.ask(importer, body), Err(Refusal::Invalid(_))));
    let id = ask_for(&mut world, importer, SEGMENT_1);
    let connection = wanted(&mut world, owner);
    let end = Ok(OwnerEnd { rails: vec![OwnerRail { end_point: long, key: vec![] }] });
    assert_eq!(world.ask(owner, Request::AnswerByNetwork { connection, end }), Ok(Reply::Done));
    assert!(matches!(world.answer(importer, id), Err(Refusal::NoDataLink { .. })));
}

#[test]
fn an_owner_that_dies_before_it_answers_is_gone_and_one_that_dies_later_is_lost() {
    let (mut world, owner, importer) = two_hosts();
    let id = ask_for(&mut world, importer, SEGMENT_1);
    world.kill_program(owner);
    assert!(matches!(world.answer(importer, id), Err(Refusal::NotAvailable { .. })));

    let owner = world.attach(0);
    offer(&mut world, owner, segment(1));
    let (import, _) = connect(&mut world, owner, importer);
    world.kill_program(owner);
    world.run_for(MOMENT);
    let lost = Event::Lost { import, reason: LossReason::OwnerDied };
    assert_eq!(world.events(importer), [lost]);
}

#[test]
fn an_importer_that_dies_before_the_answer_leaves_nothing() {
    let (mut world, owner, importer) = two_hosts();
    ask_for(&mut world, importer, SEGMENT_1);
    let connection = wanted(&mut world, owner);
    world.kill_program(importer);
    world.run_for(MOMENT);
    answer(&mut world, owner, connection);
    world.run_for(MOMENT);
    assert!(matches!(world.events(owner)[..], [Event::Disconnected { .. }]));
    assert_eq!(connections(&world), 0);
}

/// Data does not pass through managers, so it continues whichever of them is restarted.
#[test]
fn a_connection_outlives_either_manager() {
    for restarted in [0, 1] {
        let (mut world, owner, importer) = two_hosts();
        let (_, connection) = connect(&mut world, owner, importer);
        world.kill(restarted);
        world.start(restarted);
        world.run_for((LIMIT + GRACE) * 2);
        assert!(world.all_valid());
        assert_eq!(connections(&world), 1, "manager {restarted}");
        assert!(world.events(importer).iter().all(|event| !matches!(event, Event::Lost { .. })));
        let ended = |event: &Event| matches!(event, Event::Disconnected { .. });
        assert!(!world.events(owner).iter().any(ended));
        // Its number is the same: the owner keeps what it has for it.
        world.kill_program(importer);
        world.run_for(MOMENT);
        let events = world.events(owner);
        assert!(
            events.iter().any(
                |event| matches!(event, Event::Disconnected { connection: over, .. } if *over == connection)
            ),
            "{events:?}"
        );
    }
}

#[test]
fn a_manager_that_is_restarted_before_the_owner_answers_leaves_nothing() {
    for restarted in [0, 1] {
        let (mut world, owner, importer) = two_hosts();
        ask_for(&mut world, importer, SEGMENT_1);
        let connection = wanted(&mut world, owner);
        world.kill(restarted);
        world.start(restarted);
        world.run_until("all sessions valid", World::all_valid);
        let late = Request::AnswerByNetwork { connection, end: Ok(owner_end()) };
        assert!(matches!(world.ask(owner, late), Err(Refusal::NotFound { .. })), "manager {restarted}");
        world.run_for((LIMIT + GRACE) * 2);
        assert_eq!(connections(&world), 0, "manager {restarted}");
    }
}

/// Else one host fills the table, and no other one's programs connect to anything of this node.
#[test]
fn one_node_does_not_take_the_connections_of_all_others() {
    let mut world = World { apart: true, ..World::new(3, 1) };
    world.nodes[0].limits.exports_of_node = 5;
    (0..3).for_each(|nth| world.start(nth));
    world.run_until("up", World::all_valid);
    let (owner, greedy, other) = (world.attach(0), world.attach(1), world.attach(2));
    offer(&mut world, owner, segment(1));
    let mut answered = |importer: usize| {
        let id = ask_for(&mut world, importer, SEGMENT_1);
        let asked = world.events(owner).into_iter().find_map(|event| match event {
            Event::WantedByNetwork { connection, .. } => Some(connection),
            _ => None,
        });
        if let Some(connection) = asked {
            answer(&mut world, owner, connection);
        }
        world.run_for(MOMENT);
        world.answer(importer, id)
    };
    for nth in 0..5 {
        assert!(answered(greedy).is_ok(), "{nth}");
    }
    let refused = answered(greedy).unwrap_err();
    let said = "connections of node 8 to objects of node 4";
    assert!(matches!(&refused, Refusal::Limit { what, limit: 5 } if what == said), "{refused}");
    assert!(answered(other).is_ok());
}

//! Agents: who may have one, that bytes go both ways with credit for each, and that nothing of one is left,
//! whoever goes.

use std::time::Duration;

use proto::manager::{Credentials, DescriptorKind, Input, Output, PeerConn};
use proto::wire::agent::{AGENT_PIECE_BYTES, AGENT_WINDOW_BYTES, AgentEnd, AgentNo, FromAgent, ToAgent};
use proto::wire::peer::{PeerMessage, PeerReply, PeerRequest, Requester};
use proto::wire::program::{Access, Event, Incarnation, Refusal, Reply, Request};

use crate::helpers::node;
use crate::world::{ADDRESS, GRACE, LIMIT, OWN_UID, STRANGERS, World};

const MOMENT: Duration = Duration::from_millis(20);
const FAR: PeerConn = PeerConn(STRANGERS + 5);
const OTHER: PeerConn = PeerConn(STRANGERS + 6);

impl World {
    /// What a driver does, for which all goes well at once.
    pub fn agent_output(&mut self, index: usize, output: Output) {
        self.nodes[index].agent_outputs.push(output.clone());
        let lacks = self.nodes[index].lacks_agents;
        let input = match output {
            Output::StartAgent { agent } | Output::OpenAgent { agent } if lacks => {
                let result = Err(Refusal::NoDescriptors { limit: Some(64) });
                Input::AgentReady { agent, result }
            }
            Output::StartAgent { agent } => Input::AgentReady { agent, result: Ok(None) },
            Output::OpenAgent { agent } => {
                let stream = self.receive(index, &[DescriptorKind::Other]).first().copied();
                Input::AgentReady { agent, result: Ok(stream) }
            }
            Output::CloseAgent { agent } => Input::AgentGone { agent, end: None },
            _ => return,
        };
        let now = self.now;
        if let Some(manager) = self.nodes[index].manager.as_mut() {
            manager.handle(now, input);
        }
    }

    fn told(&mut self, index: usize) -> Vec<Output> {
        std::mem::take(&mut self.nodes[index].agent_outputs)
    }

    fn room(&self, index: usize, agent: AgentNo) -> usize {
        self.manager(index).agent_room(agent)
    }

    fn reads(&mut self, index: usize, agent: AgentNo, bytes: Vec<u8>) {
        self.input(index, Input::AgentRead { agent, bytes });
        self.run_for(MOMENT);
    }

    fn says(&mut self, peer: PeerConn, message: PeerMessage) {
        self.input(0, Input::PeerMessage { peer, message, descriptors: vec![] });
    }
}

fn start() -> Request {
    Request::StartAgent { node: node(4) }
}

/// A program of node 8 that has an agent at node 4, each on its host: the program, its number for it, and
/// that of node 4.
fn with_agent() -> (World, usize, AgentNo, AgentNo) {
    let mut world = World::up_apart(2, 1);
    let program = world.attach(1);
    let (reply, beside) = world.ask_with(program, start(), vec![]).expect("an agent");
    let Reply::Agent { agent: own } = reply else { panic!("{reply:?}") };
    assert_eq!(beside, [DescriptorKind::Other]);
    let told = world.told(0);
    let [Output::StartAgent { agent: theirs }, Output::ReadAgent { .. }] = told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(world.told(1), [Output::OpenAgent { agent: own }, Output::ReadAgent { agent: own }]);
    (world, program, own, theirs)
}

/// Why the program's agent is over, as it was told.
fn end_of(world: &mut World, program: usize, own: AgentNo) -> AgentEnd {
    let events = world.events(program);
    let mut ends = events.iter().filter_map(|event| match event {
        Event::AgentEnded { agent, end } if *agent == own => Some(end.clone()),
        _ => None,
    });
    let end = ends.next();
    assert_eq!(ends.next(), None, "its end is said once");
    end.unwrap_or_else(|| panic!("{events:?}"))
}

fn lost(end: &AgentEnd, wanted: &str) -> bool {
    matches!(end, AgentEnd::Lost { why } if why.contains(wanted))
}

#[test]
fn bytes_go_both_ways_and_the_end_comes_after_them() {
    let (mut world, program, own, theirs) = with_agent();
    world.reads(1, own, b"job".to_vec());
    world.input(1, Input::AgentReadEnd { agent: own });
    world.run_for(MOMENT);
    assert_eq!(
        world.told(0),
        [Output::ToAgent { agent: theirs, bytes: b"job".to_vec() }, Output::EndAgentInput { agent: theirs }]
    );
    assert_eq!(world.room(1, own), 0, "its input has ended");
    world.reads(0, theirs, b"report".to_vec());
    world.input(0, Input::AgentGone { agent: theirs, end: Some(AgentEnd::Exited { status: 3 }) });
    world.run_for(MOMENT);
    assert_eq!(
        world.told(1),
        [Output::ToAgent { agent: own, bytes: b"report".to_vec() }, Output::CloseAgent { agent: own }]
    );
    assert_eq!(end_of(&mut world, program, own), AgentEnd::Exited { status: 3 });
}

#[test]
fn no_more_is_under_way_than_there_is_credit_for() {
    let (mut world, _, own, theirs) = with_agent();
    let piece = vec![1; AGENT_PIECE_BYTES];
    let pieces = AGENT_WINDOW_BYTES as usize / AGENT_PIECE_BYTES;
    for _ in 0..pieces {
        assert_eq!(world.room(0, theirs), AGENT_PIECE_BYTES);
        world.reads(0, theirs, piece.clone());
    }
    assert_eq!(world.room(0, theirs), 0);
    // What a driver reads all the same is not sent.
    world.reads(0, theirs, vec![1]);
    assert_eq!(world.told(1).len(), pieces);
    world.input(1, Input::AgentWritten { agent: own, bytes: AGENT_WINDOW_BYTES / 2 - 1 });
    world.run_for(MOMENT);
    assert_eq!(world.room(0, theirs), 0, "little is not worth a message");
    world.input(1, Input::AgentWritten { agent: own, bytes: 1 });
    world.run_for(MOMENT);
    assert_eq!(world.told(0), [Output::ReadAgent { agent: theirs }]);
    assert_eq!(world.room(0, theirs), AGENT_PIECE_BYTES);
    // The session is as well as ever.
    world.run_for(LIMIT * 2);
    assert!(world.all_valid());
}

#[test]
fn an_agent_ends_with_the_program_that_has_asked_for_it() {
    let (mut world, program, _, theirs) = with_agent();
    world.kill_program(program);
    world.run_for(MOMENT);
    assert_eq!(world.told(0), [Output::CloseAgent { agent: theirs }]);
    let (mut world, _, own, theirs) = with_agent();
    world.input(1, Input::AgentGone { agent: own, end: None });
    world.run_for(MOMENT);
    assert_eq!(world.told(0), [Output::CloseAgent { agent: theirs }], "it has closed its stream");
}

#[test]
fn an_agent_ends_with_the_session_and_with_either_manager() {
    for how in ["cut", "parted", "theirs is killed", "theirs is stopped"] {
        let (mut world, program, own, theirs) = with_agent();
        match how {
            "cut" => world.cut(0, 1),
            "parted" => world.part(0, 1),
            "theirs is killed" => world.kill(0),
            _ => world.stop(0),
        }
        world.run_for(LIMIT + GRACE);
        assert!(lost(&end_of(&mut world, program, own), ""), "{how}");
        assert_eq!(world.told(1).last(), Some(&Output::CloseAgent { agent: own }), "{how}");
        if how != "theirs is killed" {
            assert_eq!(world.told(0).last(), Some(&Output::CloseAgent { agent: theirs }), "{how}");
        }
        world.heal();
        world.run_for(LIMIT * 4);
        assert_eq!(world.told(1), [], "{how}");
        assert_eq!(world.room(1, own), 0, "{how}");
    }
    let (mut world, _, _, theirs) = with_agent();
    world.kill(1);
    world.run_for(MOMENT);
    assert_eq!(world.told(0), [Output::CloseAgent { agent: theirs }], "its own is killed");
}

#[test]
fn only_root_and_the_managers_user_have_agents_and_only_where_they_are_allowed() {
    let mut world = World::up_apart(2, 1);
    world.kill(1);
    world.nodes[1].attach = Access { uids: vec![3000], gid: None };
    world.start(1);
    world.run_until("all sessions valid", World::all_valid);
    let as_user = |world: &mut World, uid: u32| {
        let program = world.spawn(1, Credentials { uid, gids: vec![uid], pid: 50 + uid }, "asks");
        world.try_attach(program);
        world.run_for(MOMENT);
        world.ask(program, start())
    };
    let refused = as_user(&mut world, 3000).unwrap_err();
    assert!(matches!(&refused, Refusal::Denied { uid: 3000, .. }), "{refused}");
    assert!(
        refused.to_string().contains("run an agent at node 4, whose manager is of user 1000"),
        "{refused}"
    );
    for allowed in [0, OWN_UID] {
        assert!(matches!(as_user(&mut world, allowed), Ok(Reply::Agent { .. })), "{allowed}");
    }
    world.kill(0);
    world.nodes[0].agents = false;
    world.start(0);
    world.run_for(LIMIT * 2);
    let refused = as_user(&mut world, OWN_UID).unwrap_err();
    assert_eq!(refused, Refusal::NoAgents { node: node(4) });
    assert!(refused.to_string().contains("`agents = false` under [manager]"), "{refused}");
    assert_eq!(world.told(0), []);
}

#[test]
fn where_a_driver_can_do_nothing_the_program_is_told_and_nothing_is_left() {
    for lacks in [0, 1] {
        let mut world = World::up_apart(2, 1);
        let program = world.attach(1);
        world.nodes[lacks].lacks_agents = true;
        let refused = world.ask(program, start()).unwrap_err();
        assert_eq!(refused, Refusal::NoDescriptors { limit: Some(64) });
        world.run_for(MOMENT);
        let closed = |told: &[Output]| {
            told.iter().filter(|output| matches!(output, Output::CloseAgent { .. })).count()
        };
        // What was started for it ends; what could not be made is not closed.
        let told = [world.told(0), world.told(1)].map(|told| closed(&told));
        assert_eq!(told, [lacks, 0]);
        world.nodes[lacks].lacks_agents = false;
        assert!(matches!(world.ask(program, start()), Ok(Reply::Agent { .. })));
        assert!(world.events(program).iter().all(|event| !matches!(event, Event::AgentEnded { .. })));
    }
}

#[test]
fn a_node_of_this_host_needs_no_agent() {
    let mut world = World::up(2, 1);
    let program = world.attach(1);
    for number in [4, 8] {
        let refused = world.ask(program, Request::StartAgent { node: node(number) }).unwrap_err();
        assert!(refused.to_string().contains("is on this host: it needs no agent"), "{refused}");
    }
    let refused = world.ask(program, Request::StartAgent { node: node(12) }).unwrap_err();
    assert!(matches!(refused, Refusal::Unreachable { .. }), "{refused}");
}

#[test]
fn a_program_and_a_manager_have_a_limited_number_of_agents() {
    let mut world = World::up_apart(4, 1);
    let programs: Vec<usize> = [1, 1, 2, 2].map(|nth| world.attach(nth)).into();
    for program in &programs {
        for _ in 0..4 {
            assert!(matches!(world.ask(*program, start()), Ok(Reply::Agent { .. })));
        }
    }
    let others = [1, 3].map(|nth| world.attach(nth));
    for (program, most) in [(programs[0], 4), (others[0], 8), (others[1], 16)] {
        let refused = world.ask(program, start()).unwrap_err();
        assert!(matches!(&refused, Refusal::Limit { limit, .. } if *limit == most), "{refused}");
    }
    // When one goes there is room again.
    world.kill_program(programs[0]);
    world.run_for(MOMENT);
    assert!(others.iter().all(|program| matches!(world.ask(*program, start()), Ok(Reply::Agent { .. }))));
}

/// Node 4, and a manager of node 8 on another host that the test plays itself.
fn with_far_node() -> World {
    let mut world = World::up(1, 1);
    greets(&mut world, FAR, 8);
    world
}

fn greets(world: &mut World, peer: PeerConn, number: u32) {
    world.input(0, Input::HostConnected { peer, dialled: None, node: node(number), address: ADDRESS });
    let (cluster, host) = ("default".to_owned(), "far".to_owned());
    let (node, incarnation) = (node(number), Incarnation(77));
    world.says(peer, PeerMessage::Hello { node, incarnation, cluster, host });
}

/// An agent that the far node has asked for.
fn runs_for_far(world: &mut World) -> AgentNo {
    let requester = Requester { uid: 0, gids: vec![], pid: 7, name: "x".to_owned() };
    world.says(FAR, PeerMessage::Request { id: 1, body: PeerRequest::StartAgent { requester } });
    let told = world.told(0);
    let [Output::StartAgent { agent }, Output::ReadAgent { .. }] = told[..] else { panic!("{told:?}") };
    agent
}

/// An agent that a program of node 4 has at the far node, which calls it 9.
fn has_at_far(world: &mut World) -> (usize, AgentNo) {
    let program = world.attach(0);
    let id = world.request(program, Request::StartAgent { node: node(8) }, vec![]);
    world.run_for(MOMENT);
    let asked = world.to_strangers.iter().find_map(|(_, said)| match said {
        Some(PeerMessage::Request { id, body: PeerRequest::StartAgent { .. } }) => Some(*id),
        _ => None,
    });
    let result = Ok(PeerReply::Agent { agent: AgentNo(9) });
    world.says(FAR, PeerMessage::Reply { id: asked.expect("the question"), result });
    let Ok((Reply::Agent { agent }, _)) = world.answer(program, id) else { panic!("an agent") };
    drop((world.told(0), world.to_strangers.drain(..)));
    (program, agent)
}

fn session_is_valid(world: &World) -> bool {
    world.status(0).links.iter().all(|link| link.session == proto::wire::status::SessionState::Valid)
}

#[test]
fn a_requester_that_breaks_a_rule_loses_its_agent_and_nothing_else() {
    let piece = |bytes: usize| ToAgent::Bytes(vec![1; bytes]);
    let whole = AGENT_PIECE_BYTES;
    for (words, why) in [
        (vec![piece(whole), piece(whole), piece(1)], "more bytes than it had credit for"),
        (vec![piece(whole + 1)], "a piece of an impossible length"),
        (vec![piece(0)], "a piece of an impossible length"),
        (vec![ToAgent::InputEnded, piece(1)], "bytes after their end"),
        (vec![ToAgent::Credit(1)], "credit for what was never sent"),
        (vec![ToAgent::Credit(u32::MAX)], "credit for what was never sent"),
        (vec![ToAgent::Credit(0)], "credit for what was never sent"),
    ] {
        let mut world = with_far_node();
        let agent = runs_for_far(&mut world);
        for word in words {
            world.says(FAR, PeerMessage::ToAgent { agent, word });
        }
        assert_eq!(world.told(0).last(), Some(&Output::CloseAgent { agent }), "{why}");
        let Some((FAR, Some(PeerMessage::FromAgent { agent: said, word: FromAgent::Ended(end) }))) =
            world.to_strangers.last()
        else {
            panic!("{:?}", world.to_strangers.last())
        };
        assert!(*said == agent && lost(end, why), "{end:?}: {why}");
        assert!(session_is_valid(&world) && world.status(0).counters.protocol_errors == 1, "{why}");
        // All that comes later is of an agent that is not there.
        for word in [piece(1), ToAgent::Credit(1), ToAgent::InputEnded, ToAgent::Stop] {
            world.says(FAR, PeerMessage::ToAgent { agent, word });
        }
        assert!(world.told(0).is_empty() && world.status(0).counters.protocol_errors == 1, "{why}");
    }
}

#[test]
fn an_input_that_ends_twice_ends_once() {
    let mut world = with_far_node();
    let agent = runs_for_far(&mut world);
    for _ in 0..2 {
        world.says(FAR, PeerMessage::ToAgent { agent, word: ToAgent::InputEnded });
    }
    assert_eq!(world.told(0), [Output::EndAgentInput { agent }]);
}

#[test]
fn a_manager_that_breaks_a_rule_loses_the_agent_that_it_runs() {
    let piece = |bytes: usize| FromAgent::Bytes(vec![1; bytes]);
    let whole = AGENT_PIECE_BYTES;
    for words in [
        vec![piece(whole), piece(whole), piece(1)],
        vec![piece(whole + 1)],
        vec![piece(0)],
        vec![FromAgent::Credit(1)],
    ] {
        let mut world = with_far_node();
        let (program, agent) = has_at_far(&mut world);
        for word in words {
            world.says(FAR, PeerMessage::FromAgent { agent: AgentNo(9), word });
        }
        world.run_for(MOMENT);
        assert!(lost(&end_of(&mut world, program, agent), "node 8 broke a rule"));
        let stop = PeerMessage::ToAgent { agent: AgentNo(9), word: ToAgent::Stop };
        assert!(world.to_strangers.contains(&(FAR, Some(stop))));
        assert_eq!(world.told(0).last(), Some(&Output::CloseAgent { agent }));
        for word in [piece(1), FromAgent::Credit(1), FromAgent::Ended(AgentEnd::Exited { status: 0 })] {
            world.says(FAR, PeerMessage::FromAgent { agent: AgentNo(9), word });
        }
        assert!(world.told(0).is_empty() && session_is_valid(&world));
    }
}

#[test]
fn nobody_has_a_part_in_the_agents_of_another_session() {
    let mut world = with_far_node();
    let agent = runs_for_far(&mut world);
    let (program, own) = has_at_far(&mut world);
    greets(&mut world, OTHER, 12);
    for agent in [agent, own] {
        for word in [ToAgent::Bytes(vec![1]), ToAgent::InputEnded, ToAgent::Stop] {
            world.says(OTHER, PeerMessage::ToAgent { agent, word });
        }
    }
    for word in [FromAgent::Bytes(vec![1]), FromAgent::Ended(AgentEnd::Exited { status: 0 })] {
        world.says(OTHER, PeerMessage::FromAgent { agent: AgentNo(9), word });
    }
    // Nor does the one that has asked take it for one that it runs.
    world.says(FAR, PeerMessage::ToAgent { agent: own, word: ToAgent::Stop });
    world.run_for(MOMENT);
    assert_eq!(world.told(0), []);
    let is_end = |event: &Event| matches!(event, Event::AgentEnded { .. });
    assert!(!world.events(program).iter().any(is_end));
    assert_eq!(world.status(0).counters.protocol_errors, 7);
    assert!(world.room(0, agent) > 0 && world.room(0, own) > 0);
}

#[test]
fn a_number_that_is_given_twice_is_refused_and_both_programs_are_told() {
    let mut world = with_far_node();
    let (_, first) = has_at_far(&mut world);
    let program = world.attach(0);
    let id = world.request(program, Request::StartAgent { node: node(8) }, vec![]);
    world.run_for(MOMENT);
    let asked = world.to_strangers.iter().find_map(|(_, said)| match said {
        Some(PeerMessage::Request { id, body: PeerRequest::StartAgent { .. } }) => Some(*id),
        _ => None,
    });
    let result = Ok(PeerReply::Agent { agent: AgentNo(9) });
    world.says(FAR, PeerMessage::Reply { id: asked.expect("the question"), result });
    let refused = world.answer(program, id).unwrap_err().to_string();
    assert!(refused.contains("a reply of another kind"), "{refused}");
    assert!(world.room(0, first) > 0);
}

#[test]
fn what_is_granted_too_late_is_given_back() {
    let mut world = with_far_node();
    let program = world.attach(0);
    world.request(program, Request::StartAgent { node: node(8) }, vec![]);
    world.run_for(MOMENT);
    let asked = world.to_strangers.iter().find_map(|(_, said)| match said {
        Some(PeerMessage::Request { id, body: PeerRequest::StartAgent { .. } }) => Some(*id),
        _ => None,
    });
    world.kill_program(program);
    world.run_for(MOMENT);
    let result = Ok(PeerReply::Agent { agent: AgentNo(9) });
    world.says(FAR, PeerMessage::Reply { id: asked.expect("the question"), result });
    let stop = PeerMessage::ToAgent { agent: AgentNo(9), word: ToAgent::Stop };
    assert_eq!(world.to_strangers.last(), Some(&(FAR, Some(stop))));
    assert_eq!(world.told(0), []);
}

#[test]
fn what_another_host_says_of_an_end_is_shown_and_does_nothing_else() {
    let mut world = with_far_node();
    let (program, agent) = has_at_far(&mut world);
    let why = "\u{1b}[2J".repeat(500);
    let word = FromAgent::Ended(AgentEnd::Lost { why });
    world.says(FAR, PeerMessage::FromAgent { agent: AgentNo(9), word });
    world.run_for(MOMENT);
    let AgentEnd::Lost { why } = end_of(&mut world, program, agent) else { panic!("lost") };
    assert!(why.chars().count() == 200 && !why.contains('\u{1b}'), "{why}");
}

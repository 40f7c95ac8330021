//! One manager among programs and managers that say whatever comes to their mind: it never panics, its tables
//! always agree, every descriptor is given back, every request has at most one reply, and nothing is left
//! when all have gone.

mod agents;
mod peers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use proto::ids::{AdapterNo, NodeId};
use proto::manager::{
    Credentials, Descriptor, DescriptorKind, FdToken, Input, Limits, Manager, ManagerConfig, Output,
    PeerConn, ProgramConn,
};
use proto::time::Instant;
use proto::wire::agent::{AGENT_WINDOW_BYTES, AgentNo};
use proto::wire::peer::{PeerMessage, PeerReply, PeerRequest};
use proto::wire::program::{Access, ConnectionId, Event, Reply, Request, RequestId, ToManager, ToProgram};
use proto::wire::status::{AdapterInfo, NodeInfo};
use proto::wire::{self, CodecError};

use crate::actor::{interrupt_parts, memory, new_interrupt};
use crate::chaos::config;
use crate::page::Page;
use crate::strategies;
use crate::tally::Tally;
use agents::{Local, local};

/// What happens; numbers choose among the connections that there are.
#[derive(Debug, Clone)]
enum Act {
    /// As a friend or not; it says hello at once or not.
    ProgramConnects(bool, bool),
    ProgramAttaches(u8, bool),
    ProgramSays(u8, ToManager, Beside),
    ProgramGarbage(u8, Beside),
    ProgramGoes(u8),
    PeerSeen(NodeId),
    /// As a friend or not; it says at once who it is (and in which life), or not.
    PeerConnects(bool, Option<NodeId>, u64),
    DialEnds(bool, u64),
    PeerSays(u8, PeerMessage, Beside),
    PeerGarbage(u8, bool),
    PeerGoes(u8),
    AgentDoes(u8, Local),
    Time(u32),
}

/// What comes with a message: what belongs there, or anything.
#[derive(Debug, Clone)]
enum Beside {
    Proper,
    Anything(Vec<DescriptorKind>),
}

fn kind() -> impl Strategy<Value = DescriptorKind> {
    prop_oneof![
        3 => (0u64..10_000, any::<bool>(), any::<bool>()).prop_map(|(size_bytes, size_sealed, write_sealed)| {
            DescriptorKind::Memory { size_bytes, size_sealed, write_sealed }
        }),
        1 => any::<u32>().prop_map(DescriptorKind::Pid),
        1 => Just(DescriptorKind::Event),
        1 => Just(DescriptorKind::Other),
        1 => Just(DescriptorKind::HugeMemory { size_bytes: 10_000, size_sealed: true }),
        1 => Just(DescriptorKind::Unseen),
    ]
}

fn beside() -> impl Strategy<Value = Beside> {
    prop_oneof![60 => Just(Beside::Proper), 1 => vec(kind(), 0..4).prop_map(Beside::Anything)]
}

fn act() -> impl Strategy<Value = Act> {
    let pick = any::<u8>;
    let friend = || prop::bool::weighted(0.95);
    prop_oneof![
        8 => (friend(), prop::bool::weighted(0.95)).prop_map(|(friend, hello)| Act::ProgramConnects(friend, hello)),
        1 => (pick(), any::<bool>()).prop_map(|(who, again)| Act::ProgramAttaches(who, again)),
        90 => (pick(), strategies::to_manager(), beside()).prop_map(|(who, what, with)| Act::ProgramSays(who, what, with)),
        1 => (pick(), beside()).prop_map(|(who, with)| Act::ProgramGarbage(who, with)),
        3 => pick().prop_map(Act::ProgramGoes),
        4 => strategies::node().prop_map(Act::PeerSeen),
        6 => (friend(), proptest::option::weighted(0.9, strategies::node()), 0u64..2)
            .prop_map(|(friend, node, life)| Act::PeerConnects(friend, node, life)),
        6 => (friend(), 0u64..2).prop_map(|(well, life)| Act::DialEnds(well, life)),
        90 => (pick(), strategies::peer_message(), beside()).prop_map(|(who, what, with)| Act::PeerSays(who, what, with)),
        1 => (pick(), any::<bool>()).prop_map(|(who, version)| Act::PeerGarbage(who, version)),
        3 => pick().prop_map(Act::PeerGoes),
        8 => (pick(), local()).prop_map(|(which, does)| Act::AgentDoes(which, does)),
        12 => prop_oneof![12 => 0u32..100, 3 => 0u32..2_000, 1 => 0u32..60_000].prop_map(Act::Time),
    ]
}

struct Rig {
    manager: Manager,
    now: Instant,
    programs: BTreeSet<ProgramConn>,
    peers: BTreeSet<PeerConn>,
    dials: Vec<NodeId>,
    /// Bytes that their local ends have not taken yet.
    agents: BTreeMap<AgentNo, u32>,
    /// Requests for an agent that peers have not answered, and the numbers of those that they have.
    agents_wanted: Vec<(PeerConn, RequestId)>,
    agents_given: Vec<(PeerConn, AgentNo)>,
    tokens: BTreeSet<FdToken>,
    next: u64,
    /// Requests that have no reply yet, per connection.
    unanswered: BTreeMap<(ProgramConn, RequestId), u32>,
    page: Page,
    /// Connection numbers that the manager has mentioned.
    connections: Vec<ConnectionId>,
    exiting: bool,
    exited: bool,
    tally: Tally,
}

impl Rig {
    fn new() -> Self {
        let info = NodeInfo {
            node: NodeId::new(8).expect("an id"),
            cluster: "default".to_owned(),
            host: "here".to_owned(),
            version: "0.1.0".to_owned(),
            manager_pid: 1,
            incarnation: 42,
            adapters: vec![AdapterInfo {
                number: AdapterNo(0),
                kind: "shm".to_owned(),
                capabilities: vec![],
            }],
            faults: true,
            rails: Vec::new(),
        };
        let config = ManagerConfig {
            info,
            uid: 1000,
            attach: Access { uids: vec![2000], gid: None },
            heartbeat_interval: Duration::from_millis(200),
            heartbeat_limit: Duration::from_secs(1),
            resume_grace: Duration::from_secs(2),
            agents: true,
            relay: true,
            limits: Limits {
                programs: 6,
                segments: 6,
                interrupts: 6,
                imports: 8,
                exports_of_node: 8,
                pending_per_program: 4,
            },
        };
        let now = Instant::from_nanos(5_000_000_000);
        Self {
            manager: Manager::new(config, now),
            now,
            programs: BTreeSet::new(),
            peers: BTreeSet::new(),
            dials: Vec::new(),
            agents: BTreeMap::new(),
            agents_wanted: Vec::new(),
            agents_given: Vec::new(),
            tokens: BTreeSet::new(),
            next: 1,
            unanswered: BTreeMap::new(),
            page: Page::default(),
            connections: Vec::new(),
            exiting: false,
            exited: false,
            tally: Tally::default(),
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn receive(&mut self, kinds: &[DescriptorKind]) -> Vec<Descriptor> {
        let mut descriptors = Vec::new();
        for &kind in kinds {
            let token = FdToken(self.number());
            self.tokens.insert(token);
            descriptors.push(Descriptor { token, kind });
        }
        descriptors
    }

    fn input(&mut self, input: Input) {
        self.manager.handle(self.now, input);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.manager.poll_output() {
            assert!(!self.exited, "after the end comes {output:?}");
            self.carry_out(output);
        }
        if let Err(wrong) = self.manager.audit() {
            panic!("{wrong}");
        }
        assert_eq!(self.manager.status(self.now).descriptors, self.tokens.len() as u64);
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::ToProgram { program, message, descriptors } => {
                assert!(self.programs.contains(&program), "{message:?} is said to nobody");
                assert!(descriptors.iter().all(|token| self.tokens.contains(token)));
                wire::encode(&message).expect("it can be encoded");
                self.tally.note(&message);
                self.note(program, &message);
            }
            Output::Welcome { program, message } => {
                assert!(self.programs.contains(&program));
                wire::encode(&message).expect("it can be encoded");
            }
            Output::CloseProgram { program } => {
                assert!(self.programs.remove(&program), "{program:?} is closed twice");
                self.unanswered.retain(|(conn, _), _| *conn != program);
            }
            Output::ToPeer { peer, message, descriptors } => {
                assert!(self.peers.contains(&peer), "{message:?} is said to nobody");
                assert!(descriptors.iter().all(|token| self.tokens.contains(token)));
                wire::encode(&message).expect("it can be encoded");
                self.tally.note_peer(&message);
                if let PeerMessage::Request { id, body: PeerRequest::StartAgent { .. } } = message {
                    self.agents_wanted.push((peer, id));
                }
                if let PeerMessage::Reply {
                    result:
                        Ok(PeerReply::Segment { connection, .. } | PeerReply::Interrupt { connection, .. }),
                    ..
                } = message
                {
                    self.connections.push(connection);
                }
            }
            Output::ClosePeer { peer } => assert!(self.peers.remove(&peer), "{peer:?} is closed twice"),
            Output::Dial { node } | Output::DialRelayed { node, .. } => self.dials.push(node),
            Output::OpenForward { forward, at, .. } => {
                let result = at.ok_or_else(|| "it is the test's".to_owned());
                self.manager.handle(self.now, Input::ForwardReady { forward, result });
            }
            Output::RenewForward { .. } => {}
            Output::DrainForward { forward } | Output::CloseForward { forward } => {
                self.manager.handle(self.now, Input::ForwardGone { forward });
            }
            Output::StartAgent { agent } | Output::OpenAgent { agent } => self.agent_ready(agent, &output),
            Output::ToAgent { agent, bytes } => {
                let owed = self.agents.get_mut(&agent).expect("an agent that is there");
                *owed += u32::try_from(bytes.len()).expect("few");
                assert!(*owed <= AGENT_WINDOW_BYTES, "more waits than its window");
            }
            Output::EndAgentInput { agent } | Output::ReadAgent { agent } => {
                assert!(self.agents.contains_key(&agent));
            }
            Output::CloseAgent { agent } => {
                assert!(self.agents.remove(&agent).is_some(), "{agent:?} is closed twice");
                if !self.exiting {
                    self.manager.handle(self.now, Input::AgentGone { agent, end: None });
                }
            }
            Output::SetLink { node, up } => self.page.set_link(node, up),
            Output::SetImport { import, ended } => self.page.set_import(import, ended),
            Output::SuspendImport { import, suspended } => self.page.suspend(import, suspended),
            Output::SetFaults { node, faults } => drop(self.page.faults.insert(node, faults)),
            Output::CloseDescriptor { token } => {
                assert!(self.tokens.remove(&token), "{token:?} is closed twice")
            }
            Output::Log { text, .. } => assert!(!text.is_empty()),
            Output::CheckProcess { pid } => assert_ne!(pid, 0),
            Output::Exit => self.exited = true,
        }
    }

    fn note(&mut self, program: ProgramConn, message: &ToProgram) {
        match message {
            ToProgram::Reply { id, result } => {
                let left = self.unanswered.get_mut(&(program, *id)).filter(|left| **left > 0);
                *left.expect("a reply to a request that has none yet") -= 1;
                if let Ok(Reply::Segment { connection, .. } | Reply::Interrupt { connection, .. }) = result {
                    self.connections.push(*connection);
                }
            }
            ToProgram::Event(Event::Connected { connection, .. }) => self.connections.push(*connection),
            _ => {}
        }
    }

    fn program(&self, pick: u8) -> Option<ProgramConn> {
        self.programs.iter().nth(usize::from(pick) % self.programs.len().max(1)).copied()
    }

    fn peer(&self, pick: u8) -> Option<PeerConn> {
        self.peers.iter().nth(usize::from(pick) % self.peers.len().max(1)).copied()
    }

    /// Small numbers mean connections that the manager has mentioned.
    fn real(&self, connection: &mut ConnectionId) {
        if connection.0 < 6 && !self.connections.is_empty() {
            let back = usize::try_from(connection.0).expect("small") % self.connections.len();
            *connection = self.connections[self.connections.len() - 1 - back];
        }
    }

    fn perform(&mut self, act: Act) {
        match act {
            Act::ProgramConnects(friend, hello) => {
                let program = ProgramConn(self.number());
                self.programs.insert(program);
                let uid = if friend { 1000 } else { 3000 };
                let credentials = Credentials { uid, gids: vec![7], pid: 77 };
                self.input(Input::ProgramConnected { program, credentials });
                if hello && self.programs.contains(&program) {
                    self.attach(program, program.0.is_multiple_of(2));
                }
            }
            Act::ProgramAttaches(pick, reattach) => {
                let Some(program) = self.program(pick) else { return };
                self.attach(program, reattach);
            }
            Act::ProgramSays(pick, message, beside) => self.program_says(pick, message, beside),
            Act::ProgramGarbage(pick, beside) => {
                let Some(program) = self.program(pick) else { return };
                let Beside::Anything(kinds) = beside else { return };
                let descriptors = self.receive(&kinds);
                self.input(Input::ProgramGarbage { program, error: CodecError::BadMagic, descriptors });
            }
            Act::ProgramGoes(pick) => {
                let Some(program) = self.program(pick) else { return };
                self.program_goes(program);
            }
            Act::Time(ms) => self.pass(Duration::from_millis(u64::from(ms))),
            other => self.perform_by_peer(other),
        }
    }

    fn attach(&mut self, program: ProgramConn, reattach: bool) {
        let descriptors = self.receive(&[DescriptorKind::Pid(77)]);
        let message = ToManager::Hello { name: "guest".to_owned(), reattach };
        self.input(Input::ProgramMessage { program, message, descriptors });
    }

    fn program_goes(&mut self, program: ProgramConn) {
        self.programs.remove(&program);
        self.unanswered.retain(|(conn, _), _| *conn != program);
        self.input(Input::ProgramGone { program });
    }

    fn program_says(&mut self, pick: u8, mut message: ToManager, beside: Beside) {
        let Some(program) = self.program(pick) else { return };
        let mut proper = Vec::new();
        if let ToManager::Request { id, body } = &mut message {
            *self.unanswered.entry((program, *id)).or_default() += 1;
            match body {
                Request::CreateSegment { size_bytes, .. } => proper = vec![memory(*size_bytes)],
                Request::CreateInterrupt { pollable, again: true, .. } => proper = interrupt_parts(*pollable),
                Request::CreateInterrupt { pollable, .. } => proper = new_interrupt(*pollable),
                Request::ResumeImport { connection, .. } | Request::ResumeExport { connection, .. } => {
                    self.real(connection);
                }
                _ => {}
            }
        }
        let kinds = if let Beside::Anything(kinds) = beside { kinds } else { proper };
        let descriptors = self.receive(&kinds);
        self.input(Input::ProgramMessage { program, message, descriptors });
    }

    /// Serves the timers in time, or (a long jump) late.
    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        let late = time > Duration::from_secs(20);
        while let Some(due) = self.manager.next_timeout().filter(|&due| due <= until) {
            self.now = self.now.max(if late { until } else { due });
            self.manager.handle_timeout(self.now);
            let next = self.manager.next_timeout();
            assert!(next.is_none_or(|at| at > self.now), "a timer that was served is due again");
            self.drain();
        }
        self.now = self.now.max(until);
    }

    /// Everybody goes: nothing is left but what is owed to nodes that may return.
    fn all_go(&mut self) {
        for program in self.programs.clone() {
            self.program_goes(program);
        }
        for peer in std::mem::take(&mut self.peers) {
            self.input(Input::PeerGone { peer });
        }
        // What waits for re-attaching programs is dropped at the end of the grace.
        self.pass(Duration::from_secs(10));
        let status = self.manager.status(self.now);
        assert_eq!((status.programs_total, status.segments_total, status.interrupts_total), (0, 0, 0));
        assert_eq!(status.descriptors, 0);
        assert!(self.tokens.is_empty());
    }

    fn stop(&mut self) {
        self.exiting = true;
        self.input(Input::Stop);
        assert!(self.agents.is_empty(), "agents are left at the end");
        assert!(self.exited && self.tokens.is_empty() && self.programs.is_empty() && self.peers.is_empty());
        assert_eq!(self.manager.next_timeout(), None);
    }
}

proptest! {
    #![proptest_config(config(400))]

    #[test]
    fn whatever_is_said_the_tables_agree(acts in vec(act(), 0..300), all_go in any::<bool>()) {
        let mut rig = Rig::new();
        for act in acts {
            rig.perform(act);
        }
        if all_go {
            rig.all_go();
        }
        rig.stop();
    }
}

#[test]
fn the_hostile_reach_what_they_are_for() {
    let mut runner = TestRunner::deterministic();
    let mut tally = Tally::default();
    for _ in 0..900 {
        let mut rig = Rig::new();
        for act in vec(act(), 0..300).new_tree(&mut runner).expect("acts").current() {
            rig.perform(act);
        }
        tally.add(&rig.tally);
    }
    tally.has(&[
        "reply Segment",
        "reply Interrupt",
        "reply Resumed",
        "reply OnOtherHost",
        "event WantedByNetwork",
        "refused Invalid",
        "refused Limit",
        "refused NotFound",
        "refused NotAvailable",
        "refused Unreachable",
        "Rejected",
        "lost OwnerDied",
        "lost NodeLost",
        "disconnected died=true",
        "event Member",
        "answers Segment",
        "answers Interrupt",
        "answers Resumed",
        "denies NotFound",
        "denies NotAvailable",
        "denies Denied",
        "asks Resume",
        "asks ConnectSegment",
        "asks ConnectInterrupt",
        "asks ConnectByNetwork",
        "asks AskOwner",
        "denies NoDataLink",
        "reply Agent",
        "event AgentEnded",
        "asks StartAgent",
        "answers Agent",
        "says ToAgent",
        "says FromAgent",
        "says Rejected",
        "tells lost OwnerDied",
        "tells released died=true",
    ]);
}

//! A cluster in memory: managers, programs, sockets that keep order and lose nothing until they close, a
//! virtual clock, and a network that an adversary may delay, cut and partition.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proto::ids::{AdapterNo, NodeId};
use proto::manager::{
    Credentials, DescriptorKind, FdToken, Input, Limits, LogLevel, Manager, ManagerConfig, Output, PeerConn,
};
use proto::time::Instant;
use proto::wire::peer::PeerMessage;
use proto::wire::program::{Access, Event, Reply, ToProgram};
use proto::wire::status::{AdapterInfo, NodeInfo, NodeStatus, SessionState};
use proto::wire::{self, PROTOCOL_VERSION};

use crate::actor::Actor;
use crate::kernel::{Channel, Parcel, Place, pair};
use crate::page::Page;
use crate::rng::Rng;
use crate::tally::Tally;

pub const INTERVAL: Duration = Duration::from_millis(200);
pub const LIMIT: Duration = Duration::from_millis(1000);
pub const GRACE: Duration = Duration::from_millis(2000);
pub const OWN_UID: u32 = 1000;

/// Of every other host.
pub const ADDRESS: std::net::IpAddr = std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
/// Connections with managers that a test plays itself have numbers from here on.
pub const STRANGERS: u64 = 1 << 40;

#[derive(Debug)]
pub struct Node {
    pub id: NodeId,
    pub life: u64,
    pub manager: Option<Manager>,
    pub hung: bool,
    pub inbox: Vec<Parcel>,
    pub page: Page,
    pub tokens: BTreeMap<FdToken, DescriptorKind>,
    pub log: Vec<(LogLevel, String)>,
    /// When it was stopped in good order.
    pub stops: Vec<Instant>,
    /// When it was killed.
    pub kills: Vec<Instant>,
    pub uid: u32,
    pub cluster: String,
    pub limits: Limits,
    /// What it puts before each message instead of the right version.
    pub version: u16,
    pub attach: Access,
    /// It runs agents.
    pub agents: bool,
    /// It is a relay, and what it was asked to do as one, or by way of one.
    pub relay: bool,
    pub relay_outputs: Vec<Output>,
    /// Its driver can neither start an agent nor make a stream to one.
    pub lacks_agents: bool,
    /// What it was asked to do with agents.
    pub agent_outputs: Vec<Output>,
}

/// Delays in microseconds.
#[derive(Debug, Clone, Copy)]
pub struct Net {
    pub program_us: (u64, u64),
    pub peer_us: (u64, u64),
}

#[derive(Debug)]
pub struct World {
    pub now: Instant,
    pub rng: Rng,
    pub net: Net,
    pub nodes: Vec<Node>,
    pub actors: Vec<Actor>,
    pub channels: BTreeMap<u64, Channel>,
    pub queue: BTreeMap<(Instant, u64), (Place, Parcel)>,
    pub sequence: u64,
    pub next_channel: u64,
    pub next_token: u64,
    pub next_incarnation: u64,
    pub parted: BTreeSet<(usize, usize)>,
    pub held: Vec<((usize, usize), Place, Parcel)>,
    /// Who dialled whom, and when.
    pub dials: Vec<(Instant, usize, NodeId)>,
    /// What was said to connections with managers that a test plays itself; `None`: closed.
    pub to_strangers: Vec<(PeerConn, Option<PeerMessage>)>,
    pub tally: Tally,
    /// Each manager is on a host of its own.
    pub apart: bool,
}

pub fn limits() -> Limits {
    Limits {
        programs: 32,
        segments: 64,
        interrupts: 64,
        imports: 256,
        exports_of_node: 256,
        pending_per_program: 64,
    }
}

impl World {
    /// Nodes 4, 8, …, not yet started.
    pub fn new(nodes: usize, seed: u64) -> Self {
        let node = |index: usize| Node {
            id: NodeId::nth(index).expect("an id"),
            life: 0,
            manager: None,
            hung: false,
            inbox: Vec::new(),
            page: Page::default(),
            tokens: BTreeMap::new(),
            log: Vec::new(),
            stops: Vec::new(),
            kills: Vec::new(),
            uid: OWN_UID,
            cluster: "default".to_owned(),
            limits: limits(),
            version: PROTOCOL_VERSION,
            attach: Access::default(),
            agents: true,
            relay: false,
            relay_outputs: Vec::new(),
            lacks_agents: false,
            agent_outputs: Vec::new(),
        };
        Self {
            now: Instant::from_nanos(1_000_000_000),
            rng: Rng::new(seed),
            net: Net { program_us: (10, 1000), peer_us: (10, 5000) },
            nodes: (0..nodes).map(node).collect(),
            actors: Vec::new(),
            channels: BTreeMap::new(),
            queue: BTreeMap::new(),
            sequence: 0,
            next_channel: 1,
            next_token: 1,
            next_incarnation: 1,
            parted: BTreeSet::new(),
            held: Vec::new(),
            dials: Vec::new(),
            to_strangers: Vec::new(),
            tally: Tally::default(),
            apart: false,
        }
    }

    /// A cluster whose sessions are all valid.
    pub fn up(nodes: usize, seed: u64) -> Self {
        Self::new(nodes, seed).all_up()
    }

    /// The same on as many hosts as there are nodes.
    pub fn up_apart(nodes: usize, seed: u64) -> Self {
        Self { apart: true, ..Self::new(nodes, seed) }.all_up()
    }

    fn all_up(mut self) -> Self {
        for node in 0..self.nodes.len() {
            self.start(node);
        }
        self.run_until("all sessions valid", Self::all_valid);
        self
    }

    pub fn index(&self, id: NodeId) -> usize {
        self.nodes.iter().position(|node| node.id == id).expect("a node of this world")
    }

    pub fn manager(&self, node: usize) -> &Manager {
        self.nodes[node].manager.as_ref().expect("it runs")
    }

    pub fn status(&self, node: usize) -> NodeStatus {
        self.manager(node).status(self.now)
    }

    pub fn start(&mut self, index: usize) {
        assert!(self.nodes[index].manager.is_none(), "it runs already");
        let salt = self.rng.next();
        self.next_incarnation += 1;
        let incarnation = self.next_incarnation << 32 | salt >> 32;
        let now = self.now;
        let node = &mut self.nodes[index];
        let config = ManagerConfig {
            info: NodeInfo {
                node: node.id,
                cluster: node.cluster.clone(),
                host: format!("host{index}"),
                version: "0.1.0".to_owned(),
                manager_pid: 100 + u32::try_from(index).expect("few nodes"),
                incarnation,
                adapters: vec![AdapterInfo {
                    number: AdapterNo(0),
                    kind: "shm".to_owned(),
                    capabilities: vec!["map".to_owned()],
                }],
                faults: true,
                rails: vec![[10, 0, 0, 1].into()],
            },
            uid: node.uid,
            attach: node.attach.clone(),
            heartbeat_interval: INTERVAL,
            heartbeat_limit: LIMIT,
            resume_grace: GRACE,
            agents: node.agents,
            relay: node.relay,
            limits: node.limits,
        };
        node.life += 1;
        node.hung = false;
        node.page = Page::default();
        node.agent_outputs.clear();
        node.manager = Some(Manager::new(config, now));
        let (id, life) = (node.id, node.life);
        for other in 0..self.nodes.len() {
            if other == index || self.nodes[other].life == 0 {
                continue;
            }
            let other_id = self.nodes[other].id;
            let delay = self.delay(self.net.peer_us);
            self.post(delay, Place::Manager { node: index, life }, Parcel::Seen(other_id));
            if self.nodes[other].manager.is_some() {
                let (other_life, delay) = (self.nodes[other].life, self.delay(self.net.peer_us));
                self.post(delay, Place::Manager { node: other, life: other_life }, Parcel::Seen(id));
            }
        }
    }

    /// kill -9: the kernel closes everything; what was sent arrives.
    pub fn kill(&mut self, index: usize) {
        let now = self.now;
        self.nodes[index].kills.push(now);
        self.bury(index);
    }

    fn bury(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let place = Place::Manager { node: index, life: node.life };
        node.manager = None;
        node.hung = false;
        node.inbox.clear();
        node.tokens.clear();
        let open: Vec<u64> = self
            .channels
            .iter()
            .filter(|(_, channel)| channel.ends.contains(&place))
            .map(|(&id, _)| id)
            .collect();
        for channel in open {
            self.close(channel, place);
        }
    }

    /// SIGTERM.
    pub fn stop(&mut self, index: usize) {
        self.input(index, Input::Stop);
    }

    pub fn hang(&mut self, index: usize) {
        self.nodes[index].hung = self.nodes[index].manager.is_some();
    }

    /// SIGCONT: what came meanwhile is read; whether before or after the timers is chance.
    pub fn unhang(&mut self, index: usize) {
        if !std::mem::take(&mut self.nodes[index].hung) {
            return;
        }
        if self.rng.chance(50) {
            self.fire(index);
        }
        self.read(index);
    }

    /// The same, timers first.
    pub fn unhang_late(&mut self, index: usize) {
        self.nodes[index].hung = false;
        self.fire(index);
        self.read(index);
    }

    fn read(&mut self, index: usize) {
        for parcel in std::mem::take(&mut self.nodes[index].inbox) {
            self.give(index, parcel);
        }
    }

    /// Feeds a manager and carries out what it wants; every table must agree afterwards.
    pub fn input(&mut self, index: usize, input: Input) {
        let now = self.now;
        let Some(manager) = self.nodes[index].manager.as_mut() else { return };
        manager.handle(now, input);
        self.pump(index);
    }

    /// Serves a manager's timers.
    pub fn fire(&mut self, index: usize) {
        let now = self.now;
        let Some(manager) = self.nodes[index].manager.as_mut() else { return };
        manager.handle_timeout(now);
        let next = manager.next_timeout();
        assert!(
            next.is_none_or(|at| at > now),
            "node {index}: a timer that is due was served and is due again"
        );
        self.pump(index);
    }

    fn pump(&mut self, index: usize) {
        let life = self.nodes[index].life;
        while let Some(output) = self.nodes[index].manager.as_mut().and_then(Manager::poll_output) {
            self.carry_out(index, life, output);
        }
        let node = &self.nodes[index];
        let Some(manager) = &node.manager else { return };
        if let Err(wrong) = manager.audit() {
            panic!("node {}: {wrong}", node.id);
        }
        let held = manager.status(self.now).descriptors;
        assert_eq!(held, node.tokens.len() as u64, "descriptors of node {}", node.id);
    }

    fn carry_out(&mut self, index: usize, life: u64, output: Output) {
        let place = Place::Manager { node: index, life };
        match output {
            Output::ToProgram { program, message, descriptors } => {
                self.page_agrees(index, &message);
                self.tally.note(&message);
                let bytes = wire::encode(&message).expect("every message can be encoded");
                self.send(index, program.0, place, bytes, &descriptors);
            }
            Output::Welcome { program, message } => {
                let bytes = wire::encode(&message).expect("every message can be encoded");
                self.send(index, program.0, place, bytes, &[]);
            }
            Output::ToPeer { peer, message, descriptors } => {
                let bytes = wire::encode(&message).expect("every message can be encoded");
                self.tally.note_peer(&message);
                if peer.0 >= STRANGERS {
                    return self.to_strangers.push((peer, Some(message)));
                }
                self.send(index, peer.0, place, bytes, &descriptors);
            }
            Output::CloseProgram { program } => self.close(program.0, place),
            Output::ClosePeer { peer } if peer.0 >= STRANGERS => self.to_strangers.push((peer, None)),
            Output::ClosePeer { peer } => self.close(peer.0, place),
            Output::Dial { node } => self.dial(index, node),
            Output::CheckProcess { pid } => {
                let lives = self.actors.iter().any(|actor| actor.credentials.pid == pid && !actor.dead);
                let now = self.now;
                if let Some(manager) = self.nodes[index].manager.as_mut().filter(|_| !lives) {
                    manager.handle(now, Input::ProcessGone { pid });
                }
            }
            output @ (Output::StartAgent { .. }
            | Output::OpenAgent { .. }
            | Output::ToAgent { .. }
            | Output::EndAgentInput { .. }
            | Output::ReadAgent { .. }
            | Output::CloseAgent { .. }) => self.agent_output(index, output),
            output @ (Output::DialRelayed { .. }
            | Output::OpenForward { .. }
            | Output::RenewForward { .. }
            | Output::DrainForward { .. }
            | Output::CloseForward { .. }) => self.nodes[index].relay_outputs.push(output),
            Output::SetLink { node, up } => self.nodes[index].page.set_link(node, up),
            Output::SetImport { import, ended } => self.nodes[index].page.set_import(import, ended),
            Output::SuspendImport { import, suspended } => self.nodes[index].page.suspend(import, suspended),
            Output::SetFaults { node, faults } => drop(self.nodes[index].page.faults.insert(node, faults)),
            Output::CloseDescriptor { token } => {
                let open = self.nodes[index].tokens.remove(&token);
                assert!(open.is_some(), "{token:?} is closed twice");
            }
            Output::Log { level, text } => self.nodes[index].log.push((level, text)),
            Output::Exit => {
                assert!(self.nodes[index].tokens.is_empty(), "descriptors are left at the end");
                let now = self.now;
                self.nodes[index].stops.push(now);
                self.bury(index);
            }
        }
    }

    /// The state page knows everything before the program is told.
    fn page_agrees(&self, index: usize, message: &ToProgram) {
        let page = &self.nodes[index].page;
        match message {
            ToProgram::Event(Event::Lost { import, reason }) => {
                assert_eq!(
                    page.imports.get(import),
                    Some(&Some(*reason)),
                    "the page says first that it ended"
                );
            }
            ToProgram::Event(Event::Link { node, up }) => {
                assert_eq!(page.links.get(node).map(|link| link.1), Some(*up), "the page says first");
            }
            ToProgram::Reply {
                result:
                    Ok(
                        Reply::Segment { import, .. }
                        | Reply::Interrupt { import, .. }
                        | Reply::ByNetwork { import, .. }
                        | Reply::Resumed { import },
                    ),
                ..
            } => assert!(page.alive(*import), "the page says first that it is alive"),
            _ => {}
        }
    }

    fn dial(&mut self, index: usize, target: NodeId) {
        self.dials.push((self.now, index, target));
        let other = self.index(target);
        let from = Place::Manager { node: index, life: self.nodes[index].life };
        let credentials = self.credentials_of(index);
        let (delay, other_delay) = (self.delay(self.net.peer_us), self.delay(self.net.peer_us));
        if self.nodes[other].manager.is_none() || self.parted.contains(&pair(index, other)) {
            return self.post(delay, from, Parcel::DialFailed(target));
        }
        let to = Place::Manager { node: other, life: self.nodes[other].life };
        let channel = self.open([from, to]);
        let theirs = self.credentials_of(other);
        self.arrive(
            channel,
            0,
            delay,
            Parcel::Opened { channel, dialled: Some(target), credentials: theirs },
        );
        self.arrive(channel, 1, other_delay, Parcel::Opened { channel, dialled: None, credentials });
    }

    fn credentials_of(&self, index: usize) -> Credentials {
        Credentials { uid: self.nodes[index].uid, gids: vec![100], pid: 100 }
    }

    fn next_fire(&self) -> Option<(Instant, usize)> {
        let awake = self.nodes.iter().enumerate().filter(|(_, node)| !node.hung);
        awake.filter_map(|(index, node)| Some((node.manager.as_ref()?.next_timeout()?, index))).min()
    }

    /// Lets the next thing happen, if it does so by `until`.
    pub fn step(&mut self, until: Instant) -> bool {
        let fire = self.next_fire();
        let parcel = self.queue.first_key_value().map(|(&(at, _), _)| at);
        let next = [fire.map(|(at, _)| at), parcel].into_iter().flatten().min();
        let Some(at) = next.filter(|&at| at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(at);
        match fire {
            Some((at, index)) if parcel.is_none_or(|parcel| at <= parcel) => self.fire(index),
            _ => {
                if let Some((_, (to, parcel))) = self.queue.pop_first() {
                    self.deliver(to, parcel);
                }
            }
        }
        true
    }

    pub fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
    }

    /// Runs until it holds; a minute of virtual time is too long.
    pub fn run_until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let until = self.now + Duration::from_secs(60);
        while !holds(self) {
            assert!(self.step(until), "it never comes to this: {what}");
        }
    }

    /// Every two running managers have a valid session, seen from both sides.
    pub fn all_valid(&self) -> bool {
        let running: Vec<&Node> = self.nodes.iter().filter(|node| node.manager.is_some()).collect();
        running.iter().all(|here| {
            let status = here.manager.as_ref().map(|manager| manager.status(self.now));
            let valid = |id: NodeId| {
                let link = status.iter().flat_map(|status| &status.links).find(|link| link.peer == id);
                link.is_some_and(|link| link.session == SessionState::Valid)
            };
            running.iter().all(|there| here.id == there.id || valid(there.id))
        })
    }
}

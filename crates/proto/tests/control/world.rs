//! A cluster in memory: managers, programs, sockets that keep order and lose nothing until they close, a virtual clock,
//! and a network that an adversary may delay, cut and partition.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proto::ids::{AdapterNo, NodeId};
use proto::manager::{
    Credentials, Descriptor, DescriptorKind, FdToken, Input, Limits, LogLevel, Manager, ManagerConfig,
    Output, PeerConn, ProgramConn,
};
use proto::time::Instant;
use proto::wire::peer::PeerMessage;
use proto::wire::program::{Access, Event, Refusal, Reply, Request, RequestId, ToProgram};
use proto::wire::status::{AdapterInfo, NodeInfo, NodeStatus, SessionState};
use proto::wire::{self, PROTOCOL_VERSION};
use serde::de::DeserializeOwned;

use crate::actor::{Actor, Letter};
use crate::page::Page;
use crate::rng::Rng;
use crate::tally::Tally;

pub const INTERVAL: Duration = Duration::from_millis(200);
pub const LIMIT: Duration = Duration::from_millis(1000);
pub const GRACE: Duration = Duration::from_millis(2000);
pub const OWN_UID: u32 = 1000;

/// Connections with managers that a test plays itself have numbers from here on.
pub const STRANGERS: u64 = 1 << 40;

/// One end of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Manager { node: usize, life: u64 },
    Actor(usize),
}

#[derive(Debug)]
struct Channel {
    /// For sockets between managers: dialler first.
    ends: [Place; 2],
    /// When the last thing arrives at each end.
    last: [Instant; 2],
    /// Everything under way is lost.
    cut: bool,
    /// This end has closed it.
    closed: [bool; 2],
}

#[derive(Debug, Clone)]
enum Parcel {
    Opened {
        channel: u64,
        dialled: Option<NodeId>,
        credentials: Credentials,
    },
    Data {
        channel: u64,
        bytes: Vec<u8>,
        beside: Vec<DescriptorKind>,
    },
    Closed {
        channel: u64,
    },
    Seen(NodeId),
    DialFailed(NodeId),
    /// An actor tries to attach (again).
    Attach,
}

#[derive(Debug)]
pub struct Node {
    pub id: NodeId,
    pub life: u64,
    pub manager: Option<Manager>,
    pub hung: bool,
    inbox: Vec<Parcel>,
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
    channels: BTreeMap<u64, Channel>,
    queue: BTreeMap<(Instant, u64), (Place, Parcel)>,
    sequence: u64,
    next_channel: u64,
    next_token: u64,
    next_incarnation: u64,
    parted: BTreeSet<(usize, usize)>,
    held: Vec<((usize, usize), Place, Parcel)>,
    pub steps: u64,
    /// Who dialled whom, and when.
    pub dials: Vec<(Instant, usize, NodeId)>,
    /// What was said to connections with managers that a test plays itself; `None`: closed.
    pub to_strangers: Vec<(PeerConn, Option<PeerMessage>)>,
    pub tally: Tally,
}

pub fn limits() -> Limits {
    Limits { programs: 32, segments: 64, interrupts: 64, imports: 256, pending_per_program: 64 }
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
            steps: 0,
            dials: Vec::new(),
            to_strangers: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// A cluster whose sessions are all valid.
    pub fn up(nodes: usize, seed: u64) -> Self {
        let mut world = Self::new(nodes, seed);
        for node in 0..nodes {
            world.start(node);
        }
        world.run_until("all sessions valid", Self::all_valid);
        world
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

    // Managers.

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
            },
            uid: node.uid,
            attach: node.attach.clone(),
            heartbeat_interval: INTERVAL,
            heartbeat_limit: LIMIT,
            resume_grace: GRACE,
            limits: node.limits,
        };
        node.life += 1;
        node.hung = false;
        node.page = Page::default();
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
        self.steps += 1;
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
            Output::SetLink { node, up } => self.nodes[index].page.set_link(node, up),
            Output::SetImport { import, ended } => self.nodes[index].page.set_import(import, ended),
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

    // Sockets.

    fn open(&mut self, ends: [Place; 2]) -> u64 {
        let id = self.next_channel;
        self.next_channel += 1;
        let channel = Channel { ends, last: [self.now; 2], cut: false, closed: [false; 2] };
        self.channels.insert(id, channel);
        id
    }

    fn delay(&mut self, (least, most): (u64, u64)) -> Duration {
        Duration::from_micros(least + self.rng.below(most - least + 1))
    }

    fn post(&mut self, delay: Duration, to: Place, parcel: Parcel) {
        self.sequence += 1;
        self.queue.insert((self.now + delay, self.sequence), (to, parcel));
    }

    /// Puts a parcel on its way to one end, after what is under way there.
    fn arrive(&mut self, id: u64, end: usize, delay: Duration, parcel: Parcel) {
        let now = self.now;
        let channel = self.channels.get_mut(&id).expect("an open socket");
        let at = channel.last[end].max(now + delay);
        channel.last[end] = at;
        let to = channel.ends[end];
        self.post(at.since(now), to, parcel);
    }

    fn send(&mut self, index: usize, id: u64, from: Place, mut bytes: Vec<u8>, tokens: &[FdToken]) {
        let node = &self.nodes[index];
        let beside: Vec<DescriptorKind> =
            tokens.iter().map(|token| *node.tokens.get(token).expect("an open descriptor is sent")).collect();
        bytes[4..6].copy_from_slice(&node.version.to_le_bytes());
        self.send_from(id, from, bytes, beside);
    }

    fn send_from(&mut self, id: u64, from: Place, bytes: Vec<u8>, beside: Vec<DescriptorKind>) {
        let Some(channel) = self.channels.get(&id) else { return };
        let end = usize::from(channel.ends[0] == from);
        assert!(!channel.closed[1 - end], "something is sent on a socket that its sender has closed");
        if channel.closed[end] {
            return;
        }
        let range = match channel.ends[end] {
            Place::Manager { .. } if matches!(from, Place::Manager { .. }) => self.net.peer_us,
            _ => self.net.program_us,
        };
        let delay = self.delay(range);
        self.arrive(id, end, delay, Parcel::Data { channel: id, bytes, beside });
    }

    fn close(&mut self, id: u64, from: Place) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let end = usize::from(channel.ends[0] == from);
        if std::mem::replace(&mut channel.closed[1 - end], true) {
            return;
        }
        if channel.closed[end] {
            self.channels.remove(&id);
        } else {
            self.arrive(id, end, Duration::from_micros(10), Parcel::Closed { channel: id });
        }
    }

    /// The adversary cuts a connection between two managers: what is under way is lost.
    pub fn cut(&mut self, a: usize, b: usize) {
        let between: Vec<u64> = self
            .channels
            .iter()
            .filter(|(_, channel)| nodes_of(&channel.ends) == Some(pair(a, b)) && !channel.cut)
            .map(|(&id, _)| id)
            .collect();
        for id in between {
            if let Some(channel) = self.channels.get_mut(&id) {
                channel.cut = true;
            }
            for end in 0..2 {
                let delay = self.delay(self.net.peer_us);
                self.arrive(id, end, delay, Parcel::Closed { channel: id });
            }
        }
    }

    /// Nothing passes between two nodes, and nothing is lost.
    pub fn part(&mut self, a: usize, b: usize) {
        if a != b {
            self.parted.insert(pair(a, b));
        }
    }

    pub fn heal(&mut self) {
        self.parted.clear();
        for (_, to, parcel) in std::mem::take(&mut self.held) {
            self.post(Duration::ZERO, to, parcel);
        }
    }

    // Time.

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

    fn deliver(&mut self, to: Place, parcel: Parcel) {
        if let Parcel::Opened { channel, .. } | Parcel::Data { channel, .. } | Parcel::Closed { channel } =
            &parcel
        {
            let Some(channel) = self.channels.get(channel) else { return };
            if channel.cut && !matches!(parcel, Parcel::Closed { .. } | Parcel::Opened { .. }) {
                return;
            }
            if let Some(nodes) = nodes_of(&channel.ends).filter(|nodes| self.parted.contains(nodes)) {
                return self.held.push((nodes, to, parcel));
            }
        }
        match to {
            Place::Actor(actor) => self.deliver_to_actor(actor, parcel),
            Place::Manager { node, life } => {
                if self.nodes[node].life != life || self.nodes[node].manager.is_none() {
                    return;
                }
                if self.nodes[node].hung {
                    self.nodes[node].inbox.push(parcel);
                } else {
                    self.give(node, parcel);
                }
            }
        }
    }

    /// What a driver does with what it reads.
    fn give(&mut self, index: usize, parcel: Parcel) {
        let input = match parcel {
            Parcel::Seen(node) => Input::PeerSeen { node },
            Parcel::DialFailed(node) => Input::DialFailed { node, why: "connection refused".to_owned() },
            Parcel::Attach => return,
            Parcel::Opened { channel, dialled, credentials } => match self.is_program(channel) {
                true => Input::ProgramConnected { program: ProgramConn(channel), credentials },
                false => Input::PeerConnected { peer: PeerConn(channel), dialled, credentials },
            },
            Parcel::Closed { channel } => {
                let program = self.is_program(channel);
                self.close_quietly(channel, Place::Manager { node: index, life: self.nodes[index].life });
                match program {
                    true => Input::ProgramGone { program: ProgramConn(channel) },
                    false => Input::PeerGone { peer: PeerConn(channel) },
                }
            }
            Parcel::Data { channel, bytes, beside } => {
                let descriptors = self.receive(index, &beside);
                if self.is_program(channel) {
                    let program = ProgramConn(channel);
                    match self.decode(index, bytes) {
                        Ok(message) => Input::ProgramMessage { program, message, descriptors },
                        Err(error) => Input::ProgramGarbage { program, error, descriptors },
                    }
                } else {
                    let peer = PeerConn(channel);
                    match self.decode(index, bytes) {
                        Ok(message) => Input::PeerMessage { peer, message, descriptors },
                        Err(error) => Input::PeerGarbage { peer, error, descriptors },
                    }
                }
            }
        };
        self.input(index, input);
    }

    /// A manager understands its own version alone.
    fn decode<T: DeserializeOwned>(&self, index: usize, mut bytes: Vec<u8>) -> Result<T, wire::CodecError> {
        if let Some(version) = bytes.get_mut(4..6) {
            let theirs = u16::from_le_bytes([version[0], version[1]]);
            if theirs != self.nodes[index].version {
                return Err(wire::CodecError::OtherVersion { theirs });
            }
            version.copy_from_slice(&PROTOCOL_VERSION.to_le_bytes());
        }
        wire::decode(&bytes)
    }

    /// The kernel makes new descriptors for the receiver.
    pub fn receive(&mut self, index: usize, beside: &[DescriptorKind]) -> Vec<Descriptor> {
        let mut descriptors = Vec::new();
        for &kind in beside {
            let token = FdToken(self.next_token);
            self.next_token += 1;
            self.nodes[index].tokens.insert(token, kind);
            descriptors.push(Descriptor { token, kind });
        }
        descriptors
    }

    fn is_program(&self, channel: u64) -> bool {
        self.channels.get(&channel).is_some_and(|channel| matches!(channel.ends[0], Place::Actor(_)))
    }

    /// A reader that has seen the end closes its own end.
    fn close_quietly(&mut self, id: u64, at: Place) {
        let Some(channel) = self.channels.get_mut(&id) else { return };
        let end = usize::from(channel.ends[1] == at);
        channel.closed[end] = true;
        if channel.closed == [true, true] {
            self.channels.remove(&id);
        }
    }

    // Programs.

    pub fn spawn(&mut self, node: usize, credentials: Credentials, name: &str) -> usize {
        self.actors.push(Actor::new(node, credentials, name));
        self.actors.len() - 1
    }

    /// A program of the usual user, attached.
    pub fn attach(&mut self, node: usize) -> usize {
        let pid = 1000 + u32::try_from(self.actors.len()).expect("few programs");
        let credentials = Credentials { uid: OWN_UID, gids: vec![100], pid };
        let actor = self.spawn(node, credentials, &format!("program{pid}"));
        self.try_attach(actor);
        self.run_until("attached", |world| world.actors[actor].attached);
        actor
    }

    /// Connects to the manager and says hello; later, if there is none.
    pub fn try_attach(&mut self, actor: usize) {
        if self.actors[actor].dead || self.actors[actor].channel.is_some() {
            return;
        }
        let node = self.actors[actor].node;
        if self.nodes[node].manager.is_none() {
            let delay = self.delay((20_000, 150_000));
            return self.post(delay, Place::Actor(actor), Parcel::Attach);
        }
        let channel = self.connect(actor);
        let letter = self.actors[actor].hello();
        self.send_letter(actor, channel, letter);
    }

    /// Connects and says nothing.
    pub fn connect(&mut self, actor: usize) -> u64 {
        let node = self.actors[actor].node;
        let life = self.nodes[node].life;
        let channel = self.open([Place::Actor(actor), Place::Manager { node, life }]);
        self.actors[actor].channel = Some(channel);
        let credentials = self.actors[actor].credentials.clone();
        let delay = self.delay(self.net.program_us);
        self.arrive(channel, 1, delay, Parcel::Opened { channel, dialled: None, credentials });
        channel
    }

    fn send_letter(&mut self, actor: usize, channel: u64, (message, beside): Letter) {
        let bytes = wire::encode(&message).expect("a program's message can be encoded");
        self.send_from(channel, Place::Actor(actor), bytes, beside);
    }

    /// Sends bytes that need not be a message.
    pub fn send_raw(&mut self, actor: usize, bytes: Vec<u8>, beside: Vec<DescriptorKind>) {
        let channel = self.actors[actor].channel.expect("connected");
        self.send_from(channel, Place::Actor(actor), bytes, beside);
    }

    fn deliver_to_actor(&mut self, actor: usize, parcel: Parcel) {
        if self.actors[actor].dead {
            return;
        }
        let now = self.now;
        match parcel {
            Parcel::Attach => self.try_attach(actor),
            Parcel::Closed { channel } if self.actors[actor].channel == Some(channel) => {
                self.close_quietly(channel, Place::Actor(actor));
                self.actors[actor].closed();
                if self.actors[actor].returns {
                    self.try_attach(actor);
                }
            }
            Parcel::Data { channel, bytes, beside } if self.actors[actor].channel == Some(channel) => {
                let message = match wire::decode(&bytes) {
                    Ok(message) => message,
                    Err(wire::CodecError::OtherVersion { .. }) => return,
                    Err(other) => panic!("a program cannot read what its manager sent: {other}"),
                };
                let letters = self.actors[actor].deliver(now, message, beside);
                for letter in letters {
                    self.send_letter(actor, channel, letter);
                }
            }
            _ => {}
        }
    }

    /// Sends a request and does not wait.
    pub fn request(&mut self, actor: usize, body: Request, beside: Vec<DescriptorKind>) -> RequestId {
        let channel = self.actors[actor].channel.expect("attached");
        let (id, letter) = self.actors[actor].ask(self.now, body, beside);
        self.send_letter(actor, channel, letter);
        id
    }

    pub fn answer(&mut self, actor: usize, id: RequestId) -> Result<(Reply, Vec<DescriptorKind>), Refusal> {
        self.run_until("an answer", |world| world.actors[actor].replies.contains_key(&id));
        let (result, beside) = self.actors[actor].replies.remove(&id).expect("it is there");
        result.map(|reply| (reply, beside))
    }

    /// Asks and waits for the answer.
    pub fn ask_with(
        &mut self,
        actor: usize,
        body: Request,
        beside: Vec<DescriptorKind>,
    ) -> Result<(Reply, Vec<DescriptorKind>), Refusal> {
        let id = self.request(actor, body, beside);
        self.answer(actor, id)
    }

    pub fn ask(&mut self, actor: usize, body: Request) -> Result<Reply, Refusal> {
        self.ask_with(actor, body, Vec::new()).map(|(reply, _)| reply)
    }

    /// kill -9 of a program.
    pub fn kill_program(&mut self, actor: usize) {
        self.actors[actor].dead = true;
        if let Some(channel) = self.actors[actor].channel.take() {
            self.close(channel, Place::Actor(actor));
        }
    }

    /// What a program was told since the last look.
    pub fn events(&mut self, actor: usize) -> Vec<Event> {
        std::mem::take(&mut self.actors[actor].events).into_iter().map(|(event, _)| event).collect()
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

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

fn nodes_of(ends: &[Place; 2]) -> Option<(usize, usize)> {
    match *ends {
        [Place::Manager { node: a, .. }, Place::Manager { node: b, .. }] => Some(pair(a, b)),
        _ => None,
    }
}

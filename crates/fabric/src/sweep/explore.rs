//! The requests of a sweep, and the handling of the responses.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::time::Duration;

use mad::header::{Path, Smp};
use mad::sm::{NodeDescription, NodeInfo, PortInfo, SwitchInfo, attribute};
use mad::values::{Guid, Method, NodeKind, PhysicalState, PortState};
use mad::windowed::{Done, Outcome, Windowed};
use mad::{Address, Mad, MadTransport};
use topology::counted;

use super::{Anomaly, MAX_ANOMALIES, Options, PortLocation, Progress, SweepError};

/// Ports that a node may have.
const MOST_PORTS: u8 = 254;
/// A node that left so many requests in a row without a response is not asked any more by this path.
const MAX_UNANSWERED: u32 = 3;
/// Nodes with one GUID that are distinguished.
const MOST_ALIKE: usize = 32;
/// Other paths to a node that are remembered, and tried, when the first one breaks.
const MAX_OTHER_PATHS: usize = 3;

/// What is asked. Numbers are indices of [`Explorer::nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Question {
    /// The NodeInfo of the local node.
    Local,
    /// The NodeInfo of the node behind this port.
    Behind(usize, u8),
    Description(usize),
    Switch(usize),
    Port(usize, u8),
}

/// A claim about the node behind a port: its response to a request that came in by that link.
pub(super) type Claim = NodeInfo;

#[derive(Debug)]
pub(super) struct Node {
    pub info: NodeInfo,
    pub description: Option<NodeDescription>,
    pub switch: Option<SwitchInfo>,
    pub path: Path,
    pub other_paths: Vec<Path>,
    /// By port number.
    pub ports: Vec<Option<PortInfo>>,
    /// By port number.
    pub behind: Vec<Option<Claim>>,
    /// Ports that were found to lead to a node of their own, whose GUID another has too.
    pub instance: HashMap<u8, usize>,
    /// Behind which port of which node it was found; of the first one nothing.
    pub found_at: Option<(usize, u8)>,
    unanswered_in_a_row: u32,
    /// Requests that were asked twice without success, or not any more.
    given_up: Vec<Question>,
    /// Counts the paths by which it was asked.
    path_number: u32,
}

impl Node {
    /// Requests without a response.
    pub(super) fn unanswered(&self) -> usize {
        self.given_up.len()
    }
}

/// A request in flight.
#[derive(Debug, Clone, Copy)]
struct Asked {
    question: Question,
    /// It was asked before.
    again: bool,
    /// [`Node::path_number`] at that time.
    path_number: u32,
}

pub(super) struct Explorer {
    options: Options,
    client: Windowed<Asked>,
    /// Requests, and whether they were asked before by another path.
    pub pending: VecDeque<(Question, bool)>,
    pub nodes: Vec<Node>,
    pub by_guid: HashMap<Guid, Vec<usize>>,
    pub anomalies: Vec<Anomaly>,
    /// Ports behind which no node responded, and whether the transport reported that the request cannot be
    /// delivered.
    pub silent: BTreeMap<(usize, u8), bool>,
    too_many: bool,
    gave_up: bool,
    /// GUIDs for which that was reported.
    too_many_alike: HashSet<Guid>,
    /// Ports of all nodes, as these claim them.
    ports: usize,
    /// Requests that stayed without a response.
    unheard: usize,
    /// Anomalies that were only counted.
    pub more_anomalies: u64,
}

impl Explorer {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            options: *options,
            client: Windowed::new(options.limits),
            pending: VecDeque::new(),
            nodes: Vec::new(),
            by_guid: HashMap::new(),
            anomalies: Vec::new(),
            silent: BTreeMap::new(),
            too_many: false,
            gave_up: false,
            too_many_alike: HashSet::new(),
            ports: 0,
            unheard: 0,
            more_anomalies: 0,
        }
    }

    pub(super) fn start(&mut self) {
        self.pending.push_back((Question::Local, false));
    }

    /// Keeps an anomaly, or counts it: a fabric that lies has any number of them.
    pub(super) fn anomaly(&mut self, anomaly: Anomaly) {
        if self.anomalies.len() < MAX_ANOMALIES {
            self.anomalies.push(anomaly);
        } else {
            self.more_anomalies += 1;
        }
    }

    pub(super) fn tally(&self) -> mad::windowed::Tally {
        self.client.tally()
    }

    /// Until there is nothing more to ask.
    pub(super) fn run<T: MadTransport + ?Sized>(
        &mut self,
        transport: &mut T,
        progress: &mut dyn FnMut(&Progress),
        stop: &dyn Fn() -> bool,
    ) -> Result<(), SweepError> {
        let mut done = Vec::new();
        // So many are given to the client that it never runs dry, and so few that what turned out to be
        // without success is not asked.
        let ahead = transport.room().max(self.options.limits.window) * 2;
        loop {
            while self.client.open() < ahead {
                let Some((question, again)) = self.pending.pop_front() else { break };
                if let Some(mad) = self.datagram(question) {
                    let path_number = self.path_number(question);
                    self.client.ask(Address::DIRECTED, mad, Asked { question, again, path_number });
                }
            }
            if self.client.open() == 0 {
                return Ok(());
            }
            self.client.drive(transport, Duration::from_millis(100), &mut done)?;
            for Done { key, outcome } in done.drain(..) {
                let Asked { question, again, path_number } = key;
                self.unheard += usize::from(matches!(outcome, Outcome::Silent));
                if matches!(outcome, Outcome::Silent | Outcome::Unreachable)
                    && path_number != self.path_number(question)
                {
                    // Meanwhile its node is asked by another path.
                    self.pending.push_back((question, again));
                } else {
                    self.take(question, again, outcome);
                }
            }
            if self.unheard >= self.options.most_silent && !self.pending.is_empty() {
                self.give_up();
            }
            progress(&Progress {
                nodes: self.nodes.len(),
                open: self.client.open() + self.pending.len(),
                tally: self.client.tally(),
            });
            if stop() {
                return Err(SweepError::Stopped(self.nodes.len()));
            }
        }
    }

    /// Sends no further request: responses to requests in flight are still waited for.
    fn give_up(&mut self) {
        let left = self.pending.len();
        self.pending = VecDeque::new();
        if !self.gave_up {
            self.gave_up = true;
            // This anomaly is always kept.
            self.anomalies.insert(0, Anomaly::GaveUp { unanswered: self.unheard, left });
        }
    }

    /// The request as a datagram; `None` where it is not worth asking any more.
    fn datagram(&mut self, question: Question) -> Option<Mad> {
        let (node, attribute, modifier) = match question {
            Question::Local => {
                return Some(Smp::directed(Method::GET, attribute::NODE_INFO, 0, &Path::LOCAL));
            }
            Question::Behind(node, port) => {
                let path = self.nodes.get(node)?.path.then(port);
                if path.is_none() {
                    let at = self.location(node, port);
                    self.anomaly(Anomaly::TooFar { at });
                }
                return Some(Smp::directed(Method::GET, attribute::NODE_INFO, 0, &path?));
            }
            Question::Description(node) => (node, attribute::NODE_DESCRIPTION, 0),
            Question::Switch(node) => (node, attribute::SWITCH_INFO, 0),
            Question::Port(node, port) => (node, attribute::PORT_INFO, port.into()),
        };
        let node = self.nodes.get_mut(node)?;
        if node.unanswered_in_a_row >= MAX_UNANSWERED {
            node.given_up.push(question);
            return None;
        }
        Some(Smp::directed(Method::GET, attribute, modifier, &node.path))
    }

    fn take(&mut self, question: Question, again: bool, outcome: Outcome) {
        match (question, &outcome) {
            (_, Outcome::Answer(mad)) => self.answered(question, mad),
            (Question::Local, _) => {}
            (Question::Behind(node, port), Outcome::Refused(_, status)) => {
                let (at, status) = (self.location(node, port), *status);
                self.anomaly(Anomaly::Nonsense { at, what: format!("NodeInfo rejected: {status}") });
            }
            (Question::Behind(node, port), _) => {
                self.silent.insert((node, port), matches!(outcome, Outcome::Unreachable));
            }
            (
                Question::Description(node) | Question::Switch(node) | Question::Port(node, _),
                Outcome::Refused(mad, status),
            ) => {
                self.alive(node);
                let port = if let Question::Port(_, port) = question { port } else { 0 };
                let (at, attribute) = (self.location(node, port), mad.header().attribute());
                // Ports of a host need only respond for themselves.
                if !matches!(question, Question::Port(node, port) if !self.is_own_port(node, port)) {
                    self.anomaly(Anomaly::Refused { at, attribute, status: *status });
                }
            }
            (Question::Description(node) | Question::Switch(node) | Question::Port(node, _), _) => {
                self.unanswered(node, question, again);
            }
        }
    }

    fn answered(&mut self, question: Question, mad: &Mad) {
        match question {
            Question::Local => {
                if let Err(what) = plausible(mad.data()) {
                    let at = PortLocation { name: "local node".to_owned(), guid: Guid(0), port: 0 };
                    self.anomaly(Anomaly::Nonsense { at, what });
                } else if self.nodes.is_empty() {
                    self.add(mad.data(), Path::LOCAL, None);
                }
            }
            Question::Behind(node, port) => self.behind(node, port, mad.data()),
            Question::Description(node) => {
                self.alive(node);
                self.nodes[node].description = Some(*mad.data());
            }
            Question::Switch(node) => {
                self.alive(node);
                self.nodes[node].switch = Some(*mad.data());
            }
            Question::Port(node, port) => {
                self.alive(node);
                self.port(node, port, mad.data());
            }
        }
    }

    fn alive(&mut self, node: usize) {
        self.nodes[node].unanswered_in_a_row = 0;
    }

    fn path_number(&self, question: Question) -> u32 {
        match question {
            Question::Local => 0,
            Question::Behind(node, _)
            | Question::Description(node)
            | Question::Switch(node)
            | Question::Port(node, _) => self.nodes.get(node).map_or(0, |node| node.path_number),
        }
    }

    fn unanswered(&mut self, node: usize, question: Question, again: bool) {
        let it = &mut self.nodes[node];
        it.unanswered_in_a_row += 1;
        if again {
            it.given_up.push(question);
            // Twice without success: perhaps the path is broken.
            it.unanswered_in_a_row = it.unanswered_in_a_row.max(MAX_UNANSWERED);
        } else {
            self.pending.push_back((question, true));
        }
        self.other_way(node);
    }

    /// A node that does not respond any more is asked by another path, if one is known.
    fn other_way(&mut self, node: usize) {
        let it = &mut self.nodes[node];
        if it.unanswered_in_a_row < MAX_UNANSWERED || it.path_number as usize >= MAX_OTHER_PATHS {
            return;
        }
        let Some(path) = it.other_paths.pop() else { return };
        it.path = path;
        it.path_number += 1;
        it.unanswered_in_a_row = 0;
        self.pending.extend(it.given_up.drain(..).map(|question| (question, true)));
    }

    /// A new node: all that there is to ask of it.
    pub(super) fn add(
        &mut self,
        info: &NodeInfo,
        path: Path,
        found_at: Option<(usize, u8)>,
    ) -> Option<usize> {
        let (node, ports) = (self.nodes.len(), info.ports());
        let count = usize::from(ports) + 1;
        if node >= self.options.most_nodes || self.ports + count > self.options.most_ports {
            if !self.too_many {
                self.too_many = true;
                let at = found_at.map(|(node, port)| self.location(node, port));
                self.anomalies.insert(0, Anomaly::TooMany { kept: node, ports: self.ports, at });
            }
            return None;
        }
        if self.by_guid.get(&info.node_guid()).is_some_and(|nodes| nodes.len() >= MOST_ALIKE) {
            let at =
                found_at.map_or_else(|| self.location(node, 0), |(node, port)| self.location(node, port));
            if !self.too_many_alike.insert(info.node_guid()) {
                return None;
            }
            self.anomaly(Anomaly::TooManyAlike { guid: info.node_guid(), at });
            return None;
        }
        self.ports += count;
        self.by_guid.entry(info.node_guid()).or_default().push(node);
        self.nodes.push(Node {
            info: *info,
            description: None,
            switch: None,
            path,
            other_paths: Vec::new(),
            ports: vec![None; count],
            behind: vec![None; count],
            instance: HashMap::new(),
            found_at,
            unanswered_in_a_row: 0,
            given_up: Vec::new(),
            path_number: 0,
        });
        self.pending.push_back((Question::Description(node), false));
        let switch = info.kind() == NodeKind::SWITCH;
        if switch {
            self.pending.push_back((Question::Switch(node), false));
        }
        for port in u8::from(!switch)..=ports {
            self.pending.push_back((Question::Port(node, port), false));
        }
        Some(node)
    }

    /// Is it a port by which datagrams continue from this node: any of a switch, and where the sweep stands
    /// its own?
    pub(super) fn leads_on(&self, node: usize, port: u8) -> bool {
        let info = &self.nodes[node].info;
        let switch = info.kind() == NodeKind::SWITCH;
        port > 0 && (switch || node == 0 && port == info.local_port())
    }

    fn is_own_port(&self, node: usize, port: u8) -> bool {
        let info = &self.nodes[node].info;
        info.kind() == NodeKind::SWITCH || info.local_port() == port
    }

    fn port(&mut self, node: usize, port: u8, info: &PortInfo) {
        let before = self.nodes[node].ports[usize::from(port)].replace(*info);
        if !is_up(info) && self.silent.remove(&(node, port)).is_some() {
            let at = self.location(node, port);
            self.anomaly(Anomaly::WentDown { at });
        }
        if before.is_none() && self.leads_on(node, port) && is_up(info) {
            self.pending.push_back((Question::Behind(node, port), false));
        }
    }

    fn behind(&mut self, node: usize, port: u8, info: &NodeInfo) {
        if let Err(what) = plausible(info) {
            let at = self.location(node, port);
            self.anomaly(Anomaly::Nonsense { at, what });
            return;
        }
        self.silent.remove(&(node, port));
        self.nodes[node].behind[usize::from(port)] = Some(*info);
        let Some(path) = self.nodes[node].path.then(port) else { return };
        let same = self
            .by_guid
            .get(&info.node_guid())
            .and_then(|nodes| nodes.iter().copied().find(|other| alike(&self.nodes[*other].info, info)));
        match same {
            Some(other) => {
                let paths = &mut self.nodes[other].other_paths;
                if paths.len() < MAX_OTHER_PATHS {
                    paths.push(path);
                }
                self.other_way(other);
            }
            None => {
                self.add(info, path, Some((node, port)));
            }
        }
    }

    /// The port as people find it.
    pub(super) fn location(&self, node: usize, port: u8) -> PortLocation {
        let Some(it) = self.nodes.get(node) else {
            return PortLocation { name: String::new(), guid: Guid(0), port };
        };
        let name = it.description.as_ref().map(NodeDescription::to_text).unwrap_or_default();
        PortLocation { name, guid: it.info.node_guid(), port }
    }
}

/// Is there a partner at the other end?
pub(crate) fn is_up(info: &PortInfo) -> bool {
    info.physical_state() == PhysicalState::LINK_UP || info.state() >= PortState::INITIALIZE
}

/// May these be two responses of one node, asked by different ports?
pub(super) fn alike(a: &NodeInfo, b: &NodeInfo) -> bool {
    a.kind() == b.kind()
        && a.ports() == b.ports()
        && a.system_guid() == b.system_guid()
        && a.device() == b.device()
        && a.vendor() == b.vendor()
        && (a.kind() != NodeKind::SWITCH || a.port_guid() == b.port_guid())
}

fn plausible(info: &NodeInfo) -> Result<(), String> {
    if info.kind().name().is_none() {
        return Err(format!("a node of kind {}", info.kind()));
    }
    if info.node_guid() == Guid(0) {
        return Err("a node without a GUID".to_owned());
    }
    if !(1..=MOST_PORTS).contains(&info.ports()) {
        return Err(format!("a node of {}", counted(info.ports(), "port")));
    }
    if info.local_port() > info.ports() || info.local_port() == 0 && info.kind() != NodeKind::SWITCH {
        return Err(format!(
            "it says that the request came in by port {} of {}",
            info.local_port(),
            info.ports()
        ));
    }
    Ok(())
}

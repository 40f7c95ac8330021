//! What is known of the fabric: nodes, ports, cables that are down, LIDs, and what the switches' tables hold.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use fabric::sweep::{Found, NodeFacts};
use mad::header::Path;
use mad::sm::{PortInfo, SwitchInfo};
use mad::values::PortState;
use mad::{Guid, Lid};
use topology::routing::{Lids, Tables};
use topology::{Graph, Kind, NodeIx, PortIx};

use crate::keys::Keys;
use crate::partitions::{DEFAULT, FULL};
use crate::protection::Protection;
use crate::qos::{self, Lanes, Owner, Qos};
use crate::set::{Block, Set};
use crate::wanted::{self, Identity, Step};

/// The tables that the switches hold, as far as they have confirmed it.
#[derive(Debug, Clone)]
pub struct Written {
    /// Entry by entry; of a block that is not confirmed they mean nothing.
    pub tables: Tables,
    /// By row and block.
    confirmed: Vec<bool>,
    blocks: usize,
}

impl Written {
    /// Of switches of which nothing is known.
    #[must_use]
    pub fn unknown(lids: &Arc<Lids>, switches: &[NodeIx]) -> Self {
        let tables = Tables::empty(Arc::clone(lids), switches);
        let blocks = tables.width() / topology::routing::tables::BLOCK;
        Self { confirmed: vec![false; blocks * switches.len()], tables, blocks }
    }

    /// Of tables that were read; `knows` tells of a switch and a block whether the switch holds it for sure.
    #[must_use]
    pub fn read(tables: Tables, knows: impl Fn(NodeIx, usize) -> bool) -> Self {
        let blocks = tables.width() / topology::routing::tables::BLOCK;
        let switches: Vec<NodeIx> = tables.switches().to_vec();
        let mut written = Self { confirmed: vec![false; blocks * switches.len()], tables, blocks };
        for (row, node) in switches.into_iter().enumerate() {
            for block in 0..blocks {
                written.confirmed[row * blocks + block] = knows(node, block);
                if !knows(node, block) {
                    let first = block * topology::routing::tables::BLOCK;
                    let lids = first..first + topology::routing::tables::BLOCK;
                    lids.for_each(|lid| written.tables.set(node, lid as u16, topology::routing::NO_PATH));
                }
            }
        }
        written
    }

    /// Blocks a table has.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// A switch has, or has not, confirmed what a block of its table holds.
    pub fn confirm(&mut self, node: NodeIx, block: u16, entries: Option<&Block>) {
        let Some(row) = self.tables.index_of(node) else { return };
        if usize::from(block) >= self.blocks {
            return;
        }
        self.confirmed[row * self.blocks + usize::from(block)] = entries.is_some();
        for (at, port) in entries.into_iter().flatten().enumerate() {
            self.tables.set(node, block * entries.map_or(0, |all| all.len() as u16) + at as u16, *port);
        }
    }

    /// Is every block confirmed?
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.confirmed.iter().all(|it| *it)
    }

    /// The blocks that have to be written so that the switches hold `target`: block by block, so that the
    /// switches take turns.
    pub fn to_write<'a>(&'a self, target: &'a Tables) -> impl Iterator<Item = Set> + 'a {
        let switches = target.switches();
        let is_new = move |row: usize, block: usize| {
            let own = self.tables.index_of(switches[row]);
            let known = own.is_some_and(|own| self.confirmed.get(own * self.blocks + block) == Some(&true));
            !known || own.and_then(|own| self.tables.block(own, block)) != target.block(row, block)
        };
        (0..target.width() / topology::routing::tables::BLOCK).flat_map(move |block| {
            (0..switches.len()).filter(move |row| is_new(*row, block)).filter_map(move |row| {
                let entries: Block = target.block(row, block)?.try_into().ok()?;
                Some(Set::Table(switches[row], block as u16, entries))
            })
        })
    }
}

/// The port that a manager at a node is behind: a switch's own, of a host the one by which it responds.
#[must_use]
pub fn own_port(graph: &Graph, nodes: &[NodeFacts], home: NodeIx) -> Option<PortIx> {
    let local = nodes.get(home.index())?.info.local_port();
    graph.port(home, if graph.kind(home) == Kind::Switch { 0 } else { local })
}

/// What is known.
#[derive(Debug)]
pub struct Model {
    /// All cables that were found, those that are down meanwhile too: numbers of nodes and ports stay.
    pub whole: Graph,
    /// The cables that are up.
    pub graph: Graph,
    /// Cables that are down, by one of their ports (the lower).
    pub down: BTreeSet<PortIx>,
    /// The node where the manager is.
    pub home: NodeIx,
    /// What nodes report, by [`NodeIx`].
    pub nodes: Vec<NodeFacts>,
    /// What ports report, by [`PortIx`].
    pub ports: Vec<Option<PortInfo>>,
    /// LIDs of the end ports.
    pub lids: Arc<Lids>,
    /// What the switches hold.
    pub written: Written,
    /// Clients of ports are to register again.
    pub reregister: bool,
    /// Keys of end ports, if partitions were given.
    pub keys: Option<Keys>,
    /// How end ports are protected.
    pub protection: Protection,
    /// SL-to-VL maps and VL arbitration, if they were given.
    pub qos: Option<Qos>,
    /// By [`NodeIx`]: the directed route to each node over cables that are up.
    paths: Vec<Option<Path>>,
    /// End ports by their GUIDs.
    ends: HashMap<u64, PortIx>,
    /// The keys of a port where no partitions were given.
    all: BTreeSet<u16>,
}

impl Model {
    /// Of a sweep from a node, the LIDs that were decided, and what the switches hold.
    #[must_use]
    pub fn new(found: Found, home: NodeIx, lids: Arc<Lids>, written: Written) -> Self {
        let ends = lids.ends().map(|(_, port)| (found.graph.port_guid(port), port)).collect();
        let mut model = Self {
            ends,
            reregister: false,
            keys: None,
            protection: Protection::NONE,
            qos: None,
            all: BTreeSet::from([FULL | DEFAULT]),
            graph: found.graph.clone(),
            whole: found.graph,
            down: BTreeSet::new(),
            home,
            nodes: found.nodes,
            ports: found.ports,
            written,
            lids,
            paths: Vec::new(),
        };
        model.paths = model.routes_out();
        model
    }

    /// The port that the manager is behind.
    #[must_use]
    pub fn here(&self) -> Option<PortIx> {
        own_port(&self.graph, &self.nodes, self.home)
    }

    /// LID of the manager's port.
    #[must_use]
    pub fn sm_lid(&self) -> Lid {
        Lid(self.here().and_then(|port| self.lids.base(port)).unwrap_or(0))
    }

    /// GUID of the manager's port.
    #[must_use]
    pub fn sm_guid(&self) -> Guid {
        Guid(self.here().map_or(0, |port| self.graph.port_guid(port)))
    }

    /// The end port that has a GUID.
    #[must_use]
    pub fn end_port(&self, guid: Guid) -> Option<PortIx> {
        self.ends.get(&guid.0).copied()
    }

    /// The switch that has a LID.
    #[must_use]
    pub fn switch_of(&self, lid: Lid) -> Option<NodeIx> {
        let node = self.graph.owner(self.lids.port(lid.0)?);
        (self.graph.kind(node) == Kind::Switch).then_some(node)
    }

    /// The partition keys of an end port.
    #[must_use]
    pub fn keys_of(&self, port: PortIx) -> &BTreeSet<u16> {
        self.keys.as_ref().map_or(&self.all, |keys| keys.of(port))
    }

    /// Multicast groups of which all switches can hold entries.
    #[must_use]
    pub fn group_capacity(&self) -> u16 {
        let capacities = self.nodes.iter().filter_map(|node| node.switch.as_ref());
        capacities.map(SwitchInfo::multicast_capacity).min().unwrap_or(0)
    }

    /// Directed routes over cables that are up: the shortest, of these the one of lowest ports.
    fn routes_out(&self) -> Vec<Option<Path>> {
        let mut paths = vec![None; self.graph.node_count()];
        let mut next = VecDeque::new();
        if let Some(own) = paths.get_mut(self.home.index()) {
            *own = Some(Path::LOCAL);
            next.push_back(self.home);
        }
        let here = self.here();
        while let Some(node) = next.pop_front() {
            let switch = self.graph.kind(node) == Kind::Switch;
            let Some(path) = paths[node.index()] else { continue };
            for (near, far) in self.graph.cabled(node).filter(|(near, _)| switch || Some(*near) == here) {
                let there = self.graph.owner(far);
                if paths[there.index()].is_none() {
                    paths[there.index()] = path.then(self.graph.number(near));
                    next.push_back(there);
                }
            }
        }
        paths
    }

    /// The directed route to a node; `None` if no cable leads there.
    #[must_use]
    pub fn path(&self, node: NodeIx) -> Option<Path> {
        *self.paths.get(node.index())?
    }

    /// The directed route on which a port is set: a host's port is entered by itself, as a host with several
    /// ports takes a Set only for the one by which it came.
    #[must_use]
    pub fn path_to(&self, port: PortIx) -> Option<Path> {
        let node = self.graph.owner(port);
        if node == self.home || self.graph.kind(node) == Kind::Switch {
            return self.path(node);
        }
        let far = self.graph.peer(port)?;
        self.path(self.graph.owner(far))?.then(self.graph.number(far))
    }

    /// The directed route to the node behind a port of a switch, whether or not its cable is known.
    #[must_use]
    pub fn path_behind(&self, port: PortIx) -> Option<Path> {
        self.path(self.graph.owner(port))?.then(self.graph.number(port))
    }

    /// Takes over which cables are down. Returns whether anything changed.
    pub fn set_down(&mut self, down: BTreeSet<PortIx>) -> bool {
        if down == self.down {
            return false;
        }
        let cables: Vec<PortIx> = down.iter().copied().collect();
        self.graph = self.whole.without(&cables, &[]);
        self.down = down;
        self.paths = self.routes_out();
        true
    }

    /// Takes cables for down that are held back, unless then nothing leads to one of their ends. Those for
    /// which it does not.
    pub(crate) fn hold_back(&mut self, cables: &BTreeSet<PortIx>) -> Vec<PortIx> {
        let before = self.down.clone();
        self.set_down(before.union(cables).copied().collect());
        let cut = |port: &&PortIx| {
            let ends = [Some(**port), self.whole.peer(**port)];
            ends.into_iter().flatten().any(|end| self.path(self.whole.owner(end)).is_none())
        };
        let spared: Vec<PortIx> = cables.iter().filter(cut).copied().collect();
        if !spared.is_empty() {
            let held = self.down.iter().filter(|port| before.contains(port) || !spared.contains(port));
            self.set_down(held.copied().collect());
        }
        spared
    }

    /// A cable by the lower of its ports, as [`down`](Self::down) has it.
    #[must_use]
    pub fn cable(&self, port: PortIx) -> Option<PortIx> {
        self.whole.peer(port).map(|far| port.min(far))
    }

    /// Ports with a cable that is up, and the own ports of switches that can be reached.
    pub fn live_ports(&self) -> impl Iterator<Item = PortIx> + '_ {
        self.graph.nodes().flat_map(move |node| {
            let own = self.graph.port(node, 0).filter(|_| self.graph.kind(node) == Kind::Switch);
            own.into_iter().chain(self.graph.cabled(node).map(|(near, _)| near))
        })
    }

    /// What an end port did not take of what it was set to, in words.
    #[must_use]
    pub(crate) fn not_taken(&self, port: PortIx, reported: &PortInfo) -> Option<String> {
        wanted::not_taken(reported, &self.identity(port)).filter(|_| self.lids.base(port).is_some())
    }

    /// What is to be set at a port in a step; `None` if nothing, or if the port did not report what it has.
    #[must_use]
    pub fn port_set(&self, port: PortIx, step: Step) -> Option<Set> {
        let now = self.ports.get(port.index())?.as_ref()?;
        let far = match self.graph.peer(port) {
            Some(far) => Some(self.ports.get(far.index())?.as_ref()?),
            None => None,
        };
        if self.is_foreign(port) {
            return None;
        }
        wanted::port(now, far, &self.identity(port), step).map(|info| Set::Port(port, info))
    }

    /// What a port gets, beside its link's parameters.
    fn identity(&self, port: PortIx) -> Identity {
        let (lid, sm_lid) = (self.lids.base(port).map(Lid), self.sm_lid());
        let is_switch = self.graph.kind(self.graph.owner(port)) == Kind::Switch;
        let lanes = self.lanes(port);
        let both = [lanes, self.graph.peer(port).and_then(|far| self.lanes(far))].into_iter().flatten();
        Identity {
            lid,
            sm_lid,
            lmc: if is_switch { 0 } else { self.lids.lmc() },
            reregister: self.reregister,
            protection: self.protection,
            most_vls: both.map(|lanes| qos::code_of(lanes.most_vls)).min(),
            high_limit: lanes.map(|lanes| lanes.high_limit),
        }
    }

    /// What a port gets of VLs, if that was given: all but a switch's own port.
    #[must_use]
    pub fn lanes(&self, port: PortIx) -> Option<&Lanes> {
        let qos = self.qos.as_ref()?;
        match self.graph.kind(self.graph.owner(port)) {
            Kind::Switch if self.graph.number(port) == 0 => None,
            Kind::Switch => Some(qos.of(Owner::Switch)),
            Kind::Router => Some(qos.of(Owner::Router)),
            Kind::Host => Some(qos.of(Owner::Host)),
        }
    }

    /// Does the port, or the switch that it is of, obey another key? Sets are dropped there.
    #[must_use]
    pub fn is_foreign(&self, port: PortIx) -> bool {
        let node = self.graph.owner(port);
        let is_switch = self.graph.kind(node) == Kind::Switch;
        let end = if is_switch { self.graph.port(node, 0) } else { Some(port) };
        let info = end.and_then(|end| self.ports.get(end.index())?.as_ref());
        info.is_some_and(|info| self.protection.is_foreign(info))
    }

    /// What is to be set at the ports of the fabric in a step.
    pub fn port_sets(&self, step: Step) -> impl Iterator<Item = Set> + '_ {
        self.live_ports().filter_map(move |port| self.port_set(port, step))
    }

    /// Switches whose tables end elsewhere than they are to, or that report a changed port.
    pub fn switch_sets(&self) -> impl Iterator<Item = Set> + '_ {
        let top = self.lids.top();
        self.graph.nodes_of(Kind::Switch).filter_map(move |node| {
            let now = self.nodes.get(node.index())?.switch.as_ref()?;
            if now.linear_top() == top && !now.state_change() {
                return None;
            }
            let mut info = *now;
            info.set_linear_top(top);
            Some(Set::Switch(node, info))
        })
    }

    /// Is a link active at both ends?
    #[must_use]
    pub fn is_active(&self, port: PortIx) -> bool {
        let active = |port: PortIx| {
            self.ports
                .get(port.index())
                .and_then(Option::as_ref)
                .is_some_and(|it| it.state() >= PortState::ACTIVE)
        };
        active(port) && self.graph.peer(port).is_some_and(active)
    }

    /// Links that are up, and how many of them are active at both ends.
    #[must_use]
    pub fn links(&self) -> (usize, usize) {
        let (mut all, mut active) = (0, 0);
        for (one, _) in self.graph.links() {
            all += 1;
            active += usize::from(self.is_active(one));
        }
        (all, active)
    }

    /// Does anything pass any link now? If not, tables may be written in any order.
    #[must_use]
    pub fn carries_traffic(&self) -> bool {
        self.graph.links().any(|(one, _)| self.is_active(one))
    }
}

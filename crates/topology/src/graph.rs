//! A fabric: nodes, their ports, and the cables between ports.
//!
//! Columns instead of records: a node is a [`NodeIx`], a port is a [`PortIx`], and what is known of them is
//! in one array per fact. The ports of a node are consecutive, so that the array of peers is the graph's
//! adjacency in compressed rows. What never changes after a fault (names, GUIDs, the layout of ports) is
//! shared between a graph and its [`without`](Graph::without).

use std::ops::Range;
use std::sync::Arc;

mod aggregation;
mod builder;
mod difference;
mod guids;
mod link;
#[cfg(test)]
mod tests;

pub use builder::{GraphBuilder, GraphError, NodeSpec};
pub use link::{LinkSpec, Speed, Width};

/// No port: the entry of a port without a cable in the array of peers.
const NONE: u32 = u32::MAX;
/// No link: the entry of a port without a cable in the array of link rates.
const NO_LINK: u8 = u8::MAX;

/// A node of a graph: an index into its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIx(pub u32);

/// A port of a graph: an index over the ports of all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortIx(pub u32);

impl NodeIx {
    /// As an index of a slice.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl PortIx {
    /// As an index of a slice.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A host's adapter (channel adapter): traffic begins and ends here.
    Host,
    /// A switch.
    Switch,
    /// A router between subnets. Within its subnet it is an end of traffic, as a host is.
    Router,
}

impl Kind {
    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Switch => "switch",
            Self::Router => "router",
        }
    }
}

/// What faults can't change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Fixed {
    kind: Vec<Kind>,
    node_guid: Vec<u64>,
    system_guid: Vec<u64>,
    vendor: Vec<u32>,
    device: Vec<u32>,
    /// Is it an aggregation node?
    aggregation: Vec<bool>,
    /// Has another node the same description?
    shared_name: Vec<bool>,
    /// One more than there are nodes.
    first_port: Vec<u32>,
    /// All names, one after the other.
    names: String,
    /// One more than there are nodes.
    first_byte: Vec<u32>,
    /// Nodes in the order of their GUIDs.
    by_guid: Vec<u32>,
    owner: Vec<u32>,
    port_guid: Vec<u64>,
    lid: Vec<u16>,
    lmc: Vec<u8>,
    /// The label of a port on the chassis, where a dump gives it; in the order of ports.
    external: Vec<(u32, u16)>,
}

/// A fabric, which does not change. Made by a [`GraphBuilder`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Graph {
    fixed: Arc<Fixed>,
    peer: Vec<u32>,
    rate: Vec<u8>,
    dead: Vec<bool>,
}

impl Graph {
    /// How many nodes there are, dead ones too.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.fixed.kind.len()
    }

    /// How many port indices there are, those of port number 0 too.
    #[must_use]
    pub fn port_total(&self) -> usize {
        self.peer.len()
    }

    /// All nodes, dead ones too.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeIx> + DoubleEndedIterator + Clone + use<> {
        // There are at most u32::MAX nodes: the builder refuses more.
        (0..self.node_count() as u32).map(NodeIx)
    }

    /// All nodes of a kind, dead ones too.
    pub fn nodes_of(&self, kind: Kind) -> impl Iterator<Item = NodeIx> + '_ {
        self.nodes().filter(move |node| self.kind(*node) == kind)
    }

    /// How many nodes of a kind there are.
    #[must_use]
    pub fn count(&self, kind: Kind) -> usize {
        self.fixed.kind.iter().filter(|one| **one == kind).count()
    }

    /// What a node is.
    #[must_use]
    pub fn kind(&self, node: NodeIx) -> Kind {
        self.fixed.kind[node.index()]
    }

    /// Was it taken out by [`without`](Self::without)? Then it has no links.
    #[must_use]
    pub fn is_dead(&self, node: NodeIx) -> bool {
        self.dead[node.index()]
    }

    /// GUID of the node; 0 if it is not known.
    #[must_use]
    pub fn node_guid(&self, node: NodeIx) -> u64 {
        self.fixed.node_guid[node.index()]
    }

    /// GUID of the system (the chassis, the host) that the node is part of; 0 if it is not known.
    #[must_use]
    pub fn system_guid(&self, node: NodeIx) -> u64 {
        self.fixed.system_guid[node.index()]
    }

    /// GUID of a port; of a switch's port that of the switch's management port. 0 if it is not known.
    #[must_use]
    pub fn port_guid(&self, port: PortIx) -> u64 {
        self.fixed.port_guid[self.end_port(port).index()]
    }

    /// Vendor's number, as dumps give it; 0 if it is not known.
    #[must_use]
    pub fn vendor(&self, node: NodeIx) -> u32 {
        self.fixed.vendor[node.index()]
    }

    /// Number of the device's model, as dumps give it; 0 if it is not known.
    #[must_use]
    pub fn device(&self, node: NodeIx) -> u32 {
        self.fixed.device[node.index()]
    }

    /// The node's description of itself.
    #[must_use]
    pub fn name(&self, node: NodeIx) -> &str {
        let bytes = &self.fixed.first_byte[node.index()..node.index() + 2];
        &self.fixed.names[bytes[0] as usize..bytes[1] as usize]
    }

    /// Has another node the same description? Then it does not say which one is meant.
    #[must_use]
    pub fn is_name_shared(&self, node: NodeIx) -> bool {
        self.fixed.shared_name[node.index()]
    }

    /// The node with this GUID, the first if there are several; no node has 0.
    #[must_use]
    pub fn node_by_guid(&self, guid: u64) -> Option<NodeIx> {
        let order = &self.fixed.by_guid;
        let at = order.partition_point(|node| self.node_guid(NodeIx(*node)) < guid);
        let found = NodeIx(*order.get(at)?);
        (guid != 0 && self.node_guid(found) == guid).then_some(found)
    }

    /// Ports of a node: one index per number from 0 to its count of ports. Number 0 is a switch's management
    /// port, and of other nodes nothing.
    #[must_use]
    pub fn ports(&self, node: NodeIx) -> PortRange {
        PortRange(self.fixed.first_port[node.index()]..self.fixed.first_port[node.index() + 1])
    }

    /// How many ports a node has, not counting number 0.
    #[must_use]
    pub fn port_count(&self, node: NodeIx) -> u8 {
        // The builder lets no node have more than 254.
        (self.ports(node).0.len() - 1) as u8
    }

    /// The port of this number, if the node has it.
    #[must_use]
    pub fn port(&self, node: NodeIx, number: u8) -> Option<PortIx> {
        let ports = self.ports(node).0;
        let port = ports.start + u32::from(number);
        (port < ports.end).then_some(PortIx(port))
    }

    /// Whose port it is.
    #[must_use]
    pub fn owner(&self, port: PortIx) -> NodeIx {
        NodeIx(self.fixed.owner[port.index()])
    }

    /// The port's number on its node.
    #[must_use]
    pub fn number(&self, port: PortIx) -> u8 {
        (port.0 - self.fixed.first_port[self.owner(port).index()]) as u8
    }

    /// The port at the other end of the cable, if there is one.
    #[must_use]
    pub fn peer(&self, port: PortIx) -> Option<PortIx> {
        let peer = self.peer[port.index()];
        (peer != NONE).then_some(PortIx(peer))
    }

    /// The node at the other end of the cable, if there is one.
    #[must_use]
    pub fn neighbour(&self, port: PortIx) -> Option<NodeIx> {
        self.peer(port).map(|peer| self.owner(peer))
    }

    /// Width and speed of the port's link, if it has one.
    #[must_use]
    pub fn link(&self, port: PortIx) -> Option<LinkSpec> {
        LinkSpec::unpack(self.rate[port.index()])
    }

    /// The port's lowest LID, of a switch's port that of the switch; 0 if it is not known.
    #[must_use]
    pub fn lid(&self, port: PortIx) -> u16 {
        self.fixed.lid[self.end_port(port).index()]
    }

    /// LMC: the port has 2 to this power consecutive LIDs.
    #[must_use]
    pub fn lmc(&self, port: PortIx) -> u8 {
        self.fixed.lmc[self.end_port(port).index()]
    }

    /// The number of the port on the chassis, where a dump gives it.
    #[must_use]
    pub fn external(&self, port: PortIx) -> Option<u16> {
        let labels = &self.fixed.external;
        labels.binary_search_by_key(&port.0, |label| label.0).ok().map(|at| labels[at].1)
    }

    /// Each cable once: the end with the lower index first.
    pub fn links(&self) -> impl Iterator<Item = (PortIx, PortIx)> + '_ {
        let ends =
            self.peer.iter().enumerate().filter(|(port, peer)| **peer != NONE && (*port as u32) < **peer);
        ends.map(|(port, peer)| (PortIx(port as u32), PortIx(*peer)))
    }

    /// How many cables there are.
    #[must_use]
    pub fn link_count(&self) -> usize {
        self.links().count()
    }

    /// The cabled ports of a node with the ports at their other ends, in the order of port numbers.
    pub fn cabled(&self, node: NodeIx) -> impl Iterator<Item = (PortIx, PortIx)> + '_ {
        self.ports(node).filter_map(|port| self.peer(port).map(|peer| (port, peer)))
    }

    /// This graph without these cables (named by either end) and without all cables of these nodes. Indices
    /// stay what they are: the nodes are still there, marked as [dead](Self::is_dead). A switch takes along
    /// its [aggregation node](Self::is_aggregation), which is part of it.
    ///
    /// # Panics
    /// If an index is not of this graph.
    #[must_use]
    pub fn without(&self, links: &[PortIx], nodes: &[NodeIx]) -> Self {
        let mut rest = self.clone();
        for link in links {
            rest.cut(*link);
        }
        for node in nodes {
            rest.dead[node.index()] = true;
            if self.kind(*node) == Kind::Switch {
                let far = self.cabled(*node).map(|(_, far)| self.owner(far));
                far.filter(|far| self.is_aggregation(*far)).for_each(|far| rest.dead[far.index()] = true);
            }
            for port in self.ports(*node) {
                rest.cut(port);
            }
        }
        rest
    }

    fn cut(&mut self, port: PortIx) {
        let peer = std::mem::replace(&mut self.peer[port.index()], NONE);
        self.rate[port.index()] = NO_LINK;
        if peer != NONE {
            self.peer[peer as usize] = NONE;
            self.rate[peer as usize] = NO_LINK;
        }
    }

    /// The port that has the address: of a switch number 0.
    fn end_port(&self, port: PortIx) -> PortIx {
        let owner = self.owner(port);
        if self.kind(owner) == Kind::Switch { PortIx(self.fixed.first_port[owner.index()]) } else { port }
    }

    /// Bytes that this graph keeps in memory, those that it shares with others too.
    #[must_use]
    pub fn memory(&self) -> usize {
        let nodes = self.node_count() * (size_of::<Kind>() + 8 + 8 + 4 + 4 + 4 + 4 + 4 + 1);
        let ports = self.port_total() * (4 + 8 + 2 + 1 + 4 + 1);
        nodes + ports + self.fixed.names.len() + self.fixed.external.len() * 8
    }
}

/// Consecutive ports: those of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortRange(pub Range<u32>);

impl PortRange {
    /// As a range of a slice.
    #[must_use]
    pub fn indices(&self) -> Range<usize> {
        self.0.start as usize..self.0.end as usize
    }
}

impl Iterator for PortRange {
    type Item = PortIx;

    fn next(&mut self) -> Option<PortIx> {
        self.0.next().map(PortIx)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl DoubleEndedIterator for PortRange {
    fn next_back(&mut self) -> Option<PortIx> {
        self.0.next_back().map(PortIx)
    }
}

impl ExactSizeIterator for PortRange {}

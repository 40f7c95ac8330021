//! Builds a graph, and checks every statement.

use std::sync::Arc;

use super::{Fixed, Graph, Kind, LinkSpec, NO_LINK, NONE, NodeIx, PortIx};

/// Ports that a node may have: numbers are bytes, and 255 is not a port's.
const MOST_PORTS: u8 = 254;
/// Ports that a graph may have: two to the power of 28 are four gigabytes of columns, and far more than a
/// fabric's LIDs.
const MOST_PORTS_IN_ALL: usize = 1 << 28;
/// Bytes of all names together, so that offsets fit.
const MOST_BYTES: usize = u32::MAX as usize;

/// What a node is made of.
#[derive(Debug, Clone, Copy)]
pub struct NodeSpec<'a> {
    /// What it is.
    pub kind: Kind,
    /// Its description of itself.
    pub name: &'a str,
    /// Its ports, not counting number 0.
    pub ports: u8,
    /// GUID of the node; 0 if it is not known.
    pub node_guid: u64,
    /// GUID of the system that it is part of; 0 if it is not known.
    pub system_guid: u64,
    /// Vendor's number; 0 if it is not known.
    pub vendor: u32,
    /// Number of its model; 0 if it is not known.
    pub device: u32,
}

impl<'a> NodeSpec<'a> {
    /// A node of which only this is known.
    #[must_use]
    pub fn new(kind: Kind, name: &'a str, ports: u8) -> Self {
        Self { kind, name, ports, node_guid: 0, system_guid: 0, vendor: 0, device: 0 }
    }

    /// Its GUID, which is its system's too.
    #[must_use]
    pub fn guid(self, guid: u64) -> Self {
        Self { node_guid: guid, system_guid: guid, ..self }
    }
}

/// Why something can't be part of a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A node has more ports than numbers.
    #[error("`{0}` would have {1} ports, and a node has at most {MOST_PORTS}")]
    TooManyPorts(String, u8),
    /// The graph would be too large to be indexed.
    #[error("`{0}` would make the graph larger than {MOST_PORTS_IN_ALL} ports or 4 GiB of names")]
    TooLarge(String),
    /// The node has no such port for a cable.
    #[error("`{node}` has no port {number} for a cable to `{other}` (it has ports 1 to {count})")]
    NoSuchPort {
        /// Whose port it should be.
        node: String,
        /// The port's number.
        number: u8,
        /// How many ports there are.
        count: u8,
        /// Where the cable leads.
        other: String,
    },
    /// There is a cable in it.
    #[error("port {number} of `{node}` is connected to {there} and cannot be connected to {other} too")]
    WiredTwice {
        /// Whose port it is.
        node: String,
        /// The port's number.
        number: u8,
        /// Node and port that it is wired to.
        there: String,
        /// Node and port that it should be wired to.
        other: String,
    },
    /// Both ends of a cable are one port.
    #[error("port {number} of `{node}` cannot be connected to itself")]
    SelfLoop {
        /// Whose port it is.
        node: String,
        /// The port's number.
        number: u8,
    },
}

/// Makes a [`Graph`].
#[derive(Debug, Default)]
pub struct GraphBuilder {
    fixed: Fixed,
    peer: Vec<u32>,
    rate: Vec<u8>,
}

impl GraphBuilder {
    /// Of nothing so far.
    #[must_use]
    pub fn new() -> Self {
        let fixed = Fixed { first_port: vec![0], first_byte: vec![0], ..Fixed::default() };
        Self { fixed, peer: Vec::new(), rate: Vec::new() }
    }

    /// Adds a node. Its ports have no cable, no LID, and the node's GUID (a host's ports have consecutive
    /// ones from the node's on).
    ///
    /// # Errors
    /// Too many ports; too many of all.
    pub fn node(&mut self, spec: NodeSpec<'_>) -> Result<NodeIx, GraphError> {
        if spec.ports > MOST_PORTS {
            return Err(GraphError::TooManyPorts(spec.name.to_owned(), spec.ports));
        }
        let (first, bytes) = (self.peer.len(), self.fixed.names.len() + spec.name.len());
        let end = first + usize::from(spec.ports) + 1;
        if end > MOST_PORTS_IN_ALL || bytes > MOST_BYTES {
            return Err(GraphError::TooLarge(spec.name.to_owned()));
        }
        let node = NodeIx(self.fixed.kind.len() as u32);
        let fixed = &mut self.fixed;
        fixed.kind.push(spec.kind);
        fixed.node_guid.push(spec.node_guid);
        fixed.system_guid.push(spec.system_guid);
        fixed.vendor.push(spec.vendor);
        fixed.device.push(spec.device);
        fixed.names.push_str(spec.name);
        fixed.first_byte.push(bytes as u32);
        fixed.first_port.push(end as u32);
        fixed.owner.resize(end, node.0);
        fixed.lid.resize(end, 0);
        fixed.lmc.resize(end, 0);
        for number in 0..=u64::from(spec.ports) {
            let known = spec.node_guid != 0 && spec.kind != Kind::Switch && number != 0;
            fixed.port_guid.push(if known { spec.node_guid.wrapping_add(number) } else { spec.node_guid });
        }
        self.peer.resize(end, NONE);
        self.rate.resize(end, NO_LINK);
        Ok(node)
    }

    /// How many nodes there are so far.
    #[must_use]
    pub fn node_count(&self) -> usize {
        self.fixed.kind.len()
    }

    /// What a node is.
    #[must_use]
    pub fn kind(&self, node: NodeIx) -> Kind {
        self.fixed.kind[node.index()]
    }

    /// A node's description of itself.
    #[must_use]
    pub fn name(&self, node: NodeIx) -> &str {
        let bytes = &self.fixed.first_byte[node.index()..node.index() + 2];
        &self.fixed.names[bytes[0] as usize..bytes[1] as usize]
    }

    /// How many ports a node has, not counting number 0.
    #[must_use]
    pub fn port_count(&self, node: NodeIx) -> u8 {
        let ports = &self.fixed.first_port[node.index()..node.index() + 2];
        (ports[1] - ports[0] - 1) as u8
    }

    /// The other end of a port's cable, if it has one.
    #[must_use]
    pub fn peer(&self, node: NodeIx, number: u8) -> Option<(NodeIx, u8)> {
        let peer = self.peer[self.index(node, number)?];
        let owner = NodeIx(*self.fixed.owner.get(peer as usize)?);
        Some((owner, (peer - self.fixed.first_port[owner.index()]) as u8))
    }

    /// Wires two ports. Nothing is changed if it fails.
    ///
    /// # Errors
    /// A port that does not exist (number 0 takes no cable), that has a cable, or that is both ends.
    pub fn link(&mut self, a: (NodeIx, u8), b: (NodeIx, u8), spec: LinkSpec) -> Result<(), GraphError> {
        let (first, second) = (self.socket(a, b)?, self.socket(b, a)?);
        if first == second {
            return Err(GraphError::SelfLoop { node: self.name(a.0).to_owned(), number: a.1 });
        }
        self.free(a, first, b)?;
        self.free(b, second, a)?;
        for (port, peer) in [(first, second), (second, first)] {
            self.peer[port] = peer as u32;
            self.rate[port] = spec.pack();
        }
        Ok(())
    }

    /// What a port's cable is rated at, if it has one.
    #[must_use]
    pub fn link_spec(&self, node: NodeIx, number: u8) -> Option<LinkSpec> {
        LinkSpec::unpack(self.rate[self.index(node, number)?])
    }

    /// Says what a cable is rated at that was wired before. Does nothing where there is no cable.
    pub fn rate(&mut self, node: NodeIx, number: u8, spec: LinkSpec) {
        let Some(port) = self.index(node, number) else { return };
        if let Some(peer) = self.rate.get_mut(self.peer[port] as usize) {
            *peer = spec.pack();
            self.rate[port] = spec.pack();
        }
    }

    /// Says a port's lowest LID and how many bits of it are the port's own; of a switch for number 0. Does
    /// nothing where there is no such port.
    pub fn lid(&mut self, node: NodeIx, number: u8, lid: u16, lmc: u8) {
        if let Some(port) = self.index(node, number) {
            self.fixed.lid[port] = lid;
            self.fixed.lmc[port] = lmc;
        }
    }

    /// Says a port's GUID; of a switch for number 0. Does nothing where there is no such port.
    pub fn port_guid(&mut self, node: NodeIx, number: u8, guid: u64) {
        if let Some(port) = self.index(node, number) {
            self.fixed.port_guid[port] = guid;
        }
    }

    /// Says what is printed on the chassis beside a port. Does nothing where there is no such port.
    pub fn external(&mut self, node: NodeIx, number: u8, label: u16) {
        if let Some(port) = self.index(node, number) {
            self.fixed.external.push((port as u32, label));
        }
    }

    /// The graph.
    #[must_use]
    pub fn finish(mut self) -> Graph {
        let fixed = &mut self.fixed;
        fixed.sort_guids();
        // Of several statements about a port the last counts.
        fixed.external.reverse();
        fixed.external.sort_by_key(|label| label.0);
        fixed.external.dedup_by_key(|label| label.0);
        fixed.names.shrink_to_fit();
        let dead = vec![false; fixed.kind.len()];
        let mut graph = Graph { fixed: Arc::new(self.fixed), peer: self.peer, rate: self.rate, dead };
        let (aggregation, shared_name) = (super::aggregation::found(&graph), shared_names(&graph));
        if let Some(fixed) = Arc::get_mut(&mut graph.fixed) {
            (fixed.aggregation, fixed.shared_name) = (aggregation, shared_name);
        }
        graph
    }

    fn index(&self, node: NodeIx, number: u8) -> Option<usize> {
        let ports = self.fixed.first_port.get(node.index()..node.index() + 2)?;
        let port = ports[0] + u32::from(number);
        (port < ports[1]).then_some(port as usize)
    }

    fn socket(&self, (node, number): (NodeIx, u8), other: (NodeIx, u8)) -> Result<usize, GraphError> {
        let port = self.index(node, number).filter(|_| number > 0);
        port.ok_or_else(|| GraphError::NoSuchPort {
            node: self.name(node).to_owned(),
            number,
            count: self.port_count(node),
            other: self.name(other.0).to_owned(),
        })
    }

    fn free(&self, a: (NodeIx, u8), port: usize, b: (NodeIx, u8)) -> Result<(), GraphError> {
        let Some(there) = self.peer(a.0, a.1) else { return Ok(()) };
        debug_assert!(self.peer[port] != NONE);
        let (node, number) = (self.name(a.0).to_owned(), a.1);
        let (there, other) = (self.spot(there), self.spot(b));
        Err(GraphError::WiredTwice { node, number, there, other })
    }

    fn spot(&self, (node, number): (NodeIx, u8)) -> String {
        format!("port {number} of `{}`", self.name(node))
    }
}

impl From<PortIx> for usize {
    fn from(port: PortIx) -> Self {
        port.index()
    }
}

/// For each node whether another one has the same description.
fn shared_names(graph: &Graph) -> Vec<bool> {
    let mut order: Vec<NodeIx> = graph.nodes().collect();
    order.sort_unstable_by_key(|node| graph.name(*node));
    let mut shared = vec![false; order.len()];
    for pair in order.windows(2).filter(|pair| graph.name(pair[0]) == graph.name(pair[1])) {
        pair.iter().for_each(|node| shared[node.index()] = true);
    }
    shared
}

//! A fabric in the form that routing uses: switches by index, and the peer of each of their ports.

use crate::{Graph, Kind, NodeIx, PortIx};

/// A port without a cable.
pub(crate) const NOWHERE: u32 = u32::MAX;
/// A port that leads to a host or router.
pub(crate) const END: u32 = u32::MAX - 1;

/// The switches of a graph by index: the place among the graph's switches, dead ones too, so that an index
/// does not change after a fault. Variables that hold such an index are named `sw`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    switches: Vec<NodeIx>,
    /// By node: the index of the switch, or [`NOWHERE`].
    place: Vec<u32>,
    /// Port numbers of a switch, 0 too: one more than the largest switch has ports.
    stride: usize,
    /// Per switch and port number: the switch and port at the other end (switch << 8 | port), [`END`] or
    /// [`NOWHERE`].
    far: Vec<u32>,
    /// Cabled hosts' ports per switch.
    hosts: Vec<u32>,
    /// Of them those of hosts that are no aggregation nodes.
    programs: Vec<u32>,
    /// Neighbouring switches, each once: where each switch's part of `neighbour` begins.
    first: Vec<u32>,
    neighbour: Vec<Neighbour>,
}

/// A neighbouring switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Its index.
    pub sw: u32,
    /// The lowest port that leads there.
    pub port: u8,
    /// How many cables do.
    pub cables: u8,
}

impl View {
    /// Of a graph.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let switches: Vec<NodeIx> = graph.nodes_of(Kind::Switch).collect();
        let mut place = vec![NOWHERE; graph.node_count()];
        for (sw, switch) in switches.iter().enumerate() {
            place[switch.index()] = sw as u32;
        }
        let stride =
            switches.iter().map(|switch| usize::from(graph.port_count(*switch)) + 1).max().unwrap_or(1);
        let mut view = Self {
            far: vec![NOWHERE; switches.len() * stride],
            hosts: vec![0; switches.len()],
            programs: vec![0; switches.len()],
            first: Vec::with_capacity(switches.len() + 1),
            neighbour: Vec::new(),
            switches,
            place,
            stride,
        };
        view.first.push(0);
        for sw in 0..view.switches.len() {
            view.wire(graph, sw);
        }
        view
    }

    fn wire(&mut self, graph: &Graph, sw: usize) {
        let begin = self.neighbour.len();
        for (near, far) in graph.cabled(self.switches[sw]) {
            let number = graph.number(near);
            let there = self.place[graph.owner(far).index()];
            let slot = sw * self.stride + usize::from(number);
            if there == NOWHERE {
                self.far[slot] = END;
                self.hosts[sw] += 1;
                self.programs[sw] += u32::from(!graph.is_aggregation(graph.owner(far)));
                continue;
            }
            self.far[slot] = there << 8 | u32::from(graph.number(far));
            // A cable from a switch to itself is on no route.
            if there as usize == sw {
                continue;
            }
            match self.neighbour[begin..].iter_mut().find(|known| known.sw == there) {
                Some(known) => known.cables += 1,
                None => self.neighbour.push(Neighbour { sw: there, port: number, cables: 1 }),
            }
        }
        self.first.push(self.neighbour.len() as u32);
    }

    /// The number of switches.
    #[must_use]
    pub fn switch_count(&self) -> usize {
        self.switches.len()
    }

    /// The node of a switch.
    #[must_use]
    pub fn switch(&self, sw: usize) -> NodeIx {
        self.switches[sw]
    }

    /// The nodes of all switches, by index.
    #[must_use]
    pub fn switches(&self) -> &[NodeIx] {
        &self.switches
    }

    /// The index of a switch.
    #[must_use]
    pub fn index_of(&self, node: NodeIx) -> Option<usize> {
        self.place.get(node.index()).filter(|sw| **sw != NOWHERE).map(|sw| *sw as usize)
    }

    /// Port numbers per switch, 0 too.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Where a port leads: switch and port of the switch there.
    #[must_use]
    pub fn beyond(&self, sw: usize, port: u8) -> Option<(usize, u8)> {
        let far = self.at(sw, port);
        (far < END).then_some(((far >> 8) as usize, far as u8))
    }

    /// Does the port lead to a host or router?
    #[must_use]
    pub fn is_end(&self, sw: usize, port: u8) -> bool {
        self.at(sw, port) == END
    }

    /// The packed far end; a port that no switch has leads nowhere.
    #[inline]
    fn at(&self, sw: usize, port: u8) -> u32 {
        let port = usize::from(port);
        if port < self.stride { self.far[sw * self.stride + port] } else { NOWHERE }
    }

    /// How many ports of hosts and routers are connected to a switch.
    #[must_use]
    pub fn hosts(&self, sw: usize) -> u32 {
        self.hosts[sw]
    }

    /// How many of them are of hosts on which programs run: all but the [aggregation
    /// nodes](Graph::is_aggregation).
    #[must_use]
    pub fn programs(&self, sw: usize) -> u32 {
        self.programs[sw]
    }

    /// Neighbouring switches, each once, in the order of the lowest ports that lead there.
    #[must_use]
    pub fn neighbours(&self, sw: usize) -> &[Neighbour] {
        &self.neighbour[self.first[sw] as usize..self.first[sw + 1] as usize]
    }

    /// The ports that lead to a neighbour.
    pub fn cables(&self, sw: usize, to: Neighbour) -> impl Iterator<Item = u8> + '_ {
        let ports = &self.far[sw * self.stride..(sw + 1) * self.stride];
        let wanted = move |far: u32| far < END && far >> 8 == to.sw;
        let from = usize::from(to.port);
        let hits = ports[from..].iter().enumerate().filter(move |(_, far)| wanted(**far));
        hits.map(move |(after, _)| (from + after) as u8).take(usize::from(to.cables))
    }

    /// Where an end port is connected: the switch, and the port there that leads to it (0 if it is the switch
    /// itself).
    #[must_use]
    pub fn attachment(&self, graph: &Graph, end: PortIx) -> Option<(usize, u8)> {
        let owner = graph.owner(end);
        if let Some(sw) = self.index_of(owner) {
            return (!graph.is_dead(owner)).then_some((sw, 0));
        }
        let far = graph.peer(end)?;
        Some((self.index_of(graph.owner(far))?, graph.number(far)))
    }

    /// Connected components: for each switch the lowest index in its component.
    #[must_use]
    pub fn components(&self) -> Vec<u32> {
        self.components_of(|_| true)
    }

    /// Connected components of some switches, by cables between them; any other switch is a component of its
    /// own.
    pub(crate) fn components_of(&self, in_it: impl Fn(usize) -> bool) -> Vec<u32> {
        let mut component = vec![u32::MAX; self.switch_count()];
        let mut stack = Vec::new();
        for first in 0..self.switch_count() {
            if component[first] != u32::MAX {
                continue;
            }
            component[first] = first as u32;
            if in_it(first) {
                stack.push(first);
            }
            while let Some(sw) = stack.pop() {
                for near in self.neighbours(sw) {
                    let near = near.sw as usize;
                    if component[near] == u32::MAX && in_it(near) {
                        component[near] = first as u32;
                        stack.push(near);
                    }
                }
            }
        }
        component
    }

    /// Number of a channel: of the cable that leaves a switch by a port.
    #[must_use]
    pub(crate) fn channel(&self, sw: usize, port: u8) -> usize {
        sw * self.stride + usize::from(port)
    }

    /// Packed ends of all ports, for loops over many.
    #[must_use]
    pub(crate) fn far(&self) -> &[u32] {
        &self.far
    }

    /// Bytes in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.switches.len() * 16 + self.place.len() * 4 + self.far.len() * 4 + self.neighbour.len() * 8
    }
}

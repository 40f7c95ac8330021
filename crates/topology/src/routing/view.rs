//! A fabric in the form that routing uses: switches by index, and the peer of each of their ports.

use crate::{Graph, Kind, NodeIx, PortIx};

/// Leads nowhere.
pub(crate) const NOWHERE: u32 = u32::MAX;
/// Leads to a host or router.
pub(crate) const END: u32 = u32::MAX - 1;

/// Switches of a graph in rows. A row's number is its switch's place among the graph's switches, dead ones too, so that it
/// stays what it is after a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    switches: Vec<NodeIx>,
    row_of: Vec<u32>,
    /// Port numbers of a row, 0 too: one more than the largest switch has ports.
    stride: usize,
    /// Per row and port number: the row and port at the other end (row << 8 | port), [`END`] or [`NOWHERE`].
    far: Vec<u32>,
    /// Cabled hosts' ports per row.
    hosts: Vec<u32>,
    /// Of them those of hosts that are no aggregation nodes.
    programs: Vec<u32>,
    /// Neighbouring rows, each once: where each row's part of `neighbour` begins.
    first: Vec<u32>,
    neighbour: Vec<Neighbour>,
}

/// A neighbouring switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// Its row.
    pub row: u32,
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
        let mut row_of = vec![NOWHERE; graph.node_count()];
        for (row, switch) in switches.iter().enumerate() {
            row_of[switch.index()] = row as u32;
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
            row_of,
            stride,
        };
        view.first.push(0);
        for row in 0..view.switches.len() {
            view.wire(graph, row);
        }
        view
    }

    fn wire(&mut self, graph: &Graph, row: usize) {
        let begin = self.neighbour.len();
        for (near, far) in graph.cabled(self.switches[row]) {
            let number = graph.number(near);
            let there = self.row_of[graph.owner(far).index()];
            let slot = row * self.stride + usize::from(number);
            if there == NOWHERE {
                self.far[slot] = END;
                self.hosts[row] += 1;
                self.programs[row] += u32::from(!graph.is_aggregation(graph.owner(far)));
                continue;
            }
            self.far[slot] = there << 8 | u32::from(graph.number(far));
            // A cable from a switch to itself leads nowhere that is worth going.
            if there as usize == row {
                continue;
            }
            match self.neighbour[begin..].iter_mut().find(|known| known.row == there) {
                Some(known) => known.cables += 1,
                None => self.neighbour.push(Neighbour { row: there, port: number, cables: 1 }),
            }
        }
        self.first.push(self.neighbour.len() as u32);
    }

    /// How many rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.switches.len()
    }

    /// The switch of a row.
    #[must_use]
    pub fn switch(&self, row: usize) -> NodeIx {
        self.switches[row]
    }

    /// All switches, in the order of rows.
    #[must_use]
    pub fn switches(&self) -> &[NodeIx] {
        &self.switches
    }

    /// The row of a switch.
    #[must_use]
    pub fn row(&self, node: NodeIx) -> Option<usize> {
        self.row_of.get(node.index()).filter(|row| **row != NOWHERE).map(|row| *row as usize)
    }

    /// Port numbers a row, 0 too.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Where a port leads: row and port of the switch there.
    #[must_use]
    pub fn beyond(&self, row: usize, port: u8) -> Option<(usize, u8)> {
        let far = self.at(row, port);
        (far < END).then_some(((far >> 8) as usize, far as u8))
    }

    /// Does the port lead to a host or router?
    #[must_use]
    pub fn is_end(&self, row: usize, port: u8) -> bool {
        self.at(row, port) == END
    }

    /// The packed far end; a port that no switch has leads nowhere.
    #[inline]
    fn at(&self, row: usize, port: u8) -> u32 {
        let port = usize::from(port);
        if port < self.stride { self.far[row * self.stride + port] } else { NOWHERE }
    }

    /// How many hosts' and routers' ports hang on a row's switch.
    #[must_use]
    pub fn hosts(&self, row: usize) -> u32 {
        self.hosts[row]
    }

    /// How many of them are of hosts on which programs run: all but the [aggregation nodes](Graph::is_aggregation).
    #[must_use]
    pub fn programs(&self, row: usize) -> u32 {
        self.programs[row]
    }

    /// Neighbouring switches, each once, in the order of the lowest ports that lead there.
    #[must_use]
    pub fn neighbours(&self, row: usize) -> &[Neighbour] {
        &self.neighbour[self.first[row] as usize..self.first[row + 1] as usize]
    }

    /// The ports that lead to a neighbour.
    pub fn cables(&self, row: usize, to: Neighbour) -> impl Iterator<Item = u8> + '_ {
        let ports = &self.far[row * self.stride..(row + 1) * self.stride];
        let wanted = move |far: u32| far < END && far >> 8 == to.row;
        let from = usize::from(to.port);
        let hits = ports[from..].iter().enumerate().filter(move |(_, far)| wanted(**far));
        hits.map(move |(after, _)| (from + after) as u8).take(usize::from(to.cables))
    }

    /// Where an end port hangs: the row, and the port there that leads to it (0 if it is the switch itself).
    #[must_use]
    pub fn attachment(&self, graph: &Graph, end: PortIx) -> Option<(usize, u8)> {
        let owner = graph.owner(end);
        if let Some(row) = self.row(owner) {
            return (!graph.is_dead(owner)).then_some((row, 0));
        }
        let far = graph.peer(end)?;
        Some((self.row(graph.owner(far))?, graph.number(far)))
    }

    /// Connected components: for each row the lowest row of its component.
    #[must_use]
    pub fn components(&self) -> Vec<u32> {
        self.components_of(|_| true)
    }

    /// Connected components of some rows, by cables between them; any other row is a component of its own.
    pub(crate) fn components_of(&self, in_it: impl Fn(usize) -> bool) -> Vec<u32> {
        let mut component = vec![u32::MAX; self.rows()];
        let mut stack = Vec::new();
        for first in 0..self.rows() {
            if component[first] != u32::MAX {
                continue;
            }
            component[first] = first as u32;
            if in_it(first) {
                stack.push(first);
            }
            while let Some(row) = stack.pop() {
                for near in self.neighbours(row) {
                    let near = near.row as usize;
                    if component[near] == u32::MAX && in_it(near) {
                        component[near] = first as u32;
                        stack.push(near);
                    }
                }
            }
        }
        component
    }

    /// Number of a channel: of the cable that leaves a row by a port.
    #[must_use]
    pub(crate) fn channel(&self, row: usize, port: u8) -> usize {
        row * self.stride + usize::from(port)
    }

    /// Packed ends of all ports, for who goes through many.
    #[must_use]
    pub(crate) fn far(&self) -> &[u32] {
        &self.far
    }

    /// Bytes in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.switches.len() * 16 + self.row_of.len() * 4 + self.far.len() * 4 + self.neighbour.len() * 8
    }
}

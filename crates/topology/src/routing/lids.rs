//! Assigns LIDs to ports.
//!
//! A LID that a port has is kept as long as nothing contradicts it, so that a fabric that is routed again
//! does not renumber its hosts. Those without one get the lowest free ones, hosts first, those of a switch
//! side by side.

use crate::{Graph, Kind, NodeIx, PortIx};

/// The highest unicast LID (InfiniBand Architecture Specification, volume 1, 4.1.1).
pub const TOP: u16 = 0xBFFF;

/// No port.
const NOBODY: u32 = u32::MAX;

/// Why LIDs can't be given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LidsError {
    /// More ports than LIDs.
    #[error(
        "{ports} end ports with {} each need more than the {TOP} unicast LIDs: choose a lower LMC",
        crate::counted(*each, "LID")
    )]
    Full {
        /// End ports in all.
        ports: usize,
        /// LIDs a host's port.
        each: u32,
    },
    /// The field has three bits.
    #[error("an LMC of {0} is not possible: give 0 to 7")]
    Lmc(u8),
}

/// The ports and their LIDs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lids {
    /// One per port of the graph; 0 is none.
    base: Vec<u16>,
    /// One per LID, from 0 to the highest in use.
    port: Vec<u32>,
    lmc: u8,
    refused: Vec<PortIx>,
}

impl Lids {
    /// Gives every end port its LIDs: each switch one, each cabled port of a host or router 2 to the power of
    /// `lmc`. The LID of a port in `known` is kept, unless another port has it already or it is not a
    /// multiple of that power.
    ///
    /// # Errors
    /// See [`LidsError`].
    pub fn assign(graph: &Graph, lmc: u8, known: impl Fn(PortIx) -> Option<u16>) -> Result<Self, LidsError> {
        if lmc > 7 {
            return Err(LidsError::Lmc(lmc));
        }
        let ends = end_ports(graph);
        let mut lids = Self {
            base: vec![0; graph.port_total()],
            port: vec![NOBODY; usize::from(TOP) + 1],
            lmc,
            refused: Vec::new(),
        };
        let mut waiting = Vec::new();
        for end in &ends {
            match known(*end).filter(|lid| *lid != 0) {
                Some(lid) if lids.fits(graph, *end, lid) => lids.give(graph, *end, lid),
                Some(_) => {
                    lids.refused.push(*end);
                    waiting.push(*end);
                }
                None => waiting.push(*end),
            }
        }
        let mut next = 1 << lmc;
        let full = LidsError::Full { ports: ends.len(), each: 1 << lmc };
        for end in waiting {
            let step = lids.span(graph, end);
            next = u32::div_ceil(next, step) * step;
            while next <= u32::from(TOP) && !lids.fits(graph, end, next as u16) {
                next += step;
            }
            if next > u32::from(TOP) {
                return Err(full);
            }
            lids.give(graph, end, next as u16);
            next += step;
        }
        let top = lids.port.iter().rposition(|port| *port != NOBODY).unwrap_or(0);
        lids.port.truncate(top + 1);
        lids.port.shrink_to_fit();
        Ok(lids)
    }

    /// The LIDs that the graph's dump named, and free ones for ports that have none.
    ///
    /// # Errors
    /// See [`LidsError`].
    pub fn of_graph(graph: &Graph, lmc: u8) -> Result<Self, LidsError> {
        Self::assign(graph, lmc, |port| Some(graph.lid(port)))
    }

    /// The lowest LID of an end port; `None` if it has none (a switch has one for its port 0).
    #[must_use]
    pub fn base(&self, port: PortIx) -> Option<u16> {
        self.base.get(port.index()).copied().filter(|lid| *lid != 0)
    }

    /// All LIDs of an end port: one of a switch, 2 to the power of the LMC of a host.
    #[must_use]
    pub fn of_port(&self, graph: &Graph, port: PortIx) -> std::ops::Range<u16> {
        self.base(port).map_or(0..0, |base| base..base + self.span(graph, port) as u16)
    }

    /// Every end port that has LIDs, with the lowest of them, in rising order.
    pub fn ends(&self) -> impl Iterator<Item = (u16, PortIx)> + '_ {
        self.iter().filter(|(lid, port)| self.base(*port) == Some(*lid))
    }

    /// The LID of a switch.
    #[must_use]
    pub fn of_switch(&self, graph: &Graph, switch: NodeIx) -> Option<u16> {
        self.base(graph.port(switch, 0)?)
    }

    /// The port that has a LID.
    #[must_use]
    pub fn port(&self, lid: u16) -> Option<PortIx> {
        self.port.get(usize::from(lid)).filter(|port| **port != NOBODY).map(|port| PortIx(*port))
    }

    /// The highest LID in use.
    #[must_use]
    pub fn top(&self) -> u16 {
        (self.port.len() - 1) as u16
    }

    /// Ports of hosts have 2 to the power of this many LIDs.
    #[must_use]
    pub fn lmc(&self) -> u8 {
        self.lmc
    }

    /// End ports that could not keep the LID they had: it was another's, or not a multiple of 2 to the power
    /// of the LMC.
    #[must_use]
    pub fn refused(&self) -> &[PortIx] {
        &self.refused
    }

    /// Every LID in use with its port, in rising order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, PortIx)> + '_ {
        let used = self.port.iter().enumerate().filter(|(_, port)| **port != NOBODY);
        used.map(|(lid, port)| (lid as u16, PortIx(*port)))
    }

    /// Bytes in memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.base.capacity() * 2 + self.port.capacity() * 4
    }

    fn span(&self, graph: &Graph, end: PortIx) -> u32 {
        if graph.kind(graph.owner(end)) == Kind::Switch { 1 } else { 1 << self.lmc }
    }

    fn fits(&self, graph: &Graph, end: PortIx, lid: u16) -> bool {
        let (span, lid) = (self.span(graph, end), u32::from(lid));
        let last = lid + span - 1;
        lid.is_multiple_of(span)
            && last <= u32::from(TOP)
            && (lid..=last).all(|lid| self.port[lid as usize] == NOBODY)
    }

    fn give(&mut self, graph: &Graph, end: PortIx, lid: u16) {
        self.base[end.index()] = lid;
        let span = self.span(graph, end) as usize;
        self.port[usize::from(lid)..usize::from(lid) + span].fill(end.0);
    }
}

/// End ports in the order in which they get LIDs: hosts by their switches, hosts without a switch, switches.
fn end_ports(graph: &Graph) -> Vec<PortIx> {
    let switches: Vec<NodeIx> = graph.nodes_of(Kind::Switch).collect();
    let mut ends = Vec::with_capacity(graph.node_count());
    for switch in &switches {
        let far = graph.cabled(*switch).map(|(_, far)| far);
        ends.extend(far.filter(|far| graph.kind(graph.owner(*far)) != Kind::Switch));
    }
    for node in graph.nodes().filter(|node| graph.kind(*node) != Kind::Switch) {
        let alone = graph.cabled(node).filter(|(_, far)| graph.kind(graph.owner(*far)) != Kind::Switch);
        ends.extend(alone.map(|(near, _)| near));
    }
    ends.extend(switches.iter().filter_map(|switch| graph.port(*switch, 0)));
    ends
}

//! The routes between hosts by the tables.

use crate::routing::{NO_PATH, Tables, View};
use crate::{Graph, Kind, NodeIx, PortIx};

/// More cables than any route without a loop has.
const LONGEST: usize = 1 << 14;

/// A host's port that is wired to a switch and has a LID; no aggregation node's, whose traffic is not a
/// host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Host {
    pub(crate) end: PortIx,
    pub(crate) lid: u16,
    pub(crate) sw: usize,
    pub(crate) port: u8,
}

/// Hosts and tables by switches of the graph.
pub(crate) struct Paths<'a> {
    pub(crate) view: &'a View,
    /// The table of each switch; nothing if the tables lack the switch.
    pub(crate) tables: Vec<&'a [u8]>,
    pub(crate) hosts: Vec<Host>,
}

impl<'a> Paths<'a> {
    pub(crate) fn of(graph: &Graph, view: &'a View, tables: &'a Tables) -> Self {
        let table = |sw| tables.index_of(view.switch(sw)).map_or(&[][..], |sw| tables.table(sw));
        let mut hosts = Vec::new();
        let is_host = |node: &NodeIx| graph.kind(*node) != Kind::Switch && !graph.is_aggregation(*node);
        for node in graph.nodes().filter(is_host) {
            for end in graph.ports(node) {
                let lid = tables.lids().base(end);
                if let (Some(lid), Some((sw, port))) = (lid, view.attachment(graph, end)) {
                    hosts.push(Host { end, lid, sw, port });
                }
            }
        }
        Self { view, tables: (0..view.switch_count()).map(table).collect(), hosts }
    }

    /// Port by which a switch sends to a LID.
    #[inline]
    pub(crate) fn port(&self, sw: usize, lid: u16) -> u8 {
        self.tables[sw].get(usize::from(lid)).copied().unwrap_or(NO_PATH)
    }

    /// Writes down the cables (numbered by switch and port where they begin) from the switch of `from` to
    /// that of `to`. Nothing if the tables do not lead there.
    pub(crate) fn trace(&self, from: &Host, to: &Host, lid: u16, path: &mut Vec<u32>) -> Option<()> {
        path.clear();
        let mut sw = from.sw;
        while sw != to.sw {
            let port = self.port(sw, lid);
            let (there, _) = self.view.beyond(sw, port)?;
            path.push(self.view.channel(sw, port) as u32);
            sw = there;
            if path.len() > LONGEST.min(self.tables.len() + 1) {
                return None;
            }
        }
        (self.port(sw, lid) == to.port).then_some(())
    }
}

//! The forwarding tables of all switches.

use std::sync::Arc;

use super::lids::Lids;
use super::vls::VlAssignment;
use crate::NodeIx;

/// No route: the table entry of a LID that the switch can't reach.
pub const NO_PATH: u8 = 255;
/// LIDs in a block: what one management datagram writes (InfiniBand Architecture Specification, volume 1,
/// 14.2.5.10).
pub const BLOCK: usize = 64;

/// One table per switch, one byte per LID: the port it goes out by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    lids: Arc<Lids>,
    switches: Arc<[NodeIx]>,
    width: usize,
    ports: Vec<u8>,
    vls: VlAssignment,
}

/// An entry that is not the same in two sets of tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// Whose table.
    pub switch: NodeIx,
    /// Of which LID.
    pub lid: u16,
    /// The port it went out by, [`NO_PATH`] if there was none.
    pub before: u8,
    /// The port it goes out by, [`NO_PATH`] if there is none.
    pub after: u8,
}

impl Tables {
    /// Tables without a path.
    #[must_use]
    pub fn empty(lids: Arc<Lids>, switches: &[NodeIx]) -> Self {
        let width = (usize::from(lids.top()) + 1).next_multiple_of(BLOCK);
        let ports = vec![NO_PATH; width * switches.len()];
        Self { lids, switches: switches.into(), width, ports, vls: VlAssignment::default() }
    }

    /// The ports and their LIDs.
    #[must_use]
    pub fn lids(&self) -> &Arc<Lids> {
        &self.lids
    }

    /// The switches that have a table; a switch's index is its place here.
    #[must_use]
    pub fn switches(&self) -> &[NodeIx] {
        &self.switches
    }

    /// The index of a switch.
    #[must_use]
    pub fn index_of(&self, switch: NodeIx) -> Option<usize> {
        self.switches.binary_search(&switch).ok()
    }

    /// The port by which a switch sends to a LID; 0 is the switch itself.
    #[must_use]
    pub fn port(&self, switch: NodeIx, lid: u16) -> Option<u8> {
        let table = self.table(self.index_of(switch)?);
        table.get(usize::from(lid)).copied().filter(|port| *port != NO_PATH)
    }

    /// The table of a switch: a port for each LID from 0 on, in whole [`BLOCK`]s.
    #[must_use]
    pub fn table(&self, sw: usize) -> &[u8] {
        &self.ports[sw * self.width..(sw + 1) * self.width]
    }

    /// One [`BLOCK`] of a switch's table, as a datagram carries it.
    #[must_use]
    pub fn block(&self, sw: usize, block: usize) -> Option<&[u8]> {
        self.table(sw).get(block * BLOCK..(block + 1) * BLOCK)
    }

    /// LIDs a table, in whole [`BLOCK`]s.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// VLs of the paths.
    #[must_use]
    pub fn vls(&self) -> &VlAssignment {
        &self.vls
    }

    /// Sets the VLs of the paths.
    pub fn set_vls(&mut self, vls: VlAssignment) {
        self.vls = vls;
    }

    /// Sets one entry: for tables that are read from elsewhere. Does nothing for a switch or LID that is not
    /// there.
    pub fn set(&mut self, switch: NodeIx, lid: u16, port: u8) {
        if let Some(sw) = self.index_of(switch)
            && usize::from(lid) < self.width
        {
            self.ports[sw * self.width + usize::from(lid)] = port;
        }
    }

    /// All tables, to be filled: rows of [`width`](Self::width) bytes.
    pub(crate) fn rows_mut(&mut self) -> std::slice::ChunksMut<'_, u8> {
        self.ports.chunks_mut(self.width.max(1))
    }

    /// The bytes of all tables, switch by switch.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.ports
    }

    /// Every entry that is not the same in `after`, switch by switch. Of a switch or LID that only one of
    /// them has, the other's entries are [`NO_PATH`].
    pub fn changes<'a>(&'a self, after: &'a Self) -> impl Iterator<Item = Changed> + 'a {
        let mut all: Vec<NodeIx> = self.switches.iter().chain(after.switches.iter()).copied().collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().flat_map(move |switch| {
            let table = |of: &'a Self| of.index_of(switch).map_or(&[][..], |sw| of.table(sw));
            let (old, new) = (table(self), table(after));
            // Whole tables are mostly equal, which comparing memory finds out fastest.
            let lids = if old == new { 0 } else { old.len().max(new.len()) };
            let entry = |table: &[u8], lid| table.get(lid).copied().unwrap_or(NO_PATH);
            (0..lids).filter_map(move |lid| {
                let (before, after) = (entry(old, lid), entry(new, lid));
                (before != after).then_some(Changed { switch, lid: lid as u16, before, after })
            })
        })
    }

    /// The blocks that must be written to turn these tables into `after`: switch and block.
    pub fn blocks_to_write<'a>(&'a self, after: &'a Self) -> impl Iterator<Item = (NodeIx, usize)> + 'a {
        after.switches.iter().enumerate().flat_map(move |(sw, switch)| {
            let old = self.index_of(*switch).map_or(&[][..], |sw| self.table(sw));
            let new = after.table(sw);
            let blocks = if old == new { 0 } else { new.len() / BLOCK };
            (0..blocks).filter_map(move |block| {
                let at = block * BLOCK..(block + 1) * BLOCK;
                (old.get(at.clone()) != new.get(at)).then_some((*switch, block))
            })
        })
    }

    /// Bytes in memory, LIDs and VLs too.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.ports.capacity() + self.switches.len() * 4 + self.lids.memory() + self.vls.memory()
    }
}

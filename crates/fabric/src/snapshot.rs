//! The state of a fabric at one moment: its graph, port information, counters and tables.
//!
//! Live or from a file, every report runs on this. The file's form is in `docs/fabric.md`.

use std::collections::BTreeMap;

use mad::sm::PortInfo;
use mad::values::{PhysicalState, PortState};
use serde::{Deserialize, Serialize};
use topology::routing::Tables;
use topology::{Graph, Kind, LinkSpec, NodeIx, PortIx, Speed, Width};

use crate::counting::Counters;
use crate::vls::VlMaps;

mod file;
#[cfg(test)]
mod mutations;
#[cfg(test)]
mod tests;

pub use file::{OpenError, SCHEMA, open, read, write};

/// What a port reports of itself. Sets of widths are those of `PortInfo`; sets of speeds have a bit per
/// generation, slow ones first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortFacts {
    /// Logical state, as a number of `PortInfo`.
    pub state: u8,
    /// Physical state, as a number of `PortInfo`.
    pub physical: u8,
    /// Widths: supported, enabled, active.
    pub width: [u8; 3],
    /// Speeds: supported, enabled, active.
    pub speed: [u16; 3],
    /// Longest packet: supported, active; 1 is 256 bytes, each further one doubles.
    pub mtu: [u8; 2],
    /// Where its subnet manager is; 0 if it has none.
    pub sm_lid: u16,
    /// Data VLs in use; 0 where it is not known.
    #[serde(default, rename = "lanes")]
    pub vls: u8,
}

/// Widths by their bits, narrow ones first.
const WIDTHS: [(u8, u32); 5] = [(1, 1), (16, 2), (2, 4), (4, 8), (8, 12)];
/// Speeds by their bits, slow ones first.
const SPEEDS: [(u16, Speed); 8] = [
    (1, Speed::Sdr),
    (2, Speed::Ddr),
    (4, Speed::Qdr),
    (0x10, Speed::Fdr),
    (0x20, Speed::Edr),
    (0x40, Speed::Hdr),
    (0x80, Speed::Ndr),
    (0x100, Speed::Xdr),
];

/// One set of the three fields of speeds.
fn speeds(plain: u8, extended: u8, second: u8) -> u16 {
    u16::from(plain & 7) | u16::from(extended & 15) << 4 | u16::from(second & 1) << 8
}

impl PortFacts {
    /// Of a port's own words.
    #[must_use]
    pub fn of(info: &PortInfo) -> Self {
        let supported =
            speeds(info.speed_supported(), info.speed_ext_supported(), info.speed_ext2_supported());
        // A field of all ones is `whatever is supported`.
        let all = |enabled: u8, all: u8, supported: u8| if enabled == all { supported } else { enabled };
        let enabled = speeds(
            all(info.speed_enabled(), 15, info.speed_supported()),
            all(info.speed_ext_enabled(), 31, info.speed_ext_supported()),
            all(info.speed_ext2_enabled(), 7, info.speed_ext2_supported()),
        );
        let active = match (info.speed_ext2_active() & 1, info.speed_ext_active()) {
            (0, 0) => speeds(info.speed_active(), 0, 0),
            (0, extended) => speeds(0, extended, 0),
            (second, _) => speeds(0, 0, second),
        };
        Self {
            state: info.state().0,
            physical: info.physical_state().0,
            width: [
                info.width_supported(),
                all(info.width_enabled(), 255, info.width_supported()),
                info.width_active(),
            ],
            speed: [supported, enabled, active],
            mtu: [info.mtu_capacity(), info.neighbor_mtu()],
            sm_lid: info.sm_lid().0,
            vls: match info.operational_vls() {
                code @ 1..=4 => 1 << (code - 1),
                5 => 15,
                _ => 0,
            },
        }
    }

    /// Is the link there, electrically?
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.physical == PhysicalState::LINK_UP.0
    }

    /// May data pass?
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.state == PortState::ACTIVE.0
    }

    /// The logical state's name.
    #[must_use]
    pub fn state_word(&self) -> String {
        PortState(self.state).to_string()
    }

    /// The physical state's name.
    #[must_use]
    pub fn physical_word(&self) -> String {
        PhysicalState(self.physical).to_string()
    }
}

/// The widest of a set of widths.
#[must_use]
pub fn widest(set: u8) -> Width {
    let lanes = WIDTHS.iter().rev().find(|(bit, _)| set & bit != 0).map(|(_, lanes)| *lanes);
    lanes.and_then(Width::of_lanes).unwrap_or(Width::Unknown)
}

/// The fastest of a set of speeds.
#[must_use]
pub fn fastest(set: u16) -> Speed {
    SPEEDS.iter().rev().find(|(bit, _)| set & bit != 0).map_or(Speed::Unknown, |(_, speed)| *speed)
}

/// Something that could not be believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concern {
    /// It is about the fabric itself; else only about the words of a file that were skipped.
    pub grave: bool,
    /// The concern as a sentence.
    pub text: String,
}

/// A fabric at a moment.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Seconds since 1970; 0 where it is not known.
    pub taken: u64,
    /// Where it comes from, in words.
    pub source: String,
    /// Nodes, ports, cables.
    pub graph: Graph,
    /// By port; empty where nothing was asked.
    pub ports: Vec<Option<PortFacts>>,
    /// Counters, where they were read.
    pub counters: Option<BTreeMap<PortIx, Counters>>,
    /// Ports whose counters could not be read, and why.
    pub uncounted: Vec<(PortIx, String)>,
    /// The tables that are in the switches, where they were read.
    pub tables: Option<Tables>,
    /// VLs by level, where the tables have a cycle and the VLs decide about it.
    pub vl_maps: VlMaps,
    /// What does not fit.
    pub concerns: Vec<Concern>,
    /// Concerns that are not kept word by word.
    pub more_concerns: u64,
}

impl Snapshot {
    /// What a port reports of itself.
    #[must_use]
    pub fn port(&self, port: PortIx) -> Option<&PortFacts> {
        self.ports.get(port.index())?.as_ref()
    }

    /// Data VLs that every port between two switches has been set to (OperationalVLs), the least of them;
    /// nothing where no active port said so.
    #[must_use]
    pub fn operational_vls(&self) -> Option<u8> {
        let is_switch = |port: PortIx| self.graph.kind(self.graph.owner(port)) == Kind::Switch;
        let between = self.graph.links().filter(|(a, b)| is_switch(*a) && is_switch(*b));
        let facts = between.flat_map(|(a, b)| [a, b]).filter_map(|port| self.port(port));
        facts.filter(|facts| facts.is_active() && facts.vls > 0).map(|facts| facts.vls).min()
    }

    /// Width and speed of a cable: as its end reports, or else as the file gives them.
    #[must_use]
    pub fn rate(&self, port: PortIx) -> LinkSpec {
        self.graph.link(port).unwrap_or_default()
    }

    /// The tables by the nodes of another graph, whose switches are found by their GUIDs: for comparing them
    /// with that graph's.
    #[must_use]
    pub fn tables_on(&self, graph: &Graph) -> Option<Tables> {
        let tables = self.tables.as_ref()?;
        let lids = std::sync::Arc::new(crate::tables::lids(graph).ok()?);
        let switches: Vec<NodeIx> = graph.nodes_of(Kind::Switch).collect();
        let mut moved = Tables::empty(lids, &switches);
        for switch in switches {
            let mine = self.graph.node_by_guid(graph.node_guid(switch));
            let Some(row) = mine.and_then(|node| tables.index_of(node)) else { continue };
            for (lid, port) in tables.table(row).iter().enumerate() {
                moved.set(switch, lid as u16, *port);
            }
        }
        Some(moved)
    }

    /// A port as people find it: name and number.
    #[must_use]
    pub fn place(&self, port: PortIx) -> String {
        crate::names::place(&self.graph, port)
    }
}

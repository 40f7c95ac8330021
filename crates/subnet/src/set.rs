//! A Set that is sent: as a datagram, as a line of text, and in JSON.

use mad::header::{DATA_AT, Path, Smp};
use mad::sm::{
    LIDS_PER_BLOCK, LinearTable, MulticastTable, PartitionTable, PortInfo, SlToVlMap, SwitchInfo,
    VlArbitration, attribute,
};
use mad::values::{Method, PortState};
use mad::{Layout, Mad};
use serde_json::{Value, json};
use topology::routing::NO_PATH;
use topology::{Graph, Kind, NodeIx, PortIx};

use crate::keys::KeyBlock;
use crate::multicast::{FIRST_GROUP, GROUPS_PER_BLOCK, MulticastBlock};
use crate::wanted::mtu_bytes;

/// Entries of a block of a linear forwarding table.
pub type Block = [u8; LIDS_PER_BLOCK as usize];

/// One Set of subnet management.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    /// PortInfo of a port.
    Port(PortIx, PortInfo),
    /// SwitchInfo of a switch.
    Switch(NodeIx, SwitchInfo),
    /// A block of the linear forwarding table (LFT) of a switch.
    Table(NodeIx, u16, Block),
    /// A block of the partition table (P_Key table) of an end port.
    Keys(PortIx, u16, KeyBlock),
    /// A block of the multicast forwarding table (MFT) of a switch: which 16 ports, which 32 groups.
    Multicast(NodeIx, u8, u16, MulticastBlock),
    /// The map of service levels to VLs (SL-to-VL map) of a port: of a switch for packets that come in by the
    /// port of this number.
    Levels(PortIx, u8, SlToVlMap),
    /// A block of VL arbitration of a port: 1 and 2 of low priority, 3 and 4 of high priority.
    Arbitration(PortIx, u8, VlArbitration),
}

/// What a Set is about: by this its response is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Subject {
    /// PortInfo of a port.
    Port(PortIx),
    /// SwitchInfo of a switch.
    Switch(NodeIx),
    /// A block of an LFT.
    Table(NodeIx, u16),
    /// A block of a P_Key table.
    Keys(PortIx, u16),
    /// A block of an MFT: position and block.
    Multicast(NodeIx, u8, u16),
    /// An SL-to-VL map: port out and number of the port in.
    Levels(PortIx, u8),
    /// A block of VL arbitration.
    Arbitration(PortIx, u8),
    /// NodeInfo of the node behind a port.
    Behind(PortIx),
    /// SMInfo of the manager behind a port.
    Manager(PortIx),
}

impl Subject {
    /// The request that reads it. `path` leads to the node, of [`Behind`](Self::Behind) to the node behind.
    #[must_use]
    pub fn get(self, graph: &Graph, path: &Path) -> Mad {
        let (attribute, modifier) = match self {
            Self::Port(port) => (attribute::PORT_INFO, u32::from(graph.number(port))),
            Self::Switch(_) => (attribute::SWITCH_INFO, 0),
            Self::Table(_, block) => (attribute::LINEAR_TABLE, u32::from(block)),
            Self::Multicast(_, position, block) => {
                (attribute::MULTICAST_TABLE, u32::from(position) << 28 | u32::from(block))
            }
            // Of a switch the upper half names the port, here its own, 0.
            Self::Keys(_, block) => (attribute::PARTITION_TABLE, u32::from(block)),
            // Of a switch by both ports; hosts have one map a port, and are asked by it.
            Self::Levels(port, came) => {
                let is_switch = graph.kind(graph.owner(port)) == Kind::Switch;
                let modifier = u32::from(came) << 8 | u32::from(graph.number(port));
                (attribute::SL_TO_VL_MAP, if is_switch { modifier } else { 0 })
            }
            Self::Arbitration(port, block) => {
                let is_switch = graph.kind(graph.owner(port)) == Kind::Switch;
                let number = if is_switch { graph.number(port) } else { 0 };
                (attribute::VL_ARBITRATION, u32::from(block) << 16 | u32::from(number))
            }
            Self::Behind(_) => (attribute::NODE_INFO, 0),
            Self::Manager(_) => (attribute::SM_INFO, 0),
        };
        Smp::directed(Method::GET, attribute, modifier, path)
    }
}

impl Set {
    /// What it is about.
    #[must_use]
    pub fn subject(&self) -> Subject {
        match self {
            Self::Port(port, _) => Subject::Port(*port),
            Self::Switch(node, _) => Subject::Switch(*node),
            Self::Table(node, block, _) => Subject::Table(*node, *block),
            Self::Keys(port, block, _) => Subject::Keys(*port, *block),
            Self::Multicast(node, position, block, _) => Subject::Multicast(*node, *position, *block),
            Self::Levels(port, came, _) => Subject::Levels(*port, *came),
            Self::Arbitration(port, block, _) => Subject::Arbitration(*port, *block),
        }
    }

    /// The datagram, with the M_Key 0: the key is added where it is sent.
    #[must_use]
    pub fn datagram(&self, graph: &Graph, path: &Path) -> Mad {
        let mut mad = self.subject().get(graph, path);
        mad.header_mut().set_method(Method::SET);
        match self {
            Self::Port(_, info) => *mad.data_mut() = *info,
            Self::Switch(_, info) => *mad.data_mut() = *info,
            Self::Levels(_, _, map) => *mad.data_mut() = *map,
            Self::Arbitration(_, _, entries) => *mad.data_mut() = *entries,
            Self::Table(_, _, entries) => {
                mad.0[DATA_AT..DATA_AT + LinearTable::LEN].copy_from_slice(entries);
            }
            Self::Keys(_, _, keys) => {
                for (at, key) in keys.iter().enumerate() {
                    let _ = mad.data_mut::<PartitionTable>().set_key(at, *key);
                }
            }
            Self::Multicast(.., entries) => {
                for (at, ports) in entries.iter().enumerate() {
                    let _ = mad.data_mut::<MulticastTable>().set_ports(at, *ports);
                }
            }
        }
        mad
    }

    /// As a line of text: what is set, where, and to what.
    #[must_use]
    pub fn text(&self, graph: &Graph) -> String {
        match self {
            Self::Port(port, info) => {
                let mtu =
                    mtu_bytes(info.neighbor_mtu()).map_or_else(|| "?".to_owned(), |mtu| mtu.to_string());
                let state = match info.state() {
                    PortState::NO_CHANGE => "no change".to_owned(),
                    state => state.to_string(),
                };
                format!(
                    "Set PortInfo {}: LID {}, SMLID {}, LMC {}, MTU {mtu}, OperationalVLs code {}, M_Key {}, state {state}",
                    fabric::names::place(graph, *port),
                    info.lid(),
                    info.sm_lid(),
                    info.mask_control(),
                    info.operational_vls(),
                    // The key itself is a secret.
                    if info.management_key() == 0 { "none" } else { "set" },
                )
            }
            Self::Switch(node, info) => format!(
                "Set SwitchInfo {}: LinearFDBTop {}, PortStateChange {}",
                fabric::names::label(graph, *node),
                info.linear_top(),
                if info.state_change() { "cleared" } else { "no change" }
            ),
            Self::Table(node, block, entries) => {
                let first = usize::from(*block) * usize::from(LIDS_PER_BLOCK);
                let words = entries.iter().map(|port| match *port {
                    NO_PATH => "-".to_owned(),
                    port => port.to_string(),
                });
                format!(
                    "Set LinearForwardingTable {} block {block}: LIDs {first} to {}: {}",
                    fabric::names::label(graph, *node),
                    first + entries.len() - 1,
                    words.collect::<Vec<_>>().join(" ")
                )
            }
            Self::Keys(port, block, keys) => {
                let keys: Vec<String> =
                    keys.iter().filter(|key| **key != 0).map(|key| format!("{key:#06x}")).collect();
                let place = fabric::names::place(graph, *port);
                format!("Set P_KeyTable {place} block {block}: {}", keys.join(" "))
            }
            Self::Levels(port, came, map) => {
                let place = fabric::names::place(graph, *port);
                let vls: Vec<String> = levels(map).iter().map(u8::to_string).collect();
                format!("Set SLtoVLMappingTable {place} from port {came}: {}", vls.join(" "))
            }
            Self::Arbitration(port, block, entries) => {
                let place = fabric::names::place(graph, *port);
                let used = turns(entries).into_iter().filter(|(_, weight)| *weight > 0);
                let words: Vec<String> = used.map(|(vl, weight)| format!("{vl}:{weight}")).collect();
                format!("Set VLArbitrationTable {place} block {block}: {}", words.join(" "))
            }
            Self::Multicast(node, position, block, entries) => {
                let first = FIRST_GROUP + block * GROUPS_PER_BLOCK;
                let used = entries.iter().filter(|ports| **ports != 0).count();
                format!(
                    "Set MulticastForwardingTable {} position {position} block {block}: MLIDs {first:#x} to {:#x}: {used} with ports",
                    fabric::names::label(graph, *node),
                    first + GROUPS_PER_BLOCK - 1,
                )
            }
        }
    }

    /// In JSON.
    #[must_use]
    pub fn json(&self, graph: &Graph) -> Value {
        let guid = |node| format!("{:#018x}", graph.node_guid(node));
        match self {
            Self::Port(port, info) => json!({
                "set": "PortInfo",
                "node": fabric::names::label(graph, graph.owner(*port)),
                "guid": guid(graph.owner(*port)),
                "port": graph.number(*port),
                "lid": info.lid().0,
                "sm_lid": info.sm_lid().0,
                "lmc": info.mask_control(),
                "mtu": mtu_bytes(info.neighbor_mtu()),
                "operational_vls_code": info.operational_vls(),
                "has_m_key": info.management_key() != 0,
                "m_key_protection": info.key_protection(),
                "m_key_lease_seconds": info.key_lease(),
                "state": (info.state() != PortState::NO_CHANGE).then(|| info.state().to_string()),
            }),
            Self::Switch(node, info) => json!({
                "set": "SwitchInfo",
                "node": fabric::names::label(graph, *node),
                "guid": guid(*node),
                "linear_fdb_top": info.linear_top(),
                "clears_port_state_change": info.state_change(),
            }),
            Self::Table(node, block, entries) => json!({
                "set": "LinearForwardingTable",
                "node": fabric::names::label(graph, *node),
                "guid": guid(*node),
                "block": block,
                "ports": entries.iter().map(|port| (*port != NO_PATH).then_some(*port)).collect::<Vec<_>>(),
            }),
            Self::Keys(port, block, keys) => json!({
                "set": "P_KeyTable",
                "node": fabric::names::label(graph, graph.owner(*port)),
                "guid": guid(graph.owner(*port)),
                "port": graph.number(*port),
                "block": block,
                "keys": keys,
            }),
            Self::Levels(port, came, map) => json!({
                "set": "SLtoVLMappingTable",
                "node": fabric::names::label(graph, graph.owner(*port)),
                "guid": guid(graph.owner(*port)),
                "port": graph.number(*port),
                "port_in": came,
                "vls": levels(map),
            }),
            Self::Arbitration(port, block, entries) => json!({
                "set": "VLArbitrationTable",
                "node": fabric::names::label(graph, graph.owner(*port)),
                "guid": guid(graph.owner(*port)),
                "port": graph.number(*port),
                "block": block,
                "turns": turns(entries),
            }),
            Self::Multicast(node, position, block, entries) => json!({
                "set": "MulticastForwardingTable",
                "node": fabric::names::label(graph, *node),
                "guid": guid(*node),
                "position": position,
                "block": block,
                "port_masks": entries,
            }),
        }
    }
}

/// The VL of each level.
fn levels(map: &SlToVlMap) -> Vec<u8> {
    (0..crate::qos::LEVELS).filter_map(|level| map.vl(level)).collect()
}

/// VLs and their weights.
fn turns(block: &VlArbitration) -> Vec<(u8, u8)> {
    let entries = (0..crate::qos::ENTRIES_PER_BLOCK).filter_map(|at| block.entry(at));
    entries.map(|entry| ((entry >> 8) as u8 & 0xf, entry as u8)).collect()
}

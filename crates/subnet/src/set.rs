//! A Set that is sent: as a datagram, as a line of text, and in JSON.

use mad::header::{DATA_AT, Path, Smp};
use mad::sm::{LIDS_PER_BLOCK, LinearTable, MulticastTable, PartitionTable, PortInfo, SwitchInfo, attribute};
use mad::values::{Method, PortState};
use mad::{Layout, Mad};
use serde_json::{Value, json};
use topology::routing::NO_PATH;
use topology::{Graph, NodeIx, PortIx};

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
        }
    }

    /// The datagram, with the M_Key 0.
    #[must_use]
    pub fn datagram(&self, graph: &Graph, path: &Path) -> Mad {
        let mut mad = self.subject().get(graph, path);
        mad.header_mut().set_method(Method::SET);
        match self {
            Self::Port(_, info) => *mad.data_mut() = *info,
            Self::Switch(_, info) => *mad.data_mut() = *info,
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
                    info.management_key(),
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
                "m_key": info.management_key(),
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

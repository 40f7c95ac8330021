//! A simulated fabric before a subnet manager runs: links trained, no LIDs, no forwarding tables.

use std::collections::HashMap;

use mad::sm::{NodeDescription, NodeInfo, PortInfo, SwitchInfo, capability};
use mad::values::{Gid, Guid, NodeKind, PhysicalState, PortState};
use seeded_random::SplitMix64;
use topology::{Graph, Kind, LinkSpec, NodeIx, PortIx, Speed, Width};

use super::{
    ARBITRATION_CAPACITY, Agents, Counters, GUID_CAPACITY, LINEAR_CAPACITY, MULTICAST_CAPACITY,
    PARTITION_CAPACITY, Port, SwitchState,
};

/// GUIDs for nodes that have none: so many are free between two of them as a node may have ports.
const FIRST_GUID: u64 = 0x0002_c900_0000_0000;
const GUID_STEP: u64 = 0x100;

impl Agents {
    /// The fabric of a graph. Nodes without a GUID are given one.
    #[must_use]
    pub fn new(graph: Graph) -> Self {
        let nodes = graph
            .nodes()
            .map(|node| (node_info(&graph, node), NodeDescription::new(graph.name(node))))
            .collect();
        let ports = (0..graph.port_total())
            .map(|port| Port {
                info: port_info(&graph, PortIx(port as u32)),
                counters: Counters::default(),
                pulled: false,
                loses: 0,
                reregistered: 0,
                harm: super::Harm::default(),
            })
            .collect();
        let switches = graph
            .nodes_of(Kind::Switch)
            .map(|node| (node, SwitchState { info: switch_info(), ..SwitchState::default() }));
        let switches = switches.collect();
        Self {
            nodes,
            ports,
            switches,
            tables: HashMap::new(),
            traps: Vec::new(),
            extended_errors: false,
            obedience: HashMap::new(),
            guids: HashMap::new(),
            passed: super::Passed::default(),
            violated: HashMap::new(),
            clock: std::time::Duration::ZERO,
            transaction: 0,
            random: SplitMix64::new(1),
            graph,
        }
    }

    /// A number for a datagram that an agent sends of itself.
    pub(crate) fn next_transaction(&mut self) -> u64 {
        self.transaction += 1;
        // Not one that a program's datagrams have: the upper half is its agent's.
        0xffff_0000_0000_0000 | self.transaction
    }
}

fn node_info(graph: &Graph, node: NodeIx) -> NodeInfo {
    let guid = match graph.node_guid(node) {
        0 => FIRST_GUID + GUID_STEP * u64::from(node.0),
        known => known,
    };
    let system = if graph.system_guid(node) == 0 { guid } else { graph.system_guid(node) };
    let (kind, device) = match graph.kind(node) {
        Kind::Host => (NodeKind::HOST, 0x1013),
        Kind::Switch => (NodeKind::SWITCH, 0xcb20),
        Kind::Router => (NodeKind::ROUTER, 0xcb20),
    };
    let or = |known: u32, otherwise: u32| if known == 0 { otherwise } else { known };
    let mut info = NodeInfo::default();
    info.set_base_version(1)
        .set_class_version(1)
        .set_kind(kind)
        .set_ports(graph.port_count(node))
        .set_system_guid(Guid(system))
        .set_node_guid(Guid(guid))
        .set_port_guid(Guid(guid))
        .set_partition_capacity(PARTITION_CAPACITY)
        .set_device(or(graph.device(node), device) as u16)
        .set_vendor(or(graph.vendor(node), 0x2c9));
    info
}

fn switch_info() -> SwitchInfo {
    let mut info = SwitchInfo::default();
    info.set_linear_capacity(LINEAR_CAPACITY)
        .set_multicast_capacity(MULTICAST_CAPACITY)
        .set_life_time(16)
        .set_partition_enforcement(PARTITION_CAPACITY)
        .set_inbound_enforcement(true)
        .set_outbound_enforcement(true)
        .set_enhanced_port0(true);
    info
}

fn port_info(graph: &Graph, port: PortIx) -> PortInfo {
    let number = graph.number(port);
    let switch = graph.kind(graph.owner(port)) == Kind::Switch;
    let mut info = PortInfo::default();
    let mut can =
        capability::TRAP | capability::NOTICE | capability::SL_TO_VL_MAP | capability::DESCRIPTION_CHANGE;
    can |= capability::EXTENDED_SPEEDS;
    if !switch {
        can |= capability::CLIENT_REREGISTER;
    }
    info.set_gid_prefix(Gid::DEFAULT_PREFIX)
        .set_capability_mask(can)
        .set_local_port(number)
        .set_key_lease(0)
        .set_down_default(2)
        .set_neighbor_mtu(5)
        .set_mtu_capacity(5)
        .set_vl_capacity(4)
        .set_operational_vls(4)
        .set_arbitration_high_capacity(ARBITRATION_CAPACITY)
        .set_arbitration_low_capacity(ARBITRATION_CAPACITY)
        .set_stall_count(7)
        .set_head_of_queue_life(16)
        .set_guid_capacity(GUID_CAPACITY)
        .set_subnet_timeout(18)
        .set_response_time(16)
        .set_local_physical_errors(8)
        .set_overrun_errors(8);
    set_link(&mut info, graph.link(port).unwrap_or(LinkSpec::EDR4X));
    if switch && number == 0 {
        // A switch's own port has no link, and so is always ready.
        info.set_state(PortState::ACTIVE).set_physical_state(PhysicalState::LINK_UP);
    } else if graph.peer(port).is_some() {
        info.set_state(PortState::INITIALIZE).set_physical_state(PhysicalState::LINK_UP);
    } else {
        info.set_state(PortState::DOWN).set_physical_state(PhysicalState::POLLING);
    }
    info
}

/// Width and speed from the fields. Unknown ones become 4 lanes of 25 Gb/s.
fn set_link(info: &mut PortInfo, link: LinkSpec) {
    let (width, widths) = match link.width {
        Width::X1 => (1, 1),
        Width::X2 => (16, 1 | 16),
        Width::X8 => (4, 1 | 2 | 4),
        Width::X12 => (8, 1 | 2 | 8),
        Width::X3 | Width::X4 | Width::Unknown => (2, 1 | 2),
    };
    info.set_width_supported(widths).set_width_enabled(widths).set_width_active(width);
    let (plain, extended, further) = match link.speed {
        Speed::Sdr => (1, 0, 0),
        Speed::Ddr => (2, 0, 0),
        Speed::Qdr | Speed::Fdr10 => (4, 0, 0),
        Speed::Fdr | Speed::Opa12 => (4, 1, 0),
        Speed::Edr | Speed::Opa25 | Speed::Unknown => (4, 2, 0),
        Speed::Hdr => (4, 4, 0),
        Speed::Ndr => (4, 8, 0),
        Speed::Xdr => (4, 8, 1),
    };
    // All speeds up to the link's own.
    let up_to = |speed: u8| if speed == 0 { 0 } else { speed * 2 - 1 };
    info.set_speed_supported(up_to(plain)).set_speed_enabled(up_to(plain)).set_speed_active(plain);
    info.set_speed_ext_supported(up_to(extended))
        .set_speed_ext_enabled(up_to(extended))
        .set_speed_ext_active(extended);
    info.set_speed_ext2_supported(further).set_speed_ext2_enabled(further).set_speed_ext2_active(further);
}

//! Attributes of subnet management.

use crate::values::{Guid, Lid, NodeKind, PhysicalState, PortState, SmState};

/// Numbers of the attributes.
pub mod attribute {
    /// [`Notice`](crate::notice::Notice).
    pub const NOTICE: u16 = 0x02;
    /// [`NodeDescription`](super::NodeDescription).
    pub const NODE_DESCRIPTION: u16 = 0x10;
    /// [`NodeInfo`](super::NodeInfo).
    pub const NODE_INFO: u16 = 0x11;
    /// [`SwitchInfo`](super::SwitchInfo).
    pub const SWITCH_INFO: u16 = 0x12;
    /// [`GuidInfo`](super::GuidInfo); the modifier is the block.
    pub const GUID_INFO: u16 = 0x14;
    /// [`PortInfo`](super::PortInfo); the modifier is the port.
    pub const PORT_INFO: u16 = 0x15;
    /// [`PartitionTable`](super::PartitionTable); the modifier is port and block.
    pub const PARTITION_TABLE: u16 = 0x16;
    /// [`SlToVlMap`](super::SlToVlMap); the modifier is port in and port out.
    pub const SL_TO_VL_MAP: u16 = 0x17;
    /// [`VlArbitration`](super::VlArbitration); the modifier is block and port.
    pub const VL_ARBITRATION: u16 = 0x18;
    /// [`LinearTable`](super::LinearTable); the modifier is the block.
    pub const LINEAR_TABLE: u16 = 0x19;
    /// [`RandomTable`](super::RandomTable); the modifier is the block.
    pub const RANDOM_TABLE: u16 = 0x1a;
    /// [`MulticastTable`](super::MulticastTable); the modifier is position and block.
    pub const MULTICAST_TABLE: u16 = 0x1b;
    /// [`SmInfo`](super::SmInfo).
    pub const SM_INFO: u16 = 0x20;
    /// [`VendorDiagnostics`](super::VendorDiagnostics).
    pub const VENDOR_DIAGNOSTICS: u16 = 0x30;
    /// [`LedInfo`](super::LedInfo).
    pub const LED_INFO: u16 = 0x31;
    /// [`PortInfoExtended`](super::PortInfoExtended).
    pub const PORT_INFO_EXTENDED: u16 = 0x33;
    /// [`VendorPortInfo`](super::VendorPortInfo).
    pub const VENDOR_PORT_INFO: u16 = 0xff90;
}

/// LIDs in a block of a linear table.
pub const LIDS_PER_BLOCK: u16 = 64;
/// Multicast LIDs in a block of a multicast table.
pub const GROUPS_PER_BLOCK: u16 = 32;
/// Partition keys in a block.
pub const PARTITIONS_PER_BLOCK: u16 = 32;

/// Bits of [`PortInfo::capability_mask`].
pub mod capability {
    /// A subnet manager runs behind this port.
    pub const IS_SM: u32 = 1 << 1;
    /// Sends notices.
    pub const NOTICE: u32 = 1 << 2;
    /// Sends traps.
    pub const TRAP: u32 = 1 << 3;
    /// Can map service levels to VLs.
    pub const SL_TO_VL_MAP: u32 = 1 << 6;
    /// Knows the extended speeds (14 Gb/s a lane and up).
    pub const EXTENDED_SPEEDS: u32 = 1 << 14;
    /// [`PortInfo::capability_mask2`](super::PortInfo::capability_mask2) has further bits.
    pub const MASK2: u32 = 1 << 15;
    /// Sends a trap when its description changes.
    pub const DESCRIPTION_CHANGE: u32 = 1 << 20;
    /// Measures the latency of its link.
    pub const ROUND_TRIP: u32 = 1 << 24;
    /// Tells its clients to register again when a manager asks for it (ClientReregister).
    pub const CLIENT_REREGISTER: u32 = 1 << 25;
}

layout! {
    /// The NodeDescription.
    struct NodeDescription: 64 {
        @bytes /// UTF-8, to the first zero.
        text, set_text = 0 + 64;
    }

    /// NodeInfo: the kind of a node, and the port by which the request came in.
    struct NodeInfo: 40 {
        /// Base version that it speaks.
        base_version, set_base_version: u8 = 0 + 8;
        /// Class version that it speaks.
        class_version, set_class_version: u8 = 8 + 8;
        /// Host, switch or router.
        kind, set_kind: NodeKind = 16 + 8;
        /// Physical ports; a switch's port 0 is not counted.
        ports, set_ports: u8 = 24 + 8;
        /// Of the chassis or machine.
        system_guid, set_system_guid: Guid = 32 + 64;
        /// Of the node.
        node_guid, set_node_guid: Guid = 96 + 64;
        /// Of the port that was asked; a switch has one for all.
        port_guid, set_port_guid: Guid = 160 + 64;
        /// Partition keys that it can hold.
        partition_capacity, set_partition_capacity: u16 = 224 + 16;
        /// The device ID, assigned by the vendor.
        device, set_device: u16 = 240 + 16;
        /// The revision of the product.
        revision, set_revision: u32 = 256 + 32;
        /// Port by which the request came in.
        local_port, set_local_port: u8 = 288 + 8;
        /// The vendor ID.
        vendor, set_vendor: u32 = 296 + 24;
    }

    /// SwitchInfo: capacities of a switch, and how far its tables are used.
    struct SwitchInfo: 20 {
        /// Entries of the linear table.
        linear_capacity, set_linear_capacity: u16 = 0 + 16;
        /// Entries of the random table.
        random_capacity, set_random_capacity: u16 = 16 + 16;
        /// Entries of the multicast table.
        multicast_capacity, set_multicast_capacity: u16 = 32 + 16;
        /// Last LID of the linear table that is valid.
        linear_top, set_linear_top: u16 = 48 + 16;
        /// For LIDs that a random table lacks.
        default_port, set_default_port: u8 = 64 + 8;
        /// For groups that came in elsewhere.
        default_multicast_primary, set_default_multicast_primary: u8 = 72 + 8;
        /// For groups that came in by the primary port.
        default_multicast_other, set_default_multicast_other: u8 = 80 + 8;
        /// How long a packet may stay: 4.096 µs times two to this power; 20 and up is forever.
        life_time, set_life_time: u8 = 88 + 5;
        /// A port changed its state since this was last set.
        state_change, set_state_change: bool = 93 + 1;
        /// Can several SL-to-VL maps be set at once?
        optimized_vl_map, set_optimized_vl_map: u8 = 94 + 2;
        /// LIDs that a port may have in a random table.
        lids_per_port, set_lids_per_port: u16 = 96 + 16;
        /// Partition keys by which a port can filter.
        partition_enforcement, set_partition_enforcement: u16 = 112 + 16;
        /// Whether inbound packets are filtered by partition.
        inbound_enforcement, set_inbound_enforcement: bool = 128 + 1;
        /// Whether outbound packets are filtered by partition.
        outbound_enforcement, set_outbound_enforcement: bool = 129 + 1;
        /// Whether inbound raw packets are dropped.
        filter_raw_inbound, set_filter_raw_inbound: bool = 130 + 1;
        /// Whether outbound raw packets are dropped.
        filter_raw_outbound, set_filter_raw_outbound: bool = 131 + 1;
        /// Its port 0 is like a host's.
        enhanced_port0, set_enhanced_port0: bool = 132 + 1;
        /// Last multicast LID of the table that is valid.
        multicast_top, set_multicast_top: u16 = 144 + 16;
    }

    /// Further GUIDs of a port, eight a block.
    struct GuidInfo: 64 {
        @row /// A GUID; the first of the first block is the port's own.
        guid, set_guid: Guid = 0 + 64 * 8;
    }

    /// A port and its link.
    struct PortInfo: 64 {
        /// M_Key: the management key.
        management_key, set_management_key: u64 = 0 + 64;
        /// Prefix of the subnet.
        gid_prefix, set_gid_prefix: u64 = 64 + 64;
        /// The LID, or the first of several.
        lid, set_lid: Lid = 128 + 16;
        /// The LID of its subnet manager.
        sm_lid, set_sm_lid: Lid = 144 + 16;
        /// What it can do: [`capability`].
        capability_mask, set_capability_mask: u32 = 160 + 32;
        /// The result of the self-test.
        diagnostic_code, set_diagnostic_code: u16 = 192 + 16;
        /// How long a key protects without being renewed, in seconds.
        key_lease, set_key_lease: u16 = 208 + 16;
        /// Port by which the request came in.
        local_port, set_local_port: u8 = 224 + 8;
        /// Enabled widths: a set of 1, 2 (4 lanes), 4 (8), 8 (12), 16 (2).
        width_enabled, set_width_enabled: u8 = 232 + 8;
        /// Supported widths.
        width_supported, set_width_supported: u8 = 240 + 8;
        /// The width of the link: one of the set.
        width_active, set_width_active: u8 = 248 + 8;
        /// Supported speeds: a set of 1 (2.5 Gb/s a lane), 2 (5), 4 (10).
        speed_supported, set_speed_supported: u8 = 256 + 4;
        /// Logical state.
        state, set_state: PortState = 260 + 4;
        /// Physical state.
        physical_state, set_physical_state: PhysicalState = 264 + 4;
        /// What it does when the link goes down: 1 sleep, 2 look for a partner.
        down_default, set_down_default: u8 = 268 + 4;
        /// M_Key protection: what is permitted without the key.
        key_protection, set_key_protection: u8 = 272 + 2;
        /// LMC: the port has two to this power LIDs.
        mask_control, set_mask_control: u8 = 277 + 3;
        /// The speed of the link, where it is no extended one.
        speed_active, set_speed_active: u8 = 280 + 4;
        /// Enabled speeds.
        speed_enabled, set_speed_enabled: u8 = 284 + 4;
        /// NeighborMTU: the MTU of the link; 1 is 256 bytes, each further step doubles.
        neighbor_mtu, set_neighbor_mtu: u8 = 288 + 4;
        /// Service level towards the subnet manager.
        sm_service_level, set_sm_service_level: u8 = 292 + 4;
        /// VLCap, the supported VLs: 1, 2 (two), 3 (four), 4 (eight), 5 (fifteen).
        vl_capacity, set_vl_capacity: u8 = 296 + 4;
        /// InitType: what is to be kept over an initialisation.
        init_type, set_init_type: u8 = 300 + 4;
        /// VLHighLimit: how much of high priority may go before low priority.
        vl_high_limit, set_vl_high_limit: u8 = 304 + 8;
        /// Entries of its table of high priority.
        arbitration_high_capacity, set_arbitration_high_capacity: u8 = 312 + 8;
        /// Entries of its table of low priority.
        arbitration_low_capacity, set_arbitration_low_capacity: u8 = 320 + 8;
        /// What was kept.
        init_type_reply, set_init_type_reply: u8 = 328 + 4;
        /// MTUCap: the largest supported MTU.
        mtu_capacity, set_mtu_capacity: u8 = 332 + 4;
        /// VLStallCount: packets lost at the head of the queue before a VL stalls.
        stall_count, set_stall_count: u8 = 336 + 3;
        /// How long a packet may stay at the head of the queue: 4.096 µs times two to this power.
        head_of_queue_life, set_head_of_queue_life: u8 = 339 + 5;
        /// OperationalVLs: the VLs in use, in the coding of VLCap.
        operational_vls, set_operational_vls: u8 = 344 + 4;
        /// Filters by partition what comes in.
        inbound_enforcement, set_inbound_enforcement: bool = 348 + 1;
        /// Filters by partition what goes out.
        outbound_enforcement, set_outbound_enforcement: bool = 349 + 1;
        /// Drops raw packets that come in.
        filter_raw_inbound, set_filter_raw_inbound: bool = 350 + 1;
        /// Drops raw packets that go out.
        filter_raw_outbound, set_filter_raw_outbound: bool = 351 + 1;
        /// Datagrams with a wrong management key.
        management_key_violations, set_management_key_violations: u16 = 352 + 16;
        /// Packets with a wrong partition key.
        partition_key_violations, set_partition_key_violations: u16 = 368 + 16;
        /// Packets with a wrong queue key.
        queue_key_violations, set_queue_key_violations: u16 = 384 + 16;
        /// GUIDs that it can have.
        guid_capacity, set_guid_capacity: u8 = 400 + 8;
        /// ClientReregister: its clients have to register again.
        client_reregister, set_client_reregister: bool = 408 + 1;
        /// A bit mask of the multicast traps that are suppressed.
        multicast_trap_suppression, set_multicast_trap_suppression: u8 = 409 + 2;
        /// Longest path through the subnet: 4.096 µs times two to this power.
        subnet_timeout, set_subnet_timeout: u8 = 411 + 5;
        /// Longest time until a response: 4.096 µs times two to this power.
        response_time, set_response_time: u8 = 419 + 5;
        /// Errors before a link is found faulty.
        local_physical_errors, set_local_physical_errors: u8 = 424 + 4;
        /// Overruns before a link is found faulty.
        overrun_errors, set_overrun_errors: u8 = 428 + 4;
        /// Advice on credits.
        max_credit_hint, set_max_credit_hint: u16 = 432 + 16;
        /// The link's speed, second set of extended ones: 1 is 200 Gb/s a lane.
        speed_ext2_active, set_speed_ext2_active: u8 = 449 + 2;
        /// Second set of extended speeds that it can.
        speed_ext2_supported, set_speed_ext2_supported: u8 = 451 + 2;
        /// Second set of extended speeds that are allowed.
        speed_ext2_enabled, set_speed_ext2_enabled: u8 = 453 + 3;
        /// Latency of the link there and back, in units of 4 ns.
        round_trip, set_round_trip: u32 = 456 + 24;
        /// What else it can do.
        capability_mask2, set_capability_mask2: u16 = 480 + 16;
        /// The link's speed, where it is an extended one: 1 (14.0625 Gb/s a lane), 2 (25.78125), 4 (53.125),
        /// 8 (106.25).
        speed_ext_active, set_speed_ext_active: u8 = 496 + 4;
        /// Extended speeds that it can.
        speed_ext_supported, set_speed_ext_supported: u8 = 500 + 4;
        /// Extended speeds that are allowed.
        speed_ext_enabled, set_speed_ext_enabled: u8 = 507 + 5;
    }

    /// Error correction of a port.
    struct PortInfoExtended: 64 {
        /// A bit mask of the further fields that are valid.
        capability_mask, set_capability_mask: u32 = 0 + 32;
        /// The correction that is used.
        fec_active, set_fec_active: u16 = 32 + 16;
        /// Supported error correction at 14 Gb/s a lane.
        fdr_fec_supported, set_fdr_fec_supported: u16 = 48 + 16;
        /// Enabled error correction at 14 Gb/s a lane.
        fdr_fec_enabled, set_fdr_fec_enabled: u16 = 64 + 16;
        /// Supported error correction at 25 Gb/s a lane.
        edr_fec_supported, set_edr_fec_supported: u16 = 80 + 16;
        /// Enabled error correction at 25 Gb/s a lane.
        edr_fec_enabled, set_edr_fec_enabled: u16 = 96 + 16;
        /// Supported error correction at 50 Gb/s a lane.
        hdr_fec_supported, set_hdr_fec_supported: u16 = 112 + 16;
        /// Enabled error correction at 50 Gb/s a lane.
        hdr_fec_enabled, set_hdr_fec_enabled: u16 = 128 + 16;
        /// Supported error correction at 100 Gb/s a lane.
        ndr_fec_supported, set_ndr_fec_supported: u16 = 144 + 16;
        /// Enabled error correction at 100 Gb/s a lane.
        ndr_fec_enabled, set_ndr_fec_enabled: u16 = 160 + 16;
    }

    /// Partition keys of a port, 32 a block.
    struct PartitionTable: 64 {
        @row /// Key; the first bit means full member.
        key, set_key: u16 = 0 + 16 * 32;
    }

    /// The VL of each service level.
    struct SlToVlMap: 8 {
        @row /// The VL of a service level.
        vl, set_vl: u8 = 0 + 4 * 16;
    }

    /// VL arbitration: 32 entries of a table of one priority.
    struct VlArbitration: 64 {
        @row /// VL and weight: the VL in bits 8 to 11, the weight in units of 64 bytes in the low 8.
        entry, set_entry: u16 = 0 + 16 * 32;
    }

    /// Ports of 64 LIDs in a row.
    struct LinearTable: 64 {
        @row /// Port to leave by; 255 is none.
        port, set_port: u8 = 0 + 8 * 64;
    }

    /// An entry of a random table.
    struct RandomEntry: 4 {
        /// LID, or the first of several.
        lid, set_lid: Lid = 0 + 16;
        /// Is the entry used?
        valid, set_valid: bool = 16 + 1;
        /// Two to this power LIDs.
        mask_control, set_mask_control: u8 = 17 + 3;
        /// Port to leave by.
        port, set_port: u8 = 24 + 8;
    }

    /// 16 entries of a random table.
    struct RandomTable: 64 {
        @row /// The bits of a [`RandomEntry`].
        entry, set_entry: u32 = 0 + 32 * 16;
    }

    /// 16 ports of 32 groups in a row.
    struct MulticastTable: 64 {
        @row /// Set of ports; which sixteen is in the modifier.
        ports, set_ports: u16 = 0 + 16 * 32;
    }

    /// What a subnet manager reports of itself.
    struct SmInfo: 24 {
        /// GUID of its port.
        guid, set_guid: Guid = 0 + 64;
        /// Key by which managers trust each other.
        key, set_key: u64 = 64 + 64;
        /// Counts up while it lives.
        activity, set_activity: u32 = 128 + 32;
        /// Highest is master; the lowest GUID among equals.
        priority, set_priority: u8 = 160 + 4;
        /// The state of the manager.
        state, set_state: SmState = 164 + 4;
    }

    /// Diagnostic data of a vendor.
    struct VendorDiagnostics: 64 {
        /// Where it continues; zero is the end.
        next, set_next: u16 = 0 + 16;
        @bytes /// The vendor's.
        data, set_data = 4 + 60;
    }

    /// The beacon LED of a port.
    struct LedInfo: 4 {
        /// Is it on?
        on, set_on: bool = 0 + 1;
    }

    /// A vendor's additions to the speeds of a port.
    struct VendorPortInfo: 64 {
        /// A bit mask of the fields that are to be set.
        change_enable, set_change_enable: u8 = 24 + 8;
        /// 1: 10.3125 Gb/s a lane (FDR10).
        speed_supported, set_speed_supported: u8 = 56 + 8;
        /// 1: 10.3125 Gb/s a lane (FDR10).
        speed_enabled, set_speed_enabled: u8 = 88 + 8;
        /// 1: 10.3125 Gb/s a lane (FDR10).
        speed_active, set_speed_active: u8 = 120 + 8;
    }
}

impl NodeDescription {
    /// Of a text, which is cut at 64 bytes between two characters.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut end = text.len().min(64);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = [0; 64];
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        let mut description = Self::default();
        description.set_text(&bytes);
        description
    }

    /// The text to the first zero; what is no UTF-8, and what may not go to a terminal ([`crate::text`]), is
    /// replaced.
    #[must_use]
    pub fn to_text(&self) -> String {
        let bytes = self.text().split(|byte| *byte == 0).next().unwrap_or_default();
        crate::text::plain(&String::from_utf8_lossy(bytes))
    }
}

impl PortInfo {
    /// Speed of the link in Gb/s a lane by its nominal value (2.5, 5, 10, 14, 25, 50, 100, 200); `None` for
    /// what is not known.
    #[must_use]
    pub fn speed_gbps(&self) -> Option<f32> {
        let extended = self.capability_mask() & capability::EXTENDED_SPEEDS != 0;
        if extended && self.speed_ext2_active() != 0 {
            return (self.speed_ext2_active() == 1).then_some(200.0);
        }
        if extended && self.speed_ext_active() != 0 {
            return match self.speed_ext_active() {
                1 => Some(14.0),
                2 => Some(25.0),
                4 => Some(50.0),
                8 => Some(100.0),
                _ => None,
            };
        }
        match self.speed_active() {
            1 => Some(2.5),
            2 => Some(5.0),
            4 => Some(10.0),
            _ => None,
        }
    }
}

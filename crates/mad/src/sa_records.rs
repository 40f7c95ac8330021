//! Records of subnet administration.

use crate::notice::InformInfo;
use crate::sm::{
    GuidInfo, LinearTable, MulticastTable, NodeDescription, NodeInfo, PartitionTable, PortInfo, RandomTable,
    SlToVlMap, SmInfo, SwitchInfo, VlArbitration,
};
use crate::values::{Guid, Lid, NodeKind};

layout! {
    /// A node, once a port that has a LID.
    struct NodeRecord: 108 {
        /// LID of the port.
        lid, set_lid: Lid = 0 + 16;
        @inner /// What it is.
        node_info, node_info_mut: NodeInfo = 4;
        @inner /// Its text.
        description, description_mut: NodeDescription = 44;
    }

    /// A port.
    struct PortInfoRecord: 68 {
        /// LID of the port, or of its switch.
        lid, set_lid: Lid = 0 + 16;
        /// The port number.
        port, set_port: u8 = 16 + 8;
        @inner /// The port.
        port_info, port_info_mut: PortInfo = 4;
    }

    /// VLs of service levels between two ports of a switch.
    struct SlToVlMapRecord: 16 {
        /// LID of the port, or of its switch.
        lid, set_lid: Lid = 0 + 16;
        /// Port in.
        input, set_input: u8 = 16 + 8;
        /// Port out.
        output, set_output: u8 = 24 + 8;
        @inner /// The map.
        map, map_mut: SlToVlMap = 8;
    }

    /// A switch.
    struct SwitchInfoRecord: 24 {
        /// LID of the switch.
        lid, set_lid: Lid = 0 + 16;
        @inner /// The switch.
        switch_info, switch_info_mut: SwitchInfo = 4;
    }

    /// A block of a linear table.
    struct LinearTableRecord: 72 {
        /// LID of the switch.
        lid, set_lid: Lid = 0 + 16;
        /// The block number.
        block, set_block: u16 = 16 + 16;
        @inner /// The block.
        table, table_mut: LinearTable = 8;
    }

    /// A block of a random table.
    struct RandomTableRecord: 72 {
        /// LID of the switch.
        lid, set_lid: Lid = 0 + 16;
        /// The block number.
        block, set_block: u16 = 16 + 16;
        @inner /// The block.
        table, table_mut: RandomTable = 8;
    }

    /// A block of a multicast table.
    struct MulticastTableRecord: 72 {
        /// LID of the switch.
        lid, set_lid: Lid = 0 + 16;
        /// The block of sixteen ports.
        position, set_position: u8 = 18 + 4;
        /// The block number.
        block, set_block: u16 = 22 + 10;
        @inner /// The block.
        table, table_mut: MulticastTable = 8;
    }

    /// A block of a table of priority.
    struct VlArbitrationRecord: 72 {
        /// LID of the port, or of its switch.
        lid, set_lid: Lid = 0 + 16;
        /// The port number.
        port, set_port: u8 = 16 + 8;
        /// Which block: 1 and 2 low, 3 and 4 high priority.
        block, set_block: u8 = 24 + 8;
        @inner /// The block.
        table, table_mut: VlArbitration = 8;
    }

    /// A subnet manager.
    struct SmInfoRecord: 28 {
        /// LID of its port.
        lid, set_lid: Lid = 0 + 16;
        @inner /// The manager.
        sm_info, sm_info_mut: SmInfo = 4;
    }

    /// A subscription.
    struct InformInfoRecord: 80 {
        /// Which of the subscriber's.
        number, set_number: u16 = 128 + 16;
        @bytes /// Who subscribed.
        subscriber, set_subscriber = 0 + 16;
        @inner /// To what.
        inform_info, inform_info_mut: InformInfo = 24;
    }

    /// A link, in one direction.
    struct LinkRecord: 8 {
        /// LID of the one end.
        from_lid, set_from_lid: Lid = 0 + 16;
        /// Port of the one end.
        from_port, set_from_port: u8 = 16 + 8;
        /// Port of the other end.
        to_port, set_to_port: u8 = 24 + 8;
        /// LID of the other end.
        to_lid, set_to_lid: Lid = 32 + 16;
    }

    /// A block of a port's GUIDs.
    struct GuidInfoRecord: 72 {
        /// LID of the port.
        lid, set_lid: Lid = 0 + 16;
        /// The block number.
        block, set_block: u8 = 16 + 8;
        @inner /// The block.
        guids, guids_mut: GuidInfo = 8;
    }

    /// A service that is offered.
    struct ServiceRecord: 176 {
        /// The service ID.
        id, set_id: u64 = 0 + 64;
        /// Its partition.
        partition, set_partition: u16 = 192 + 16;
        /// How long the record holds, in seconds; all ones is forever.
        lease, set_lease: u32 = 224 + 32;
        @row /// Data in pieces of 16 bits.
        data16, set_data16: u16 = 1024 + 16 * 8;
        @row /// Data in pieces of 32 bits.
        data32, set_data32: u32 = 1152 + 32 * 4;
        @row /// Data in pieces of 64 bits.
        data64, set_data64: u64 = 1280 + 64 * 2;
        @bytes /// Who offers it.
        gid, set_gid = 8 + 16;
        @bytes /// Who has it may change the record.
        key, set_key = 32 + 16;
        @bytes /// Its name, to the first zero.
        name, set_name = 48 + 64;
        @bytes /// Data in bytes.
        data8, set_data8 = 112 + 16;
    }

    /// A block of a port's partition keys.
    struct PartitionTableRecord: 72 {
        /// LID of the port, or of its switch.
        lid, set_lid: Lid = 0 + 16;
        /// The block number.
        block, set_block: u16 = 16 + 16;
        /// The port number.
        port, set_port: u8 = 32 + 8;
        @inner /// The block.
        table, table_mut: PartitionTable = 8;
    }

    /// A path between two ports.
    struct PathRecord: 64 {
        /// Service, where the path is asked for by it.
        service, set_service: u64 = 0 + 64;
        /// LID of the destination.
        destination_lid, set_destination_lid: Lid = 320 + 16;
        /// LID of the source.
        source_lid, set_source_lid: Lid = 336 + 16;
        /// For raw packets?
        raw, set_raw: bool = 352 + 1;
        /// Flow label.
        flow_label, set_flow_label: u32 = 356 + 20;
        /// Most routers on the path.
        hop_limit, set_hop_limit: u8 = 376 + 8;
        /// Traffic class.
        traffic_class, set_traffic_class: u8 = 384 + 8;
        /// Does the path back work with the same?
        reversible, set_reversible: bool = 392 + 1;
        /// Most paths that are wanted.
        paths, set_paths: u8 = 393 + 7;
        /// Its partition.
        partition, set_partition: u16 = 400 + 16;
        /// Class of quality.
        quality_class, set_quality_class: u16 = 416 + 12;
        /// Service level.
        service_level, set_service_level: u8 = 428 + 4;
        /// How the longest packet is meant: 0 more than, 1 less than, 2 exactly, 3 the largest.
        mtu_selector, set_mtu_selector: u8 = 432 + 2;
        /// Longest packet: 1 is 256 bytes, each further one doubles.
        mtu, set_mtu: u8 = 434 + 6;
        /// How the rate is meant.
        rate_selector, set_rate_selector: u8 = 440 + 2;
        /// Rate, in the specification's counting.
        rate, set_rate: u8 = 442 + 6;
        /// How the time is meant.
        life_time_selector, set_life_time_selector: u8 = 448 + 2;
        /// How long a packet may take: 4.096 µs times two to this power.
        life_time, set_life_time: u8 = 450 + 6;
        /// Lower is better, among several.
        preference, set_preference: u8 = 456 + 8;
        @bytes /// Destination.
        destination_gid, set_destination_gid = 8 + 16;
        @bytes /// Source.
        source_gid, set_source_gid = 24 + 16;
    }

    /// A group, or a member of it.
    struct GroupMemberRecord: 52 {
        /// Key of the queue.
        queue_key, set_queue_key: u32 = 256 + 32;
        /// LID of the group.
        group_lid, set_group_lid: Lid = 288 + 16;
        /// How the longest packet is meant.
        mtu_selector, set_mtu_selector: u8 = 304 + 2;
        /// Longest packet.
        mtu, set_mtu: u8 = 306 + 6;
        /// Traffic class.
        traffic_class, set_traffic_class: u8 = 312 + 8;
        /// Its partition.
        partition, set_partition: u16 = 320 + 16;
        /// How the rate is meant.
        rate_selector, set_rate_selector: u8 = 336 + 2;
        /// Rate.
        rate, set_rate: u8 = 338 + 6;
        /// How the time is meant.
        life_time_selector, set_life_time_selector: u8 = 344 + 2;
        /// How long a packet may take.
        life_time, set_life_time: u8 = 346 + 6;
        /// Service level.
        service_level, set_service_level: u8 = 352 + 4;
        /// Flow label.
        flow_label, set_flow_label: u32 = 356 + 20;
        /// Most routers on the path.
        hop_limit, set_hop_limit: u8 = 376 + 8;
        /// How far the group reaches.
        scope, set_scope: u8 = 384 + 4;
        /// 1 full, 2 not, 4 only sends.
        join_state, set_join_state: u8 = 388 + 4;
        /// Whether the join was made on behalf of another port.
        proxy, set_proxy: bool = 392 + 1;
        @bytes /// The group.
        group_gid, set_group_gid = 0 + 16;
        @bytes /// The member.
        port_gid, set_port_gid = 16 + 16;
    }

    /// A node of a path.
    struct TraceRecord: 48 {
        /// Prefix of its subnet.
        gid_prefix, set_gid_prefix: u64 = 0 + 64;
        /// The generation of scrambled numbers.
        generation, set_generation: u16 = 64 + 16;
        /// What it is.
        kind, set_kind: NodeKind = 88 + 8;
        /// Scrambled GUID of the node.
        node, set_node: Guid = 96 + 64;
        /// Scrambled GUID of its chassis.
        chassis, set_chassis: Guid = 160 + 64;
        /// Scrambled GUID of the port in.
        entry, set_entry: Guid = 224 + 64;
        /// Scrambled GUID of the port out.
        exit, set_exit: Guid = 288 + 64;
        /// Port in.
        entry_port, set_entry_port: u8 = 352 + 8;
        /// Port out.
        exit_port, set_exit_port: u8 = 360 + 8;
    }

    /// A request for paths between several sources and destinations; more GIDs may follow it.
    struct MultiPathRecord: 40 {
        /// For raw packets?
        raw, set_raw: bool = 0 + 1;
        /// Flow label.
        flow_label, set_flow_label: u32 = 4 + 20;
        /// Most routers on the path.
        hop_limit, set_hop_limit: u8 = 24 + 8;
        /// Traffic class.
        traffic_class, set_traffic_class: u8 = 32 + 8;
        /// Does the path back work with the same?
        reversible, set_reversible: bool = 40 + 1;
        /// Most paths that are wanted.
        paths, set_paths: u8 = 41 + 7;
        /// Its partition.
        partition, set_partition: u16 = 48 + 16;
        /// Class of quality.
        quality_class, set_quality_class: u16 = 64 + 12;
        /// Service level.
        service_level, set_service_level: u8 = 76 + 4;
        /// How the longest packet is meant.
        mtu_selector, set_mtu_selector: u8 = 80 + 2;
        /// Longest packet.
        mtu, set_mtu: u8 = 82 + 6;
        /// How the rate is meant.
        rate_selector, set_rate_selector: u8 = 88 + 2;
        /// Rate.
        rate, set_rate: u8 = 90 + 6;
        /// How the time is meant.
        life_time_selector, set_life_time_selector: u8 = 96 + 2;
        /// How long a packet may take.
        life_time, set_life_time: u8 = 98 + 6;
        /// Shall the paths share as little as possible?
        independence_selector, set_independence_selector: u8 = 112 + 2;
        /// Sources among the GIDs.
        sources, set_sources: u8 = 120 + 8;
        /// Destinations among the GIDs.
        destinations, set_destinations: u8 = 128 + 8;
        @bytes /// The first GID.
        gid, set_gid = 24 + 16;
    }

    /// Name of a service, by its key.
    struct ServiceAssociationRecord: 80 {
        @bytes /// The key.
        key, set_key = 0 + 16;
        @bytes /// The name, to the first zero.
        name, set_name = 16 + 64;
    }
}

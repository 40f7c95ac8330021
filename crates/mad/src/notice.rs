//! Notices: the subjects of traps, reports and subscriptions.

use crate::values::{Guid, Lid};

/// Numbers of generic traps.
pub mod trap {
    /// A port came.
    pub const GID_IN: u16 = 64;
    /// A port went.
    pub const GID_OUT: u16 = 65;
    /// A multicast group was made.
    pub const GROUP_CREATED: u16 = 66;
    /// A multicast group ended.
    pub const GROUP_DELETED: u16 = 67;
    /// A link of a switch changed its state.
    pub const LINK_STATE: u16 = 128;
    /// Errors of a link passed a threshold.
    pub const LINK_INTEGRITY: u16 = 129;
    /// Overruns passed a threshold.
    pub const BUFFER_OVERRUN: u16 = 130;
    /// The watchdog of flow control barked.
    pub const FLOW_CONTROL: u16 = 131;
    /// Capability mask, description or enabled widths and speeds changed.
    pub const CAPABILITY: u16 = 144;
    /// The system's GUID changed.
    pub const SYSTEM_GUID: u16 = 145;
    /// Wrong management key.
    pub const MANAGEMENT_KEY: u16 = 256;
    /// Wrong partition key.
    pub const PARTITION_KEY: u16 = 257;
    /// Wrong queue key.
    pub const QUEUE_KEY: u16 = 258;
    /// Wrong partition key, seen by a switch.
    pub const SWITCH_PARTITION_KEY: u16 = 259;
}

layout! {
    /// A notice in subnet management: its issuer and its event. In subnet administration the issuer's GID
    /// follows ([`IssuedNotice`]).
    struct Notice: 64 {
        /// Is it one that the specification defines?
        generic, set_generic: bool = 0 + 1;
        /// 0 fatal, 1 urgent, 2 security, 3 subnet management, 4 information.
        severity, set_severity: u8 = 1 + 7;
        /// What issued it: 1 host, 2 switch, 3 router, 4 class manager; or a vendor.
        producer, set_producer: u32 = 8 + 24;
        /// [`trap`], or the vendor's device.
        number, set_number: u16 = 32 + 16;
        /// Who issued it.
        issuer, set_issuer: Lid = 48 + 16;
        /// Is kept for others to fetch.
        toggle, set_toggle: bool = 64 + 1;
        /// How many there are.
        count, set_count: u16 = 65 + 15;
        @bytes /// Details, which depend on the number.
        details, set_details = 10 + 54;
    }

    /// A notice with the GID of the one that issued it: what a report holds.
    struct IssuedNotice: 80 {
        @bytes /// GID of the issuer.
        issuer_gid, set_issuer_gid = 64 + 16;
        @inner /// The notice.
        notice, notice_mut: Notice = 0;
    }

    /// Details of the traps 64 to 67.
    struct GidDetails: 54 {
        @bytes /// Which GID.
        gid, set_gid = 6 + 16;
    }

    /// Details of trap 128.
    struct LinkStateDetails: 54 {
        /// LID of the switch.
        lid, set_lid: Lid = 0 + 16;
    }

    /// Details of the traps 129 to 131.
    struct PortDetails: 54 {
        /// LID of the node.
        lid, set_lid: Lid = 16 + 16;
        /// The port number.
        port, set_port: u8 = 32 + 8;
    }

    /// Details of trap 144.
    struct CapabilityDetails: 54 {
        /// LID of the port.
        lid, set_lid: Lid = 16 + 16;
        /// Whether the bits below name the change.
        other_changes, set_other_changes: bool = 47 + 1;
        /// The mask as it is now.
        capability_mask, set_capability_mask: u32 = 48 + 32;
        /// The priority of the manager changed.
        priority_change, set_priority_change: bool = 92 + 1;
        /// The enabled speeds changed.
        speed_change, set_speed_change: bool = 93 + 1;
        /// The enabled widths changed.
        width_change, set_width_change: bool = 94 + 1;
        /// The description changed.
        description_change, set_description_change: bool = 95 + 1;
    }

    /// Details of trap 145.
    struct SystemGuidDetails: 54 {
        /// LID of the node.
        lid, set_lid: Lid = 16 + 16;
        /// The GUID as it is now.
        system_guid, set_system_guid: Guid = 48 + 64;
    }

    /// Details of trap 256.
    struct ManagementKeyDetails: 54 {
        /// LID of the port that was asked.
        lid, set_lid: Lid = 16 + 16;
        /// LID of the directed datagram's source.
        directed_source, set_directed_source: Lid = 32 + 16;
        /// Method of the datagram.
        method, set_method: u8 = 48 + 8;
        /// Attribute of the datagram.
        attribute, set_attribute: u16 = 64 + 16;
        /// Modifier of the datagram.
        modifier, set_modifier: u32 = 80 + 32;
        /// Key of the datagram.
        key, set_key: u64 = 112 + 64;
        /// Was it directed?
        directed, set_directed: bool = 184 + 1;
        /// Is the path cut short?
        truncated, set_truncated: bool = 185 + 1;
        /// Hops of the path.
        hops, set_hops: u8 = 186 + 6;
        @row /// Return path.
        return_port, set_return_port: u8 = 192 + 8 * 30;
    }

    /// Details of the traps 257 and 258.
    struct KeyDetails: 54 {
        /// First LID.
        lid1, set_lid1: Lid = 16 + 16;
        /// Second LID.
        lid2, set_lid2: Lid = 32 + 16;
        /// Key of the packet.
        key, set_key: u32 = 48 + 32;
        /// Service level of the packet.
        service_level, set_service_level: u8 = 80 + 4;
        /// First queue pair.
        queue_pair1, set_queue_pair1: u32 = 88 + 24;
        /// Second queue pair.
        queue_pair2, set_queue_pair2: u32 = 120 + 24;
        @bytes /// First GID.
        gid1, set_gid1 = 18 + 16;
        @bytes /// Second GID.
        gid2, set_gid2 = 34 + 16;
    }

    /// Details of trap 259.
    struct SwitchKeyDetails: 54 {
        /// A bit mask of the fields that are valid.
        valid, set_valid: u16 = 0 + 16;
        /// First LID.
        lid1, set_lid1: Lid = 16 + 16;
        /// Second LID.
        lid2, set_lid2: Lid = 32 + 16;
        /// Key of the packet.
        partition, set_partition: u16 = 48 + 16;
        /// Service level of the packet.
        service_level, set_service_level: u8 = 64 + 4;
        /// First queue pair.
        queue_pair1, set_queue_pair1: u32 = 72 + 24;
        /// Second queue pair.
        queue_pair2, set_queue_pair2: u32 = 104 + 24;
        /// LID of the switch.
        switch_lid, set_switch_lid: Lid = 384 + 16;
        /// Port of the switch.
        port, set_port: u8 = 400 + 8;
        @bytes /// First GID.
        gid1, set_gid1 = 16 + 16;
        @bytes /// Second GID.
        gid2, set_gid2 = 32 + 16;
    }

    /// A subscription to notices.
    struct InformInfo: 36 {
        /// First LID of those whose notices are wanted; 0xffff is all.
        lid_first, set_lid_first: Lid = 128 + 16;
        /// Last LID.
        lid_last, set_lid_last: Lid = 144 + 16;
        /// Generic, or a vendor's.
        generic, set_generic: u8 = 176 + 8;
        /// Begin, or end.
        subscribe, set_subscribe: u8 = 184 + 8;
        /// Severity; 0xffff is all.
        severity, set_severity: u16 = 192 + 16;
        /// Number of the trap; 0xffff is all.
        number, set_number: u16 = 208 + 16;
        /// Queue pair of the subscriber.
        queue_pair, set_queue_pair: u32 = 224 + 24;
        /// Longest time until a response.
        response_time, set_response_time: u8 = 251 + 5;
        /// What issues it; 0xffffff is all.
        producer, set_producer: u32 = 264 + 24;
        @bytes /// GID of the one whose notices are wanted; zero is all.
        gid, set_gid = 0 + 16;
    }
}

//! Attributes of the performance class: counters and samples.

use crate::header::Mad;
use crate::values::{Class, Method};

/// Numbers of the attributes.
pub mod attribute {
    /// [`ClassPortInfo`](crate::header::ClassPortInfo).
    pub const CLASS_PORT_INFO: u16 = 0x01;
    /// [`SamplesControl`](super::SamplesControl).
    pub const SAMPLES_CONTROL: u16 = 0x10;
    /// [`SamplesResult`](super::SamplesResult).
    pub const SAMPLES_RESULT: u16 = 0x11;
    /// [`PortCounters`](super::PortCounters).
    pub const PORT_COUNTERS: u16 = 0x12;
    /// [`ReceiveErrorDetails`](super::ReceiveErrorDetails).
    pub const RECEIVE_ERROR_DETAILS: u16 = 0x15;
    /// [`DiscardDetails`](super::DiscardDetails).
    pub const DISCARD_DETAILS: u16 = 0x16;
    /// [`OperationCounters`](super::OperationCounters).
    pub const OPERATION_COUNTERS: u16 = 0x17;
    /// [`FlowControlCounters`](super::FlowControlCounters).
    pub const FLOW_CONTROL_COUNTERS: u16 = 0x18;
    /// [`VlPackets`](super::VlPackets).
    pub const VL_PACKETS: u16 = 0x19;
    /// [`VlData`](super::VlData).
    pub const VL_DATA: u16 = 0x1a;
    /// [`VlUpdateErrors`](super::VlUpdateErrors).
    pub const VL_UPDATE_ERRORS: u16 = 0x1b;
    /// [`VlXmitWait`](super::VlXmitWait).
    pub const VL_XMIT_WAIT: u16 = 0x1c;
    /// [`PortCountersExtended`](super::PortCountersExtended).
    pub const PORT_COUNTERS_EXTENDED: u16 = 0x1d;
    /// [`SamplesResultExtended`](super::SamplesResultExtended).
    pub const SAMPLES_RESULT_EXTENDED: u16 = 0x1e;
    /// [`ExtendedSpeedsCounters`](super::ExtendedSpeedsCounters).
    pub const EXTENDED_SPEEDS_COUNTERS: u16 = 0x1f;
    /// [`VlCongestion`](super::VlCongestion).
    pub const VL_CONGESTION: u16 = 0x30;
    /// [`CongestionReceived`](super::CongestionReceived).
    pub const CONGESTION_RECEIVED: u16 = 0x31;
    /// [`ForwardCongestion`](super::ForwardCongestion).
    pub const FORWARD_CONGESTION: u16 = 0x32;
    /// [`BackwardCongestion`](super::BackwardCongestion).
    pub const BACKWARD_CONGESTION: u16 = 0x33;
    /// [`CongestionTime`](super::CongestionTime).
    pub const CONGESTION_TIME: u16 = 0x34;
    /// [`VlCongestionTime`](super::VlCongestionTime).
    pub const VL_CONGESTION_TIME: u16 = 0x35;
    /// [`LevelSent`](super::LevelSent).
    pub const LEVEL_SENT: u16 = 0x36;
    /// [`LevelReceived`](super::LevelReceived).
    pub const LEVEL_RECEIVED: u16 = 0x37;
}

/// The key of queue 1, to which performance and administration datagrams go.
pub const QUEUE_KEY: u32 = 0x8001_0000;
/// All ports of a switch at once.
pub const ALL_PORTS: u8 = 255;

/// Bits of [`ClassPortInfo::capability_mask`](crate::header::ClassPortInfo::capability_mask) in this class.
pub mod capability {
    /// Knows [`ALL_PORTS`](super::ALL_PORTS).
    pub const ALL_PORT_SELECT: u16 = 1 << 8;
    /// Has the extended counters.
    pub const EXTENDED_WIDTH: u16 = 1 << 9;
    /// Has the extended counters, but those of unicast and multicast packets.
    pub const EXTENDED_WIDTH_NO_IETF: u16 = 1 << 10;
    /// Counts ticks of waiting.
    pub const XMIT_WAIT: u16 = 1 << 12;
}

/// A request for counters of one port: attribute and port, and which counters a Set clears.
#[must_use]
pub fn question(method: Method, attribute: u16, port: u8) -> Mad {
    let mut mad = Mad::new(Class::PERFORMANCE, method, attribute, 0);
    // The port is at the same place in all attributes that have one.
    mad.data_mut::<PortCounters>().set_port(port);
    mad
}

layout! {
    /// Counters of a port as every port has them. They stop at their largest value.
    struct PortCounters: 44 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        /// SymbolErrorCounter: minor link errors on the lanes.
        symbol_errors, set_symbol_errors: u16 = 32 + 16;
        /// LinkErrorRecoveryCounter: recoveries of the link that succeeded.
        link_recoveries, set_link_recoveries: u8 = 48 + 8;
        /// LinkDownedCounter: recoveries of the link that failed.
        link_downed, set_link_downed: u8 = 56 + 8;
        /// PortRcvErrors: received packets with an error.
        receive_errors, set_receive_errors: u16 = 64 + 16;
        /// PortRcvRemotePhysicalErrors: received packets that were marked bad by their sender.
        remote_physical_errors, set_remote_physical_errors: u16 = 80 + 16;
        /// PortRcvSwitchRelayErrors: received packets that the switch could not relay.
        relay_errors, set_relay_errors: u16 = 96 + 16;
        /// PortXmitDiscards: outbound packets that were dropped.
        discards, set_discards: u16 = 112 + 16;
        /// PortXmitConstraintErrors: packets that were not transmitted because of a filter.
        transmit_constraint_errors, set_transmit_constraint_errors: u8 = 128 + 8;
        /// PortRcvConstraintErrors: received packets that were dropped because of a filter.
        receive_constraint_errors, set_receive_constraint_errors: u8 = 136 + 8;
        /// Which of further counters a Set changes.
        select2, set_select2: u8 = 144 + 8;
        /// LocalLinkIntegrityErrors: link errors over the threshold.
        integrity_errors, set_integrity_errors: u8 = 152 + 4;
        /// ExcessiveBufferOverrunErrors: buffer overruns over the threshold.
        overrun_errors, set_overrun_errors: u8 = 156 + 4;
        /// QP1Dropped: datagrams that were dropped at queue pair 1.
        queue1_dropped, set_queue1_dropped: u16 = 160 + 16;
        /// VL15Dropped: subnet-management datagrams that were dropped.
        vl15_dropped, set_vl15_dropped: u16 = 176 + 16;
        /// PortXmitData, in units of four bytes.
        transmit_data, set_transmit_data: u32 = 192 + 32;
        /// PortRcvData, in units of four bytes.
        receive_data, set_receive_data: u32 = 224 + 32;
        /// PortXmitPkts: packets sent.
        transmit_packets, set_transmit_packets: u32 = 256 + 32;
        /// PortRcvPkts: packets received.
        receive_packets, set_receive_packets: u32 = 288 + 32;
        /// PortXmitWait: ticks in which there was data to send and no credit.
        transmit_wait, set_transmit_wait: u32 = 320 + 32;
    }

    /// Counters of a port in 64 bits. The error counters are there where the agent says so.
    struct PortCountersExtended: 184 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        /// Which of the error counters a Set changes.
        select2, set_select2: u32 = 32 + 32;
        /// Sent, in units of four bytes.
        transmit_data, set_transmit_data: u64 = 64 + 64;
        /// Received, in units of four bytes.
        receive_data, set_receive_data: u64 = 128 + 64;
        /// Packets sent.
        transmit_packets, set_transmit_packets: u64 = 192 + 64;
        /// Packets received.
        receive_packets, set_receive_packets: u64 = 256 + 64;
        /// Packets sent to one.
        unicast_sent, set_unicast_sent: u64 = 320 + 64;
        /// Packets received for one.
        unicast_received, set_unicast_received: u64 = 384 + 64;
        /// Packets sent to a group.
        multicast_sent, set_multicast_sent: u64 = 448 + 64;
        /// Packets received for a group.
        multicast_received, set_multicast_received: u64 = 512 + 64;
        /// As in [`PortCounters`].
        symbol_errors, set_symbol_errors: u64 = 576 + 64;
        /// As in [`PortCounters`].
        link_recoveries, set_link_recoveries: u64 = 640 + 64;
        /// As in [`PortCounters`].
        link_downed, set_link_downed: u64 = 704 + 64;
        /// As in [`PortCounters`].
        receive_errors, set_receive_errors: u64 = 768 + 64;
        /// As in [`PortCounters`].
        remote_physical_errors, set_remote_physical_errors: u64 = 832 + 64;
        /// As in [`PortCounters`].
        relay_errors, set_relay_errors: u64 = 896 + 64;
        /// As in [`PortCounters`].
        discards, set_discards: u64 = 960 + 64;
        /// As in [`PortCounters`].
        transmit_constraint_errors, set_transmit_constraint_errors: u64 = 1024 + 64;
        /// As in [`PortCounters`].
        receive_constraint_errors, set_receive_constraint_errors: u64 = 1088 + 64;
        /// As in [`PortCounters`].
        integrity_errors, set_integrity_errors: u64 = 1152 + 64;
        /// As in [`PortCounters`].
        overrun_errors, set_overrun_errors: u64 = 1216 + 64;
        /// As in [`PortCounters`].
        vl15_dropped, set_vl15_dropped: u64 = 1280 + 64;
        /// As in [`PortCounters`].
        transmit_wait, set_transmit_wait: u64 = 1344 + 64;
        /// As in [`PortCounters`].
        queue1_dropped, set_queue1_dropped: u64 = 1408 + 64;
    }

    /// PortRcvErrorDetails: the reasons of receive errors.
    struct ReceiveErrorDetails: 16 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        /// PortLocalPhysicalErrors.
        local_physical, set_local_physical: u16 = 32 + 16;
        /// PortMalformedPacketErrors.
        malformed, set_malformed: u16 = 48 + 16;
        /// PortBufferOverrunErrors.
        overrun, set_overrun: u16 = 64 + 16;
        /// PortDLIDMappingErrors: destination LIDs without an output port.
        lid_mapping, set_lid_mapping: u16 = 80 + 16;
        /// PortVLMappingErrors: service levels without a VL.
        vl_mapping, set_vl_mapping: u16 = 96 + 16;
        /// PortLoopingErrors: packets that would leave by the port that they came in.
        looping, set_looping: u16 = 112 + 16;
    }

    /// PortXmitDiscardDetails: the reasons of discards.
    struct DiscardDetails: 12 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        /// PortInactiveDiscards: the port was not active.
        inactive, set_inactive: u16 = 32 + 16;
        /// PortNeighborMTUDiscards: longer than the MTU of the link.
        neighbor_mtu, set_neighbor_mtu: u16 = 48 + 16;
        /// PortSwLifetimeLimitDiscards: longer in the switch than allowed.
        life_time, set_life_time: u16 = 64 + 16;
        /// PortSwHOQLifetimeLimitDiscards: longer at the head of the queue than allowed.
        head_of_queue, set_head_of_queue: u16 = 80 + 16;
    }

    /// Packets and data of one operation.
    struct OperationCounters: 12 {
        /// The operation code.
        operation, set_operation: u8 = 0 + 8;
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        /// Packets received.
        packets, set_packets: u32 = 32 + 32;
        /// Received, in units of four bytes.
        data, set_data: u32 = 64 + 32;
    }

    /// Packets of flow control.
    struct FlowControlCounters: 12 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        /// Sent.
        sent, set_sent: u32 = 32 + 32;
        /// Received.
        received, set_received: u32 = 64 + 32;
    }

    /// PortVLOpPackets: packets of one operation on each VL.
    struct VlPackets: 36 {
        /// The operation code.
        operation, set_operation: u8 = 0 + 8;
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        @row /// Packets of a VL.
        packets, set_packets: u16 = 32 + 16 * 16;
    }

    /// PortVLOpData: data of one operation on each VL.
    struct VlData: 68 {
        /// The operation code.
        operation, set_operation: u8 = 0 + 8;
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        @row /// Kilobytes of a VL.
        data, set_data: u32 = 32 + 32 * 16;
    }

    /// PortVLXmitFlowCtlUpdateErrors: flow-control errors on each VL.
    struct VlUpdateErrors: 8 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        @row /// Errors of a VL.
        errors, set_errors: u8 = 32 + 2 * 16;
    }

    /// PortVLXmitWaitCounters: ticks of waiting on each VL.
    struct VlXmitWait: 36 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        @row /// Ticks of a VL.
        wait, set_wait: u16 = 32 + 16 * 16;
    }

    /// SwPortVLCongestion: congestion on each VL of a switch's port.
    struct VlCongestion: 36 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        @row /// Times of a VL.
        times, set_times: u16 = 32 + 16 * 16;
    }

    /// What a port is to sample.
    struct SamplesControl: 192 {
        /// The operation code.
        operation, set_operation: u8 = 0 + 8;
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Length of a tick.
        tick, set_tick: u8 = 16 + 8;
        /// Width of the counters.
        width, set_width: u8 = 29 + 3;
        /// Which of the first counter's selections it can.
        mask0, set_mask0: u8 = 34 + 3;
        /// Which of counters 1 to 9, three bits each.
        masks1to9, set_masks1to9: u32 = 37 + 27;
        /// Which of counters 10 to 14, three bits each.
        masks10to14, set_masks10to14: u16 = 65 + 15;
        /// How many samplings it can do at once.
        mechanisms, set_mechanisms: u8 = 80 + 8;
        /// 0 done, 1 about to start, 2 running.
        status, set_status: u8 = 94 + 2;
        /// A bit mask of the optional counters that the port has.
        option_mask, set_option_mask: u64 = 96 + 64;
        /// A bit mask of the vendor's counters that the port has.
        vendor_mask, set_vendor_mask: u64 = 160 + 64;
        /// Ticks until it starts.
        start, set_start: u32 = 224 + 32;
        /// Ticks that it lasts.
        interval, set_interval: u32 = 256 + 32;
        /// The asker's number.
        tag, set_tag: u16 = 288 + 16;
        /// A bit mask of the optional counters that can only be sampled.
        samples_only_mask, set_samples_only_mask: u64 = 576 + 64;
        @row /// What a counter is to count.
        select, set_select: u16 = 304 + 16 * 15;
    }

    /// What a port sampled.
    struct SamplesResult: 64 {
        /// The asker's number.
        tag, set_tag: u16 = 0 + 16;
        /// 0 done, 1 about to start, 2 running.
        status, set_status: u8 = 30 + 2;
        @row /// A counter.
        counter, set_counter: u32 = 32 + 32 * 15;
    }

    /// What a port sampled, in up to 64 bits.
    struct SamplesResultExtended: 128 {
        /// The asker's number.
        tag, set_tag: u16 = 0 + 16;
        /// 0 done, 1 about to start, 2 running.
        status, set_status: u8 = 30 + 2;
        /// Width of the counters.
        width, set_width: u8 = 32 + 2;
        @row /// A counter.
        counter, set_counter: u64 = 64 + 64 * 15;
    }

    /// Errors of a link of an extended speed. With the stronger correction the bits from 736 on are symbols
    /// and sums instead.
    struct ExtendedSpeedsCounters: 152 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u64 = 64 + 64;
        /// Headers that are none.
        sync_header_errors, set_sync_header_errors: u16 = 128 + 16;
        /// Blocks that are none.
        unknown_blocks, set_unknown_blocks: u16 = 144 + 16;
        /// With the stronger correction: blocks that it corrected.
        corrected_blocks, set_corrected_blocks: u32 = 1120 + 32;
        /// With the stronger correction: blocks that it could not correct.
        lost_blocks, set_lost_blocks: u32 = 1152 + 32;
        /// With the stronger correction: symbols that it corrected.
        corrected_symbols, set_corrected_symbols: u32 = 1184 + 32;
        @row /// Errors that were detected on a VL.
        detected, set_detected: u16 = 160 + 16 * 12;
        @row /// Blocks (or symbols) that were corrected on a VL.
        correctable, set_correctable: u32 = 352 + 32 * 12;
        @row /// Blocks that could not be corrected on a VL.
        uncorrectable, set_uncorrectable: u32 = 736 + 32 * 12;
    }

    /// Marks of congestion that came in.
    struct CongestionReceived: 12 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        /// Packets that met congestion.
        forward, set_forward: u32 = 32 + 32;
        /// Packets that tell of it.
        backward, set_backward: u32 = 64 + 32;
    }

    /// Packets that met congestion, by service level.
    struct ForwardCongestion: 68 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        @row /// Packets of a level.
        packets, set_packets: u32 = 32 + 32 * 16;
    }

    /// Packets that tell of congestion, by service level.
    struct BackwardCongestion: 68 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        @row /// Packets of a level.
        packets, set_packets: u32 = 32 + 32 * 16;
    }

    /// How long a port was congested.
    struct CongestionTime: 8 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        /// Ticks.
        time, set_time: u32 = 32 + 32;
    }

    /// How long each VL was congested.
    struct VlCongestionTime: 64 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        @row /// Ticks of a VL.
        time, set_time: u32 = 32 + 32 * 15;
    }

    /// Data sent by service level.
    struct LevelSent: 68 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        @row /// Units of four bytes of a level.
        data, set_data: u32 = 32 + 32 * 16;
    }

    /// Data received by service level.
    struct LevelReceived: 68 {
        /// The port number.
        port, set_port: u8 = 8 + 8;
        /// Which counters a Set changes.
        select, set_select: u16 = 16 + 16;
        @row /// Units of four bytes of a level.
        data, set_data: u32 = 32 + 32 * 16;
    }
}

//! Counters and samples: our fields and the library's names of them.

use mad::layout::Layout;
use mad::pm;

use crate::Pair;

pub(crate) fn counters(pairs: &mut Vec<Pair>) {
    fn add<T: Layout>(pairs: &mut Vec<Pair>, names: &[(&'static str, &'static str)]) {
        for (ours, theirs) in names {
            let field = T::FIELDS.iter().find(|field| field.name == *ours);
            pairs.push((
                T::NAME,
                *field.unwrap_or_else(|| panic!("{} has no field {ours}", T::NAME)),
                theirs,
                0,
            ));
        }
    }
    add::<pm::PortCounters>(
        pairs,
        &[
            ("port", "PC_PORT_SELECT"),
            ("select", "PC_COUNTER_SELECT"),
            ("symbol_errors", "PC_ERR_SYM"),
            ("link_recoveries", "PC_LINK_RECOVERS"),
            ("link_downed", "PC_LINK_DOWNED"),
            ("receive_errors", "PC_ERR_RCV"),
            ("remote_physical_errors", "PC_ERR_PHYSRCV"),
            ("relay_errors", "PC_ERR_SWITCH_REL"),
            ("discards", "PC_XMT_DISCARDS"),
            ("transmit_constraint_errors", "PC_ERR_XMTCONSTR"),
            ("receive_constraint_errors", "PC_ERR_RCVCONSTR"),
            ("select2", "PC_COUNTER_SELECT2"),
            ("integrity_errors", "PC_ERR_LOCALINTEG"),
            ("overrun_errors", "PC_ERR_EXCESS_OVR"),
            ("vl15_dropped", "PC_VL15_DROPPED"),
            ("transmit_data", "PC_XMT_BYTES"),
            ("receive_data", "PC_RCV_BYTES"),
            ("transmit_packets", "PC_XMT_PKTS"),
            ("receive_packets", "PC_RCV_PKTS"),
            ("transmit_wait", "PC_XMT_WAIT"),
        ],
    );
    add::<pm::PortCountersExtended>(
        pairs,
        &[
            ("port", "PC_EXT_PORT_SELECT"),
            ("select", "PC_EXT_COUNTER_SELECT"),
            ("transmit_data", "PC_EXT_XMT_BYTES"),
            ("receive_data", "PC_EXT_RCV_BYTES"),
            ("transmit_packets", "PC_EXT_XMT_PKTS"),
            ("receive_packets", "PC_EXT_RCV_PKTS"),
            ("unicast_sent", "PC_EXT_XMT_UPKTS"),
            ("unicast_received", "PC_EXT_RCV_UPKTS"),
            ("multicast_sent", "PC_EXT_XMT_MPKTS"),
            ("multicast_received", "PC_EXT_RCV_MPKTS"),
            ("select2", "PC_EXT_COUNTER_SELECT2"),
            ("symbol_errors", "PC_EXT_ERR_SYM"),
            ("link_recoveries", "PC_EXT_LINK_RECOVERS"),
            ("link_downed", "PC_EXT_LINK_DOWNED"),
            ("receive_errors", "PC_EXT_ERR_RCV"),
            ("discards", "PC_EXT_XMT_DISCARDS"),
            ("vl15_dropped", "PC_EXT_VL15_DROPPED"),
            ("transmit_wait", "PC_EXT_XMT_WAIT"),
            ("queue1_dropped", "PC_EXT_QP1_DROP"),
        ],
    );
    add::<pm::DiscardDetails>(
        pairs,
        &[
            ("inactive", "PC_XMT_INACT_DISC"),
            ("neighbor_mtu", "PC_XMT_NEIGH_MTU_DISC"),
            ("life_time", "PC_XMT_SW_LIFE_DISC"),
            ("head_of_queue", "PC_XMT_SW_HOL_DISC"),
        ],
    );
    add::<pm::ReceiveErrorDetails>(
        pairs,
        &[
            ("local_physical", "PC_RCV_LOCAL_PHY_ERR"),
            ("malformed", "PC_RCV_MALFORMED_PKT_ERR"),
            ("overrun", "PC_RCV_BUF_OVR_ERR"),
            ("lid_mapping", "PC_RCV_DLID_MAP_ERR"),
            ("vl_mapping", "PC_RCV_VL_MAP_ERR"),
            ("looping", "PC_RCV_LOOPING_ERR"),
        ],
    );
    add::<pm::SamplesControl>(
        pairs,
        &[
            ("operation", "PSC_OPCODE"),
            ("port", "PSC_PORT_SELECT"),
            ("tick", "PSC_TICK"),
            ("width", "PSC_COUNTER_WIDTH"),
            ("mask0", "PSC_COUNTER_MASK0"),
            ("masks1to9", "PSC_COUNTER_MASKS1TO9"),
            ("masks10to14", "PSC_COUNTER_MASKS10TO14"),
            ("mechanisms", "PSC_SAMPLE_MECHS"),
            ("status", "PSC_SAMPLE_STATUS"),
            ("option_mask", "PSC_OPTION_MASK"),
            ("vendor_mask", "PSC_VENDOR_MASK"),
            ("start", "PSC_SAMPLE_START"),
            ("interval", "PSC_SAMPLE_INTVL"),
            ("tag", "PSC_TAG"),
            ("select", "PSC_COUNTER_SEL0"),
            ("samples_only_mask", "PSC_SAMPLES_ONLY_OPT_MASK"),
        ],
    );
    add::<pm::SamplesResult>(
        pairs,
        &[("tag", "PSR_TAG"), ("status", "PSR_SAMPLE_STATUS"), ("counter", "PSR_COUNTER0")],
    );
    add::<pm::ExtendedSpeedsCounters>(
        pairs,
        &[
            ("port", "PESC_PORT_SELECT"),
            ("select", "PESC_COUNTER_SELECT"),
            ("sync_header_errors", "PESC_SYNC_HDR_ERR_CTR"),
            ("unknown_blocks", "PESC_UNK_BLOCK_CTR"),
            ("detected", "PESC_ERR_DET_CTR_LANE0"),
            ("correctable", "PESC_FEC_CORR_BLOCK_CTR_LANE0"),
            ("uncorrectable", "PESC_FEC_UNCORR_BLOCK_CTR_LANE0"),
        ],
    );
    add::<pm::OperationCounters>(
        pairs,
        &[("packets", "PC_PORT_OP_RCV_PKTS"), ("data", "PC_PORT_OP_RCV_DATA")],
    );
    add::<pm::FlowControlCounters>(
        pairs,
        &[("sent", "PC_PORT_XMIT_FLOW_PKTS"), ("received", "PC_PORT_RCV_FLOW_PKTS")],
    );
    add::<pm::VlPackets>(pairs, &[("packets", "PC_PORT_VL_OP_PACKETS0")]);
    add::<pm::VlData>(pairs, &[("data", "PC_PORT_VL_OP_DATA0")]);
    add::<pm::VlUpdateErrors>(pairs, &[("errors", "PC_PORT_VL_XMIT_FLOW_CTL_UPDATE_ERRORS0")]);
    add::<pm::VlXmitWait>(pairs, &[("wait", "PC_PORT_VL_XMIT_WAIT0")]);
    add::<pm::VlCongestion>(pairs, &[("times", "PC_SW_PORT_VL_CONGESTION0")]);
    add::<pm::CongestionReceived>(
        pairs,
        &[("forward", "PC_RCV_CON_CTRL_PKT_RCV_FECN"), ("backward", "PC_RCV_CON_CTRL_PKT_RCV_BECN")],
    );
    add::<pm::CongestionTime>(pairs, &[("time", "PC_XMIT_CON_CTRL_TIME_CONG")]);
    add::<pm::VlCongestionTime>(pairs, &[("time", "PC_VL_XMIT_TIME_CONG0")]);
}

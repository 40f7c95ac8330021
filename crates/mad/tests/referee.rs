//! Where fields stand, by another library's table: `libibmad` is asked bit by bit which of its fields a bit belongs to.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};

use mad::layout::{Field, Layout};
use mad::{header, notice, pm, sa, sa_records, sm};

/// Prints for each field of the library that is named on its input: name, first bit (of 4096), width. Bits are found by
/// decoding a buffer in which one bit is set.
const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
#include <infiniband/mad.h>
static void probe(const char *name, enum MAD_FIELDS field) {
    unsigned char buf[512], val[512];
    int first = -1, width = 0;
    for (int bit = 0; bit < 2048; bit++) {
        memset(buf, 0, sizeof buf);
        memset(val, 0, sizeof val);
        buf[bit / 8] = 0x80 >> (bit % 8);
        mad_decode_field(buf, field, val);
        int set = 0;
        for (unsigned i = 0; i < sizeof val; i++) set |= val[i];
        if (set) { if (first < 0) first = bit; width++; }
    }
    printf("%s %d %d\n", name, first, width);
}
int main(void) {
#include "fields.inc"
    return 0;
}
"#;

/// A field of ours, and the library's name of it without `IB_` and `_F`.
type Pair = (&'static str, Field, &'static str, usize);

fn pairs() -> Vec<Pair> {
    let mut pairs = Vec::new();
    // Of a structure: where it begins in the library's buffer, and pairs of names.
    fn add<T: Layout>(pairs: &mut Vec<Pair>, start: usize, names: &[(&'static str, &'static str)]) {
        for (ours, theirs) in names {
            let field = T::FIELDS.iter().find(|field| field.name == *ours);
            let field = field.unwrap_or_else(|| panic!("{} has no field {ours}", T::NAME));
            pairs.push((T::NAME, *field, theirs, start));
        }
    }
    add::<header::MadHeader>(
        &mut pairs,
        0,
        &[
            ("base_version", "MAD_BASEVER"),
            ("class", "MAD_MGMTCLASS"),
            ("class_version", "MAD_CLASSVER"),
            ("status", "MAD_STATUS"),
            ("transaction", "MAD_TRID"),
            ("attribute", "MAD_ATTRID"),
            ("modifier", "MAD_ATTRMOD"),
        ],
    );
    add::<header::SmpHeader>(
        &mut pairs,
        0,
        &[
            ("returning", "DRSMP_DIRECTION"),
            ("status", "DRSMP_STATUS"),
            ("hop_pointer", "DRSMP_HOPPTR"),
            ("hop_count", "DRSMP_HOPCNT"),
            ("management_key", "MAD_MKEY"),
            ("directed_source", "DRSMP_DRSLID"),
            ("directed_destination", "DRSMP_DRDLID"),
        ],
    );
    add::<sa::SaHeader>(
        &mut pairs,
        0,
        &[("key", "SA_MKEY"), ("record_size", "SA_ATTROFFS"), ("component_mask", "SA_COMPMASK")],
    );
    add::<sa::RmppHeader>(
        &mut pairs,
        24 * 8,
        &[
            ("version", "SA_RMPP_VERS"),
            ("kind", "SA_RMPP_TYPE"),
            ("response_time", "SA_RMPP_RESP"),
            ("flags", "SA_RMPP_FLAGS"),
            ("status", "SA_RMPP_STATUS"),
            ("segment", "SA_RMPP_D1"),
            ("length", "SA_RMPP_D2"),
        ],
    );
    add::<sm::PortInfo>(
        &mut pairs,
        0,
        &[
            ("management_key", "PORT_MKEY"),
            ("gid_prefix", "PORT_GID_PREFIX"),
            ("lid", "PORT_LID"),
            ("sm_lid", "PORT_SMLID"),
            ("capability_mask", "PORT_CAPMASK"),
            ("diagnostic_code", "PORT_DIAG"),
            ("key_lease", "PORT_MKEY_LEASE"),
            ("local_port", "PORT_LOCAL_PORT"),
            ("width_enabled", "PORT_LINK_WIDTH_ENABLED"),
            ("width_supported", "PORT_LINK_WIDTH_SUPPORTED"),
            ("width_active", "PORT_LINK_WIDTH_ACTIVE"),
            ("speed_supported", "PORT_LINK_SPEED_SUPPORTED"),
            ("state", "PORT_STATE"),
            ("physical_state", "PORT_PHYS_STATE"),
            ("down_default", "PORT_LINK_DOWN_DEF"),
            ("key_protection", "PORT_MKEY_PROT_BITS"),
            ("mask_control", "PORT_LMC"),
            ("speed_active", "PORT_LINK_SPEED_ACTIVE"),
            ("speed_enabled", "PORT_LINK_SPEED_ENABLED"),
            ("neighbor_mtu", "PORT_NEIGHBOR_MTU"),
            ("sm_service_level", "PORT_SMSL"),
            ("lane_capacity", "PORT_VL_CAP"),
            ("init_type", "PORT_INIT_TYPE"),
            ("lane_high_limit", "PORT_VL_HIGH_LIMIT"),
            ("arbitration_high_capacity", "PORT_VL_ARBITRATION_HIGH_CAP"),
            ("arbitration_low_capacity", "PORT_VL_ARBITRATION_LOW_CAP"),
            ("init_type_reply", "PORT_INIT_TYPE_REPLY"),
            ("mtu_capacity", "PORT_MTU_CAP"),
            ("stall_count", "PORT_VL_STALL_COUNT"),
            ("head_of_queue_life", "PORT_HOQ_LIFE"),
            ("operational_lanes", "PORT_OPER_VLS"),
            ("inbound_enforcement", "PORT_PART_EN_INB"),
            ("outbound_enforcement", "PORT_PART_EN_OUTB"),
            ("filter_raw_inbound", "PORT_FILTER_RAW_INB"),
            ("filter_raw_outbound", "PORT_FILTER_RAW_OUTB"),
            ("management_key_violations", "PORT_MKEY_VIOL"),
            ("partition_key_violations", "PORT_PKEY_VIOL"),
            ("queue_key_violations", "PORT_QKEY_VIOL"),
            ("guid_capacity", "PORT_GUID_CAP"),
            ("client_reregister", "PORT_CLIENT_REREG"),
            ("multicast_trap_suppression", "PORT_MCAST_PKEY_SUPR_ENAB"),
            ("subnet_timeout", "PORT_SUBN_TIMEOUT"),
            ("response_time", "PORT_RESP_TIME_VAL"),
            ("local_physical_errors", "PORT_LOCAL_PHYS_ERR"),
            ("overrun_errors", "PORT_OVERRUN_ERR"),
            ("max_credit_hint", "PORT_MAX_CREDIT_HINT"),
            ("round_trip", "PORT_LINK_ROUND_TRIP"),
            ("capability_mask2", "PORT_CAPMASK2"),
            ("speed_ext_active", "PORT_LINK_SPEED_EXT_ACTIVE"),
            ("speed_ext_supported", "PORT_LINK_SPEED_EXT_SUPPORTED"),
            ("speed_ext_enabled", "PORT_LINK_SPEED_EXT_ENABLED"),
        ],
    );
    add::<sm::PortInfoExtended>(
        &mut pairs,
        0,
        &[
            ("capability_mask", "PORT_EXT_CAPMASK"),
            ("fec_active", "PORT_EXT_FEC_MODE_ACTIVE"),
            ("fdr_fec_supported", "PORT_EXT_FDR_FEC_MODE_SUPPORTED"),
            ("fdr_fec_enabled", "PORT_EXT_FDR_FEC_MODE_ENABLED"),
            ("edr_fec_supported", "PORT_EXT_EDR_FEC_MODE_SUPPORTED"),
            ("edr_fec_enabled", "PORT_EXT_EDR_FEC_MODE_ENABLED"),
        ],
    );
    add::<sm::NodeInfo>(
        &mut pairs,
        0,
        &[
            ("base_version", "NODE_BASE_VERS"),
            ("class_version", "NODE_CLASS_VERS"),
            ("kind", "NODE_TYPE"),
            ("ports", "NODE_NPORTS"),
            ("system_guid", "NODE_SYSTEM_GUID"),
            ("node_guid", "NODE_GUID"),
            ("port_guid", "NODE_PORT_GUID"),
            ("partition_capacity", "NODE_PARTITION_CAP"),
            ("device", "NODE_DEVID"),
            ("revision", "NODE_REVISION"),
            ("local_port", "NODE_LOCAL_PORT"),
            ("vendor", "NODE_VENDORID"),
        ],
    );
    add::<sm::SwitchInfo>(
        &mut pairs,
        0,
        &[
            ("linear_capacity", "SW_LINEAR_FDB_CAP"),
            ("random_capacity", "SW_RANDOM_FDB_CAP"),
            ("multicast_capacity", "SW_MCAST_FDB_CAP"),
            ("linear_top", "SW_LINEAR_FDB_TOP"),
            ("default_port", "SW_DEF_PORT"),
            ("default_multicast_primary", "SW_DEF_MCAST_PRIM"),
            ("default_multicast_other", "SW_DEF_MCAST_NOT_PRIM"),
            ("life_time", "SW_LIFE_TIME"),
            ("state_change", "SW_STATE_CHANGE"),
            ("lids_per_port", "SW_LIDS_PER_PORT"),
            ("optimized_lane_map", "SW_OPT_SLTOVL_MAPPING"),
            ("partition_enforcement", "SW_PARTITION_ENFORCE_CAP"),
            ("inbound_enforcement", "SW_PARTITION_ENF_INB"),
            ("outbound_enforcement", "SW_PARTITION_ENF_OUTB"),
            ("filter_raw_inbound", "SW_FILTER_RAW_INB"),
            ("filter_raw_outbound", "SW_FILTER_RAW_OUTB"),
            ("enhanced_port0", "SW_ENHANCED_PORT0"),
            ("multicast_top", "SW_MCAST_FDB_TOP"),
        ],
    );
    add::<sm::SmInfo>(
        &mut pairs,
        0,
        &[
            ("guid", "SMINFO_GUID"),
            ("key", "SMINFO_KEY"),
            ("activity", "SMINFO_ACT"),
            ("priority", "SMINFO_PRIO"),
            ("state", "SMINFO_STATE"),
        ],
    );
    add::<sm::VendorPortInfo>(
        &mut pairs,
        0,
        &[
            ("change_enable", "MLNX_EXT_PORT_STATE_CHG_ENABLE"),
            ("speed_supported", "MLNX_EXT_PORT_LINK_SPEED_SUPPORTED"),
            ("speed_enabled", "MLNX_EXT_PORT_LINK_SPEED_ENABLED"),
            ("speed_active", "MLNX_EXT_PORT_LINK_SPEED_ACTIVE"),
        ],
    );
    add::<notice::Notice>(
        &mut pairs,
        0,
        &[
            ("generic", "NOTICE_IS_GENERIC"),
            ("severity", "NOTICE_TYPE"),
            ("producer", "NOTICE_PRODUCER"),
            ("number", "NOTICE_TRAP_NUMBER"),
            ("issuer", "NOTICE_ISSUER_LID"),
            ("toggle", "NOTICE_TOGGLE"),
            ("count", "NOTICE_COUNT"),
            ("details", "NOTICE_DATA_DETAILS"),
        ],
    );
    add::<notice::LinkStateDetails>(&mut pairs, 80, &[("lid", "NOTICE_DATA_LID")]);
    add::<notice::CapabilityDetails>(
        &mut pairs,
        80,
        &[("lid", "NOTICE_DATA_144_LID"), ("capability_mask", "NOTICE_DATA_144_CAPMASK")],
    );
    add::<header::ClassPortInfo>(
        &mut pairs,
        0,
        &[
            ("base_version", "CPI_BASEVER"),
            ("class_version", "CPI_CLASSVER"),
            ("capability_mask", "CPI_CAPMASK"),
            ("capability_mask2", "CPI_CAPMASK2"),
            ("response_time", "CPI_RESP_TIME_VALUE"),
            ("redirect_gid", "CPI_REDIRECT_GID"),
            ("redirect_traffic_class", "CPI_REDIRECT_TC"),
            ("redirect_service_level", "CPI_REDIRECT_SL"),
            ("redirect_flow_label", "CPI_REDIRECT_FL"),
            ("redirect_lid", "CPI_REDIRECT_LID"),
            ("redirect_partition", "CPI_REDIRECT_PKEY"),
            ("redirect_queue_pair", "CPI_REDIRECT_QP"),
            ("redirect_queue_key", "CPI_REDIRECT_QKEY"),
            ("trap_gid", "CPI_TRAP_GID"),
            ("trap_traffic_class", "CPI_TRAP_TC"),
            ("trap_service_level", "CPI_TRAP_SL"),
            ("trap_flow_label", "CPI_TRAP_FL"),
            ("trap_lid", "CPI_TRAP_LID"),
            ("trap_partition", "CPI_TRAP_PKEY"),
            ("trap_hop_limit", "CPI_TRAP_HL"),
            ("trap_queue_pair", "CPI_TRAP_QP"),
            ("trap_queue_key", "CPI_TRAP_QKEY"),
        ],
    );
    add::<sa_records::PathRecord>(
        &mut pairs,
        0,
        &[
            ("destination_gid", "SA_PR_DGID"),
            ("source_gid", "SA_PR_SGID"),
            ("destination_lid", "SA_PR_DLID"),
            ("source_lid", "SA_PR_SLID"),
            ("paths", "SA_PR_NPATH"),
            ("service_level", "SA_PR_SL"),
        ],
    );
    add::<sa_records::MultiPathRecord>(
        &mut pairs,
        0,
        &[
            ("paths", "SA_MP_NPATH"),
            ("sources", "SA_MP_NSRC"),
            ("destinations", "SA_MP_NDEST"),
            ("gid", "SA_MP_GID0"),
        ],
    );
    add::<sa_records::GroupMemberRecord>(
        &mut pairs,
        0,
        &[
            ("group_gid", "SA_MCM_MGID"),
            ("port_gid", "SA_MCM_PORTGID"),
            ("queue_key", "SA_MCM_QKEY"),
            ("group_lid", "SA_MCM_MLID"),
            ("service_level", "SA_MCM_SL"),
            ("mtu", "SA_MCM_MTU"),
            ("rate", "SA_MCM_RATE"),
            ("traffic_class", "SA_MCM_TCLASS"),
            ("partition", "SA_MCM_PKEY"),
            ("flow_label", "SA_MCM_FLOW_LABEL"),
            ("join_state", "SA_MCM_JOIN_STATE"),
            ("proxy", "SA_MCM_PROXY_JOIN"),
        ],
    );
    add::<sa_records::ServiceRecord>(
        &mut pairs,
        0,
        &[
            ("id", "SA_SR_ID"),
            ("gid", "SA_SR_GID"),
            ("partition", "SA_SR_PKEY"),
            ("lease", "SA_SR_LEASE"),
            ("key", "SA_SR_KEY"),
            ("name", "SA_SR_NAME"),
        ],
    );
    add::<sa_records::GuidInfoRecord>(&mut pairs, 0, &[("lid", "SA_GIR_LID"), ("block", "SA_GIR_BLOCKNUM")]);
    counters(&mut pairs);
    pairs
}

fn counters(pairs: &mut Vec<Pair>) {
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
            ("lane15_dropped", "PC_VL15_DROPPED"),
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
            ("lane15_dropped", "PC_EXT_VL15_DROPPED"),
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
            ("lane_mapping", "PC_RCV_VL_MAP_ERR"),
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
    add::<pm::LanePackets>(pairs, &[("packets", "PC_PORT_VL_OP_PACKETS0")]);
    add::<pm::LaneData>(pairs, &[("data", "PC_PORT_VL_OP_DATA0")]);
    add::<pm::LaneUpdateErrors>(pairs, &[("errors", "PC_PORT_VL_XMIT_FLOW_CTL_UPDATE_ERRORS0")]);
    add::<pm::LaneWait>(pairs, &[("wait", "PC_PORT_VL_XMIT_WAIT0")]);
    add::<pm::LaneCongestion>(pairs, &[("times", "PC_SW_PORT_VL_CONGESTION0")]);
    add::<pm::CongestionReceived>(
        pairs,
        &[("forward", "PC_RCV_CON_CTRL_PKT_RCV_FECN"), ("backward", "PC_RCV_CON_CTRL_PKT_RCV_BECN")],
    );
    add::<pm::CongestionTime>(pairs, &[("time", "PC_XMIT_CON_CTRL_TIME_CONG")]);
    add::<pm::LaneCongestionTime>(pairs, &[("time", "PC_VL_XMIT_TIME_CONG0")]);
}

#[test]
fn every_field_stands_where_libibmad_has_it() {
    if !std::path::Path::new("/usr/include/infiniband/mad.h").exists() {
        println!("skipped: the headers of libibmad are not installed (package libibmad-dev)");
        return;
    }
    let header = std::fs::read_to_string("/usr/include/infiniband/mad.h").unwrap();
    let pairs = pairs();
    let unknown: Vec<&str> =
        pairs.iter().map(|pair| pair.2).filter(|name| !header.contains(&format!("IB_{name}_F"))).collect();
    assert!(unknown.is_empty(), "the library has no {unknown:?}");
    let folder = std::env::temp_dir().join(format!("tieline-mad-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let probes: String = pairs.iter().map(|pair| format!("probe(\"{0}\", IB_{0}_F);\n", pair.2)).collect();
    std::fs::write(folder.join("fields.inc"), probes).unwrap();
    let mut compiler = Command::new("cc")
        .args(["-x", "c", "-", "-libmad", "-I"])
        .arg(&folder)
        .arg("-o")
        .arg(folder.join("probe"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    compiler.stdin.take().unwrap().write_all(PROGRAM.as_bytes()).unwrap();
    assert!(compiler.wait().unwrap().success());
    let said = Command::new(folder.join("probe")).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8(said.stdout).unwrap();
    let theirs: HashMap<&str, (usize, usize)> = said
        .lines()
        .map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            (words[0], (words[1].parse().unwrap(), words[2].parse().unwrap()))
        })
        .collect();
    let mut wrong = Vec::new();
    for (structure, field, name, start) in &pairs {
        // Strings of bytes are one field there; of rows it has the first.
        let width = if field.width == 8 && field.count > 1 { 8 * field.count } else { field.width };
        let ours = (start + field.bit, width);
        if theirs[name] != ours {
            wrong.push(format!("{structure}.{} is {ours:?}, and {name} {:?}", field.name, theirs[name]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(pairs.len() == 271, "{}", pairs.len());
}

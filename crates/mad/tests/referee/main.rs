//! Where fields stand, by another library's table: `libibmad` is asked bit by bit which of its fields a bit
//! belongs to.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helpers"
)]

use std::collections::HashMap;
use std::io::Write;
use std::process::{Command, Stdio};

use mad::layout::{Field, Layout};
use mad::{header, notice, sa, sa_records, sm};

mod counters;

/// Prints for each field of the library that is named on its input: name, first bit (of 4096), width. Bits
/// are found by decoding a buffer in which one bit is set.
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
            ("vl_capacity", "PORT_VL_CAP"),
            ("init_type", "PORT_INIT_TYPE"),
            ("vl_high_limit", "PORT_VL_HIGH_LIMIT"),
            ("arbitration_high_capacity", "PORT_VL_ARBITRATION_HIGH_CAP"),
            ("arbitration_low_capacity", "PORT_VL_ARBITRATION_LOW_CAP"),
            ("init_type_reply", "PORT_INIT_TYPE_REPLY"),
            ("mtu_capacity", "PORT_MTU_CAP"),
            ("stall_count", "PORT_VL_STALL_COUNT"),
            ("head_of_queue_life", "PORT_HOQ_LIFE"),
            ("operational_vls", "PORT_OPER_VLS"),
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
            ("optimized_vl_map", "SW_OPT_SLTOVL_MAPPING"),
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
    counters::counters(&mut pairs);
    pairs
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

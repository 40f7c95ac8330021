//! Properties that every structure has, whatever its fields are.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helpers"
)]

use mad::layout::Layout;
use mad::{bits, header, notice, pm, sa, sa_records, sm};
use proptest::prelude::*;

/// Each structure once, given to a macro.
macro_rules! all_layouts {
    ($with:ident) => {
        $with!(
            header::MadHeader,
            header::SmpHeader,
            header::ClassPortInfo,
            sm::NodeDescription,
            sm::NodeInfo,
            sm::SwitchInfo,
            sm::GuidInfo,
            sm::PortInfo,
            sm::PortInfoExtended,
            sm::PartitionTable,
            sm::SlToVlMap,
            sm::VlArbitration,
            sm::LinearTable,
            sm::RandomEntry,
            sm::RandomTable,
            sm::MulticastTable,
            sm::SmInfo,
            sm::VendorDiagnostics,
            sm::LedInfo,
            sm::VendorPortInfo,
            notice::Notice,
            notice::IssuedNotice,
            notice::GidDetails,
            notice::LinkStateDetails,
            notice::PortDetails,
            notice::CapabilityDetails,
            notice::SystemGuidDetails,
            notice::ManagementKeyDetails,
            notice::KeyDetails,
            notice::SwitchKeyDetails,
            notice::InformInfo,
            sa::RmppHeader,
            sa::SaHeader,
            sa_records::NodeRecord,
            sa_records::PortInfoRecord,
            sa_records::SlToVlMapRecord,
            sa_records::SwitchInfoRecord,
            sa_records::LinearTableRecord,
            sa_records::RandomTableRecord,
            sa_records::MulticastTableRecord,
            sa_records::VlArbitrationRecord,
            sa_records::SmInfoRecord,
            sa_records::InformInfoRecord,
            sa_records::LinkRecord,
            sa_records::GuidInfoRecord,
            sa_records::ServiceRecord,
            sa_records::PartitionTableRecord,
            sa_records::PathRecord,
            sa_records::GroupMemberRecord,
            sa_records::TraceRecord,
            sa_records::MultiPathRecord,
            sa_records::ServiceAssociationRecord,
            pm::PortCounters,
            pm::PortCountersExtended,
            pm::ReceiveErrorDetails,
            pm::DiscardDetails,
            pm::OperationCounters,
            pm::FlowControlCounters,
            pm::VlPackets,
            pm::VlData,
            pm::VlUpdateErrors,
            pm::VlXmitWait,
            pm::VlCongestion,
            pm::SamplesControl,
            pm::SamplesResult,
            pm::SamplesResultExtended,
            pm::ExtendedSpeedsCounters,
            pm::CongestionReceived,
            pm::ForwardCongestion,
            pm::BackwardCongestion,
            pm::CongestionTime,
            pm::VlCongestionTime,
            pm::LevelSent,
            pm::LevelReceived
        )
    };
}

/// Bits that mean one thing or another: the header's status is also a directed datagram's direction; one
/// error correction counts blocks by VL where another has sums.
fn one_of_two(structure: &str) -> bool {
    matches!(structure, "SmpHeader" | "ExtendedSpeedsCounters")
}

/// Fields lie within their structure and do not overlap; a view is made of enough bytes, and of no fewer.
fn check<T: Layout + std::fmt::Debug>(bytes: &[u8]) {
    let mut taken = vec![false; T::LEN * 8];
    for field in T::FIELDS {
        for bit in &mut taken[field.bit..field.bit + field.width * field.count] {
            let twice = std::mem::replace(bit, true);
            assert!(!twice || one_of_two(T::NAME), "{}: {} overlaps another field", T::NAME, field.name);
        }
    }
    let mut changed = bytes.to_vec();
    match T::view_mut(&mut changed) {
        Ok(view) => {
            assert!(bytes.len() >= T::LEN);
            assert_eq!(view.as_bytes(), &bytes[..T::LEN]);
            let said = format!("{view:?}");
            assert!(T::FIELDS.iter().all(|field| said.contains(field.name)), "{said}");
        }
        Err(short) => assert_eq!((short.needed, short.there), (T::LEN, bytes.len())),
    }
    assert_eq!(T::view(bytes).is_ok(), bytes.len() >= T::LEN);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn every_structure_is_a_view_of_its_bytes(bytes in prop::collection::vec(any::<u8>(), 0..260)) {
        macro_rules! check_all { ($($t:ty),*) => { $( check::<$t>(&bytes); )* } }
        all_layouts!(check_all);
    }

    /// Getters and setters of a few structures against the list of their fields, which is what tests of all
    /// fields go by.
    #[test]
    fn what_is_set_is_got(lid: u16, key: u64, width in 0_u8..16, state in 0_u8..16, enforce: bool, index in 0_usize..40, port: u8) {
        let mut info = sm::PortInfo::default();
        info.set_lid(mad::Lid(lid)).set_management_key(key).set_vl_capacity(width);
        info.set_state(mad::values::PortState(state)).set_inbound_enforcement(enforce);
        prop_assert_eq!((info.lid().0, info.management_key(), info.vl_capacity()), (lid, key, width));
        prop_assert_eq!((info.state().0, info.inbound_enforcement()), (state, enforce));
        prop_assert_eq!(bits::get(zerocopy_bytes(&info), 128, 16), u64::from(lid));
        prop_assert_eq!(info.init_type(), 0);
        let mut table = sm::LinearTable::default();
        prop_assert_eq!(table.set_port(index + 30, port).is_some(), index + 30 < 64);
        prop_assert_eq!(table.port(index + 30), (index + 30 < 64).then_some(port));
    }

    #[test]
    fn texts_survive(text in "\\PC{0,40}") {
        let said = sm::NodeDescription::new(&text).to_text();
        // What may not go to a terminal is replaced, behind the cut.
        let shown = mad::text::plain(&text);
        prop_assert!(shown.starts_with(&said));
        prop_assert!(text.len() > 60 || said == shown);
    }

    /// A directed datagram carries its route, and nothing that comes in instead makes it panic.
    #[test]
    fn routes_survive(ports in prop::collection::vec(any::<u8>(), 0..70), hops: u8) {
        let Some(path) = header::Path::new(&ports) else {
            prop_assert!(ports.len() > header::MAX_HOPS);
            return Ok(());
        };
        let mut mad = header::Smp::directed(mad::values::Method::GET, 0x11, 0, &path);
        prop_assert_eq!(mad.smp().initial_path(), Some(&ports[..]));
        for (hop, port) in (1..).zip(&ports) {
            mad.smp_mut().set_return_port(hop, *port);
        }
        prop_assert_eq!(mad.smp().return_path(), Some(&ports[..]));
        mad.smp_mut().header_mut().set_hop_count(hops);
        prop_assert_eq!(mad.smp().initial_path().is_some(), usize::from(hops) <= header::MAX_HOPS);
    }
}

fn zerocopy_bytes(info: &sm::PortInfo) -> &[u8] {
    zerocopy::IntoBytes::as_bytes(info)
}

#[test]
fn records_are_cut_by_their_size() {
    let bytes = [7; 250];
    assert_eq!(sa::records::<sa_records::LinkRecord>(&bytes, 1).count(), 31);
    assert_eq!(sa::records::<sa_records::NodeRecord>(&bytes, 14).count(), 2);
    assert_eq!(sa::records::<sa_records::NodeRecord>(&bytes, 13).count(), 0);
    assert_eq!(sa::records::<sa_records::NodeRecord>(&bytes, 0).count(), 0);
}

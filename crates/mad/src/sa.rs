//! Subnet administration: header with the fields of multi-packet transfers, and numbers. Records are in
//! [`sa_records`](crate::sa_records).

use crate::header::{MAD_LEN, Mad, MadHeader};
use crate::layout::Layout;
use crate::values::{Class, Method};

/// Where the record begins.
pub const DATA_AT: usize = 56;
/// Bytes of a record, or of a segment of a table.
pub const DATA_LEN: usize = MAD_LEN - DATA_AT;

/// Numbers of the attributes.
pub mod attribute {
    /// [`ClassPortInfo`](crate::header::ClassPortInfo).
    pub const CLASS_PORT_INFO: u16 = 0x01;
    /// [`IssuedNotice`](crate::notice::IssuedNotice).
    pub const NOTICE: u16 = 0x02;
    /// [`InformInfo`](crate::notice::InformInfo).
    pub const INFORM_INFO: u16 = 0x03;
    /// [`NodeRecord`](crate::sa_records::NodeRecord).
    pub const NODE: u16 = 0x11;
    /// [`PortInfoRecord`](crate::sa_records::PortInfoRecord).
    pub const PORT_INFO: u16 = 0x12;
    /// [`SlToVlMapRecord`](crate::sa_records::SlToVlMapRecord).
    pub const SL_TO_VL_MAP: u16 = 0x13;
    /// [`SwitchInfoRecord`](crate::sa_records::SwitchInfoRecord).
    pub const SWITCH_INFO: u16 = 0x14;
    /// [`LinearTableRecord`](crate::sa_records::LinearTableRecord).
    pub const LINEAR_TABLE: u16 = 0x15;
    /// [`RandomTableRecord`](crate::sa_records::RandomTableRecord).
    pub const RANDOM_TABLE: u16 = 0x16;
    /// [`MulticastTableRecord`](crate::sa_records::MulticastTableRecord).
    pub const MULTICAST_TABLE: u16 = 0x17;
    /// [`SmInfoRecord`](crate::sa_records::SmInfoRecord).
    pub const SM_INFO: u16 = 0x18;
    /// [`LinkRecord`](crate::sa_records::LinkRecord).
    pub const LINK: u16 = 0x20;
    /// [`GuidInfoRecord`](crate::sa_records::GuidInfoRecord).
    pub const GUID_INFO: u16 = 0x30;
    /// [`ServiceRecord`](crate::sa_records::ServiceRecord).
    pub const SERVICE: u16 = 0x31;
    /// [`PartitionTableRecord`](crate::sa_records::PartitionTableRecord).
    pub const PARTITION_TABLE: u16 = 0x33;
    /// [`PathRecord`](crate::sa_records::PathRecord).
    pub const PATH: u16 = 0x35;
    /// [`VlArbitrationRecord`](crate::sa_records::VlArbitrationRecord).
    pub const VL_ARBITRATION: u16 = 0x36;
    /// [`GroupMemberRecord`](crate::sa_records::GroupMemberRecord).
    pub const GROUP_MEMBER: u16 = 0x38;
    /// [`TraceRecord`](crate::sa_records::TraceRecord).
    pub const TRACE: u16 = 0x39;
    /// [`MultiPathRecord`](crate::sa_records::MultiPathRecord).
    pub const MULTI_PATH: u16 = 0x3a;
    /// [`ServiceAssociationRecord`](crate::sa_records::ServiceAssociationRecord).
    pub const SERVICE_ASSOCIATION: u16 = 0x3b;
    /// [`InformInfoRecord`](crate::sa_records::InformInfoRecord).
    pub const INFORM_INFO_RECORD: u16 = 0xf3;
}

layout! {
    /// Header of a multi-packet transfer, behind the common one.
    struct RmppHeader: 12 {
        /// 1; zero where the datagram is alone.
        version, set_version: u8 = 0 + 8;
        /// [`RmppKind`].
        kind, set_kind: u8 = 8 + 8;
        /// Longest time until a response: 4.096 µs times two to this power; 31 is not known.
        response_time, set_response_time: u8 = 16 + 5;
        /// Set of [`rmpp_flag`].
        flags, set_flags: u8 = 21 + 3;
        /// Why a transfer stopped or was given up.
        status, set_status: u8 = 24 + 8;
        /// Which segment, from 1; in an acknowledgement the last one that came.
        segment, set_segment: u32 = 32 + 32;
        /// Bytes of the transfer in the first segment, bytes of the last in the last; in an acknowledgement
        /// the last segment that may be sent.
        length, set_length: u32 = 64 + 32;
    }

    /// Header of subnet administration.
    struct SaHeader: 56 {
        /// Key that only trusted askers know.
        key, set_key: u64 = 288 + 64;
        /// From one record to the next, in units of eight bytes.
        record_size, set_record_size: u16 = 352 + 16;
        /// Which fields of the record are asked for: bit 0 is the first.
        component_mask, set_component_mask: u64 = 384 + 64;
        @inner /// The header that all classes share.
        mad, mad_mut: MadHeader = 0;
        @inner /// The multi-packet transfer.
        rmpp, rmpp_mut: RmppHeader = 24;
    }
}

/// Values of [`RmppHeader::kind`].
pub struct RmppKind;

impl RmppKind {
    /// A segment.
    pub const DATA: u8 = 1;
    /// Segments have come.
    pub const ACK: u8 = 2;
    /// Stop: the receiver lacks resources.
    pub const STOP: u8 = 3;
    /// Given up.
    pub const ABORT: u8 = 4;
}

/// Bits of [`RmppHeader::flags`].
pub mod rmpp_flag {
    /// The header is valid.
    pub const ACTIVE: u8 = 1;
    /// First segment.
    pub const FIRST: u8 = 2;
    /// Last segment.
    pub const LAST: u8 = 4;
}

/// A request to subnet administration.
#[must_use]
pub fn question<T: Layout>(method: Method, attribute: u16, record: &T, component_mask: u64) -> Mad {
    const { assert!(size_of::<T>() <= DATA_LEN) };
    let mut mad = Mad::new(Class::ADMINISTRATION, method, attribute, 0);
    header_mut(&mut mad).set_component_mask(component_mask);
    mad.0[DATA_AT..DATA_AT + T::LEN].copy_from_slice(record.as_bytes());
    mad
}

/// The header of a datagram of subnet administration.
#[must_use]
pub fn header(mad: &Mad) -> &SaHeader {
    mad.at::<0, _>()
}

/// The header of a datagram of subnet administration, to be changed.
#[must_use]
pub fn header_mut(mad: &mut Mad) -> &mut SaHeader {
    mad.at_mut::<0, _>()
}

/// The records of a response: `bytes` in steps of the header's record size; what is left over at the end is
/// dropped.
pub fn records<T: Layout + 'static>(bytes: &[u8], record_size: u16) -> impl Iterator<Item = &T> {
    let step = usize::from(record_size) * 8;
    bytes.chunks(step.max(1)).filter(move |_| step >= T::LEN).filter_map(|chunk| T::view(chunk).ok())
}

//! The header of a datagram, and the class-specific part before its attribute.

use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::layout::{Layout, TooShort};
use crate::values::{Class, Lid, Method, Status};

/// Bytes of every datagram.
pub const MAD_LEN: usize = 256;
/// Where the attribute of a subnet-management or performance datagram begins.
pub const DATA_AT: usize = 64;
/// Hops of the longest directed route.
pub const MAX_HOPS: usize = 63;
/// Attribute of every class but subnet management: what the agent can do, and where it redirects requests.
pub const CLASS_PORT_INFO: u16 = 0x01;

layout! {
    /// The header that all classes share.
    struct MadHeader: 24 {
        /// Version of the format; 1.
        base_version, set_base_version: u8 = 0 + 8;
        /// Management class.
        class, set_class: Class = 8 + 8;
        /// Version of the class: 1, and 2 for subnet administration.
        class_version, set_class_version: u8 = 16 + 8;
        /// The method.
        method, set_method: Method = 24 + 8;
        /// Status of a response; its first bit is the direction of a directed datagram.
        status, set_status: Status = 32 + 16;
        /// Defined by the class.
        class_specific, set_class_specific: u16 = 48 + 16;
        /// Number that a response has in common with its request. The upper half may be assigned by the agent
        /// in between, and not by the sender.
        transaction, set_transaction: u64 = 64 + 64;
        /// The attribute.
        attribute, set_attribute: u16 = 128 + 16;
        /// The attribute modifier.
        modifier, set_modifier: u32 = 160 + 32;
    }

    /// Header of a subnet-management datagram, with the fields of those that are directed.
    struct SmpHeader: 64 {
        /// The direction bit: whether it is a response on its path back.
        returning, set_returning: bool = 32 + 1;
        /// Status without the direction.
        status, set_status: Status = 33 + 15;
        /// The hop pointer: the hops done.
        hop_pointer, set_hop_pointer: u8 = 48 + 8;
        /// Hops of its route.
        hop_count, set_hop_count: u8 = 56 + 8;
        /// M_Key: the management key.
        management_key, set_management_key: u64 = 192 + 64;
        /// Where the LID-routed part before the directed one begins; permissive where there is none.
        directed_source, set_directed_source: Lid = 256 + 16;
        /// Where the LID-routed part behind the directed one ends; permissive where there is none.
        directed_destination, set_directed_destination: Lid = 272 + 16;
        @inner /// The header that all classes share.
        mad, mad_mut: MadHeader = 0;
    }

    /// What describes the agent of a class.
    struct ClassPortInfo: 72 {
        /// Base version that it speaks.
        base_version, set_base_version: u8 = 0 + 8;
        /// Class version that it speaks.
        class_version, set_class_version: u8 = 8 + 8;
        /// What it can do.
        capability_mask, set_capability_mask: u16 = 16 + 16;
        /// What else it can do.
        capability_mask2, set_capability_mask2: u32 = 32 + 27;
        /// Longest time until a response: 4.096 µs times two to this power.
        response_time, set_response_time: u8 = 59 + 5;
        /// Redirection: the traffic class of the agent to ask instead.
        redirect_traffic_class, set_redirect_traffic_class: u8 = 192 + 8;
        /// Redirection: the service level of the agent to ask instead.
        redirect_service_level, set_redirect_service_level: u8 = 200 + 4;
        /// Redirection: the flow label of the agent to ask instead.
        redirect_flow_label, set_redirect_flow_label: u32 = 204 + 20;
        /// Redirection: the LID of the agent to ask instead. Zero if there is none.
        redirect_lid, set_redirect_lid: Lid = 224 + 16;
        /// Redirection: the partition key of the agent to ask instead.
        redirect_partition, set_redirect_partition: u16 = 240 + 16;
        /// Redirection: the queue pair of the agent to ask instead.
        redirect_queue_pair, set_redirect_queue_pair: u32 = 264 + 24;
        /// Redirection: the queue key of the agent to ask instead.
        redirect_queue_key, set_redirect_queue_key: u32 = 288 + 32;
        /// The traffic class of the manager that gets traps.
        trap_traffic_class, set_trap_traffic_class: u8 = 448 + 8;
        /// The service level of the manager that gets traps.
        trap_service_level, set_trap_service_level: u8 = 456 + 4;
        /// The flow label of the manager that gets traps.
        trap_flow_label, set_trap_flow_label: u32 = 460 + 20;
        /// The LID of the manager that gets traps.
        trap_lid, set_trap_lid: Lid = 480 + 16;
        /// The partition key of the manager that gets traps.
        trap_partition, set_trap_partition: u16 = 496 + 16;
        /// The hop limit of the manager that gets traps.
        trap_hop_limit, set_trap_hop_limit: u8 = 512 + 8;
        /// The queue pair of the manager that gets traps.
        trap_queue_pair, set_trap_queue_pair: u32 = 520 + 24;
        /// The queue key of the manager that gets traps.
        trap_queue_key, set_trap_queue_key: u32 = 544 + 32;
        @bytes /// Redirection: the GID of the agent to ask instead.
        redirect_gid, set_redirect_gid = 8 + 16;
        @bytes /// The GID of the manager that gets traps.
        trap_gid, set_trap_gid = 40 + 16;
    }
}

/// One datagram of any class.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct Mad(pub [u8; MAD_LEN]);

impl Mad {
    /// All zero but the header's versions, class, method, attribute and its part.
    #[must_use]
    pub fn new(class: Class, method: Method, attribute: u16, modifier: u32) -> Self {
        let mut mad = Self([0; MAD_LEN]);
        let version = if class == Class::ADMINISTRATION { 2 } else { 1 };
        mad.header_mut()
            .set_base_version(1)
            .set_class(class)
            .set_class_version(version)
            .set_method(method)
            .set_attribute(attribute)
            .set_modifier(modifier);
        mad
    }

    /// The datagram in the first 256 of `bytes`.
    ///
    /// # Errors
    /// [`TooShort`] where there are fewer.
    pub fn view(bytes: &[u8]) -> Result<&Self, TooShort> {
        Self::ref_from_prefix(bytes).map(|(mad, _)| mad).map_err(|_| TooShort {
            what: "datagram",
            needed: MAD_LEN,
            there: bytes.len(),
        })
    }

    /// The structure at byte `AT`.
    #[inline]
    #[must_use]
    pub fn at<const AT: usize, T: Layout>(&self) -> &T {
        const { assert!(AT + size_of::<T>() <= MAD_LEN) };
        match T::view(&self.0[AT..]) {
            Ok(view) => view,
            Err(_) => unreachable!(),
        }
    }

    /// The structure at byte `AT`, to be changed.
    #[inline]
    #[must_use]
    pub fn at_mut<const AT: usize, T: Layout>(&mut self) -> &mut T {
        const { assert!(AT + size_of::<T>() <= MAD_LEN) };
        match T::view_mut(&mut self.0[AT..]) {
            Ok(view) => view,
            Err(_) => unreachable!(),
        }
    }

    /// The header.
    #[inline]
    #[must_use]
    pub fn header(&self) -> &MadHeader {
        self.at::<0, _>()
    }

    /// The header, to be changed.
    #[inline]
    #[must_use]
    pub fn header_mut(&mut self) -> &mut MadHeader {
        self.at_mut::<0, _>()
    }

    /// The attribute of a subnet-management or performance datagram.
    #[inline]
    #[must_use]
    pub fn data<T: Layout>(&self) -> &T {
        self.at::<DATA_AT, T>()
    }

    /// The attribute of a subnet-management or performance datagram, to be changed.
    #[inline]
    #[must_use]
    pub fn data_mut<T: Layout>(&mut self) -> &mut T {
        self.at_mut::<DATA_AT, T>()
    }

    /// The same bytes, as a subnet-management datagram.
    #[inline]
    #[must_use]
    pub fn smp(&self) -> &Smp {
        Smp::of(self)
    }

    /// The same bytes, as a subnet-management datagram to be changed.
    #[inline]
    #[must_use]
    pub fn smp_mut(&mut self) -> &mut Smp {
        Smp::of_mut(self)
    }
}

impl std::fmt::Debug for Mad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.header().fmt(f)
    }
}

/// The path of a directed datagram: the port to leave by, at each node.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path {
    hops: u8,
    ports: [u8; MAX_HOPS],
}

impl Path {
    /// To the node that asks.
    pub const LOCAL: Self = Self { hops: 0, ports: [0; MAX_HOPS] };

    /// Leaves by these ports in turn; `None` where they are more than [`MAX_HOPS`].
    #[must_use]
    pub fn new(ports: &[u8]) -> Option<Self> {
        let mut path = Self::LOCAL;
        path.ports.get_mut(..ports.len())?.copy_from_slice(ports);
        path.hops = ports.len() as u8;
        Some(path)
    }

    /// One hop further; `None` at the longest.
    #[must_use]
    pub fn then(mut self, port: u8) -> Option<Self> {
        *self.ports.get_mut(usize::from(self.hops))? = port;
        self.hops += 1;
        Some(self)
    }

    /// The ports to leave by.
    #[must_use]
    pub fn ports(&self) -> &[u8] {
        self.ports.get(..usize::from(self.hops)).unwrap_or_default()
    }

    /// Number of hops.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hops.into()
    }

    /// Is it the asking node itself?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hops == 0
    }
}

impl std::fmt::Display for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("0")?;
        self.ports().iter().try_for_each(|port| write!(f, ",{port}"))
    }
}

impl std::fmt::Debug for Path {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// A subnet-management datagram, LID-routed or directed.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(transparent)]
pub struct Smp(pub [u8; MAD_LEN]);

/// The offset of the initial path: ports to leave by; the first is not used.
const INITIAL_PATH_AT: usize = 128;
/// The offset of the return path: ports that were entered by; the first is not used.
const RETURN_PATH_AT: usize = 192;

impl Smp {
    /// A directed datagram that is about to leave.
    #[must_use]
    pub fn directed(method: Method, attribute: u16, modifier: u32, path: &Path) -> Mad {
        let mut mad = Mad::new(Class::DIRECTED, method, attribute, modifier);
        let smp = mad.smp_mut();
        smp.header_mut()
            .set_hop_count(path.hops)
            .set_directed_source(Lid::PERMISSIVE)
            .set_directed_destination(Lid::PERMISSIVE);
        smp.0[INITIAL_PATH_AT + 1..=INITIAL_PATH_AT + MAX_HOPS].copy_from_slice(&path.ports);
        mad
    }

    /// A datagram as one of subnet management.
    #[inline]
    #[must_use]
    pub fn of(mad: &Mad) -> &Self {
        zerocopy::transmute_ref!(mad)
    }

    /// A datagram as one of subnet management, to be changed.
    #[inline]
    #[must_use]
    pub fn of_mut(mad: &mut Mad) -> &mut Self {
        zerocopy::transmute_mut!(mad)
    }

    /// Its header with the fields of directed ones.
    #[inline]
    #[must_use]
    pub fn header(&self) -> &SmpHeader {
        match SmpHeader::view(&self.0) {
            Ok(view) => view,
            Err(_) => unreachable!(),
        }
    }

    /// Its header with the fields of directed ones, to be changed.
    #[inline]
    #[must_use]
    pub fn header_mut(&mut self) -> &mut SmpHeader {
        match SmpHeader::view_mut(&mut self.0) {
            Ok(view) => view,
            Err(_) => unreachable!(),
        }
    }

    /// The ports to leave by; `None` where the count of hops is more than a route can have.
    #[must_use]
    pub fn initial_path(&self) -> Option<&[u8]> {
        self.path_at(INITIAL_PATH_AT)
    }

    /// The ports that were entered by; `None` where the count of hops is more than a route can have.
    #[must_use]
    pub fn return_path(&self) -> Option<&[u8]> {
        self.path_at(RETURN_PATH_AT)
    }

    fn path_at(&self, at: usize) -> Option<&[u8]> {
        let hops = usize::from(self.header().hop_count());
        if hops > MAX_HOPS { None } else { self.0.get(at + 1..=at + hops) }
    }

    /// Writes the port that hop `hop` (1 is the first) was entered by; beyond the longest route nothing.
    pub fn set_return_port(&mut self, hop: usize, port: u8) {
        if let (1..=MAX_HOPS, Some(slot)) = (hop, self.0.get_mut(RETURN_PATH_AT + hop)) {
            *slot = port;
        }
    }
}

impl std::fmt::Debug for Smp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.header().fmt(f)
    }
}

/// Is it a response to a directed or LID-routed request that was refused, and why? `None`: it was done.
#[must_use]
pub fn refusal(mad: &Mad) -> Option<Status> {
    let directed = mad.header().class() == Class::DIRECTED;
    let status = if directed { mad.smp().header().status() } else { mad.header().status() };
    (status != Status::OK).then_some(status)
}

/// A datagram of zeros, for those who fill it from a socket.
#[must_use]
pub fn blank() -> Mad {
    Mad::new_zeroed()
}

//! The socket protocol of the fabric simulator `ibsim`, as its programs speak it (its source,
//! `include/ibsim.h` and `umad2sim/sim_client.c`, is the only description): names, control messages and
//! packets.
//!
//! Abstract datagram sockets on one machine. A client binds `BASE:ctlPID` and `BASE:inPID`, asks for a
//! connection at `BASE:ctl`, and gets a number; its datagrams then go to `BASE:outNUMBER` and come to
//! `BASE:inPID`. Names end with a zero byte that counts. Numbers are in the machine's byte order unless said
//! otherwise.

pub mod client;

pub use client::IbsimTransport;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::header::{MAD_LEN, Mad};

/// The base of names that programs use without the variable [`BASE_VARIABLE`].
pub const DEFAULT_BASE: &str = "sim";
/// The variable by which programs of that protocol choose another base.
pub const BASE_VARIABLE: &str = "IBSIM_SOCKNAME";
/// First number of each control message.
pub const MAGIC: u32 = 0xdead_beef;
/// Data of a control message, in bytes.
pub const CONTROL_DATA: usize = 64;

/// Name of the server's control socket.
#[must_use]
pub fn control_name(base: &str) -> Vec<u8> {
    format!("{base}:ctl\0").into_bytes()
}

/// Name of a client's control socket.
#[must_use]
pub fn client_control_name(base: &str, process: u32) -> Vec<u8> {
    format!("{base}:ctl{process}\0").into_bytes()
}

/// Name of the socket at which a client's datagrams arrive.
#[must_use]
pub fn inward_name(base: &str, process: u32) -> Vec<u8> {
    format!("{base}:in{process}\0").into_bytes()
}

/// Name of the server's socket for one client.
#[must_use]
pub fn outward_name(base: &str, client: u32) -> Vec<u8> {
    format!("{base}:out{client}\0").into_bytes()
}

/// What a control message is about.
pub mod control {
    /// Answer: no.
    pub const ERROR: u32 = 0;
    /// Connect; data is a [`ClientInfo`](super::ClientInfo).
    pub const CONNECT: u32 = 1;
    /// Disconnect.
    pub const DISCONNECT: u32 = 2;
    /// LID and state of the port.
    pub const PORT: u32 = 3;
    /// Vendor of the node.
    pub const VENDOR: u32 = 4;
    /// GID of the port.
    pub const GID: u32 = 5;
    /// GUID of the node.
    pub const GUID: u32 = 6;
    /// NodeInfo of the node.
    pub const NODE_INFO: u32 = 7;
    /// PortInfo of a port; the first byte asks which, 0 for the one that the client is at.
    pub const PORT_INFO: u32 = 8;
    /// A subnet manager begins or ends; data is a number.
    pub const SET_IS_SM: u32 = 9;
    /// The first block of partition keys.
    pub const PARTITIONS: u32 = 10;

    /// What a message asks for, as people read it.
    pub(super) const fn name(kind: u32) -> &'static str {
        match kind {
            CONNECT => "to connect",
            DISCONNECT => "to disconnect",
            PORT => "for the LID and state of the port",
            VENDOR => "for the vendor of the node",
            GID => "for the GID of the port",
            GUID => "for the GUID of the node",
            NODE_INFO => "for NodeInfo",
            PORT_INFO => "for PortInfo",
            SET_IS_SM => "to be a subnet manager",
            PARTITIONS => "for the partition keys",
            _ => "of an unknown kind",
        }
    }
}

/// A control message: 80 bytes.
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Control {
    /// [`MAGIC`].
    pub magic: u32,
    /// The client's number; in a [`control::CONNECT`] nothing.
    pub client: u32,
    /// [`control`].
    pub kind: u32,
    /// Bytes of data that count.
    pub len: u32,
    /// The data.
    pub data: [u8; CONTROL_DATA],
}

/// Data of a [`control::CONNECT`].
#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ClientInfo {
    /// The client's process; in the response its number.
    pub id: [u8; 4],
    /// Queue; 0.
    pub queue_pair: [u8; 4],
    /// Is it a subnet manager?
    pub is_sm: [u8; 4],
    /// Name of the node to be at; empty: any.
    pub node: [u8; 32],
}

impl ClientInfo {
    /// From the data of a control message.
    ///
    /// # Errors
    /// Too few bytes.
    pub fn read(data: &[u8]) -> Result<Self, crate::layout::TooShort> {
        Self::read_from_prefix(data).map(|(info, _)| info).map_err(|_| crate::layout::TooShort {
            what: "client",
            needed: size_of::<Self>(),
            there: data.len(),
        })
    }

    /// The name of the node to be at.
    #[must_use]
    pub fn node_name(&self) -> String {
        let bytes = self.node.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Writes the response: the client's number, and the node where it is (as much of its name as fits).
    pub fn answer(mut self, client: u32, node: &str, data: &mut [u8; CONTROL_DATA]) {
        self.id = client.to_ne_bytes();
        self.node = [0; 32];
        let mut end = node.len().min(31);
        while !node.is_char_boundary(end) {
            end -= 1;
        }
        self.node[..end].copy_from_slice(&node.as_bytes()[..end]);
        data[..size_of::<Self>()].copy_from_slice(self.as_bytes());
    }
}

/// A packet: 288 bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Packet {
    /// LID of the destination, big-endian in the low half.
    pub to_lid: u32,
    /// LID of the source, big-endian in the low half; 0 is the client's own.
    pub from_lid: u32,
    /// Queue of the destination, big-endian.
    pub to_queue_pair: u32,
    /// Queue of the source, big-endian.
    pub from_queue_pair: u32,
    /// Zero, or the system's error number for what could not be delivered, big-endian.
    pub status: u32,
    pad: u32,
    /// Bytes of the datagram, big-endian.
    pub len: u64,
    /// The datagram.
    pub mad: [u8; MAD_LEN],
}

impl Packet {
    /// A packet about to be sent.
    #[must_use]
    pub fn new(mad: &Mad) -> Self {
        Self {
            to_lid: 0,
            from_lid: 0,
            to_queue_pair: 0,
            from_queue_pair: 0,
            status: 0,
            pad: 0,
            len: (MAD_LEN as u64).to_be(),
            mad: mad.0,
        }
    }
}

/// A LID as a packet has it.
#[must_use]
pub fn lid_to_wire(lid: crate::Lid) -> u32 {
    u32::from(lid.0.to_be())
}

/// A LID of a packet.
#[must_use]
pub fn lid_from_wire(lid: u32) -> crate::Lid {
    crate::Lid(u16::from_be(lid as u16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_protocol() {
        assert_eq!((size_of::<Control>(), size_of::<Packet>(), size_of::<ClientInfo>()), (80, 288, 44));
        assert_eq!(std::mem::offset_of!(Packet, mad), 32);
        assert_eq!(control_name("sim"), b"sim:ctl\0");
    }
}

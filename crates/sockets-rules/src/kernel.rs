//! TCP connections as the kernel reports them through sock_diag(7): their ends, and their counters.

use std::io;
use std::net::SocketAddr;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_sock_diag::SockDiagMessage;
use netlink_packet_sock_diag::constants::{AF_INET, AF_INET6, IPPROTO_TCP};
use netlink_packet_sock_diag::inet::nlas::Nla;
use netlink_packet_sock_diag::inet::{ExtensionFlags, InetRequest, InetResponse, SocketId, StateFlags};
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr as NetlinkAddress};

use crate::tcp_info;

/// Room for an answer; the kernel makes none that is longer.
const ANSWER_BYTES: usize = 64 << 10;

/// A connection in the reader's own network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connection {
    /// Its socket's cookie.
    pub cookie: u64,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// Bytes that have come, and bytes that were given to be sent; none from a kernel that does not count
    /// them.
    pub bytes: Option<(u64, u64)>,
}

/// All connections of TCP, over IPv4 and IPv6, and all sockets that listen.
pub fn connections() -> io::Result<Vec<Connection>> {
    let mut all = Vec::new();
    for (family, any) in [(AF_INET, SocketId::new_v4()), (AF_INET6, SocketId::new_v6())] {
        dump(family, any, &mut all)?;
    }
    Ok(all)
}

fn dump(family: u8, socket_id: SocketId, all: &mut Vec<Connection>) -> io::Result<()> {
    let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
    socket.bind_auto()?;
    socket.connect(&NetlinkAddress::new(0, 0))?;
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    let request = InetRequest {
        family,
        protocol: IPPROTO_TCP,
        extensions: ExtensionFlags::INFO,
        // One that waits for late packets belongs to no process any more.
        states: StateFlags::all() - StateFlags::TIME_WAIT,
        socket_id,
    };
    let mut message = NetlinkMessage::new(header, SockDiagMessage::InetRequest(request).into());
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut answer = Vec::with_capacity(ANSWER_BYTES);
    loop {
        answer.clear();
        socket.recv(&mut answer, 0)?;
        let mut rest = &*answer;
        while !rest.is_empty() {
            let message = NetlinkMessage::<SockDiagMessage>::deserialize(rest).map_err(io::Error::other)?;
            match message.payload {
                NetlinkPayload::Done(_) => return Ok(()),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                NetlinkPayload::InnerMessage(SockDiagMessage::InetResponse(it)) => all.push(connection(&it)),
                _ => {}
            }
            // Each begins on a multiple of four bytes.
            let length = (message.header.length as usize).next_multiple_of(4).max(4);
            rest = rest.get(length..).unwrap_or(&[]);
        }
    }
}

fn connection(response: &InetResponse) -> Connection {
    let id = &response.header.socket_id;
    let bytes = response.nlas.iter().find_map(|nla| match nla {
        Nla::TcpInfo(info) => tcp_info::bytes(info),
        _ => None,
    });
    Connection {
        cookie: u64::from_ne_bytes(id.cookie),
        local: SocketAddr::new(id.source_address, id.source_port),
        remote: SocketAddr::new(id.destination_address, id.destination_port),
        bytes,
    }
}

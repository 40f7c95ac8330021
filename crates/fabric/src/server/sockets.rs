//! The sockets of the protocol.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with, sockopt};

/// Bytes that a client's datagrams may take up before they are read.
const BUFFER: usize = 1 << 20;

/// A datagram socket of this name, which never waits.
pub(super) fn bound(name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    // More room means fewer datagrams lost; less does no harm.
    let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER);
    bind(&socket, &SocketAddrUnix::new_abstract_name(name)?)?;
    Ok(socket)
}

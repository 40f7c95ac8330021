//! The sockets of the protocol.

use foreign::{Closer, Inbox};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, socket_with, sockopt};
use rustix::process::geteuid;

/// Bytes that a client's datagrams may take up before they are read.
const BUFFER: usize = 1 << 20;

/// A datagram socket of this name, which never waits.
pub(super) fn bound(name: &[u8], closer: &Closer) -> Result<Inbox, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
    // More room means fewer datagrams lost; less does no harm.
    let _ = sockopt::set_socket_send_buffer_size(&socket, BUFFER);
    // Before it has a name: anybody of this network namespace can send to it.
    let inbox = Inbox::new(socket, geteuid().as_raw(), closer);
    bind(&inbox, &SocketAddrUnix::new_abstract_name(name)?)?;
    Ok(inbox)
}

//! Whole frames of a network interface, with what the kernel leaves undone of them (packet(7)).

use core::ffi::CStr;

use rustix::fd::{AsRawFd, FromRawFd, OwnedFd};
use rustix::io::Errno;

/// Every frame begins with a `struct virtio_net_hdr` of so many bytes: where a checksum has to go, and how
/// long the packets are into which the frame will be cut. It must stand in front of a frame that is sent,
/// too.
pub const HEADER_BYTES: usize = 10;

/// Socket option: frames have that header. Linux 2.6.27.
const PACKET_VNET_HDR: libc::c_int = 15;
/// Socket option: what leaves through the interface is not received. Linux 4.20.
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;

/// A socket that receives every frame that arrives at an interface of this thread's network, and sends frames
/// through it. It does not wait. Needs CAP_NET_RAW.
///
/// # Errors
/// The error of the kernel: `NODEV` if there is no such interface, `PERM` without the right.
pub fn open(interface: &CStr) -> Result<OwnedFd, Errno> {
    // SAFETY: the pointer leads to a string that ends with 0.
    let index = unsafe { libc::if_nametoindex(interface.as_ptr()) };
    if index == 0 {
        return Err(last_error());
    }
    // Of no protocol yet: nothing is received before it is bound to the interface.
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes no pointer.
    let made = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    if made < 0 {
        return Err(last_error());
    }
    // SAFETY: the kernel has just made this descriptor for the caller, and nobody else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(made) };
    for option in [PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING] {
        set(&socket, option)?;
    }
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
        sll_ifindex: index.cast_signed(),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let bytes = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the pointer leads to an address of this frame, of the size that is said.
    match unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), bytes) } {
        0 => Ok(socket),
        _ => Err(last_error()),
    }
}

fn set(socket: &OwnedFd, option: libc::c_int) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    let bytes = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the pointer leads to a value of this frame, of the size that is said.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_PACKET, option, (&raw const on).cast(), bytes)
    };
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

fn last_error() -> Errno {
    // SAFETY: it is this thread's own error number, which the call has just set.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

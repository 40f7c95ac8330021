//! Addresses of a connection's ends, in one form for IPv4 and IPv6.

use libc::{c_int, c_long};

use crate::raw;

/// An address and a port, in the order of the network. Those of IPv4 are in their form for IPv6.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) ip: [u8; 16],
    pub(crate) port: [u8; 2],
}

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// Byte by byte: a copy of slices would be the C library's.
fn put(to: &mut [u8], from: &[u8]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

impl Address {
    pub(crate) fn own(fd: c_int) -> Option<Self> {
        Self::ask(fd, libc::SYS_getsockname)
    }

    pub(crate) fn peer(fd: c_int) -> Option<Self> {
        Self::ask(fd, libc::SYS_getpeername)
    }

    fn ask(fd: c_int, call: c_long) -> Option<Self> {
        let mut bytes = [0_u8; 28];
        let mut length: u32 = 28;
        // SAFETY: room of the length that is said.
        let result = unsafe {
            raw::call(call, [fd as usize, bytes.as_mut_ptr() as usize, (&raw mut length) as usize, 0, 0, 0])
        };
        if result != 0 {
            return None;
        }
        let port = [bytes[2], bytes[3]];
        let mut ip = [0; 16];
        match c_int::from(u16::from_ne_bytes([bytes[0], bytes[1]])) {
            libc::AF_INET => {
                put(&mut ip, &MAPPED);
                put(&mut ip[12..], &bytes[4..8]);
            }
            libc::AF_INET6 => {
                put(&mut ip, &bytes[8..24]);
            }
            _ => return None,
        }
        Some(Self { ip, port })
    }

    /// The four bytes of an address of IPv4.
    pub(crate) fn of_four(&self) -> Option<[u8; 4]> {
        let is_mapped = self.ip.iter().zip(MAPPED).all(|(&byte, mapped)| byte == mapped);
        is_mapped.then_some([self.ip[12], self.ip[13], self.ip[14], self.ip[15]])
    }
}

//! What the kernel says of the TCP connections to a peer: how many bytes its host has acknowledged and sent.
//!
//! libfabric reports an operation when it has ended, and not how far it has come. Over a slow network a block
//! takes longer than a rail that works may be silent: these numbers tell the two apart. They come from
//! `tcp_info` (`linux/tcp.h`, `tcp(7)`). Providers that have no sockets have no numbers.

use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::time::Duration;

use libc::{c_int, c_void, socklen_t};

/// Offsets in `struct tcp_info`, which only ever grows at its end.
const RTT_AT: usize = 68;
const RTTVAR_AT: usize = 72;
const BYTES_ACKED_AT: usize = 120;
const BYTES_RECEIVED_AT: usize = 128;
const INFO_BYTES: usize = BYTES_RECEIVED_AT + 8;

/// Of all connections to one address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Those that the other host has acknowledged, and those that have come from it.
    pub(crate) bytes: u64,
    /// How long a round trip takes at most, by its average and its variation as the kernel has measured them
    /// (RFC 6298, section 2, without its least and its back-off); the longest.
    pub(crate) round_trip: Duration,
}

/// An address of the internet, as libfabric has it: `struct sockaddr_in` or `sockaddr_in6`. What counts is
/// its family, its port and the address itself.
fn same_place(one: &[u8], other: &[u8]) -> bool {
    let family = |bytes: &[u8]| Some(c_int::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?)));
    let place = |bytes: &'_ [u8]| -> Option<Vec<u8>> {
        let (port, address) = match family(bytes)? {
            libc::AF_INET => (bytes.get(2..4)?, bytes.get(4..8)?),
            libc::AF_INET6 => (bytes.get(2..4)?, bytes.get(8..24)?),
            _ => return None,
        };
        Some([port, address].concat())
    };
    family(one) == family(other) && place(one).is_some() && place(one) == place(other)
}

/// What this process's connections to an address (a provider's) have carried; `None`: it has none, or the
/// kernel does not say.
pub(crate) fn carried(address: &[u8]) -> Option<Carried> {
    let names = std::fs::read_dir("/proc/self/fd").ok()?;
    let numbers = names.filter_map(|name| name.ok()?.file_name().to_str()?.parse().ok());
    let of_peer = numbers.filter(|fd| peer_of(*fd).is_some_and(|peer| same_place(&peer, address)));
    of_peer.filter_map(info).reduce(|one, other| Carried {
        bytes: one.bytes.wrapping_add(other.bytes),
        round_trip: one.round_trip.max(other.round_trip),
    })
}

/// Where a socket leads; `None`: it is none, or leads nowhere.
fn peer_of(fd: RawFd) -> Option<Vec<u8>> {
    let mut place = MaybeUninit::<libc::sockaddr_storage>::zeroed();
    let mut len = size_of::<libc::sockaddr_storage>() as socklen_t;
    // SAFETY: a place of that many bytes. A number that is no descriptor any more is an error, and one that
    // is another descriptor by now is only asked.
    let failed = unsafe { libc::getpeername(fd, place.as_mut_ptr().cast(), &raw mut len) };
    let len = (failed == 0).then_some(len as usize)?.min(size_of::<libc::sockaddr_storage>());
    // SAFETY: all of it is initialised, with zeros where the kernel has not written.
    Some(unsafe { std::slice::from_raw_parts(place.as_ptr().cast::<u8>(), len) }.to_vec())
}

/// Of one connection.
fn info(fd: RawFd) -> Option<Carried> {
    let mut bytes = [0_u8; INFO_BYTES];
    let mut len = INFO_BYTES as socklen_t;
    // SAFETY: as above.
    let failed = unsafe {
        let place = bytes.as_mut_ptr().cast::<c_void>();
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, place, &raw mut len)
    };
    if failed != 0 || (len as usize) < INFO_BYTES {
        return None;
    }
    let long = |at: usize| Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let micros = |at: usize| Some(Duration::from_micros(word(at)?.into()));
    Some(Carried {
        bytes: long(BYTES_ACKED_AT)?.wrapping_add(long(BYTES_RECEIVED_AT)?),
        round_trip: micros(RTT_AT)? + 4 * micros(RTTVAR_AT)?,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::*;

    fn bytes_of(address: SocketAddr) -> Vec<u8> {
        let SocketAddr::V4(address) = address else { panic!("{address}") };
        let family = (libc::AF_INET as u16).to_ne_bytes();
        [&family[..], &address.port().to_be_bytes(), &address.ip().octets(), &[0; 8]].concat()
    }

    #[test]
    fn bytes_count_when_the_other_host_has_acknowledged_them_or_sent_them() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = bytes_of(listener.local_addr().unwrap());
        assert_eq!(carried(&address), None);
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        let begun = carried(&address).unwrap();
        let travels = |from: &mut TcpStream, to: &mut TcpStream, len: usize| {
            from.write_all(&vec![7; len]).unwrap();
            to.read_exact(&mut vec![0; len]).unwrap();
        };
        travels(&mut here, &mut there, 5000);
        travels(&mut there, &mut here, 300);
        // The last acknowledgement may be on its way.
        let until = std::time::Instant::now() + Duration::from_secs(60);
        while carried(&address).unwrap().bytes != begun.bytes + 5300 {
            assert!(std::time::Instant::now() < until, "{begun:?} and {:?}", carried(&address));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(carried(&address).unwrap().round_trip > Duration::ZERO);
        drop(here);
        assert_eq!(carried(&address), None, "the other end leads elsewhere");
    }

    #[test]
    fn what_is_no_address_of_the_internet_leads_nowhere() {
        let address = |family: c_int, bytes: &[u8]| [&(family as u16).to_ne_bytes()[..], bytes].concat();
        let four = address(libc::AF_INET, &[0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert!(same_place(&four, &four[..8]) && !same_place(&four, &four[..7]));
        let other = address(libc::AF_INET, &[0, 80, 127, 0, 0, 2]);
        assert!(!same_place(&four, &other));
        let six = address(libc::AF_INET6, &[[0, 80, 9, 9, 9, 9].as_slice(), &[1; 16]].concat());
        let flow = address(libc::AF_INET6, &[[0, 80, 0, 0, 0, 0].as_slice(), &[1; 16]].concat());
        assert!(same_place(&six, &flow) && !same_place(&six, &four));
        for nothing in [&[][..], b"fi_shm://12", &[0; 16]] {
            assert!(!same_place(nothing, nothing));
            assert_eq!(carried(nothing), None);
        }
    }
}

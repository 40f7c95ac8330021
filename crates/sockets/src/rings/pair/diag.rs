//! What the kernel reports of the opposite end of a connection: sock_diag, `linux/inet_diag.h`. The
//! kernel answers every process in the same network namespace.

use libc::c_int;

use super::address::Address;
use super::close;
use crate::raw;
use crate::rings::kernel::Info;

/// The end that these addresses have the other way round.
pub(crate) struct Opposite {
    pub(crate) user: u32,
    pub(crate) inode: u32,
    pub(crate) cookie: u64,
    pub(crate) info: Option<Info>,
}

const HEADER: usize = 16;
const REQUEST: usize = HEADER + 56;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const INET_DIAG_INFO: u16 = 2;
/// Of `struct inet_diag_msg`, behind the header.
const MESSAGE: usize = 72;
const COOKIE_AT: usize = 44;
const USER_AT: usize = 64;
const INODE_AT: usize = 68;

struct Request([u8; REQUEST]);

impl Request {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        for (to, from) in self.0.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }

    fn of(own: Address, peer: Address) -> Self {
        let mut request = Self([0; REQUEST]);
        request.put(0, &(REQUEST as u32).to_ne_bytes());
        request.put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        request.put(6, &(libc::NLM_F_REQUEST as u16).to_ne_bytes());
        let four = peer.of_four().zip(own.of_four());
        let family = if four.is_some() { libc::AF_INET } else { libc::AF_INET6 };
        request.put(HEADER, &[family as u8, libc::IPPROTO_TCP as u8, 1 << (INET_DIAG_INFO - 1)]);
        request.put(HEADER + 4, &u32::MAX.to_ne_bytes());
        // Its own address is this end's peer.
        request.put(HEADER + 8, &peer.port);
        request.put(HEADER + 10, &own.port);
        match four {
            Some((source, target)) => {
                request.put(HEADER + 12, &source);
                request.put(HEADER + 28, &target);
            }
            None => {
                request.put(HEADER + 12, &peer.ip);
                request.put(HEADER + 28, &own.ip);
            }
        }
        // Any interface, any cookie.
        request.put(HEADER + 48, &u64::MAX.to_ne_bytes());
        request
    }
}

/// Asks for the opposite end.
pub(crate) fn opposite(own: Address, peer: Address) -> Option<Opposite> {
    const NETLINK_SOCK_DIAG: usize = 4;
    let kind = (libc::SOCK_RAW | libc::SOCK_CLOEXEC) as usize;
    // SAFETY: a new descriptor, closed below.
    let fd =
        unsafe { raw::call(libc::SYS_socket, [libc::AF_NETLINK as usize, kind, NETLINK_SOCK_DIAG, 0, 0, 0]) };
    let fd = c_int::try_from(fd).ok().filter(|&fd| fd >= 0)?;
    let found = ask(fd, &Request::of(own, peer));
    close(fd);
    found
}

fn ask(fd: c_int, request: &Request) -> Option<Opposite> {
    let flags = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as usize;
    // SAFETY: the request's own bytes.
    let sent = unsafe {
        raw::call(libc::SYS_sendto, [fd as usize, request.0.as_ptr() as usize, REQUEST, flags, 0, 0])
    };
    if sent != REQUEST as isize {
        return None;
    }
    // The kernel answers while it is asked.
    let mut room = core::mem::MaybeUninit::<[u8; 1024]>::uninit();
    let flags = libc::MSG_DONTWAIT as usize;
    // SAFETY: room of the length that is said.
    let length = unsafe {
        raw::call(libc::SYS_recvfrom, [fd as usize, room.as_mut_ptr() as usize, 1024, flags, 0, 0])
    };
    let length = usize::try_from(length).ok()?.min(1024);
    // SAFETY: so many bytes the kernel has written.
    let answer = unsafe { core::slice::from_raw_parts(room.as_ptr().cast::<u8>(), length) };
    read(answer)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk::<4>()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk::<2>()?))
}

fn read(answer: &[u8]) -> Option<Opposite> {
    if half(answer, 4)? != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let message = answer.get(HEADER..)?;
    let cookie = u64::from(word(message, COOKIE_AT)?) | u64::from(word(message, COOKIE_AT + 4)?) << 32;
    let (user, inode) = (word(message, USER_AT)?, word(message, INODE_AT)?);
    Some(Opposite { user, inode, cookie, info: info(message.get(MESSAGE..)?) })
}

/// The attribute that is `TCP_INFO`.
fn info(attributes: &[u8]) -> Option<Info> {
    let mut at = 0_usize;
    loop {
        let length = usize::from(half(attributes, at)?);
        let kind = half(attributes, at + 2)?;
        if length < 4 {
            return None;
        }
        if kind == INET_DIAG_INFO {
            return Info::read(attributes.get(at + 4..at + length)?);
        }
        at = at.checked_add(length)?.checked_next_multiple_of(4)?;
    }
}

//! Calls in a process that cannot get further memory or descriptors.

use std::mem::zeroed;

use super::{Outcome, counted, observed};
use crate::program::call::Scarce;

/// So many calls are made.
pub const CALLS: usize = 10;

/// Takes this away, makes some calls, and gives it back: what each call came to. Whatever descriptors it made
/// are closed.
#[must_use]
pub fn scarce(of: Scarce, fd: i32) -> [Outcome; CALLS] {
    let of = match of {
        Scarce::Memory => libc::RLIMIT_AS,
        Scarce::Descriptors => libc::RLIMIT_NOFILE,
        Scarce::File => libc::RLIMIT_FSIZE,
        Scarce::Locked => libc::RLIMIT_MEMLOCK,
    };
    // SAFETY: a limit of zeroes is one.
    let mut before: libc::rlimit = unsafe { zeroed() };
    let mut pair = [-1; 2];
    let mut bytes = [0x64_u8; 8];
    touch_stack();
    // Nothing is allocated from here until the limit is back.
    // SAFETY: every pointer is to a live place of the length that is said.
    unsafe {
        libc::getrlimit(of, &mut before);
        let none = libc::rlimit { rlim_cur: 0, rlim_max: before.rlim_max };
        let limited = observed(|| libc::setrlimit(of, &none));
        let pair_made = observed(|| {
            libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0, pair.as_mut_ptr())
        });
        let wrote = counted(|| libc::send(pair[0], bytes.as_ptr().cast(), 8, libc::MSG_NOSIGNAL));
        let got = counted(|| libc::recv(pair[1], bytes.as_mut_ptr().cast(), 8, libc::MSG_DONTWAIT));
        let socket = observed(|| libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0));
        let epoll = observed(|| libc::epoll_create1(libc::EPOLL_CLOEXEC));
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 5 };
        let added = observed(|| libc::epoll_ctl(epoll.fd(), libc::EPOLL_CTL_ADD, socket.fd(), &mut event));
        let copy = observed(|| libc::dup(fd));
        let duplicate = observed(|| libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 20));
        let back = observed(|| libc::setrlimit(of, &before));
        for made in [pair[0], pair[1], socket.fd(), epoll.fd(), copy.fd(), duplicate.fd()] {
            if made >= 0 {
                libc::close(made);
            }
        }
        [limited, pair_made, wrote, got, socket, epoll, added, copy, duplicate, back]
    }
}

/// A stack that must grow while there is no memory ends the process; so it has grown before.
#[inline(never)]
fn touch_stack() {
    let mut room = [0_u8; 64 * 1024];
    std::hint::black_box(&mut room);
}

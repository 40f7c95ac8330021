//! Calls with arguments that no correct program passes: addresses that are not mapped, counts that are too
//! large.
//!
//! The kernel refuses each; so must whatever stands before it, without looking where there is nothing.

use std::ffi::c_void;
use std::mem::zeroed;
use std::ptr::{null, null_mut};

use super::{NOWHERE, Outcome, counted, observed};
use crate::program::call::WrongBy;

/// More parts than the kernel takes (`UIO_MAXIOV` is 1024).
const TOO_MANY: i32 = 1025;
/// As many as it takes.
const MOST: i32 = 1024;

fn nowhere<T>() -> *mut T {
    NOWHERE as *mut T
}

/// Makes the call on this descriptor; whatever it returned.
#[must_use]
pub fn call(fd: i32, by: WrongBy) -> Outcome {
    match by {
        WrongBy::WritevNowhere
        | WrongBy::ReadvNowhere
        | WrongBy::WritevSecond
        | WrongBy::ReadvSecond
        | WrongBy::WritevMany
        | WrongBy::ReadvMany
        | WrongBy::WritevMost
        | WrongBy::ReadvMost
        | WrongBy::WritevNegative
        | WrongBy::ReadvNone
        | WrongBy::WritevHuge => vectors(fd, by),
        WrongBy::SendmsgNowhere
        | WrongBy::RecvmsgNowhere
        | WrongBy::SendmsgParts
        | WrongBy::RecvmsgParts
        | WrongBy::SendmsgMany
        | WrongBy::RecvmsgSecond
        | WrongBy::SendmsgControl
        | WrongBy::SendmsgName
        | WrongBy::SendmmsgNowhere
        | WrongBy::RecvmmsgNowhere => messages(fd, by),
        WrongBy::PollNowhere
        | WrongBy::SelectNowhere
        | WrongBy::SelectNegative
        | WrongBy::EpollWaitNowhere
        | WrongBy::EpollWaitNone
        | WrongBy::EpollCtlNowhere
        | WrongBy::EpollCtlOp
        | WrongBy::PpollTime => readiness(fd, by),
        _ => sockets(fd, by),
    }
}

/// Vectors that lie nowhere, or lead there.
fn vectors(fd: i32, by: WrongBy) -> Outcome {
    let mut bytes = [0x61_u8; 16];
    let part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 5 };
    let astray = libc::iovec { iov_base: nowhere(), iov_len: 5 };
    let pair = [part, astray];
    let mut much = [0x62_u8; MOST as usize];
    let many: Vec<libc::iovec> = (0..TOO_MANY as usize)
        .map(|at| libc::iovec { iov_base: (&raw mut much[at % MOST as usize]).cast(), iov_len: 1 })
        .collect();
    let huge = [part, libc::iovec { iov_base: part.iov_base, iov_len: usize::MAX }];
    // SAFETY: what can be reached is live and as long as said; what can't is what the callee must refuse.
    counted(|| unsafe {
        match by {
            WrongBy::WritevNowhere => libc::writev(fd, nowhere(), 2),
            WrongBy::ReadvNowhere => libc::readv(fd, nowhere(), 2),
            WrongBy::WritevSecond => libc::writev(fd, pair.as_ptr(), 2),
            WrongBy::ReadvSecond => libc::readv(fd, pair.as_ptr(), 2),
            WrongBy::WritevMany => libc::writev(fd, many.as_ptr(), TOO_MANY),
            WrongBy::ReadvMany => libc::readv(fd, many.as_ptr(), TOO_MANY),
            WrongBy::WritevMost => libc::writev(fd, many.as_ptr(), MOST),
            WrongBy::ReadvMost => libc::readv(fd, many.as_ptr(), MOST),
            WrongBy::WritevNegative => libc::writev(fd, pair.as_ptr(), -1),
            WrongBy::WritevHuge => libc::writev(fd, huge.as_ptr(), 2),
            _ => libc::readv(fd, pair.as_ptr(), 0),
        }
    })
}

/// Messages whose header, parts, name or control lie nowhere.
fn messages(fd: i32, by: WrongBy) -> Outcome {
    let mut bytes = [0x63_u8; 16];
    let mut pair = [
        libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: 5 },
        libc::iovec { iov_base: nowhere(), iov_len: 5 },
    ];
    let mut many = vec![pair[0]; TOO_MANY as usize];
    // SAFETY: a header of zeroes is valid.
    let mut message: libc::msghdr = unsafe { zeroed() };
    (message.msg_iov, message.msg_iovlen) = (pair.as_mut_ptr(), 1);
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    match by {
        WrongBy::SendmsgParts | WrongBy::RecvmsgParts => message.msg_iov = nowhere(),
        WrongBy::SendmsgMany => {
            (message.msg_iov, message.msg_iovlen) = (many.as_mut_ptr(), TOO_MANY as _);
        }
        WrongBy::RecvmsgSecond => message.msg_iovlen = 2,
        WrongBy::SendmsgControl => (message.msg_control, message.msg_controllen) = (nowhere(), 24),
        WrongBy::SendmsgName => (message.msg_name, message.msg_namelen) = (nowhere(), 16),
        _ => {}
    }
    // SAFETY: as in `vectors`.
    observed(|| unsafe {
        match by {
            WrongBy::SendmsgNowhere => {
                libc::sendmsg(fd, null::<u8>().wrapping_add(NOWHERE).cast(), flags) as i64
            }
            WrongBy::RecvmsgNowhere => libc::recvmsg(fd, nowhere(), flags) as i64,
            WrongBy::RecvmsgParts | WrongBy::RecvmsgSecond => {
                libc::recvmsg(fd, &mut message, libc::MSG_DONTWAIT) as i64
            }
            WrongBy::SendmmsgNowhere => i64::from(libc::sendmmsg(fd, nowhere(), 2, flags)),
            WrongBy::RecvmmsgNowhere => {
                i64::from(libc::recvmmsg(fd, nowhere(), 2, libc::MSG_DONTWAIT, null_mut()))
            }
            _ => libc::sendmsg(fd, &message, flags) as i64,
        }
    })
}

/// Waits that are told nothing.
fn readiness(fd: i32, by: WrongBy) -> Outcome {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    let mut polled = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    let mut now = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let none = null_mut();
    // SAFETY: as in `vectors`.
    observed(|| unsafe {
        match by {
            WrongBy::PollNowhere => libc::poll(nowhere(), 2, 0),
            WrongBy::PpollTime => {
                libc::ppoll(&mut polled, 1, null::<u8>().wrapping_add(NOWHERE).cast(), null())
            }
            WrongBy::SelectNowhere => libc::select(8, nowhere(), none, none, &mut now),
            WrongBy::SelectNegative => libc::select(-1, none, none, none, &mut now),
            WrongBy::EpollWaitNowhere => libc::epoll_wait(fd, nowhere(), 4, 0),
            WrongBy::EpollWaitNone => libc::epoll_wait(fd, &mut event, 0, 0),
            WrongBy::EpollCtlNowhere => libc::epoll_ctl(fd, libc::EPOLL_CTL_ADD, 0, nowhere()),
            _ => libc::epoll_ctl(fd, 77, 0, &mut event),
        }
    })
}

/// Names, options and the rest.
fn sockets(fd: i32, by: WrongBy) -> Outcome {
    let mut storage = [0_u8; 128];
    let place = storage.as_mut_ptr().cast::<libc::sockaddr>();
    let mut len: libc::socklen_t = 128;
    let mut negative = u32::MAX;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_KEEPALIVE);
    let value = 1_i32;
    let place_of_value = (&raw const value).cast::<c_void>();
    // SAFETY: as in `vectors`.
    observed(|| unsafe {
        match by {
            WrongBy::NameNowhere => libc::getsockname(fd, nowhere(), &mut len),
            WrongBy::NameLen => libc::getsockname(fd, place, nowhere()),
            WrongBy::NameNegative => libc::getsockname(fd, place, &mut negative),
            WrongBy::PeerNowhere => libc::getpeername(fd, nowhere(), &mut len),
            WrongBy::ConnectNowhere => libc::connect(fd, nowhere(), 16),
            WrongBy::ConnectShort => libc::connect(fd, place, 1),
            WrongBy::ConnectLong => libc::connect(fd, place, 4000),
            WrongBy::BindNowhere => libc::bind(fd, nowhere(), 16),
            WrongBy::BindShort => libc::bind(fd, place, 1),
            WrongBy::PairNowhere => libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, nowhere()),
            WrongBy::PipeNowhere => libc::pipe(nowhere()),
            WrongBy::SocketDomain => libc::socket(77, libc::SOCK_STREAM, 0),
            WrongBy::SocketType => libc::socket(libc::AF_INET, 77, 0),
            WrongBy::SocketProtocol => libc::socket(libc::AF_INET, libc::SOCK_STREAM, libc::IPPROTO_UDP),
            WrongBy::GetNowhere => libc::getsockopt(fd, level, option, nowhere(), &mut len),
            WrongBy::GetLen => libc::getsockopt(fd, level, option, storage.as_mut_ptr().cast(), nowhere()),
            WrongBy::GetNegative => {
                libc::getsockopt(fd, level, option, storage.as_mut_ptr().cast(), &mut negative)
            }
            WrongBy::SetNowhere => libc::setsockopt(fd, level, option, nowhere(), 4),
            WrongBy::SetShort => libc::setsockopt(fd, level, option, place_of_value, 1),
            WrongBy::SetLevel => libc::setsockopt(fd, 7777, option, place_of_value, 4),
            WrongBy::QueuedNowhere => libc::ioctl(fd, libc::FIONREAD as _, nowhere::<i32>()),
            WrongBy::ShutdownHow => libc::shutdown(fd, 7),
            WrongBy::AcceptFlags => libc::accept4(fd, null_mut(), null_mut(), 0x7000_0000),
            WrongBy::AcceptLen => libc::accept4(fd, place, nowhere(), libc::SOCK_NONBLOCK),
            WrongBy::DupFlags => libc::dup3(fd, fd.wrapping_add(1), 0x7000),
            WrongBy::Dup3Same => libc::dup3(fd, fd, 0),
            WrongBy::FcntlCommand => libc::fcntl(fd, 7777, 0),
            _ => libc::close_range(9, 3, 0),
        }
    })
}

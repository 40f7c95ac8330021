//! Interposers of calls on a socket's addresses, options and state.

use libc::{c_int, c_void, sockaddr, socklen_t};

use crate::interposer::{forwards, interposers};
use crate::seen;

forwards! {
    fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int, as libc::SYS_bind;
    fn getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int, as libc::SYS_getsockname;
    fn getpeername(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int, as libc::SYS_getpeername;
}

/// `linux/tcp.h`.
const TCP_ZEROCOPY_RECEIVE: c_int = 35;

/// Whether an option changes how bytes are received, or what is said of them: it changes that in the kernel.
fn is_odd(level: c_int, name: c_int) -> bool {
    /// `linux/tcp.h`, `asm-generic/socket.h`: those with times of 64 bits.
    const TCP_INQ: c_int = 36;
    const NEW_TIMES: core::ops::RangeInclusive<c_int> = 63..=65;
    match level {
        libc::IPPROTO_TCP => matches!(name, libc::TCP_ULP | libc::TCP_REPAIR | TCP_INQ),
        libc::SOL_SOCKET => {
            NEW_TIMES.contains(&name)
                || matches!(
                    name,
                    libc::SO_RCVLOWAT
                        | libc::SO_PEEK_OFF
                        | libc::SO_ATTACH_FILTER
                        | libc::SO_ATTACH_BPF
                        | libc::SO_TIMESTAMP
                        | libc::SO_TIMESTAMPNS
                        | libc::SO_TIMESTAMPING
                )
        }
        _ => false,
    }
}

interposers! {
    fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int, as libc::SYS_connect, near 1; |next| {
        seen::connecting(fd, address, length);
        seen::connected(fd, next(fd, address, length))
    }
    fn __connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int, as libc::SYS_connect; |next| {
        seen::connecting(fd, address, length);
        seen::connected(fd, next(fd, address, length))
    }
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int, as libc::SYS_getsockopt; |next| {
        if level == libc::IPPROTO_TCP && name == TCP_ZEROCOPY_RECEIVE {
            // It reads.
            seen::unusual(fd);
        }
        let result = next(fd, level, name, value, length);
        if level == libc::SOL_SOCKET && name == libc::SO_ERROR && result == 0 {
            seen::told(fd);
            seen::found_nothing();
        }
        result
    }
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int, as libc::SYS_setsockopt, near 5; |next| {
        if is_odd(level, name) {
            seen::unusual(fd);
        }
        let corks = level == libc::IPPROTO_TCP && name == libc::TCP_CORK;
        if corks {
            // What was written before is not held back.
            seen::corks(fd);
        }
        let result = next(fd, level, name, value, length);
        if corks {
            // What another thread has written to a ring meanwhile. None is opened from here on.
            seen::corks(fd);
        }
        if level == libc::SOL_SOCKET && name == libc::SO_SNDBUF {
            seen::measured(fd);
        }
        result
    }
    fn listen(fd: c_int, backlog: c_int) -> c_int, as libc::SYS_listen; |next| {
        let result = next(fd, backlog);
        if result == 0 {
            seen::listens(fd);
        }
        result
    }
}

//! Calls on a socket's addresses, options and state.

use libc::{c_int, c_void, sockaddr, socklen_t};

use crate::hook::{forwards, hooks};
use crate::seen;

forwards! {
    fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int, as libc::SYS_bind;
    fn getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int, as libc::SYS_getsockname;
    fn getpeername(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int, as libc::SYS_getpeername;
}

hooks! {
    fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int, as libc::SYS_connect;
        |next| seen::connected(fd, next(fd, address, length))
    fn __connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int, as libc::SYS_connect;
        |next| seen::connected(fd, next(fd, address, length))
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int, as libc::SYS_getsockopt; |next| {
        let result = next(fd, level, name, value, length);
        if level == libc::SOL_SOCKET && name == libc::SO_ERROR && result == 0 {
            seen::told(fd);
        }
        result
    }
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int, as libc::SYS_setsockopt; |next| {
        // What changes how bytes are received changes it in the kernel.
        let is_odd = match level {
            libc::IPPROTO_TCP => matches!(name, libc::TCP_ULP | libc::TCP_REPAIR),
            libc::SOL_SOCKET => matches!(name, libc::SO_RCVLOWAT | libc::SO_ATTACH_FILTER | libc::SO_ATTACH_BPF | libc::SO_TIMESTAMPING),
            _ => false,
        };
        if is_odd {
            seen::unusual(fd);
        }
        let result = next(fd, level, name, value, length);
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

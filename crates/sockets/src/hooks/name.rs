//! Calls on a socket's addresses, options and state.

use libc::{c_int, c_void, sockaddr, socklen_t};

use crate::hook::{forwards, hooks};
use crate::seen;

forwards! {
    fn bind(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int, as libc::SYS_bind;
    fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int, as libc::SYS_connect;
    fn __connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int, as libc::SYS_connect;
    fn getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int, as libc::SYS_getsockname;
    fn getpeername(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int, as libc::SYS_getpeername;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void, length: *mut socklen_t) -> c_int, as libc::SYS_getsockopt;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int, as libc::SYS_setsockopt;
}

hooks! {
    fn listen(fd: c_int, backlog: c_int) -> c_int, as libc::SYS_listen; |next| {
        let result = next(fd, backlog);
        if result == 0 {
            seen::listens(fd);
        }
        result
    }
}

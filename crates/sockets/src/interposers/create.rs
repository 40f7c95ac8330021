//! Interposers of calls that make descriptors. Their numbers may have been something else before, unseen.

use libc::{c_char, c_int, c_uint, mode_t, sigset_t, sockaddr, socklen_t};

use crate::interposer::interposers;
use crate::seen;
use crate::table::Kind;

interposers! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int, as libc::SYS_socket, near 2;
        |next| seen::made(next(domain, kind, protocol), Kind::of_socket(domain, kind, protocol))
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int, as libc::SYS_socketpair;
        |next| both(next(domain, kind, protocol, pair), pair, Kind::Socket)
    fn accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int, as libc::SYS_accept, near 3;
        |next| seen::accepted(fd, next(fd, address, length))
    fn accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int, as libc::SYS_accept4, near 4;
        |next| seen::accepted(fd, next(fd, address, length, flags))

    fn pipe(pair: *mut c_int) -> c_int, as libc::SYS_pipe;
        |next| both(next(pair), pair, Kind::Other)
    fn __pipe(pair: *mut c_int) -> c_int, as libc::SYS_pipe;
        |next| both(next(pair), pair, Kind::Other)
    fn pipe2(pair: *mut c_int, flags: c_int) -> c_int, as libc::SYS_pipe2;
        |next| both(next(pair, flags), pair, Kind::Other)
    fn eventfd(count: c_uint, flags: c_int) -> c_int, as libc::SYS_eventfd2;
        |next| seen::made(next(count, flags), Kind::Other)
    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int, else -1;
        |next| seen::made(next(fd, mask, flags), Kind::Other)
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int, as libc::SYS_timerfd_create;
        |next| seen::made(next(clock, flags), Kind::Other)
    fn inotify_init() -> c_int, as libc::SYS_inotify_init;
        |next| seen::made(next(), Kind::Other)
    fn inotify_init1(flags: c_int) -> c_int, as libc::SYS_inotify_init1;
        |next| seen::made(next(flags), Kind::Other)
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int, as libc::SYS_memfd_create;
        |next| seen::made(next(name, flags), Kind::Other)
    fn epoll_create(size: c_int) -> c_int, as libc::SYS_epoll_create;
        |next| seen::made_epoll(next(size))
    fn epoll_create1(flags: c_int) -> c_int, as libc::SYS_epoll_create1;
        |next| seen::made_epoll(next(flags))

    // The mode is there only where a file may be made.
    fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, as libc::SYS_open;
        |next| seen::made(next(path, flags, mode), Kind::Other)
    fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, as libc::SYS_open;
        |next| seen::made(next(path, flags, mode), Kind::Other)
    fn __open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, as libc::SYS_open;
        |next| seen::made(next(path, flags, mode), Kind::Other)
    fn __open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, as libc::SYS_open;
        |next| seen::made(next(path, flags, mode), Kind::Other)
    fn __open_2(path: *const c_char, flags: c_int) -> c_int, as libc::SYS_open;
        |next| seen::made(next(path, flags), Kind::Other)
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int, as libc::SYS_open;
        |next| seen::made(next(path, flags), Kind::Other)
    fn openat(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, as libc::SYS_openat;
        |next| seen::made(next(at, path, flags, mode), Kind::Other)
    fn openat64(at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, as libc::SYS_openat;
        |next| seen::made(next(at, path, flags, mode), Kind::Other)
    fn __openat_2(at: c_int, path: *const c_char, flags: c_int) -> c_int, as libc::SYS_openat;
        |next| seen::made(next(at, path, flags), Kind::Other)
    fn __openat64_2(at: c_int, path: *const c_char, flags: c_int) -> c_int, as libc::SYS_openat;
        |next| seen::made(next(at, path, flags), Kind::Other)
    fn creat(path: *const c_char, mode: mode_t) -> c_int, as libc::SYS_creat;
        |next| seen::made(next(path, mode), Kind::Other)
    fn creat64(path: *const c_char, mode: mode_t) -> c_int, as libc::SYS_creat;
        |next| seen::made(next(path, mode), Kind::Other)
}

/// Two at once.
fn both(result: c_int, pair: *const c_int, kind: Kind) -> c_int {
    if result == 0 && !pair.is_null() {
        for at in 0..2 {
            // SAFETY: the call succeeded, so the kernel wrote two numbers there.
            seen::made(unsafe { *pair.add(at) }, kind);
        }
    }
    result
}

//! Calls that move bytes.

use libc::{c_int, c_uint, c_void, iovec, loff_t, off_t, size_t, sockaddr, socklen_t, ssize_t};
use sockets_rules::layout::Note;

use crate::hook::hooks;
use crate::seen;

/// Hands on what a call took from the descriptor.
#[inline(always)]
fn got(fd: c_int, result: ssize_t) -> ssize_t {
    seen::input(fd, result);
    result
}

/// Hands on what a call gave to the descriptor.
#[inline(always)]
fn gave(fd: c_int, result: ssize_t) -> ssize_t {
    seen::output(fd, result);
    result
}

/// Hands on what the kernel moved from one to the other.
fn moved(from: c_int, to: c_int, result: ssize_t) -> ssize_t {
    seen::input(from, result);
    seen::output(to, result);
    seen::note(Note::Moved);
    result
}

hooks! {
    fn read(fd: c_int, to: *mut c_void, length: size_t) -> ssize_t, as libc::SYS_read, quick any hot 0;
        |next| got(fd, next(fd, to, length))
    fn __read(fd: c_int, to: *mut c_void, length: size_t) -> ssize_t, as libc::SYS_read, quick any;
        |next| got(fd, next(fd, to, length))
    fn __read_chk(fd: c_int, to: *mut c_void, length: size_t, room: size_t) -> ssize_t, as libc::SYS_read, quick any;
        |next| got(fd, next(fd, to, length, room))
    fn readv(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t, as libc::SYS_readv, quick any;
        |next| got(fd, next(fd, vector, count))
    fn preadv2(fd: c_int, vector: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, else -1, quick any;
        |next| got(fd, next(fd, vector, count, at, flags))
    fn preadv64v2(fd: c_int, vector: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, else -1, quick any;
        |next| got(fd, next(fd, vector, count, at, flags))
    fn recv(fd: c_int, to: *mut c_void, length: size_t, flags: c_int) -> ssize_t, else -1, quick any hot 2;
        |next| got(fd, next(fd, to, length, flags))
    fn __recv_chk(fd: c_int, to: *mut c_void, length: size_t, room: size_t, flags: c_int) -> ssize_t, else -1, quick any;
        |next| got(fd, next(fd, to, length, room, flags))
    fn recvfrom(fd: c_int, to: *mut c_void, length: size_t, flags: c_int, address: *mut sockaddr, its: *mut socklen_t) -> ssize_t, as libc::SYS_recvfrom, quick any;
        |next| got(fd, next(fd, to, length, flags, address, its))
    fn __recvfrom_chk(fd: c_int, to: *mut c_void, length: size_t, room: size_t, flags: c_int, address: *mut sockaddr, its: *mut socklen_t) -> ssize_t, else -1, quick any;
        |next| got(fd, next(fd, to, length, room, flags, address, its))

    fn write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t, as libc::SYS_write, quick any hot 1;
        |next| gave(fd, next(fd, from, length))
    fn __write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t, as libc::SYS_write, quick any;
        |next| gave(fd, next(fd, from, length))
    fn writev(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t, as libc::SYS_writev, quick any;
        |next| gave(fd, next(fd, vector, count))
    fn pwritev2(fd: c_int, vector: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, else -1, quick any;
        |next| gave(fd, next(fd, vector, count, at, flags))
    fn pwritev64v2(fd: c_int, vector: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, else -1, quick any;
        |next| gave(fd, next(fd, vector, count, at, flags))
    fn send(fd: c_int, from: *const c_void, length: size_t, flags: c_int) -> ssize_t, else -1, quick any hot 3;
        |next| gave(fd, next(fd, from, length, flags))
    fn __send(fd: c_int, from: *const c_void, length: size_t, flags: c_int) -> ssize_t, else -1, quick any;
        |next| gave(fd, next(fd, from, length, flags))
    fn sendto(fd: c_int, from: *const c_void, length: size_t, flags: c_int, address: *const sockaddr, its: socklen_t) -> ssize_t, as libc::SYS_sendto, quick any;
        |next| gave(fd, next(fd, from, length, flags, address, its))

    fn sendfile(to: c_int, from: c_int, at: *mut off_t, length: size_t) -> ssize_t, as libc::SYS_sendfile;
        |next| moved(from, to, next(to, from, at, length))
    fn sendfile64(to: c_int, from: c_int, at: *mut off_t, length: size_t) -> ssize_t, as libc::SYS_sendfile;
        |next| moved(from, to, next(to, from, at, length))
    fn splice(from: c_int, at: *mut loff_t, to: c_int, its: *mut loff_t, length: size_t, flags: c_uint) -> ssize_t, as libc::SYS_splice;
        |next| moved(from, to, next(from, at, to, its, length, flags))
    fn vmsplice(fd: c_int, vector: *const iovec, count: size_t, flags: c_uint) -> ssize_t, as libc::SYS_vmsplice;
        |next| next(fd, vector, count, flags)
    fn tee(from: c_int, to: c_int, length: size_t, flags: c_uint) -> ssize_t, as libc::SYS_tee;
        |next| next(from, to, length, flags)
}

/// Input and output that the C library's own threads do.
macro_rules! asynchronous {
    ($($name:ident)*) => { hooks! {$(
        fn $name(block: *mut c_void) -> c_int, else -1; |next| {
            seen::note(Note::Moved);
            next(block)
        }
    )*} };
}

asynchronous! { aio_read aio_read64 aio_write aio_write64 }

hooks! {
    fn lio_listio(mode: c_int, list: *mut c_void, count: c_int, event: *mut c_void) -> c_int, else -1; |next| {
        seen::note(Note::Moved);
        next(mode, list, count, event)
    }
    fn lio_listio64(mode: c_int, list: *mut c_void, count: c_int, event: *mut c_void) -> c_int, else -1; |next| {
        seen::note(Note::Moved);
        next(mode, list, count, event)
    }
}

//! Twenty deliberate mistakes, one of which `TIELINE_SOCKETS_PLANT` selects in a test build, so
//! that tests can show that they notice each. The build has the feature `planted`; an installed
//! library has none of this.
//!
//! A mistake is a wrong next definition: the interposer calls it instead of the real one, which it calls
//! itself.

use core::ffi::CStr;

use libc::{c_int, c_void, epoll_event, msghdr, pollfd, size_t, sockaddr, socklen_t, ssize_t};

use crate::interposer::{get_errno, set_errno};
use crate::raw;
use crate::sync::{AtomicUsize, Ordering};

/// The name of the chosen one; 0 for none. It lies in the environment, which is not changed before the first
/// call.
static CHOSEN: AtomicUsize = AtomicUsize::new(0);
/// Counts calls, for mistakes that happen now and then.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Takes the choice from the environment.
pub(crate) fn choose(name: Option<*mut u8>) {
    CHOSEN.store(name.map_or(0, |name| name as usize), Ordering::Relaxed);
}

fn is_chosen(plant: &str) -> bool {
    let name = CHOSEN.load(Ordering::Relaxed) as *const u8;
    !name.is_null()
        && plant.bytes().chain([0]).enumerate().all(|(at, byte)| {
            // SAFETY: a text that ends with 0; bytes are compared up to the first difference.
            byte == byte_of(unsafe { &*name.add(at) })
        })
}

/// One byte, read by itself: comparisons of neighbouring bytes with a text that is known at compile time are
/// joined into a call of the C library's `bcmp`, which the library is linked without.
fn byte_of(byte: &u8) -> u8 {
    // SAFETY: a live reference.
    unsafe { core::ptr::from_ref(byte).read_volatile() }
}

/// What the interposer of `call` is to take for the next definition, whose address is `real`.
pub(crate) fn instead(call: *const u8, real: usize) -> usize {
    for plant in PLANTS {
        if same(plant.call, call) && is_chosen(plant.name) {
            plant.real.store(real, Ordering::Relaxed);
            return plant.wrong as usize;
        }
    }
    real
}

/// Byte by byte: comparing slices would call the C library.
fn same(a: &CStr, b: *const u8) -> bool {
    // SAFETY: a name that ends with 0; bytes are compared up to the first difference.
    a.to_bytes_with_nul()
        .iter()
        .enumerate()
        .all(|(at, byte)| byte_of(byte) == byte_of(unsafe { &*b.add(at) }))
}

struct Plant {
    name: &'static str,
    call: &'static CStr,
    wrong: *const (),
    real: &'static AtomicUsize,
}

// SAFETY: the pointer is a function's.
unsafe impl Sync for Plant {}

/// Defines mistakes: `"name" fn call(arguments) -> result; |real| body`.
macro_rules! plants {
    ($($plant:literal $id:ident fn $call:ident($($arg:ident: $ty:ty),*) -> $ret:ty; |$real:ident| $body:expr)*) => {
        $(mod $id {
            use super::*;
            pub(super) static REAL: AtomicUsize = AtomicUsize::new(0);
            pub(super) unsafe extern "C-unwind" fn wrong($($arg: $ty),*) -> $ret {
                // SAFETY: the next definition of this name, with the program's own arguments or ones as good.
                let $real = |$($arg: $ty),*| unsafe {
                    core::mem::transmute::<usize, unsafe extern "C-unwind" fn($($ty),*) -> $ret>(
                        REAL.load(Ordering::Relaxed),
                    )($($arg),*)
                };
                $body
            }
        })*
        const PLANTS: &[Plant] = &[$(Plant {
            name: $plant,
            call: crate::interposer::name(concat!(stringify!($call), "\0")),
            wrong: $id::wrong as *const (),
            real: &$id::REAL,
        }),*];
    };
}

plants! {
    // 1: a refused connection is told as one that was reset.
    "wrong-errno" p01 fn connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int; |real| {
        failing(real(fd, address, length) as isize, libc::ECONNREFUSED, libc::ECONNRESET) as c_int
    }
    // 2: now and then a call that waits says that nothing happened.
    "lost-wakeup" p02a fn poll(fds: *mut pollfd, count: libc::nfds_t, limit: c_int) -> c_int; |real| {
        let ready = real(fds, count, limit);
        if ready > 0 && now_and_then(3) { 0 } else { ready }
    }
    "lost-wakeup" p02b fn epoll_wait(epoll: c_int, events: *mut epoll_event, room: c_int, limit: c_int) -> c_int; |real| {
        let ready = real(epoll, events, room, limit);
        if ready > 0 && now_and_then(3) { 0 } else { ready }
    }
    // 3: what is read from a number that dup2 has replaced comes from what it was before.
    "stale-after-dup2" p03a fn dup2(fd: c_int, to: c_int) -> c_int; |real| {
        let before = if is_socket(to) { duplicate(to) } else { -1 };
        let result = real(fd, to);
        if result >= 0 && before >= 0 {
            STALE.store(to as usize + 1, Ordering::Relaxed);
            OLD.store(before as usize, Ordering::Relaxed);
        }
        result
    }
    "stale-after-dup2" p03b fn read(fd: c_int, into: *mut c_void, length: size_t) -> ssize_t; |real| real(stale(fd), into, length)
    "stale-after-dup2" p03c fn recv(fd: c_int, into: *mut c_void, length: size_t, flags: c_int) -> ssize_t; |real| real(stale(fd), into, length, flags)
    // 4: the byte at the end of 4096 or more is sent twice.
    "byte-doubled" p04a fn write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t; |real| {
        let sent = real(fd, from, length);
        if sent >= 4096 && is_socket(fd) { real(fd, last(from, sent), 1); }
        sent
    }
    "byte-doubled" p04b fn send(fd: c_int, from: *const c_void, length: size_t, flags: c_int) -> ssize_t; |real| {
        let sent = real(fd, from, length, flags);
        if sent >= 4096 { real(fd, last(from, sent), 1, flags); }
        sent
    }
    // 5: the edge that is there when a descriptor is added to an edge-triggered set is swallowed.
    "edge-lost" p05 fn epoll_ctl(epoll: c_int, what: c_int, fd: c_int, event: *mut epoll_event) -> c_int; |real| {
        let result = real(epoll, what, fd, event);
        // SAFETY: the kernel has just read the event.
        if result == 0 && what != libc::EPOLL_CTL_DEL && unsafe { (*event).events } & libc::EPOLLET as u32 != 0 {
            let mut swallowed = [const { epoll_event { events: 0, u64: 0 } }; 8];
            // SAFETY: room for eight events.
            unsafe { raw::call(libc::SYS_epoll_wait, [epoll as usize, swallowed.as_mut_ptr() as usize, 8, 0, 0, 0]) };
        }
        result
    }
    // 6: a read that got less than was asked for says that it got all.
    "short-read-full" p06a fn read(fd: c_int, into: *mut c_void, length: size_t) -> ssize_t; |real| full(fd, real(fd, into, length), length)
    "short-read-full" p06b fn recv(fd: c_int, into: *mut c_void, length: size_t, flags: c_int) -> ssize_t; |real| full(fd, real(fd, into, length, flags), length)
    // 7: the end of a stream looks like a stream without data.
    "eof-eagain" p07a fn read(fd: c_int, into: *mut c_void, length: size_t) -> ssize_t; |real| endless(fd, real(fd, into, length), length)
    "eof-eagain" p07b fn recv(fd: c_int, into: *mut c_void, length: size_t, flags: c_int) -> ssize_t; |real| endless(fd, real(fd, into, length, flags), length)
    // 8: no signal for a broken pipe.
    "no-sigpipe" p08a fn write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t; |real| {
        if is_socket(fd) { quietly(fd, from, length, 0) } else { real(fd, from, length) }
    }
    "no-sigpipe" p08b fn send(fd: c_int, from: *const c_void, length: size_t, flags: c_int) -> ssize_t; |real|
        real(fd, from, length, flags | libc::MSG_NOSIGNAL)
    // 9: an interrupted call goes on.
    "no-eintr" p09a fn read(fd: c_int, into: *mut c_void, length: size_t) -> ssize_t; |real| persisting(|| real(fd, into, length))
    "no-eintr" p09b fn recv(fd: c_int, into: *mut c_void, length: size_t, flags: c_int) -> ssize_t; |real| persisting(|| real(fd, into, length, flags))
    "no-eintr" p09c fn accept(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int; |real| persisting(|| real(fd, address, length) as ssize_t) as c_int
    "no-eintr" p09d fn poll(fds: *mut pollfd, count: libc::nfds_t, limit: c_int) -> c_int; |real| persisting(|| real(fds, count, limit) as ssize_t) as c_int
    "no-eintr" p09e fn epoll_wait(epoll: c_int, events: *mut epoll_event, room: c_int, limit: c_int) -> c_int; |real| persisting(|| real(epoll, events, room, limit) as ssize_t) as c_int
    // 10: what was looked at is gone.
    "peek-consumes" p10 fn recv(fd: c_int, into: *mut c_void, length: size_t, flags: c_int) -> ssize_t; |real|
        real(fd, into, length, flags & !libc::MSG_PEEK)
    // 11: an accepted connection survives exec.
    "accept-no-cloexec" p11 fn accept4(fd: c_int, address: *mut sockaddr, length: *mut socklen_t, flags: c_int) -> c_int; |real|
        real(fd, address, length, flags & !libc::SOCK_CLOEXEC)
    // 12: another number for a descriptor makes it wait.
    "dup-blocks" p12 fn dup(fd: c_int) -> c_int; |real| {
        let made = real(fd);
        if made >= 0 {
            let flags = control(made, libc::F_GETFL, 0);
            control(made, libc::F_SETFL, flags & !(libc::O_NONBLOCK as isize));
        }
        made
    }
    // 13: nobody is told that the other end has gone.
    "hup-missing" p13a fn poll(fds: *mut pollfd, count: libc::nfds_t, limit: c_int) -> c_int; |real| {
        let ready = real(fds, count, limit);
        for at in 0..if ready > 0 { count as usize } else { 0 } {
            // SAFETY: so many the kernel has just filled in.
            unsafe { (*fds.add(at)).revents &= !(libc::POLLHUP | libc::POLLRDHUP) };
        }
        ready
    }
    "hup-missing" p13b fn epoll_wait(epoll: c_int, events: *mut epoll_event, room: c_int, limit: c_int) -> c_int; |real| {
        let ready = real(epoll, events, room, limit);
        for at in 0..ready.max(0) as usize {
            // SAFETY: so many the kernel has just filled in.
            unsafe { (*events.add(at)).events &= !((libc::EPOLLHUP | libc::EPOLLRDHUP) as u32) };
        }
        ready
    }
    // 14: a socket's own port is one too high.
    "wrong-name" p14 fn getsockname(fd: c_int, address: *mut sockaddr, length: *mut socklen_t) -> c_int; |real| {
        let result = real(fd, address, length);
        if result == 0 {
            // SAFETY: an address of the internet starts with its family and port; only then is it changed.
            unsafe {
                if matches!(c_int::from((*address).sa_family), libc::AF_INET | libc::AF_INET6) && *length >= 8 {
                    let port = address.cast::<u16>().add(1);
                    *port = u16::from_be(*port).wrapping_add(1).to_be();
                }
            }
        }
        result
    }
    // 15: descriptors that are passed do not arrive.
    "rights-lost" p15 fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t; |real| {
        let got = real(fd, message, flags);
        if got >= 0 {
            // SAFETY: the kernel has just filled the message in.
            unsafe { (*message).msg_controllen = 0 };
        }
        got
    }
    // 16: a connection is not shut down.
    "shutdown-ignored" p16 fn shutdown(fd: c_int, how: c_int) -> c_int; |real| {
        if is_connected(fd) { 0 } else { real(fd, how) }
    }
    // 17: a socket that is closed stays open.
    "close-leaks" p17 fn close(fd: c_int) -> c_int; |real| {
        if is_connected(fd) { control(fd, libc::F_DUPFD_CLOEXEC, 500); }
        real(fd)
    }
    // 18: the time-out of a socket is not set.
    "no-timeout" p18 fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void, length: socklen_t) -> c_int; |real| {
        if level == libc::SOL_SOCKET && name == libc::SO_RCVTIMEO { 0 } else { real(fd, level, name, value, length) }
    }
    // 19: the last part of a message in several parts is not sent.
    "vector-halved" p19a fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t; |real| {
        // SAFETY: the program's message, which the kernel reads next.
        let mut shorter = unsafe { message.read() };
        if shorter.msg_iovlen < 2 { return real(fd, message, flags) }
        shorter.msg_iovlen -= 1;
        // SAFETY: the last part of the vector.
        let left_out = unsafe { (*shorter.msg_iov.add(shorter.msg_iovlen)).iov_len } as ssize_t;
        let sent = real(fd, &raw const shorter, flags);
        if sent > 0 { sent + left_out } else { sent }
    }
    "vector-halved" p19b fn writev(fd: c_int, vector: *const libc::iovec, count: c_int) -> ssize_t; |real| {
        if count < 2 || !is_socket(fd) { return real(fd, vector, count) }
        // SAFETY: the last part of the vector.
        let left_out = unsafe { (*vector.add(count as usize - 1)).iov_len } as ssize_t;
        let sent = real(fd, vector, count - 1);
        if sent > 0 { sent + left_out } else { sent }
    }
    // 20: a child that closes what it inherited does not.
    "stale-in-child" p20a fn fork() -> libc::pid_t; |real| {
        let child = real();
        if child == 0 { CHILD.store(1, Ordering::Relaxed); }
        child
    }
    "stale-in-child" p20b fn close(fd: c_int) -> c_int; |real| {
        if CHILD.load(Ordering::Relaxed) == 1 && is_socket(fd) { 0 } else { real(fd) }
    }
}

static STALE: AtomicUsize = AtomicUsize::new(0);
static OLD: AtomicUsize = AtomicUsize::new(0);
static CHILD: AtomicUsize = AtomicUsize::new(0);

/// True at each so-manieth call.
fn now_and_then(every: usize) -> bool {
    CALLS.fetch_add(1, Ordering::Relaxed) % every == every - 1
}

/// The result, with one error taken for another.
fn failing(result: isize, error: c_int, as_if: c_int) -> isize {
    if result < 0 && get_errno() == error {
        set_errno(as_if);
    }
    result
}

fn is_socket(fd: c_int) -> bool {
    raw::socket_option::<c_int>(fd, libc::SO_TYPE).is_ok()
}

fn is_connected(fd: c_int) -> bool {
    let mut address = [0_u64; 16];
    let mut length = size_of_val(&address);
    // SAFETY: room for any address.
    let result = unsafe {
        raw::call(
            libc::SYS_getpeername,
            [fd as usize, address.as_mut_ptr() as usize, (&raw mut length) as usize, 0, 0, 0],
        )
    };
    result == 0
}

fn control(fd: c_int, command: c_int, argument: isize) -> isize {
    // SAFETY: commands that take a number.
    unsafe { raw::call(libc::SYS_fcntl, [fd as usize, command as usize, argument as usize, 0, 0, 0]) }
}

fn duplicate(fd: c_int) -> c_int {
    control(fd, libc::F_DUPFD_CLOEXEC, 500) as c_int
}

fn stale(fd: c_int) -> c_int {
    if STALE.load(Ordering::Relaxed) == fd as usize + 1 { OLD.load(Ordering::Relaxed) as c_int } else { fd }
}

/// The last byte of what was sent.
fn last(from: *const c_void, sent: ssize_t) -> *const c_void {
    // SAFETY: within what was sent.
    unsafe { from.cast::<u8>().add(sent as usize - 1).cast() }
}

fn full(fd: c_int, got: ssize_t, length: size_t) -> ssize_t {
    if got > 0 && is_socket(fd) { length as ssize_t } else { got }
}

fn endless(fd: c_int, got: ssize_t, length: size_t) -> ssize_t {
    if got == 0 && length > 0 && is_socket(fd) {
        set_errno(libc::EAGAIN);
        return -1;
    }
    got
}

/// Sends, without a signal if nobody listens.
fn quietly(fd: c_int, from: *const c_void, length: size_t, flags: c_int) -> ssize_t {
    let flags = flags | libc::MSG_NOSIGNAL;
    let arguments = [fd as usize, from as usize, length, flags as usize, 0, 0];
    // SAFETY: the program's own arguments.
    let sent = unsafe { raw::call(libc::SYS_sendto, arguments) };
    if sent < 0 {
        set_errno(-sent as c_int);
        return -1;
    }
    sent
}

fn persisting(call: impl Fn() -> ssize_t) -> ssize_t {
    loop {
        let result = call();
        if result >= 0 || get_errno() != libc::EINTR {
            return result;
        }
    }
}

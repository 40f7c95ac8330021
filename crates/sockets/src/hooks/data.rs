//! Calls that move bytes.

use libc::{c_int, c_uint, c_void, iovec, loff_t, off_t, size_t, sockaddr, socklen_t, ssize_t};
use sockets_rules::layout::Note;

use crate::hook::hooks;
use crate::page::{self, Way};
use crate::rings::closing;
use crate::rings::conn::Known;
use crate::rings::flight::Flight;
use crate::rings::forced;
use crate::rings::{self, Bytes, Native};
use crate::{cancel, raw, seen, state, table};

/// The descriptor's connection, if it has or may get a ring.
#[inline(always)]
fn ring(fd: c_int) -> Option<Known> {
    let is_forced = || forced::is_on() && !state::outside();
    let conn = rings::conn::known(fd).or_else(|| if is_forced() { forced::begins(fd) } else { None });
    conn.filter(|conn| !state::outside() && !conn.is(rings::conn::state::OVER))
}

/// The record of a connection that has no ring, and will get none: its bytes are counted, and that is all.
#[inline(always)]
fn settled(fd: c_int) -> Option<u16> {
    table::settled(fd).filter(|_| !state::outside())
}

/// Counts what a call has moved through the kernel. Hands its result on.
#[inline(always)]
fn through_kernel(record: u16, way: Way, result: ssize_t) -> ssize_t {
    if result > 0 {
        page::kernel(record, way, result as u64);
    }
    result
}

/// The program's own read of a connection that has, or may get, a ring; it `takes` what it gets, or only looks at it.
#[inline(always)]
fn counted_in(conn: Known, takes: bool, next: &mut impl FnMut() -> ssize_t) -> ssize_t {
    let record = conn.record();
    let result = next();
    if takes { through_kernel(record, Way::In, result) } else { result }
}

/// Takes bytes from the descriptor: from a ring, or with the program's own call.
#[inline(always)]
pub(crate) fn got(
    fd: c_int,
    bytes: impl Fn() -> Option<Bytes>,
    flags: c_int,
    next: impl FnMut() -> ssize_t,
) -> ssize_t {
    moved_in::<true>(fd, bytes, flags, next)
}

/// As [`got`]; the call is one in which a thread is cancelled, or not.
#[inline(always)]
pub(crate) fn moved_in<const IS_POINT: bool>(
    fd: c_int,
    bytes: impl Fn() -> Option<Bytes>,
    flags: c_int,
    mut next: impl FnMut() -> ssize_t,
) -> ssize_t {
    let takes = seen::takes(flags);
    if let Some(record) = settled(fd) {
        let result = next();
        return if takes { through_kernel(record, Way::In, result) } else { result };
    }
    if IS_POINT {
        cancel::point();
    }
    loop {
        let Some(known) = ring(fd) else {
            if closing::waits(fd) {
                continue;
            }
            break;
        };
        if let Some(result) = rings::io::read_quietly(known, flags, || counted_in(known, takes, &mut next)) {
            return result;
        }
        let mut native = || counted_in(known, takes, &mut next);
        let bytes = bytes();
        // A connection that is closed before the call has got anything is not the number's any more.
        if let Ok(result) = rings::io::read(known, fd, bytes.as_ref(), flags, &mut Native::of(&mut native)) {
            return result;
        }
    }
    let result = next();
    if takes {
        seen::input(fd, result);
    }
    result
}

/// Gives bytes to the descriptor: to a ring, or with the program's own call.
#[inline(always)]
pub(crate) fn gave(
    fd: c_int,
    bytes: impl Fn() -> Option<Bytes>,
    flags: c_int,
    next: impl FnMut() -> ssize_t,
) -> ssize_t {
    moved_out::<true>(fd, bytes, flags, next)
}

/// As [`gave`]; the call is one in which a thread is cancelled, or not.
#[inline(always)]
pub(crate) fn moved_out<const IS_POINT: bool>(
    fd: c_int,
    bytes: impl Fn() -> Option<Bytes>,
    flags: c_int,
    mut next: impl FnMut() -> ssize_t,
) -> ssize_t {
    if let Some(record) = settled(fd) {
        return through_kernel(record, Way::Out, next());
    }
    if IS_POINT {
        cancel::point();
    }
    loop {
        let known = match ring(fd) {
            Some(known) => known,
            None => {
                if flags & (libc::MSG_OOB | libc::MSG_ZEROCOPY) != 0 {
                    seen::unusual(fd);
                }
                match Flight::begin(fd) {
                    Ok(flight) => {
                        let result = next();
                        flight.land();
                        seen::output(fd, result);
                        return result;
                    }
                    Err(known) => known,
                }
            }
        };
        if let Some(result) = rings::io::write_quietly(known, fd, flags, || known.gives(&mut next)) {
            return result;
        }
        let mut native = || known.gives(&mut next);
        let bytes = bytes();
        // As in `got`.
        if let Ok(result) = rings::io::write(known, fd, bytes.as_ref(), flags, &mut Native::of(&mut native)) {
            return result;
        }
    }
}

#[inline(always)]
pub(crate) fn flat(at: *const c_void, length: size_t) -> impl Fn() -> Option<Bytes> {
    move || Some(Bytes::flat(at, length))
}

#[inline(always)]
pub(crate) fn parts(vector: *const iovec, count: c_int) -> impl Fn() -> Option<Bytes> {
    // SAFETY: the program's own vector, which its own call reads.
    move || unsafe { Bytes::parts(vector, usize::try_from(count).ok()?) }
}

/// Of calls that end the program if there is less room than they are to fill.
#[inline(always)]
fn checked(at: *const c_void, length: size_t, room: size_t) -> impl Fn() -> Option<Bytes> {
    move || (length <= room).then(|| Bytes::flat(at, length))
}

/// The longest address that the kernel takes (`struct sockaddr_storage`).
const ADDRESS_BYTES: usize = size_of::<libc::sockaddr_storage>();

/// Of calls that may say where the bytes go. A connection takes no notice, of an address that is one; anything else is for the kernel to
/// look at.
#[inline(always)]
fn addressed(
    at: *const c_void,
    length: size_t,
    address: *const sockaddr,
    its: socklen_t,
) -> impl Fn() -> Option<Bytes> {
    move || is_address(address.cast(), its as usize).then(|| Bytes::flat(at, length))
}

/// Whether it is no address, or one that the kernel can read.
#[inline(always)]
pub(crate) fn is_address(address: *const c_void, bytes: usize) -> bool {
    address.is_null() || bytes <= ADDRESS_BYTES && rings::reach::is_readable(address, bytes)
}

fn none() -> Option<Bytes> {
    None
}

/// As [`got`], for calls that say where the bytes came from: of a connection, nothing.
fn got_from(
    fd: c_int,
    bytes: impl Fn() -> Option<Bytes>,
    flags: c_int,
    its: *mut socklen_t,
    mut next: impl FnMut() -> ssize_t,
) -> ssize_t {
    let mut is_native = false;
    let result = got(fd, bytes, flags, || {
        is_native = true;
        next()
    });
    if !is_native && result >= 0 && !its.is_null() {
        // SAFETY: the program's own variable, which its own call writes.
        unsafe { *its = 0 };
    }
    result
}

/// The kernel is about to move bytes from one to the other by itself.
fn moving(from: c_int, to: c_int) {
    if !state::outside() {
        rings::leave::unseen(from, true);
        rings::leave::unseen(to, false);
    }
}

/// Hands on what the kernel moved from one to the other.
pub(crate) fn moved(from: c_int, to: c_int, result: ssize_t) -> ssize_t {
    seen::input(from, result);
    seen::output(to, result);
    seen::note(Note::Moved);
    result
}

/// Bytes of a file go to a connection: into its ring, or as the kernel does it.
fn sent_file(
    to: c_int,
    from: c_int,
    at: *mut off_t,
    length: size_t,
    mut next: impl FnMut() -> ssize_t,
) -> ssize_t {
    let known = match ring(to).map_or_else(|| Flight::begin(to), Err) {
        Ok(flight) => {
            let sent = next();
            flight.land();
            return moved(from, to, sent);
        }
        Err(known) => known,
    };
    let mut native = || known.gives(&mut next);
    let sent = rings::io::send_file(known, to, from, at, length, &mut Native::of(&mut native));
    sent.unwrap_or_else(|| {
        moving(from, to);
        moved(from, to, next())
    })
}

hooks! {
    fn read(fd: c_int, to: *mut c_void, length: size_t) -> ssize_t, as libc::SYS_read, quick any hot 0;
        |next| got(fd, flat(to, length), 0, || next(fd, to, length))
    fn __read(fd: c_int, to: *mut c_void, length: size_t) -> ssize_t, as libc::SYS_read, quick any;
        |next| got(fd, flat(to, length), 0, || next(fd, to, length))
    fn __read_chk(fd: c_int, to: *mut c_void, length: size_t, room: size_t) -> ssize_t, as libc::SYS_read, quick any;
        |next| got(fd, checked(to, length, room), 0, || next(fd, to, length, room))
    fn readv(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t, as libc::SYS_readv, quick any;
        |next| got(fd, parts(vector, count), 0, || next(fd, vector, count))
    fn preadv2(fd: c_int, vector: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, else -1, quick any;
        |next| got(fd, none, 0, || next(fd, vector, count, at, flags))
    fn preadv64v2(fd: c_int, vector: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, else -1, quick any;
        |next| got(fd, none, 0, || next(fd, vector, count, at, flags))
    fn recv(fd: c_int, to: *mut c_void, length: size_t, flags: c_int) -> ssize_t, else -1, quick any hot 2;
        |next| got(fd, flat(to, length), flags, || next(fd, to, length, flags))
    fn __recv_chk(fd: c_int, to: *mut c_void, length: size_t, room: size_t, flags: c_int) -> ssize_t, else -1, quick any;
        |next| got(fd, checked(to, length, room), flags, || next(fd, to, length, room, flags))
    fn recvfrom(fd: c_int, to: *mut c_void, length: size_t, flags: c_int, address: *mut sockaddr, its: *mut socklen_t) -> ssize_t, as libc::SYS_recvfrom, quick any;
        |next| got_from(fd, flat(to, length), flags, if address.is_null() { core::ptr::null_mut() } else { its }, || next(fd, to, length, flags, address, its))
    fn __recvfrom_chk(fd: c_int, to: *mut c_void, length: size_t, room: size_t, flags: c_int, address: *mut sockaddr, its: *mut socklen_t) -> ssize_t, else -1, quick any;
        |next| got_from(fd, checked(to, length, room), flags, if address.is_null() { core::ptr::null_mut() } else { its }, || next(fd, to, length, room, flags, address, its))

    fn write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t, as libc::SYS_write, quick any hot 1;
        |next| gave(fd, flat(from, length), 0, || next(fd, from, length))
    fn __write(fd: c_int, from: *const c_void, length: size_t) -> ssize_t, as libc::SYS_write, quick any;
        |next| gave(fd, flat(from, length), 0, || next(fd, from, length))
    fn writev(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t, as libc::SYS_writev, quick any;
        |next| gave(fd, parts(vector, count), 0, || next(fd, vector, count))
    fn pwritev2(fd: c_int, vector: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, else -1, quick any;
        |next| gave(fd, none, 0, || next(fd, vector, count, at, flags))
    fn pwritev64v2(fd: c_int, vector: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t, else -1, quick any;
        |next| gave(fd, none, 0, || next(fd, vector, count, at, flags))
    fn send(fd: c_int, from: *const c_void, length: size_t, flags: c_int) -> ssize_t, else -1, quick any hot 3;
        |next| gave(fd, flat(from, length), flags, || next(fd, from, length, flags))
    fn __send(fd: c_int, from: *const c_void, length: size_t, flags: c_int) -> ssize_t, else -1, quick any;
        |next| gave(fd, flat(from, length), flags, || next(fd, from, length, flags))
    fn sendto(fd: c_int, from: *const c_void, length: size_t, flags: c_int, address: *const sockaddr, its: socklen_t) -> ssize_t, as libc::SYS_sendto, quick any;
        |next| gave(fd, addressed(from, length, address, its), flags, || next(fd, from, length, flags, address, its))

    fn sendfile(to: c_int, from: c_int, at: *mut off_t, length: size_t) -> ssize_t, as libc::SYS_sendfile;
        |next| sent_file(to, from, at, length, || next(to, from, at, length))
    fn sendfile64(to: c_int, from: c_int, at: *mut off_t, length: size_t) -> ssize_t, as libc::SYS_sendfile;
        |next| sent_file(to, from, at, length, || next(to, from, at, length))
    fn splice(from: c_int, at: *mut loff_t, to: c_int, its: *mut loff_t, length: size_t, flags: c_uint) -> ssize_t, as libc::SYS_splice;
        |next| {
            moving(from, to);
            moved(from, to, next(from, at, to, its, length, flags))
        }
    fn vmsplice(fd: c_int, vector: *const iovec, count: size_t, flags: c_uint) -> ssize_t, as libc::SYS_vmsplice;
        |next| {
            moving(fd, fd);
            next(fd, vector, count, flags)
        }
    fn tee(from: c_int, to: c_int, length: size_t, flags: c_uint) -> ssize_t, as libc::SYS_tee;
        |next| next(from, to, length, flags)
}

/// Of a descriptor that a control block names, the C library's own threads read or write: it stays with the kernel. `aio_fildes` stands at the
/// block's beginning in each C library.
fn is_moved_unseen(block: *const c_void) {
    let mut fd = [0 as c_int];
    // An address, which need not be one; and some kernels do not say what is there.
    seen::moves_unseen(raw::peek_at(block as usize, &mut fd).then_some(fd[0]));
}

/// The same of a list of blocks, some of which may be missing.
fn are_moved_unseen(list: *const c_void, count: c_int) {
    for at in 0..count.max(0) as usize {
        let mut block = [0_u64];
        if !raw::peek_at((list as usize).wrapping_add(at * size_of::<u64>()), &mut block) {
            return seen::moves_unseen(None);
        }
        // The C library passes over places without a block.
        if block[0] != 0 {
            is_moved_unseen(block[0] as usize as *const c_void);
        }
    }
}

/// Input and output that the C library's own threads do.
macro_rules! asynchronous {
    ($($name:ident)*) => { hooks! {$(
        fn $name(block: *mut c_void) -> c_int, else -1; |next| {
            is_moved_unseen(block);
            next(block)
        }
    )*} };
}

asynchronous! { aio_read aio_read64 aio_write aio_write64 }

hooks! {
    fn lio_listio(mode: c_int, list: *mut c_void, count: c_int, event: *mut c_void) -> c_int, else -1; |next| {
        are_moved_unseen(list, count);
        next(mode, list, count, event)
    }
    fn lio_listio64(mode: c_int, list: *mut c_void, count: c_int, event: *mut c_void) -> c_int, else -1; |next| {
        are_moved_unseen(list, count);
        next(mode, list, count, event)
    }
}

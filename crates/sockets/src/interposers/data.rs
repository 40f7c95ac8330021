//! Interposers of calls that move bytes between the program and a connection.

use libc::{c_int, c_void, iovec, off_t, size_t, sockaddr, socklen_t, ssize_t};

use crate::interposer::interposers;
use crate::page::{self, Direction};
use crate::rings::closing;
use crate::rings::conn::Known;
use crate::rings::flight::Flight;
use crate::rings::forced;
use crate::rings::io::{QuietRead, QuietWrite};
use crate::rings::{self, Bytes, Native};
use crate::table::Glance;
use crate::{cancel, seen, state, table};

/// The descriptor's connection, if it has or may get a ring.
#[inline(always)]
pub(super) fn ring(fd: c_int) -> Option<Known> {
    let is_forced = || forced::is_on() && !state::outside();
    let conn = rings::conn::known(fd).or_else(|| if is_forced() { forced::begins(fd) } else { None });
    conn.filter(|conn| !state::outside() && !conn.is(rings::conn::state::OVER))
}

/// Counts what a call has moved through the kernel. Hands its result on.
#[inline(always)]
fn through_kernel(record: u16, direction: Direction, result: ssize_t) -> ssize_t {
    if result > 0 {
        page::kernel(record, direction, result as u64);
    }
    result
}

/// The program's own read of a connection that has, or may get, a ring; it `takes` what it gets, or only
/// looks at it.
#[inline(always)]
fn counted_in(conn: Known, takes: bool, next: &mut impl FnMut() -> ssize_t) -> ssize_t {
    let record = conn.record();
    let result = next();
    if takes { through_kernel(record, Direction::In, result) } else { result }
}

/// The descriptor's connection, if it has a place in the table.
#[inline(always)]
fn known(fd: c_int) -> Option<Known> {
    rings::conn::known(fd).filter(|_| !state::outside())
}

/// Takes bytes from the descriptor: from a ring, or with the program's own call.
#[inline(always)]
pub(crate) fn got(fd: c_int, bytes: impl Source, flags: c_int, next: impl FnMut() -> ssize_t) -> ssize_t {
    moved_in::<true>(fd, bytes, flags, next)
}

/// As [`got`]; the call is one in which a thread is cancelled, or not.
#[inline(always)]
pub(crate) fn moved_in<const IS_POINT: bool>(
    fd: c_int,
    bytes: impl Source,
    flags: c_int,
    mut next: impl FnMut() -> ssize_t,
) -> ssize_t {
    let takes = seen::takes(flags);
    match table::glance(fd) {
        Some(Glance::Settled(record)) => {
            let result = next();
            return if takes { through_kernel(record, Direction::In, result) } else { result };
        }
        Some(Glance::Counted) => return counted_read(fd, takes, next()),
        None => {}
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
        if let Some(quiet) = QuietRead::begin(known, flags)
            && let Some(result) = quiet.end(next(), takes)
        {
            return result;
        }
        let mut native = || counted_in(known, takes, &mut next);
        let bytes = bytes.bytes();
        // A connection that is closed before the call has got anything is not the number's any more.
        if let Ok(result) = rings::io::read(known, fd, bytes.as_ref(), flags, &mut Native::of(&mut native)) {
            if result < 0 || !takes {
                // Perhaps one of many that do not wait.
                rings::leave::visits();
            }
            return result;
        }
    }
    let result = next();
    if result < 0 && !state::outside() {
        // Perhaps one of many that do not wait.
        rings::leave::visits();
    }
    if takes {
        seen::input(fd, result);
    }
    result
}

/// A read of a connection whose uses are counted has returned this. Hands it on.
#[inline(always)]
fn counted_read(fd: c_int, takes: bool, result: ssize_t) -> ssize_t {
    if result > 0 && takes {
        table::counted(fd, Direction::In, result as u64);
    } else if result < 0 {
        // As in `moved_in`.
        rings::leave::visits();
    }
    result
}

/// Gives bytes to the descriptor: to a ring, or with the program's own call.
#[inline(always)]
pub(crate) fn gave(fd: c_int, bytes: impl Source, flags: c_int, next: impl FnMut() -> ssize_t) -> ssize_t {
    moved_out::<true>(fd, bytes, flags, next)
}

/// As [`gave`]; the call is one in which a thread is cancelled, or not.
#[inline(always)]
pub(crate) fn moved_out<const IS_POINT: bool>(
    fd: c_int,
    bytes: impl Source,
    flags: c_int,
    mut next: impl FnMut() -> ssize_t,
) -> ssize_t {
    match table::glance(fd) {
        Some(Glance::Settled(record)) => return through_kernel(record, Direction::Out, next()),
        Some(Glance::Counted) if flags & UNUSUAL == 0 => {
            let flight = Flight::over(fd);
            // A look behind that: see `table::gets_a_place`.
            if table::is_counted(fd) {
                return counted_write(fd, flight, next());
            }
            flight.land();
        }
        _ => {}
    }
    if IS_POINT && cancel::is_any() {
        return moved_out_by_any::<IS_POINT>(fd, bytes, flags, next);
    }
    match known(fd) {
        Some(known) if known.is_parked_over_nothing() => {
            if let Some(quiet) = QuietWrite::begin(known, fd, flags) {
                return quiet.end(next());
            }
        }
        Some(known) => {
            if let Some((from, length)) = bytes.short() {
                let moved = rings::io::write_short(known, from, length, flags);
                if moved > 0 {
                    return moved;
                }
            }
        }
        None if flags & UNUSUAL == 0 && !forced::is_on() => {
            if let Ok(flight) = Flight::begin(fd) {
                return without_ring(fd, flight, &mut next);
            }
        }
        None => {}
    }
    moved_out_by_any::<IS_POINT>(fd, bytes, flags, next)
}

/// A write on a connection whose uses are counted has returned this. Hands it on.
#[inline(always)]
fn counted_write(fd: c_int, flight: Flight, result: ssize_t) -> ssize_t {
    flight.land();
    if result > 0 {
        table::counted(fd, Direction::Out, result as u64);
    }
    result
}

/// Flags of writes that leave in the kernel what rings cannot have.
const UNUSUAL: c_int = libc::MSG_OOB | libc::MSG_ZEROCOPY;

/// A write on a connection that has no ring.
#[inline(always)]
fn without_ring(fd: c_int, flight: Flight, next: &mut impl FnMut() -> ssize_t) -> ssize_t {
    let result = next();
    flight.land();
    seen::output(fd, result);
    result
}

/// What is left of [`moved_out`]. A function of its own, for which nothing is prepared where
/// [`rings::io::write_short`] does.
#[inline(never)]
fn moved_out_by_any<const IS_POINT: bool>(
    fd: c_int,
    bytes: impl Source,
    flags: c_int,
    mut next: impl FnMut() -> ssize_t,
) -> ssize_t {
    if IS_POINT {
        cancel::point();
    }
    loop {
        let known = match ring(fd) {
            Some(known) => known,
            None => {
                if flags & UNUSUAL != 0 {
                    seen::unusual(fd);
                }
                match Flight::begin(fd) {
                    Ok(flight) => return without_ring(fd, flight, &mut next),
                    Err(known) => known,
                }
            }
        };
        let mut native = || known.gives(&mut next);
        let bytes = bytes.bytes();
        // As in `got`.
        if let Ok(result) = rings::io::write(known, fd, bytes.as_ref(), flags, &mut Native::of(&mut native)) {
            if result <= 0 {
                // As in `moved_in`: what other connections owe.
                rings::leave::visits();
            }
            return result;
        }
    }
}

/// Where the bytes of a call are.
pub(crate) trait Source {
    fn bytes(&self) -> Option<Bytes>;

    /// If they are few, and in one place: that, and how many.
    #[inline(always)]
    fn short(&self) -> Option<(*const c_void, size_t)> {
        None
    }
}

impl<F: Fn() -> Option<Bytes>> Source for F {
    #[inline(always)]
    fn bytes(&self) -> Option<Bytes> {
        self()
    }
}

/// In one place.
pub(crate) struct Flat {
    at: *const c_void,
    length: size_t,
}

impl Source for Flat {
    #[inline(always)]
    fn bytes(&self) -> Option<Bytes> {
        Some(Bytes::flat(self.at, self.length))
    }

    #[inline(always)]
    fn short(&self) -> Option<(*const c_void, size_t)> {
        (self.length <= rings::io::SHORT_BYTES).then_some((self.at, self.length))
    }
}

#[inline(always)]
pub(crate) fn flat(at: *const c_void, length: size_t) -> Flat {
    Flat { at, length }
}

#[inline(always)]
pub(crate) fn parts(vector: *const iovec, count: c_int) -> impl Fn() -> Option<Bytes> {
    // SAFETY: the program's own vector, which its own call reads.
    move || unsafe { Bytes::parts(vector, usize::try_from(count).ok()?) }
}

/// Whether no call with so many parts moves anything: the kernel refuses it, or returns 0 at once
/// (`UIO_MAXIOV`).
#[inline(always)]
fn moves_nothing(count: c_int) -> bool {
    !(1..=1024).contains(&count)
}

/// Of calls that end the program if there is less room than they are to fill.
#[inline(always)]
fn checked(at: *const c_void, length: size_t, room: size_t) -> impl Fn() -> Option<Bytes> {
    move || (length <= room).then(|| Bytes::flat(at, length))
}

/// The longest address that the kernel takes (`struct sockaddr_storage`).
const ADDRESS_BYTES: usize = size_of::<libc::sockaddr_storage>();

/// Of calls that may say where the bytes go. A connection takes no notice, of an address that is one;
/// anything else is for the kernel to look at.
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
    bytes: impl Source,
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

interposers! {
    fn read(fd: c_int, to: *mut c_void, length: size_t) -> ssize_t, as libc::SYS_read, quick any hot 0;
        |next| got(fd, flat(to, length), 0, || next(fd, to, length))
    fn __read(fd: c_int, to: *mut c_void, length: size_t) -> ssize_t, as libc::SYS_read, quick any;
        |next| got(fd, flat(to, length), 0, || next(fd, to, length))
    fn __read_chk(fd: c_int, to: *mut c_void, length: size_t, room: size_t) -> ssize_t, as libc::SYS_read, quick any;
        |next| got(fd, checked(to, length, room), 0, || next(fd, to, length, room))
    fn readv(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t, as libc::SYS_readv, quick any;
        |next| if moves_nothing(count) { next(fd, vector, count) } else { got(fd, parts(vector, count), 0, || next(fd, vector, count)) }
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
        |next| if moves_nothing(count) { next(fd, vector, count) } else { gave(fd, parts(vector, count), 0, || next(fd, vector, count)) }
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
}

//! The table's places: how connections get, share and give back theirs, and what is done with all of them.

use core::ops::Range;

use libc::c_int;
use sockets_rules::layout::Reason;

use super::mapped::empty;
use super::{CONNECTIONS, Conn, all, by_fd, conns, of, ready_bit, state, users};
use crate::near::NEAR;
use crate::sync::{AtomicU32, Ordering, fence};
use crate::{raw, table};

/// Whether any ever was ready.
static ANY: AtomicU32 = AtomicU32::new(0);

/// Whether any connection of this process is ready.
#[inline(always)]
pub(crate) fn any() -> bool {
    ANY.load(Ordering::Relaxed) != 0
}

/// Calls `each` with all that are ready, as a mover of each.
pub(crate) fn for_each_moving(mut each: impl FnMut(&'static Conn)) {
    for_each_ready(|conn| {
        // One that was closed meanwhile is nobody's business any more.
        let _ = conn.known().and_then(|known| known.moving(&mut each));
    });
}

/// Calls `each` with all that are ready.
pub(crate) fn for_each_ready(mut each: impl FnMut(&'static Conn)) {
    for_each_ready_at(0..CONNECTIONS, |_, conn| each(conn));
}

/// Calls `each` with all that are ready and have one of these places, by place.
#[inline(always)]
pub(crate) fn for_each_ready_at(places: Range<usize>, mut each: impl FnMut(usize, &'static Conn)) {
    let Some(conns) = conns() else { return };
    let words = places.start / 64..places.end.div_ceil(64);
    for word in words.clone() {
        let Some(bits) = conns.ready.get(word) else { return };
        let mut bits = bits.load(Ordering::Acquire);
        if word == words.start {
            bits &= u64::MAX << (places.start % 64);
        }
        while bits != 0 {
            let at = word * 64 + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            if at < places.end
                && let Some(conn) = conns.all.get(at)
                && conn.is(state::READY)
            {
                each(at, conn);
            }
        }
    }
}

/// The connection of this cookie, if it has, or had, a ring.
pub(crate) fn with_ring(cookie: u64) -> Option<&'static Conn> {
    let is_it = |conn: &Conn| {
        let is_met = || conn.headers().is_some_and(|(own, _)| own.cookie.load(Ordering::Relaxed) == cookie);
        conn.cookie.load(Ordering::Relaxed) == cookie
            && (conn.is(state::READY) || conn.is(state::OVER) && is_met())
    };
    if cookie == 0 { None } else { all().iter().find(|conn| is_it(conn)) }
}

/// By its place.
pub(crate) fn at(place: usize) -> Option<&'static Conn> {
    all().get(place)
}

/// Its place in the table.
pub(crate) fn place(conn: &Conn) -> usize {
    ((&raw const *conn) as usize).wrapping_sub(all().as_ptr() as usize) / size_of::<Conn>()
}

/// Makes it ready.
pub(crate) fn becomes_ready(conn: &Conn) {
    let at = place(conn);
    // Pairs with the Acquire of `is`: who finds it ready finds its regions.
    conn.state.store(state::READY, Ordering::Release);
    conn.because(Reason::Memory);
    ANY.store(1, Ordering::Relaxed);
    if let Some((bits, bit)) = ready_bit(at) {
        // As above, with the Acquire of `for_each_ready`.
        bits.fetch_or(bit, Ordering::Release);
    }
}

/// A place for a connection that is worth trying; else why it gets none. If it has one under another number,
/// this is then `copied`.
pub(crate) fn claim(fd: c_int, cookie: u64, record: u16) -> Result<&'static Conn, Reason> {
    // Streams of the C library read and write these numbers, which no interposer sees.
    if fd <= libc::STDERR_FILENO {
        return Err(Reason::Unseen);
    }
    let by_fd = by_fd(fd).ok_or(Reason::TooMany)?;
    if by_fd.load(Ordering::Relaxed) != 0 {
        return Err(Reason::Inherited);
    }
    for conn in all() {
        // Acquire: with the Release in `release`, so that whoever had it before is through.
        let taken =
            conn.state.compare_exchange(state::FREE, state::BUSY, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_err() {
            if conn.cookie.load(Ordering::Relaxed) == cookie {
                copied(conn, fd);
                believes(fd, cookie);
                return Err(Reason::Inherited);
            }
            continue;
        }
        conn.place.store(place(conn) as u16 + 1, Ordering::Relaxed);
        conn.fd.store(fd as u32, Ordering::Relaxed);
        conn.numbers.store(1, Ordering::Relaxed);
        conn.cookie.store(cookie, Ordering::Relaxed);
        conn.record.store(u32::from(record), Ordering::Relaxed);
        conn.meeting.reset();
        conn.kept.reset();
        conn.pace.reset();
        conn.sleep.reset();
        conn.told.reset();
        conn.owed.reset();
        conn.standing.reset();
        NEAR.meetings.store(1, Ordering::Relaxed);
        // Before a child of this process may share the locks of a ring.
        crate::holder::holder();
        // Pairs with the Acquire of `known`.
        by_fd.store(place(conn) as u16 + 1, Ordering::Release);
        table::gets_a_place(fd);
        // Pairs with the Acquire of `is`: who finds it finds it empty.
        conn.state.store(state::MEETING, Ordering::Release);
        return if believes(fd, cookie) { Ok(conn) } else { Err(Reason::Inherited) };
    }
    Err(Reason::TooMany)
}

/// Whether the number, which has just got a connection, still is of the socket with this cookie; else it gets
/// none. Who closes it from here on finds the connection.
fn believes(fd: c_int, cookie: u64) -> bool {
    fence(Ordering::SeqCst);
    let is_its = !crate::rings::closing::is_closing(fd)
        && raw::socket_option::<u64>(fd, libc::SO_COOKIE).is_ok_and(|now| now == cookie);
    if !is_its {
        closing(fd);
    }
    is_its
}

/// Another number for it.
pub(crate) fn copied(conn: &Conn, fd: c_int) {
    if let Some(by_fd) = by_fd(fd)
        && by_fd.load(Ordering::Relaxed) == 0
    {
        conn.numbers.fetch_add(1, Ordering::Relaxed);
        // Pairs with the Acquire of `known`, as in `claim`.
        by_fd.store(place(conn) as u16 + 1, Ordering::Release);
        table::gets_a_place(fd);
    }
}

/// The number has become something else: it was closed unseen, and what it was is nobody's.
pub(crate) fn was_closed(fd: c_int) {
    if met() && of(fd).is_some() {
        gives_up(fd, true);
    }
}

/// The number is no longer of its connection. With its last number the connection is closed.
pub(crate) fn closing(fd: c_int) {
    gives_up(fd, false);
}

fn gives_up(fd: c_int, is_gone: bool) {
    let Some(by_fd) = by_fd(fd) else { return };
    if by_fd.load(Ordering::Relaxed) == 0 {
        return;
    }
    let at = usize::from(by_fd.swap(0, Ordering::SeqCst)).checked_sub(1);
    let Some(conn) = at.and_then(|at| all().get(at)) else { return };
    if conn.numbers.fetch_sub(1, Ordering::Relaxed) == 1 {
        // Nobody finds it by what it was any more.
        conn.cookie.store(0, Ordering::Relaxed);
        if let Some((bits, bit)) = ready_bit(place(conn)) {
            bits.fetch_and(!bit, Ordering::Relaxed);
        }
        conn.closes(fd, is_gone);
    } else if conn.fd() == fd {
        for_each_number(0, u32::MAX, |other| {
            if of(other).is_some_and(|of| core::ptr::eq(of, conn)) {
                conn.fd.store(other as u32, Ordering::Relaxed);
            }
        });
    }
}

/// Gives its place back.
pub(super) fn release(conn: &Conn) {
    conn.state.store(state::BUSY, Ordering::Relaxed);
    for region in [&conn.own, &conn.peer] {
        let address = region.load(Ordering::Relaxed);
        if !address.is_null() {
            empty(address as usize);
        }
    }
    conn.users.are_none();
    // Pairs with the Acquire in `claim`.
    conn.state.store(state::FREE, Ordering::Release);
}

/// In the child of a fork: what its parent counts is its parent's.
pub(crate) fn forked() {
    if !met() {
        return;
    }
    users::forked();
    for conn in all() {
        conn.users.forked();
        if conn.state.load(Ordering::Relaxed) == state::MEETING {
            // Both would look for the other end. Its region's words are shared with the parent, which says
            // there that it has given up.
            conn.over(state::MEETING, Reason::Inherited);
        }
        crate::rings::pair::end(conn);
        conn.sleep.forked();
        conn.owed.owes.store(0, Ordering::Relaxed);
        conn.meeting.at_it.store(0, Ordering::Relaxed);
        conn.standing.shared.store(1, Ordering::Relaxed);
    }
}

/// Calls `each` with all whose ends are looking for each other.
pub(crate) fn for_each_meeting(mut each: impl FnMut(&'static Conn)) {
    if !met() {
        return;
    }
    for conn in all() {
        if conn.state.load(Ordering::Relaxed) == state::MEETING {
            each(conn);
        }
    }
}

/// Whether this process ever had a connection in the table.
#[inline(always)]
pub(crate) fn met() -> bool {
    NEAR.meetings.load(Ordering::Relaxed) != 0
}

/// Calls `each` with the numbers from `first` to `last` that have a connection.
pub(crate) fn for_each_number(first: u32, last: u32, mut each: impl FnMut(c_int)) {
    let Some(conns) = conns() else { return };
    for (fd, place) in conns.by_fd.iter().enumerate().skip(first as usize) {
        if fd > last as usize {
            return;
        }
        if place.load(Ordering::Relaxed) != 0 {
            each(fd as c_int);
        }
    }
}

//! Connections that have, or may get, rings: this process's data of each, found by descriptor.
//!
//! A fixed table, touched where it is used. A connection is in it from the use that makes it worth trying until its last known
//! descriptor is closed. The regions of a closed one are replaced by empty memory before they are used again: a call that
//! another thread is in meanwhile finds words that say nothing.

mod holders;
mod known;
mod mapped;
pub(crate) mod parked;
mod parts;
mod users;
mod waiting;

use core::ops::Range;

use libc::c_int;

use sockets_rules::layout::Reason;
use stream::path;

pub(crate) use self::holders::{copied_outside, forking, has_forked, shared};
pub(crate) use self::known::Known;
use self::mapped::empty;
pub(crate) use self::mapped::map;
use self::parts::{Kept, Meeting, Owed, Sleep, Standing, Told};
pub(crate) use self::users::{Gone, Mover, Use, forks, takes_away};
use super::pace::Pace;
pub(crate) use super::pace::counts_down;
use super::tables;
use super::words::Words;
use crate::hook::get_errno;
use crate::page::{self, Way};
use crate::raw;
use crate::sync::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
use crate::table::NUMBERS;

/// Connections of a process that may have rings at the same time.
pub(crate) const CONNECTIONS: usize = 1024;

/// How far a connection is.
pub(crate) mod state {
    /// Nobody's.
    pub(crate) const FREE: u32 = 0;
    /// Being prepared or given up.
    pub(crate) const BUSY: u32 = 1;
    /// Looking for the other end.
    pub(crate) const MEETING: u32 = 2;
    /// Both ends have each other's regions.
    pub(crate) const READY: u32 = 3;
    /// It stays with the kernel.
    pub(crate) const OVER: u32 = 4;
}

pub(crate) struct Conn {
    pub(crate) state: AtomicU32,
    pub(crate) users: users::Users,
    /// Plus 1: which place this is.
    pub(crate) place: AtomicU16,
    /// A number of it, and how many there are.
    pub(crate) fd: AtomicU32,
    pub(crate) numbers: AtomicU32,
    pub(crate) cookie: AtomicU64,
    /// Of the statistics.
    pub(crate) record: AtomicU32,
    pub(crate) own: AtomicPtr<Words>,
    pub(crate) peer: AtomicPtr<Words>,
    pub(crate) meeting: Meeting,
    pub(crate) kept: Kept,
    pub(crate) pace: Pace,
    pub(crate) sleep: Sleep,
    pub(crate) told: Told,
    pub(crate) owed: Owed,
    pub(crate) standing: Standing,
}

impl Conn {
    pub(crate) fn is(&self, state: u32) -> bool {
        // In one order with what `Flight::begin` has added before.
        self.state.load(Ordering::SeqCst) == state
    }

    /// Whether all of this was done for the ends to meet.
    pub(crate) fn has_done(&self, what: u32) -> bool {
        self.meeting.done.load(Ordering::Relaxed) & what == what
    }

    /// From `state` on it stays with the kernel, for this reason.
    pub(crate) fn over(&self, state: u32, reason: Reason) {
        // Pairs with the Acquire of `is`: who finds it over finds nothing in rings.
        if self.state.compare_exchange(state, state::OVER, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            self.because(reason);
        }
    }

    /// Says so in the statistics.
    pub(crate) fn because(&self, reason: Reason) {
        page::because(self.record(), reason);
    }

    pub(crate) fn record(&self) -> u16 {
        self.record.load(Ordering::Relaxed) as u16
    }

    pub(crate) fn fd(&self) -> c_int {
        self.fd.load(Ordering::Relaxed) as c_int
    }

    /// What the program was told by a call of its own.
    pub(crate) fn said(&self, result: isize) {
        if result < 0 {
            self.refused(-(get_errno() as isize));
        }
    }

    /// What the kernel has said, which it says once.
    pub(crate) fn refused(&self, error: isize) {
        if error == -(libc::ECONNRESET as isize) || error == -(libc::ETIMEDOUT as isize) {
            self.told.reset.store(1, Ordering::Relaxed);
        }
    }

    /// Whether somebody may have been told of a reset. Of what other processes were told nothing is known.
    pub(crate) fn may_be_reset(&self) -> bool {
        self.told.reset.load(Ordering::Relaxed) != 0 || self.standing.shared.load(Ordering::Relaxed) != 0
    }

    /// Whether everything comes through the kernel, and there is no need to change that yet: both ends are on one processor, or being
    /// awake has brought nothing for some time. Counts down, with each read and write.
    #[inline(always)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.sleep.parked.load(Ordering::Relaxed) == parked::EMPTY
            && (self.pace.is_together() || counts_down(&self.sleep.stays))
    }

    /// Bytes have come through the kernel. What goes back to it does so in pieces that may be smaller than the program's writes: the writer's
    /// kernel holds each until the one before is acknowledged (RFC 896), so that is done at once.
    pub(crate) fn came(&self, fd: c_int, peer: &Words) {
        let base = peer.way.0.base.load(Ordering::Relaxed);
        let is_new = self.owed.acknowledged_base.load(Ordering::Relaxed) != base;
        self.owed.unacknowledged.store(u32::from(!is_new), Ordering::Relaxed);
        if is_new {
            self.owed.acknowledged_base.store(base, Ordering::Relaxed);
            super::kernel::acknowledge(fd);
        }
    }

    /// Whether it has a ring, and the readers of the other end sleep: they are woken by the kernel alone.
    pub(crate) fn is_slept_over(&self) -> bool {
        self.is(state::READY)
            && self.words().is_some_and(|(_, peer)| peer.will.0.asleep.load(Ordering::Relaxed) != 0)
    }

    /// Makes a call that gives bytes to the kernel beside the ring, of the program or for it, and counts what it says. By what it finds before: behind
    /// the call the place may be another connection's.
    #[inline(always)]
    pub(crate) fn gives(&self, call: impl FnOnce() -> isize) -> isize {
        let (record, is_slept_over) = (self.record(), self.is_slept_over());
        let given = call();
        if given > 0 {
            page::kernel(record, Way::Out, given as u64);
            if is_slept_over {
                page::asleep(record, given as u64);
            }
        }
        given
    }

    /// Whether the half that is not about to be shut down was before; also if the other end has ended, which writes nothing any more.
    pub(crate) fn is_other_half_shut(&self, fd: c_int, how: c_int) -> bool {
        match how {
            libc::SHUT_RD => self.words().is_some_and(|(own, _)| {
                matches!(own.way.0.path.load(Ordering::Acquire), path::SHUT | path::LAST)
            }),
            _ => super::kernel::has_hung_up(fd),
        }
    }

    /// Readers of the other end have been at work for so long that they must have been stopped.
    pub(crate) fn is_stuck(&self) -> bool {
        self.owed.stuck.load(Ordering::Relaxed) >= super::run::STUCK
    }

    /// The words of this end and of the other. Only of a connection that is ready.
    #[inline(always)]
    pub(crate) fn words(&self) -> Option<(&'static Words, &'static Words)> {
        // SAFETY: once set, the addresses of a place in the table stay mapped for good: what is mapped there changes, and any
        // bytes are words.
        unsafe {
            Some((self.own.load(Ordering::Acquire).as_ref()?, self.peer.load(Ordering::Acquire).as_ref()?))
        }
    }
}

/// All connections, and how they are found. Zeroes are an empty one.
pub(super) struct Conns {
    all: [Conn; CONNECTIONS],
    /// By number of the descriptor: which connection, plus 1.
    by_fd: [AtomicU16; NUMBERS],
    /// Which places are ready: what waits looks at these.
    ready: [AtomicU64; CONNECTIONS / 64],
}

/// Whether any ever was.
static ANY: AtomicU32 = AtomicU32::new(0);

/// The connection of a number, if it has a place in the table.
#[inline(always)]
pub(crate) fn of(fd: c_int) -> Option<&'static Conn> {
    let conns = conns()?;
    // As in `Known::by`.
    let place = conns.by_fd.get(usize::try_from(fd).ok()?)?.load(Ordering::Acquire);
    if place == 0 { None } else { conns.all.get(usize::from(place) - 1) }
}

/// The same, with the number by which it was found: see [`users`].
#[inline(always)]
pub(crate) fn known(fd: c_int) -> Option<Known> {
    let conns = conns()?;
    Known::by(conns.by_fd.get(usize::try_from(fd).ok()?)?, &conns.all)
}

#[inline(always)]
fn conns() -> Option<&'static Conns> {
    Some(&tables::get()?.conns)
}

/// The number's place in the table.
fn by_fd(fd: c_int) -> Option<&'static AtomicU16> {
    conns()?.by_fd.get(usize::try_from(fd).ok()?)
}

/// All, whatever has become of them.
fn all() -> &'static [Conn] {
    conns().map_or(&[], |conns| &conns.all)
}

/// The bits of a place among those that are ready, and which one.
fn ready_bit(at: usize) -> Option<(&'static AtomicU64, u64)> {
    Some((conns()?.ready.get(at / 64)?, 1 << (at % 64)))
}

/// As [`of`], if it is ready.
#[inline(always)]
pub(crate) fn ready(fd: c_int) -> Option<&'static Conn> {
    of(fd).filter(|conn| conn.is(state::READY))
}

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
        let is_met = || conn.words().is_some_and(|(own, _)| own.cookie.load(Ordering::Relaxed) == cookie);
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

/// A place for a connection that is worth trying; else why it gets none. If it has one under another number, this is then `copied`.
pub(crate) fn claim(fd: c_int, cookie: u64, record: u16) -> Result<&'static Conn, Reason> {
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
        MEETINGS.store(1, Ordering::Relaxed);
        // Before a child of this process may share the locks of a ring.
        crate::holder::holder();
        // Pairs with the Acquire of `known`.
        by_fd.store(place(conn) as u16 + 1, Ordering::Release);
        // Pairs with the Acquire of `is`: who finds it finds it empty.
        conn.state.store(state::MEETING, Ordering::Release);
        return if believes(fd, cookie) { Ok(conn) } else { Err(Reason::Inherited) };
    }
    Err(Reason::TooMany)
}

/// Whether the number, which has just got a connection, still is of the socket with this cookie; else it gets none. Who closes it from here on
/// finds the connection.
fn believes(fd: c_int, cookie: u64) -> bool {
    fence(Ordering::SeqCst);
    let is_its = !super::closing::is_closing(fd)
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
fn release(conn: &Conn) {
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
    if MEETINGS.load(Ordering::Relaxed) == 0 {
        return;
    }
    users::forked();
    for conn in all() {
        conn.users.forked();
        if conn.state.load(Ordering::Relaxed) == state::MEETING {
            // Both would look for the other end. Its region's words are shared with the parent, which says there that it has given up.
            conn.over(state::MEETING, Reason::Inherited);
        }
        super::pair::end(conn);
        conn.sleep.forked();
        conn.owed.owes.store(0, Ordering::Relaxed);
        conn.meeting.at_it.store(0, Ordering::Relaxed);
        conn.standing.shared.store(1, Ordering::Relaxed);
    }
}

/// Calls `each` with all whose ends are looking for each other.
pub(crate) fn for_each_meeting(mut each: impl FnMut(&'static Conn)) {
    if MEETINGS.load(Ordering::Relaxed) == 0 {
        return;
    }
    for conn in all() {
        if conn.state.load(Ordering::Relaxed) == state::MEETING {
            each(conn);
        }
    }
}

/// Whether there ever was one.
static MEETINGS: AtomicU32 = AtomicU32::new(0);

/// Whether this process ever had a connection in the table.
pub(crate) fn met() -> bool {
    MEETINGS.load(Ordering::Relaxed) != 0
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

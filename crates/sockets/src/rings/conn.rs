//! Connections that have, or may get, rings: this process's data of each, found by descriptor.
//!
//! A fixed table, touched where it is used. A connection is in it from the use that makes it worth trying
//! until its last known descriptor is closed. The regions of a closed one are replaced by empty memory before
//! they are used again: a call that another thread is in meanwhile finds words that say nothing.

mod holders;
mod mapped;
pub(crate) mod parked;
mod parts;
mod places;
mod users;
mod waiting;

use libc::c_int;

use sockets_rules::layout::Reason;
use stream::{consent, path};

pub(crate) use self::holders::{copied_outside, forking, has_forked, shared};
pub(crate) use self::mapped::map;
use self::parts::{Kept, Meeting, Owed, Sleep, Standing, Told};
use self::places::release;
pub(crate) use self::places::{
    any, at, becomes_ready, claim, closing, for_each_meeting, for_each_moving, for_each_number,
    for_each_ready, for_each_ready_at, forked, met, place, was_closed, with_ring,
};
pub(crate) use self::users::{Gone, Mover, Use, forks, takes_away};
use super::header::Header;
use super::pace::Pace;
pub(crate) use super::pace::counts_down;
use super::tables;
use crate::interposer::get_errno;
use crate::page::{self, Direction};
use crate::sync::{AtomicPtr, AtomicU16, AtomicU32, AtomicU64, Ordering};
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

/// What every call looks at comes first: it is in as few lines of the cache as there can be.
#[repr(C, align(64))]
pub(crate) struct Conn {
    pub(crate) state: AtomicU32,
    /// Of the statistics.
    pub(crate) record: AtomicU32,
    pub(crate) users: users::Users,
    pub(crate) own: AtomicPtr<Header>,
    pub(crate) peer: AtomicPtr<Header>,
    /// Plus 1: which place this is.
    pub(crate) place: AtomicU16,
    /// A number of it, and how many there are.
    pub(crate) fd: AtomicU32,
    pub(crate) numbers: AtomicU32,
    pub(crate) sleep: Sleep,
    pub(crate) told: Told,
    pub(crate) owed: Owed,
    pub(crate) kept: Kept,
    pub(crate) pace: Pace,
    pub(crate) standing: Standing,
    pub(crate) cookie: AtomicU64,
    pub(crate) meeting: Meeting,
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

    /// Whether somebody may have been told of a reset. What other processes, and calls past the library, were
    /// told is not known.
    pub(crate) fn may_be_reset(&self) -> bool {
        let is_read_past = || {
            self.headers()
                .is_some_and(|(own, _)| own.reader.0.consent.load(Ordering::Relaxed) == consent::WITHDRAWN)
        };
        self.told.reset.load(Ordering::Relaxed) != 0
            || self.standing.shared.load(Ordering::Relaxed) != 0
            || is_read_past()
    }

    /// Whether this process counts as asleep, with nothing in the ring.
    #[inline(always)]
    pub(crate) fn is_parked_over_nothing(&self) -> bool {
        self.sleep.parked.load(Ordering::Relaxed) == parked::EMPTY
    }

    /// Whether everything comes through the kernel, and there is no need to change that yet: both ends are on
    /// one processor, or being awake has brought nothing for some time. Counts down, with each read and
    /// write.
    #[inline(always)]
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_parked_over_nothing() && (self.pace.is_together() || counts_down(&self.sleep.stays))
    }

    /// Bytes have come through the kernel. What goes back to it does so in pieces that may be smaller than
    /// the program's writes: the writer's kernel holds each until the one before is acknowledged (RFC 896),
    /// so that is done at once.
    pub(crate) fn came(&self, fd: c_int, peer: &Header) {
        let base = peer.writer.0.base.load(Ordering::Relaxed);
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
            && self.headers().is_some_and(|(_, peer)| peer.reader.0.asleep.load(Ordering::Relaxed) != 0)
    }

    /// Makes a call that gives bytes to the kernel beside the ring, of the program or for it, and counts what
    /// it says. By what it finds before: behind the call the place may be another connection's.
    #[inline(always)]
    pub(crate) fn gives(&self, call: impl FnOnce() -> isize) -> isize {
        let (record, is_slept_over) = (self.record(), self.is_slept_over());
        let given = call();
        if given > 0 {
            page::kernel(record, Direction::Out, given as u64);
            if is_slept_over {
                page::asleep(record, given as u64);
            }
        }
        given
    }

    /// Whether the half that is not about to be shut down was before; also if the other end has ended, which
    /// writes nothing any more.
    pub(crate) fn is_other_half_shut(&self, fd: c_int, how: c_int) -> bool {
        match how {
            libc::SHUT_RD => self.headers().is_some_and(|(own, _)| {
                matches!(own.writer.0.path.load(Ordering::Acquire), path::SHUT | path::LAST)
            }),
            _ => super::kernel::has_hung_up(fd),
        }
    }

    /// Readers of the other end have been at work for so long that they must have been stopped.
    pub(crate) fn is_stuck(&self) -> bool {
        self.owed.stuck.load(Ordering::Relaxed) >= super::run::STUCK
    }

    /// The shared headers of this end and of the other. Only of a connection that is ready.
    #[inline(always)]
    pub(crate) fn headers(&self) -> Option<(&'static Header, &'static Header)> {
        // SAFETY: once set, the addresses of a place in the table stay mapped for good: what is mapped there
        // changes, and any bytes are words.
        unsafe {
            Some((self.own.load(Ordering::Acquire).as_ref()?, self.peer.load(Ordering::Acquire).as_ref()?))
        }
    }
}

/// A connection, as it was found.
#[derive(Clone, Copy)]
pub(crate) struct Known {
    pub(crate) conn: &'static Conn,
    /// What says of which place the number is, by which it was found.
    by_fd: &'static AtomicU16,
}

impl core::ops::Deref for Known {
    type Target = Conn;

    #[inline(always)]
    fn deref(&self) -> &Conn {
        self.conn
    }
}

impl Known {
    /// The connection that a number is of.
    #[inline(always)]
    fn by(by_fd: &'static AtomicU16, all: &'static [Conn; CONNECTIONS]) -> Option<Self> {
        // Pairs with the Release in `claim` and `copied`: the place is this connection's, or a later one's.
        // SeqCst as in `Conn::is`.
        let place = usize::from(by_fd.load(Ordering::SeqCst));
        Some(Self { conn: all.get(place.checked_sub(1)?)?, by_fd })
    }

    /// Whether the number was not closed: with the lock, nobody else gets the place before that is free.
    #[inline(always)]
    pub(crate) fn is_still(self) -> bool {
        self.by_fd.load(Ordering::SeqCst) == self.conn.place.load(Ordering::Relaxed)
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

/// The connection of a number, if it has a place in the table.
#[inline(always)]
pub(crate) fn of(fd: c_int) -> Option<&'static Conn> {
    let conns = conns()?;
    // As in `Known::by`.
    let place = conns.by_fd.get(usize::try_from(fd).ok()?)?.load(Ordering::Acquire);
    if place == 0 { None } else { conns.all.get(usize::from(place) - 1) }
}

/// The program was told this by a call on the number that no ring was asked for.
pub(crate) fn told(fd: c_int, result: isize) {
    if any()
        && let Some(conn) = ready(fd)
    {
        conn.said(result);
    }
}

/// As [`of`], with the number by which it was found: see [`users`].
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

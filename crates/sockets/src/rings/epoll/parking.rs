//! Which connection is registered in which epoll, and which are parked.
//!
//! A connection that somebody may sleep over is *parked*: its end counts itself among the sleepers until the
//! program next reads from it, so that everything comes through the kernel, with all that epoll can do. Of a
//! sleep only those are parked that have been read from since the last.

use core::ops::Range;

use libc::{c_int, epoll_event};
use stream::park;

use super::interest::{Interest, MANY, Registration};
use super::noting::{self, Noted, Standing};
use crate::rings::conn::parked::{self, Parking};
use crate::rings::conn::{self, CONNECTIONS, Conn, Known, counts_down};
use crate::rings::header::Header;
use crate::rings::io::offers;
use crate::rings::{leave, proc, spin, tables};
use crate::sync::{AtomicU8, AtomicU16, AtomicU32, Ordering, fence};
use crate::table::{self, Kind, NUMBERS};

/// What is known of epolls. Zeroes are nothing.
pub(crate) struct Epolls {
    interests: [Interest; NUMBERS],
    /// By number of an epoll.
    states: [State; NUMBERS],
    pub(super) noted: Noted,
}

/// Of one epoll.
pub(super) struct State {
    /// How many sleep in it; `FOREIGN` if they may do so unseen.
    pub(super) sleepers: AtomicU32,
    pub(super) standing: Standing,
    pub(super) turns: Turns,
}

/// Whose turn the next wait is, where the last one had room for a part of what there was.
pub(super) struct Turns {
    /// The place from which on connections are looked at first.
    pub(super) first: AtomicU16,
    /// Whether the kernel is asked before any ring is looked at.
    pub(super) is_kernels: AtomicU8,
}

pub(super) const FOREIGN: u32 = 1 << 31;

pub(super) fn interest(fd: c_int) -> Option<&'static Interest> {
    tables::get()?.epolls.interests.get(usize::try_from(fd).ok()?)
}

/// By number of an epoll, plus 1.
pub(super) fn epoll_state(epoll: u32) -> Option<&'static State> {
    tables::get()?.epolls.states.get((epoll as usize).checked_sub(1)?)
}

/// Whose turn it is in an epoll.
pub(super) fn turns(epoll: c_int) -> Option<&'static Turns> {
    Some(&epoll_state(epoll as u32 + 1)?.turns)
}

/// As [`epoll_state`].
pub(super) fn sleepers(epoll: u32) -> Option<&'static AtomicU32> {
    Some(&epoll_state(epoll)?.sleepers)
}

/// Makes a call of `epoll_ctl`, or notes what it would change.
///
/// # Safety
/// `next` must be that call, with these arguments.
#[unsafe(link_section = ".text.nearby")]
pub(crate) unsafe fn controls(
    epoll: c_int,
    what: c_int,
    fd: c_int,
    event: *const epoll_event,
    next: impl FnOnce() -> c_int,
) -> c_int {
    if noting::notes(epoll, what, fd, event) {
        return 0;
    }
    noting::sees();
    let Some(interest) = interest(fd) else { return next() };
    let is_counted = interest.begins(noting::kernel_of(fd));
    let result = next();
    let changed = (result == 0).then(|| {
        let read = || {
            // SAFETY: the kernel has just read it; it need not be aligned.
            unsafe { event.read_unaligned() }
        };
        let has_event = what == libc::EPOLL_CTL_ADD || what == libc::EPOLL_CTL_MOD;
        let event = if has_event { read() } else { epoll_event { events: 0, u64: 0 } };
        ((epoll as u32).wrapping_add(1), what, event)
    });
    // One that is not counted has come beside others, after which the kernel alone knows what is registered.
    let now = if is_counted { interest.ends(changed) } else { None };
    if result == 0 {
        controlled(epoll, what, fd, now);
    }
    result
}

/// `epoll_ctl` has succeeded, and the number is registered for this now; none if it was closed meanwhile.
#[unsafe(link_section = ".text.nearby")]
fn controlled(epoll: c_int, what: c_int, fd: c_int, now: Option<Registration>) {
    if let Some(nested) = sleepers((fd as u32).wrapping_add(1))
        && what == libc::EPOLL_CTL_ADD
        && matches!(table::kind(fd), Kind::Other | Kind::Unknown)
        && conn::of(fd).is_none()
        && proc::is_epoll(fd)
    {
        // Others wait for this one in their own, and look at no ring of what is in it.
        nested.fetch_or(FOREIGN, Ordering::SeqCst);
        copied(fd);
    }
    if what != libc::EPOLL_CTL_ADD && what != libc::EPOLL_CTL_MOD {
        if what == libc::EPOLL_CTL_DEL && noting::is_from_parent(epoll) {
            removed_from_parents(fd);
        }
        return;
    }
    if !noting::is_one(epoll)
        && let Some(sleepers) = sleepers(epoll as u32 + 1)
    {
        // Another process has made it, or it has another descriptor: a wait by that looks at no ring of what
        // is registered by this one.
        sleepers.fetch_or(FOREIGN, Ordering::SeqCst);
    }
    // A thread that copies the epoll's descriptor marks the epoll first, and then looks at what is in it.
    fence(Ordering::SeqCst);
    let Some(now) = now else { return };
    if let Some(known) = conn::known(fd).filter(|conn| conn.is(conn::state::READY)) {
        let conn = known.conn;
        let is_foreign =
            sleepers(epoll as u32 + 1).is_some_and(|sleepers| sleepers.load(Ordering::SeqCst) & FOREIGN != 0);
        if now.epoll == MANY || is_foreign || conn.standing.shared.load(Ordering::Relaxed) != 0 {
            // Other processes may wait in this epoll, and know nothing of it; or there are several, or what
            // it says once is the kernel's to say.
            let _ = known.moving(|conn| leave::waiting(conn, fd));
            return;
        }
        // Who waits in it already is woken by the kernel alone. Who goes to sleep now has either seen what it
        // is registered for, and parks it, or is seen here.
        fence(Ordering::SeqCst);
        if sleepers(epoll as u32 + 1).is_none_or(|sleepers| sleepers.load(Ordering::SeqCst) != 0) {
            park(conn);
            // What is in the ring already wakes nobody there.
            if conn.headers().is_some_and(|(own, peer)| offers(own, peer)) {
                leave::waited_for_elsewhere(known, fd);
                return;
            }
        }
        conn.told.edge.store(u64::MAX, Ordering::Relaxed);
    }
}

/// The parent does not see that it is in its epoll no more: its ring must not tell of anything there.
#[cold]
fn removed_from_parents(fd: c_int) {
    if let Some(known) = conn::known(fd).filter(|known| known.conn.is(conn::state::READY)) {
        leave::waited_for_elsewhere(known, fd);
    }
}

/// The number is about to be closed: with its last descriptor the kernel takes it out of every epoll. If
/// others have it, too, it stays in there as it is.
#[inline(always)]
pub(crate) fn forget(fd: c_int) {
    if noting::any_seen() {
        noting::makes_up_of(fd);
        becomes_new(fd);
    }
}

/// The number is something new, or about to be: nothing is known of it.
#[inline(always)]
pub(crate) fn is_new(fd: c_int) {
    if noting::any_seen() {
        becomes_new(fd);
    }
}

#[unsafe(link_section = ".text.nearby")]
fn becomes_new(fd: c_int) {
    let Some(interest) = interest(fd) else { return };
    interest.forgets();
    let is_made_here = noting::was_epoll(fd);
    let Some(sleepers) = sleepers((fd as u32).wrapping_add(1)) else { return };
    let is_foreign = sleepers.load(Ordering::SeqCst) & FOREIGN != 0;
    if is_made_here || is_foreign {
        if let Some(turns) = turns(fd) {
            turns.first.store(0, Ordering::Relaxed);
            turns.is_kernels.store(0, Ordering::Relaxed);
        }
        // With another process or descriptor it goes on, and it is not known who waits in it.
        for number in 0..table::highest() as c_int {
            if let Some(interest) = self::interest(number) {
                interest.loses(fd as u32 + 1, !is_foreign);
            }
        }
    }
    if is_foreign {
        // A thread that still sleeps in what the number was counts itself out when it wakes.
        sleepers.fetch_and(!FOREIGN, Ordering::SeqCst);
    }
}

/// Whether the number is registered in any epoll.
pub(crate) fn is_registered(fd: c_int) -> bool {
    conn::met() && interest(fd).is_some_and(|interest| interest.glance().epoll != 0)
}

/// As [`forget`], of many.
pub(crate) fn forget_range(first: u32, last: u32) {
    let end = table::highest().min(last.saturating_add(1));
    for fd in first..end {
        forget(fd as c_int);
    }
}

/// This end sleeps, as far as the other can see.
fn park(conn: &'static Conn) {
    // One that is closed meanwhile nobody sleeps over; its place is not another's before this is through.
    if let Ok(user) = conn.known().and_then(Known::enter) {
        park_as_user(conn);
        user.leave();
    }
}

fn park_as_user(conn: &Conn) {
    let Some((own, peer)) = conn.headers() else { return };
    let Ok(is_parked) = park::park(&mut Parking { conn, own, peer }, parked::some());
    if !is_parked {
        return;
    }
    // Whether being awake has brought anything through the ring; if not, again and again, it is tried less
    // often.
    let futile = match own.head.0.load(Ordering::Relaxed) == conn.sleep.woken_at.load(Ordering::Relaxed) {
        true => (conn.sleep.futile.load(Ordering::Relaxed) + 1).min(MOST_FUTILE),
        false => 0,
    };
    conn.sleep.futile.store(futile, Ordering::Relaxed);
    conn.sleep.stays.store(if futile > 2 { 1 << futile } else { 0 }, Ordering::Relaxed);
}

/// So often in a row being awake may bring nothing until it makes no difference any more.
const MOST_FUTILE: u32 = 9;

/// The program reads from a connection that is parked: whoever else sleeps over it, it is awake from here on,
/// unless somebody does. For users of it.
pub(crate) fn wakes(conn: &'static Conn, own: &Header) {
    if conn.sleep.waiting.load(Ordering::SeqCst) != 0 {
        // They are woken by the kernel alone.
        return;
    }
    if counts_down(&conn.sleep.stays) {
        return;
    }
    spin::is_here(own, spin::clock().1);
    conn.sleep.woken_at.store(own.head.0.load(Ordering::Relaxed), Ordering::Relaxed);
    let registered = interest(conn.fd()).map_or(0, |interest| interest.glance().epoll);
    let is_slept_over = |registered: u32| {
        registered == MANY
            || sleepers(registered).is_some_and(|sleepers| sleepers.load(Ordering::SeqCst) != 0)
    };
    if is_slept_over(registered) {
        return;
    }
    let Some((_, peer)) = conn.headers() else { return };
    let Ok(is_awake) = park::wake(&mut Parking { conn, own, peer });
    if !is_awake {
        return;
    }
    // Who goes to sleep now has either seen that it is awake, or is seen here.
    fence(Ordering::SeqCst);
    if is_slept_over(registered) {
        park(conn);
    }
}

/// Calls `each` with the connections with one of these places that are registered in an epoll, of those with
/// a state that `is` wanted: its place, the connection, what it is registered for.
#[inline(always)]
fn for_each_in(
    epoll: c_int,
    places: Range<usize>,
    is: impl Fn(u64) -> bool,
    mut each: impl FnMut(usize, &'static Conn, &'static Interest, u32),
) {
    conn::for_each_ready_at(places, |place, conn| {
        if is(conn.sleep.parked.load(Ordering::Relaxed))
            && let Some(interest) = interest(conn.fd())
        {
            let now = interest.glance();
            if now.is_in(epoll as u32 + 1) {
                each(place, conn, interest, now.events);
            }
        }
    });
}

/// As [`for_each_in`], of all that are awake.
pub(super) fn for_each_awake(epoll: c_int, mut each: impl FnMut(&'static Conn)) {
    for_each_in(epoll, 0..CONNECTIONS, |state| state == 0, |_, conn, _, _| each(conn));
}

/// As [`for_each_in`], of those whose ring may have something.
#[inline(always)]
pub(super) fn for_each_with_any(
    epoll: c_int,
    places: Range<usize>,
    each: impl FnMut(usize, &'static Conn, &'static Interest, u32),
) {
    for_each_in(epoll, places, |state| state != parked::EMPTY, each);
}

pub(super) fn park_all(epoll: c_int) {
    for_each_awake(epoll, park);
}

/// An epoll has got another descriptor, or is another process's too, by which nobody finds what is in it:
/// everything in it stays with the kernel.
pub(crate) fn copied(epoll: c_int) {
    let Some(sleepers) = sleepers((epoll as u32).wrapping_add(1)) else { return };
    // One that this process has not made is marked when something is registered in it.
    if !noting::is_one(epoll) && sleepers.load(Ordering::SeqCst) == 0 {
        return;
    }
    noting::sees();
    // Before the look at what is in it: a thread that registers something meanwhile does that first, and then
    // looks at the mark.
    sleepers.fetch_or(FOREIGN, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    noting::has_others(epoll);
    for_each_in(
        epoll,
        0..CONNECTIONS,
        |_| true,
        |_, conn, _, _| {
            let _ = conn.known().and_then(|known| known.moving(|conn| leave::waiting(conn, conn.fd())));
        },
    );
}

/// The epoll is another process's too, which may have changed since what is in it: what was in it at the fork
/// stays with the kernel.
#[cold]
pub(super) fn inherited(epoll: c_int) {
    for_each_in(
        epoll,
        0..CONNECTIONS,
        |_| true,
        |_, conn, interest, _| {
            if let Ok(known) = conn.known() {
                leave::waited_for_elsewhere(known, conn.fd());
            }
            interest.loses(epoll as u32 + 1, false);
        },
    );
}

/// In the child of a fork nobody sleeps yet.
pub(crate) fn forked() {
    let Some(tables) = tables::get() else { return };
    noting::forked();
    if !conn::any() {
        return;
    }
    for State { sleepers, .. } in &tables.epolls.states {
        if sleepers.load(Ordering::Relaxed) & !FOREIGN != 0 {
            sleepers.fetch_and(FOREIGN, Ordering::Relaxed);
        }
    }
}

/// Whether a connection is registered in this epoll.
pub(crate) fn is_in(conn: &Conn, epoll: c_int) -> bool {
    interest(conn.fd()).is_some_and(|interest| interest.glance().is_in(epoll as u32 + 1))
}

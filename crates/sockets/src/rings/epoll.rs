//! `epoll`: checks the rings of registered connections before the program's wait in the kernel. The
//! program's epoll stays the kernel's and holds all descriptors; threads that sleep in it sleep
//! only there.

mod interest;
mod noting;
mod parking;
#[cfg(test)]
mod tests;
mod wide;

use core::ops::Range;

use libc::{c_int, epoll_event};
use stream::path;

use self::interest::Interest;
use self::noting::has_others;
pub(crate) use self::noting::{all_have_others, any_made, everything, made};
pub(crate) use self::parking::{
    Epolls, controls, copied, forget, forget_range, forked, is_in, is_new, is_registered, wakes,
};
use self::parking::{FOREIGN, for_each_awake, for_each_with_any, park_all, sleepers, turns};
use super::blocked::{self, Asks, Limit};
use super::conn::{self, CONNECTIONS, Conn};
use super::header::Header;
use super::io::offers;
use super::kernel;
use super::spin::{self, Spin};
use crate::sync::{AtomicU32, Ordering};

/// The hits and misses of those who wait in this process.
static HISTORY: spin::SpinHistory = spin::SpinHistory::new();

const INPUT: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
const OUTPUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;

/// What a ring adds to what epoll says; 0 for nothing. An edge that is told is not told again.
#[inline(always)]
fn event(conn: &Conn, events: u32, tells: bool) -> u32 {
    let Some((own, peer)) = conn.headers() else { return 0 };
    let is_edge = events & libc::EPOLLET as u32 != 0;
    let mut input = events & INPUT;
    if input != 0 && !offers(own, peer) {
        input = 0;
    }
    if input != 0 && is_edge {
        let tail = peer.tail();
        if conn.told.edge.load(Ordering::Relaxed) == tail {
            input = 0;
        } else if tells {
            conn.told.edge.store(tail, Ordering::Relaxed);
        }
    }
    let output = events & OUTPUT;
    // That there is room is an edge only the kernel knows of, but it may be told beside another.
    if output == 0 || is_edge && input == 0 || !takes_more(conn, own) {
        return input;
    }
    input | output
}

/// Whether the kernel would take more of this end: it has nothing to send as long as the ring is the way, and
/// the ring holds less than the kernel surely has room for.
fn takes_more(conn: &Conn, own: &Header) -> bool {
    let unread = own.tail().wrapping_sub(conn.kept.head.load(Ordering::Relaxed));
    own.writer.0.path.load(Ordering::Relaxed) == path::RING
        && own.writer.0.revoke.load(Ordering::Relaxed) == 0
        && (unread < conn.kept.room.load(Ordering::Relaxed) || has_room(conn))
}

#[cold]
fn has_room(conn: &Conn) -> bool {
    let Some((own, peer)) = conn.headers() else { return false };
    let unread = own.tail().wrapping_sub(peer.head.0.load(Ordering::Acquire));
    unread < conn.kept.room.load(Ordering::Relaxed)
}

/// What else the kernel has to say of a descriptor that is told, if there is no room to ask it as anybody
/// else does (`is_last`), or if it would not say it by itself: with an edge it tells all that is so.
fn beside(conn: &Conn, events: u32, is_last: bool) -> u32 {
    let output = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;
    let is_edge = events & libc::EPOLLET as u32 != 0;
    let wanted = events & if is_edge { output } else { !(libc::EPOLLIN | libc::EPOLLRDNORM) as u32 };
    let is_open =
        || conn.headers().is_some_and(|(own, _)| own.writer.0.path.load(Ordering::Relaxed) == path::RING);
    if wanted == 0 || if is_edge { is_open() } else { !is_last } {
        return 0;
    }
    // The low bits are those of `poll`.
    u32::from(kernel::polled(conn.fd(), wanted as u16 as i16, 0) as u16)
}

/// What rings have.
struct Found {
    count: usize,
    /// The kernel may have more to say of one of these: an edge that it keeps, or what is neither input nor
    /// room.
    asks: bool,
}

/// What a ring adds, for which of the events that are `wanted`, and with which data: all of one registration,
/// whoever changes it meanwhile.
fn told(epoll: c_int, conn: &Conn, interest: &Interest, mut wanted: u32) -> Option<(u32, u32, u64)> {
    loop {
        let events = event(conn, wanted, true);
        if events == 0 {
            return None;
        }
        let now = interest.now();
        if now.is_in(epoll as u32 + 1) && now.events == wanted {
            return Some((events, wanted, now.data));
        }
        // With a new registration an edge is told again.
        conn.told.edge.store(u64::MAX, Ordering::Relaxed);
        if !now.is_in(epoll as u32 + 1) {
            return None;
        }
        wanted = now.events;
    }
}

/// Writes what rings have. Where the last look had room for a part only, it begins behind that.
///
/// # Safety
/// There must be room for so many events.
unsafe fn collect(epoll: c_int, into: *mut epoll_event, room: usize) -> Found {
    let mut found = Found { count: 0, asks: false };
    let turns = turns(epoll);
    let first = turns.map_or(0, |turns| usize::from(turns.first.load(Ordering::Relaxed)));
    // SAFETY: the caller's promise.
    let mut next = unsafe { collect_of(epoll, first..CONNECTIONS, into, room, &mut found) };
    if first != 0 && next.is_none() {
        // SAFETY: the caller's promise.
        next = unsafe { collect_of(epoll, 0..first, into, room, &mut found) };
    }
    let next = next.unwrap_or(0) as u16;
    if usize::from(next) != first
        && let Some(turns) = turns
    {
        turns.first.store(next, Ordering::Relaxed);
    }
    found
}

/// Adds what the rings of connections with these `places` have; where to go on if there is no room for more.
///
/// # Safety
/// As [`collect`].
#[inline(always)]
unsafe fn collect_of(
    epoll: c_int,
    places: Range<usize>,
    into: *mut epoll_event,
    room: usize,
    found: &mut Found,
) -> Option<usize> {
    let mut next = None;
    for_each_with_any(epoll, places, |place, conn, interest, wanted| {
        if found.count == room {
            return;
        }
        if let Some((mut events, wanted, data)) = told(epoll, conn, interest, wanted) {
            let is_last = found.count + 1 == room;
            events |= beside(conn, wanted, is_last);
            let event = epoll_event { events, u64: data };
            if events & INPUT != 0 && conn.told.promised.load(Ordering::Relaxed) == 0 {
                conn.told.promised.store(1, Ordering::Relaxed);
            }
            // SAFETY: below `room`.
            unsafe { into.add(found.count).write_unaligned(event) };
            found.count += 1;
            if is_last {
                next = Some((place + 1) % CONNECTIONS);
            }
            // Where the ring is not the way, the kernel alone knows whether there is room.
            let is_room_unknown = wanted & OUTPUT != 0 && events & OUTPUT == 0;
            found.asks |= is_room_unknown || wanted & !(INPUT | OUTPUT) != 0;
        }
    });
    next
}

/// Adds what the kernel has to what rings have. What both have of one descriptor is one event.
///
/// # Safety
/// There must be room for so many; the first `count` are written.
unsafe fn with_the_kernels(
    epoll: c_int,
    into: *mut epoll_event,
    count: usize,
    room: usize,
    native: &mut impl FnMut(*mut epoll_event, c_int, Asks) -> c_int,
) -> usize {
    if count == room {
        // Rings that always fill the room would hide what the kernel has.
        if let Some(turns) = turns(epoll) {
            turns.is_kernels.store(1, Ordering::Relaxed);
        }
        return count;
    }
    // SAFETY: behind the first `count`.
    let behind = unsafe { into.add(count) };
    let found = noting::asks(epoll, || native(behind, (room - count) as c_int, Asks::AtOnce));
    let mut all = count;
    for at in count..count + found.max(0) as usize {
        // SAFETY: the kernel has written it.
        let event = unsafe { into.add(at).read_unaligned() };
        let mut is_known = false;
        for before in 0..count {
            // SAFETY: written above.
            let mut other = unsafe { into.add(before).read_unaligned() };
            if other.u64 == event.u64 {
                other.events |= event.events;
                // SAFETY: as above.
                unsafe { into.add(before).write_unaligned(other) };
                is_known = true;
            }
        }
        if !is_known {
            // SAFETY: `all` is never above `at`.
            unsafe { into.add(all).write_unaligned(event) };
            all += 1;
        }
    }
    all
}

/// Looks at rings between two looks at the kernel.
const LOOKS: u32 = 60;
/// Times that rings had something until the kernel is asked as well.
const FAIR: u32 = 8;

static TURNS: AtomicU32 = AtomicU32::new(0);

/// Somebody waits in it, in a call that looks at no ring.
pub(crate) fn asleep(epoll: c_int, native: impl FnOnce() -> c_int) -> c_int {
    let Some(sleepers) = sleepers(epoll as u32 + 1) else { return native() };
    sleepers.fetch_add(1, Ordering::SeqCst);
    noting::is_slept_in(epoll);
    let result = native();
    sleepers.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Waits. `native` is the program's own call, with other room; `limit` says for how long.
///
/// # Safety
/// There must be room for so many events, if it is any.
pub(crate) unsafe fn wait(
    epoll: c_int,
    into: *mut epoll_event,
    room: c_int,
    limit: Limit,
    mut native: impl FnMut(*mut epoll_event, c_int, Asks) -> c_int,
) -> c_int {
    let may_wait = limit.may_wait();
    if room <= 0 || into.is_null() {
        return asleep(epoll, || native(into, room, Asks::Waits));
    }
    if noting::is_first_wait(epoll) {
        parking::inherited(epoll);
    }
    let length = room as usize;
    let mut spin = None;
    let found =
        if is_kernels_turn(epoll) { noting::asks(epoll, || native(into, room, Asks::AtOnce)) } else { 0 };
    if found != 0 {
        return found;
    }
    // SAFETY: the caller's promise.
    let found = unsafe { look(epoll, into, length, limit, &mut spin, &mut native) };
    if found != 0 {
        return found;
    }
    noting::kernel_answered(epoll);
    if !may_wait {
        return noting::asks(epoll, || native(into, room, Asks::AtOnce));
    }
    let Some(sleepers) = sleepers(epoll as u32 + 1) else { return native(into, room, Asks::Waits) };
    sleepers.fetch_add(1, Ordering::SeqCst);
    noting::is_slept_in(epoll);
    park_all(epoll);
    // What came until then nobody told the kernel.
    // SAFETY: the caller's promise.
    let found = unsafe { collect(epoll, into, length) };
    let result = if found.count > 0 {
        // SAFETY: the caller's promise.
        unsafe { with_the_kernels(epoll, into, found.count, length, &mut native) as c_int }
    } else {
        let mut sleeps = |asks| native(into, room, asks);
        // The other end has to make room first; meanwhile nothing may be missed.
        let result = blocked::sleep(limit, &mut sleeps, || blocked::part(epoll));
        if let Some(spin) = spin.filter(|_| result > 0) {
            spin.slept();
        }
        result
    };
    sleepers.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Whether the kernel's events were hidden by those of rings the last time that it was to be asked; once.
#[inline(always)]
fn is_kernels_turn(epoll: c_int) -> bool {
    let is_its = turns(epoll).filter(|turns| turns.is_kernels.load(Ordering::Relaxed) != 0);
    if let Some(turns) = is_its {
        turns.is_kernels.store(0, Ordering::Relaxed);
    }
    is_its.is_some()
}

/// Looks at rings, and at the kernel now and then, for as long as it pays. 0 if there is nothing.
///
/// # Safety
/// There must be room for so many.
unsafe fn look(
    epoll: c_int,
    into: *mut epoll_event,
    room: usize,
    limit: Limit,
    spin: &mut Option<Spin<'static>>,
    native: &mut impl FnMut(*mut epoll_event, c_int, Asks) -> c_int,
) -> c_int {
    let mut looks = 0_u32;
    loop {
        // SAFETY: the caller's promise.
        let Found { count, asks } = unsafe { collect(epoll, into, room) };
        if count > 0 {
            HISTORY.hit();
            let turn = TURNS.load(Ordering::Relaxed).wrapping_add(1);
            TURNS.store(turn, Ordering::Relaxed);
            if !asks {
                noting::rings_answered(epoll);
            }
            if !turn.is_multiple_of(FAIR) && !asks {
                return count as c_int;
            }
            // SAFETY: the caller's promise.
            return unsafe { with_the_kernels(epoll, into, count, room, native) } as c_int;
        }
        if looks == 0 {
            let (start, here) = spin::clock();
            let awake = elsewhere(epoll, here);
            if awake == Awake::None {
                return 0;
            }
            *spin = Some(Spin::begin(&HISTORY, start, limit.may_wait() && awake == Awake::Elsewhere, limit));
        }
        if looks.is_multiple_of(LOOKS) {
            // Rings that have answered the last wait get the time of some looks before the kernel is asked;
            // and who does not wait asks it next.
            let goes_on = spin.as_ref().is_some_and(|spin| !spin.is_none());
            let is_early = looks == 0 && (!limit.may_wait() || goes_on && noting::is_trusted(epoll));
            if !is_early {
                let found = noting::asks(epoll, || native(into, room as c_int, Asks::AtOnce));
                if found != 0 {
                    noting::kernel_answered(epoll);
                    return found;
                }
            }
            if !spin.as_mut().is_some_and(Spin::goes_on) {
                return 0;
            }
        }
        looks += 1;
        spin::relax();
    }
}

#[derive(PartialEq)]
enum Awake {
    /// No connection of the epoll has a ring, or all are slept over.
    None,
    Here,
    /// The other end of one was last seen on another processor.
    Elsewhere,
}

fn elsewhere(epoll: c_int, here: u32) -> Awake {
    let mut awake = Awake::None;
    for_each_awake(epoll, |conn| {
        if let Some((own, peer)) = conn.headers() {
            let is_elsewhere = spin::is_elsewhere(own, peer, here);
            awake = if is_elsewhere || awake == Awake::Elsewhere { Awake::Elsewhere } else { Awake::Here };
        }
    });
    awake
}

/// Somebody waits for an epoll itself: what its rings have is told, and then they sleep.
pub(crate) fn is_waited_for(epoll: c_int) -> bool {
    if noting::is_first_wait(epoll) {
        parking::inherited(epoll);
    }
    is_slept_over(epoll);
    park_all(epoll);
    has_some(epoll)
}

/// Somebody waits for a number: if it is an epoll, its connections may get rings meanwhile.
pub(crate) fn may_be_waited_for(fd: c_int) {
    if noting::is_one(fd) {
        is_slept_over(fd);
    }
}

fn is_slept_over(epoll: c_int) {
    noting::sees();
    if let Some(sleepers) = sleepers(epoll as u32 + 1) {
        sleepers.fetch_or(FOREIGN, Ordering::SeqCst);
    }
    has_others(epoll);
}

/// Whether connections with rings are in it, or were, and the kernel does not know that they are not.
pub(crate) fn is_watched(epoll: c_int) -> bool {
    let mut is_watched = noting::has_notes(epoll);
    conn::for_each_ready(|conn| is_watched |= is_in(conn, epoll));
    is_watched
}

/// Whether its rings have anything.
pub(crate) fn has_some(epoll: c_int) -> bool {
    let mut has = false;
    for_each_with_any(epoll, 0..CONNECTIONS, |_, conn, _, wanted| has |= event(conn, wanted, false) != 0);
    has
}

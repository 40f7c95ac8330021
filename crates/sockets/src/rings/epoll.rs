//! `epoll`. The program's epoll stays the kernel's and holds all descriptors; whoever sleeps in it sleeps there alone. What is added is a
//! look at the rings of its connections before.
//!
//! A connection that somebody may sleep over is *parked*: its end counts itself among the sleepers until the program next reads from
//! it, so that everything comes through the kernel, with all that epoll can do. Of a sleep only those are parked that have been
//! read from since the last.

use libc::{c_int, epoll_event};
use proto::stream::path;

use super::blocked::{self, Limit};
use super::conn::{self, Conn, counts_down, parked};
use super::io::{is_empty, offers};
use super::spin::{self, Look};
use super::words::Words;
use super::{kernel, leave, proc, tables};
use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::table::NUMBERS;

/// What a descriptor is registered for.
struct Interest {
    /// In which epoll, plus 1; `MANY` if in several, or nobody knows.
    epoll: AtomicU32,
    events: AtomicU32,
    data: AtomicU64,
}

const MANY: u32 = u32::MAX;

/// What is known of epolls. Zeroes are nothing.
pub(super) struct Epolls {
    interests: [Interest; NUMBERS],
    /// By number of an epoll: how many sleep in it; `FOREIGN` if they may do so unseen.
    sleepers: [AtomicU32; NUMBERS],
}

const FOREIGN: u32 = 1 << 31;

/// How looking has paid for those who wait in this process.
static SPIN: spin::Spin = spin::Spin::new();

fn interest(fd: c_int) -> Option<&'static Interest> {
    tables::get()?.epolls.interests.get(usize::try_from(fd).ok()?)
}

/// By number of an epoll, plus 1.
fn sleepers(epoll: u32) -> Option<&'static AtomicU32> {
    tables::get()?.epolls.sleepers.get((epoll as usize).checked_sub(1)?)
}

/// `epoll_ctl` has succeeded.
///
/// # Safety
/// The event must be readable, where the operation has one.
pub(crate) unsafe fn controlled(epoll: c_int, what: c_int, fd: c_int, event: *const epoll_event) {
    let Some(interest) = interest(fd) else { return };
    if let Some(nested) = sleepers(fd as u32 + 1)
        && what == libc::EPOLL_CTL_ADD
        && conn::of(fd).is_none()
        && proc::is_epoll(fd)
    {
        // Others sleep over this one in their own.
        nested.fetch_or(FOREIGN, Ordering::SeqCst);
        park_all(fd);
    }
    let own = epoll as u32 + 1;
    match what {
        libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD => {
            // SAFETY: the caller's promise; an event need not be aligned.
            let event = unsafe { event.read_unaligned() };
            let before = interest.epoll.load(Ordering::Relaxed);
            let is_other = before != 0 && before != own;
            let is_odd = event.events & (libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE) as u32 != 0;
            interest.events.store(event.events, Ordering::Relaxed);
            interest.data.store(event.u64, Ordering::Relaxed);
            // Pairs with the Acquire in `wakes`: who finds the epoll finds what for.
            interest.epoll.store(if is_other || is_odd { MANY } else { own }, Ordering::Release);
            if let Some(conn) = conn::ready(fd) {
                if is_other || is_odd || conn.shared.load(Ordering::Relaxed) != 0 {
                    // Other processes may wait in this epoll, and know nothing of it; or there are several, or what it says once is
                    // the kernel's to say.
                    leave::all(conn, fd);
                    return;
                }
                // Who waits in it already is woken by the kernel alone. Who goes to sleep now has either seen what it is registered
                // for, and parks it, or is seen here.
                fence(Ordering::SeqCst);
                if sleepers(own).is_none_or(|sleepers| sleepers.load(Ordering::SeqCst) != 0) {
                    park(conn);
                }
                conn.told.store(u64::MAX, Ordering::Relaxed);
            }
        }
        libc::EPOLL_CTL_DEL if interest.epoll.load(Ordering::Relaxed) == own => {
            interest.epoll.store(0, Ordering::Relaxed);
        }
        _ => {}
    }
}

/// The number is closed: with its last descriptor the kernel takes it out of every epoll.
pub(crate) fn forget(fd: c_int) {
    if let Some(interest) = interest(fd)
        && interest.epoll.load(Ordering::Relaxed) != 0
    {
        interest.epoll.store(0, Ordering::Relaxed);
    }
    if let Some(sleepers) = sleepers((fd as u32).wrapping_add(1))
        && sleepers.load(Ordering::Relaxed) != 0
    {
        sleepers.store(0, Ordering::Relaxed);
    }
}

/// This end sleeps, as far as the other can see.
fn park(conn: &Conn) {
    let Some((own, peer)) = conn.words() else { return };
    let some = parked::some();
    if conn.parked.compare_exchange(0, some, Ordering::SeqCst, Ordering::Relaxed).is_err() {
        return;
    }
    own.will.0.asleep.fetch_add(1, Ordering::SeqCst);
    if is_empty(own, peer) && peer.way.0.recall.load(Ordering::Acquire) == 0 {
        // Unless it was woken meanwhile.
        let _ = conn.parked.compare_exchange(some, parked::EMPTY, Ordering::SeqCst, Ordering::Relaxed);
    }
    // Whether being awake has brought anything through the ring; if not, again and again, it is tried less often.
    let futile = match own.head.0.load(Ordering::Relaxed) == conn.woken_at.load(Ordering::Relaxed) {
        true => (conn.futile.load(Ordering::Relaxed) + 1).min(MOST_FUTILE),
        false => 0,
    };
    conn.futile.store(futile, Ordering::Relaxed);
    conn.stays.store(if futile > 2 { 1 << futile } else { 0 }, Ordering::Relaxed);
}

/// So often in a row being awake may bring nothing until it makes no difference any more.
const MOST_FUTILE: u32 = 9;

/// The program reads from a connection that is parked: whoever else sleeps over it, it is awake from here on, unless somebody does.
pub(crate) fn wakes(conn: &Conn, own: &Words) {
    if counts_down(&conn.stays) {
        return;
    }
    spin::is_here(own, spin::clock().1);
    conn.woken_at.store(own.head.0.load(Ordering::Relaxed), Ordering::Relaxed);
    let registered = interest(conn.fd()).map_or(0, |interest| interest.epoll.load(Ordering::Acquire));
    let is_slept_over = |registered: u32| {
        registered == MANY
            || sleepers(registered).is_some_and(|sleepers| sleepers.load(Ordering::SeqCst) != 0)
    };
    if is_slept_over(registered) || !ends(conn, own) {
        return;
    }
    // Who goes to sleep now has either seen that it is awake, or is seen here.
    fence(Ordering::SeqCst);
    if is_slept_over(registered) {
        park(conn);
    }
}

/// It is parked no more, unless another thread reads from the kernel in trust of that. Whether it was, and is not.
fn ends(conn: &Conn, own: &Words) -> bool {
    let is_relied_upon = || conn.inside.load(Ordering::SeqCst) != 0;
    if is_relied_upon() {
        return false;
    }
    let before = conn.parked.swap(0, Ordering::SeqCst);
    if before == 0 {
        return false;
    }
    // Who came meanwhile has either seen that, or is seen here: then it is as it was, unless somebody has parked it again since.
    let is_kept = is_relied_upon()
        && conn.parked.compare_exchange(0, before, Ordering::SeqCst, Ordering::Relaxed).is_ok();
    if !is_kept {
        own.will.0.asleep.fetch_sub(1, Ordering::SeqCst);
    }
    !is_kept
}

/// Calls `each` with the connections that are registered in an epoll, of those with a state that `is` wanted.
#[inline(always)]
fn for_each_in(
    epoll: c_int,
    is: impl Fn(u32) -> bool,
    mut each: impl FnMut(&'static Conn, &'static Interest),
) {
    conn::for_each_ready(|conn| {
        if is(conn.parked.load(Ordering::Relaxed))
            && let Some(interest) = interest(conn.fd())
            && interest.epoll.load(Ordering::Relaxed) == epoll as u32 + 1
        {
            each(conn, interest);
        }
    });
}

/// As [`for_each_in`], of those that are awake.
fn for_each_awake(epoll: c_int, each: impl FnMut(&'static Conn, &'static Interest)) {
    for_each_in(epoll, |state| state == 0, each);
}

/// As [`for_each_in`], of those whose ring may have something.
#[inline(always)]
fn for_each_with_any(epoll: c_int, each: impl FnMut(&'static Conn, &'static Interest)) {
    for_each_in(epoll, |state| state != parked::EMPTY, each);
}

fn park_all(epoll: c_int) {
    for_each_awake(epoll, |conn, _| park(conn));
}

const INPUT: u32 = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
const OUTPUT: u32 = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;

/// What a ring adds to what epoll says; 0 for nothing. An edge that is told is not told again.
#[inline(always)]
fn event(conn: &Conn, interest: &Interest, tells: bool) -> u32 {
    let Some((own, peer)) = conn.words() else { return 0 };
    let events = interest.events.load(Ordering::Relaxed);
    let is_edge = events & libc::EPOLLET as u32 != 0;
    let mut input = events & INPUT;
    if input != 0 && !offers(own, peer) {
        input = 0;
    }
    if input != 0 && is_edge {
        let tail = peer.tail();
        if conn.told.load(Ordering::Relaxed) == tail {
            input = 0;
        } else if tells {
            conn.told.store(tail, Ordering::Relaxed);
        }
    }
    let output = events & OUTPUT;
    // That there is room is an edge only the kernel knows of, but it may be told beside another.
    if output == 0 || is_edge && input == 0 || !takes_more(conn, own) {
        return input;
    }
    input | output
}

/// Whether the kernel would take more of this end: it has nothing to send as long as the ring is the way, and the ring holds less than
/// the kernel surely has room for.
fn takes_more(conn: &Conn, own: &Words) -> bool {
    let unread = own.message.0.tail.load(Ordering::Relaxed).wrapping_sub(conn.head.load(Ordering::Relaxed));
    own.way.0.path.load(Ordering::Relaxed) == path::RING
        && own.way.0.recall.load(Ordering::Relaxed) == 0
        && (unread < conn.room.load(Ordering::Relaxed) || has_room(conn))
}

#[cold]
fn has_room(conn: &Conn) -> bool {
    let Some((own, peer)) = conn.words() else { return false };
    let unread = own.message.0.tail.load(Ordering::Relaxed).wrapping_sub(peer.head.0.load(Ordering::Acquire));
    unread < conn.room.load(Ordering::Relaxed)
}

/// What else the kernel has to say of a descriptor that is told, if there is no room to ask it as anybody else does (`is_last`), or if it would
/// not say it by itself: with an edge it tells all that is so.
fn beside(conn: &Conn, interest: &Interest, is_last: bool) -> u32 {
    let events = interest.events.load(Ordering::Relaxed);
    let output = (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32;
    let is_edge = events & libc::EPOLLET as u32 != 0;
    let wanted = events & if is_edge { output } else { !(libc::EPOLLIN | libc::EPOLLRDNORM) as u32 };
    let is_open =
        || conn.words().is_some_and(|(own, _)| own.way.0.path.load(Ordering::Relaxed) == path::RING);
    if wanted == 0 || if is_edge { is_open() } else { !is_last } {
        return 0;
    }
    // The low bits are those of `poll`.
    u32::from(kernel::polled(conn.fd(), wanted as u16 as i16, 0) as u16)
}

/// What rings have.
struct Found {
    count: usize,
    /// The kernel may have more to say of one of these: an edge that it keeps, or what is no input.
    asks: bool,
}

/// Writes what rings have.
///
/// # Safety
/// There must be room for so many events.
unsafe fn collect(epoll: c_int, into: *mut epoll_event, room: usize) -> Found {
    let mut found = Found { count: 0, asks: false };
    for_each_with_any(epoll, |conn, interest| {
        if found.count == room {
            return;
        }
        let mut events = event(conn, interest, true);
        if events != 0 {
            let is_last = found.count + 1 == room;
            events |= beside(conn, interest, is_last);
            let event = epoll_event { events, u64: interest.data.load(Ordering::Relaxed) };
            if events & INPUT != 0 && conn.promised.load(Ordering::Relaxed) == 0 {
                conn.promised.store(1, Ordering::Relaxed);
            }
            // SAFETY: below `room`.
            unsafe { into.add(found.count).write_unaligned(event) };
            found.count += 1;
            found.asks |= interest.events.load(Ordering::Relaxed) & !(INPUT | OUTPUT) != 0;
        }
    });
    found
}

/// Adds what the kernel has to what rings have. What both have of one descriptor is one event.
///
/// # Safety
/// There must be room for so many; the first `count` are written.
unsafe fn with_the_kernels(
    into: *mut epoll_event,
    count: usize,
    room: usize,
    native: &mut impl FnMut(*mut epoll_event, c_int, bool) -> c_int,
) -> usize {
    if count == room {
        return count;
    }
    // SAFETY: behind the first `count`.
    let found = native(unsafe { into.add(count) }, (room - count) as c_int, false);
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
    let result = native();
    sleepers.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Waits. `native` is the program's own call, with other room, and without waiting if so told; `limit` says for how long.
///
/// # Safety
/// There must be room for so many events, if it is any.
pub(crate) unsafe fn wait(
    epoll: c_int,
    into: *mut epoll_event,
    room: c_int,
    limit: Limit,
    mut native: impl FnMut(*mut epoll_event, c_int, bool) -> c_int,
) -> c_int {
    let may_wait = limit.may_wait();
    if room <= 0 || into.is_null() {
        return native(into, room, may_wait);
    }
    let length = room as usize;
    let mut looked = None;
    // SAFETY: the caller's promise.
    let found = unsafe { look(epoll, into, length, limit, &mut looked, &mut native) };
    if found != 0 {
        return found;
    }
    if !may_wait {
        return native(into, room, false);
    }
    let Some(sleepers) = sleepers(epoll as u32 + 1) else { return native(into, room, true) };
    sleepers.fetch_add(1, Ordering::SeqCst);
    park_all(epoll);
    // What came until then nobody told the kernel.
    // SAFETY: the caller's promise.
    let found = unsafe { collect(epoll, into, length) };
    let result = if found.count > 0 {
        // SAFETY: the caller's promise.
        unsafe { with_the_kernels(into, found.count, length, &mut native) as c_int }
    } else {
        let mut sleeps = |may_wait| native(into, room, may_wait);
        // The other end has to make room first; meanwhile nothing may be missed.
        let result = blocked::sleep(limit, &mut sleeps, || blocked::part(epoll));
        if let Some(look) = looked.filter(|_| result > 0) {
            look.slept();
        }
        result
    };
    sleepers.fetch_sub(1, Ordering::SeqCst);
    result
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
    looked: &mut Option<Look<'static>>,
    native: &mut impl FnMut(*mut epoll_event, c_int, bool) -> c_int,
) -> c_int {
    let mut looks = 0_u32;
    loop {
        // SAFETY: the caller's promise.
        let Found { count, asks } = unsafe { collect(epoll, into, room) };
        if count > 0 {
            SPIN.paid();
            let turn = TURNS.load(Ordering::Relaxed).wrapping_add(1);
            TURNS.store(turn, Ordering::Relaxed);
            if !turn.is_multiple_of(FAIR) && !asks {
                return count as c_int;
            }
            // SAFETY: the caller's promise.
            return unsafe { with_the_kernels(into, count, room, native) } as c_int;
        }
        if looks == 0 {
            let (start, here) = spin::clock();
            let awake = elsewhere(epoll, here);
            if awake == Awake::None {
                return 0;
            }
            *looked = Some(Look::begin(&SPIN, start, limit.may_wait() && awake == Awake::Elsewhere, limit));
        }
        if looks.is_multiple_of(LOOKS) {
            let found = native(into, room as c_int, false);
            if found != 0 {
                if looks > 0 {
                    SPIN.kernels();
                }
                return found;
            }
            if !looked.as_mut().is_some_and(Look::goes_on) {
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
    for_each_awake(epoll, |conn, _| {
        if let Some((own, peer)) = conn.words() {
            let is_elsewhere = spin::is_elsewhere(own, peer, here);
            awake = if is_elsewhere || awake == Awake::Elsewhere { Awake::Elsewhere } else { Awake::Here };
        }
    });
    awake
}

/// An epoll has got another number, by which nobody finds what is in it: everything in it stays with the kernel.
pub(crate) fn copied(epoll: c_int) {
    let Some(sleepers) = sleepers(epoll as u32 + 1) else { return };
    let mut is_one = sleepers.load(Ordering::Relaxed) != 0;
    for_each_in(
        epoll,
        |_| true,
        |conn, _| {
            is_one = true;
            leave::all(conn, conn.fd());
        },
    );
    if is_one || proc::is_epoll(epoll) {
        sleepers.fetch_or(FOREIGN, Ordering::SeqCst);
    }
}

/// In the child of a fork nobody sleeps yet.
pub(crate) fn forked() {
    if !conn::any() {
        return;
    }
    let Some(tables) = tables::get() else { return };
    for sleepers in &tables.epolls.sleepers {
        if sleepers.load(Ordering::Relaxed) & !FOREIGN != 0 {
            sleepers.fetch_and(FOREIGN, Ordering::Relaxed);
        }
    }
}

/// Somebody waits for an epoll itself: what its rings have is told, and then they sleep.
pub(crate) fn is_waited_for(epoll: c_int) -> bool {
    if let Some(sleepers) = sleepers(epoll as u32 + 1) {
        sleepers.fetch_or(FOREIGN, Ordering::SeqCst);
    }
    park_all(epoll);
    has_some(epoll)
}

/// Whether its rings have anything.
pub(crate) fn has_some(epoll: c_int) -> bool {
    let mut has = false;
    for_each_with_any(epoll, |conn, interest| has |= event(conn, interest, false) != 0);
    has
}

/// Whether a connection is registered in this epoll.
pub(crate) fn is_in(conn: &Conn, epoll: c_int) -> bool {
    interest(conn.fd()).is_some_and(|interest| interest.epoll.load(Ordering::Relaxed) == epoll as u32 + 1)
}

//! `epoll`. The program's epoll stays the kernel's and holds all descriptors; whoever sleeps in it sleeps there alone. What is added is a
//! look at the rings of its connections before.
//!
//! A connection that somebody may sleep over is *parked*: its end counts itself among the sleepers until the program next reads from
//! it, so that everything comes through the kernel, with all that epoll can do. Of a sleep only those are parked that have been
//! read from since the last.

use libc::{c_int, epoll_event};
use proto::stream::path;

use super::blocked::{self, Blocked, Goes, Limit};
use super::conn::{self, Conn};
use super::io::offers;
use super::words::Words;
use super::{kernel, leave, spin, tables};
use crate::hook::set_errno;
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
        && super::wait::is_epoll(fd)
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
                // Who waits in it already is woken by the kernel alone.
                park(conn);
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
    if let Some((own, _)) = conn.words()
        && conn.parked.swap(1, Ordering::SeqCst) == 0
    {
        own.will.0.asleep.fetch_add(1, Ordering::SeqCst);
    }
}

/// The program reads from a connection that is parked: whoever else sleeps over it, it is awake from here on, unless somebody does.
pub(crate) fn wakes(conn: &Conn, own: &Words) {
    let registered = interest(conn.fd()).map_or(0, |interest| interest.epoll.load(Ordering::Acquire));
    let is_slept_over = |registered: u32| {
        registered == MANY
            || sleepers(registered).is_some_and(|sleepers| sleepers.load(Ordering::SeqCst) != 0)
    };
    if is_slept_over(registered) || conn.parked.swap(0, Ordering::SeqCst) == 0 {
        return;
    }
    own.will.0.asleep.fetch_sub(1, Ordering::SeqCst);
    // Who goes to sleep now has either seen that it is awake, or is seen here.
    fence(Ordering::SeqCst);
    if is_slept_over(registered) {
        park(conn);
    }
}

/// Calls `each` with the connections that are registered in an epoll.
fn for_each_in(epoll: c_int, mut each: impl FnMut(&'static Conn, &'static Interest)) {
    conn::for_each_ready(|conn| {
        if let Some(interest) = interest(conn.fd())
            && interest.epoll.load(Ordering::Relaxed) == epoll as u32 + 1
        {
            each(conn, interest);
        }
    });
}

/// As [`for_each_in`], of those that are awake.
fn for_each_awake(epoll: c_int, mut each: impl FnMut(&'static Conn, &'static Interest)) {
    for_each_in(epoll, |conn, interest| {
        if conn.parked.load(Ordering::Relaxed) == 0 {
            each(conn, interest);
        }
    });
}

fn park_all(epoll: c_int) {
    for_each_awake(epoll, |conn, _| park(conn));
}

/// What a ring adds to what epoll says; 0 for nothing. An edge that is told is not told again.
fn event(conn: &Conn, interest: &Interest, tells: bool) -> u32 {
    let Some((own, peer)) = conn.words() else { return 0 };
    let events = interest.events.load(Ordering::Relaxed);
    let wanted = events & (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
    if wanted == 0 || !offers(own, peer) {
        return 0;
    }
    if events & libc::EPOLLET as u32 != 0 {
        let tail = peer.tail();
        if conn.told.load(Ordering::Relaxed) == tail {
            return 0;
        }
        if tells {
            conn.told.store(tail, Ordering::Relaxed);
        }
    }
    // The kernel has nothing of this end's to send: as long as the ring is the way, it takes more.
    let is_open = own.way.0.path.load(Ordering::Relaxed) == path::RING;
    let writable = if is_open { events & (libc::EPOLLOUT | libc::EPOLLWRNORM) as u32 } else { 0 };
    wanted | writable
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
    for_each_in(epoll, |conn, interest| {
        if found.count == room {
            return;
        }
        let mut events = event(conn, interest, true);
        if events != 0 {
            let is_last = found.count + 1 == room;
            events |= beside(conn, interest, is_last);
            let event = epoll_event { events, u64: interest.data.load(Ordering::Relaxed) };
            // SAFETY: below `room`.
            unsafe { into.add(found.count).write_unaligned(event) };
            found.count += 1;
            let input = (libc::EPOLLIN | libc::EPOLLRDNORM) as u32;
            found.asks |= interest.events.load(Ordering::Relaxed) & !input != 0;
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
    let mut is_any = false;
    for_each_in(epoll, |_, _| is_any = true);
    if is_any {
        // SAFETY: the caller's promise.
        let found = unsafe { look(epoll, into, length, may_wait, &mut native) };
        if found != 0 {
            return found;
        }
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
        sleep(epoll, limit, |may_wait| native(into, room, may_wait))
    };
    sleepers.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Sleeps in the kernel; before, what this process has written gets there.
fn sleep(epoll: c_int, limit: Limit, mut native: impl FnMut(bool) -> c_int) -> c_int {
    let mut wait = Blocked::new();
    while !leave::settle() {
        // The other end has to make room first; meanwhile nothing may be missed.
        let early = native(false);
        if early != 0 {
            return early;
        }
        match wait.waits(limit, blocked::part(epoll)) {
            Goes::On => {}
            Goes::Over => return native(false),
            Goes::Interrupted => {
                set_errno(libc::EINTR);
                return -1;
            }
        }
    }
    native(true)
}

/// Looks at rings, and at the kernel now and then, for as long as it pays. 0 if there is nothing.
///
/// # Safety
/// There must be room for so many.
unsafe fn look(
    epoll: c_int,
    into: *mut epoll_event,
    room: usize,
    may_wait: bool,
    native: &mut impl FnMut(*mut epoll_event, c_int, bool) -> c_int,
) -> c_int {
    let (start, here) = spin::clock();
    let mut is_elsewhere = false;
    for_each_awake(epoll, |conn, _| {
        if let Some((own, peer)) = conn.words() {
            is_elsewhere |= spin::is_elsewhere(own, peer, here);
        }
    });
    let cycles = if may_wait && is_elsewhere { SPIN.cycles() } else { 0 };
    let mut looks = 0_u32;
    loop {
        // SAFETY: the caller's promise.
        let Found { count, asks } = unsafe { collect(epoll, into, room) };
        if count > 0 {
            if looks > 0 {
                SPIN.paid();
            }
            let turn = TURNS.load(Ordering::Relaxed).wrapping_add(1);
            TURNS.store(turn, Ordering::Relaxed);
            if !turn.is_multiple_of(FAIR) && !asks {
                return count as c_int;
            }
            // SAFETY: the caller's promise.
            return unsafe { with_the_kernels(into, count, room, native) } as c_int;
        }
        if looks.is_multiple_of(LOOKS) {
            let found = native(into, room as c_int, false);
            if found != 0 {
                return found;
            }
            if spin::clock().0.wrapping_sub(start) >= cycles {
                if cycles > 0 {
                    SPIN.in_vain();
                }
                return 0;
            }
        }
        looks += 1;
        spin::relax();
    }
}

/// An epoll has got another number, by which nobody finds what is in it: everything in it stays with the kernel.
pub(crate) fn copied(epoll: c_int) {
    let Some(sleepers) = sleepers(epoll as u32 + 1) else { return };
    let mut is_one = sleepers.load(Ordering::Relaxed) != 0;
    for_each_in(epoll, |conn, _| {
        is_one = true;
        leave::all(conn, conn.fd());
    });
    if is_one || super::wait::is_epoll(epoll) {
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
    for_each_in(epoll, |conn, interest| has |= event(conn, interest, false) != 0);
    has
}

/// Whether a connection is registered in this epoll.
pub(crate) fn is_in(conn: &Conn, epoll: c_int) -> bool {
    interest(conn.fd()).is_some_and(|interest| interest.epoll.load(Ordering::Relaxed) == epoll as u32 + 1)
}

//! Interposers of calls that wait for descriptors: they check rings, then wait in the kernel.

use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};

use crate::interposer::{interposers, set_errno};
use crate::rings::blocked::{Asks, Limit};
use crate::rings::forced::Wait;
use crate::rings::wait::{Polled, Selected};
use crate::rings::{self, epoll, reach};
use crate::{cancel, seen, state};

static AT_ONCE: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// Whether there are rings to look at.
fn has_rings() -> bool {
    rings::conn::any() && !state::outside()
}

/// Whether there are, or may be while a call waits.
fn may_get_rings() -> bool {
    rings::conn::met() && !state::outside()
}

/// Whether there are, or may be by the time that a call waits.
fn may_have_rings() -> bool {
    crate::environment::has_rings() && !state::outside()
}

/// `poll`; `next` takes how it is made.
pub(crate) fn polled(
    fds: *mut pollfd,
    count: nfds_t,
    limit: Option<Limit>,
    mut next: impl FnMut(Asks) -> c_int,
) -> c_int {
    let Some(limit) = limit else { return next(Asks::Waits) };
    Wait::during(|| polled_in(fds, count, limit, next))
}

fn polled_in(fds: *mut pollfd, count: nfds_t, limit: Limit, mut next: impl FnMut(Asks) -> c_int) -> c_int {
    if !may_get_rings()
        || !reach::is_writable(fds.cast(), (count as usize).saturating_mul(size_of::<pollfd>()))
    {
        return next(Asks::Waits);
    }
    visits(limit);
    rings::wait::wait(&mut Polled { fds, count }, limit, next)
}

/// A wait that sleeps settles what this process owes to readers; one that does not looks whether they want
/// it.
fn visits(limit: Limit) {
    if !limit.may_wait() {
        rings::leave::visits();
    }
}

/// As a time says; no time is for ever. None: nobody can read it, which is for the call to find out.
fn time(limit: *const timespec) -> Option<Limit> {
    if !may_have_rings() || limit.is_null() {
        return Some(Limit::FOREVER);
    }
    // SAFETY: the program's own time, which is there.
    reach::is_readable(limit.cast(), size_of::<timespec>()).then(|| Limit::time(unsafe { *limit }))
}

/// The same of a time in microseconds.
fn short_time(limit: *const timeval) -> Option<Limit> {
    if !may_have_rings() || limit.is_null() {
        return Some(Limit::FOREVER);
    }
    // SAFETY: the program's own time, which is there.
    reach::is_readable(limit.cast(), size_of::<timeval>()).then(|| Limit::short_time(unsafe { *limit }))
}

/// Bytes of a set that the kernel reads and writes.
fn set_bytes(count: c_int) -> usize {
    (count.clamp(0, 1024) as usize).div_ceil(64) * 8
}

/// What a set says: as much of it as the kernel looks at.
fn keep(set: *const fd_set, count: c_int, words: &mut [u64; 16]) {
    // SAFETY: the program's own set, which is there; no more than the words have.
    unsafe { rings::copy(set.cast(), words.as_mut_ptr().cast(), set_bytes(count)) };
}

/// Puts it back.
fn put_back(set: *mut fd_set, count: c_int, words: &[u64; 16]) {
    // SAFETY: as above.
    unsafe { rings::copy(words.as_ptr().cast(), set.cast(), set_bytes(count)) };
}

/// `select`; `next` takes how it is made.
fn selected(
    count: c_int,
    sets: [*mut fd_set; 3],
    limit: Option<Limit>,
    mut next: impl FnMut(Asks) -> c_int,
) -> c_int {
    let Some(limit) = limit else { return next(Asks::Waits) };
    Wait::during(|| selected_in(count, sets, limit, next))
}

fn selected_in(
    count: c_int,
    sets: [*mut fd_set; 3],
    limit: Limit,
    mut next: impl FnMut(Asks) -> c_int,
) -> c_int {
    let is_there = |set: &*mut fd_set| set.is_null() || reach::is_writable(set.cast(), set_bytes(count));
    if !may_get_rings() || !sets.iter().all(is_there) {
        return next(Asks::Waits);
    }
    if count > 1024 {
        rings::leave::everything();
        return next(Asks::Waits);
    }
    visits(limit);
    let [input, output, other] = sets;
    let (mut inputs, mut outputs, mut others) = ([0; 16], [0; 16], [0; 16]);
    for (set, words) in [(input, &mut inputs), (output, &mut outputs), (other, &mut others)] {
        if !set.is_null() {
            keep(set, count, words);
        }
    }
    let before = if input.is_null() { None } else { Some(&inputs) };
    let has_others = !output.is_null() || !other.is_null();
    rings::wait::wait(&mut Selected { count, before, input, has_others }, limit, |asks| {
        for (set, words) in [(input, &inputs), (output, &outputs), (other, &others)] {
            if !set.is_null() {
                put_back(set, count, words);
            }
        }
        next(asks)
    })
}

/// `epoll_wait`; `next` takes the room and how it is made.
pub(crate) fn epolled(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    limit: Option<Limit>,
    mut next: impl FnMut(*mut epoll_event, c_int, Asks) -> c_int,
) -> c_int {
    let Some(limit) = limit else { return next(events, room, Asks::Waits) };
    Wait::during(|| epolled_in(epoll, events, room, limit, next))
}

/// As [`epolled`], in a call in which threads are cancelled.
fn cancelled_or_epolled(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    limit: Option<Limit>,
    next: impl FnMut(*mut epoll_event, c_int, Asks) -> c_int,
) -> c_int {
    cancel::point();
    epolled(epoll, events, room, limit, next)
}

fn epolled_in(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    limit: Limit,
    mut next: impl FnMut(*mut epoll_event, c_int, Asks) -> c_int,
) -> c_int {
    // What is no number of an epoll is the kernel's to refuse.
    if epoll < 0 || !crate::environment::has_rings() || state::outside() {
        return next(events, room, Asks::Waits);
    }
    let has_rings = has_rings();
    visits(limit);
    if has_rings && reach::is_writable(events.cast(), size_of::<epoll_event>()) {
        // SAFETY: the program's own room, which its own call writes.
        return unsafe { epoll::wait(epoll, events, room, limit, next) };
    }
    if has_rings && room > 0 && epoll::is_waited_for(epoll) {
        // As the kernel says it once there is an event.
        set_errno(libc::EFAULT);
        return -1;
    }
    // There may be rings before it comes back.
    epoll::asleep(epoll, || next(events, room, Asks::Waits))
}

interposers! {
    fn poll(fds: *mut pollfd, count: nfds_t, limit: c_int) -> c_int, as libc::SYS_poll;
        |next| polled(fds, count, Some(Limit::milliseconds(limit)), |asks| next(fds, count, if asks.waits() { limit } else { 0 }))
    fn __poll(fds: *mut pollfd, count: nfds_t, limit: c_int) -> c_int, as libc::SYS_poll;
        |next| polled(fds, count, Some(Limit::milliseconds(limit)), |asks| next(fds, count, if asks.waits() { limit } else { 0 }))
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, limit: c_int, room: size_t) -> c_int, as libc::SYS_poll;
        |next| polled(fds, count, Some(Limit::milliseconds(limit)), |asks| next(fds, count, if asks.waits() { limit } else { 0 }, room))
    fn ppoll(fds: *mut pollfd, count: nfds_t, limit: *const timespec, mask: *const sigset_t) -> c_int, else -1;
        |next| polled(fds, count, time(limit), |asks| next(fds, count, if asks.waits() { limit } else { &raw const AT_ONCE }, asks.mask(mask)))
    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, limit: *const timespec, mask: *const sigset_t, room: size_t) -> c_int, else -1;
        |next| polled(fds, count, time(limit), |asks| next(fds, count, if asks.waits() { limit } else { &raw const AT_ONCE }, asks.mask(mask), room))
    fn select(count: c_int, input: *mut fd_set, output: *mut fd_set, other: *mut fd_set, limit: *mut timeval) -> c_int, as libc::SYS_select;
        |next| selected(count, [input, output, other], short_time(limit), |asks| {
            let mut at_once = timeval { tv_sec: 0, tv_usec: 0 };
            next(count, input, output, other, if asks.waits() { limit } else { &raw mut at_once })
        })
    fn __select(count: c_int, input: *mut fd_set, output: *mut fd_set, other: *mut fd_set, limit: *mut timeval) -> c_int, as libc::SYS_select;
        |next| selected(count, [input, output, other], short_time(limit), |asks| {
            let mut at_once = timeval { tv_sec: 0, tv_usec: 0 };
            next(count, input, output, other, if asks.waits() { limit } else { &raw mut at_once })
        })
    fn pselect(count: c_int, input: *mut fd_set, output: *mut fd_set, other: *mut fd_set, limit: *const timespec, mask: *const sigset_t) -> c_int, else -1;
        |next| selected(count, [input, output, other], time(limit), |asks| next(count, input, output, other, if asks.waits() { limit } else { &raw const AT_ONCE }, asks.mask(mask)))
    fn epoll_ctl(epoll: c_int, what: c_int, fd: c_int, event: *mut epoll_event) -> c_int, as libc::SYS_epoll_ctl, near 6; |next| {
        // SAFETY: that call.
        unsafe { seen::registers(epoll, what, fd, event, || next(epoll, what, fd, event)) }
    }
    fn epoll_wait(epoll: c_int, events: *mut epoll_event, room: c_int, limit: c_int) -> c_int, as libc::SYS_epoll_wait, near 7;
        |next| cancelled_or_epolled(epoll, events, room, Some(Limit::milliseconds(limit)), |events, room, asks| next(epoll, events, room, if asks.waits() { limit } else { 0 }))
    fn epoll_pwait(epoll: c_int, events: *mut epoll_event, room: c_int, limit: c_int, mask: *const sigset_t) -> c_int, else -1;
        |next| cancelled_or_epolled(epoll, events, room, Some(Limit::milliseconds(limit)), |events, room, asks| next(epoll, events, room, if asks.waits() { limit } else { 0 }, mask))
    fn epoll_pwait2(epoll: c_int, events: *mut epoll_event, room: c_int, limit: *const timespec, mask: *const sigset_t) -> c_int, else -1;
        |next| cancelled_or_epolled(epoll, events, room, time(limit), |events, room, asks| next(epoll, events, room, if asks.waits() { limit } else { &raw const AT_ONCE }, mask))
}

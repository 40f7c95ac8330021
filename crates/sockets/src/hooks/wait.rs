//! Calls that wait for descriptors. All end in the kernel, where all descriptors are; before, the rings of those among them that have
//! some are looked at.

use libc::{c_int, epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};

use crate::hook::hooks;
use crate::rings::wait::{Polled, Selected};
use crate::rings::{self, epoll};
use crate::state;

static AT_ONCE: timespec = timespec { tv_sec: 0, tv_nsec: 0 };

/// Whether there are rings to look at.
fn has_rings() -> bool {
    rings::conn::any() && !state::outside()
}

/// `poll`; `next` takes whether it may wait.
fn polled(fds: *mut pollfd, count: nfds_t, may_wait: bool, mut next: impl FnMut(bool) -> c_int) -> c_int {
    if !has_rings() || fds.is_null() {
        return next(true);
    }
    rings::wait::wait(&mut Polled { fds, count }, may_wait, next)
}

/// Whether a time is more than none; no time is for ever.
fn is_long(limit: *const timespec) -> bool {
    // SAFETY: the program's own time, which its own call reads.
    unsafe { limit.as_ref() }.is_none_or(|limit| limit.tv_sec != 0 || limit.tv_nsec != 0)
}

fn copy(set: *const fd_set) -> Option<fd_set> {
    // SAFETY: the program's own set, which its own call reads.
    (!set.is_null()).then(|| unsafe { set.read() })
}

/// `select`; `next` takes whether it may wait.
fn selected(
    count: c_int,
    sets: [*mut fd_set; 3],
    may_wait: bool,
    mut next: impl FnMut(bool) -> c_int,
) -> c_int {
    if !has_rings() {
        return next(true);
    }
    if count > 1024 {
        rings::leave::everything();
        return next(true);
    }
    let before = sets.map(|set| copy(set));
    let mut wanted = Selected { count, before: before[0], input: sets[0] };
    rings::wait::wait(&mut wanted, may_wait, |waits| {
        for at in 0..3 {
            if let Some(set) = before[at] {
                // SAFETY: the program's own set, as it was.
                unsafe { sets[at].write(set) };
            }
        }
        next(waits)
    })
}

/// `epoll_wait`; `next` takes the room and whether it may wait.
fn epolled(
    epoll: c_int,
    events: *mut epoll_event,
    room: c_int,
    may_wait: bool,
    mut next: impl FnMut(*mut epoll_event, c_int, bool) -> c_int,
) -> c_int {
    if !has_rings() {
        return next(events, room, true);
    }
    // SAFETY: the program's own room, which its own call writes.
    unsafe { epoll::wait(epoll, events, room, may_wait, next) }
}

hooks! {
    fn poll(fds: *mut pollfd, count: nfds_t, limit: c_int) -> c_int, as libc::SYS_poll;
        |next| polled(fds, count, limit != 0, |waits| next(fds, count, if waits { limit } else { 0 }))
    fn __poll(fds: *mut pollfd, count: nfds_t, limit: c_int) -> c_int, as libc::SYS_poll;
        |next| polled(fds, count, limit != 0, |waits| next(fds, count, if waits { limit } else { 0 }))
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, limit: c_int, room: size_t) -> c_int, as libc::SYS_poll;
        |next| polled(fds, count, limit != 0, |waits| next(fds, count, if waits { limit } else { 0 }, room))
    fn ppoll(fds: *mut pollfd, count: nfds_t, limit: *const timespec, mask: *const sigset_t) -> c_int, else -1;
        |next| polled(fds, count, is_long(limit), |waits| next(fds, count, if waits { limit } else { &raw const AT_ONCE }, mask))
    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, limit: *const timespec, mask: *const sigset_t, room: size_t) -> c_int, else -1;
        |next| polled(fds, count, is_long(limit), |waits| next(fds, count, if waits { limit } else { &raw const AT_ONCE }, mask, room))
    fn select(count: c_int, input: *mut fd_set, output: *mut fd_set, other: *mut fd_set, limit: *mut timeval) -> c_int, as libc::SYS_select;
        |next| selected(count, [input, output, other], is_long(limit.cast()), |waits| {
            let mut at_once = timeval { tv_sec: 0, tv_usec: 0 };
            next(count, input, output, other, if waits { limit } else { &raw mut at_once })
        })
    fn __select(count: c_int, input: *mut fd_set, output: *mut fd_set, other: *mut fd_set, limit: *mut timeval) -> c_int, as libc::SYS_select;
        |next| selected(count, [input, output, other], is_long(limit.cast()), |waits| {
            let mut at_once = timeval { tv_sec: 0, tv_usec: 0 };
            next(count, input, output, other, if waits { limit } else { &raw mut at_once })
        })
    fn pselect(count: c_int, input: *mut fd_set, output: *mut fd_set, other: *mut fd_set, limit: *const timespec, mask: *const sigset_t) -> c_int, else -1;
        |next| selected(count, [input, output, other], is_long(limit), |waits| next(count, input, output, other, if waits { limit } else { &raw const AT_ONCE }, mask))
    fn epoll_ctl(epoll: c_int, what: c_int, fd: c_int, event: *mut epoll_event) -> c_int, as libc::SYS_epoll_ctl; |next| {
        let result = next(epoll, what, fd, event);
        if result == 0 && crate::environment::has_rings() && !state::outside() {
            // SAFETY: the kernel has just read the event.
            unsafe { epoll::controlled(epoll, what, fd, event) };
        }
        result
    }
    fn epoll_wait(epoll: c_int, events: *mut epoll_event, room: c_int, limit: c_int) -> c_int, as libc::SYS_epoll_wait;
        |next| epolled(epoll, events, room, limit != 0, |events, room, waits| next(epoll, events, room, if waits { limit } else { 0 }))
    fn epoll_pwait(epoll: c_int, events: *mut epoll_event, room: c_int, limit: c_int, mask: *const sigset_t) -> c_int, else -1;
        |next| epolled(epoll, events, room, limit != 0, |events, room, waits| next(epoll, events, room, if waits { limit } else { 0 }, mask))
    fn epoll_pwait2(epoll: c_int, events: *mut epoll_event, room: c_int, limit: *const timespec, mask: *const sigset_t) -> c_int, else -1;
        |next| epolled(epoll, events, room, is_long(limit), |events, room, waits| next(epoll, events, room, if waits { limit } else { &raw const AT_ONCE }, mask))
}

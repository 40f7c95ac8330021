//! The calls poll, select and epoll in all their forms.

use std::mem::zeroed;
use std::ptr::null_mut;

use super::{Outcome, observed};
use crate::program::call::{EpollBy, PollBy};

unsafe extern "C" {
    // What compilers put in place of poll with FORTIFY_SOURCE: the last length is the size of the array in
    // bytes.
    fn __poll_chk(fds: *mut libc::pollfd, count: libc::nfds_t, timeout: i32, room: usize) -> i32;
}

/// Milliseconds as a time; nothing for a wait without an end.
fn time(milliseconds: i32) -> Option<libc::timespec> {
    (milliseconds >= 0).then(|| libc::timespec {
        tv_sec: i64::from(milliseconds / 1000),
        tv_nsec: i64::from(milliseconds % 1000) * 1_000_000,
    })
}

/// A mask that lets every signal through.
fn nothing_held_back() -> libc::sigset_t {
    // SAFETY: a signal set of zeroes is empty.
    unsafe { zeroed() }
}

/// As C wants what may be left out.
fn pointer<T>(value: Option<&T>) -> *const T {
    value.map_or(std::ptr::null(), std::ptr::from_ref)
}

/// `poll`, or another function with its meaning. Answers are written into `set`.
#[must_use]
pub fn poll(set: &mut [(i32, i16, i16)], by: PollBy, timeout: i32) -> Outcome {
    if matches!(by, PollBy::Select | PollBy::Pselect | PollBy::PselectOpen) {
        return select(set, by, timeout);
    }
    let mut fds: Vec<libc::pollfd> =
        set.iter().map(|(fd, events, _)| libc::pollfd { fd: *fd, events: *events, revents: 0 }).collect();
    let (place, count) = (fds.as_mut_ptr(), fds.len() as libc::nfds_t);
    let outcome = observed(|| match by {
        PollBy::Ppoll | PollBy::PpollOpen => {
            let (time, open) = (time(timeout), (by == PollBy::PpollOpen).then(nothing_held_back));
            // SAFETY: the array is as long as said; the time and the mask live or are null.
            unsafe { libc::ppoll(place, count, pointer(time.as_ref()), pointer(open.as_ref())) }
        }
        // SAFETY: the array is as long as said.
        PollBy::PollChk => unsafe { __poll_chk(place, count, timeout, size_of_val(fds.as_slice())) },
        // SAFETY: the array is as long as said.
        _ => unsafe { libc::poll(place, count, timeout) },
    });
    for (entry, fd) in set.iter_mut().zip(fds) {
        entry.2 = fd.revents;
    }
    outcome
}

/// `select` or `pselect`: readable, writable and exceptional as poll's IN, OUT and PRI.
fn select(set: &mut [(i32, i16, i16)], by: PollBy, timeout: i32) -> Outcome {
    // SAFETY: a set of zeroes is an empty set.
    let mut sets: [libc::fd_set; 3] = unsafe { zeroed() };
    const EVENTS: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
    let usable = |fd: i32| usize::try_from(fd).is_ok_and(|fd| fd < libc::FD_SETSIZE);
    let mut limit = 0;
    for (fd, events, _) in set.iter().filter(|(fd, ..)| usable(*fd)) {
        limit = limit.max(fd + 1);
        for (place, event) in sets.iter_mut().zip(EVENTS) {
            if events & event != 0 {
                // SAFETY: the number is below FD_SETSIZE.
                unsafe { libc::FD_SET(*fd, place) };
            }
        }
    }
    let [read, write, except] = &mut sets;
    let outcome = observed(|| {
        let time = time(timeout);
        if by != PollBy::Select {
            let open = (by == PollBy::PselectOpen).then(nothing_held_back);
            let (time, open) = (pointer(time.as_ref()), pointer(open.as_ref()));
            // SAFETY: the sets live, hold numbers below `limit`; the time and the mask live or are null.
            return unsafe { libc::pselect(limit, read, write, except, time, open) };
        }
        let mut time = time.map(|time| libc::timeval { tv_sec: time.tv_sec, tv_usec: time.tv_nsec / 1000 });
        let time = time.as_mut().map_or(null_mut(), std::ptr::from_mut);
        // SAFETY: as above.
        unsafe { libc::select(limit, read, write, except, time) }
    });
    for (fd, _, answer) in set.iter_mut().filter(|(fd, ..)| usable(*fd) && outcome.is_ok()) {
        for (place, event) in sets.iter().zip(EVENTS) {
            // SAFETY: the number is below FD_SETSIZE.
            if unsafe { libc::FD_ISSET(*fd, place) } {
                *answer |= event;
            }
        }
    }
    outcome
}

/// `epoll_create1`.
#[must_use]
pub fn epoll_create(flags: i32) -> Outcome {
    // SAFETY: takes numbers only.
    observed(|| unsafe { libc::epoll_create1(flags) })
}

/// `epoll_ctl`. Deleting passes no event, as programs do.
#[must_use]
pub fn epoll_ctl(fd: i32, op: i32, member: i32, events: u32, data: u64) -> Outcome {
    let mut event = libc::epoll_event { events, u64: data };
    let event = if op == libc::EPOLL_CTL_DEL { null_mut() } else { &raw mut event };
    // SAFETY: the event lives through the call; null is allowed when deleting.
    observed(|| unsafe { libc::epoll_ctl(fd, op, member, event) })
}

/// `epoll_wait`, or another function with its meaning: events with what they carry.
#[must_use]
pub fn epoll_wait(fd: i32, by: EpollBy, max: i32, timeout: i32) -> (Outcome, Vec<(u32, u64)>) {
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; usize::try_from(max).unwrap_or(0).max(1)];
    let place = events.as_mut_ptr();
    let open = matches!(by, EpollBy::PwaitOpen | EpollBy::Pwait2Open).then(nothing_held_back);
    let mask = pointer(open.as_ref());
    let outcome = observed(|| match by {
        // SAFETY: `place` has room for `max` events.
        EpollBy::Wait => i64::from(unsafe { libc::epoll_wait(fd, place, max, timeout) }),
        EpollBy::Pwait | EpollBy::PwaitOpen => {
            // SAFETY: as above; the mask lives or is null.
            i64::from(unsafe { libc::epoll_pwait(fd, place, max, timeout, mask) })
        }
        EpollBy::Pwait2 | EpollBy::Pwait2Open => {
            let time = time(timeout);
            // SAFETY: as above; the time lives or is null.
            i64::from(unsafe { epoll_pwait2(fd, place, max, pointer(time.as_ref()), mask) })
        }
        // SAFETY: as above; no mask.
        EpollBy::Raw => unsafe { libc::syscall(libc::SYS_epoll_pwait, fd, place, max, timeout, 0, 8) },
    });
    events.truncate(outcome.count());
    (outcome, events.iter().map(|event| (event.events, event.u64)).collect())
}

unsafe extern "C" {
    // Not in every version of the libc crate; glibc has it since 2.35.
    fn epoll_pwait2(
        fd: i32,
        events: *mut libc::epoll_event,
        max: i32,
        time: *const libc::timespec,
        mask: *const libc::sigset_t,
    ) -> i32;
}

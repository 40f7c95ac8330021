//! Waits that the library makes in place of the program's own call, until the other end has carried out its
//! part of the protocol. They end as that call would: by a signal, or when the program has waited for as long
//! as it wanted.

use libc::{c_int, pollfd, timespec, timeval};

use super::conn;
use super::leave::{self, is_on_its_way_back};
use crate::interposer::set_errno;
use crate::raw;
use crate::sync::Ordering;

/// How long a call wants to wait.
#[derive(Clone, Copy)]
pub(crate) struct Limit {
    nanoseconds: u64,
}

/// How the program's own call is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    /// As the program makes it.
    Waits,
    /// Without waiting.
    AtOnce,
    /// As that, and with no signal let in that only the call's own mask lets in: there is something to tell,
    /// which comes first.
    Quietly,
}

impl Asks {
    pub(crate) fn waits(self) -> bool {
        self == Self::Waits
    }

    /// The mask that the call has.
    pub(crate) fn mask(self, own: *const libc::sigset_t) -> *const libc::sigset_t {
        if self == Self::Quietly { core::ptr::null() } else { own }
    }
}

const FOREVER: u64 = u64::MAX;

impl Limit {
    pub(crate) const FOREVER: Self = Self { nanoseconds: FOREVER };

    /// Below 0 is for ever.
    pub(crate) fn milliseconds(limit: c_int) -> Self {
        let nanoseconds = u64::try_from(limit).map_or(FOREVER, |limit| limit * 1_000_000);
        Self { nanoseconds }
    }

    /// What makes no sense is for the kernel to say: it does not wait.
    pub(crate) fn time(limit: timespec) -> Self {
        let (seconds, rest) = (u64::try_from(limit.tv_sec), u64::try_from(limit.tv_nsec));
        let nanoseconds = match (seconds, rest) {
            (Ok(seconds), Ok(rest)) => seconds.saturating_mul(1_000_000_000).saturating_add(rest),
            _ => 1,
        };
        Self { nanoseconds }
    }

    pub(crate) fn short_time(limit: timeval) -> Self {
        Self::time(timespec { tv_sec: limit.tv_sec, tv_nsec: limit.tv_usec.saturating_mul(1000) })
    }

    /// Cycles that are surely no longer than that: no processor's clock has less than one a nanosecond.
    pub(super) fn cycles(self) -> u64 {
        self.nanoseconds
    }

    pub(crate) fn may_wait(self) -> bool {
        self.nanoseconds != 0
    }

    /// In milliseconds, as `poll` takes it, no shorter.
    pub(super) fn whole_milliseconds(self) -> c_int {
        if self.nanoseconds == FOREVER {
            return -1;
        }
        c_int::try_from(self.nanoseconds.div_ceil(1_000_000)).unwrap_or(c_int::MAX)
    }

    /// Of the calls on a socket.
    pub(super) fn of(fd: c_int, option: c_int) -> Self {
        match raw::socket_option::<[i64; 2]>(fd, option) {
            Ok([0, 0]) | Err(_) => Self::FOREVER,
            Ok([seconds, rest]) => Self::short_time(timeval { tv_sec: seconds, tv_usec: rest }),
        }
    }
}

/// How such a wait goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goes {
    On,
    /// A handler has run that does not let calls go on.
    Interrupted,
    /// It was as long as the program wanted.
    Over,
}

impl Goes {
    /// What a call on a socket says then.
    pub(crate) fn errno(self) -> c_int {
        if self == Self::Interrupted { libc::EINTR } else { libc::EAGAIN }
    }
}

/// Such a wait.
pub(crate) struct Blocked {
    /// When it began, in nanoseconds; 0 is not yet.
    since: u64,
}

impl Blocked {
    pub(crate) fn new() -> Self {
        Self { since: 0 }
    }

    /// For how long.
    fn spent(&mut self) -> u64 {
        let now = now();
        if self.since == 0 {
            self.since = now;
        }
        now.saturating_sub(self.since)
    }

    /// What is left of a limit.
    pub(super) fn left(&mut self, limit: Limit) -> Limit {
        if limit.nanoseconds == FOREVER {
            return limit;
        }
        Limit { nanoseconds: limit.nanoseconds.saturating_sub(self.spent()) }
    }

    /// The same in milliseconds.
    pub(crate) fn spent_milliseconds(&mut self) -> u32 {
        (self.spent() / 1_000_000) as u32
    }

    /// Of `poll` and its like, which no handler lets go on. `slept` is what the kernel said of a part of the
    /// wait.
    pub(crate) fn waits(&mut self, limit: Limit, slept: isize) -> Goes {
        if slept == -(libc::EINTR as isize) {
            return Goes::Interrupted;
        }
        if self.spent() >= limit.nanoseconds { Goes::Over } else { Goes::On }
    }

    /// Of a read or a write, with the option that says how long it may take.
    pub(crate) fn moves(&mut self, fd: c_int, option: c_int, slept: isize) -> Goes {
        let limit = Limit::of(fd, option);
        match self.waits(limit, slept) {
            Goes::Interrupted if limit.nanoseconds == FOREVER && all_restart() => Goes::On,
            goes => goes,
        }
    }
}

fn now() -> u64 {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a time to write.
    unsafe {
        raw::call(
            libc::SYS_clock_gettime,
            [libc::CLOCK_MONOTONIC as usize, (&raw mut time) as usize, 0, 0, 0, 0],
        )
    };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// Whether calls go on behind each of the program's handlers. Which one has run nobody says.
fn all_restart() -> bool {
    /// As the kernel has it.
    #[repr(C)]
    struct Action {
        handler: usize,
        flags: u64,
        restorer: usize,
        mask: u64,
    }
    (1..=64).all(|signal| {
        let mut action = Action { handler: libc::SIG_DFL, flags: 0, restorer: 0, mask: 0 };
        // SAFETY: room for what is written.
        unsafe {
            raw::call(libc::SYS_rt_sigaction, [signal, 0, (&raw mut action) as usize, 8, 0, 0]);
        }
        matches!(action.handler, libc::SIG_DFL | libc::SIG_IGN) || action.flags & libc::SA_RESTART as u64 != 0
    })
}

/// Sleeps in the kernel, by `native`; before, what this process has written gets there, unless there is
/// nothing to sleep for. `part` is a part of the wait for that.
pub(crate) fn sleep(limit: Limit, native: &mut impl FnMut(Asks) -> c_int, part: impl Fn() -> isize) -> c_int {
    let mut wait = Blocked::new();
    // A writer of a stream that asks for room before each write would take all of it back each time.
    if leave::is_in_rings() {
        let early = native(Asks::AtOnce);
        if early != 0 {
            leave::visits();
            return early;
        }
    }
    while !leave::settle() {
        let early = native(Asks::AtOnce);
        if early != 0 {
            return early;
        }
        match wait.waits(limit, part()) {
            Goes::On => {}
            Goes::Over => return native(Asks::AtOnce),
            Goes::Interrupted => {
                set_errno(libc::EINTR);
                return -1;
            }
        }
    }
    native(Asks::Waits)
}

/// How many connections are waited for at once.
const WATCHED: usize = 16;

/// A part of a wait: until there is something to read from `fd`, if it is one, or the kernel takes more of
/// what goes back to it. What the kernel says of it.
pub(crate) fn part(fd: c_int) -> isize {
    let mut watched = [const { pollfd { fd: -1, events: 0, revents: 0 } }; WATCHED];
    if let Some(first) = watched.first_mut() {
        *first = pollfd { fd, events: libc::POLLIN | libc::POLLRDHUP, revents: 0 };
    }
    let mut used = 1;
    let mut is_all = true;
    conn::for_each_ready(|conn| {
        if conn.owed.owes.load(Ordering::Relaxed) == 0 {
            return;
        }
        match watched.get_mut(used) {
            Some(place) if is_on_its_way_back(conn) => {
                *place = pollfd { fd: conn.fd(), events: libc::POLLOUT, revents: 0 };
                used += 1;
            }
            _ => is_all = false,
        }
    });
    // What the kernel does not tell is looked for again soon.
    let most: usize = if is_all { 50 } else { 1 };
    // SAFETY: so many entries, which are the call's to write.
    unsafe { raw::call(libc::SYS_poll, [watched.as_mut_ptr() as usize, used, most, 0, 0, 0]) }
}

//! The events that a descriptor is registered for, in the program's view and in the kernel's.
//!
//! The two differ after a change that was *noted* instead of made. What the program has changes as one,
//! without a lock: a signal handler, or another thread, comes before or after. What the kernel has is changed
//! by one call at a time: a call of the program, which is counted while it lasts, or one that makes up for
//! what was noted. Notes wait for neither: while there is such a call, nothing is noted.

use libc::{c_int, epoll_event};

use super::wide::Wide;
use crate::rings::forced::yields;
use crate::rings::lock::Masked;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::table::NUMBERS;

/// One number's. Zeroes are nothing.
#[repr(C)]
pub(super) struct Interest {
    program: Wide,
    /// What the kernel has, unless a call is changing that. As long as nothing is noted, what the program
    /// has.
    kernel_data: AtomicU64,
    kernel_events: AtomicU32,
    _room: AtomicU32,
}

/// In several epolls, or nobody knows.
pub(super) const MANY: u32 = (1 << EPOLL_BITS) - 1;
const EPOLL_BITS: u32 = 17;

/// Calls of the program that are counted at most.
const MOST_CALLS: u32 = 15;

/// Of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Registration {
    /// In which epoll, plus 1; 0 if in none; `MANY`.
    pub(super) epoll: u32,
    pub(super) events: u32,
    pub(super) data: u64,
    /// The kernel may have another one. It has one.
    pub(super) is_noted: bool,
    /// With `is_noted`: the program has it no more.
    pub(super) is_deleted: bool,
    /// With `is_noted`: a thread is making up for that.
    is_made_up: bool,
    /// Calls of the program that are about to change it.
    calls: u32,
    /// How often it has changed.
    version: u8,
}

const NOTED: u64 = 1 << (32 + EPOLL_BITS);
const DELETED: u64 = NOTED << 1;
const MADE_UP: u64 = NOTED << 2;
const CALLS_AT: u32 = 32 + EPOLL_BITS + 3;
const VERSION_AT: u32 = CALLS_AT + 4;
const _: () = assert!(VERSION_AT + 8 == 64 && (NUMBERS as u32) < MANY);

impl Registration {
    fn pack(self) -> [u64; 2] {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let high = u64::from(self.events)
            | u64::from(self.epoll) << 32
            | flag(self.is_noted, NOTED)
            | flag(self.is_deleted, DELETED)
            | flag(self.is_made_up, MADE_UP)
            | u64::from(self.calls) << CALLS_AT
            | u64::from(self.version) << VERSION_AT;
        [self.data, high]
    }

    #[inline(always)]
    fn unpack([data, high]: [u64; 2]) -> Self {
        Self {
            epoll: (high >> 32) as u32 & MANY,
            events: high as u32,
            data,
            is_noted: high & NOTED != 0,
            is_deleted: high & DELETED != 0,
            is_made_up: high & MADE_UP != 0,
            calls: (high >> CALLS_AT) as u32 & MOST_CALLS,
            version: (high >> VERSION_AT) as u8,
        }
    }

    fn is_level(events: u32) -> bool {
        const OTHER: i32 = libc::EPOLLET | libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE | libc::EPOLLWAKEUP;
        events & OTHER as u32 == 0
    }

    /// With a change in this epoll, plus 1, instead of a call that would succeed. None: it takes the call.
    fn noting(self, epoll: u32, what: c_int, event: epoll_event) -> Option<Self> {
        let is_settled = self.epoll == epoll && self.calls == 0 && !self.is_made_up;
        if !is_settled || !Self::is_level(self.events) {
            return None;
        }
        let changed = match (what, self.is_deleted) {
            (libc::EPOLL_CTL_DEL, false) => Self { is_deleted: true, ..self },
            (libc::EPOLL_CTL_MOD, false) | (libc::EPOLL_CTL_ADD, true) if Self::is_level(event.events) => {
                Self { events: event.events, data: event.u64, is_deleted: false, ..self }
            }
            _ => return None,
        };
        Some(Self { is_noted: true, ..changed })
    }

    /// After a call of the program that has succeeded in this epoll, plus 1.
    fn called(self, epoll: u32, what: c_int, event: epoll_event) -> Self {
        // Of an epoll with a number that is not followed nobody knows who sleeps in it.
        let is_other = self.epoll != 0 && self.epoll != epoll || epoll > NUMBERS as u32;
        let is_odd = event.events & (libc::EPOLLONESHOT | libc::EPOLLEXCLUSIVE) as u32 != 0;
        match what {
            libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD => Self {
                epoll: if is_other || is_odd { MANY } else { epoll },
                events: event.events,
                data: event.u64,
                ..self
            },
            libc::EPOLL_CTL_DEL if !is_other => Self { epoll: 0, ..self },
            // The same epoll by another number, or one of several.
            libc::EPOLL_CTL_DEL if self.epoll != 0 => Self { epoll: MANY, ..self },
            _ => self,
        }
    }

    /// What epoll it is in, as far as the program knows; 0 for none.
    pub(super) fn is_in(self, epoll: u32) -> bool {
        self.epoll == epoll && !self.is_deleted
    }
}

/// A change that the kernel is asked for: what, and to what.
pub(super) type Change = (c_int, epoll_event);

impl Interest {
    #[cfg(test)]
    pub(super) const fn new() -> Self {
        Self {
            program: Wide::new(),
            kernel_data: AtomicU64::new(0),
            kernel_events: AtomicU32::new(0),
            _room: AtomicU32::new(0),
        }
    }

    /// All of it.
    #[inline(always)]
    pub(super) fn now(&self) -> Registration {
        Registration::unpack(self.program.load())
    }

    /// All but the data, which is 0.
    #[inline(always)]
    pub(super) fn glance(&self) -> Registration {
        Registration::unpack([0, self.program.high()])
    }

    /// Changes it as one, unless `how` wants nothing; what it was before.
    fn change(&self, how: impl Fn(Registration) -> Option<Registration>) -> Option<Registration> {
        loop {
            let now = self.now();
            let version = now.version.wrapping_add(1);
            let changed = Registration { version, ..how(now)? };
            if self.program.changes(now.pack(), changed.pack()) {
                return Some(now);
            }
        }
    }

    /// Notes a change in this epoll, plus 1. Whether it has been noted.
    pub(super) fn notes(&self, epoll: u32, what: c_int, event: epoll_event) -> bool {
        self.change(|now| now.noting(epoll, what, event)).is_some()
    }

    /// A call of the program is about to change it, for which what was noted is made up. Several at a time:
    /// their order is the kernel's to know, so it stays with the kernel. Whether it is counted.
    pub(super) fn begins(&self, kernel: impl Fn(c_int, Change) -> isize) -> bool {
        loop {
            let mut masked = None;
            self.makes_up(&mut masked, &kernel);
            if let Some(masked) = masked {
                masked.end();
            }
            let begun = self.change(|now| {
                let epoll = if now.calls == 0 { now.epoll } else { MANY };
                let more = Registration { epoll, calls: now.calls + 1, ..now };
                (!now.is_noted && now.calls < MOST_CALLS).then_some(more)
            });
            if begun.is_some() {
                return true;
            }
            if !self.glance().is_noted {
                return false;
            }
        }
    }

    /// A call that was counted has come back; `changed` is what it has changed in which epoll, plus 1. What
    /// it is registered for now; none if the number was closed meanwhile.
    pub(super) fn ends(&self, changed: Option<(u32, c_int, epoll_event)>) -> Option<Registration> {
        if let Some((_, _, event)) = changed {
            // Nobody else looks at it as long as a call is counted.
            self.kernel_has(event.events, event.u64);
        }
        self.change(|now| {
            let called = changed.map_or(now, |(epoll, what, event)| now.called(epoll, what, event));
            Some(Registration { calls: now.calls.checked_sub(1)?, ..called })
        })?;
        Some(self.now())
    }

    fn kernel_has(&self, events: u32, data: u64) {
        // Published by the change that follows.
        self.kernel_events.store(events, Ordering::Relaxed);
        self.kernel_data.store(data, Ordering::Relaxed);
    }

    /// Has the kernel have what the program has. `kernel` makes a call in an epoll, and `masked` is the time
    /// without signals in which calls are made, if it has begun.
    pub(super) fn makes_up(&self, masked: &mut Option<Masked>, kernel: impl Fn(c_int, Change) -> isize) {
        loop {
            let now = self.now();
            if !now.is_noted {
                return;
            }
            if now.is_made_up {
                // By another thread, which no handler interrupts.
                yields();
                continue;
            }
            let is_same = !now.is_deleted
                && now.events == self.kernel_events.load(Ordering::Relaxed)
                && now.data == self.kernel_data.load(Ordering::Relaxed);
            let done = Registration {
                is_noted: false,
                is_deleted: false,
                epoll: if now.is_deleted { 0 } else { now.epoll },
                version: now.version.wrapping_add(2),
                ..now
            };
            if is_same {
                if self.program.changes(now.pack(), done.pack()) {
                    return;
                }
                continue;
            }
            // A handler of this thread could not wait for what it has interrupted.
            masked.get_or_insert_with(Masked::begin);
            let making = Registration { is_made_up: true, version: now.version.wrapping_add(1), ..now };
            if !self.program.changes(now.pack(), making.pack()) {
                continue;
            }
            let is_there = asks(now, &kernel);
            self.kernel_has(now.events, now.data);
            let done = if is_there { done } else { Registration { epoll: 0, ..done } };
            // Unless the number was closed meanwhile.
            self.program.changes(making.pack(), done.pack());
            return;
        }
    }

    /// The number is something else, or nothing.
    pub(super) fn forgets(&self) {
        let now = self.glance();
        if now.epoll != 0 || now.calls != 0 {
            self.change(|_| Some(Registration::default()));
        }
    }

    /// If it is in this epoll, plus 1, it is in none any more; or, if nobody knows, in many.
    pub(super) fn loses(&self, epoll: u32, is_known: bool) {
        if self.glance().epoll == epoll {
            let epoll_after = if is_known { 0 } else { MANY };
            self.change(|now| {
                let lost = Registration { is_noted: false, is_deleted: false, is_made_up: false, ..now };
                (now.epoll == epoll).then_some(Registration { epoll: epoll_after, ..lost })
            });
        }
    }

    /// In the child of a fork nobody is in a call. Whether something is noted.
    pub(super) fn forked(&self) -> bool {
        let now = self.glance();
        if now.calls != 0 || now.is_made_up {
            self.change(|now| Some(Registration { calls: 0, is_made_up: false, ..now }));
        }
        now.is_noted
    }
}

/// Asks the kernel for what the program has. Whether it is registered then.
fn asks(now: Registration, kernel: impl Fn(c_int, Change) -> isize) -> bool {
    let epoll = now.epoll as c_int - 1;
    let event = epoll_event { events: now.events, u64: now.data };
    if now.is_deleted {
        kernel(epoll, (libc::EPOLL_CTL_DEL, event));
        return false;
    }
    let changed = kernel(epoll, (libc::EPOLL_CTL_MOD, event));
    // A process that this one is the unseen fork of, or the other way round, has made up, too.
    changed == 0 || changed == -(libc::ENOENT as isize) && kernel(epoll, (libc::EPOLL_CTL_ADD, event)) == 0
}

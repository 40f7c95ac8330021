//! Locks in shared memory, of those who hold one end: threads of a process, and the children that it had since.
//!
//! A lock is the number of its holder's process and a part of the address that the thread has for itself. Who is interrupted by
//! a signal while it holds one, and comes here again in the handler, holds it already.

use crate::raw;
use crate::state;
use crate::sync::{AtomicU64, Ordering};

/// Looks before a wait.
const LOOKS: u32 = 1000;

/// This thread, as locks name it; never 0.
#[inline(always)]
pub(crate) fn own() -> u64 {
    u64::from(state::owner()) << 32 | u64::from((state::thread() >> 6) as u32) & !SHORT
}

/// The lock is held for as long as a copy takes: nobody waits with it.
const SHORT: u64 = 1;

/// Takes it if it is free, for a moment.
#[inline(always)]
pub(crate) fn try_take(lock: &AtomicU64) -> bool {
    lock.compare_exchange(0, own() | SHORT, Ordering::SeqCst, Ordering::Relaxed).is_ok()
}

/// Whether another thread of this process has it for a moment.
pub(crate) fn is_held_shortly(lock: &AtomicU64) -> bool {
    let holder = lock.load(Ordering::SeqCst);
    holder & SHORT != 0 && (holder >> 32) as u32 == state::owner() && holder & !SHORT != own()
}

/// A lock that is held over what is not short: no signal handler of the program runs meanwhile.
pub(crate) struct Held {
    masked: Masked,
    /// It was this thread's before, which a signal has interrupted.
    is_nested: bool,
}

impl Held {
    pub(crate) fn none() -> Self {
        Self { masked: Masked { signals: 0 }, is_nested: false }
    }

    pub(crate) fn take(lock: &AtomicU64) -> Self {
        Self { masked: Masked::begin(), is_nested: take(lock) }
    }

    pub(crate) fn release(&self, lock: &AtomicU64) {
        if !self.is_nested {
            release(lock);
        }
        self.masked.end();
    }
}

/// A time in which no signal handler of the program runs in this thread.
pub(super) struct Masked {
    signals: u64,
}

impl Masked {
    pub(super) fn begin() -> Self {
        let mut signals = 0_u64;
        let all = u64::MAX;
        mask(&raw const all, &raw mut signals);
        Self { signals }
    }

    pub(super) fn end(&self) {
        mask(&raw const self.signals, core::ptr::null_mut());
    }
}

/// Sets the signals that wait.
fn mask(set: *const u64, old: *mut u64) {
    let how = libc::SIG_SETMASK as usize;
    // SAFETY: sets of the kernel's size, to read and to write.
    unsafe { raw::call(libc::SYS_rt_sigprocmask, [how, set as usize, old as usize, 8, 0, 0]) };
}

/// Takes it; whether this thread had it already.
fn take(lock: &AtomicU64) -> bool {
    let own = own();
    let mut looks = 0_u32;
    loop {
        let Err(holder) = lock.compare_exchange(0, own, Ordering::SeqCst, Ordering::Relaxed) else {
            return false;
        };
        if holder & !SHORT == own {
            return true;
        }
        looks += 1;
        if looks < LOOKS {
            super::spin::relax();
            continue;
        }
        if is_dead(holder, (holder >> 32) as u32)
            && lock.compare_exchange(holder, own, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        {
            return false;
        }
        super::run::sleep(100_000);
    }
}

#[inline(always)]
pub(crate) fn release(lock: &AtomicU64) {
    // Pairs with the Acquire of who takes it next.
    lock.store(0, Ordering::Release);
}

/// Whether who holds it is proven to be no more. `known` is the process that may be, by a number that means the same here; 0 for none.
pub(crate) fn is_dead(holder: u64, known: u32) -> bool {
    let process = (holder >> 32) as u32;
    if known == 0 || process != known || process == state::owner() {
        return false;
    }
    super::own::with_descriptors(|| has_ended(process)).unwrap_or(false)
}

/// Whether there is no such process any more.
fn has_ended(process: u32) -> bool {
    // SAFETY: a new descriptor, closed below.
    let pidfd = unsafe { raw::call(libc::SYS_pidfd_open, [process as usize, 0, 0, 0, 0, 0]) };
    if pidfd < 0 {
        return pidfd == -(libc::ESRCH as isize);
    }
    // Of a process that has ended and was not waited for, the descriptor is readable.
    let has_ended = super::kernel::polled(pidfd as i32, libc::POLLIN, 0) != 0;
    // SAFETY: the descriptor from above.
    unsafe { raw::call(libc::SYS_close, [pidfd as usize, 0, 0, 0, 0, 0]) };
    has_ended
}

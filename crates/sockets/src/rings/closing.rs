//! Descriptors that the program is about to close or replace.
//!
//! What is in a ring goes back, or is found behind what the kernel got, before the kernel closes the number.
//! Until that is done, what another thread moves by it past the ring would come too early, and what it finds
//! out about the number would be said of the next that gets it. So other threads wait for the close, as if
//! they had come a moment later.

use libc::c_int;

use super::blocked::Blocked;
use super::{conn, lock};
use crate::sync::{AtomicU64, Ordering};
use crate::{environment, raw, state};

/// Closes at a time that others wait for; with more, they do not.
const CLOSES: usize = 16;

/// One of them.
struct Close {
    /// Who closes, or 0 if this is free: a handler of that thread cannot wait.
    thread: AtomicU64,
    /// The socket that is closed, as the kernel names it: a thread may sleep in the kernel's close long after
    /// the number is free. 0 if there are several, until the kernel is called.
    cookie: AtomicU64,
    /// The first number, and one more than the last; 0 for none.
    numbers: AtomicU64,
}

static ALL: [Close; CLOSES] =
    [const { Close { thread: AtomicU64::new(0), cookie: AtomicU64::new(0), numbers: AtomicU64::new(0) } };
        CLOSES];

/// How many there are, or are about to be.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The longest that one is waited for. It may take as long as the other end does; of a thread that was
/// cancelled in it there is no end.
const MOST_MILLISECONDS: u32 = super::run::PATIENT + 5000;

/// Closes a number: `close` first does what the library does, and then what the program asked for.
pub(crate) fn closes<T>(fd: c_int, close: impl FnOnce() -> T) -> T {
    if !environment::has_rings() || state::outside() {
        return close();
    }
    // With no bytes in a ring nothing can come too early.
    match conn::of(fd).map(|conn| conn.cookie.load(Ordering::Relaxed)).filter(|&cookie| cookie != 0) {
        Some(cookie) => during(fd as u32, fd as u32, cookie, close),
        None => close(),
    }
}

/// Numbers from `first` to `last` are about to be closed: `forget` does what the library does.
pub(crate) fn closes_range(first: u32, last: u32, forget: impl FnOnce()) {
    if !conn::met() || state::outside() {
        return forget();
    }
    during(first, last, 0, forget);
}

/// Others wait for what is done here.
fn during<T>(first: u32, last: u32, cookie: u64, act: impl FnOnce() -> T) -> T {
    COUNT.fetch_add(1, Ordering::SeqCst);
    let own = ALL.iter().find(|place| {
        place.thread.compare_exchange(0, lock::own(), Ordering::SeqCst, Ordering::Relaxed).is_ok()
    });
    if let Some(own) = own {
        own.cookie.store(cookie, Ordering::SeqCst);
        let numbers = (u64::from(first) << 32) | u64::from(last.saturating_add(1));
        own.numbers.store(numbers, Ordering::SeqCst);
    }
    let result = act();
    if let Some(own) = own {
        own.numbers.store(0, Ordering::SeqCst);
        own.thread.store(0, Ordering::SeqCst);
    }
    COUNT.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Which numbers those are, of a number another thread closes, and where that is said.
fn of_another(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    if COUNT.load(Ordering::SeqCst) == 0 {
        return None;
    }
    let number = u64::try_from(fd).ok()?;
    ALL.iter().find_map(|place| {
        let numbers = place.numbers.load(Ordering::SeqCst);
        let is_it = (numbers >> 32..numbers & u64::from(u32::MAX)).contains(&number);
        let is_anothers = || place.thread.load(Ordering::SeqCst) != lock::own();
        let is_open = || match place.cookie.load(Ordering::SeqCst) {
            0 => true,
            cookie => raw::socket_option::<u64>(fd, libc::SO_COOKIE).is_ok_and(|now| now == cookie),
        };
        (is_it && is_anothers() && is_open()).then_some((&place.numbers, numbers))
    })
}

/// Whether another thread is about to close the number.
pub(crate) fn is_closing(fd: c_int) -> bool {
    of_another(fd).is_some()
}

/// Waits until no other thread is about to close the number; whether any was.
#[inline]
pub(crate) fn waits(fd: c_int) -> bool {
    COUNT.load(Ordering::SeqCst) != 0 && conn::met() && waits_for(fd)
}

#[cold]
fn waits_for(fd: c_int) -> bool {
    let mut waited = Blocked::new();
    let mut any = false;
    while let Some((place, numbers)) = of_another(fd) {
        any = true;
        if waited.spent_milliseconds() > MOST_MILLISECONDS {
            // Its thread was cancelled. Nobody waits for it again.
            let _ = place.compare_exchange(numbers, 0, Ordering::SeqCst, Ordering::Relaxed);
            break;
        }
        super::forced::yields();
    }
    any
}

/// In the child of a fork nobody closes anything.
pub(crate) fn forked() {
    COUNT.store(0, Ordering::Relaxed);
    for place in &ALL {
        place.numbers.store(0, Ordering::Relaxed);
        place.thread.store(0, Ordering::Relaxed);
    }
}

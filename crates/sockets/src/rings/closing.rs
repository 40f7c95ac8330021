//! Numbers that the program is about to close, or to replace.
//!
//! What is in a ring goes back, or is found behind what the kernel got, before the kernel closes the number. Until that is done, what another thread moves by
//! it past the ring would come too early, and what it finds out about the number would be said of the next that gets it. So other threads wait for the
//! close, as if they had come a moment later.

use libc::c_int;

use super::blocked::Blocked;
use super::{conn, lock};
use crate::sync::{AtomicU64, Ordering};
use crate::{environment, state};

/// Closes at a time that others wait for; with more, they do not.
const CLOSES: usize = 16;

/// One of them.
struct Close {
    /// The first number, and one more than the last; 0 for none.
    numbers: AtomicU64,
    /// Who closes them: a handler of that thread cannot wait.
    thread: AtomicU64,
}

static ALL: [Close; CLOSES] =
    [const { Close { numbers: AtomicU64::new(0), thread: AtomicU64::new(0) } }; CLOSES];

/// How many there are, or are about to be.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The longest that one is waited for. It may take as long as the other end does; of a thread that was cancelled in it there is no end.
const MOST_MILLISECONDS: u32 = super::run::PATIENT + 5000;

/// Closes numbers from `first` to `last`: `close` first does what the library does, and then what the program asked for.
pub(crate) fn closes<T>(first: c_int, last: c_int, close: impl FnOnce() -> T) -> T {
    if !environment::has_rings() || state::outside() {
        return close();
    }
    COUNT.fetch_add(1, Ordering::SeqCst);
    let numbers = (u64::from(first.max(0) as u32) << 32) | (u64::from(last.max(0) as u32) + 1);
    let own = ALL.iter().find(|place| {
        place.numbers.compare_exchange(0, numbers, Ordering::SeqCst, Ordering::Relaxed).is_ok()
    });
    if let Some(own) = own {
        own.thread.store(lock::own(), Ordering::SeqCst);
    }
    let result = close();
    if let Some(own) = own {
        own.thread.store(0, Ordering::SeqCst);
        own.numbers.store(0, Ordering::SeqCst);
    }
    COUNT.fetch_sub(1, Ordering::SeqCst);
    result
}

/// Which numbers those are, of a number another thread closes, and where that is said.
fn of_another(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    if COUNT.load(Ordering::SeqCst) == 0 {
        return None;
    }
    let fd = u64::try_from(fd).ok()?;
    ALL.iter().find_map(|place| {
        let numbers = place.numbers.load(Ordering::SeqCst);
        let is_it = (numbers >> 32..numbers & u64::from(u32::MAX)).contains(&fd);
        let is_anothers = || place.thread.load(Ordering::SeqCst) != lock::own();
        (is_it && is_anothers()).then_some((&place.numbers, numbers))
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

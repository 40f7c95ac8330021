//! Changes of registrations that are noted and made later.
//!
//! A program that goes on by waits that rings answer alone changes what it waits for between them
//! (redis-benchmark five times a request), and nobody asks the kernel meanwhile. So `epoll_ctl` only notes
//! what the program has from then on, which is all that a look at rings goes by. **Before anybody asks the
//! kernel about an epoll, what was noted of it is made up**: before each of the library's own questions, and
//! before all after which somebody else may ask: another thread's wait, a wait for the epoll itself, another
//! number for it, another process that gets it. Who asks says so first and then makes up; who notes does so
//! first and then looks whether anybody asks, and makes up itself: one of the two sees the other.
//!
//! Only successes are noted. A call that would fail, by what is known, is made after what was noted has been
//! made up: so the error is the kernel's own.

use libc::{c_int, epoll_event};

use super::interest::Change;
use super::parking::{FOREIGN, epoll_state, interest};
use crate::near::NEAR;
use crate::raw;
use crate::rings::conn::{self, Conn};
use crate::rings::lock::Masked;
use crate::rings::reach;
use crate::sync::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};
use crate::table;

/// What is known of an epoll, by its number, for notes. Zeroes are nothing.
pub(super) struct Standing {
    /// What [`HOLDERS`] said when this process made it; 0 if somebody else may ask the kernel about it.
    alone: AtomicU32,
    /// Threads that ask the kernel about it.
    asking: AtomicU16,
    /// Whether it was seen when it was made: [`MADE_HERE`], [`BY_PARENT`], [`BY_PARENT_WAITED`].
    is_known: AtomicU8,
    /// [`MOST_TRUST`] once rings alone have answered a wait for it, and one less with each that the kernel
    /// has answered since.
    trust: AtomicU8,
}

const MADE_HERE: u8 = 1;
/// It was there at the fork that made this process.
const BY_PARENT: u8 = 2;
/// The same, and this process has waited in it since.
const BY_PARENT_WAITED: u8 = 3;

const MOST_TRUST: u8 = 3;

/// How often descriptors of this process have got another holder.
static HOLDERS: AtomicU32 = AtomicU32::new(1);

/// By place of a connection: whether something may be noted of it.
pub(super) type Noted = [AtomicU64; conn::CONNECTIONS / 64];

/// Whether anything ever was.
static ANY: AtomicU32 = AtomicU32::new(0);

fn any() -> bool {
    ANY.load(Ordering::Relaxed) != 0
}

fn standing(epoll: c_int) -> Option<&'static Standing> {
    Some(&epoll_state((epoll as u32).wrapping_add(1))?.standing)
}

/// Whether this process has made an epoll of which something may be noted one day.
static MADE: AtomicU32 = AtomicU32::new(0);

/// Whether this process has made an epoll, or has changed or copied one: only then anything is known of any
/// number here.
#[inline(always)]
pub(super) fn any_seen() -> bool {
    NEAR.epolls.load(Ordering::Relaxed) != 0
}

/// It is about to.
pub(super) fn sees() {
    if !any_seen() {
        NEAR.epolls.store(1, Ordering::Relaxed);
    }
}

/// Whether this process has made an epoll. One that is passed before the first connection has a ring has
/// other holders, too.
pub(crate) fn any_made() -> bool {
    MADE.load(Ordering::Relaxed) != 0
}

/// An epoll was made.
pub(crate) fn made(epoll: c_int) {
    if let Some(standing) = standing(epoll) {
        sees();
        MADE.store(1, Ordering::Relaxed);
        // A thread that still asks about what the number was counts itself out when it is through.
        standing.trust.store(0, Ordering::Relaxed);
        standing.is_known.store(MADE_HERE, Ordering::Relaxed);
        standing.alone.store(HOLDERS.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Whether it is an epoll of the parent's, too.
pub(super) fn is_from_parent(epoll: c_int) -> bool {
    standing(epoll).is_some_and(|standing| standing.is_known.load(Ordering::Relaxed) >= BY_PARENT)
}

/// Whether it is an epoll of the parent's that is waited in for the first time; once.
#[inline]
pub(super) fn is_first_wait(epoll: c_int) -> bool {
    standing(epoll).is_some_and(|standing| {
        let is_first = standing.is_known.load(Ordering::Relaxed) == BY_PARENT;
        if is_first {
            standing.is_known.store(BY_PARENT_WAITED, Ordering::Relaxed);
        }
        is_first
    })
}

/// Whether this is an epoll, as far as is known.
pub(super) fn is_one(fd: c_int) -> bool {
    standing(fd).is_some_and(|standing| standing.is_known.load(Ordering::Relaxed) != 0)
}

/// Whether the number was that of an epoll, which is closed.
pub(super) fn was_epoll(fd: c_int) -> bool {
    let Some(standing) = standing(fd).filter(|standing| standing.is_known.load(Ordering::Relaxed) != 0)
    else {
        return false;
    };
    standing.alone.store(0, Ordering::Relaxed);
    standing.is_known.store(0, Ordering::Relaxed);
    true
}

/// Whether nobody but this process asks the kernel about this epoll, and does not at the moment.
fn is_quiet(epoll: c_int) -> bool {
    let Some(state) = epoll_state((epoll as u32).wrapping_add(1)) else { return false };
    let alone = state.standing.alone.load(Ordering::SeqCst);
    alone != 0
        && alone == HOLDERS.load(Ordering::SeqCst)
        && state.standing.asking.load(Ordering::SeqCst) == 0
        && state.sleepers.load(Ordering::SeqCst) == 0
}

/// Whether its ring is all that a connection has for this process.
fn is_rings(conn: &Conn, fd: c_int) -> bool {
    conn.is(conn::state::READY)
        && conn.fd() == fd
        && conn.numbers.load(Ordering::Relaxed) == 1
        && conn.standing.shared.load(Ordering::SeqCst) == 0
        && conn.standing.sealed.load(Ordering::Relaxed) == 0
}

/// Notes a change that the program asks for, if that is as good as to make it. Whether it has been noted.
#[inline]
pub(crate) fn notes(epoll: c_int, what: c_int, fd: c_int, event: *const epoll_event) -> bool {
    conn::any()
        && standing(epoll).is_some_and(|standing| standing.trust.load(Ordering::Relaxed) != 0)
        && conn::ready(fd).is_some_and(|conn| notes_of(conn, epoll, what, fd, event))
}

fn notes_of(conn: &Conn, epoll: c_int, what: c_int, fd: c_int, event: *const epoll_event) -> bool {
    let event = match what {
        libc::EPOLL_CTL_DEL => epoll_event { events: 0, u64: 0 },
        _ if reach::is_readable(event.cast(), size_of::<epoll_event>()) => {
            // SAFETY: the program's own event, which is there; it need not be aligned.
            unsafe { event.read_unaligned() }
        }
        _ => return false,
    };
    let Some(interest) = interest(fd).filter(|_| is_quiet(epoll) && is_rings(conn, fd)) else { return false };
    // Before: who asks the kernel in a handler right behind the note finds it. And after: who has made up
    // meanwhile has taken it away.
    says_noted(conn);
    if !interest.notes(epoll as u32 + 1, what, event) {
        return false;
    }
    says_noted(conn);
    conn.told.edge.store(u64::MAX, Ordering::Relaxed);
    // Who asks the kernel from here on finds the note; who asks already is found here.
    fence(Ordering::SeqCst);
    if !is_quiet(epoll) || !is_rings(conn, fd) {
        makes_up_of(fd);
    }
    true
}

fn says_noted(conn: &Conn) {
    let at = conn::place(conn);
    if let Some(noted) = noted()
        && let Some(bits) = noted.get(at / 64)
        && bits.load(Ordering::SeqCst) & 1 << (at % 64) == 0
    {
        ANY.store(1, Ordering::Relaxed);
        bits.fetch_or(1 << (at % 64), Ordering::SeqCst);
    }
}

fn noted() -> Option<&'static Noted> {
    Some(&crate::rings::tables::get()?.epolls.noted)
}

/// Calls the kernel.
pub(super) fn kernel_of(fd: c_int) -> impl Fn(c_int, Change) -> isize {
    move |epoll, (what, event)| {
        // SAFETY: reads the event.
        unsafe {
            raw::call(
                libc::SYS_epoll_ctl,
                [epoll as usize, what as usize, fd as usize, (&raw const event) as usize, 0, 0],
            )
        }
    }
}

/// What is noted of a number is made up.
pub(super) fn makes_up_of(fd: c_int) {
    if any()
        && let Some(interest) = interest(fd)
    {
        let mut masked = None;
        interest.makes_up(&mut masked, kernel_of(fd));
        if let Some(masked) = masked {
            masked.end();
        }
    }
}

/// What is noted is made up, of an epoll or, with none, of all.
fn makes_up(epoll: Option<c_int>) {
    let Some(noted) = noted().filter(|_| any()) else { return };
    let mut masked: Option<Masked> = None;
    for (word, bits) in noted.iter().enumerate() {
        let mut left = bits.load(Ordering::SeqCst);
        while left != 0 {
            let bit = left & left.wrapping_neg();
            left &= left - 1;
            let Some(conn) = conn::at(word * 64 + bit.trailing_zeros() as usize) else { continue };
            let fd = conn.fd();
            let Some(interest) = interest(fd) else { continue };
            let now = interest.glance();
            if now.is_noted && epoll.is_some_and(|epoll| now.epoll != epoll as u32 + 1) {
                continue;
            }
            // Before: what is noted behind it says so again.
            bits.fetch_and(!bit, Ordering::SeqCst);
            interest.makes_up(&mut masked, kernel_of(fd));
        }
    }
    if let Some(masked) = masked {
        masked.end();
    }
}

/// Whether something may be noted of an epoll.
pub(super) fn has_notes(epoll: c_int) -> bool {
    let Some(noted) = noted().filter(|_| any()) else { return false };
    noted.iter().enumerate().any(|(word, bits)| {
        let mut left = bits.load(Ordering::Relaxed);
        let mut has = false;
        while left != 0 && !has {
            let at = word * 64 + left.trailing_zeros() as usize;
            left &= left - 1;
            has = conn::at(at).and_then(|conn| interest(conn.fd())).is_some_and(|interest| {
                let now = interest.glance();
                now.is_noted && now.epoll == epoll as u32 + 1
            });
        }
        has
    })
}

/// Asks the kernel about an epoll, which has all that the program has.
#[inline]
pub(super) fn asks<T>(epoll: c_int, ask: impl FnOnce() -> T) -> T {
    let Some(standing) = standing(epoll).filter(|standing| standing.is_known.load(Ordering::Relaxed) != 0)
    else {
        // Nothing is noted of it.
        return ask();
    };
    standing.asking.fetch_add(1, Ordering::SeqCst);
    makes_up(Some(epoll));
    let answer = ask();
    standing.asking.fetch_sub(1, Ordering::SeqCst);
    answer
}

/// Who sleeps in it is counted among its sleepers already.
pub(super) fn is_slept_in(epoll: c_int) {
    makes_up(Some(epoll));
}

/// Somebody else may ask the kernel about this epoll from here on.
pub(crate) fn has_others(epoll: c_int) {
    if let Some(standing) = standing(epoll)
        && standing.is_known.load(Ordering::Relaxed) != 0
    {
        standing.alone.store(0, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        makes_up(Some(epoll));
    }
}

/// Another process is about to have all descriptors.
pub(crate) fn all_have_others() {
    HOLDERS.fetch_add(1, Ordering::SeqCst);
    makes_up(None);
}

/// Nothing may be left to be made up.
pub(crate) fn everything() {
    makes_up(None);
}

/// Rings alone have answered a wait for it.
pub(super) fn rings_answered(epoll: c_int) {
    if let Some(standing) = standing(epoll)
        && standing.trust.load(Ordering::Relaxed) != MOST_TRUST
        && standing.is_known.load(Ordering::Relaxed) != 0
    {
        standing.trust.store(MOST_TRUST, Ordering::Relaxed);
    }
}

/// The kernel has.
pub(super) fn kernel_answered(epoll: c_int) {
    if let Some(standing) = standing(epoll) {
        let trust = standing.trust.load(Ordering::Relaxed);
        if trust != 0 {
            standing.trust.store(trust - 1, Ordering::Relaxed);
        }
    }
}

/// Whether rings are going to answer the next wait for it, as far as is known.
pub(super) fn is_trusted(epoll: c_int) -> bool {
    standing(epoll).is_some_and(|standing| standing.trust.load(Ordering::Relaxed) == MOST_TRUST)
}

/// In the child of a fork.
pub(super) fn forked() {
    HOLDERS.fetch_add(1, Ordering::Relaxed);
    for fd in 0..table::highest() as c_int {
        let (Some(state), Some(interest)) = (epoll_state(fd as u32 + 1), interest(fd)) else { return };
        let standing = &state.standing;
        if is_one(fd) {
            // The parent may wait in it, and looks at no ring of what the child registers from here on.
            state.sleepers.fetch_or(FOREIGN, Ordering::Relaxed);
            standing.is_known.store(BY_PARENT, Ordering::Relaxed);
        }
        if standing.asking.load(Ordering::Relaxed) != 0 {
            standing.asking.store(0, Ordering::Relaxed);
        }
        if interest.forked() {
            makes_up_of(fd);
        }
    }
}

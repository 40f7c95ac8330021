//! Which connection a table entry is, and which threads are in a call on it.
//!
//! A number may be closed, and may be another connection's, while a thread is in a call that began when it
//! was this one's. Then that call goes on with what it began with, as the kernel's own calls do:
//!
//! - A short call proves, once it holds the lock, that the number still is of the place ([`Known`]), and only
//!   then looks at, or touches, anything that the next connection of the place would use. A number that is
//!   closed is of no place before it is waited until nobody holds the lock.
//! - Whoever may wait is a *user*: its place is not used again before the last one is through.
//! - Whoever is going to use the descriptor again is a *mover*, too. If a number is closed under movers, they
//!   get another one for the same socket, and the last of them does what a close does. No mover is in a call
//!   in which its thread may be cancelled.

use libc::c_int;

use super::{Conn, Known};
use crate::rings::blocked::Blocked;
use crate::rings::forced::yields;
use crate::rings::{leave, own};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Users, movers and flags of a place, in one word.
const USER: u64 = 1;
const MOVER: u64 = 1 << 15;
/// Users that read from the kernel in trust of being parked (see `stream::park`), counted once more.
const INSIDE: u64 = 1 << 32;
/// All that is counted.
const COUNTED: u64 = (ENDS - 1) | !(INSIDE - 1);
/// Both ends of the time in which the last mover does what a close does.
const ENDS: u64 = 1 << 28;
const ENDED: u64 = 1 << 29;
/// The program has closed it.
const CLOSED: u64 = 1 << 30;
/// The place is being given back.
const LEFT: u64 = 1 << 31;

fn users(word: u64) -> u64 {
    word & (MOVER - 1)
}

fn movers(word: u64) -> u64 {
    (word & (ENDS - 1)) / MOVER
}

/// How often this process is the child of a fork: what has begun in the parent is not counted here.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// Who is in a call on the connection of a place. Zeroes are nobody.
pub(crate) struct Users {
    word: AtomicU64,
    /// Movers that are in a system call on its descriptor that does not wait.
    asking: AtomicU32,
    /// Plus 1: the number that movers use once the program has closed theirs.
    kept: AtomicU32,
}

impl Known {
    /// In a call on it from here on.
    #[inline(always)]
    pub(crate) fn enter(self) -> Result<Use, Gone> {
        self.enter_as(USER)
    }

    /// The same, and counted among those who read in trust of being parked.
    #[inline(always)]
    pub(super) fn enter_inside(self) -> Result<Use, Gone> {
        self.enter_as(USER + INSIDE)
    }

    #[inline(always)]
    fn enter_as(self, counts: u64) -> Result<Use, Gone> {
        let before = self.conn.users.word.fetch_add(counts, Ordering::SeqCst);
        let entered = Use { conn: self.conn, forks: forks(), counts };
        // Who closes it takes the number away first, and gives the place back when there are no users.
        if before & CLOSED == 0 && self.is_still() {
            return Ok(entered);
        }
        entered.leave();
        Err(Gone)
    }

    /// Acts as a mover, unless the connection is closed.
    pub(crate) fn moving<T>(self, act: impl FnOnce(&'static Conn) -> T) -> Result<T, Gone> {
        let user = self.enter()?;
        let acted = user.moves().map(|mover| {
            let acted = act(self.conn);
            mover.rests();
            acted
        });
        user.leave();
        acted
    }
}

/// The connection was closed before the call had moved anything: the number is looked up again.
#[derive(Debug)]
pub(crate) struct Gone;

/// A user, until it [leaves](Self::leave). (No destructor: see `forced::Wait`.)
#[must_use]
#[derive(Clone, Copy)]
pub(crate) struct Use {
    pub(crate) conn: &'static Conn,
    forks: u32,
    /// What it has added.
    counts: u64,
}

/// What tells a user of this process from one of its parent.
pub(crate) fn forks() -> u32 {
    FORKS.load(Ordering::Relaxed)
}

impl Use {
    /// That of a thread which has entered a connection when [`forks`] said this.
    pub(crate) fn since(conn: &'static Conn, forks: u32) -> Self {
        Self { conn, forks, counts: USER }
    }

    #[inline(always)]
    pub(crate) fn leave(self) {
        if self.forks != forks() {
            return;
        }
        let before = self.conn.users.word.fetch_sub(self.counts, Ordering::SeqCst);
        if before & CLOSED != 0 {
            self.conn.is_left();
        }
    }

    /// Whether the program has closed it meanwhile: its number may be anybody's.
    #[inline(always)]
    pub(crate) fn is_closed(self) -> bool {
        self.conn.users.word.load(Ordering::SeqCst) & CLOSED != 0
    }

    /// A mover from here on, whose descriptor stays open.
    pub(crate) fn moves(self) -> Result<Mover, Gone> {
        let before = self.conn.users.word.fetch_add(MOVER, Ordering::SeqCst);
        let mover = Mover { conn: self.conn, forks: forks() };
        if before & CLOSED == 0 {
            return Ok(mover);
        }
        mover.rests();
        Err(Gone)
    }
}

/// A mover, until it [rests](Self::rests).
#[must_use]
#[derive(Clone, Copy)]
pub(crate) struct Mover {
    conn: &'static Conn,
    forks: u32,
}

impl Mover {
    pub(crate) fn rests(self) {
        if self.forks != forks() {
            return;
        }
        let before = self.conn.users.word.fetch_sub(MOVER, Ordering::SeqCst);
        if before & CLOSED != 0 && movers(before) == 1 {
            self.conn.ends();
        }
    }
}

impl Users {
    /// Sets `flag` if all of this is so, unless somebody else does.
    fn set_if(&self, flag: u64, is_so: impl Fn(u64) -> bool) -> bool {
        self.word
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| is_so(word).then_some(word | flag))
            .is_ok()
    }

    /// The place is nobody's: what is told of the connection that had it is not told of the next.
    pub(super) fn are_none(&self) {
        self.word.fetch_and(!(CLOSED | ENDS | ENDED | LEFT), Ordering::SeqCst);
    }

    /// In the child of a fork nobody is in a call that counts here.
    pub(super) fn forked(&self) {
        self.word.fetch_and(!COUNTED, Ordering::Relaxed);
        self.asking.store(0, Ordering::Relaxed);
        self.drops();
    }

    /// How many are inside: see `stream::park`.
    #[inline(always)]
    pub(super) fn inside(&self) -> u64 {
        self.word.load(Ordering::SeqCst) / INSIDE
    }

    fn drops(&self) {
        if let Some(kept) = self.kept.swap(0, Ordering::SeqCst).checked_sub(1) {
            own::drops(kept as c_int);
        }
    }
}

/// As [`Users::forked`], before it.
pub(super) fn forked() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// The program is about to close or to replace numbers from `first` to `last`: movers no longer use those
/// that are kept for them.
pub(crate) fn takes_away(first: c_int, last: c_int) {
    for conn in super::all() {
        let kept = conn.users.kept.load(Ordering::SeqCst);
        let is_it = kept != 0 && kept != NONE && (first..=last).contains(&(kept as c_int - 1));
        if is_it && conn.users.kept.compare_exchange(kept, NONE, Ordering::SeqCst, Ordering::Relaxed).is_ok()
        {
            own::loses();
            conn.gets_free(true);
        }
    }
}

/// In the place of a number: there is none, and calls end as on a number that is no descriptor.
const NONE: u32 = u32::MAX;

impl Conn {
    /// As it is found by a number of its own.
    pub(in crate::rings) fn known(&'static self) -> Result<Known, Gone> {
        let known = super::known(self.fd()).filter(|known| core::ptr::eq(known.conn, self));
        known.ok_or(Gone)
    }

    /// Makes a system call on its descriptor that does not wait, for a mover that began with the number `fd`.
    #[inline(always)]
    pub(crate) fn asks<T>(&self, fd: c_int, call: impl FnOnce(c_int) -> T) -> T {
        self.users.asking.fetch_add(1, Ordering::SeqCst);
        let result = call(self.number(fd));
        self.users.asking.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// The number to use in the place of `fd`.
    pub(crate) fn number(&self, fd: c_int) -> c_int {
        match self.users.kept.load(Ordering::SeqCst) {
            0 => fd,
            kept => kept as c_int - 1,
        }
    }

    /// Its last number is about to be closed. Calls on it go on until they are through.
    /// With `is_gone` the number is something else already, which nobody may touch.
    pub(super) fn closes(&'static self, fd: c_int, is_gone: bool) {
        self.fd.store(fd as u32, Ordering::Relaxed);
        let users = &self.users;
        let forks = forks();
        users.word.fetch_add(USER + MOVER, Ordering::SeqCst);
        // No mover is added from here on; short calls that come later find the number gone.
        let before = users.word.fetch_or(CLOSED, Ordering::SeqCst);
        let is_moved = movers(before) > 1;
        if is_gone {
            users.kept.store(NONE, Ordering::SeqCst);
        } else if is_moved {
            let kept = own::keeps(fd).map_or(NONE, |kept| kept as u32 + 1);
            users.kept.store(kept, Ordering::SeqCst);
        }
        self.gets_free(is_moved);
        if !is_moved {
            self.ends_if(|word| word & ENDS == 0);
        }
        Mover { conn: self, forks }.rests();
        Use::since(self, forks).leave();
    }

    /// Waits for short calls to be through, and for system calls that use the number.
    fn gets_free(&self, is_moved: bool) {
        /// The longest that a thread that was stopped in such a call is waited for.
        const MOST_MILLISECONDS: u32 = 1000;
        let mut waited = Blocked::new();
        let is_busy = || {
            let is_short = self.headers().is_some_and(|(own, _)| {
                own.write_lock.0.is_held_shortly() || own.read_lock.0.is_held_shortly()
            });
            is_short || is_moved && self.users.asking.load(Ordering::SeqCst) != 0
        };
        while is_busy() && waited.spent_milliseconds() < MOST_MILLISECONDS {
            yields();
        }
    }

    /// The last mover is through.
    #[cold]
    fn ends(&'static self) {
        self.ends_if(|word| word & (CLOSED | ENDS) == CLOSED && movers(word) == 0);
    }

    /// Does what a close does, unless somebody else does. Who does it is a user.
    fn ends_if(&'static self, is_due: impl Fn(u64) -> bool) {
        if self.users.set_if(ENDS, is_due) {
            leave::ends(self, self.number(self.fd()));
            self.users.drops();
            self.users.word.fetch_or(ENDED, Ordering::SeqCst);
        }
    }

    /// A user of a closed connection has left.
    #[cold]
    fn is_left(&'static self) {
        if self.users.set_if(LEFT, |word| word & (ENDED | LEFT) == ENDED && users(word) == 0) {
            super::release(self);
        }
    }
}

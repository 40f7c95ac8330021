//! Returns bytes to the kernel before calls that the library does not see, and before this process sleeps.

mod settle;
mod visits;
mod waited;

use libc::c_int;
use sockets_rules::layout::Reason;
use stream::withdraw::Withdraw;
use stream::write::Occasion;
use stream::{Outcome, Word, consent, path};

use self::settle::is_settled;
pub(crate) use self::settle::{
    is_in_rings, is_left, is_on_its_way_back, owe, owes, settle, settle_or_poll, settle_other_end,
};
pub(crate) use self::visits::visits;
use self::waited::stays_registered;
pub(crate) use self::waited::{waited_for_elsewhere, waiting};
use super::blocked::Blocked;
use super::conn::{self, Conn, Known, state};
use super::copy::Bytes;
use super::header::CAPACITY;
use super::io::is_empty;
use super::run::{Call, IMPATIENT, PATIENT};
use super::{kernel, own};
use crate::raw;
use crate::sync::Ordering;

fn nothing() -> Bytes {
    Bytes::flat(core::ptr::null(), 0)
}

/// Runs a machine that writes nothing new.
pub(super) fn visit(conn: &Conn, fd: c_int, occasion: Occasion) -> Option<Outcome> {
    let bytes = nothing();
    Some(Call::new(conn, fd, &bytes)?.write(occasion, false))
}

/// Readers sleep: what they have not read goes to them through the kernel.
#[cold]
#[inline(never)]
pub(crate) fn overdue(known: Known) {
    // Who has closed it sees to that.
    let _ = known.moving(|conn| visit(conn, conn.fd(), Occasion::Overdue));
}

/// The program is about to read in a way that is not seen: from now on everything comes through the kernel.
pub(crate) fn reading(conn: &Conn, fd: c_int) {
    // What a wait has promised is what is read like that.
    conn.told.promised.store(0, Ordering::Relaxed);
    reading_within(conn, fd, &mut Patience::new());
}

fn reading_within(conn: &Conn, fd: c_int, patience: &mut Patience) {
    let Some((own, peer)) = conn.headers().filter(|_| conn.is(state::READY)) else {
        return give_up(conn);
    };
    if own.word(Word::Consent).load(Ordering::Relaxed) == consent::WITHDRAWN {
        return;
    }
    let outcome = withdraw(conn, fd, Withdraw::new(CAPACITY), patience.left());
    let is_lost = match outcome {
        Some(Outcome::Unreturned | Outcome::Corrupt) => true,
        // Who has shut down hands nothing back any more. What was taken from the ring instead is not lost.
        Some(Outcome::Returning) => {
            kernel::has_ended(fd)
                && path::is_back(peer.writer.0.path.load(Ordering::Acquire))
                && peer.tail() != own.head.0.load(Ordering::Acquire)
        }
        _ => false,
    };
    // After a shutdown of this end's reading half nobody asks for what the other end writes.
    let is_wanted = || kernel::has_ended(fd) || !kernel::has_hung_up(fd);
    if is_lost && is_wanted() {
        broken(conn, fd);
    }
}

fn withdraw(conn: &Conn, fd: c_int, machine: Withdraw, patience: u32) -> Option<Outcome> {
    let bytes = nothing();
    Some(Call::new(conn, fd, &bytes)?.within(patience).withdraw(machine))
}

/// How long all other ends together may take for something that cannot go on before.
struct Patience(Blocked);

impl Patience {
    fn new() -> Self {
        Self(Blocked::new())
    }

    /// Milliseconds: when all are used up, each gets few.
    fn left(&mut self) -> u32 {
        PATIENT.saturating_sub(self.0.spent_milliseconds()).max(IMPATIENT)
    }
}

/// The program is about to write in a way that is not seen: from now on everything goes through the kernel.
pub(crate) fn writing(conn: &Conn, fd: c_int) {
    writing_within(conn, fd, &mut Patience::new());
}

fn writing_within(conn: &Conn, fd: c_int, patience: &mut Patience) {
    if !conn.is(state::READY) {
        return give_up(conn);
    }
    conn.standing.sealed.store(1, Ordering::Relaxed);
    if let Some((own, _)) = conn.headers() {
        // With the lock, which the visit takes, who opens the ring looks with Acquire.
        own.writer.0.sealed.store(1, Ordering::Release);
    }
    let (mut spent, most) = (Blocked::new(), patience.left());
    loop {
        visit(conn, fd, Occasion::Finish);
        if is_settled(conn) {
            return;
        }
        if spent.spent_milliseconds() > most {
            // What is written next would come before what the kernel does not take.
            return broken(conn, fd);
        }
        kernel::polled(fd, libc::POLLOUT, 10);
    }
}

/// Both: nothing of it is left in rings, and nothing will be.
pub(crate) fn all(conn: &Conn, fd: c_int) {
    all_within(conn, fd, &mut Patience::new());
}

fn all_within(conn: &Conn, fd: c_int, patience: &mut Patience) {
    writing_within(conn, fd, patience);
    reading_within(conn, fd, patience);
    conn.over(state::READY, Reason::Unseen);
}

/// Of this number something is about to be read, or written, that is not seen.
pub(crate) fn unseen(fd: c_int, is_read: bool) {
    let leaves = |conn: &Conn| if is_read { reading(conn, fd) } else { writing(conn, fd) };
    match conn::known(fd) {
        Some(known) => drop(known.moving(leaves)),
        // Another thread's use must not give it a ring meanwhile.
        None => crate::table::stays(fd),
    }
}

/// The ends have not met, and shall not.
fn give_up(conn: &Conn) {
    super::pair::leaves(conn, Reason::Unseen);
}

/// The writing half is about to be shut down.
pub(crate) fn shutting_down(conn: &Conn, fd: c_int) {
    if conn.is(state::READY) {
        conn.standing.sealed.store(1, Ordering::Relaxed);
        visit(conn, fd, Occasion::ShutDown);
        gets_through(conn, fd, Occasion::ShutDown, &mut Patience::new());
        says_given(conn, fd);
    }
}

/// Both halves are about to be shut down: what is written from now on the kernel answers with a reset. What
/// was written before can still be read; what stays in the ring, because another process has written it,
/// nobody is asked to give back, as the kernel would refuse it, too.
pub(crate) fn reads_no_more(conn: &Conn, fd: c_int) {
    if !conn.is(state::READY) {
        return;
    }
    settle_other_end(conn);
    if let Some((own, peer)) = conn.headers()
        && is_empty(own, peer)
    {
        withdraw(conn, fd, Withdraw::new(CAPACITY).seen(), 0);
    }
}

/// Before an end, of which some bytes stay in the ring: readers are told how many came before them, because a
/// connection that both ends have closed and one that was reset look the same to them.
///
/// Others who have this end may write more after it: before they do, they take it back.
fn says_given(conn: &Conn, fd: c_int) {
    let Some((own, peer)) = conn.headers() else { return };
    if (!is_empty(peer, own) || is_on_its_way_back(conn))
        && let Some(call) = Call::new(conn, fd, &nothing())
    {
        call.says_given();
    }
}

/// Before an end: readers that look at the ring no more get from the kernel what goes back, others from it.
fn gets_through(conn: &Conn, fd: c_int, occasion: Occasion, patience: &mut Patience) {
    let (mut spent, most) = (Blocked::new(), patience.left());
    let is_withdrawn = || {
        conn.headers()
            .is_some_and(|(_, peer)| peer.reader.0.consent.load(Ordering::Acquire) == consent::WITHDRAWN)
    };
    // With other holders there may be no end behind which readers look into the ring: a moment.
    let is_shared = occasion == Occasion::Finish && conn.standing.shared.load(Ordering::Relaxed) != 0;
    while is_on_its_way_back(conn) && kernel::takes_more(fd) {
        let waits = is_withdrawn() || is_shared && spent.spent_milliseconds() < 500;
        if !waits {
            return;
        }
        if spent.spent_milliseconds() >= most {
            // An end would stand where bytes are missing.
            return broken(conn, fd);
        }
        kernel::polled(fd, libc::POLLOUT, 10);
        visit(conn, fd, occasion);
    }
}

/// A number is about to be closed; of the last one of a connection nothing is kept.
pub(crate) fn closing(fd: c_int) {
    stays_registered(fd);
    super::epoll::forget(fd);
    if !conn::met() {
        return;
    }
    taking_away(fd, fd);
    conn::closing(fd);
}

/// The numbers from `first` to `last` are about to be the program's: this library gives up its own there.
fn taking_away(first: c_int, last: c_int) {
    super::pair::closing(first, last);
    if own::keeps_any() {
        conn::takes_away(first, last);
    }
}

/// A connection is closed, and nobody is going to use its descriptor any more.
pub(super) fn ends(conn: &Conn, fd: c_int) {
    if conn.is(state::READY) && conn.headers().is_some() {
        conn.lets_go();
        finishes(conn, fd, &mut Patience::new());
        resets_if_unread(conn, fd);
        withdraws(conn);
    }
    super::pair::end(conn);
}

/// What this process has written goes back before it lets go, or it is said how much stays in the ring. What
/// another process could not hand back is tried once more.
fn finishes(conn: &Conn, fd: c_int, patience: &mut Patience) {
    if conn.owed.owes.load(Ordering::Relaxed) != 0 && !is_settled(conn) {
        visit(conn, fd, Occasion::Finish);
        gets_through(conn, fd, Occasion::Finish, patience);
    } else if conn.standing.shared.load(Ordering::Relaxed) != 0 && is_on_its_way_back(conn) {
        visit(conn, fd, Occasion::Finish);
    }
    says_given(conn, fd);
}

/// Resets a connection that is closed with unread bytes, as the kernel does for those that it holds.
fn resets_if_unread(conn: &Conn, fd: c_int) {
    let is_unread = conn.headers().is_some_and(|(own, peer)| !is_empty(own, peer));
    if is_unread && conn.standing.shared.load(Ordering::Relaxed) == 0 {
        let at_once = libc::linger { l_onoff: 1, l_linger: 0 };
        let value = (&raw const at_once) as usize;
        let arguments = [
            fd as usize,
            libc::SOL_SOCKET as usize,
            libc::SO_LINGER as usize,
            value,
            size_of::<libc::linger>(),
            0,
        ];
        // SAFETY: the option's own value.
        unsafe { raw::call(libc::SYS_setsockopt, arguments) };
    }
}

/// The process ends, and with it all its descriptors.
pub(crate) fn ending() {
    let mut patience = Patience::new();
    conn::for_each_moving(|conn| {
        let fd = conn.fd();
        conn.lets_go();
        // What others have open, they or the readers see to.
        let is_left = conn.standing.shared.load(Ordering::Relaxed) != 0 && !is_on_its_way_back(conn);
        if is_left {
            // They may never write again, and only this process can take back what it has written.
            if conn.owed.owes.load(Ordering::Relaxed) != 0 && !is_settled(conn) {
                visit(conn, fd, Occasion::Finish);
            }
            says_given(conn, fd);
        } else {
            finishes(conn, fd, &mut patience);
        }
        resets_if_unread(conn, fd);
        withdraws(conn);
    });
}

/// The other end, which looks with Acquire, leaves the ring, and finds out in the kernel what has become of
/// this one. Other processes that have this end go on.
fn withdraws(conn: &Conn) {
    if conn.standing.shared.load(Ordering::Relaxed) == 0
        && let Some((own, _)) = conn.headers()
    {
        own.word(Word::Consent).store(consent::WITHDRAWN, Ordering::Release);
    }
}

/// The same where this process may come back, because another program cannot be executed: its readers stay in
/// the library, and what is unread is asked for before one of them leaves it. The other end looks with
/// Acquire, and leaves the ring. What another thread has withdrawn for good stays withdrawn.
fn withdraws_for_now(conn: &Conn) {
    if conn.standing.shared.load(Ordering::Relaxed) == 0
        && let Some((own, _)) = conn.headers()
    {
        let consent = &own.reader.0.consent;
        let _ = consent.compare_exchange(consent::OPEN, consent::SEEN, Ordering::SeqCst, Ordering::Relaxed);
    }
}

/// As [`closing`], of many.
pub(crate) fn closing_range(first: u32, last: u32) {
    if conn::met() {
        conn::for_each_number(first, last, stays_registered);
    }
    super::epoll::forget_range(first, last);
    if conn::met() {
        conn::for_each_number(first, last, closing);
        taking_away(first as c_int, last.min(c_int::MAX as u32) as c_int);
    }
}

/// The words make no sense, or bytes can't be had: the connection is reset, never continued with a gap.
#[cold]
pub(crate) fn broken(conn: &Conn, fd: c_int) {
    conn.standing.sealed.store(1, Ordering::Relaxed);
    conn.asks(fd, resets);
}

fn resets(fd: c_int) {
    let unspecified = [0_u8; 16];
    // SAFETY: an address of no family, of 16 bytes: it ends a connection.
    let ended =
        unsafe { raw::call(libc::SYS_connect, [fd as usize, unspecified.as_ptr() as usize, 16, 0, 0, 0]) };
    if ended < 0 {
        // Some kernels refuse while another thread waits on it: that one is told of an end.
        // SAFETY: numbers only.
        unsafe { raw::call(libc::SYS_shutdown, [fd as usize, libc::SHUT_RDWR as usize, 0, 0, 0, 0]) };
    }
}

/// Another program will have the descriptors that stay open; with `replaced` it takes this one's place.
pub(crate) fn executing(replaced: bool) {
    super::epoll::all_have_others();
    let mut patience = Patience::new();
    conn::for_each_moving(|conn| {
        let fd = conn.fd();
        // SAFETY: takes no pointer.
        let flags = unsafe { raw::call(libc::SYS_fcntl, [fd as usize, libc::F_GETFD as usize, 0, 0, 0, 0]) };
        if flags >= 0 && flags as c_int & libc::FD_CLOEXEC == 0 {
            all_within(conn, fd, &mut patience);
        } else if replaced {
            finishes(conn, fd, &mut patience);
            withdraws_for_now(conn);
        }
    });
    super::pair::shared();
}

/// Of this number something is about to be done that is not seen.
pub(crate) fn number(fd: c_int) {
    match conn::known(fd) {
        Some(known) => drop(known.moving(|conn| all(conn, fd))),
        None => crate::table::stays(fd),
    }
}

/// Of any number something may be done that is not seen.
pub(crate) fn everything() {
    those_there_are();
    super::pair::stop();
}

/// All connections that have rings, or may get them, stay with the kernel.
pub(crate) fn those_there_are() {
    let mut patience = Patience::new();
    conn::for_each_moving(|conn| all_within(conn, conn.fd(), &mut patience));
    super::epoll::everything();
    super::pair::shared();
}

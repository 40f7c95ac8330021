//! The events that interposers report; each function may be called at any time by any thread, signal
//! handler or child.

mod messages;

use libc::{c_int, sockaddr, socklen_t};
use sockets_rules::layout::Note;

use crate::interposer::{get_errno, set_errno};
use crate::table::{self, Kind};
use crate::{page, raw, rings, state};
pub(crate) use messages::{passing, received};

/// A call that took bytes from a descriptor came back.
pub(crate) fn input(fd: c_int, got: isize) {
    moved(fd, got, page::Direction::In);
}

/// A call that gave bytes to a descriptor came back.
pub(crate) fn output(fd: c_int, sent: isize) {
    moved(fd, sent, page::Direction::Out);
}

#[inline]
fn moved(fd: c_int, bytes: isize, direction: page::Direction) {
    // The end of a stream is nothing that was moved.
    if bytes <= 0 {
        return;
    }
    if state::outside() {
        return table::used_outside(fd, direction, bytes as u64);
    }
    if table::brief(fd) != table::NO_CONNECTION {
        table::used(fd, direction, bytes as u64);
    }
}

/// Whether a call with these flags takes what it gets from the stream: not what it only looks at, nor what is
/// beside the stream.
#[inline(always)]
pub(crate) fn takes(flags: c_int) -> bool {
    flags & (libc::MSG_PEEK | libc::MSG_ERRQUEUE) == 0
}

/// Whether this is known to be a connection of TCP.
pub(crate) fn is_connection(fd: c_int) -> bool {
    !state::outside() && table::kind(fd) == Kind::Tcp
}

/// Whether it is known what the program has under this number.
pub(crate) fn is_somebodys(fd: c_int) -> bool {
    !state::outside() && table::kind(fd) != Kind::Unknown
}

/// Whether it may be one: of a child that borrows this memory nothing is known.
pub(crate) fn may_be_connection(fd: c_int) -> bool {
    state::outside() || table::brief(fd) != table::NO_CONNECTION
}

/// A call made a descriptor, or failed. Hands its result on.
#[unsafe(link_section = ".text.near")]
pub(crate) fn made(fd: c_int, kind: Kind) -> c_int {
    if fd >= 0 && !state::outside() {
        is_new(fd);
        table::made(fd, kind);
    }
    fd
}

/// A call made an epoll, or failed. Hands its result on.
pub(crate) fn made_epoll(fd: c_int) -> c_int {
    made(fd, Kind::Other);
    if fd >= 0 && crate::environment::has_rings() && !state::outside() {
        rings::epoll::made(fd);
    }
    fd
}

/// What the number was, if anything is known of that, was closed unseen.
fn is_new(fd: c_int) {
    rings::conn::was_closed(fd);
    rings::epoll::is_new(fd);
}

/// A call accepted a connection, or failed. Hands its result on.
#[unsafe(link_section = ".text.near")]
pub(crate) fn accepted(listener: c_int, fd: c_int) -> c_int {
    if fd < 0 {
        found_nothing();
    } else if !state::outside() {
        let mut kind = table::kind(listener);
        if kind == Kind::Unknown {
            // One that another program has made, which has executed this one.
            table::look_again(listener);
            kind = table::kind(listener);
        }
        let kind = match kind {
            Kind::Listener | Kind::Tcp => Kind::Tcp,
            _ => Kind::Unknown,
        };
        is_new(fd);
        table::made(fd, kind);
        if rings::forced::is_on() {
            rings::forced::begins(fd);
        }
    }
    fd
}

/// A socket is about to be connected. One that is loses its other end by an address without a family
/// (connect(2)); any other address changes nothing, and the kernel is to refuse it for the connection that it
/// knows.
#[unsafe(link_section = ".text.near")]
pub(crate) fn connecting(fd: c_int, address: *const sockaddr, length: socklen_t) {
    if rings::conn::of(fd).is_some() && is_without_family(address, length) {
        unusual(fd);
    }
}

fn is_without_family(address: *const sockaddr, length: socklen_t) -> bool {
    const FAMILY: usize = size_of::<libc::sa_family_t>();
    (length as usize) >= FAMILY
        && rings::reach::is_readable(address.cast(), FAMILY)
        // SAFETY: it can be read, and the family is the first of every address.
        && i32::from(unsafe { address.cast::<libc::sa_family_t>().read_unaligned() }) == libc::AF_UNSPEC
}

/// A call has connected a socket, or failed. Hands its result on.
#[unsafe(link_section = ".text.near")]
pub(crate) fn connected(fd: c_int, result: c_int) -> c_int {
    if result == 0 && rings::forced::is_on() && !state::outside() {
        rings::forced::begins(fd);
    }
    result
}

/// A call made another number for a descriptor, or failed. Hands its result on.
pub(crate) fn copied(from: c_int, to: c_int) -> c_int {
    if to >= 0 && !state::outside() {
        if from != to {
            is_new(to);
        }
        has_others(from);
        table::copied(from, to);
        page::note(Note::Copied);
    } else if to >= 0 {
        rings::conn::copied_outside(from);
    }
    to
}

/// This process executes something else, if all goes well.
pub(crate) fn leaving() {
    if !state::outside() {
        rings::leave::executing(true);
        page::leaving(true);
    }
}

/// It has executed nothing.
pub(crate) fn stayed() {
    if !state::outside() {
        page::leaving(false);
    }
}

/// This process ends.
pub(crate) fn ending() {
    if !state::outside() && page::ends() {
        rings::leave::ending();
    }
}

/// The program is about to lock or to limit its memory: what it would miss is given back.
pub(crate) fn needs_room() {
    if !state::outside() {
        page::give_room();
    }
}

/// A descriptor is about to be closed or replaced. Before the call: as soon as it is done, another thread may
/// get the number.
pub(crate) fn closing(fd: c_int) {
    if !state::outside() {
        rings::leave::closing(fd);
        table::forget(fd);
    }
}

/// As [`closing`], if the number is known at a glance as that of a connection that has no place among those
/// that may have rings; whether it is. (One that gets a place meanwhile finds that the number is not its own
/// any more: see [`rings::conn::claim`].)
#[inline(always)]
pub(crate) fn closes_counted(fd: c_int) -> bool {
    let is_counted = table::is_counted(fd);
    if is_counted {
        rings::epoll::forget(fd);
        table::forget(fd);
    }
    is_counted
}

/// `to` is about to become another number for `from`.
pub(crate) fn replacing(from: c_int, to: c_int) {
    // Of one that is not open nothing becomes of the other.
    if rings::conn::of(to).is_none() || state::outside() || rings::io::is_open(from) {
        closing(to);
    }
}

/// Descriptors from `first` to `last` are about to be closed.
pub(crate) fn closing_range(first: u32, last: u32) {
    if !state::outside() {
        rings::leave::closing_range(first, last);
        table::forget_range(first, last);
        page::note(Note::ClosedInBulk);
    }
}

/// A socket has begun to listen.
pub(crate) fn listens(fd: c_int) {
    if !state::outside() {
        table::listens(fd);
    }
}

/// Something that a faster way will have to know of.
pub(crate) fn note(what: Note) {
    if !state::outside() {
        page::note(what);
    }
}

/// Something that may have closed or replaced descriptors where no interposer is.
pub(crate) fn doubtful(what: Note) {
    if !state::outside() {
        table::doubt();
        page::note(what);
    }
}

/// The program is about to be copied or to lend its memory, as these flags of `clone` say.
pub(crate) fn cloning(flags: u64) {
    let has = |flag: c_int| flags & flag as u64 != 0;
    if has(libc::CLONE_THREAD) {
        return;
    }
    // Before the memory is lent: a later interposer of this thread would be taken for the return from the
    // call.
    note(Note::Forked);
    forking();
    if !has(libc::CLONE_VM) && !state::outside() {
        // As a fork. Before the call: an interposer that comes back from it would not know in which of the
        // two it does.
        rings::pair::shared();
        state::shares_descriptors();
        if has(libc::CLONE_FILES) {
            // What one of them closes the other one has no more.
            stops();
        }
    }
    if has(libc::CLONE_VM) {
        if has(libc::CLONE_VFORK) && !has(libc::CLONE_FILES) {
            if !state::outside() {
                // It executes another program, which gets the connections that are not closed then.
                rings::leave::executing(false);
                // The child may keep those that would be closed, under another number; and this thread sleeps
                // until it has gone.
                rings::leave::settle();
                state::shares_descriptors();
            }
            state::lends_memory();
        } else {
            state::shares_memory();
        }
    }
}

/// Forks. Hands the result on.
pub(crate) fn forks(fork: impl FnOnce() -> libc::pid_t) -> libc::pid_t {
    forking();
    forked(fork())
}

/// A fork is about to be made.
pub(crate) fn forking() {
    if !state::outside() {
        rings::epoll::all_have_others();
        rings::conn::forking();
    }
}

/// A fork has come back. Hands its result on.
pub(crate) fn forked(result: libc::pid_t) -> libc::pid_t {
    if result == 0 {
        state::forked();
    } else if result > 0 {
        // Whose ends have not met yet, they both would look.
        rings::pair::has_forked();
        state::shares_descriptors();
    }
    note(Note::Forked);
    result
}

/// Of this descriptor something is done that goes past rings: it stays with the kernel from here on.
pub(crate) fn unusual(fd: c_int) {
    if !state::outside() {
        rings::leave::number(fd);
    }
}

/// Whether the other end of a connection has ended and left bytes in the ring: nobody returns them to the
/// kernel any more.
pub(crate) fn is_left(fd: c_int) -> bool {
    !state::outside() && rings::leave::is_left(fd)
}

/// Whether it is a connection that has a ring, of which the kernel may be asked.
pub(crate) fn has_ring(fd: c_int) -> bool {
    rings::conn::ready(fd).is_some() && !state::outside() && state::may_ask()
}

/// The error that is pending at a socket, which no other call gets any more.
pub(crate) fn takes_error(fd: c_int) -> Option<c_int> {
    let error = raw::socket_option::<c_int>(fd, libc::SO_ERROR).ok().filter(|&error| error != 0)?;
    told(fd);
    Some(error)
}

/// A descriptor has another number, or another process, by which what is done is not seen.
fn has_others(fd: c_int) {
    unusual(fd);
    // What it is may be forgotten.
    if crate::environment::has_rings() && matches!(table::kind(fd), Kind::Other | Kind::Unknown) {
        rings::epoll::copied(fd);
    }
}

/// Makes a call of `epoll_ctl`, unless what it changes has only to be noted.
///
/// # Safety
/// `next` must be that call, with these arguments.
#[inline]
pub(crate) unsafe fn registers(
    epoll: c_int,
    what: c_int,
    fd: c_int,
    event: *const libc::epoll_event,
    next: impl FnOnce() -> c_int,
) -> c_int {
    if !crate::environment::has_rings() || state::outside() {
        return next();
    }
    // SAFETY: the caller's promise.
    unsafe { rings::epoll::controls(epoll, what, fd, event, next) }
}

/// The program has asked for an error of this descriptor: there may have been one, which nobody is told
/// again.
pub(crate) fn told(fd: c_int) {
    if !state::outside()
        && let Some(conn) = rings::conn::ready(fd)
        && rings::io::is_hung_up(fd)
    {
        conn.told.reset.store(1, crate::sync::Ordering::Relaxed);
    }
}

/// The kernel is about to hold back what is written from here on, or has begun to.
pub(crate) fn corks(fd: c_int) {
    if !state::outside()
        && let Some(known) = rings::conn::known(fd)
    {
        // Of one that is closed meanwhile nothing is held back.
        let _ = known.moving(|conn| rings::io::is_held_back(conn, fd));
    }
}

/// The kernel's buffer of a connection has another size.
pub(crate) fn measured(fd: c_int) {
    if !state::outside()
        && let Some(conn) = rings::conn::ready(fd)
    {
        rings::pair::measure(conn, fd);
    }
}

/// The C library is about to move bytes of this descriptor in a thread of its own; none if nobody knows of
/// which.
pub(crate) fn moves_unseen(fd: Option<c_int>) {
    note(Note::Moved);
    match fd {
        Some(fd) => unusual(fd),
        None => stops(),
    }
}

/// From now on everything stays with the kernel.
pub(crate) fn stops() {
    if !state::outside() {
        rings::leave::everything();
    }
}

/// The user or what it may is about to change: who it was had the rings. Connections that it makes from then
/// on are another's.
pub(crate) fn confining() {
    note(Note::Confined);
    if !state::outside() {
        rings::leave::those_there_are();
    }
}

/// A program is about to be executed in a child.
pub(crate) fn starting() {
    if !state::outside() {
        rings::leave::executing(false);
        state::shares_descriptors();
    }
}

/// One or both halves of a connection are about to be shut down.
pub(crate) fn shutting_down(fd: c_int, how: c_int) {
    if !state::outside()
        && let Some(known) = rings::conn::known(fd)
    {
        // What is in the ring can still be read, as what the kernel holds. Of one that is closed meanwhile
        // nothing is shut down.
        let _ = known.moving(|conn| {
            if how != libc::SHUT_RD {
                rings::leave::shutting_down(conn, fd);
            }
            // Both halves, at once or one after the other.
            if how == libc::SHUT_RDWR || conn.is_other_half_shut(fd, how) {
                rings::leave::reads_no_more(conn, fd);
            }
            // The kernel tells of an edge then, with all that is so.
            conn.told.edge.store(u64::MAX, crate::sync::Ordering::Relaxed);
        });
    }
}

/// An `ioctl` has answered.
///
/// # Safety
/// If it was [`libc::FIONREAD`] and succeeded, the argument is a number.
pub(crate) unsafe fn asked(fd: c_int, request: libc::c_ulong, argument: *mut c_int, result: c_int) {
    if request != libc::FIONREAD as libc::c_ulong || result != 0 || state::outside() {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { *argument = rings::io::unread(fd, *argument) };
    // Perhaps one of many. Behind the look at the ring: what this process returns, its own other end would
    // have in neither count.
    rings::leave::visits();
}

/// A call that has not waited has found nothing: perhaps one of many.
pub(crate) fn found_nothing() {
    if !state::outside() {
        rings::leave::visits();
    }
}

/// This process is about to sleep until a child ends, or only asks whether one has (`is_short`): nobody else
/// returns what it has written. (What a parent does first after a `vfork`, when nothing else: it is back in
/// its memory.)
pub(crate) fn waits_for_child(is_short: bool) {
    if is_short {
        found_nothing();
    } else if !state::outside() {
        settles();
    }
}

/// This process may be about to sleep in a call that is not seen as a wait.
pub(crate) fn settles() {
    let errno = get_errno();
    rings::leave::settle();
    set_errno(errno);
}

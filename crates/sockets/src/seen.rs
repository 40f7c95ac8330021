//! What hooks tell. Each function here may be called at any time by any thread, signal handler or child.

use libc::c_int;
use sockets_rules::layout::Note;

use crate::table::{self, Kind};
use crate::{page, state};

/// A call that took bytes from a descriptor came back.
pub(crate) fn input(fd: c_int, got: isize) {
    moved(fd, got, page::Way::In);
}

/// A call that gave bytes to a descriptor came back.
pub(crate) fn output(fd: c_int, sent: isize) {
    moved(fd, sent, page::Way::Out);
}

#[inline]
fn moved(fd: c_int, bytes: isize, way: page::Way) {
    // The end of a stream is nothing that was moved.
    if bytes > 0 && !state::outside() && table::brief(fd) == 0 {
        table::used(fd, way, bytes as u64);
    }
}

/// Whether this is known to be a connection of TCP.
pub(crate) fn is_connection(fd: c_int) -> bool {
    !state::outside() && table::kind(fd) == Kind::Tcp
}

/// A call made a descriptor, or failed. Hands its result on.
pub(crate) fn made(fd: c_int, kind: Kind) -> c_int {
    if fd >= 0 && !state::outside() {
        table::made(fd, kind);
    }
    fd
}

/// A call accepted a connection, or failed. Hands its result on.
pub(crate) fn accepted(listener: c_int, fd: c_int) -> c_int {
    if fd >= 0 && !state::outside() {
        let kind = match table::kind(listener) {
            Kind::Listener | Kind::Tcp => Kind::Tcp,
            _ => Kind::Unknown,
        };
        table::made(fd, kind);
    }
    fd
}

/// A call made another number for a descriptor, or failed. Hands its result on.
pub(crate) fn copied(from: c_int, to: c_int) -> c_int {
    if to >= 0 && !state::outside() {
        table::copied(from, to);
        page::note(Note::Copied);
    }
    to
}

/// This process executes something else, if all goes well, or ends.
pub(crate) fn leaving() {
    if !state::outside() {
        table::keep_bytes();
    }
}

/// A descriptor is about to be closed or replaced. Before the call: as soon as it is done, another thread may get the number.
pub(crate) fn closing(fd: c_int) {
    if !state::outside() {
        table::forget(fd);
    }
}

/// Descriptors from `first` to `last` are about to be closed.
pub(crate) fn closing_range(first: u32, last: u32) {
    if !state::outside() {
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

/// Something that may have closed or replaced descriptors where no hook is.
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
    // Before the memory is lent: a later hook of this thread would be taken for the return from the call.
    note(Note::Forked);
    if has(libc::CLONE_VM) {
        if has(libc::CLONE_VFORK) && !has(libc::CLONE_FILES) {
            state::lends_memory();
        } else {
            state::shares_memory();
        }
    }
}

/// This thread runs: a child that had its memory no longer does.
pub(crate) fn returned() {
    state::outside();
}

/// A fork has come back. Hands its result on.
pub(crate) fn forked(result: libc::pid_t) -> libc::pid_t {
    if result == 0 {
        state::forked();
    }
    note(Note::Forked);
    result
}

/// A message was received: what descriptors came with it.
///
/// # Safety
/// The message must be one that the kernel has just filled in.
pub(crate) unsafe fn received(message: *const libc::msghdr) {
    // SAFETY: the caller's promise.
    if !state::outside() && unsafe { for_each_passed(message, table::forget) } {
        page::note(Note::Received);
    }
}

/// Calls `each` with the descriptors in a message; says whether there were any.
///
/// # Safety
/// The message's control data must be readable, to the length that it says.
unsafe fn for_each_passed(message: *const libc::msghdr, each: impl Fn(c_int)) -> bool {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    // SAFETY: the caller's promise.
    let (control, length) = unsafe { ((*message).msg_control.cast::<u8>(), (*message).msg_controllen) };
    if control.is_null() {
        return false;
    }
    let (mut at, mut any) = (0_usize, false);
    while at.saturating_add(HEADER) <= length {
        // SAFETY: the header lies within the control data; it need not be aligned.
        let header = unsafe { control.add(at).cast::<libc::cmsghdr>().read_unaligned() };
        let Some(end) = at.checked_add(header.cmsg_len) else { break };
        if header.cmsg_len < HEADER || end > length {
            break;
        }
        if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_RIGHTS {
            let mut place = at + HEADER;
            while place + size_of::<c_int>() <= end {
                // SAFETY: within this header's data.
                each(unsafe { control.add(place).cast::<c_int>().read_unaligned() });
                any = true;
                place += size_of::<c_int>();
            }
        }
        let Some(next) = end.checked_next_multiple_of(align_of::<usize>()) else { break };
        at = next;
    }
    any
}

//! Interposers of calls by which the kernel, or the C library's threads, move bytes between descriptors by
//! themselves.

use libc::{c_int, c_uint, c_void, iovec, loff_t, off_t, size_t, ssize_t};
use sockets_rules::layout::Note;

use super::data::ring;
use crate::interposer::interposers;
use crate::rings::flight::Flight;
use crate::rings::{self, Native};
use crate::{raw, seen, state};

/// The kernel is about to move bytes from one to the other by itself.
fn moving(from: c_int, to: c_int) {
    if !state::outside() {
        if rings::conn::known(from).is_some() {
            // It may sleep until the connection has bytes, as in a read.
            seen::settles();
        }
        rings::leave::unseen(from, true);
        rings::leave::unseen(to, false);
    }
}

/// Hands on what the kernel moved from one to the other.
pub(crate) fn moved(from: c_int, to: c_int, result: ssize_t) -> ssize_t {
    // The kernel tells of a reset once, and this call may have been told.
    if result < 0 {
        for fd in [from, to] {
            rings::conn::told(fd, result);
        }
        seen::found_nothing();
    }
    seen::input(from, result);
    seen::output(to, result);
    seen::note(Note::Moved);
    result
}

/// Bytes of a file go to a connection: into its ring, or as the kernel does it.
fn sent_file(
    to: c_int,
    from: c_int,
    at: *mut off_t,
    length: size_t,
    mut next: impl FnMut() -> ssize_t,
) -> ssize_t {
    let known = match ring(to).map_or_else(|| Flight::begin(to), Err) {
        Ok(flight) => {
            let sent = next();
            flight.land();
            return moved(from, to, sent);
        }
        Err(known) => known,
    };
    let mut native = || known.gives(&mut next);
    let sent = rings::io::send_file(known, to, from, at, length, &mut Native::of(&mut native));
    sent.unwrap_or_else(|| {
        moving(from, to);
        moved(from, to, next())
    })
}

interposers! {
    fn sendfile(to: c_int, from: c_int, at: *mut off_t, length: size_t) -> ssize_t, as libc::SYS_sendfile;
        |next| sent_file(to, from, at, length, || next(to, from, at, length))
    fn sendfile64(to: c_int, from: c_int, at: *mut off_t, length: size_t) -> ssize_t, as libc::SYS_sendfile;
        |next| sent_file(to, from, at, length, || next(to, from, at, length))
    fn splice(from: c_int, at: *mut loff_t, to: c_int, its: *mut loff_t, length: size_t, flags: c_uint) -> ssize_t, as libc::SYS_splice;
        |next| {
            moving(from, to);
            moved(from, to, next(from, at, to, its, length, flags))
        }
    fn vmsplice(fd: c_int, vector: *const iovec, count: size_t, flags: c_uint) -> ssize_t, as libc::SYS_vmsplice;
        |next| {
            moving(fd, fd);
            next(fd, vector, count, flags)
        }
    fn tee(from: c_int, to: c_int, length: size_t, flags: c_uint) -> ssize_t, as libc::SYS_tee;
        |next| next(from, to, length, flags)
}

/// Of a descriptor that a control block names, the C library's own threads read or write: it stays with the
/// kernel. `aio_fildes` stands at the block's beginning in each C library.
fn is_moved_unseen(block: *const c_void) {
    let mut fd = [0 as c_int];
    // An address, which need not be one; and some kernels do not say what is there.
    seen::moves_unseen(raw::peek_at(block as usize, &mut fd).then_some(fd[0]));
}

/// The same of a list of blocks, some of which may be missing.
fn are_moved_unseen(list: *const c_void, count: c_int) {
    for at in 0..count.max(0) as usize {
        let mut block = [0_u64];
        if !raw::peek_at((list as usize).wrapping_add(at * size_of::<u64>()), &mut block) {
            return seen::moves_unseen(None);
        }
        // The C library passes over places without a block.
        if block[0] != 0 {
            is_moved_unseen(block[0] as usize as *const c_void);
        }
    }
}

/// Input and output that the C library's own threads do.
macro_rules! asynchronous {
    ($($name:ident)*) => { interposers! {$(
        fn $name(block: *mut c_void) -> c_int, else -1; |next| {
            is_moved_unseen(block);
            next(block)
        }
    )*} };
}

asynchronous! { aio_read aio_read64 aio_write aio_write64 }

interposers! {
    fn lio_listio(mode: c_int, list: *mut c_void, count: c_int, event: *mut c_void) -> c_int, else -1; |next| {
        are_moved_unseen(list, count);
        next(mode, list, count, event)
    }
    fn lio_listio64(mode: c_int, list: *mut c_void, count: c_int, event: *mut c_void) -> c_int, else -1; |next| {
        are_moved_unseen(list, count);
        next(mode, list, count, event)
    }
}

//! Interposers of calls that close or replace descriptors. The library forgets what a number was before
//! the number can be reused.

use libc::{c_int, c_uint, c_ulong, c_void};
use sockets_rules::layout::Note;

use crate::interposer::{interposers, system};
use crate::rings::closing::{closes, closes_range};
use crate::rings::own::changing;
use crate::{cancel, seen, state};

interposers! {
    fn close(fd: c_int) -> c_int, as libc::SYS_close, near 0; |next| close_by(fd, next)
    fn __close(fd: c_int) -> c_int, as libc::SYS_close; |next| close_by(fd, next)
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int, as libc::SYS_close_range; |next| {
        closes_range(first, last, || closing_range(first, last, flags));
        changing(|| next(first, last, flags))
    }
    fn closefrom(first: c_int) -> (), else closed_from(first); |next| {
        let first_number = first.max(0) as c_uint;
        closes_range(first_number, c_uint::MAX, || seen::closing_range(first_number, c_uint::MAX));
        changing(|| next(first));
    }

    fn dup(fd: c_int) -> c_int, as libc::SYS_dup;
        |next| seen::copied(fd, next(fd))
    fn dup2(fd: c_int, to: c_int) -> c_int, as libc::SYS_dup2; |next| {
        if fd == to {
            // Nothing becomes another.
            return next(fd, to);
        }
        seen::copied(fd, replaces(fd, to, || next(fd, to)))
    }
    fn __dup2(fd: c_int, to: c_int) -> c_int, as libc::SYS_dup2; |next| {
        if fd == to {
            // Nothing becomes another.
            return next(fd, to);
        }
        seen::copied(fd, replaces(fd, to, || next(fd, to)))
    }
    fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int, as libc::SYS_dup3; |next| {
        if !are_flags_of_dup3(flags) {
            // It replaces nothing.
            return next(fd, to, flags);
        }
        seen::copied(fd, replaces(fd, to, || next(fd, to, flags)))
    }

    // The argument is there only with some commands, and then it is a number or a pointer: a register in any
    // case.
    fn fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int, as libc::SYS_fcntl;
        |next| {
            controlling(fd, command, argument);
            controlled(fd, command, next(fd, command, argument))
        }
    fn fcntl64(fd: c_int, command: c_int, argument: *mut c_void) -> c_int, as libc::SYS_fcntl;
        |next| {
            controlling(fd, command, argument);
            controlled(fd, command, next(fd, command, argument))
        }
    fn __fcntl(fd: c_int, command: c_int, argument: *mut c_void) -> c_int, as libc::SYS_fcntl;
        |next| {
            controlling(fd, command, argument);
            controlled(fd, command, next(fd, command, argument))
        }
    fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int, as libc::SYS_ioctl;
        |next| {
            if request == libc::FIOASYNC as c_ulong {
                // Signals come with what the kernel gets.
                seen::unusual(fd);
            }
            let result = next(fd, request, argument);
            // SAFETY: the kernel has just written the number that this request asks for.
            unsafe { seen::asked(fd, request, argument.cast(), result) };
            result
        }
}

/// Closes a number, by the C library's function.
fn close_by(fd: c_int, next: impl FnOnce(c_int) -> c_int) -> c_int {
    if seen::closes_counted(fd) {
        return next(fd);
    }
    // A thread that is cancelled closes nothing.
    cancel::point();
    closes(fd, || {
        let is_somebodys = seen::is_somebodys(fd);
        seen::closing(fd);
        if is_somebodys { next(fd) } else { changing(|| next(fd)) }
    })
}

/// Makes `to` another number for `fd`.
fn replaces(fd: c_int, to: c_int, next: impl FnOnce() -> c_int) -> c_int {
    closes(to, || {
        replacing(fd, to);
        changing(next)
    })
}

/// As `closefrom`, where the C library has none: a program that looks for it finds it here.
fn closed_from(first: c_int) {
    // SAFETY: the program asked for just that.
    unsafe { system(libc::SYS_close_range, &[first.max(0) as usize, c_uint::MAX as usize, 0]) };
}

/// Whether `dup3` takes these flags.
pub(crate) fn are_flags_of_dup3(flags: c_int) -> bool {
    flags & !libc::O_CLOEXEC == 0
}

/// Forgets what `to` was, unless the call changes nothing.
pub(crate) fn replacing(fd: c_int, to: c_int) {
    if fd != to {
        seen::replacing(fd, to);
    }
}

/// What `close_range` is about to do, by its flags.
pub(crate) fn closing_range(first: c_uint, last: c_uint, flags: c_int) {
    const UNSHARE: c_int = 2;
    const CLOEXEC: c_int = 4;
    if flags & UNSHARE != 0 {
        state::shares_memory();
    }
    if flags & CLOEXEC == 0 {
        seen::closing_range(first, last);
    }
}

/// What `fcntl` is about to do.
pub(crate) fn controlling(fd: c_int, command: c_int, argument: *mut c_void) {
    match command {
        // Signals come with what the kernel gets.
        libc::F_SETFL if argument as usize as c_int & libc::O_ASYNC != 0 => seen::unusual(fd),
        _ => {}
    }
}

/// What `fcntl` has done. Hands its result on.
pub(crate) fn controlled(fd: c_int, command: c_int, result: c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => seen::copied(fd, result),
        _ => result,
    }
}

interposers! {
    fn fclose(stream: *mut c_void) -> c_int, else -1; |next| super::stream::closes(stream, || next(stream))
    fn shutdown(fd: c_int, how: c_int) -> c_int, as libc::SYS_shutdown; |next| {
        seen::shutting_down(fd, how);
        next(fd, how)
    }
    fn unshare(flags: c_int) -> c_int, as libc::SYS_unshare; |next| {
        if flags & libc::CLONE_FILES != 0 {
            state::shares_memory();
        }
        next(flags)
    }
    fn daemon(stay: c_int, keep: c_int) -> c_int, else -1; |next| {
        // The C library forks and puts the null device on 0 to 2 by itself.
        seen::forking();
        let result = next(stay, keep);
        if result == 0 {
            state::forked();
            seen::doubtful(Note::Forked);
        }
        result
    }
}

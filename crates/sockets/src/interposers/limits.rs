//! Interposers of calls that change the program's user, root directory, limits or privileges.

use libc::{c_char, c_int, c_uint, c_ulong, c_void, gid_t, pid_t, size_t, uid_t};
use sockets_rules::layout::Note;

use crate::interposer::interposers;
use crate::{seen, state};

/// Interposers that note it and hand on.
macro_rules! noted {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, $how:ident $what:expr;)*) => { interposers! {$(
        fn $name($($arg: $ty),*) -> $ret, $how $what; |next| {
            seen::confining();
            next($($arg),*)
        }
    )*} };
}

noted! {
    fn setuid(id: uid_t) -> c_int, as libc::SYS_setuid;
    fn seteuid(id: uid_t) -> c_int, else -1;
    fn setreuid(real: uid_t, effective: uid_t) -> c_int, as libc::SYS_setreuid;
    fn setresuid(real: uid_t, effective: uid_t, saved: uid_t) -> c_int, as libc::SYS_setresuid;
    fn setfsuid(id: uid_t) -> c_int, as libc::SYS_setfsuid;
    fn setgid(id: gid_t) -> c_int, as libc::SYS_setgid;
    fn setegid(id: gid_t) -> c_int, else -1;
    fn setregid(real: gid_t, effective: gid_t) -> c_int, as libc::SYS_setregid;
    fn setresgid(real: gid_t, effective: gid_t, saved: gid_t) -> c_int, as libc::SYS_setresgid;
    fn setfsgid(id: gid_t) -> c_int, as libc::SYS_setfsgid;
    fn setgroups(count: size_t, groups: *const gid_t) -> c_int, as libc::SYS_setgroups;
    fn initgroups(user: *const c_char, group: gid_t) -> c_int, else -1;
    fn chroot(path: *const c_char) -> c_int, as libc::SYS_chroot;
}

interposers! {
    fn prctl(what: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int, as libc::SYS_prctl; |next| {
        if filters(what) {
            filtering();
        }
        next(what, a, b, c, d)
    }
    fn mlockall(flags: c_int) -> c_int, as libc::SYS_mlockall; |next| {
        seen::needs_room();
        next(flags)
    }
    fn setrlimit(what: c_uint, limit: *const c_void) -> c_int, as libc::SYS_setrlimit; |next| {
        limiting(what, limit);
        next(what, limit)
    }
    fn setrlimit64(what: c_uint, limit: *const c_void) -> c_int, as libc::SYS_setrlimit; |next| {
        limiting(what, limit);
        next(what, limit)
    }
    fn prlimit(pid: pid_t, what: c_uint, new: *const c_void, old: *mut c_void) -> c_int, as libc::SYS_prlimit64; |next| {
        limiting(what, new);
        next(pid, what, new, old)
    }
    fn prlimit64(pid: pid_t, what: c_uint, new: *const c_void, old: *mut c_void) -> c_int, as libc::SYS_prlimit64; |next| {
        limiting(what, new);
        next(pid, what, new, old)
    }
}

/// Whether this is a `prctl` after which calls may be judged: a filter, or somebody of the program's own who
/// gets them all.
pub(crate) fn filters(what: c_int) -> bool {
    const SET_SYSCALL_USER_DISPATCH: c_int = 59;
    what == libc::PR_SET_SECCOMP || what == SET_SYSCALL_USER_DISPATCH
}

/// A limit is asked for or, with a new value, changed.
pub(crate) fn limiting(what: c_uint, new: *const c_void) {
    if !new.is_null() {
        seen::note(Note::Confined);
        if what == libc::RLIMIT_AS {
            seen::needs_room();
        }
    }
}

/// From now on the kernel may end the program for a call that it does not make itself.
pub(crate) fn filtering() {
    seen::note(Note::Filtered);
    seen::stops();
    state::filtered();
}

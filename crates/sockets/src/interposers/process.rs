//! Interposers of calls that make processes and execute programs.

use libc::{c_char, c_int, c_void, pid_t};
use sockets_rules::layout::Note;

use crate::interposer::interposers;
use crate::{cancel, seen};

interposers! {
    fn fork() -> pid_t, as libc::SYS_fork; |next| seen::forks(next)
    fn __fork() -> pid_t, as libc::SYS_fork; |next| seen::forks(next)
    fn _Fork() -> pid_t, as libc::SYS_fork; |next| seen::forks(next)
    fn forkpty(fd: *mut c_int, name: *mut c_char, terminal: *const c_void, size: *const c_void) -> pid_t, else -1; |next| {
        let result = seen::forks(|| next(fd, name, terminal, size));
        // In the child it has put the terminal on 0 to 2; in the parent it has made a descriptor.
        seen::doubtful(Note::Forked);
        result
    }
}

interposers! {
    fn wait(status: *mut c_int) -> pid_t, else -1; |next| {
        seen::waits_for_child(false);
        next(status)
    }
    fn waitpid(child: pid_t, status: *mut c_int, options: c_int) -> pid_t, else -1; |next| {
        seen::waits_for_child(options & libc::WNOHANG != 0);
        next(child, status, options)
    }
    fn wait3(status: *mut c_int, options: c_int, used: *mut c_void) -> pid_t, else -1; |next| {
        seen::waits_for_child(options & libc::WNOHANG != 0);
        next(status, options, used)
    }
    fn wait4(child: pid_t, status: *mut c_int, options: c_int, used: *mut c_void) -> pid_t, as libc::SYS_wait4; |next| {
        seen::waits_for_child(options & libc::WNOHANG != 0);
        next(child, status, options, used)
    }
    fn waitid(kind: c_int, id: libc::id_t, found: *mut c_void, options: c_int) -> c_int, else -1; |next| {
        seen::waits_for_child(options & libc::WNOHANG != 0);
        next(kind, id, found, options)
    }
}

/// Interposers of calls that execute a program, in this process or in a new one.
macro_rules! executing {
    ($by:expr, $failed:expr; $(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty, $how:ident $what:expr;)*) => { interposers! {$(
        fn $name($($arg: $ty),*) -> $ret, $how $what; |next| {
            $by();
            let result = next($($arg),*);
            $failed();
            result
        }
    )*} };
}

/// Another program is executed in the place of this one.
pub(crate) fn replaced() {
    seen::note(Note::Executed);
    seen::leaving();
}

/// It was not: whoever comes back here has failed.
pub(crate) fn stayed() {
    seen::stayed();
}

fn started() {
    seen::starting();
    seen::note(Note::Executed);
}

/// Texts that end with a null pointer.
type Texts = *const *const c_char;

executing! { replaced, stayed;
    fn execve(path: *const c_char, arguments: Texts, environment: Texts) -> c_int, as libc::SYS_execve;
    fn execv(path: *const c_char, arguments: Texts) -> c_int, else -1;
    fn execvp(file: *const c_char, arguments: Texts) -> c_int, else -1;
    fn execvpe(file: *const c_char, arguments: Texts, environment: Texts) -> c_int, else -1;
    fn fexecve(fd: c_int, arguments: Texts, environment: Texts) -> c_int, else -1;
    fn execveat(at: c_int, path: *const c_char, arguments: Texts, environment: Texts, flags: c_int) -> c_int, as libc::SYS_execveat;
}

executing! { started, || ();
    fn posix_spawn(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Texts, environment: Texts) -> c_int, else libc::ENOSYS;
    fn posix_spawnp(pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Texts, environment: Texts) -> c_int, else libc::ENOSYS;
    fn system(command: *const c_char) -> c_int, else -1;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut c_void, else core::ptr::null_mut();
}

interposers! {
    // A program that is executed in a child gets it.
    fn posix_spawn_file_actions_adddup2(actions: *mut c_void, fd: c_int, to: c_int) -> c_int, else libc::ENOSYS; |next| {
        seen::unusual(fd);
        next(actions, fd, to)
    }
    fn pthread_cancel(thread: libc::pthread_t) -> c_int, else libc::ESRCH; |next| {
        cancel::begins();
        next(thread)
    }
}

interposers! {
    // What ends a process without the ends of its libraries.
    fn _exit(status: c_int) -> c_int, as libc::SYS_exit_group; |next| {
        seen::ending();
        next(status)
    }
    fn _Exit(status: c_int) -> c_int, as libc::SYS_exit_group; |next| {
        seen::ending();
        next(status)
    }
}

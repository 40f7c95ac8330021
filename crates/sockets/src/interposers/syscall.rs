//! The interposer of `syscall()`: any call by its number. Those that matter to the table are known by
//! their numbers.

use core::arch::naked_asm;

use libc::{c_int, c_long, c_uint, c_void, iovec};
use sockets_rules::layout::Note;

use super::close::{are_flags_of_dup3, closing_range, controlled, replacing};
use super::data::{flat, moved_in, moved_out, parts};
use super::file::moved;
use super::limits::{filtering, filters, limiting};
use super::message::{gave_several, got_several, passing_several};
use super::process::{replaced, stayed};
use super::wait::{epolled, polled};
use crate::interposer::{Name, Registers, Slot, ask, nothing};
use crate::rings::blocked::{Asks, Limit};
use crate::rings::closing::{closes, closes_range};
use crate::rings::own::changing;
use crate::table::Kind;
use crate::{raw, seen, state};

type Code = unsafe extern "C-unwind" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

/// A system call by its number.
///
/// Numbers that make a child in this memory jump on, as their child returns on the same stack; the others are
/// called.
///
/// # Safety
/// As in the C library.
#[cfg_attr(not(test), unsafe(no_mangle))]
#[allow(dead_code, reason = "called by programs")]
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn syscall() {
    naked_asm!(
        ".cfi_startproc",
        "endbr64",
        "mov r11, [rip + {next}]",
        "test r11, r11",
        "jle 3f",
        "cmp edi, 56", // clone
        "je 2f",
        "cmp edi, 58", // vfork
        "je 2f",
        "cmp edi, 435", // clone3
        "je 2f",
        "jmp {by_number}",
        "2:",
        "lea r11, [rip + {cloning}]",
        "jmp {ask}",
        "3:",
        "lea r11, [rip + {way}]",
        "jmp {ask}",
        ".cfi_endproc",
        next = sym NEXT,
        by_number = sym by_number,
        cloning = sym cloning,
        way = sym way,
        ask = sym ask,
    )
}

const _: () = assert!(libc::SYS_clone == 56 && libc::SYS_vfork == 58 && libc::SYS_clone3 == 435);

unsafe extern "C-unwind" fn missing(
    _: c_long,
    _: usize,
    _: usize,
    _: usize,
    _: usize,
    _: usize,
    _: usize,
) -> c_long {
    nothing() as c_long
}

static NEXT: Slot<Code> = Slot::new();
const NAME: Name = Name::new(c"syscall");

/// Where a call goes whose next definition is not known yet, or is no system call.
extern "C" fn way(registers: &Registers) -> usize {
    let body = match c_long::from(registers.arguments[0] as c_int) {
        libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => cloned as *const (),
        _ => by_number as *const (),
    };
    NEXT.way(NAME, body as usize)
}

/// As [`syscall`] for those numbers.
#[unsafe(naked)]
unsafe extern "C" fn cloned() {
    naked_asm!(".cfi_startproc", "lea r11, [rip + {cloning}]", "jmp {ask}", ".cfi_endproc", cloning = sym cloning, ask = sym ask)
}

/// Notes a call that makes a child in this memory; where to go on.
extern "C" fn cloning(registers: &Registers) -> Code {
    let [number, first, ..] = registers.arguments;
    match c_long::from(number as c_int) {
        libc::SYS_vfork => seen::cloning((libc::CLONE_VM | libc::CLONE_VFORK) as u64),
        libc::SYS_clone => seen::cloning(first as u64),
        // Flags stand first in what it points to. Where that is no address, the call fails.
        _ => match raw::peek(first) {
            Some(flags) => seen::cloning(flags),
            None if state::may_ask() => {}
            // Nobody may be asked: the worst is taken for granted.
            None => state::shares_memory(),
        },
    }
    NEXT.get(NAME, missing)
}

/// A call that comes back once.
///
/// # Safety
/// As in the C library.
unsafe extern "C-unwind" fn by_number(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the caller's promise.
    let next = |a, b, c, d| unsafe { NEXT.get(NAME, missing)(number, a, b, c, d, e, f) };
    let flags = d as c_int;
    let fd = a as c_int;
    match number {
        libc::SYS_read => {
            return moved_in::<false>(fd, flat(b as *const c_void, c), 0, || next(a, b, c, d) as isize)
                as c_long;
        }
        libc::SYS_write => {
            return moved_out::<false>(fd, flat(b as *const c_void, c), 0, || next(a, b, c, d) as isize)
                as c_long;
        }
        libc::SYS_readv => {
            return moved_in::<false>(fd, parts(b as *const iovec, c as c_int), 0, || {
                next(a, b, c, d) as isize
            }) as c_long;
        }
        libc::SYS_writev => {
            return moved_out::<false>(fd, parts(b as *const iovec, c as c_int), 0, || {
                next(a, b, c, d) as isize
            }) as c_long;
        }
        libc::SYS_recvfrom if e == 0 => {
            return moved_in::<false>(fd, flat(b as *const c_void, c), flags, || next(a, b, c, d) as isize)
                as c_long;
        }
        libc::SYS_sendto => {
            return moved_out::<false>(fd, flat(b as *const c_void, c), flags, || next(a, b, c, d) as isize)
                as c_long;
        }
        libc::SYS_poll => {
            let limit = c as c_int;
            let wait = |asks: Asks| next(a, b, if asks.waits() { c } else { 0 }, d) as c_int;
            return c_long::from(polled(
                a as *mut libc::pollfd,
                b as libc::nfds_t,
                Some(Limit::milliseconds(limit)),
                wait,
            ));
        }
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
            let wait = |events: *mut libc::epoll_event, room: c_int, asks: Asks| {
                next(a, events as usize, room as usize, if asks.waits() { d } else { 0 }) as c_int
            };
            return c_long::from(epolled(
                fd,
                b as *mut libc::epoll_event,
                c as c_int,
                Some(Limit::milliseconds(flags)),
                wait,
            ));
        }
        libc::SYS_epoll_ctl => {
            let event = d as *const libc::epoll_event;
            // SAFETY: that call.
            let result =
                unsafe { seen::registers(fd, b as c_int, c as c_int, event, || next(a, b, c, d) as c_int) };
            return c_long::from(result);
        }
        libc::SYS_recvfrom => seen::unusual(fd),
        _ => {}
    }
    let changes = || {
        before(number, a, b, c);
        changing(|| next(a, b, c, d))
    };
    let result = match number {
        libc::SYS_close => closes(fd, changes),
        libc::SYS_dup2 | libc::SYS_dup3 => closes(b as c_int, changes),
        libc::SYS_close_range => {
            closes_range(a as c_uint, b as c_uint, || before(number, a, b, c));
            changing(|| next(a, b, c, d))
        }
        _ => {
            before(number, a, b, c);
            next(a, b, c, d)
        }
    };
    if result >= 0 {
        after(number, [a, b, c, d], result);
    } else if matches!(number, libc::SYS_execve | libc::SYS_execveat) {
        stayed();
    }
    result
}

fn before(number: c_long, a: usize, b: usize, c: usize) {
    match number {
        libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_sendfile
        | libc::SYS_shutdown
        | libc::SYS_ioctl
        | libc::SYS_setsockopt
        | libc::SYS_connect
        | libc::SYS_preadv2
        | libc::SYS_pwritev2
        | libc::SYS_fcntl => seen::unusual(a as c_int),
        libc::SYS_getsockopt if c as c_int != libc::SO_ERROR => seen::unusual(a as c_int),
        libc::SYS_sendmsg => {
            let _ = seen::passing(b as *const libc::msghdr);
            seen::unusual(a as c_int);
        }
        libc::SYS_sendmmsg => {
            passing_several(a as c_int, b as *const libc::mmsghdr, c as c_uint);
            seen::unusual(a as c_int);
        }
        libc::SYS_splice => {
            seen::unusual(a as c_int);
            seen::unusual(c as c_int);
        }
        libc::SYS_io_uring_setup
        | libc::SYS_io_submit
        | libc::SYS_epoll_pwait2
        | libc::SYS_ppoll
        | libc::SYS_select
        | libc::SYS_pselect6 => seen::stops(),
        libc::SYS_fork => seen::forking(),
        libc::SYS_close => seen::closing(a as c_int),
        libc::SYS_dup3 if !are_flags_of_dup3(c as c_int) => {}
        libc::SYS_dup2 | libc::SYS_dup3 => replacing(a as c_int, b as c_int),
        libc::SYS_close_range => closing_range(a as c_uint, b as c_uint, c as c_int),
        libc::SYS_unshare if a as c_int & libc::CLONE_FILES != 0 => state::shares_memory(),
        libc::SYS_seccomp => filtering(),
        libc::SYS_prctl if filters(a as c_int) => filtering(),
        libc::SYS_mlockall => seen::needs_room(),
        libc::SYS_setuid
        | libc::SYS_setreuid
        | libc::SYS_setresuid
        | libc::SYS_setfsuid
        | libc::SYS_setgid
        | libc::SYS_setregid
        | libc::SYS_setresgid
        | libc::SYS_setfsgid
        | libc::SYS_setgroups
        | libc::SYS_capset
        | libc::SYS_chroot => seen::confining(),
        libc::SYS_setrlimit => limiting(a as c_uint, b as *const c_void),
        libc::SYS_prlimit64 => limiting(b as c_uint, c as *const c_void),
        libc::SYS_execve | libc::SYS_execveat => replaced(),
        libc::SYS_exit_group => seen::ending(),
        _ => {}
    }
}

fn after(number: c_long, [a, b, c, d]: [usize; 4], result: c_long) {
    let fd = a as c_int;
    match number {
        libc::SYS_recvfrom if seen::takes(d as c_int) => seen::input(fd, result as isize),
        libc::SYS_sendmsg => seen::output(fd, result as isize),
        libc::SYS_socket => {
            drop_number(seen::made(result as c_int, Kind::of_socket(fd, b as c_int, c as c_int)))
        }
        libc::SYS_accept | libc::SYS_accept4 => drop_number(seen::accepted(fd, result as c_int)),
        libc::SYS_dup | libc::SYS_dup2 | libc::SYS_dup3 => drop_number(seen::copied(fd, result as c_int)),
        libc::SYS_fcntl => drop_number(controlled(fd, b as c_int, result as c_int)),
        libc::SYS_listen => seen::listens(fd),
        libc::SYS_recvmsg => {
            // SAFETY: the kernel has just filled the message in.
            unsafe { seen::received(b as *const libc::msghdr) };
            if seen::takes(c as c_int) {
                seen::input(fd, result as isize);
            }
        }
        // SAFETY: so many messages the kernel has just filled in.
        libc::SYS_sendmmsg => unsafe { gave_several(fd, b as *const libc::mmsghdr, result as c_int) },
        libc::SYS_open
        | libc::SYS_openat
        | libc::SYS_openat2
        | libc::SYS_creat
        | libc::SYS_eventfd
        | libc::SYS_eventfd2
        | libc::SYS_memfd_create
        | libc::SYS_timerfd_create
        | libc::SYS_signalfd
        | libc::SYS_signalfd4
        | libc::SYS_pidfd_open => drop_number(seen::made(result as c_int, Kind::Other)),
        libc::SYS_epoll_create | libc::SYS_epoll_create1 => drop_number(seen::made_epoll(result as c_int)),
        // What that is, only the kernel knows.
        libc::SYS_pidfd_getfd => drop_number(seen::made(result as c_int, Kind::Unknown)),
        libc::SYS_io_uring_setup => {
            seen::note(Note::Uring);
            drop_number(seen::made(result as c_int, Kind::Other));
        }
        // It may have closed and made descriptors.
        libc::SYS_io_uring_enter => seen::doubtful(Note::Uring),
        libc::SYS_recvmmsg => {
            // SAFETY: as above.
            unsafe { got_several(fd, b as *const libc::mmsghdr, result as c_int, d as c_int) };
            seen::doubtful(Note::Copied);
        }
        libc::SYS_pipe | libc::SYS_pipe2 | libc::SYS_socketpair => seen::doubtful(Note::Copied),
        libc::SYS_sendfile => drop_bytes(moved(b as c_int, fd, result as isize)),
        libc::SYS_splice => drop_bytes(moved(fd, c as c_int, result as isize)),
        libc::SYS_fork => drop_number(seen::forked(result as libc::pid_t)),
        _ => {}
    }
}

fn drop_number(_: c_int) {}

fn drop_bytes(_: isize) {}

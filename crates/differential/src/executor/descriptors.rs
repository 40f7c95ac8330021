//! Creates, duplicates, marks and closes descriptors, and keeps the table of all.

use super::context::Context;
use super::{say, traffic};
use crate::program::call::{Call, Kind, Make, RangeFlag, SetBy};
use crate::program::{Set, Slot};
use crate::sys::{Outcome, files, poll, sockets};

/// Numbers below this are a program's; a library's private descriptors lie higher.
const PROGRAMS_OWN: i32 = 64;

/// Domain, type and whether it is TCP.
fn numbers(kind: Kind) -> (i32, i32, bool) {
    match kind {
        Kind::Tcp4 => (libc::AF_INET, libc::SOCK_STREAM, true),
        Kind::Tcp6 => (libc::AF_INET6, libc::SOCK_STREAM, true),
        Kind::Udp4 => (libc::AF_INET, libc::SOCK_DGRAM, false),
        Kind::Udp6 => (libc::AF_INET6, libc::SOCK_DGRAM, false),
        Kind::UnixStream => (libc::AF_UNIX, libc::SOCK_STREAM, false),
        Kind::UnixDgram => (libc::AF_UNIX, libc::SOCK_DGRAM, false),
        Kind::UnixSeq => (libc::AF_UNIX, libc::SOCK_SEQPACKET, false),
    }
}

/// Flags of a new descriptor, as one group of calls or another wants them.
pub(super) fn flags(with: Set<Make>, nonblock: i32, cloexec: i32) -> i32 {
    with.flags(|flag| match flag {
        Make::Nonblock => nonblock,
        Make::Cloexec => cloexec,
    })
}

/// Calls that make descriptors.
pub(super) fn create(context: &Context, call: &Call) -> String {
    match call {
        Call::Socket { to, kind, with } => {
            let (domain, of, tcp) = numbers(*kind);
            let made = sockets::socket(domain, of | flags(*with, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC));
            context.keep(*to, made.fd());
            let mut said = say::outcome(made);
            if tcp && made.is_ok() {
                let set = sockets::set_option(
                    made.fd(),
                    libc::IPPROTO_TCP,
                    libc::TCP_NODELAY,
                    &1_i32.to_ne_bytes(),
                );
                if !set.is_ok() {
                    said.push_str(&format!(" nodelay {}", say::outcome(set)));
                }
            }
            said
        }
        Call::Pair { to, other, kind, with } => {
            let (domain, of, _) = numbers(*kind);
            both(
                context,
                (*to, *other),
                sockets::socketpair(domain, of | flags(*with, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC)),
            )
        }
        Call::Pipe { to, other, with } => {
            both(context, (*to, *other), files::pipe(flags(*with, libc::O_NONBLOCK, libc::O_CLOEXEC)))
        }
        Call::Eventfd { to, value, with } => {
            kept(context, *to, files::eventfd(*value, flags(*with, libc::EFD_NONBLOCK, libc::EFD_CLOEXEC)))
        }
        Call::EpollCreate { to, with } => {
            kept(context, *to, poll::epoll_create(flags(*with, 0, libc::EPOLL_CLOEXEC)))
        }
        Call::Memfd { to, size } => {
            let made = files::memfd();
            context.keep(*to, made.fd());
            let content = traffic::pattern(usize::from(to.0), *size as usize);
            format!("{} filled {}", say::outcome(made), traffic::fill(made.fd(), &content))
        }
        _ => "not a call of this kind".to_owned(),
    }
}

fn kept(context: &Context, to: Slot, outcome: Outcome) -> String {
    context.keep(to, outcome.fd());
    say::outcome(outcome)
}

fn both(context: &Context, to: (Slot, Slot), (outcome, fds): (Outcome, [i32; 2])) -> String {
    context.keep(to.0, fds[0]);
    context.keep(to.1, fds[1]);
    format!("{} fds={},{}", say::outcome(outcome), fds[0], fds[1])
}

/// Calls that change what a number means, or ask.
pub(super) fn change(context: &Context, call: &Call) -> String {
    let fd = |slot: &Slot| context.fd(*slot);
    match call {
        Call::Close { fd: slot } => say::outcome(files::close(fd(slot))),
        Call::CloseRange { first, last, with } => {
            let flags = with.flags(|flag| match flag {
                RangeFlag::Cloexec => libc::CLOSE_RANGE_CLOEXEC as i32,
                RangeFlag::Unshare => libc::CLOSE_RANGE_UNSHARE as i32,
            });
            say::outcome(files::close_range(fd(first).cast_unsigned(), fd(last).cast_unsigned(), flags))
        }
        Call::Closefrom { first } => {
            files::closefrom(fd(first));
            "done".to_owned()
        }
        Call::Dup { fd: slot, to } => kept(context, *to, files::dup(fd(slot))),
        Call::Dup2 { fd: slot, onto } => say::outcome(files::dup2(fd(slot), fd(onto))),
        Call::Dup3 { fd: slot, onto, with } => {
            say::outcome(files::dup3(fd(slot), fd(onto), flags(*with, libc::O_NONBLOCK, libc::O_CLOEXEC)))
        }
        Call::DupFd { fd: slot, to, least, with } => {
            let command = if with.has(Make::Cloexec) { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
            kept(context, *to, files::fcntl(fd(slot), command, (*least).cast_signed()))
        }
        Call::Flags { fd: slot } => {
            let (of_fd, of_file) =
                (files::fcntl(fd(slot), libc::F_GETFD, 0), files::fcntl(fd(slot), libc::F_GETFL, 0));
            format!("{} file {}", say::outcome(of_fd), say::outcome(of_file))
        }
        Call::SetNonblock { fd: slot, on, by: SetBy::Ioctl } => {
            say::outcome(files::ioctl(fd(slot), libc::FIONBIO, &mut i32::from(*on)))
        }
        Call::SetNonblock { fd: slot, on, by: SetBy::Fcntl } => {
            let before = files::fcntl(fd(slot), libc::F_GETFL, 0);
            let rest = before.fd() & !libc::O_NONBLOCK;
            let wanted = if *on { rest | libc::O_NONBLOCK } else { rest };
            say::outcome(if before.is_ok() { files::fcntl(fd(slot), libc::F_SETFL, wanted) } else { before })
        }
        Call::SetCloexec { fd: slot, on, by: SetBy::Fcntl } => {
            say::outcome(files::fcntl(fd(slot), libc::F_SETFD, if *on { libc::FD_CLOEXEC } else { 0 }))
        }
        Call::SetCloexec { fd: slot, on, by: SetBy::Ioctl } => {
            say::outcome(files::ioctl(fd(slot), if *on { libc::FIOCLEX } else { libc::FIONCLEX }, &mut 0))
        }
        Call::Queued { fd: slot } => {
            let mut count = -7;
            let outcome = files::ioctl(fd(slot), libc::FIONREAD, &mut count);
            format!("{} count={count}", say::outcome(outcome))
        }
        Call::Table {} => table(),
        _ => "not a call of this kind".to_owned(),
    }
}

/// Every descriptor of this process that a program may have: number, flags, and kind.
pub(super) fn table() -> String {
    let mut said = String::new();
    for fd in 0..PROGRAMS_OWN {
        let flags = files::fcntl(fd, libc::F_GETFD, 0);
        if flags.is_ok() {
            let status = files::fcntl(fd, libc::F_GETFL, 0).ret;
            let kind = files::kind(fd).map_or_else(|| "?".to_owned(), |kind| format!("{:o}", kind >> 12));
            let marks = if flags.ret & i64::from(libc::FD_CLOEXEC) != 0 { "c" } else { "" };
            said.push_str(&format!("{fd}{marks}:{kind}:{status:x}{} ", socket_kind(fd)));
        }
    }
    said
}

/// What kind of socket, in the words of getsockopt.
fn socket_kind(fd: i32) -> String {
    let one = |option| {
        let (outcome, value) = sockets::get_option(fd, libc::SOL_SOCKET, option);
        outcome.is_ok().then(|| traffic::number(&value))
    };
    match (one(libc::SO_DOMAIN), one(libc::SO_TYPE)) {
        (Some(domain), Some(of)) => format!("/{domain}.{of}"),
        _ => String::new(),
    }
}

//! Executes calls on connections: data, names and options.

use super::context::Context;
use super::perform::SOCKET_TIMEOUT;
use super::{descriptors, say};
use crate::program::call::{
    AcceptBy, At, Call, Direction, Opt, RecvBy, RecvFlag, SendBy, SendFlag, StdioBy, Whose,
};
use crate::program::{Set, Slot};
use crate::sys::address::Address;
use crate::sys::transfer::{self, MESSAGES, Received, Sending};
use crate::sys::{Outcome, files, process, sockets};

/// Bytes that nobody else sends: of this step, each different from its neighbours.
pub(super) fn pattern(step: usize, len: usize) -> Vec<u8> {
    let mut state = (step as u32).wrapping_mul(0x9E37_79B9) | 1;
    (0..len)
        .map(|_| {
            // xorshift32 (Marsaglia, Journal of Statistical Software 8:14, 2003).
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            (state >> 11) as u8
        })
        .collect()
}

/// Writes a file's content; how much was written.
pub(super) fn fill(fd: i32, content: &[u8]) -> i64 {
    let sending =
        Sending { fd, bytes: content, by: SendBy::Write, flags: 0, to: None, bad: false, descriptors: &[] };
    transfer::send(&sending).0.ret
}

/// The first four bytes as a number.
pub(super) fn number(value: &[u8]) -> i64 {
    match value.get(..4) {
        Some(&[a, b, c, d]) => i64::from(i32::from_ne_bytes([a, b, c, d])),
        _ => -1,
    }
}

/// Calls on connections.
pub(super) fn perform(context: &Context, at: usize, call: &Call) -> String {
    let fd = |slot: &Slot| context.fd(*slot);
    match call {
        Call::Bind { fd: slot, at, name } => bind(context, fd(slot), *at, *name),
        Call::Listen { fd: slot, backlog } => say::outcome(sockets::listen(fd(slot), *backlog)),
        Call::Accept { fd: slot, to, by, with } => {
            let flags = descriptors::flags(*with, libc::SOCK_NONBLOCK, libc::SOCK_CLOEXEC);
            let (outcome, from) = match by {
                AcceptBy::Accept => sockets::accept(fd(slot), None),
                AcceptBy::Accept4 => sockets::accept(fd(slot), Some(flags)),
                AcceptBy::Anonymous => (sockets::accept_anonymous(fd(slot)), Address::default()),
            };
            context.keep(*to, outcome.fd());
            format!("{} from={}", say::outcome(outcome), from.text())
        }
        Call::Connect { fd: slot, name } => {
            say::outcome(sockets::connect(fd(slot), &context.shared.name(*name).reachable()))
        }
        Call::Send { fd: slot, len, by, flags, name, bad } => {
            let bytes = pattern(at, *len as usize);
            let to = name.map(|name| context.shared.name(name).reachable());
            let to = to.as_ref().filter(|to| !to.0.is_empty());
            let flags = send_flags(*flags);
            sent(&Sending { fd: fd(slot), bytes: &bytes, by: *by, flags, to, bad: *bad, descriptors: &[] })
        }
        Call::Pass { fd: slot, what, len } => {
            let bytes = pattern(at, *len as usize);
            let descriptors: Vec<i32> = what.iter().map(fd).collect();
            let by = SendBy::Sendmsg;
            sent(&Sending {
                fd: fd(slot),
                bytes: &bytes,
                by,
                flags: 0,
                to: None,
                bad: false,
                descriptors: &descriptors,
            })
        }
        Call::Recv { fd: slot, len, by, flags, bad } => {
            let (outcome, received) =
                transfer::receive(fd(slot), *len as usize, *by, receive_flags(*flags), *bad, 0);
            describe(outcome, &received, *len as usize, *by)
        }
        Call::Take { fd: slot, to, len, flags } => take(context, fd(slot), to, *len as usize, *flags),
        Call::Sendfile { fd: slot, from, len } => {
            let (outcome, offset) = transfer::sendfile(fd(slot), fd(from), *len as usize);
            format!("{} offset={offset}", say::outcome(outcome))
        }
        Call::Splice { from, fd: slot, len } => {
            say::outcome(transfer::splice(fd(from), fd(slot), *len as usize))
        }
        Call::Shutdown { fd: slot, how } => {
            let how = match how {
                Direction::Read => libc::SHUT_RD,
                Direction::Write => libc::SHUT_WR,
                Direction::Both => libc::SHUT_RDWR,
            };
            say::outcome(sockets::shutdown(fd(slot), how))
        }
        Call::Address { fd: slot, of } => {
            let (outcome, address) = sockets::name(fd(slot), *of == Whose::Peer);
            format!("{} {}", say::outcome(outcome), address.text())
        }
        Call::SetOption { fd: slot, option, value } => {
            let (level, number) = option_numbers(*option);
            say::outcome(sockets::set_option(fd(slot), level, number, &option_value(*option, *value)))
        }
        Call::GetOption { fd: slot, option } => {
            let (level, number) = option_numbers(*option);
            let (outcome, value) = sockets::get_option(fd(slot), level, number);
            format!("{} {}", say::outcome(outcome), option_text(*option, &value))
        }
        Call::Stdio { fd: slot, by, len } => stdio(fd(slot), *by, at, *len as usize),
        _ => "not a call of this kind".to_owned(),
    }
}

fn sent(sending: &Sending<'_>) -> String {
    let (outcome, each) = transfer::send(sending);
    let mut said = say::outcome(outcome);
    if !each.is_empty() {
        said.push_str(&format!(" each={each:?}"));
    }
    said
}

fn bind(context: &Context, fd: i32, at: At, name: crate::program::Name) -> String {
    let (known, domain) = sockets::get_option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN);
    let domain = if known.is_ok() { number(&domain) } else { -1 };
    let address = match (at, i32::try_from(domain)) {
        (At::Kept, _) => context.shared.name(name),
        (At::Abstract, _) | (_, Ok(libc::AF_UNIX)) => {
            // Own to this run: sockets that are being passed outlive a program a little, and so do their
            // names.
            Address::unnamed_file(&format!("differential-@{}-{}", process::group(), name.0))
        }
        (_, Ok(libc::AF_INET6)) => Address::v6(at == At::Any, 0),
        _ => Address::v4(at == At::Any, 0),
    };
    let outcome = sockets::bind(fd, &address);
    if !outcome.is_ok() {
        return say::outcome(outcome);
    }
    let (_, bound) = sockets::name(fd, false);
    context.shared.set_name(name, &bound);
    say::outcome(outcome)
}

fn take(context: &Context, fd: i32, to: &[Slot], len: usize, flags: Set<RecvFlag>) -> String {
    let room = if to.is_empty() { 0 } else { 16 + (4 * to.len()).next_multiple_of(8) };
    let (outcome, received) = transfer::receive(fd, len, RecvBy::Recvmsg, receive_flags(flags), false, room);
    let mut said = describe(outcome, &received, len, RecvBy::Recvmsg);
    for (at, slot) in to.iter().enumerate() {
        context.keep(*slot, received.descriptors.get(at).copied().unwrap_or(-1));
    }
    for fd in &received.descriptors {
        let flags = files::fcntl(*fd, libc::F_GETFD, 0);
        said.push_str(&format!(" fd={fd}/{}", flags.ret));
    }
    said
}

/// Everything that a receive tells.
fn describe(outcome: Outcome, received: &Received, len: usize, by: RecvBy) -> String {
    let mut said = say::outcome(outcome);
    if outcome.is_ok() && by == RecvBy::Recvmmsg {
        for (at, (count, flags)) in received.each.iter().enumerate() {
            let got = &received.bytes[at * len..at * len + (*count as usize).min(len)];
            said.push_str(&format!(" [{count} {} {}]", say::data(got), say::message_flags(*flags)));
        }
        if !say::is_blank(&received.bytes[(received.each.len().min(MESSAGES)) * len..]) {
            said.push_str(" overrun");
        }
        return said;
    }
    let got = outcome.count().min(received.bytes.len());
    if outcome.is_ok() {
        said.push_str(&format!(" data={}", say::data(&received.bytes[..got])));
        if !say::is_blank(&received.bytes[got..]) {
            said.push_str(" overrun");
        }
    }
    if let Some(from) = &received.from {
        said.push_str(&format!(" from={}", from.text()));
    }
    if let Some(flags) = received.flags {
        said.push_str(&format!(" flags={}", say::message_flags(flags)));
    }
    for (level, of) in &received.others {
        said.push_str(&format!(" control={level}.{of}"));
    }
    said
}

fn send_flags(flags: Set<SendFlag>) -> i32 {
    flags.flags(|flag| match flag {
        SendFlag::Dontwait => libc::MSG_DONTWAIT,
        SendFlag::Nosignal => libc::MSG_NOSIGNAL,
        SendFlag::Oob => libc::MSG_OOB,
        SendFlag::More => libc::MSG_MORE,
        SendFlag::Eor => libc::MSG_EOR,
        SendFlag::Fastopen => libc::MSG_FASTOPEN,
    })
}

fn receive_flags(flags: Set<RecvFlag>) -> i32 {
    flags.flags(|flag| match flag {
        RecvFlag::Dontwait => libc::MSG_DONTWAIT,
        RecvFlag::Peek => libc::MSG_PEEK,
        RecvFlag::Waitall => libc::MSG_WAITALL,
        RecvFlag::Trunc => libc::MSG_TRUNC,
        RecvFlag::Oob => libc::MSG_OOB,
        RecvFlag::Cloexec => libc::MSG_CMSG_CLOEXEC,
    })
}

fn option_numbers(option: Opt) -> (i32, i32) {
    match option {
        Opt::ReuseAddr => (libc::SOL_SOCKET, libc::SO_REUSEADDR),
        Opt::ReusePort => (libc::SOL_SOCKET, libc::SO_REUSEPORT),
        Opt::KeepAlive => (libc::SOL_SOCKET, libc::SO_KEEPALIVE),
        Opt::Broadcast => (libc::SOL_SOCKET, libc::SO_BROADCAST),
        Opt::OobInline => (libc::SOL_SOCKET, libc::SO_OOBINLINE),
        Opt::Linger => (libc::SOL_SOCKET, libc::SO_LINGER),
        Opt::RcvLowat => (libc::SOL_SOCKET, libc::SO_RCVLOWAT),
        Opt::RcvTimeo => (libc::SOL_SOCKET, libc::SO_RCVTIMEO),
        Opt::SndTimeo => (libc::SOL_SOCKET, libc::SO_SNDTIMEO),
        Opt::PassCred => (libc::SOL_SOCKET, libc::SO_PASSCRED),
        Opt::Error => (libc::SOL_SOCKET, libc::SO_ERROR),
        Opt::Type => (libc::SOL_SOCKET, libc::SO_TYPE),
        Opt::Domain => (libc::SOL_SOCKET, libc::SO_DOMAIN),
        Opt::Protocol => (libc::SOL_SOCKET, libc::SO_PROTOCOL),
        Opt::Accepting => (libc::SOL_SOCKET, libc::SO_ACCEPTCONN),
        Opt::PeerCred => (libc::SOL_SOCKET, libc::SO_PEERCRED),
        Opt::NoDelay => (libc::IPPROTO_TCP, libc::TCP_NODELAY),
        Opt::Cork => (libc::IPPROTO_TCP, libc::TCP_CORK),
        Opt::KeepIdle => (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE),
        Opt::KeepCount => (libc::IPPROTO_TCP, libc::TCP_KEEPCNT),
        Opt::UserTimeout => (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT),
        Opt::SndBuf => (libc::SOL_SOCKET, libc::SO_SNDBUF),
        Opt::DeferAccept => (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT),
        Opt::FastOpen => (libc::IPPROTO_TCP, libc::TCP_FASTOPEN),
        Opt::FastOpenConnect => (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT),
        Opt::V6Only => (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY),
        Opt::Tos => (libc::IPPROTO_IP, libc::IP_TOS),
        Opt::Ttl => (libc::IPPROTO_IP, libc::IP_TTL),
    }
}

fn option_value(option: Opt, value: i32) -> Vec<u8> {
    let words: Vec<i64> = match option {
        Opt::RcvTimeo | Opt::SndTimeo => {
            vec![0, if value == 0 { 0 } else { i64::from(SOCKET_TIMEOUT) * 1000 }]
        }
        Opt::Linger => {
            return [i32::from(value >= 0), value.max(0)]
                .iter()
                .flat_map(|word| word.to_ne_bytes())
                .collect();
        }
        _ => return value.to_ne_bytes().to_vec(),
    };
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn option_text(option: Opt, value: &[u8]) -> String {
    match option {
        Opt::PeerCred if value.len() == 12 => {
            // A process, a user and a group.
            let pid = number(value);
            let pid = if pid > 0 { format!("%{pid}") } else { pid.to_string() };
            format!("{pid} {} {}", number(&value[4..]), number(&value[8..]))
        }
        Opt::Error if value.len() == 4 && number(value) > 0 => {
            say::errno(i32::try_from(number(value)).unwrap_or(0))
        }
        _ => format!(
            "{}:{}",
            value.len(),
            value.chunks(4).map(|word| number(word).to_string()).collect::<Vec<_>>().join(",")
        ),
    }
}

fn stdio(fd: i32, by: StdioBy, at: usize, len: usize) -> String {
    let text: String = pattern(at, len).iter().map(|byte| char::from(b'a' + byte % 26)).collect();
    let (outcome, got) = match by {
        StdioBy::Write => files::stdio(fd, text.as_bytes(), 0),
        StdioBy::Read => files::stdio(fd, &[], len.max(1)),
        StdioBy::Dprintf => (files::dprintf(fd, &text), Vec::new()),
    };
    format!("{} data={}", say::outcome(outcome), say::data(&got))
}

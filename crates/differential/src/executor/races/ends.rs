//! Connections of races, and how their ends send and receive.

use super::Promise;
use crate::executor::say;
use crate::program::call::{Kind, PollBy, RecvBy, SendBy};
use crate::random::Random;
use crate::sys::address::Address;
use crate::sys::transfer::{self, Sending};
use crate::sys::{Outcome, files, poll, sockets};

/// So long nothing may happen, in milliseconds, before that is a stall.
pub(super) const STALL: i32 = 4000;

/// A descriptor that is closed when it is no more used.
#[derive(Debug)]
pub(super) struct End(pub(super) i32);

impl Drop for End {
    fn drop(&mut self) {
        let _ = files::close(self.0);
    }
}

/// What a call returned, or which error, as a broken promise.
pub(super) fn must(what: &str, outcome: Outcome) -> Result<i32, String> {
    if outcome.is_ok() { Ok(outcome.fd()) } else { Err(format!("{what} {}", say::outcome(outcome))) }
}

/// A listening socket with its address.
pub(super) fn listener(kind: Kind) -> Result<(End, Address), String> {
    let domain = if kind == Kind::Tcp6 { libc::AF_INET6 } else { libc::AF_INET };
    let end = End(must("socket", sockets::socket(domain, libc::SOCK_STREAM | libc::SOCK_CLOEXEC))?);
    let any = if kind == Kind::Tcp6 { Address::v6(false, 0) } else { Address::v4(false, 0) };
    must("bind", sockets::bind(end.0, &any))?;
    must("listen", sockets::listen(end.0, 64))?;
    let (outcome, address) = sockets::name(end.0, false);
    must("getsockname", outcome)?;
    Ok((end, address))
}

/// A client of this listener, not accepted yet.
pub(super) fn client(kind: Kind, address: &Address) -> Result<End, String> {
    let domain = if kind == Kind::Tcp6 { libc::AF_INET6 } else { libc::AF_INET };
    let end = End(must("socket", sockets::socket(domain, libc::SOCK_STREAM | libc::SOCK_CLOEXEC))?);
    must("connect", sockets::connect(end.0, address))?;
    let _ = sockets::set_option(end.0, libc::IPPROTO_TCP, libc::TCP_NODELAY, &1_i32.to_ne_bytes());
    Ok(end)
}

/// Both ends of a stream.
pub(super) fn connected(kind: Kind) -> Result<[End; 2], String> {
    if !matches!(kind, Kind::Tcp4 | Kind::Tcp6) {
        let (outcome, fds) = sockets::socketpair(libc::AF_UNIX, libc::SOCK_STREAM);
        must("socketpair", outcome)?;
        return Ok(fds.map(End));
    }
    let (listener, address) = listener(kind)?;
    let one = client(kind, &address)?;
    let other = End(must("accept4", sockets::accept(listener.0, Some(libc::SOCK_CLOEXEC)).0)?);
    Ok([one, other])
}

/// Makes an end not block.
pub(super) fn set_nonblocking(end: &End) -> Promise {
    must("fcntl", files::fcntl(end.0, libc::F_SETFL, libc::O_NONBLOCK)).map(drop)
}

/// Waits until there is something to do, and says what; nothing after a signal.
pub(super) fn ready(fd: i32, events: i16) -> Result<i16, String> {
    let mut set = [(fd, events, 0)];
    let outcome = poll::poll(&mut set, PollBy::Poll, STALL);
    match outcome.ret {
        0 => Err("nothing moves any more".to_owned()),
        -1 if outcome.errno != Some(libc::EINTR) => Err(format!("poll {}", say::outcome(outcome))),
        _ => Ok(set[0].2),
    }
}

/// Sends a part of these, by some function: how much, or nothing if there is no room.
pub(super) fn send_some(fd: i32, bytes: &[u8], random: &mut Random) -> Result<Option<usize>, String> {
    let most = if random.percent(70) { 700 } else { 20_000 };
    let part = &bytes[..bytes.len().min(1 + random.below(most))];
    let by =
        random.pick(&[SendBy::Write, SendBy::Send, SendBy::Writev, SendBy::Sendmsg]).unwrap_or(SendBy::Send);
    let sending = Sending { fd, bytes: part, by, flags: 0, to: None, bad: false, descriptors: &[] };
    let outcome = transfer::send(&sending).0;
    match (outcome.is_ok(), outcome.errno) {
        (true, _) if outcome.count() > part.len() => {
            Err(format!("{} of {} bytes were sent", outcome.ret, part.len()))
        }
        (true, _) => Ok(Some(outcome.count())),
        (false, Some(libc::EINTR)) => Ok(Some(0)),
        (false, Some(libc::EAGAIN)) => Ok(None),
        _ => Err(format!("send {}", say::outcome(outcome))),
    }
}

/// Sends all of these.
pub(super) fn send_all(fd: i32, bytes: &[u8], random: &mut Random) -> Promise {
    let mut sent = 0;
    while sent < bytes.len() {
        match send_some(fd, &bytes[sent..], random)? {
            Some(more) => sent += more,
            None => _ = ready(fd, libc::POLLOUT)?,
        }
    }
    Ok(())
}

/// Receives something by some function; nothing but an empty answer at the end, and none if it was
/// interrupted.
pub(super) fn receive_some(fd: i32, random: &mut Random) -> Result<Option<Vec<u8>>, String> {
    let most = if random.percent(60) { 900 } else { 30_000 };
    let len = 1 + random.below(most);
    let forms =
        [RecvBy::Read, RecvBy::Recv, RecvBy::Readv, RecvBy::Recvmsg, RecvBy::Recvfrom, RecvBy::ReadChk];
    let by = random.pick(&forms).unwrap_or(RecvBy::Recv);
    let (outcome, mut received) = transfer::receive(fd, len, by, 0, false, 0);
    match (outcome.is_ok(), outcome.errno) {
        (true, _) if outcome.count() > len => Err(format!("{} bytes came into {len}", outcome.ret)),
        (true, _) => {
            received.bytes.truncate(outcome.count());
            Ok(Some(received.bytes))
        }
        (false, Some(libc::EINTR)) => Ok(None),
        (false, Some(libc::EAGAIN)) => ready(fd, libc::POLLIN).map(|_| None),
        _ => Err(format!("receive {}", say::outcome(outcome))),
    }
}

/// Numbers that fit into seven bits and meet themselves only after 127 bytes.
const ROUND: usize = 127;

/// What this writer sends: its mark in the highest bit, its count in the others.
pub(super) fn marked(writer: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (writer as u8) << 7 | (at % ROUND) as u8).collect()
}

/// Each writer's bytes must come in order, whatever comes between.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// How many bytes of each writer have come.
    pub(super) seen: [usize; 2],
}

impl Order {
    /// Checks what comes next.
    pub(super) fn check(&mut self, bytes: &[u8]) -> Promise {
        for byte in bytes {
            let seen = &mut self.seen[usize::from(byte >> 7)];
            if usize::from(byte & 0x7f) != *seen % ROUND {
                return Err(format!("writer {}: byte {} is not the {}th", byte >> 7, byte & 0x7f, *seen));
            }
            *seen += 1;
        }
        Ok(())
    }

    /// Receives until the end.
    pub(super) fn check_all(&mut self, fd: i32, random: &mut Random) -> Promise {
        loop {
            match receive_some(fd, random)? {
                Some(bytes) if bytes.is_empty() => return Ok(()),
                Some(bytes) => self.check(&bytes)?,
                None => {}
            }
        }
    }

    /// All of both writers has come.
    pub(super) fn is_complete(&self, sent: [usize; 2]) -> Promise {
        if self.seen == sent { Ok(()) } else { Err(format!("{:?} bytes of {sent:?} came", self.seen)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_sees_what_is_lost_doubled_and_swapped() {
        let bytes = marked(1, 300);
        let mut order = Order::default();
        order.check(&bytes).unwrap();
        assert!(order.is_complete([0, 300]).is_ok() && order.is_complete([0, 301]).is_err());
        for wrong in [[&bytes[..9], &bytes[10..20]].concat(), [&bytes[..9], &bytes[8..20]].concat()] {
            assert!(Order::default().check(&wrong).is_err());
        }
        let both: Vec<u8> =
            marked(0, 50).into_iter().zip(marked(1, 50)).flat_map(|(one, two)| [one, two]).collect();
        Order::default().check(&both).unwrap();
    }
}

//! What the kernel reports of a connection: see `stream::count`.

use libc::{c_int, c_short, iovec, msghdr};
use stream::{Held, Taken, count};

use super::copy::{Bytes, PARTS};
use crate::raw;

/// `TCP_INFO` as far as `tcpi_bytes_retrans`.
const INFO_BYTES: usize = 216;

/// What is used of `TCP_INFO`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Info {
    state: u8,
    pub(crate) acked: u64,
    pub(crate) received: u64,
    /// Sent, without what was sent again, and not yet sent.
    handed: u64,
}

impl Info {
    /// None from a kernel that does not count all of it.
    pub(crate) fn read(info: &[u8]) -> Option<Self> {
        let long = |at: usize| Some(u64::from_ne_bytes(*info.get(at..)?.first_chunk::<8>()?));
        let word = |at: usize| Some(u32::from_ne_bytes(*info.get(at..)?.first_chunk::<4>()?));
        let sent = long(200)?.wrapping_sub(long(208)?);
        Some(Self {
            state: *info.first()?,
            acked: long(120)?,
            received: long(128)?,
            handed: sent.wrapping_add(u64::from(word(144)?)),
        })
    }

    pub(crate) fn ask(fd: c_int) -> Option<Self> {
        let mut info = [0_u8; INFO_BYTES];
        Self::read(raw::tcp_info(fd, &mut info)?)
    }

    pub(crate) fn is_established(self) -> bool {
        self.state == 1
    }

    /// No end, and no reset: the writing half is open.
    fn is_writable(&self) -> bool {
        self.state == 1 || self.state == CLOSE_WAIT
    }

    /// The other end has finished, or it was reset. (A half that this end has shut down itself is no end of
    /// the other's.)
    fn has_ended(self) -> bool {
        const ESTABLISHED: u8 = 1;
        const FIN_WAIT1: u8 = 4;
        const FIN_WAIT2: u8 = 5;
        !matches!(self.state, ESTABLISHED | FIN_WAIT1 | FIN_WAIT2)
    }

    /// Reset, or closed by both ends.
    fn is_closed(self) -> bool {
        self.state == CLOSE
    }
}

/// A number that an `ioctl` on a socket gives.
fn number(fd: c_int, request: libc::Ioctl) -> Option<u64> {
    let mut value: c_int = 0;
    // SAFETY: these requests write one number.
    let result = unsafe {
        raw::call(libc::SYS_ioctl, [fd as usize, request as usize, (&raw mut value) as usize, 0, 0, 0])
    };
    if result == 0 { u64::try_from(value).ok() } else { None }
}

/// Bytes that have come and are unread.
pub(crate) fn unread(fd: c_int) -> Option<u64> {
    number(fd, libc::FIONREAD)
}

/// Bytes that were written and are not acknowledged.
pub(crate) fn unacknowledged(fd: c_int) -> Option<u64> {
    number(fd, libc::TIOCOUTQ)
}

/// How many bytes the kernel takes at once while it has none: half of its buffer, of which the other half is
/// what it keeps beside bytes.
pub(crate) fn takes_at_once(fd: c_int) -> u64 {
    let buffer = raw::socket_option::<c_int>(fd, libc::SO_SNDBUF).unwrap_or(0);
    u64::try_from(buffer / 2).unwrap_or(0)
}

/// Whether it holds back what does not fill a segment, until it is told otherwise (`TCP_CORK`).
pub(crate) fn is_corked(fd: c_int) -> bool {
    raw::tcp_option(fd, libc::TCP_CORK).is_ok_and(|is_on| is_on != 0)
}

/// Whether what comes next stands behind an urgent byte.
pub(crate) fn is_at_mark(fd: c_int) -> bool {
    const SIOCATMARK: libc::Ioctl = 0x8905;
    number(fd, SIOCATMARK) == Some(1)
}

/// What a connection is that both ends have closed, though the kernel says that it is none any more.
const TIME_WAIT: u8 = 6;
/// None any more.
const CLOSE: u8 = 7;
/// The other end has closed.
const CLOSE_WAIT: u8 = 8;

/// How often calls are made that have to be of one moment, while the other end, on another processor, changes
/// what they say all the time.
const TRIES: usize = 10_000;

/// Bytes that this end has taken from the kernel. `may_be_reset`: somebody may have been told of a reset,
/// which the kernel says once, to whoever asks first.
pub(crate) fn taken(fd: c_int, may_be_reset: bool) -> Taken {
    let Some((Info { state, received, .. }, unread)) = received(fd) else { return Taken::Unknown };
    if state != CLOSE {
        return count::taken(state, received, unread).map_or(Taken::Unknown, Taken::Bytes);
    }
    let is_ended = !may_be_reset && polled(fd, 0, 0) & libc::POLLERR == 0;
    let otherwise = count::taken(if is_ended { TIME_WAIT } else { CLOSE }, received, unread);
    Taken::Closed { received, unread, otherwise }
}

/// What has been received and what of it is unread, of one moment.
fn received(fd: c_int) -> Option<(Info, u64)> {
    for _ in 0..TRIES {
        let before = Info::ask(fd)?;
        let unread = unread(fd)?;
        let after = Info::ask(fd)?;
        if (before.received, before.state) == (after.received, after.state) {
            return Some((after, unread));
        }
    }
    None
}

/// Bytes that this end has given to the kernel, if its writing half is still open.
pub(crate) fn written(fd: c_int, extra: u64) -> Option<u64> {
    for _ in 0..TRIES {
        let before = Info::ask(fd)?;
        let unacked = unacknowledged(fd)?;
        let after = Info::ask(fd)?;
        if !after.is_writable() {
            return None;
        }
        if before.acked == after.acked {
            return count::written(after.acked, unacked, extra);
        }
    }
    None
}

/// What the kernel counts too many as acknowledged, if that can be told: `received` asks the other end what
/// it has received.
pub(crate) fn extra(fd: c_int, received: impl FnOnce() -> Option<u64>) -> Option<u64> {
    let unacked = unacknowledged(fd)?;
    let info = Info::ask(fd)?;
    let received = received()?;
    if let Some(extra) = count::extra_acked(info.acked, unacked, received) {
        // Another thread may have written meanwhile.
        let is_of_one_moment = unacknowledged(fd)? == unacked && Info::ask(fd)?.acked == info.acked;
        return is_of_one_moment.then_some(extra);
    }
    // Bytes are on their way. The kernel's other count is too high by what it had to send again after a
    // failure of its own, never too low: if it is below, that is the SYN.
    let is_syn = info.acked.checked_add(unacked)?.checked_sub(info.handed)? == 1;
    (is_syn && unacknowledged(fd)? == unacked && Info::ask(fd)? == info).then_some(1)
}

/// What the kernel would say of a descriptor to somebody who polls it.
pub(crate) fn polled(fd: c_int, events: c_short, wait_ms: c_int) -> c_short {
    let mut one = libc::pollfd { fd, events, revents: 0 };
    if poll(&mut one, wait_ms) == 1 { one.revents } else { 0 }
}

/// Sleeps until the descriptor is so, or for so long; what the kernel says of that.
pub(crate) fn sleeps(fd: c_int, events: c_short, wait_ms: c_int) -> isize {
    poll(&mut libc::pollfd { fd, events, revents: 0 }, wait_ms)
}

fn poll(one: &mut libc::pollfd, wait_ms: c_int) -> isize {
    // SAFETY: one entry, which is the call's to write.
    unsafe { raw::call(libc::SYS_poll, [(&raw mut *one) as usize, 1, wait_ms as usize, 0, 0, 0]) }
}

/// What the kernel holds for a reader, without taking anything. `may_be_reset` as of [`taken`].
pub(crate) fn held(fd: c_int, may_be_reset: bool) -> Held {
    let Some(unread_bytes) = unread(fd) else { return Held::Error };
    if unread_bytes > 0 {
        return Held::Bytes(unread_bytes);
    }
    let said = polled(fd, libc::POLLIN | libc::POLLRDHUP, 0);
    if said & libc::POLLERR != 0 {
        return closed(fd, Held::Error);
    }
    // Readable without an end: another reader, who takes no lock, has had the bytes since. More may come at
    // any time, and an end.
    if said & (libc::POLLRDHUP | libc::POLLHUP) == 0 {
        return match unread(fd) {
            Some(0) => Held::Nothing,
            Some(bytes) => Held::Bytes(bytes),
            None => Held::Error,
        };
    }
    match unread(fd) {
        Some(0) if may_be_reset => closed(fd, Held::End),
        Some(0) => Held::End,
        Some(bytes) => Held::Bytes(bytes),
        None => Held::Error,
    }
}

/// What a connection without bytes holds, if it is closed; else this.
fn closed(fd: c_int, otherwise: Held) -> Held {
    match Info::ask(fd) {
        Some(info) if info.is_closed() => Held::Closed { received: info.received },
        Some(_) => otherwise,
        None => Held::Error,
    }
}

/// Whether the other end has finished, also if this end has shut down its own reading half, which looks like
/// an end to `poll`.
pub(crate) fn has_ended(fd: c_int) -> bool {
    Info::ask(fd).is_none_or(Info::has_ended)
}

/// Whether the other end has closed, reset or shut down its writing half; or this end its reading half.
pub(crate) fn has_hung_up(fd: c_int) -> bool {
    polled(fd, libc::POLLRDHUP, 0) & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
}

/// Whether the kernel may take more from this end, now or later: the connection lives, and this half of it
/// was not shut down. The other end, which may only have shut down its own half, says nothing about that.
pub(crate) fn takes_more(fd: c_int) -> bool {
    takes(fd) != Takes::Nothing
}

/// What the kernel takes from this end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    More,
    /// As that, but the other end has closed, or shut down its writing half.
    ForAnEnded,
    Nothing,
}

/// See [`takes_more`].
pub(crate) fn takes(fd: c_int) -> Takes {
    match Info::ask(fd).filter(|info| info.is_writable()) {
        Some(Info { state: CLOSE_WAIT, .. }) => Takes::ForAnEnded,
        Some(_) => Takes::More,
        None => Takes::Nothing,
    }
}

/// A message around some parts.
fn message(parts: &mut [iovec; PARTS], used: usize) -> msghdr {
    // SAFETY: a message is numbers and pointers, for which 0 is a value.
    let mut message: msghdr = unsafe { core::mem::MaybeUninit::zeroed().assume_init() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = used;
    message
}

/// Receives into the program's bytes; the result is the kernel's.
pub(crate) fn receive(fd: c_int, bytes: &Bytes, most: usize, flags: c_int) -> isize {
    let mut parts = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
    let used = bytes.slice(0, most, &mut parts);
    let mut message = message(&mut parts, used);
    // SAFETY: the program's own room.
    unsafe {
        raw::call(libc::SYS_recvmsg, [fd as usize, (&raw mut message) as usize, flags as usize, 0, 0, 0])
    }
}

/// Sends bytes of a ring; the result is the kernel's.
pub(crate) fn send(fd: c_int, from: *const u8, length: usize) -> isize {
    let flags = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as usize;
    // SAFETY: the ring's own bytes.
    unsafe { raw::call(libc::SYS_sendto, [fd as usize, from as usize, length, flags, 0, 0]) }
}

/// Sends what is left of the program's bytes; the result is the kernel's.
pub(crate) fn send_rest(fd: c_int, bytes: &Bytes, done: usize, flags: c_int) -> isize {
    let mut parts = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
    let used = bytes.slice(done, usize::MAX, &mut parts);
    let message = message(&mut parts, used);
    // SAFETY: the program's own bytes.
    unsafe {
        raw::call(libc::SYS_sendmsg, [fd as usize, (&raw const message) as usize, flags as usize, 0, 0, 0])
    }
}

/// Acknowledges what has come at once, as an answer through the kernel would have: the other end may be
/// waiting for that before it sends its next small message (RFC 896), and otherwise waits for a timer.
#[cold]
pub(crate) fn acknowledge(fd: c_int) {
    let is_on: c_int = 1;
    let value = (&raw const is_on) as usize;
    let arguments =
        [fd as usize, libc::IPPROTO_TCP as usize, libc::TCP_QUICKACK as usize, value, size_of::<c_int>(), 0];
    // SAFETY: the option's own value.
    unsafe { raw::call(libc::SYS_setsockopt, arguments) };
}

/// Tells everybody who waits for room, by whatever they wait, that there is some, if the kernel has some. A
/// program that this library has told that there is none, although there was, waits for the next edge, which
/// the kernel has no reason to make. (The kernel does so whenever this limit is set; to what it is changes
/// nothing.)
#[cold]
pub(crate) fn tells_of_room(fd: c_int) {
    let Ok(limit) = raw::tcp_option(fd, libc::TCP_NOTSENT_LOWAT) else { return };
    let (level, option) = (libc::IPPROTO_TCP as usize, libc::TCP_NOTSENT_LOWAT as usize);
    let arguments = [fd as usize, level, option, (&raw const limit) as usize, size_of::<c_int>(), 0];
    // SAFETY: the option's own value.
    unsafe { raw::call(libc::SYS_setsockopt, arguments) };
}
